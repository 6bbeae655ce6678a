// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/asker.hpp"
#include "model/workload.hpp"

namespace gpuinfer::infer {

inline constexpr double bits_of_byte = 8;
inline constexpr std::array<std::uint32_t, 3> element_sizes_bits{32, 64, 128};
inline constexpr std::array<std::uint32_t, 4> all_in_flight{1, 2, 4, 8};

// Blocks of so many threads, so many of them for each SM.
struct Shape {
  std::uint32_t block_threads;
  std::uint32_t blocks_of_sm;
};
inline constexpr std::array<Shape, 5> shapes{{{256, 8}, {512, 4}, {1024, 2}, {1024, 1}, {256, 2}}};
inline constexpr Shape usual_shape = shapes[2];

inline constexpr std::uint64_t smallest_dataset_bytes = 4096;

inline constexpr double same_peak = 0.05;  // what two measurements of one peak may differ by

// What came out of a stream in the best of its runs.
struct Flow {
  model::Stream stream;
  double bytes_per_second = 0;
  double elements_per_sm_clock = 0;
  double clock_hz = 0;
  double spread = 0;  // of its runs: (fastest - slowest) / fastest

  [[nodiscard]] double outstanding_bytes() const {
    return double{1} * stream.blocks * stream.block_threads * stream.elements_in_flight * stream.element_bits /
           bits_of_byte;
  }
};

[[nodiscard]] bool is_slower(const Flow& a, const Flow& b);
// Of those that give as much, to one per cent, the one with the smallest elements.
[[nodiscard]] const Flow& best_of(const std::vector<Flow>& flows);
// Of those that are so; none: none is.
template <class Condition>
[[nodiscard]] std::optional<Flow> best_where(const std::vector<Flow>& flows, Condition condition) {
  std::vector<Flow> chosen;
  std::ranges::copy_if(flows, std::back_inserter(chosen), condition);
  return chosen.empty() ? std::nullopt : std::optional(best_of(chosen));
}
// Where most may be outstanding, of those that are as fast as the best.
[[nodiscard]] const Flow& largest_of_the_best(const std::vector<Flow>& by_size);

[[nodiscard]] double gigabytes(double bytes_per_second);

// `name` is one of model::bandwidth_names.
struct Memory {
  const char* name;
  model::StreamPath path;
  model::StreamWork work;
  bool is_beyond_caches = false;
};
namespace memories {
inline constexpr Memory l1{"L1", model::StreamPath::global_ca, model::StreamWork::load};
inline constexpr Memory texture{"texture", model::StreamPath::texture, model::StreamWork::load};
inline constexpr Memory shared{"shared", model::StreamPath::shared, model::StreamWork::swap};
inline constexpr Memory shared_by_copies{"shared", model::StreamPath::shared, model::StreamWork::copy};
inline constexpr Memory shared_store{"shared_store", model::StreamPath::shared, model::StreamWork::store};
inline constexpr Memory constant{"constant", model::StreamPath::constant, model::StreamWork::load};
inline constexpr Memory l2_load{"L2_load", model::StreamPath::global_cg, model::StreamWork::load};
inline constexpr Memory l2_copy{"L2_copy", model::StreamPath::global_cg, model::StreamWork::copy};
inline constexpr Memory l2_store{"L2_store", model::StreamPath::global_cg, model::StreamWork::store};
inline constexpr Memory dram_load{"DRAM_load", model::StreamPath::global_cg, model::StreamWork::load, true};
inline constexpr Memory dram_copy{"DRAM_copy", model::StreamPath::global_cg, model::StreamWork::copy, true};
inline constexpr Memory dram_store{"DRAM_store", model::StreamPath::global_cg, model::StreamWork::store, true};
}  // namespace memories

// Asks for streams, with blocks for so many SMs.
class Streams {
 public:
  Streams(Asker& device, std::uint32_t sms) : device_(&device), sms_(sms) {}

  [[nodiscard]] Asker& device() const { return *device_; }
  [[nodiscard]] std::uint32_t sms() const { return sms_; }

  [[nodiscard]] model::Stream stream_of(const Memory& memory, std::uint64_t dataset_bytes) const;

  // Ascending by size; two at least.
  [[nodiscard]] std::vector<Flow> sweep(const Memory& memory, std::uint64_t largest_bytes) const;
  // Of a few streams with little or much outstanding, each block in a part of its own.
  [[nodiscard]] std::optional<Flow> best_in_parts(const Memory& memory, std::uint64_t most_bytes) const;
  // In all shapes, with all sizes of elements and numbers of them outstanding. Throw Undecided where all are refused.
  [[nodiscard]] std::vector<Flow> by_shape_in_parts(const Memory& memory, std::uint64_t most_bytes) const;
  [[nodiscard]] std::vector<Flow> by_shape(const model::Stream& stream) const;

  // As long as it takes for begin and end not to matter. Throws QuestionRefused.
  [[nodiscard]] Flow flow_of(model::Stream stream) const;
  // Some shapes are too large for a device.
  [[nodiscard]] std::optional<Flow> flow_if_answered(const model::Stream& stream) const;

  // Throws QuestionRefused, and Undecided where it took no time.
  [[nodiscard]] model::Timing time_of(const model::Stream& stream) const;

 private:
  template <class Fit>
  [[nodiscard]] std::vector<Flow> by_shape(model::Stream stream, Fit fit) const;

  Asker* device_;
  std::uint32_t sms_;
};

}  // namespace gpuinfer::infer
