// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/outer_laps.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "infer/cache/granularity.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t warm_laps = 3;
constexpr std::size_t recorded_laps = 4;

// Lines that miss in all laps but one at least, which misreads hardly ever make.
constexpr std::size_t least_misses = recorded_laps - 1;

}  // namespace

OuterLaps::OuterLaps(Interrogator& device, std::uint64_t granule_bytes)
    : device_(&device), granule_bytes_(granule_bytes), start_(aligned_start(device)),
      lines_of_buffer_((device.buffer().bytes - start_) / granule_bytes), lines_before_(start_ / granule_bytes) {}

std::uint64_t OuterLaps::offset_of(std::uint64_t line) const {
  return line < lines_of_buffer_ ? start_ + line * granule_bytes_ : start_ - (all_lines() - line) * granule_bytes_;
}

model::Address OuterLaps::address_of(std::uint64_t line) const { return device_->address_of(offset_of(line)); }

bool OuterLaps::go_far_beyond_nearer_level(std::size_t lines) const {
  constexpr std::uint64_t much_more = 3;
  return lines * granule_bytes_ >= much_more * device_->buffer().nearer_bytes.value_or(0);
}

std::uint64_t OuterLaps::lines_past_nearer_level() const {
  constexpr std::uint64_t fewest = 4;
  return std::max(fewest, 2 * device_->buffer().nearer_bytes.value_or(0) / granule_bytes_);
}

Missing OuterLaps::missing(const Lines& lines) {
  AccessSequence lap;
  std::ranges::transform(lines, std::back_inserter(lap), [&](std::uint64_t line) { return offset_of(line); });
  const model::Question question =
      device_->question(model::repeated(lap, warm_laps), model::repeated(lap, recorded_laps));
  const std::vector<model::Question> questions(times_, question);
  Missing missed(lines.size());
  for (const std::vector<float>& cycles : device_->latencies(questions)) {
    const std::vector<Reading> readings = device_->classifier().readings(cycles);
    for (std::size_t place = 0; place < lines.size(); ++place) {
      std::size_t misses = 0;
      for (std::size_t lap_begin = 0; lap_begin < readings.size(); lap_begin += lines.size()) {
        misses += readings[lap_begin + place] == Reading::miss ? 1U : 0U;
      }
      missed[place] = missed[place] || misses >= least_misses;
      torn_ += misses > 0 && misses < recorded_laps ? 1U : 0U;
    }
  }
  return missed;
}

Missing OuterLaps::missing_in_order(const Lines& lines) {
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t place) { return lines[place]; });
  Lines sorted;
  std::ranges::transform(order, std::back_inserter(sorted), [&](std::size_t place) { return lines[place]; });
  const Missing missed = missing(sorted);
  Missing found(lines.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    found[order[place]] = missed[place];
  }
  return found;
}

}  // namespace gpuinfer::infer
