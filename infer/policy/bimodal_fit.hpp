// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/policy/replacement_fit.hpp"

// Policies that toss a coin for each new line: BIP (Qureshi et al., ISCA 2007, section 3) and BRRIP (Jaleel et al.,
// ISCA 2010, section 4.2). What the coins were shows in what is evicted, so the likelihood of an answer is summed
// over all coins (`coin_filter`).
namespace gpuinfer::infer {

// The bimodal policies that explain fresh answers of all `sets`, which have more than one way each, and none of whose
// rivals explains the answers 10^6 times better; of a device that starts from a flood, only those in which no line has
// a way of its own, unless each set has two lines for each of its ways. None: no coin shows, or it is not theirs. Adds
// `one_in_interval_95_percent` to the details.
[[nodiscard]] std::optional<ReplacementFit> fit_bimodal(Interrogator& device,
                                                        const std::vector<const ConflictClass*>& sets,
                                                        model::EvidenceDetails details = {});

// Smallest of the p-values of seven statistics of fresh answers, each compared between whole answers and simulated
// ones, because what happens within an answer hangs together.
[[nodiscard]] double fresh_bimodal_fit(Interrogator& device, const std::vector<const ConflictClass*>& sets,
                                       const model::Replacement& policy, std::size_t answers);

// How many lines of a set fresh_bimodal_fit() takes to follow the policy.
[[nodiscard]] std::uint32_t lines_to_follow(const Interrogator& device, const model::Replacement& policy,
                                            std::uint32_t ways);

// True where new lines that evict each other in turn under `policy`, which is deterministic, stay now and then.
// Where they do not under `policy`, nothing is asked.
[[nodiscard]] bool new_lines_stay_at_times(Interrogator& device, const ConflictClass& set,
                                           const model::Replacement& policy);

}  // namespace gpuinfer::infer
