// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/streams.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::Stream;

// The stream with parts that make up so many bytes at most, or none where a block has more than that outstanding.
std::optional<Stream> in_parts(Stream stream, std::uint64_t most_bytes) {
  stream.part_bytes = std::bit_floor(most_bytes / stream.blocks);
  stream.dataset_bytes = stream.part_bytes * stream.blocks;
  const std::uint64_t block_bytes =
      std::uint64_t{stream.block_threads} * stream.elements_in_flight * stream.element_bits / 8;
  return stream.part_bytes >= block_bytes ? std::optional(stream) : std::nullopt;
}

std::uint32_t whole_rounds(double elements, const Stream& stream) {
  const double rounds = std::max(1.0, std::ceil(elements / stream.elements_in_flight));
  return static_cast<std::uint32_t>(rounds) * stream.elements_in_flight;
}

}  // namespace

bool is_slower(const Flow& a, const Flow& b) { return a.bytes_per_second < b.bytes_per_second; }

const Flow& best_of(const std::vector<Flow>& flows) {
  constexpr double as_much = 0.99;
  const double most = std::ranges::max_element(flows, is_slower)->bytes_per_second;
  const auto bits_of = [most](const Flow& flow) {
    return std::pair(flow.bytes_per_second < as_much * most ? 1 : 0, flow.stream.element_bits);
  };
  return *std::ranges::min_element(flows, [&](const Flow& a, const Flow& b) {
    return bits_of(a) != bits_of(b) ? bits_of(a) < bits_of(b) : is_slower(b, a);
  });
}

const Flow& largest_of_the_best(const std::vector<Flow>& by_size) {
  const double enough = (1 - same_peak) * best_of(by_size).bytes_per_second;
  return *std::find_if(by_size.rbegin(), by_size.rend(),
                       [enough](const Flow& flow) { return flow.bytes_per_second >= enough; });
}

double gigabytes(double bytes_per_second) { return model::rounded(bytes_per_second / 1e9); }

Stream Streams::stream_of(const Memory& memory, std::uint64_t dataset_bytes) const {
  return {.path = memory.path,
          .work = memory.work,
          .element_bits = 128,
          .elements_in_flight = 4,
          .dataset_bytes = dataset_bytes,
          .block_threads = usual_shape.block_threads,
          .blocks = usual_shape.blocks_of_sm * sms_};
}

std::vector<Flow> Streams::sweep(const Memory& memory, std::uint64_t largest_bytes) const {
  std::vector<Flow> flows;
  for (std::uint64_t bytes = smallest_dataset_bytes; bytes <= std::max(largest_bytes, 2 * smallest_dataset_bytes);
       bytes *= 2) {
    flows.push_back(flow_of(stream_of(memory, bytes)));
  }
  return flows;
}

std::optional<Flow> Streams::best_in_parts(const Memory& memory, std::uint64_t most_bytes) const {
  std::optional<Flow> best;
  for (const std::uint32_t in_flight : {1U, 8U}) {
    for (const Shape& shape : {shapes[3], shapes[4]}) {
      Stream stream = stream_of(memory, 0);
      stream.elements_in_flight = in_flight;
      stream.block_threads = shape.block_threads;
      stream.blocks = shape.blocks_of_sm * sms_;
      if (const auto fitting = in_parts(stream, most_bytes)) {
        const Flow flow = flow_of(*fitting);
        if (!best || is_slower(*best, flow)) {
          best = flow;
        }
      }
    }
  }
  return best;
}

template <class Fit>
std::vector<Flow> Streams::by_shape(Stream stream, Fit fit) const {
  std::vector<Flow> flows;
  for (const Shape& shape : shapes) {
    stream.block_threads = shape.block_threads;
    stream.blocks = shape.blocks_of_sm * sms_;
    for (const std::uint32_t bits : element_sizes_bits) {
      stream.element_bits = bits;
      for (const std::uint32_t in_flight : all_in_flight) {
        stream.elements_in_flight = in_flight;
        const std::optional<Stream> fitting = fit(stream);
        if (auto flow = fitting ? flow_if_answered(*fitting) : std::nullopt) {
          flows.push_back(*flow);
        }
      }
    }
  }
  if (flows.empty()) {
    throw Undecided("the device carries out none of the streams");
  }
  return flows;
}

std::vector<Flow> Streams::by_shape_in_parts(const Memory& memory, std::uint64_t most_bytes) const {
  return by_shape(stream_of(memory, 0), [most_bytes](const Stream& stream) { return in_parts(stream, most_bytes); });
}

std::vector<Flow> Streams::by_shape(const Stream& stream) const {
  return by_shape(stream, [](const Stream& each) {
    const std::uint64_t warp_bytes = std::uint64_t{each.element_bits} / 8 * each.elements_in_flight * model::warp_lanes;
    return each.dataset_bytes == 0 || each.dataset_bytes >= warp_bytes ? std::optional(each) : std::nullopt;
  });
}

std::optional<Flow> Streams::flow_if_answered(const Stream& stream) const {
  try {
    return flow_of(stream);
  } catch (const QuestionRefused&) {
    return std::nullopt;
  }
}

Flow Streams::flow_of(Stream stream) const {
  constexpr double long_enough_seconds = 7e-4;
  constexpr double most_elements = 1U << 26U;
  constexpr std::uint32_t first_rounds = 16;
  constexpr std::uint32_t runs = 3;
  double elements = first_rounds * stream.elements_in_flight;
  // All of the dataset, at least once.
  const double threads = static_cast<double>(stream.blocks) * stream.block_threads;
  elements =
      std::max(elements, static_cast<double>(stream.dataset_bytes) * bits_of_byte / (threads * stream.element_bits));
  for (int pilot = 0; pilot < 2; ++pilot) {
    stream.elements_per_thread = whole_rounds(elements, stream);
    const double seconds = std::max(time_of(stream).seconds.front(), 1e-7);
    if (seconds >= long_enough_seconds) {
      break;
    }
    elements = std::min(most_elements, stream.elements_per_thread * long_enough_seconds / seconds);
  }
  stream.elements_per_thread = whole_rounds(elements, stream);
  stream.runs = runs;
  const model::Timing timing = time_of(stream);
  const auto fastest = std::ranges::min_element(timing.seconds);
  const double seconds = *fastest;
  const double cycles = timing.cycles[static_cast<std::size_t>(fastest - timing.seconds.begin())];
  const auto bytes = static_cast<double>(bytes_moved(stream));
  return {
      .stream = stream,
      .bytes_per_second = bytes / seconds,
      .elements_per_sm_clock = bytes * bits_of_byte / (stream.element_bits * cycles * std::min(sms_, stream.blocks)),
      .clock_hz = cycles / seconds,
      .spread = 1 - seconds / std::ranges::max(timing.seconds)};
}

model::Timing Streams::time_of(const Stream& stream) const {
  const model::Workload workload = stream;
  model::Timing timing = device_->time({&workload, 1}).front();
  if (std::ranges::any_of(timing.seconds, [](double seconds) { return seconds <= 0; })) {
    throw Undecided("a stream took no time at all");
  }
  return timing;
}

}  // namespace gpuinfer::infer
