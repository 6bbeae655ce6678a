// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/open_device.hpp"

#include "cli/data_files.hpp"
#include "cli/syntax.hpp"
#include "cli/warnings.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/cuda.hpp"
#include "probe/exec.hpp"
#include "probe/host.hpp"
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

std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request) {
  std::string name = request.device;
  if (name == "auto") {
    name = automatic_device(request.targets);
    note(took_device(name));
  }
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : name.substr(colon + 1);
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
      return probe::open_virtual(model::read_description(description_file(rest)), name, request.seed);
    }
    if (kind == "recorded") {
      return probe::open_recording(rest, name);
    }
    if (kind == "exec") {
      return probe::open_exec(rest);
    }
  }
  throw InputError("--device: `" + name +
                   "` is no device; write cuda:N, virtual:NAME-or-FILE, recorded:FILE, exec:COMMAND, host or auto");
}

}  // namespace gpuinfer::cli
