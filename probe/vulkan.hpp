// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

struct VulkanOptions {
  std::uint32_t device = 0;
  std::uint64_t buffer_bytes = 64ULL << 20U;
  // Shared memory of each unit, of one memory with L1: at least so much; none: the most that can be had.
  std::optional<std::uint32_t> carveout_kb = {};
  // Those that will be asked; none: all.
  std::vector<std::string> targets = {};
};

// A device as Vulkan shows it.
struct VulkanDevice {
  std::string name;
  std::string driver;                // "NVIDIA 580.159.04"
  std::string id;                    // gpu::gpu_id()
  bool is_gpu = false;               // false: a CPU that plays one
  std::vector<std::string> missing;  // what the probe needs and the device lacks, as Vulkan calls it
};

struct VulkanHealth {
  bool is_built_in = false;
  std::optional<std::string> trouble;  // why there is no device, half a sentence
  std::vector<VulkanDevice> devices;   // vulkan:0, vulkan:1, ...
};

// Makes no context on any device. Nothing is thrown.
[[nodiscard]] VulkanHealth vulkan_health();

// What a device offers at most; empty when the program was built without Vulkan.
[[nodiscard]] std::vector<std::string> vulkan_targets();

// The fine-grained probe (Mei & Chu 2014, listing 4) as a compute shader, on any GPU with VK_KHR_shader_clock. Targets:
// L1tex (global loads), Texture (a uniform texel buffer), Texture2D (an image), ConstL1 (a uniform buffer, indexed), L2
// (global loads that pass the first level by), Shared (workloads in shared memory). What the clock itself costs is
// measured for each target and taken off. Where the shader can know the unit that runs it (VK_NV_shader_sm_builtins),
// questions choose theirs, clean ones go out together, and all units contend for places of L2; elsewhere one workgroup
// plays, and where is not known. Where workgroups with more shared memory find a smaller L1, questions of L1tex and
// Texture choose a carve-out. A state that was tried on this device and not reached is refused, as are offsets outside
// the buffer or no multiple of 4. Throws DeviceUnavailable when there is no such device, it lacks what the probe needs,
// or the program was built without Vulkan; InputError for a carve-out that it does not have.
[[nodiscard]] std::unique_ptr<model::Answerer> open_vulkan(const VulkanOptions& options);

}  // namespace gpuinfer::probe
