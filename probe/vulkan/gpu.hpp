// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "model/workload.hpp"
#include "probe/vulkan.hpp"
#include "probe/vulkan/clock.hpp"
#include "probe/vulkan/shaders.hpp"
#include "probe/vulkan/shape.hpp"

namespace gpuinfer::probe::vulkan {

// Zeros on the device, where the offsets of questions lead.
struct Reach {
  std::uint64_t address = 0;  // of global memory
  std::uint64_t bytes = 0;
};

// How questions are played.
struct Manner {
  LoadPath path = LoadPath::global;
  LoadPath warm = LoadPath::global;  // of the warm-up
  Shape shape;
  Reach reach;
  bool new_l1 = false;   // all units run with little shared memory just before
  bool nothing = false;  // all is timed but the load
};

struct Played {
  bool was_alone = false;             // the unit of the question played it once
  std::uint64_t accesses = 0;         // of the question; fewer than it has where the driver ended the loop
  std::vector<float> latency_cycles;  // of the recorded accesses, with all that the clock costs
};

// A device that plays questions, whatever their targets say, along the load path it is told. Every launch begins with a
// barrier, behind which no unit may have old data. Throws DeviceError; to construct, DeviceUnavailable.
class Gpu {
 public:
  explicit Gpu(const VulkanOptions& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // All but the buffers and targets.
  [[nodiscard]] model::DeviceFacts facts() const;
  [[nodiscard]] bool is_gpu() const;
  // That questions can choose from; none: a workgroup runs somewhere.
  [[nodiscard]] std::optional<std::uint32_t> units() const;
  // What workgroups can be like, the one that leaves most to an L1 first. The last takes nearly all the shared memory
  // that a workgroup can have; it is the only one where units are not known.
  [[nodiscard]] const std::vector<Shape>& shapes() const;
  // Of all questions that play together.
  [[nodiscard]] std::uint64_t most_accesses() const;
  // Of the memory on the device.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  [[nodiscard]] const Clock& clock() const;

  // What there is from the beginning.
  [[nodiscard]] Reach reach(LoadPath path) const;
  // More of global memory. Begins at a multiple of its size, which is a power of two.
  [[nodiscard]] Reach allocate(std::uint64_t bytes);

  // Each question on a unit of its own, in the order of the questions.
  [[nodiscard]] std::vector<Played> play(const Manner& manner, std::span<const model::Question> questions,
                                         std::span<const std::uint32_t> units);

  // Has all units add zero atomically to words at both places of a pair of offsets, pair after pair. For each offset,
  // the cycles that a unit took for its part of the pair, on an average. Units are known.
  [[nodiscard]] std::vector<float> contend(const Reach& reach, std::span<const std::uint64_t> offsets);

  // Reads all of it with all units, past the first level.
  void stream_through(const Reach& reach);

  // Where in memory each texel of LoadPath::texel_2d lies, row by row, in words. Empty where the driver does not lay an
  // image out in such a way that its memory shows it.
  [[nodiscard]] std::vector<std::uint32_t> places_of_texels();

  // That a workgroup may have, at most.
  [[nodiscard]] std::uint64_t shared_bytes() const;
  // Each on a workgroup of its own, no more of them than units, with elements of one size and no more runs in all than
  // most_accesses(). The ticks of each run; `nothing`: without the loads.
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> load_shared(std::span<const model::SharedLoads> batch,
                                                                    bool nothing);

 private:
  class Device;
  std::unique_ptr<Device> device_;
};

}  // namespace gpuinfer::probe::vulkan
