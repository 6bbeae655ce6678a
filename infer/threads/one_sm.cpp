// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/one_sm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::rounded;
using model::Stream;

// More than any cache holds, as far as there is memory.
std::uint64_t largest_of_one_block(const Asker& device) {
  constexpr std::uint64_t beyond_any_cache_bytes = 256U << 20U;
  return std::min(beyond_any_cache_bytes, std::bit_floor(device.buffer().bytes));
}

class Surface {
 public:
  // Of one block that loads as the best stream of all SMs did, at its clock.
  Surface(const Streams& streams, const Memory& memory, const Flow& best)
      : streams_(&streams), is_beyond_caches_(memory.is_beyond_caches), of_all_sms_(best.stream),
        clock_hz_(best.clock_hz) {
    if (memory.path == model::StreamPath::shared) {
      of_all_sms_.work = model::StreamWork::copy;  // as the authors do
    }
  }

  // Of the smallest elements that the device takes; none where it refuses all.
  [[nodiscard]] std::optional<model::OneSmSurface> measure() const {
    for (const std::uint32_t bits : element_sizes_bits) {
      model::OneSmSurface surface{.work = std::string(to_string(of_all_sms_.work)), .element_bits = bits, .points = {}};
      for (const std::uint32_t warps : warps_of_block) {
        for (const std::uint32_t elements : all_in_flight) {
          if (const auto point = point_of(stream_of(bits, warps, elements))) {
            surface.points.push_back(*point);
          } else if (surface.points.empty()) {
            break;
          }
        }
        if (surface.points.empty()) {
          break;  // elements of this size are refused
        }
      }
      if (!surface.points.empty()) {
        return surface;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::array<std::uint32_t, 6> warps_of_block{1, 2, 4, 8, 16, 32};

  [[nodiscard]] Stream stream_of(std::uint32_t bits, std::uint32_t warps, std::uint32_t elements) const {
    Stream stream = of_all_sms_;
    stream.element_bits = bits;
    stream.elements_in_flight = elements;
    stream.block_threads = warps * model::warp_lanes;
    stream.blocks = 1;
    stream.drops_l2 = is_beyond_caches_;
    if (stream.dataset_bytes != 0) {
      // No more than all warps need to load lines of their own: a block held more of it before.
      const std::uint64_t most_bytes =
          std::uint64_t{warps_of_block.back()} * model::warp_lanes * all_in_flight.back() * bits / 8;
      const std::uint64_t bytes = stream.part_bytes != 0 ? stream.part_bytes : stream.dataset_bytes;
      stream.dataset_bytes =
          is_beyond_caches_ ? largest_of_one_block(streams_->device()) : std::min(std::bit_floor(bytes), most_bytes);
      stream.part_bytes = stream.part_bytes != 0 ? stream.dataset_bytes : 0;
    }
    return stream;
  }

  // By runs of two lengths: what it takes to begin and to end, and to bring the data at first, does not count.
  [[nodiscard]] std::optional<model::SurfacePoint> point_of(const Stream& stream) const {
    constexpr std::uint64_t fewest_rounds = 256;
    constexpr std::uint64_t times_as_long = 3;
    const std::uint64_t round_bytes =
        std::uint64_t{stream.block_threads} * stream.elements_in_flight * stream.element_bits / 8;
    const std::uint64_t rounds =
        is_beyond_caches_ ? fewest_rounds : std::max(fewest_rounds, stream.dataset_bytes / round_bytes);
    const auto few = cycles_of(stream, rounds);
    const auto many = cycles_of(stream, times_as_long * rounds);
    if (!few || !many || *many <= *few) {
      return std::nullopt;
    }
    const double cycles = (*many - *few) / static_cast<double>((times_as_long - 1) * rounds);
    const auto bytes = static_cast<double>(round_bytes * accesses_of_element(stream));
    return model::SurfacePoint{.warps = stream.block_threads / model::warp_lanes,
                               .elements = stream.elements_in_flight,
                               .gb_per_second = gigabytes(bytes / cycles * clock_hz_),
                               .cycles = rounded(cycles)};
  }

  // Of the fastest run; none where the device refuses.
  [[nodiscard]] std::optional<double> cycles_of(Stream stream, std::uint64_t rounds) const {
    constexpr std::uint32_t runs = 3;
    stream.elements_per_thread = static_cast<std::uint32_t>(rounds) * stream.elements_in_flight;
    stream.runs = runs;
    const model::Workload workload = stream;
    try {
      return std::ranges::min(streams_->device().time({&workload, 1}).front().cycles);
    } catch (const QuestionRefused&) {
      return std::nullopt;
    }
  }

  const Streams* streams_;
  bool is_beyond_caches_;
  Stream of_all_sms_;
  double clock_hz_;
};

}  // namespace

std::optional<double> gigabytes_of_one_sm(const Streams& streams, const Memory& memory, const Stream& of_all_sms) {
  Stream stream = of_all_sms;
  stream.blocks = 1;
  if (memory.is_beyond_caches) {
    stream.part_bytes = largest_of_one_block(streams.device());
    stream.drops_l2 = true;
  }
  if (stream.part_bytes != 0) {
    stream.dataset_bytes = stream.part_bytes;
  }
  for (const std::uint32_t threads : {model::most_block_threads, of_all_sms.block_threads}) {
    stream.block_threads = threads;
    if (const auto flow = streams.flow_if_answered(stream)) {
      return gigabytes(flow->bytes_per_second);
    }
  }
  return std::nullopt;
}

std::optional<model::OneSmSurface> one_sm_surface(const Streams& streams, const Memory& memory, const Flow& best) {
  return Surface(streams, memory, best).measure();
}

}  // namespace gpuinfer::infer
