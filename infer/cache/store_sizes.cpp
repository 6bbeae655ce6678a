// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/store_sizes.hpp"

#include <algorithm>
#include <utility>

#include "infer/circumstances/circumstances.hpp"

namespace gpuinfer::infer {

namespace {

// At the smallest size every line of a full store is followed, each by some ten questions that load all lines before
// it: the asking grows with the square of the lines, and 1,200 take some 16 million loads each time.
constexpr std::uint64_t most_lines_of_smallest = 1536;

// At the largest only lines of samples of one size are followed, so the asking grows with the lines.
constexpr std::uint64_t most_lines_of_largest = 8192;

constexpr const char* too_many_lines = "more lines fit than can be followed one by one";

StoreSizes sizes_by_contiguous_lines(Interrogator& device, std::uint64_t line_bytes, std::uint64_t own_onset_lines) {
  const StoreSize own{.onset_lines = own_onset_lines};
  std::vector<StoreSize> offered;
  if (!device.facts().shared_memories_kb.empty()) {
    device.inquire("contiguous arrays with every carve-out",
                   "where the store is small it shows, where large, the sets");
    for (const std::uint32_t carveout_kb : device.facts().shared_memories_kb) {
      offered.push_back({.carveout_kb = carveout_kb, .onset_lines = lines_that_fit(device, carveout_kb, line_bytes)});
    }
    device.learned(std::to_string(offered.size()) + " sizes");
  }
  return sizes_by(&StoreSize::onset_lines, own, std::move(offered));
}

// Of a sample of so many lines from everywhere.
std::uint64_t lines_present_of(Interrogator& device, RandomLines& lines, const StoreSize& size, std::size_t sample) {
  constexpr std::size_t asked_lines = 64;
  const Under circumstances(device, size.circumstances());
  const AccessSequence loads = lines.draw(sample);
  std::vector<model::Question> questions;
  for (std::size_t i = 0; i < asked_lines; ++i) {
    questions.push_back(device.question(loads, {loads[i * loads.size() / asked_lines]}));
  }
  const auto readings = device.ask_voted(questions, device.votes_needed());
  return static_cast<std::uint64_t>(
      std::ranges::count_if(readings, [](const auto& one) { return one.front() == Reading::hit; }));
}

StoreSizes sizes_by_random_lines(Interrogator& device, RandomLines& lines, StoreSizes sizes) {
  device.inquire("random loads with every carve-out", "as few contiguous lines fit in all of them");
  const std::size_t sample = 2 * sizes.largest.onset_lines + 16;
  sizes.own.present_lines = lines_present_of(device, lines, sizes.own, sample);
  for (StoreSize& size : sizes.offered) {
    size.present_lines = lines_present_of(device, lines, size, sample);
  }
  sizes = sizes_by(&StoreSize::present_lines, sizes.own, std::move(sizes.offered));
  device.learned("the largest is " + sizes.largest.name() + ", the smallest " + sizes.smallest.name());
  return sizes;
}

}  // namespace

std::string StoreSize::name() const {
  return carveout_kb ? "a carve-out of " + std::to_string(*carveout_kb) + " KB" : "the size that it has";
}

StoreSizes sizes_by(std::uint64_t StoreSize::*measure, StoreSize own, std::vector<StoreSize> offered) {
  StoreSizes sizes{.own = own, .offered = std::move(offered), .smallest = own, .largest = own};
  for (const StoreSize& size : sizes.offered) {
    sizes.smallest = std::ranges::min(sizes.smallest, size, {}, measure);
    sizes.largest = std::ranges::max(sizes.largest, size, {}, measure);
  }
  return sizes;
}

StoreSizes measure_store_sizes(Interrogator& device, RandomLines& lines, std::uint64_t own_onset_bytes) {
  StoreSizes sizes = sizes_by_contiguous_lines(device, lines.line_bytes(), own_onset_bytes / lines.line_bytes());
  if (sizes.largest.onset_lines > most_lines_of_largest) {
    throw NoSweptStore(too_many_lines);
  }
  // Contiguous lines may overflow a set before the store is full, and then say little.
  if (!sizes.offered.empty() && sizes.largest.onset_lines < 2 * sizes.smallest.onset_lines) {
    sizes = sizes_by_random_lines(device, lines, std::move(sizes));
  }
  if (sizes.smallest.onset_lines > most_lines_of_smallest) {
    throw NoSweptStore(too_many_lines);
  }
  return sizes;
}

}  // namespace gpuinfer::infer
