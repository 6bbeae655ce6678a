// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "cli/common_options.hpp"
#include "cli/document.hpp"
#include "cli/naming_cache.hpp"
#include "cli/parallel.hpp"
#include "cli/profiles.hpp"
#include "cli/progress_line.hpp"
#include "cli/recordings.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "infer/recordings/validate.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax validate_syntax() {
  Syntax syntax(
      "validate PROFILE TRACE... [--target T] [-o report.yaml]",
      "Simulates the sequences of recordings on a profile and compares, access by access. PROFILE is a file or the "
      "name of\na published device. Latencies that are neither a hit nor a miss (outliers), and accesses whose outcome "
      "depends on\nwhat came before the recording (open), are counted and not judged. The exit status is 1 when any "
      "other "
      "access\ndiffers, and 3 when none could be judged. A random policy is compared with 999 simulated runs: the "
      "misses of each\nset, the likelihood of all, the lines that miss twice in a row, and what no chance touches; the "
      "exit status is "
      "1 when\nthe recording is among the farthest 1 %. Hits and misses are compared, and nothing else: the latencies "
      "are "
      "told "
      "beside those of the profile, and\nrecordings with stores or contended loads are left out and counted.",
      {"gpuinfer validate profile.yaml run.h5                       a profile against a recording",
       "gpuinfer validate gtx560ti texture-*.txt --target L1tex     a published GPU against somebody's chases",
       "gpuinfer validate profile.yaml run.h5 -o report.json --format json"});
  syntax.operands(ValueKind::descriptions);
  syntax
      .repeatable("target", target_value,
                  "compare traces of this load path only, may be repeated (default: all); the name for traces that "
                  "name none (default L1tex)")
      .value("seed", "N", "of the chance in a replacement policy (default 1)");
  add_output_options(syntax);
  syntax.value("jobs", "N", "maximum number of threads (default: all cores); the result does not depend on it");
  return syntax;
}

namespace {

constexpr std::string_view agreement_columns = "{:>9} {:>9} {:>8} {:>6} {:>9} {:>10} {:>12} {:>8}  {}\n";

struct Comparison {
  model::Trace trace;
  model::Address address_of_buffer = {};
  infer::Agreement agreement;
};

// What was recorded of the targets that were asked for, and is no sequence of loads that a cache could be simulated on.
struct LeftOut {
  std::size_t traces = 0;  // with stores or contended loads
  std::set<std::string> timed_targets;

  [[nodiscard]] bool any() const { return traces > 0 || !timed_targets.empty(); }
};

// The latencies that were recorded of a cache, and those of the profile.
struct Latencies {
  model::LatencyCycles recorded;
  model::LatencyCycles described;
};

struct Compared {
  std::vector<Comparison> traces;
  LeftOut left_out;
  std::map<std::string, Latencies> latencies;  // by target
};

std::string text_of(const LeftOut& left_out) {
  std::string text;
  if (left_out.traces > 0) {
    text = fmt::format("{} traces with stores or contended loads", left_out.traces);
  }
  for (const std::string& target : left_out.timed_targets) {
    text += (text.empty() ? "" : ", ") + target;
  }
  return text;
}

Compared comparisons(const std::vector<std::string>& files, const std::vector<std::string>& asked) {
  const bool all = asked.empty() || std::find(asked.begin(), asked.end(), "all") != asked.end();
  Compared chosen;
  StepBar bar("validate", files.size());
  for (const std::string& file : files) {
    bar.doing("reading " + file);
    Recording recording = read_recording(file);
    if (!recording.set_sequences.empty()) {
      throw InputError(file +
                       ": holds sequences over one set, without addresses, which only `gpuinfer infer` explains");
    }
    name_target(recording, asked);
    const auto is_asked = [&](std::string_view target) {
      return all || std::ranges::find(asked, target) != asked.end();
    };
    std::ranges::copy_if(recording.timed_targets,
                         std::inserter(chosen.left_out.timed_targets, chosen.left_out.timed_targets.end()), is_asked);
    const auto is_wanted = [&](std::string_view target, const model::Circumstances& circumstances) {
      const bool is_simulated = !circumstances.contended_pairs && circumstances.stores.empty();
      chosen.left_out.traces += is_asked(target) && !is_simulated ? 1U : 0U;
      return is_asked(target) && is_simulated;
    };
    for_each_trace(recording, is_wanted, [&](const model::Trace& trace) {
      const model::Address address = recording.facts.buffer_of(trace.question.target).address;
      chosen.traces.push_back({.trace = trace, .address_of_buffer = address, .agreement = {}});
    });
    bar.step();
  }
  if (chosen.traces.empty() && chosen.left_out.any()) {
    throw InputError("all that is in the recordings is left out: " + text_of(chosen.left_out) +
                     "; name recordings of loads");
  }
  if (chosen.traces.empty()) {
    throw InputError("--target: no trace of that load path is in the recordings; leave it out to take all that are");
  }
  return chosen;
}

const model::CacheDescription& cache_for(const model::DeviceDescription& profile, const std::string& file,
                                         const std::string& target) {
  const auto found = profile.caches.find(target);
  if (found == profile.caches.end()) {
    throw InputError(file + ": caches." + target + ": is missing, and a trace is of it; choose others with --target");
  }
  return found->second;
}

// The profile's cache, and what tells its levels apart: its own latencies, else those of all recordings together.
model::CacheDescription guided_cache(Compared& compared, const model::DeviceDescription& profile,
                                     const std::string& file, const std::string& target) {
  model::CacheDescription cache = cache_for(profile, file, target);
  std::vector<const model::Trace*> traces;
  for (const Comparison& each : compared.traces) {
    if (each.trace.question.target == target) {
      traces.push_back(&each.trace);
    }
  }
  const model::LatencyCycles recorded = infer::recorded_levels(traces, cache.latency_cycles);
  compared.latencies.emplace(target, Latencies{.recorded = recorded, .described = cache.latency_cycles});
  if (!cache.latency_cycles.hit || !cache.latency_cycles.miss) {
    cache.latency_cycles.hit = recorded.hit;
    cache.latency_cycles.miss = recorded.miss;
  }
  return cache;
}

void compare(Compared& compared, const model::DeviceDescription& profile, const std::string& file, std::uint64_t seed,
             const std::optional<std::size_t>& jobs) {
  std::map<std::string, model::CacheDescription> caches;
  for (const Comparison& each : compared.traces) {
    const std::string& target = each.trace.question.target;
    if (!caches.contains(target)) {
      caches.emplace(target, guided_cache(compared, profile, file, target));
    }
  }
  StepBar bar("validate", compared.traces.size());
  bar.doing("simulating the recorded sequences");
  for_each_index(compared.traces.size(), jobs, [&](std::size_t i) {
    Comparison& each = compared.traces[i];
    const std::string& target = each.trace.question.target;
    each.agreement = naming_cache(
        file, target, [&] { return infer::validate(caches.at(target), each.trace, each.address_of_buffer, seed + i); });
    bar.step();
  });
}

// Sums, and the p-value of all recordings of a random policy.
infer::Agreement total_of(const std::vector<Comparison>& compared) {
  infer::Agreement total;
  for (const Comparison& each : compared) {
    total.accesses += each.agreement.accesses;
    total.agreeing += each.agreement.agreeing;
    total.outliers += each.agreement.outliers;
    total.undetermined += each.agreement.undetermined;
    total.confusion[0][1] += each.agreement.confusion[0][1];
    total.confusion[1][0] += each.agreement.confusion[1][0];
  }
  return total;
}

// None: no recording is of a random policy.
std::optional<double> p_value_of(const std::vector<Comparison>& compared) {
  std::vector<const infer::ChanceAgreement*> recordings;
  for (const Comparison& each : compared) {
    if (each.agreement.chance) {
      recordings.push_back(&*each.agreement.chance);
    }
  }
  return recordings.empty() ? std::nullopt : std::optional(infer::p_value_of_all(recordings));
}

bool is_any_judged(const std::vector<Comparison>& compared) {
  return std::ranges::any_of(compared, [](const Comparison& each) {
    const infer::Agreement& agreement = each.agreement;
    return agreement.outliers + agreement.undetermined < agreement.accesses ||
           (agreement.chance && agreement.chance->judged > 0);
  });
}

bool differ(const std::vector<Comparison>& compared) {
  constexpr double believable = 0.01;
  return p_value_of(compared).value_or(1) <= believable || std::ranges::any_of(compared, [](const Comparison& each) {
           return each.agreement.first_disagreement.has_value();
         });
}

// No value where nothing could be judged.
std::optional<double> share(const infer::Agreement& agreement) {
  const bool judged = agreement.outliers + agreement.undetermined < agreement.accesses;
  return judged ? std::optional(agreement.share()) : std::nullopt;
}

std::string row(const infer::Agreement& agreement, const std::string& name) {
  const std::optional<double> agreeing_share = share(agreement);
  return fmt::format(agreement_columns, agreement.accesses, agreement.agreeing, agreement.outliers,
                     agreement.undetermined, agreeing_share ? fmt::format("{:.6f}", *agreeing_share) : "-",
                     agreement.confusion[0][1], agreement.confusion[1][0],
                     agreement.first_disagreement ? std::to_string(*agreement.first_disagreement) : "-", name);
}

std::string table(const std::vector<Comparison>& compared) {
  std::string text = fmt::format(agreement_columns, "accesses", "agreeing", "outliers", "open", "agreement",
                                 "false hits", "false misses", "first at", "trace");
  for (const Comparison& each : compared) {
    text += row(each.agreement, each.trace.name);
  }
  return text + row(total_of(compared), "total");
}

std::string table_of_chance(const std::vector<Comparison>& compared) {
  const std::optional<double> p_value = p_value_of(compared);
  if (!p_value) {
    return "";
  }
  constexpr std::string_view columns = "{:>9} {:>9} {:>17} {:>8} {:>12} {:>9} {:>17}  {}\n";
  std::string text = "\nA random policy, beside 999 simulated runs:\n" +
                     fmt::format(columns, "judged", "misses", "99 % of runs", "p (sets)", "p (likely)", "p (twice)",
                                 "no chance, wrong", "trace");
  for (const Comparison& each : compared) {
    if (const auto& chance = each.agreement.chance) {
      const auto& [low, high] = chance->expected_misses;
      text += fmt::format(columns, chance->judged, chance->misses, fmt::format("{} to {}", low, high),
                          fmt::format("{:.3f}", chance->p_of_sets), fmt::format("{:.3f}", chance->p_of_likelihood),
                          fmt::format("{:.3f}", chance->p_of_repeats),
                          fmt::format("{} of {}", chance->certain_otherwise, chance->certain), each.trace.name);
    }
  }
  return text + fmt::format("p of all: {:.4f}; a true profile is below 0.01 in one of a hundred\n", *p_value);
}

std::string cycles_or_not_known(const std::optional<double>& cycles) {
  return cycles ? fmt::format("{:.6g}", *cycles) : "not known";
}

// What else there is to say, a line for each.
std::string remarks(const Compared& compared) {
  std::string text;
  for (const auto& [target, latencies] : compared.latencies) {
    const auto& [recorded, described] = latencies;
    text += fmt::format("latencies of {}, not judged: hits {}, in the profile {}; misses {}, in the profile {}\n",
                        target, cycles_or_not_known(recorded.hit), cycles_or_not_known(described.hit),
                        cycles_or_not_known(recorded.miss), cycles_or_not_known(described.miss));
  }
  if (compared.left_out.any()) {
    text += "left out: " + text_of(compared.left_out) + "\n";
  }
  if (!is_any_judged(compared.traces)) {
    text += "nothing could be judged, so this says nothing of the profile\n";
  }
  return text;
}

Document chance_document(const infer::ChanceAgreement& chance) {
  Document document;
  document["judged"] = chance.judged;
  document["misses"] = chance.misses;
  document["misses_of_99_percent_of_runs"] = {chance.expected_misses.first, chance.expected_misses.second};
  document["p_of_sets"] = chance.p_of_sets;
  document["p_of_likelihood"] = chance.p_of_likelihood;
  document["p_of_repeats"] = chance.p_of_repeats;
  document["alike_in_all_runs"] = chance.certain;
  document["of_these_otherwise"] = chance.certain_otherwise;
  document["p_of_these"] = chance.p_of_certain;
  document["sets"] = Document::array();
  for (const infer::ChanceAgreement::SetMisses& each : chance.sets) {
    Document set;
    set["set"] = each.set;
    set["judged"] = each.judged;
    set["misses"] = each.misses;
    set["misses_of_99_percent_of_runs"] = {each.expected_misses.first, each.expected_misses.second};
    document["sets"].push_back(std::move(set));
  }
  return document;
}

Document agreement_document(const infer::Agreement& agreement) {
  Document document;
  document["accesses"] = agreement.accesses;
  document["agreeing"] = agreement.agreeing;
  document["outliers"] = agreement.outliers;
  document["undetermined"] = agreement.undetermined;
  document["agreement"] = value_or_null(share(agreement));
  document["predicted_hit_measured_miss"] = agreement.confusion[0][1];
  document["predicted_miss_measured_hit"] = agreement.confusion[1][0];
  return document;
}

Document levels_document(const model::LatencyCycles& levels) {
  return {{"hit", value_or_null(levels.hit)}, {"miss", value_or_null(levels.miss)}};
}

Document comparison_report(const std::string& profile, const Compared& all) {
  const std::vector<Comparison>& compared = all.traces;
  Document document;
  document["profile"] = profile;
  document["traces"] = Document::array();
  for (const Comparison& each : compared) {
    Document trace;
    trace["trace"] = each.trace.name;
    trace["target"] = each.trace.question.target;
    trace.update(agreement_document(each.agreement));
    trace["first_disagreement"] = value_or_null(each.agreement.first_disagreement);
    if (each.agreement.chance) {
      trace["chance"] = chance_document(*each.agreement.chance);
    }
    document["traces"].push_back(std::move(trace));
  }
  document["total"] = agreement_document(total_of(compared));
  document["total"]["p_value_of_chance"] = value_or_null(p_value_of(compared));
  document["latency_cycles"] = Document::object();
  for (const auto& [target, latencies] : all.latencies) {
    document["latency_cycles"][target] = {{"recorded", levels_document(latencies.recorded)},
                                          {"profile", levels_document(latencies.described)}};
  }
  document["left_out"] = {{"traces", all.left_out.traces}, {"targets", all.left_out.timed_targets}};
  return document;
}

}  // namespace

ExitStatus verb_validate(Arguments arguments) {
  const auto parsed = validate_syntax().parse(arguments, 2, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Format format = format_from(parsed->text("format"));
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  const std::uint64_t seed = seed_or_default(parsed->count("seed"));
  const std::vector<std::string> operands = parsed->operands();
  const std::string file = profile_file(operands.front());
  const auto output_file = parsed->text("output");
  Output output(output_file);

  const model::DeviceDescription profile = read_profile(file);
  Compared compared = comparisons({operands.begin() + 1, operands.end()}, asked);
  compare(compared, profile, file, seed, parsed->count("jobs"));

  const bool wants_document = output_file || parsed->text("format");
  if (output_file || !wants_document) {
    std::cout << table(compared.traces) << table_of_chance(compared.traces) << remarks(compared);
  }
  if (wants_document) {
    output.stream() << to_text(comparison_report(file, compared), format);
  }
  output.finish();
  if (differ(compared.traces)) {
    return ExitStatus::failure;
  }
  return is_any_judged(compared.traces) ? ExitStatus::resolved : ExitStatus::unresolved;
}

}  // namespace gpuinfer::cli
