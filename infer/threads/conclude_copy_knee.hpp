// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "model/evidence_details.hpp"

// Decides from which size of copies on L2 saves no more. Asks nothing.
namespace gpuinfer::infer {

// What it helps that a dataset is in L2, by its size: (bytes, seconds), ascending.
using Savings = std::vector<std::pair<double, double>>;

// Why finer steps would show no knee; none: they may.
[[nodiscard]] std::optional<std::string> doubt_of_doublings(const Savings& doublings);

// The largest doubling before those that gain no more, where there is no such doubt.
[[nodiscard]] std::uint64_t bytes_before_level(const Savings& doublings);

// Between which sizes what L2 saves stops growing: all at which a ramp may end by an F test, with a step on either
// side. Behind it, it stays, or falls where what the run before stored has to be written back. None where no ramp
// explains what grows.
[[nodiscard]] std::optional<model::BytePair> end_of_ramp(const Savings& savings);

struct CopyKneeSeen {
  Savings doublings;
  // Ends of the ramps that finer steps show, in two rounds; none: there is no such ramp, or the one before had none.
  std::optional<model::BytePair> knee = {};
  std::optional<model::BytePair> again = {};
};

struct CopyKneeVerdict {
  LeafVerdict leaf = {};
  std::optional<model::BytePair> knee = {};  // unless it is open
};

[[nodiscard]] CopyKneeVerdict conclude_copy_knee(const CopyKneeSeen& seen);

[[nodiscard]] double microseconds(double seconds);

// What is worse with the dataset in L2, to go on a sentence; empty: nothing.
[[nodiscard]] std::string costs_in_l2(const Savings& savings);

}  // namespace gpuinfer::infer
