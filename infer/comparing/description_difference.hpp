// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/comparing/judgement.hpp"
#include "model/description/sections.hpp"
#include "model/yaml_tree.hpp"

// What two device descriptions say differently. What means the same counts as the same: index functions that split the
// addresses alike, where the bits that took part allow to tell; policies that no sequence of accesses tells apart;
// intervals that overlap; what was timed, as far as its evidence says that it spreads, and else one percent around
// either. Sizes of a cache that were found out at two carve-outs are compared at one of which both say something, and
// are open where there is none.
namespace gpuinfer::infer {

struct LeafDifference {
  std::string section;  // a target, or a key of the schema, as in the evidence
  std::string leaf;     // empty: the whole section, which only one of them has
  Verdict verdict = Verdict::same;
  model::FlowYaml first;  // `null`: not known, or not there
  model::FlowYaml second;
  std::string note;                       // by how much, how it was told, or what is missing
  const model::LeafFacts* row = nullptr;  // of the leaf; null: there is none
};

// One entry for each leaf of either, in the order of the schema. What is said of the devices themselves and their noise
// is left out. `all` outlives them.
[[nodiscard]] std::vector<LeafDifference> differences(
    const model::DeviceDescription& first, const model::DeviceDescription& second,
    const model::Sections<model::DeviceDescription>& all = model::sections());

// Whether one of two values of a leaf in parts has a word that need not stand where the other, of which anything is
// known, has none: it says something else than usual.
[[nodiscard]] bool are_otherwise_in_a_word(const model::LeafFacts& row, const model::YamlNode& first,
                                           const model::YamlNode& second);

// How much was set aside as shared memory when a section was found out, of those that say it.
[[nodiscard]] std::optional<std::uint32_t> carveout_of(const model::DeviceDescription& description,
                                                       const std::string& section);

}  // namespace gpuinfer::infer
