// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "cli/common_options.hpp"
#include "cli/data_files.hpp"
#include "cli/devices/kind.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/program.hpp"
#include "cli/verbs.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

Syntax doctor_syntax() {
  Syntax syntax(
      "doctor [--device D] [--timeout S]",
      "Looks at what the program needs, and at the device: driver, permissions, clocks, other processes, memory, data "
      "files.\nA line for each check: ok, warn (works, but the answers may be touched by it) or fail (will not work), "
      "what "
      "was seen,\nand what to do. The exit status is 0 when everything works, 3 when something will not, and 4 when "
      "the "
      "device cannot be\nused, or, with `auto`, when there is no GPU to use.",
      {"gpuinfer doctor                                             this machine and its GPUs",
       "gpuinfer doctor --device cuda:1                             one of them",
       "gpuinfer doctor --format json                               for scripts"});
  syntax.value("device", device_value, "what to look at, as for `run` (default: all GPUs of this machine)")
      .value("timeout", "S",
             "a device that does not answer in so many seconds cannot be used (default: no limit, and 60 for a process "
             "behind exec: that says nothing)")
      .value("output,o", written_file, "write there (default: to stdout)")
      .value("format", "yaml|json", "the checks in this form, for scripts (default: a line each)");
  return syntax;
}

namespace {

Check descriptions_check() {
  const std::vector<std::string> names = described_device_names();
  for (const std::string& name : names) {
    try {
      static_cast<void>(model::read_description(description_file(name)));
    } catch (const InputError& error) {
      return {Health::fail, "published devices", error.what(), "install gpuinfer again"};
    }
  }
  if (names.empty()) {
    return {Health::fail, "published devices", "configs/devices is not found, so virtual:NAME will not work",
            "install gpuinfer again, or set GPUINFER_DATA to the folder that has it"};
  }
  return {Health::ok, "published devices",
          plural(names.size(), "description", "descriptions") + " in " + find_data_file("configs")->string(), ""};
}

Check recordings_check() {
  std::string seen;
  try {
    for (const BundledGpu& gpu : bundled_gpus()) {
      for (const std::string& file : gpu.recordings) {
        static_cast<void>(probe::recorded_targets(file));
      }
      seen += (seen.empty() ? "" : ", ") + plural(gpu.recordings.size(), "recording", "recordings") + " of " +
              gpu.name + " in " + gpu.folder.string();
    }
  } catch (const InputError& error) {
    return {Health::fail, "recordings", error.what(), "install gpuinfer again"};
  }
  if (seen.empty()) {
    return {Health::warn, "recordings", "none is found, so without a GPU `--device auto` finds nothing",
            "install gpuinfer again, or set GPUINFER_DATA to the folder that has `data`"};
  }
  return {Health::ok, "recordings", seen, ""};
}

// Opens the device and says what it offers.
void check_device(Examination& found, const DeviceAddress& address, const std::function<bool()>& stop_waiting) {
  const std::string name = to_text(address);
  try {
    const auto device = open_device({.device = address, .stop_waiting = stop_waiting});
    const std::vector<std::string>& targets = device->facts().targets;
    found.is_usable = !targets.empty();
    found.checks.push_back({targets.empty() ? Health::fail : Health::ok, name,
                            fmt::format("{}, offers {}", device->facts().name,
                                        targets.empty() ? "nothing" : fmt::format("{}", fmt::join(targets, ", "))),
                            targets.empty() ? "name another device" : ""});
  } catch (const DeviceUnavailable& error) {
    found.checks.push_back({Health::fail, name, error.what(), "name another device"});
  }
}

Examination examine(const DeviceAddress& device, const std::function<bool()>& stop_waiting) {
  Examination found;
  const bool looks_at_all_gpus = device.kind->choose != nullptr;
  if (looks_at_all_gpus) {
    for (const DeviceKind& kind : device_kinds()) {
      if (kind.examine != nullptr) {
        kind.examine(found, std::nullopt);
      }
    }
  } else if (device.kind->examine != nullptr) {
    device.kind->examine(found, device.rest);
  } else {
    found.checks.push_back({Health::ok, "program", program_version(), ""});
    check_device(found, device, stop_waiting);
  }
  InterruptWatch::will_conclude_in_a_second();
  found.checks.push_back(descriptions_check());
  found.checks.push_back(recordings_check());
  if (looks_at_all_gpus && !found.is_usable) {
    found.checks.push_back({Health::fail, "device", "there is no GPU to ask",
                            "see the checks above, or name a device such as virtual:gtx780"});
  }
  return found;
}

std::string_view to_string(Health health) {
  return health == Health::ok ? "ok" : health == Health::warn ? "warn" : "fail";
}

std::string lines(const std::vector<Check>& checks) {
  std::size_t columns = 0;
  for (const Check& check : checks) {
    columns = std::max(columns, check.what.size());
  }
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{:<4}  {:<{}}  {}{}\n", to_string(check.health), check.what, columns, check.seen,
                        check.next.empty() ? "" : "; " + check.next);
  }
  return text;
}

Document document(const std::vector<Check>& checks) {
  Document document = Document::array();
  for (const Check& check : checks) {
    Document entry;
    entry["check"] = check.what;
    entry["status"] = to_string(check.health);
    entry["seen"] = check.seen;
    entry["next"] = check.next.empty() ? Document(nullptr) : Document(check.next);
    document.push_back(std::move(entry));
  }
  return document;
}

}  // namespace

ExitStatus verb_doctor(Arguments arguments) {
  const auto parsed = doctor_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Format format = format_from(parsed->text("format"));
  Output output(parsed->text("output"));
  const Examination found =
      examine(parse_device(parsed->text("device").value_or("auto")), waiting_ends(limits(*parsed)));

  output.stream() << (parsed->text("format") ? to_text(document(found.checks), format) : lines(found.checks));
  output.finish();
  if (!found.is_usable) {
    return ExitStatus::no_device;
  }
  const bool any_failed =
      std::ranges::any_of(found.checks, [](const Check& check) { return check.health == Health::fail; });
  return any_failed ? ExitStatus::unresolved : ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
