// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cli/common_options.hpp"
#include "cli/document.hpp"
#include "cli/naming_cache.hpp"
#include "cli/parallel.hpp"
#include "cli/progress_line.hpp"
#include "cli/recordings.hpp"
#include "cli/survey/fleet.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
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
      "access differs.",
      {"gpuinfer validate profile.yaml run.h5                       a profile against a recording",
       "gpuinfer validate gtx560ti texture-*.txt --target L1tex     a published GPU against somebody's chases",
       "gpuinfer validate profile.yaml run.h5 -o report.json --format json"});
  syntax
      .repeatable("target", "T",
                  "compare traces of this load path only, may be repeated (default: all); the name for traces that "
                  "name none (default L1tex)")
      .value("seed", "N", "of the chance in a replacement policy (default 1)");
  add_output_options(syntax);
  syntax.value("jobs", "N", "maximum number of threads (default: all cores); the result does not depend on it");
  return syntax;
}

namespace {

struct Comparison {
  model::Trace trace;
  std::uint64_t address_of_buffer = 0;
  infer::Agreement agreement;
};

std::vector<Comparison> comparisons(const std::vector<std::string>& files, const std::vector<std::string>& asked) {
  const bool all = asked.empty() || std::find(asked.begin(), asked.end(), "all") != asked.end();
  std::vector<Comparison> chosen;
  StepBar bar("validate", files.size());
  for (const std::string& file : files) {
    bar.doing("reading " + file);
    Recording recording = read_recording(file);
    if (!recording.set_sequences.empty()) {
      throw InputError(file +
                       ": holds sequences over one set, without addresses, which only `gpuinfer infer` explains");
    }
    name_target(recording, asked);
    for (model::Trace& trace : recording.traces) {
      if (all || std::find(asked.begin(), asked.end(), trace.question.target) != asked.end()) {
        const std::uint64_t address = recording.facts.buffer_of(trace.question.target).address;
        chosen.push_back({.trace = std::move(trace), .address_of_buffer = address, .agreement = {}});
      }
    }
    bar.step();
  }
  if (chosen.empty()) {
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

void compare(std::vector<Comparison>& compared, const model::DeviceDescription& profile, const std::string& file,
             std::uint64_t seed, const std::optional<std::size_t>& jobs) {
  StepBar bar("validate", compared.size());
  bar.doing("simulating the recorded sequences");
  for_each_index(compared.size(), jobs, [&](std::size_t i) {
    Comparison& each = compared[i];
    const model::CacheDescription& cache = cache_for(profile, file, each.trace.question.target);
    each.agreement = naming_cache(file, each.trace.question.target,
                                  [&] { return infer::validate(cache, each.trace, each.address_of_buffer, seed); });
    bar.step();
  });
}

bool differs(const infer::Agreement& agreement) { return agreement.first_disagreement.has_value(); }

// No value where nothing could be judged.
std::optional<double> share(const infer::Agreement& agreement) {
  const bool judged = agreement.outliers + agreement.undetermined < agreement.accesses;
  return judged ? std::optional(agreement.share()) : std::nullopt;
}

std::string table(const std::vector<Comparison>& compared) {
  constexpr std::string_view columns = "{:>9} {:>9} {:>8} {:>6} {:>9} {:>10} {:>12} {:>8}  {}\n";
  std::string text = fmt::format(columns, "accesses", "agreeing", "outliers", "open", "agreement", "false hits",
                                 "false misses", "first at", "trace");
  for (const Comparison& each : compared) {
    const infer::Agreement& agreement = each.agreement;
    const std::optional<double> agreeing_share = share(agreement);
    text += fmt::format(columns, agreement.accesses, agreement.agreeing, agreement.outliers, agreement.undetermined,
                        agreeing_share ? fmt::format("{:.6f}", *agreeing_share) : "-", agreement.confusion[0][1],
                        agreement.confusion[1][0],
                        agreement.first_disagreement ? std::to_string(*agreement.first_disagreement) : "-",
                        each.trace.name);
  }
  return text;
}

Document report(const std::string& profile, const std::vector<Comparison>& compared) {
  Document document;
  document["profile"] = profile;
  document["traces"] = Document::array();
  for (const Comparison& each : compared) {
    const infer::Agreement& agreement = each.agreement;
    Document trace;
    trace["trace"] = each.trace.name;
    trace["target"] = each.trace.question.target;
    trace["accesses"] = agreement.accesses;
    trace["agreeing"] = agreement.agreeing;
    trace["outliers"] = agreement.outliers;
    trace["undetermined"] = agreement.undetermined;
    trace["agreement"] = value_or_null(share(agreement));
    trace["predicted_hit_measured_miss"] = agreement.confusion[0][1];
    trace["predicted_miss_measured_hit"] = agreement.confusion[1][0];
    trace["first_disagreement"] = value_or_null(agreement.first_disagreement);
    document["traces"].push_back(std::move(trace));
  }
  return document;
}

void warn_of_chance(const model::DeviceDescription& profile, const std::vector<Comparison>& compared) {
  for (const auto& [target, cache] : profile.caches) {
    const bool used = std::any_of(compared.begin(), compared.end(), [&name = target](const Comparison& each) {
      return each.trace.question.target == name;
    });
    if (used && cache.replacement && !is_deterministic(*cache.replacement)) {
      warn(chance_in_validation(target, cache.replacement->policy));
    }
  }
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
  const std::string file = survey::profile_file(operands.front());
  const auto output_file = parsed->text("output");
  Output output(output_file);

  const model::DeviceDescription profile = survey::read_profile(file);
  std::vector<Comparison> compared = comparisons({operands.begin() + 1, operands.end()}, asked);
  compare(compared, profile, file, seed, parsed->count("jobs"));

  const bool wants_document = output_file || parsed->text("format");
  if (output_file || !wants_document) {
    std::cout << table(compared);
  }
  if (wants_document) {
    output.stream() << to_text(report(file, compared), format);
  }
  output.finish();
  warn_of_chance(profile, compared);
  const bool differ =
      std::any_of(compared.begin(), compared.end(), [](const Comparison& each) { return differs(each.agreement); });
  return differ ? ExitStatus::failure : ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
