// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>

#include "cli/answer_keeping.hpp"
#include "cli/average_report.hpp"
#include "cli/common_options.hpp"
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
      "target", "T",
      "the load path, needed, see `gpuinfer list targets`; may be repeated; `all`: what the device offers");
  add_device_options(syntax, Devices::several);
  add_limit_options(syntax);
  add_output_options(syntax);
  syntax.value("sms", "some|all",
               "some (default): whichever SMs answer, or all: every SM is asked whether it is as the others");
  add_keeping_options(syntax);
  syntax.value("report", "FILE.html", "write the page of `gpuinfer report` there as well (default: none)");
  syntax
      .value("method", "predict|average",
             "predict (default), or average: what the classic methods (Saavedra, Wong) conclude, for comparison")
      .flag(
          "thorough",
          "exclude that one fill in 20,000 departs from the policy that is found (default: in 2,000; some 200,000 more "
          "loads)")
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

void write_page(Output& page, const model::DeviceDescription& profile, const std::optional<std::string>& file) {
  const std::string name = file.value_or(profile.device.source);
  page.stream() << report::page_of(profile, name, described_targets(profile, name, {}), {});
  page.finish();
}

}  // namespace

ExitStatus verb_run(Arguments arguments) {
  const auto parsed = run_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const std::vector<std::string> asked = asked_targets(*parsed);
  const bool average = by_average(*parsed);
  const bool quiet = parsed->flag("quiet");
  const Format format = format_from(parsed->text("format"));
  std::vector<DeviceRequest> requests = device_requests(*parsed);
  if (!stands_for_all(asked)) {
    for (DeviceRequest& each : requests) {
      each.targets = asked;
    }
  }
  infer::Settings settings = limits(*parsed);
  for (DeviceRequest& each : requests) {
    each.stop_waiting = [settings] {
      return settings.stop_requested() || (settings.deadline && std::chrono::steady_clock::now() > *settings.deadline);
    };
  }
  settings.all_sms = all_sms(*parsed);
  if (parsed->flag("thorough")) {
    constexpr std::size_t thorough_fills = 20'000;
    settings.fills_to_test = thorough_fills;
  }
  const std::optional<KeepingRequest> keeping = keeping_request(*parsed);
  if (requests.size() > 1) {
    check_goes_together(*parsed);
  }
  if (average && parsed->text("report")) {
    throw InputError("--report: shows a profile, which --method average does not make; leave one of them out");
  }
  Output output(parsed->text("output"));
  std::optional<Output> page;
  if (parsed->text("report")) {
    page.emplace(parsed->text("report"));
  }
  if (requests.size() > 1) {
    InterruptWatch::will_conclude();
    return survey::run_together(requests, asked, parsed->count("seed"), settings, output, format, quiet);
  }

  const ChosenDevice chosen = chosen_device(requests.front().device, requests.front().targets);
  requests.front().device = chosen.device;
  const bool plays_all = chosen.stands_in && stands_for_all(asked) && !keeping && !average;
  if (chosen.stands_in) {
    note(plays_recording(chosen.stands_in->name,
                         plays_all ? text_of_files(chosen.stands_in->recordings) : to_text(chosen.device)));
  }
  const Verbosity verbosity{.quiet = quiet, .explain = parsed->flag("explain")};
  const auto end = [&](ExitStatus status) {
    if (chosen.stands_in) {
      note(was_recording(chosen.stands_in->name));
    }
    return status;
  };
  if (plays_all) {
    InterruptWatch::will_conclude();
    const Inquiry inquiry = play_all(chosen.stands_in->recordings, settings, parsed->count("seed"), quiet);
    if (page) {
      write_page(*page, inquiry.profile, parsed->text("output"));
    }
    return end(conclude(inquiry, output, format, verbosity));
  }

  const std::unique_ptr<model::Answerer> opened = open_device(requests.front());
  InterruptWatch::will_conclude();
  const std::vector<std::string> targets = offered_targets(asked, *opened);
  settings.seed = inference_seed(parsed->count("seed"), opened->facts());
  const model::DeviceFacts facts = facts_of_inquiry(opened->facts(), settings.seed);

  std::optional<AnswerKeeping> kept;
  if (keeping) {
    kept.emplace(*opened, *keeping, facts, options_that_matter(targets, average, settings));
  }
  model::Answerer& device = kept ? kept->device() : *opened;
  probe::ArchiveWriter* archive = kept ? &kept->archive() : nullptr;

  ExitStatus status = ExitStatus::failure;
  bool failed = false;
  try {
    if (average) {
      status = compare_averages(device, targets, settings, output, format, quiet);
      tell_disturbances(device, archive);
    } else {
      Inquiry inquiry = inquire(device, facts, targets, settings, quiet);
      inquiry.profile.device.provenance.merge(tell_disturbances(device, archive));
      if (kept) {
        inquiry.profile.device.provenance.insert(kept->provenance().begin(), kept->provenance().end());
      }
      failed = inquiry.device_failed;
      if (page) {
        write_page(*page, inquiry.profile, parsed->text("output"));
      }
      status = conclude(inquiry, output, format, verbosity);
    }
  } catch (const DeviceError& error) {
    if (!kept) {
      throw;
    }
    kept->keep_for_later();
    throw DeviceError(std::string(error.what()) + "; " +
                      can_be_resumed(resuming_command("run", arguments, keeping->archive)));
  }
  if (kept) {
    const bool was_cut_off = failed || (InterruptWatch::stop_requested() && status != ExitStatus::resolved);
    kept->finish(was_cut_off);
    if (was_cut_off) {
      note(can_be_resumed(resuming_command("run", arguments, keeping->archive)));
    }
  } else if (failed) {
    note(nothing_is_kept());
  }
  return end(status);
}

}  // namespace gpuinfer::cli
