// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "infer/asking/claim.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

using Bytes = std::uint64_t;

// What the stages say of one cache. Optional claims are of leaves that not every cache has.
struct CacheClaims {
  Claim<std::uint64_t> capacity_bytes = {};
  Claim<std::uint64_t> onset_bytes = {};
  Claim<std::uint64_t> line_bytes = {};
  Claim<std::uint64_t> sector_bytes = {};
  Claim<std::vector<std::uint32_t>> ways = {};
  Claim<model::IndexFunction> index = {};
  Claim<model::Replacement> replacement = {};
  Claim<model::LatencyCycles> latency_cycles = {};
  std::optional<Claim<std::uint64_t>> store_lines = {};
  std::optional<Claim<model::Sweep>> sweep = {};
  std::optional<Claim<model::Fill>> fill = {};
  std::optional<Claim<model::Store>> store = {};
  // Of `store`, what is not known; evidence alone speaks of it.
  std::map<std::string, Claim<model::FlowYaml>> of_store = {};
  std::optional<Claim<model::Hints>> hints = {};
  std::optional<Claim<std::vector<model::SetAside>>> set_asides = {};
  std::optional<Claim<std::optional<model::Partitions>>> partitions = {};  // none: no part is far from any SM
  std::optional<Claim<std::uint32_t>> slices = {};
  std::optional<Claim<model::SliceIndex>> slice_index = {};
  std::optional<Claim<std::vector<std::uint32_t>>> slice_ways = {};
  std::optional<Claim<model::SliceDistances>> slice_distances = {};
  std::optional<Claim<std::vector<model::Carveout>>> carveouts = {};
  std::optional<Claim<std::vector<std::string>>> shared_with = {};
  std::optional<Claim<std::array<double, 2>>> resident_bytes = {};
  std::optional<Claim<std::vector<model::ComputeUnits>>> shared_by_sms = {};
  std::optional<Claim<std::monostate>> sms = {};  // every SM was asked; evidence alone speaks of it

  std::optional<std::vector<unsigned>> exercised_bits = {};  // of the index
  std::optional<model::PredictionEvidence> prediction = {};
  // Fresh accesses, or sequences and victims where the policy is random, that could have refuted the whole description
  // and did not. None: it was not predicted.
  std::size_t predicted_trials = 0;
  // Line, sets and ways: each count at several lengths of an array, or by packings of which every one behaves so.
  bool sets_are_counted = false;
};

// Whether sets, index and policy have values that a prediction bore out.
[[nodiscard]] inline bool are_sets_proven(const CacheClaims& claims) {
  return claims.line_bytes.value && claims.sector_bytes.value && claims.ways.value && claims.index.value &&
         claims.replacement.value && claims.predicted_trials > 0;
}

// Calls visit(name of the leaf, claim, member of CacheDescription) for each claim that was made or is of every cache.
// No member (nullptr): only evidence speaks of the leaf.
template <class Claims, class Visit>
void for_each_claim(Claims& claims, Visit&& visit) {
  using Cache = model::CacheDescription;
  visit("capacity_bytes", claims.capacity_bytes, &Cache::capacity_bytes);
  visit("onset_bytes", claims.onset_bytes, &Cache::onset_bytes);
  visit("line_bytes", claims.line_bytes, &Cache::line_bytes);
  visit("sector_bytes", claims.sector_bytes, &Cache::sector_bytes);
  visit("ways", claims.ways, &Cache::ways);
  visit("index", claims.index, &Cache::index);
  visit("replacement", claims.replacement, &Cache::replacement);
  visit("latency_cycles", claims.latency_cycles, &Cache::latency_cycles);
  const auto visit_made = [&](std::string_view leaf, auto& claim, auto member) {
    if (claim) {
      visit(leaf, *claim, member);
    }
  };
  visit_made("store_lines", claims.store_lines, &Cache::store_lines);
  visit_made("sweep", claims.sweep, &Cache::sweep);
  visit_made("fill", claims.fill, &Cache::fill);
  visit_made("store", claims.store, &Cache::store);
  for (auto& [leaf, claim] : claims.of_store) {
    visit(leaf, claim, nullptr);
  }
  visit_made("hints", claims.hints, &Cache::hints);
  visit_made("set_asides", claims.set_asides, &Cache::set_asides);
  visit_made("partitions", claims.partitions, &Cache::partitions);
  visit_made("slices", claims.slices, &Cache::slices);
  visit_made("slice_index", claims.slice_index, &Cache::slice_index);
  visit_made("slice_ways", claims.slice_ways, &Cache::slice_ways);
  visit_made("slice_distances", claims.slice_distances, &Cache::slice_distances);
  visit_made("carveouts", claims.carveouts, &Cache::carveouts);
  visit_made("shared_with", claims.shared_with, &Cache::shared_with);
  visit_made("resident_bytes", claims.resident_bytes, &Cache::resident_bytes);
  visit_made("shared_by_sms", claims.shared_by_sms, &Cache::shared_by_sms);
  visit_made("sms", claims.sms, nullptr);
}

}  // namespace gpuinfer::infer
