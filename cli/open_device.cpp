// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/open_device.hpp"

#include <utility>

#include "cli/data_files.hpp"
#include "cli/survey/fleet.hpp"
#include "cli/syntax.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/cuda.hpp"
#include "probe/exec.hpp"
#include "probe/faulty_device.hpp"
#include "probe/host.hpp"
#include "probe/pci_gpus.hpp"
#include "probe/persistent_device.hpp"
#include "probe/virtual_device.hpp"

namespace gpuinfer::cli {

std::vector<std::string> bundled_recordings() {
  std::vector<std::string> files;
  for (const std::string& name : data_file_names("data/h200", ".h5")) {
    files.push_back(find_data_file("data/h200/" + name + ".h5")->string());
  }
  return files;
}

namespace {

std::string recording_for(const std::vector<std::string>& targets) {
  auto recording = targets.size() == 1 ? find_data_file("data/h200/" + targets.front() + ".h5") : std::nullopt;
  if (!recording) {
    recording = find_data_file("data/h200/L1tex.h5");
  }
  if (!recording) {
    throw DeviceUnavailable(
        "--device auto: there is no CUDA device and no bundled recording; name a device, such as "
        "virtual:gtx780");
  }
  return recording->string();
}

// Why there is no GPU to ask, from what the PCI bus shows.
std::string no_gpu_sentence() {
  const std::vector<probe::PciGpu> gpus = probe::pci_gpus();
  std::string seen;
  bool any_nvidia = false;
  for (const probe::PciGpu& gpu : gpus) {
    seen += (seen.empty() ? "" : ", ") + probe::vendor_of(gpu) + " at " + gpu.bus_id;
    any_nvidia = any_nvidia || gpu.vendor_id == probe::nvidia_vendor_id;
  }
  const std::string begin = "--device gpu: CUDA shows no GPU, and the PCI bus shows ";
  if (any_nvidia) {
    return begin + seen + "; `gpuinfer doctor` says what keeps CUDA from it";
  }
  const std::string next =
      "; ask a GPU of NVIDIA of another machine with --device \"exec:ssh NODE gpuinfer serve --device gpu\"";
  return begin + (seen.empty() ? "none" : seen + ", which cannot be asked, as only those of NVIDIA can") + next;
}

// What stands before the first colon, and what after it.
std::pair<std::string, std::string> kind_and_rest(const std::string& name) {
  const std::size_t colon = name.find(':');
  return {name.substr(0, colon), colon == std::string::npos ? "" : name.substr(colon + 1)};
}

// Once; `name` is neither `auto` nor `faulty:`.
std::unique_ptr<model::Answerer> open_plain(const std::string& name, const DeviceRequest& request) {
  const auto [kind, rest] = kind_and_rest(name);
  if (request.carveout_kb && kind != "cuda") {
    throw InputError("--carveout: only CUDA devices can be told one, and " + name + " is none; leave it out");
  }
  if (name == "host") {
    return probe::open_host();
  }
  if (!rest.empty()) {
    if (kind == "cuda") {
      const std::uint64_t number = parse_count(rest, "--device cuda");
      if (number > 1023) {
        throw DeviceUnavailable("--device " + name + ": no host has so many GPUs; `gpuinfer list devices` shows yours");
      }
      return probe::open_cuda({.device = static_cast<int>(number),
                               .carveout_kb = request.carveout_kb,
                               .identify = request.identify,
                               .targets = request.targets});
    }
    if (kind == "virtual") {
      return probe::open_virtual(survey::read_profile(survey::profile_file(rest)), name, request.seed);
    }
    if (kind == "recorded") {
      return probe::open_recording(rest, name);
    }
    if (kind == "exec") {
      return probe::open_exec(rest, request.patience_seconds, request.stop_waiting);
    }
  }
  throw InputError(
      "--device: `" + name +
      "` is no device; write cuda:N, virtual:NAME-or-FILE, recorded:FILE, exec:COMMAND, host, gpu or auto");
}

std::shared_ptr<probe::FaultSchedule> schedule_from(const std::string& faults) {
  try {
    return std::make_shared<probe::FaultSchedule>(faults);
  } catch (const InputError& error) {
    throw InputError(std::string("--device faulty: ") + error.what());
  }
}

}  // namespace

ChosenDevice chosen_device(const std::string& device, const std::vector<std::string>& targets) {
  if (device != "auto" && device != "gpu") {
    return {.name = device};
  }
  if (!probe::cuda_device_names().empty()) {
    note(took_device(device, "cuda:0"));
    return {.name = "cuda:0"};
  }
  if (device == "gpu") {
    throw DeviceUnavailable(no_gpu_sentence());
  }
  const std::string file = recording_for(targets);
  return {.name = "recorded:" + file, .stands_in = probe::read_archive_facts(file).name};
}

std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request) {
  std::string name = request.device;
  std::shared_ptr<probe::FaultSchedule> schedule;
  if (const auto [kind, rest] = kind_and_rest(name); kind == "faulty") {
    const auto [faults, device] = kind_and_rest(rest);
    schedule = schedule_from(faults);
    name = device;
  }
  const ChosenDevice chosen = chosen_device(name, request.targets);
  name = chosen.name;
  if (chosen.stands_in) {
    note(plays_recording(*chosen.stands_in, name));
  }
  const auto open = [name, request, schedule] {
    auto device = open_plain(name, request);
    return schedule ? probe::faulty(std::move(device), schedule) : std::move(device);
  };
  auto device = open();
  const std::string kind = kind_and_rest(name).first;
  if (kind == "exec") {
    return probe::persistent(std::move(device), open);
  }
  // A process that lost a GPU cannot have it again: errors of CUDA last as long as the process.
  return kind == "cuda" || schedule ? probe::persistent(std::move(device)) : std::move(device);
}

}  // namespace gpuinfer::cli
