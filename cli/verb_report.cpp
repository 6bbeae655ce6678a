// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cli/output.hpp"
#include "cli/pieces.hpp"
#include "cli/progress_line.hpp"
#include "cli/recordings.hpp"
#include "cli/report/page.hpp"
#include "cli/survey/fleet.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax report_syntax() {
  Syntax syntax(
      "report PROFILE... [TRACE...] [--target T] [-o report.html]",
      "Writes one HTML page with pictures, plots and tables of a profile that needs no network. PROFILE is a "
      "file or the name of a published device; several of one device are taken as one, as `merge` does; "
      "those of several devices stand side by side, and a fleet is shown with its members. Recordings show what "
      "was measured beside what the profile says.",
      {"gpuinfer report profile.yaml run.h5 -o report.html           a profile with its recording",
       "gpuinfer report gtx780 -o report.html                        a published GPU",
       "gpuinfer report gtx780 gtx980 -o report.html                 two GPUs side by side"});
  syntax.operands(ValueKind::descriptions);
  syntax
      .repeatable("target", target_value,
                  "these only; may be repeated (default: all of the profile); the name for traces that name none "
                  "(default L1tex)")
      .value("output,o", written_file, "write there (default: to stdout)");
  return syntax;
}

namespace {

report::Measurements measured(const std::vector<std::string>& files, const std::vector<std::string>& asked,
                              const std::vector<std::string>& targets, StepBar& bar) {
  report::Measurements measurements;
  for (const std::string& file : files) {
    bar.doing("reading " + file);
    Recording recording = read_recording(file);
    name_target(recording, asked);
    const std::vector<std::string> recorded = targets_of(recording);
    if (std::ranges::find_first_of(recorded, targets) == recorded.end()) {
      throw InputError(file + ": contains none of the profile's targets; leave it out or name its profile");
    }
    measurements.add(recording, targets);
    bar.step();
  }
  return measurements;
}

// Profiles of several devices, each as it is.
std::string compared(const std::vector<std::string>& files) {
  std::vector<model::DeviceDescription> profiles;
  profiles.reserve(files.size());
  std::vector<report::NamedProfile> named;
  for (const std::string& file : files) {
    profiles.push_back(read_piece(file).description);
    const std::string& name = profiles.back().device.name;
    const bool is_taken = std::ranges::any_of(named, [&](const auto& each) { return each.name == name; });
    named.push_back({.name = is_taken ? name + " (" + file + ")" : name, .profile = &profiles.back()});
  }
  return report::comparison_page(named);
}

bool are_of_one_device(const std::vector<std::string>& files) {
  const model::DeviceDescription first = read_piece(files.front()).description;
  return std::ranges::all_of(files, [&](const std::string& file) {
    return !infer::are_of_other_devices(first, read_piece(file).description);
  });
}

}  // namespace

ExitStatus verb_report(Arguments arguments) {
  const auto parsed = report_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  const std::vector<std::string> operands = parsed->operands();
  std::vector<std::string> files;
  std::vector<std::string> traces;
  for (const std::string& operand : operands) {
    (files.empty() || names_profile(operand) ? files : traces).push_back(operand);
  }
  Output output(parsed->text("output"));
  if (traces.empty() && files.size() > 1 && !are_of_one_device(files)) {
    output.stream() << compared(files);
    output.finish();
    return ExitStatus::resolved;
  }
  if (traces.empty() && files.size() == 1 && survey::is_fleet(files.front())) {
    const survey::Fleet fleet = survey::read_fleet(files.front());
    output.stream() << report::fleet_page(
        fleet, fleet.common ? described_targets(*fleet.common, files.front(), asked) : std::vector<std::string>{});
    output.finish();
    return ExitStatus::resolved;
  }
  const model::DeviceDescription profile = read_merged(files);
  const std::vector<std::string> targets = described_targets(profile, text_of_files(files), asked);
  StepBar bar("report", traces.size() + targets.size());
  const report::Measurements measurements = measured(traces, asked, targets, bar);
  bar.doing("drawing");
  output.stream() << report::page_of(profile, text_of_files(files), targets, measurements, [&bar] { bar.step(); });
  output.finish();
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
