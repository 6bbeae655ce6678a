// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <utility>

#include "cli/common_options.hpp"
#include "cli/inquiry.hpp"
#include "cli/interrupt.hpp"
#include "cli/leaf_table.hpp"
#include "cli/progress_line.hpp"
#include "cli/ranks.hpp"
#include "cli/recordings.hpp"
#include "cli/shared_work.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "infer/asking/ending.hpp"
#include "infer/recordings/infer_array_timings.hpp"
#include "infer/recordings/infer_set_sequences.hpp"
#include "infer/recordings/infer_traces.hpp"
#include "infer/studies.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

namespace {

constexpr double longest_silence_of_ranks_s = 30;

}  // namespace

Syntax infer_syntax() {
  Syntax syntax(
      "infer TRACE... [--target T] [-o profile.yaml]",
      "Finds out what recordings decide about a cache, and no more. An archive that the main job recorded is "
      "asked\nagain, question by question, and gives the profile of that run. Every other recording (of `gpuinfer "
      "probe`, the\ntext files of Mei & Chu, CSV `offset,latency`, raw rows of MT4G `size,latency,...`, "
      "`stride,size,latency,...` or\n`stride,latency,...`) holds what somebody chose to record: all of them together "
      "are explained by simulation. Rows\n`<wbinvd> B0 B1 B0? -> 1` in the notation of nanoBench, accesses to one set "
      "with the hits among those with `?`, leave\nthe policies that explain them. What a file holds is told from its "
      "content.",
      {"gpuinfer infer run.h5                                       what `gpuinfer --record run.h5` found",
       "gpuinfer infer texture-*.txt --target L1tex                 chases that somebody recorded",
       "gpuinfer infer chase.csv --target L2 -o profile.yaml        rows `offset,latency`",
       "gpuinfer infer sizes.csv --target L1tex                     raw rows of MT4G",
       "mpirun gpuinfer infer walk.h5 --mpi -o profile.yaml         the work shared among machines"});
  syntax.operands(ValueKind::read_files);
  syntax
      .repeatable("target", target_value,
                  "look at traces of this load path only, may be repeated (default: all); the name for traces that "
                  "name none (default "
                  "L1tex)")
      .value("seed", "N", "random seed (default: that of the recording, else 1)");
  add_limit_options(syntax);
  add_output_options(syntax);
  syntax.flag("mpi", "share the scoring of hypotheses with the other processes that mpirun started; same bytes out")
      .value("rank-timeout", "S",
             "with --mpi: a rank that says nothing for so many seconds is lost, and all end (default 30)")
      .flag("explain", "tell on stderr what was asked, why, and what was learned from it")
      .flag("quiet", "no progress and no summary on stderr");
  return syntax;
}

namespace {

std::vector<Recording> read_all(const std::vector<std::string>& files, const std::vector<std::string>& asked) {
  std::vector<Recording> recordings;
  StepBar bar("infer", files.size());
  for (const std::string& file : files) {
    bar.doing("reading " + file);
    recordings.push_back(read_recording_to_explain(file));
    name_target(recordings.back(), asked);
    bar.step();
  }
  return recordings;
}

std::vector<std::string> targets_in(const std::vector<Recording>& recordings) {
  std::vector<std::string> targets;
  for (const Recording& recording : recordings) {
    for (const std::string& target : targets_of(recording)) {
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
        targets.push_back(target);
      }
    }
  }
  return targets;
}

// Which of the targets in the recordings to look at.
std::vector<std::string> chosen_targets(const std::vector<std::string>& asked, const std::vector<std::string>& there) {
  if (asked.empty() || std::find(asked.begin(), asked.end(), "all") != asked.end()) {
    return there;
  }
  for (const std::string& target : asked) {
    if (std::find(there.begin(), there.end(), target) == there.end()) {
      throw InputError("--target: no trace of " + target + " is in the recordings; leave it out to take all that are");
    }
  }
  return asked;
}

bool learned_nothing(const Inquiry& inquiry) {
  const auto& evidence = inquiry.profile.evidence;
  return std::none_of(evidence.begin(), evidence.end(), [](const auto& cache) {
    const auto& leaves = cache.second.leaves;
    return std::any_of(leaves.begin(), leaves.end(),
                       [](const auto& leaf) { return leaf.second.status == model::EvidenceStatus::resolved; });
  });
}

Inquiry replay(const Recording& recording, const std::vector<std::string>& targets, const infer::Settings& settings,
               bool quiet) {
  const auto device = probe::open_recording(recording.file, "recorded:" + recording.file);
  InterruptWatch::will_conclude();
  return inquire(*device, device->facts(), targets, settings, quiet);
}

// What else was found out than the cache itself, which is in `profile` then.
infer::Finding put(infer::CacheFinding found, const std::string& target, model::DeviceDescription& profile) {
  profile.caches[target] = std::move(found.cache);
  return found;
}

// The same scorer, which tells how many hypotheses it has tried. How many there will be nobody knows.
infer::Scorer telling(const infer::Scorer& scorer, const infer::Settings& settings) {
  return [&scorer, &settings, tried = std::size_t{0}](std::size_t hypotheses, const infer::Score& score) mutable {
    const std::string finding = fmt::format("search by simulation: {} hypotheses tried", grouped(tried));
    settings.on_progress({.finding = finding, .done = 0, .questions = 0, .accesses = 0});
    tried += hypotheses;
    return scorer(hypotheses, score);
  };
}

Inquiry explain(const std::vector<Recording>& recordings, const std::vector<std::string>& targets,
                const infer::Settings& settings, const infer::Scorer& scorer, bool quiet) {
  const model::DeviceFacts& facts = recordings.front().facts;
  return inquire(facts, {.targets = targets, .asked = targets}, settings, quiet,
                 [&](const std::string& target, const infer::Settings& limited, model::DeviceDescription& profile) {
                   const std::string recorded_as(infer::study_of(target, facts).recorded_as);
                   if (!recorded_as.empty()) {
                     throw InputError("--target: " + target + " was recorded as " + recorded_as +
                                      ", which only the recording of a whole run explains; give that one alone");
                   }
                   // The traces hold addresses.
                   constexpr model::Address address_of_buffer = {};
                   const std::vector<model::Trace> traces = addressed_traces(recordings, target);
                   InterruptWatch::will_conclude();  // to take them in takes as long as to read them
                   return put(infer::infer_traces(traces, address_of_buffer, limited, telling(scorer, limited)), target,
                              profile);
                 });
}

// Rows that stand in place of traces, of all of the recordings; none in any: no value. `what`: what others hold.
template <class Row>
std::optional<std::vector<Row>> rows_of(const std::vector<Recording>& recordings, std::vector<Row> Recording::*rows,
                                        const char* what) {
  std::vector<Row> all;
  for (const Recording& recording : recordings) {
    all.insert(all.end(), (recording.*rows).begin(), (recording.*rows).end());
  }
  if (all.empty()) {
    return std::nullopt;
  }
  for (const Recording& recording : recordings) {
    if ((recording.*rows).empty()) {
      throw InputError(recording.file + ": holds no " + what + " as others do; explain it by itself");
    }
  }
  return all;
}

// What such rows say of the one target that was asked for.
template <class Infer>
Inquiry explain_rows(const Recording& first, const std::vector<std::string>& asked, const infer::Settings& settings,
                     bool quiet, const Infer& infer) {
  if (asked.size() > 1 || stands_for_all(asked)) {
    throw InputError("--target: " + first.file + " names no load path; write one");
  }
  const std::vector<std::string> target = asked.empty() ? std::vector<std::string>{"L1tex"} : asked;
  InterruptWatch::will_conclude();
  return inquire(first.facts, {.targets = target, .asked = target}, settings, quiet,
                 [&](const std::string& name, const infer::Settings& limited, model::DeviceDescription& profile) {
                   return put(infer(limited), name, profile);
                 });
}

// By whichever rank notices it, all but the first of which say nothing otherwise.
void tell_loss(std::size_t rank, double patience_seconds) {
  const std::string sentence = fmt::format(
      "gpuinfer: rank {} said nothing for {} s (--rank-timeout), so all ranks end; begin again without its host\n",
      rank, patience_seconds);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, sentence.data(), sentence.size());
}

// The profile from these words, of which `shared` says with whom the work is shared (none: with nobody).
ExitStatus infer_as_asked(Arguments arguments, SharedWork* shared) {
  const auto parsed = infer_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Verbosity verbosity{.quiet = parsed->flag("quiet"), .explain = parsed->flag("explain")};
  const Format format = format_from(parsed->text("format"));
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  infer::Settings settings = limits(*parsed);
  const std::optional<std::size_t> jobs = parsed->count("jobs");
  infer::Scorer scorer = scorer_on_threads(jobs || shared == nullptr ? jobs : std::optional<std::size_t>(1),
                                           [settings] { infer::check_time(settings); });
  const double patience_seconds = parsed->seconds("rank-timeout").value_or(longest_silence_of_ranks_s);
  if (shared != nullptr) {
    shared->watch(std::chrono::duration<double>(patience_seconds),
                  [patience_seconds](std::size_t rank) { tell_loss(rank, patience_seconds); });
    scorer = shared->scorer(std::move(scorer));
    // Each rank looks at a clock of its own, and they must end at the same step.
    settings.stop_requested = [shared, deadline = std::exchange(settings.deadline, std::nullopt)] {
      return shared->agree(InterruptWatch::stop_requested() || infer::is_past(deadline));
    };
  }
  Output output(shared == nullptr || shared->is_first() ? parsed->text("output") : "/dev/null");

  const std::vector<Recording> recordings = read_all(parsed->operands(), asked);
  const Recording& first = recordings.front();
  settings.seed = inference_seed(parsed->count("seed"), first.facts);
  if (const auto sequences = rows_of(recordings, &Recording::set_sequences, "sequences over one set")) {
    const auto infer = [&](const infer::Settings& limited) { return infer::infer_set_sequences(*sequences, limited); };
    return conclude(explain_rows(first, asked, settings, verbosity.quiet, infer), output, format, verbosity);
  }
  if (const auto timings = rows_of(recordings, &Recording::array_timings, "arrays chased in unknown steps")) {
    const auto infer = [&](const infer::Settings&) { return infer::infer_array_timings(*timings); };
    return conclude(explain_rows(first, asked, settings, verbosity.quiet, infer), output, format, verbosity);
  }
  const std::vector<std::string> targets = chosen_targets(asked, targets_in(recordings));

  if (recordings.size() == 1 && is_of_inquiry(first.facts)) {
    const Inquiry inquiry = replay(first, targets, settings, verbosity.quiet);
    // What many threads did at once has no plain reading.
    if (!learned_nothing(inquiry) || inquiry.ended_early || !first.timed_targets.empty()) {
      return conclude(inquiry, output, format, verbosity);
    }
    warn(replay_learned_nothing(first.file));
  }
  const Inquiry inquiry = explain(recordings, targets, settings, scorer, verbosity.quiet);
  if (shared != nullptr) {
    const std::vector<std::size_t> of_ranks = shared->hypotheses_of_ranks();
    if (!verbosity.quiet) {
      note(hypotheses_of_ranks(of_ranks));
    }
  }
  return conclude(inquiry, output, format, verbosity);
}

}  // namespace

ExitStatus verb_infer(Arguments arguments) {
  if (std::ranges::find(arguments, "--mpi") == arguments.end()) {
    return infer_as_asked(arguments, nullptr);
  }
  std::unique_ptr<Ranks> ranks = join_ranks();
  const bool is_first = ranks->rank() == 0;
  if (!is_first) {
    // All would say the same.
    std::cout.rdbuf(nullptr);
    std::cerr.rdbuf(nullptr);
  }
  SharedWork shared(*ranks);
  try {
    const ExitStatus status = shared.run([&] { return infer_as_asked(arguments, &shared); });
    // mpirun ends all ranks at the first status that is not 0, and returns it.
    return is_first ? status : ExitStatus::resolved;
  } catch (...) {
    ranks.reset();
    if (!is_first) {
      // The first process that ends with an error is the end of all, and the first rank has yet to say what is wrong.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    throw;
  }
}

}  // namespace gpuinfer::cli
