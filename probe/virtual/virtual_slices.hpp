// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/partitions.hpp"
#include "model/random.hpp"
#include "probe/virtual/noise.hpp"

namespace gpuinfer::probe {

// Contended pairs of a cache in slices, with a random stream of its own.
class VirtualSlices {
 public:
  VirtualSlices(model::SliceIndex slices, const model::NoiseDescription& noise, model::Random seeds)
      : slices_(std::move(slices)), noise_(noise, seeds()) {}

  // Throws InputError where a table does not cover an address.
  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    std::vector<float> cycles;
    cycles.reserve(question.record.size());
    for (std::size_t i = 0; i < question.record.size(); i += 2) {
      const bool are_together =
          slice_at(address_of_buffer + question.record[i]) == slice_at(address_of_buffer + question.record[i + 1]);
      cycles.insert(cycles.end(), 2, timed(are_together));
    }
    return cycles;
  }

 private:
  [[nodiscard]] std::uint32_t slice_at(model::Address address) const {
    return model::covered_set_of(slices_.index, address, "slice_index.index");
  }
  float timed(bool are_together) {
    return noise_.timed(are_together != noise_.misreads() ? slices_.together_cycles : slices_.apart_cycles);
  }

  model::SliceIndex slices_;
  Noise noise_;
};

}  // namespace gpuinfer::probe
