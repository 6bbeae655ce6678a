// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <boost/algorithm/string/replace.hpp>
#include <iterator>
#include <utility>

#include "cli/data_files.hpp"
#include "cli/devices/kind.hpp"
#include "cli/profiles.hpp"
#include "cli/syntax.hpp"
#include "infer/studies.hpp"
#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/cuda.hpp"
#include "probe/exec.hpp"
#include "probe/host.hpp"
#include "probe/pci_gpus.hpp"
#include "probe/recorded_folder.hpp"
#include "probe/virtual_device.hpp"
#include "probe/vulkan.hpp"

namespace gpuinfer::cli {

namespace {

std::string cuda_address(std::size_t number) { return "cuda:" + std::to_string(number); }
std::string vulkan_address(std::size_t number) { return "vulkan:" + std::to_string(number); }

std::uint32_t number_of(const DeviceAddress& device) {
  constexpr std::uint64_t most = 1023;
  const std::uint64_t number = parse_count(device.rest, "--device " + std::string(device.kind->name));
  if (number > most) {
    throw DeviceUnavailable("--device " + to_text(device) +
                            ": no host has so many GPUs; `gpuinfer list devices` shows yours");
  }
  return static_cast<std::uint32_t>(number);
}

std::unique_ptr<model::Answerer> open_cuda(const DeviceAddress& device, const DeviceRequest& request) {
  std::vector<std::string> targets = request.targets;
  for (const std::string& target : request.targets) {
    std::ranges::move(infer::needed_before(target), std::back_inserter(targets));
  }
  return probe::open_cuda({.device = static_cast<int>(number_of(device)),
                           .carveout_kb = request.carveout_kb,
                           .identify = request.identify,
                           .seed = request.seed,
                           .targets = std::move(targets)});
}

std::vector<ListedDevice> list_cuda() {
  std::vector<ListedDevice> devices;
  for (const std::string& name : probe::cuda_device_names()) {
    devices.push_back({cuda_address(devices.size()), name, probe::cuda_targets()});
  }
  return devices;
}

std::vector<OwnGpu> cuda_gpus() {
  std::vector<OwnGpu> gpus;
  for (const probe::CudaIdentity& gpu : probe::cuda_identities()) {
    gpus.push_back({.address = cuda_address(static_cast<std::size_t>(gpu.number)), .id = gpu.id});
  }
  return gpus;
}

std::unique_ptr<model::Answerer> open_vulkan(const DeviceAddress& device, const DeviceRequest& request) {
  return probe::open_vulkan(
      {.device = number_of(device), .carveout_kb = request.carveout_kb, .targets = request.targets});
}

std::vector<ListedDevice> list_vulkan() {
  std::vector<ListedDevice> devices;
  for (const probe::VulkanDevice& device : probe::vulkan_health().devices) {
    std::string lacks;
    for (const std::string& each : device.missing) {
      lacks += (lacks.empty() ? ", lacks " : " and ") + each;
    }
    devices.push_back({.address = vulkan_address(devices.size()),
                       .what = device.name + (device.is_gpu ? "" : ", no GPU") + lacks,
                       .targets = device.missing.empty() ? probe::vulkan_targets() : std::vector<std::string>{},
                       .is_gpu = device.is_gpu && device.missing.empty()});
  }
  return devices;
}

std::vector<OwnGpu> vulkan_gpus() {
  std::vector<OwnGpu> gpus;
  const std::vector<probe::VulkanDevice> devices = probe::vulkan_health().devices;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    if (devices[number].is_gpu && devices[number].missing.empty()) {
      gpus.push_back({.address = vulkan_address(number), .id = devices[number].id});
    }
  }
  return gpus;
}

std::unique_ptr<model::Answerer> open_host(const DeviceAddress& /*device*/, const DeviceRequest& request) {
  return probe::open_host({.seed = request.seed});
}

std::vector<ListedDevice> list_host() {
  const auto name = probe::host_name();
  return name ? std::vector<ListedDevice>{{"host", *name + ", this CPU", probe::host_targets()}}
              : std::vector<ListedDevice>{};
}

std::unique_ptr<model::Answerer> open_virtual(const DeviceAddress& device, const DeviceRequest& request) {
  return probe::open_virtual(read_profile(profile_file(device.rest)), to_text(device), request.seed, {},
                             request.targets);
}

std::vector<ListedDevice> list_virtual() {
  std::vector<ListedDevice> devices;
  for (const std::string& name : described_device_names()) {
    const std::string address = "virtual:" + name;
    const model::DeviceDescription description = read_profile(profile_file(name));
    try {
      const auto device = probe::open_virtual(description, address, DeviceRequest{}.seed);
      devices.push_back({address, device->facts().name, device->facts().targets});
    } catch (const InputError& incomplete) {
      // A paper that gives no latencies describes a device all the same.
      const std::string why = incomplete.what();
      const std::string before = address + ": ";
      devices.push_back({.address = address,
                         .what = description.device.name +
                                 ", answers nothing: " + (why.starts_with(before) ? why.substr(before.size()) : why),
                         .targets = {}});
    }
  }
  return devices;
}

std::unique_ptr<model::Answerer> open_recorded(const DeviceAddress& device, const DeviceRequest& /*request*/) {
  std::error_code absent;
  if (std::filesystem::is_directory(device.rest, absent)) {
    return probe::open_recordings(device.rest, to_text(device));
  }
  return probe::open_recording(device.rest, to_text(device));
}

std::vector<ListedDevice> list_recorded() {
  std::vector<ListedDevice> devices;
  for (const BundledGpu& gpu : bundled_gpus()) {
    for (const std::string& file : gpu.recordings) {
      devices.push_back({"recorded:" + file, "bundled recording, " + gpu.name, probe::recorded_targets(file)});
    }
  }
  return devices;
}

std::unique_ptr<model::Answerer> open_exec(const DeviceAddress& device, const DeviceRequest& request) {
  return probe::open_exec(device.rest, request.patience_seconds, request.stop_waiting);
}

// As one word of a shell.
std::string shell_word(const std::string& text) { return "'" + boost::replace_all_copy(text, "'", "'\\''") + "'"; }

// `gpuinfer serve` on another host, reached without a password, since nobody could type it.
std::unique_ptr<model::Answerer> open_ssh(const DeviceAddress& device, const DeviceRequest& request) {
  const std::size_t colon = std::min(device.rest.find(':'), device.rest.size());
  const std::string host = device.rest.substr(0, colon);
  const std::string there = device.rest.substr(std::min(colon + 1, device.rest.size()));
  if (host.empty() || host.front() == '-' || there.empty()) {
    throw InputError("--device ssh: `" + device.rest +
                     "` names no host and device; write one such as ssh:node7:cuda:0");
  }
  std::string serve = "gpuinfer serve --seed " + std::to_string(request.seed) + " --device " + shell_word(there);
  for (const std::string& target : request.targets) {
    serve += " --target " + shell_word(target);
  }
  if (request.carveout_kb) {
    serve += " --carveout " + std::to_string(*request.carveout_kb);
  }
  return probe::open_exec("exec ssh -o BatchMode=yes " + shell_word(host) + " " + shell_word(serve),
                          request.patience_seconds, request.stop_waiting, to_text(device));
}

std::optional<DeviceAddress> first_gpu() {
  for (const DeviceKind& kind : device_kinds()) {
    const std::vector<ListedDevice> gpus = kind.gpus == nullptr ? std::vector<ListedDevice>{} : kind.list();
    if (const auto gpu = std::ranges::find_if(gpus, &ListedDevice::is_gpu); gpu != gpus.end()) {
      return parse_device(gpu->address);
    }
  }
  return std::nullopt;
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
  const std::string begin = "--device gpu: CUDA shows no GPU, Vulkan neither, and the PCI bus shows ";
  if (any_nvidia) {
    return begin + seen + "; `gpuinfer doctor` says what keeps CUDA from it";
  }
  if (!seen.empty()) {
    return begin + seen + "; install its Vulkan driver, and see `gpuinfer doctor`";
  }
  return begin + "none; ask that of another machine with --device \"exec:ssh NODE gpuinfer serve --device gpu\"";
}

ChosenDevice choose_gpu(const std::vector<std::string>& /*targets*/) {
  if (const auto gpu = first_gpu()) {
    return {.device = *gpu};
  }
  throw DeviceUnavailable(no_gpu_sentence());
}

// Where one target is asked for, the first recording that is named after it; else the first of L1tex, which is what
// most want to know; else the first that has it.
std::optional<ChosenDevice> bundled_for(const std::vector<std::string>& targets) {
  const std::vector<BundledGpu> gpus = bundled_gpus();
  for (const std::string& target : {targets.size() == 1 ? targets.front() : "L1tex", std::string("L1tex")}) {
    for (const BundledGpu& gpu : gpus) {
      for (const std::string& file : gpu.recordings) {
        if (std::filesystem::path(file).stem() == target) {
          return ChosenDevice{.device = parse_device("recorded:" + file), .stands_in = gpu};
        }
      }
    }
  }
  return gpus.empty()
             ? std::nullopt
             : std::optional(ChosenDevice{.device = parse_device("recorded:" + gpus.front().recordings.front()),
                                          .stands_in = gpus.front()});
}

ChosenDevice choose_any(const std::vector<std::string>& targets) {
  if (const auto gpu = first_gpu()) {
    return {.device = *gpu};
  }
  if (auto bundled = bundled_for(targets)) {
    return *std::move(bundled);
  }
  throw DeviceUnavailable(
      "--device auto: there is no GPU and no bundled recording; name a device, such as virtual:gtx780");
}

constexpr std::array kinds{
    DeviceKind{.name = "cuda",
               .rest = "N",
               .completion = Completion::zero,
               .open = open_cuda,
               .list = list_cuda,
               .gpus = cuda_gpus,
               .examine = examine_cuda,
               .exclusive_targets = probe::cuda_translation_targets,
               // A process that lost a GPU cannot have it again: errors of CUDA last as long as the process.
               .after_failure = AfterFailure::ask_again,
               .is_of_a_host = true,
               .takes_carveout = true},
    DeviceKind{.name = "vulkan",
               .rest = "N",
               .completion = Completion::zero,
               .open = open_vulkan,
               .list = list_vulkan,
               .gpus = vulkan_gpus,
               .examine = examine_vulkan,
               .after_failure = AfterFailure::open_again,
               .is_of_a_host = true,
               .takes_carveout = true},
    DeviceKind{.name = "host", .what = "this CPU", .open = open_host, .list = list_host, .is_of_a_host = true},
    DeviceKind{.name = "virtual",
               .rest = "NAME-or-FILE",
               .completion = Completion::descriptions,
               .open = open_virtual,
               .list = list_virtual,
               .answers_repeat = true,
               .is_seeded = true},
    DeviceKind{.name = "recorded",
               .rest = "FILE-or-FOLDER",
               .completion = Completion::files,
               .open = open_recorded,
               .list = list_recorded,
               .answers_repeat = true},
    DeviceKind{.name = "exec", .rest = "COMMAND", .open = open_exec, .after_failure = AfterFailure::open_again},
    DeviceKind{.name = "ssh",
               .rest = "HOST:DEVICE",
               .open = open_ssh,
               .after_failure = AfterFailure::open_again,
               .takes_carveout = true},
    DeviceKind{.name = "gpu", .what = "the first GPU of this machine", .choose = choose_gpu},
    DeviceKind{.name = "auto",
               .what = "default: the first GPU, else a bundled recording of another machine's GPU",
               .choose = choose_any},
};

}  // namespace

std::span<const DeviceKind> device_kinds() { return kinds; }

std::string form_of(const DeviceKind& kind) {
  return std::string(kind.name) + (kind.rest.empty() ? "" : ":" + std::string(kind.rest));
}

}  // namespace gpuinfer::cli
