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
#include "probe/persistent_device.hpp"
#include "probe/virtual_device.hpp"

namespace gpuinfer::cli {

std::string automatic_device(const std::vector<std::string>& targets) {
  if (!probe::cuda_device_names().empty()) {
    return "cuda:0";
  }
  auto recording = targets.size() == 1 ? find_data_file("data/h200/" + targets.front() + ".h5") : std::nullopt;
  if (!recording) {
    recording = find_data_file("data/h200/L1tex.h5");
  }
  if (!recording) {
    throw DeviceUnavailable(
        "--device auto: there is no CUDA device and no bundled recording; name a device, such as "
        "virtual:gtx780");
  }
  return "recorded:" + recording->string();
}

namespace {

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
      return probe::open_cuda(
          {.device = static_cast<int>(number), .carveout_kb = request.carveout_kb, .targets = request.targets});
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
  throw InputError("--device: `" + name +
                   "` is no device; write cuda:N, virtual:NAME-or-FILE, recorded:FILE, exec:COMMAND, host or auto");
}

std::shared_ptr<probe::FaultSchedule> schedule_from(const std::string& faults) {
  try {
    return std::make_shared<probe::FaultSchedule>(faults);
  } catch (const InputError& error) {
    throw InputError(std::string("--device faulty: ") + error.what());
  }
}

}  // namespace

std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request) {
  std::string name = request.device;
  std::shared_ptr<probe::FaultSchedule> schedule;
  if (const auto [kind, rest] = kind_and_rest(name); kind == "faulty") {
    const auto [faults, device] = kind_and_rest(rest);
    schedule = schedule_from(faults);
    name = device;
  }
  if (name == "auto") {
    name = automatic_device(request.targets);
    note(took_device(name));
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
