// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>

#include "cli/answer_keeping.hpp"
#include "cli/average_report.hpp"
#include "cli/common_options.hpp"
#include "cli/devices/kind.hpp"
#include "cli/disturbances.hpp"
#include "cli/inquiry.hpp"
#include "cli/interrupt.hpp"
#include "cli/pieces.hpp"
#include "cli/progress_line.hpp"
#include "cli/report/page.hpp"
#include "cli/survey/run_together.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

Syntax run_syntax() {
  Syntax syntax(
      "run --target T [--device D] [-o profile.yaml]",
      "Finds out how the cache behind a load path is built: asks the device, fits, verifies on fresh sequences, "
      "and\nwrites a device profile. The verb may be left out.",
      {"gpuinfer --target L1tex -o profile.yaml                     the first GPU of this host",
       "gpuinfer --target all -o gpu.yaml --report gpu.html         all of it, and a page of it",
       "gpuinfer --target L1tex --device virtual:gtx780             a published GPU, simulated",
       "gpuinfer --target L1tex --device cuda:0 --device cuda:1     both at a time, and what they have otherwise",
       "gpuinfer --target all --device cuda:0 --record run.h5       keep every trace as well",
       "gpuinfer --target all --device cuda:0 --resume run.h5       go on after the machine went down",
       "gpuinfer --target L1tex --device recorded:run.h5            the same again, without the GPU",
       "gpuinfer --target L1tex --device \"exec:ssh node gpuinfer serve --device cuda:0\""});
  syntax.repeatable(
      "target", target_value,
      "the load path, needed, see `gpuinfer list targets`; may be repeated; `all`: what the device offers");
  add_device_options(syntax, Devices::several);
  add_limit_options(syntax);
  add_output_options(syntax);
  syntax.value("sms", "some|all",
               "some (default): whichever SMs answer, or all: every SM is asked whether it is as the others");
  add_keeping_options(syntax);
  syntax.value("report", ValueName("FILE.html", ValueKind::written_files),
               "write the page of `gpuinfer report` there as well (default: none)");
  syntax
      .value("method", "predict|average",
             "predict (default), or average: what the classic methods (Saavedra, Wong) conclude, for comparison")
      .flag(
          "thorough",
          "exclude that one fill in 20,000 departs from the policy that is found (default: in 2,000; some 200,000 more "
          "loads), and ask what stores do where no rule may be found")
      .flag("explain", "tell on stderr what was asked, why, and what was learned from it")
      .flag("quiet", "no progress and no summary on stderr");
  return syntax;
}

namespace {

bool by_average(const Parsed& parsed) {
  const std::string method = parsed.text("method").value_or("predict");
  if (method != "predict" && method != "average") {
    throw InputError("--method: `" + method + "` is not known; write predict or average");
  }
  return method == "average";
}

bool all_sms(const Parsed& parsed) {
  const std::string which = parsed.text("sms").value_or("some");
  if (which != "some" && which != "all") {
    throw InputError("--sms: `" + which + "` is not known; write some or all");
  }
  return which == "all";
}

std::vector<std::string> asked_targets(const Parsed& parsed) {
  std::vector<std::string> targets = spelled_targets(parsed.list("target"));
  if (targets.empty()) {
    throw InputError("--target: is missing; name one, such as L1tex, or see `gpuinfer list targets`");
  }
  return targets;
}

// With several devices.
void check_goes_together(const Parsed& parsed) {
  for (const char* option : {"record", "resume", "method", "report"}) {
    if (parsed.text(option)) {
      throw InputError(std::string("--") + option + ": goes with one --device; ask one device after the other");
    }
  }
  if (parsed.flag("explain")) {
    throw InputError("--explain: goes with one --device; ask one device after the other");
  }
}

// What the answers hang on besides the device, its seed and this version.
probe::RunFacts options_that_matter(const std::vector<std::string>& targets, bool average,
                                    const infer::Settings& settings) {
  std::string names;
  for (const std::string& target : targets) {
    names += (names.empty() ? "" : " ") + target;
  }
  probe::RunFacts facts{
      {"targets", names}, {"method", average ? "average" : "predict"}, {"sms", settings.all_sms ? "all" : "some"}};
  if (settings.fills_to_test != infer::Settings{}.fills_to_test) {
    facts.emplace("fills_to_test", std::to_string(settings.fills_to_test));
  }
  return facts;
}

// The classic methods, for one target after another.
ExitStatus compare_averages(model::Answerer& device, std::span<const std::string> targets, infer::Settings settings,
                            Output& output, Format format, bool quiet) {
  Document reports = Document::array();
  bool contradictory = false;
  for (const std::string& target : targets) {
    ProgressLine line = ProgressLine::on_stderr(quiet);
    settings.on_progress = [&](const infer::Progress& progress) { line.update(target, progress); };
    const std::vector<infer::AverageFinding> findings = infer::infer_by_average(device, target, settings);
    line.clear();
    if (!quiet) {
      std::cerr << average_table(target, findings);
    }
    contradictory = contradictory || !contradictions(findings).empty();
    reports.push_back(average_report(target, findings));
  }
  output.stream() << to_text(reports, format);
  output.finish();
  return contradictory ? ExitStatus::unresolved : ExitStatus::resolved;
}

// All recordings of one GPU, one after another, and of all of them one profile.
Inquiry play_all(const std::vector<std::string>& files, infer::Settings settings,
                 const std::optional<std::uint64_t>& seed, bool quiet) {
  Inquiry all;
  std::vector<infer::Piece> pieces;
  const std::optional<std::size_t> budget_accesses = settings.budget_accesses;
  for (const std::string& file : files) {
    if (budget_accesses) {
      settings.budget_accesses = *budget_accesses - std::min(*budget_accesses, all.accesses);
    }
    const std::unique_ptr<model::Answerer> device = open_device({.device = parse_device("recorded:" + file)});
    settings.seed = inference_seed(seed, device->facts());
    const model::DeviceFacts facts = facts_of_inquiry(device->facts(), settings.seed);
    Inquiry inquiry = inquire(*device, facts, offered_targets({{"all"}}, *device), settings, quiet);
    all.all_resolved = all.all_resolved && inquiry.all_resolved;
    all.questions += inquiry.questions;
    all.accesses += inquiry.accesses;
    all.time += inquiry.time;
    pieces.push_back({.file = file, .description = std::move(inquiry.profile)});
  }
  all.profile = infer::merge_pieces(pieces).description;
  return all;
}

struct RunOptions {
  std::vector<std::string> asked;
  std::vector<DeviceRequest> requests;
  infer::Settings settings;
  std::optional<std::uint64_t> seed;  // as given
  std::optional<KeepingRequest> keeping;
  bool average = false;
  Format format = Format::yaml;
  Verbosity verbosity;
};

// Throws InputError for what is no value of an option, and for options that do not go together.
RunOptions options_from(const Parsed& parsed) {
  RunOptions options{.asked = asked_targets(parsed),
                     .requests = device_requests(parsed),
                     .settings = limits(parsed),
                     .seed = parsed.count("seed"),
                     .keeping = keeping_request(parsed),
                     .average = by_average(parsed),
                     .format = format_from(parsed.text("format")),
                     .verbosity = {.quiet = parsed.flag("quiet"), .explain = parsed.flag("explain")}};
  for (DeviceRequest& each : options.requests) {
    if (!stands_for_all(options.asked)) {
      each.targets = options.asked;
    }
    each.stop_waiting = waiting_ends(options.settings);
  }
  options.settings.all_sms = all_sms(parsed);
  if (parsed.flag("thorough")) {
    constexpr std::size_t thorough_fills = 20'000;
    options.settings.fills_to_test = thorough_fills;
    options.settings.asks_stores_of_sweeps = true;
  }
  if (options.requests.size() > 1) {
    check_goes_together(parsed);
  }
  if (options.average && parsed.text("report")) {
    throw InputError("--report: shows a profile, which --method average does not make; leave one of them out");
  }
  return options;
}

// Where a run writes to.
struct Outputs {
  Output profile;
  std::optional<std::string> profile_file;
  std::optional<Output> page;

  explicit Outputs(const Parsed& parsed) : profile(parsed.text("output")), profile_file(parsed.text("output")) {
    if (parsed.text("report")) {
      page.emplace(parsed.text("report"));
    }
  }

  ExitStatus write(const Inquiry& inquiry, const RunOptions& options) {
    if (page) {
      const std::string name = profile_file.value_or(inquiry.profile.device.source);
      page->stream() << report::page_of(inquiry.profile, name, described_targets(inquiry.profile, name, {}), {});
      page->finish();
    }
    return conclude(inquiry, profile, options.format, options.verbosity);
  }
};

struct RunEnd {
  ExitStatus status = ExitStatus::failure;
  bool device_failed = false;
};

RunEnd ask(model::Answerer& device, const model::DeviceFacts& facts, const std::vector<std::string>& targets,
           AnswerKeeping* kept, const RunOptions& options, Outputs& outputs) {
  probe::ArchiveWriter* archive = kept == nullptr ? nullptr : &kept->archive();
  if (options.average) {
    const ExitStatus status =
        compare_averages(device, targets, options.settings, outputs.profile, options.format, options.verbosity.quiet);
    tell_disturbances(device, archive);
    return {.status = status};
  }
  const Pace pace = parse_device(facts.source).kind->answers_repeat ? Pace::even : Pace::by_reach;
  Inquiry inquiry = inquire(device, facts, targets, options.settings, options.verbosity.quiet, pace);
  auto& provenance = inquiry.profile.device.provenance;
  provenance.merge(tell_disturbances(device, archive));
  if (kept != nullptr) {
    provenance.insert(kept->provenance().begin(), kept->provenance().end());
  }
  return {.status = outputs.write(inquiry, options), .device_failed = inquiry.device_failed};
}

// The device of the only request. `arguments`: of the command, by which it can be resumed.
ExitStatus run_one(RunOptions options, Outputs& outputs, Arguments arguments) {
  const std::unique_ptr<model::Answerer> opened = open_device(options.requests.front());
  InterruptWatch::will_conclude();
  const std::vector<std::string> targets = offered_targets(options.asked, *opened);
  options.settings.seed = inference_seed(options.seed, opened->facts());
  const model::DeviceFacts facts = facts_of_inquiry(opened->facts(), options.settings.seed);
  if (!options.keeping) {
    const RunEnd ended = ask(*opened, facts, targets, nullptr, options, outputs);
    if (ended.device_failed) {
      note(nothing_is_kept());
    }
    return ended.status;
  }

  AnswerKeeping kept(*opened, *options.keeping, facts, options_that_matter(targets, options.average, options.settings));
  const std::string advice = can_be_resumed(resuming_command("run", arguments, options.keeping->archive));
  RunEnd ended;
  try {
    ended = ask(kept.device(), facts, targets, &kept, options, outputs);
  } catch (const DeviceError& error) {
    kept.keep_for_later();
    throw DeviceError(std::string(error.what()) + "; " + advice);
  }
  const bool was_interrupted = !kept.finish(ended.device_failed);
  if (was_interrupted || ended.device_failed) {
    note(advice);
  }
  return was_interrupted && ended.status == ExitStatus::resolved ? ExitStatus::unresolved : ended.status;
}

}  // namespace

ExitStatus verb_run(Arguments arguments) {
  const auto parsed = run_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  RunOptions options = options_from(*parsed);
  Outputs outputs(*parsed);
  if (options.requests.size() > 1) {
    InterruptWatch::will_conclude();
    return survey::run_together(options.requests, options.asked, options.seed, options.settings, outputs.profile,
                                options.format, options.verbosity.quiet);
  }
  DeviceRequest& request = options.requests.front();
  const ChosenDevice chosen = chosen_device(request.device, request.targets);
  request.device = chosen.device;
  if (!chosen.stands_in) {
    return run_one(std::move(options), outputs, arguments);
  }
  const BundledGpu& gpu = *chosen.stands_in;
  const bool plays_all = stands_for_all(options.asked) && !options.keeping && !options.average;
  note(plays_recording(gpu.name, plays_all ? text_of_files(gpu.recordings) : to_text(chosen.device)));
  ExitStatus status = ExitStatus::failure;
  if (plays_all) {
    InterruptWatch::will_conclude();
    status = outputs.write(play_all(gpu.recordings, options.settings, options.seed, options.verbosity.quiet), options);
  } else {
    status = run_one(std::move(options), outputs, arguments);
  }
  note(was_recording(gpu.name));
  return status;
}

}  // namespace gpuinfer::cli
