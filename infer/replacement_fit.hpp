// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "infer/interrogator.hpp"
#include "infer/partition.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

struct ReplacementFit {
  std::vector<model::Replacement> candidates;      // what explains everything that was asked; one: that is it
  std::string reason;                              // when it is not exactly one
  std::map<std::string, model::FlowYaml> details;  // deterministic, victim_probability_intervals, ...
};

// Which policy chooses the victim, from experiments on single sets. Deterministic policies must predict every access of
// random walks over a few more lines than the set has ways. Where the same question is answered differently, the
// victims themselves are watched, and must look like those of a simulated set that is read with the same rate of
// misreads.
[[nodiscard]] ReplacementFit fit_replacement(Interrogator& device, const std::vector<ConflictClass>& sets);

// p-value of the hypothesis that the victims of `set`, at least `wanted` of them watched anew, are drawn by `policy`.
[[nodiscard]] double fresh_victims_fit(Interrogator& device, const ConflictClass& set, const model::Replacement& policy,
                                       std::size_t wanted);

}  // namespace gpuinfer::infer
