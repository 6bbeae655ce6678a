// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/description/codec.hpp"
#include "model/device_description.hpp"
#include "model/errors.hpp"

// Values that stand in more than one section. All that reads throws InputError.
namespace gpuinfer::model::codec {

// Of a map that has `kind`; none where that is null.
[[nodiscard]] std::optional<IndexFunction> index_from(const Place& place);
[[nodiscard]] std::vector<std::pair<std::string, std::string>> index_entries(const IndexFunction& index);

// An index that is not one of a cache by itself, but of its `of_what`.
struct Index {
  std::string_view of_what;

  [[nodiscard]] IndexFunction read(const Place& place) const;
  [[nodiscard]] std::string write(const IndexFunction& index) const;
  [[nodiscard]] std::string text(const IndexFunction& index) const { return write(index); }
  [[nodiscard]] LeafFacts facts() const;
};

// `ways`: of the cache, where they are known. None where `policy` is null.
[[nodiscard]] std::optional<Replacement> replacement_from(const Place& place,
                                                          const std::optional<std::vector<std::uint32_t>>& ways);
[[nodiscard]] std::string replacement_text(const Replacement& replacement);
[[nodiscard]] LeafFacts replacement_facts();
[[nodiscard]] schema::Object replacement_schema();
[[nodiscard]] schema::Object policies_schema();  // a list of names with parameters

// One for each set, at least one; more than 16 equal ones as {sets: 512, each: 4}. Both are read.
struct Ways {
  [[nodiscard]] std::vector<std::uint32_t> read(const Place& place) const;
  [[nodiscard]] std::string write(const std::vector<std::uint32_t>& ways) const;
  [[nodiscard]] std::string text(const std::vector<std::uint32_t>& ways) const { return words::ways(ways); }
  [[nodiscard]] LeafFacts facts() const;
};

// The number of an SM.
struct Sm {
  [[nodiscard]] static ComputeUnit read(const Place& place) { return ComputeUnit{Count{}.read(place)}; }
  [[nodiscard]] static std::string write(ComputeUnit sm) { return Count{}.write(number_of(sm)); }
  [[nodiscard]] static std::string text(ComputeUnit sm) { return Count{}.text(number_of(sm)); }
  [[nodiscard]] static LeafFacts facts() { return Count{}.facts(); }
};

// SMs that have something in common, a list for each such group.
struct SmLists : List<List<Sm>> {
  [[nodiscard]] static std::string text(const std::vector<ComputeUnits>& groups);
};

[[nodiscard]] Map<LatencyCycles> latency_cycles();
[[nodiscard]] Map<PatternLatencyCycles> pattern_latencies();
[[nodiscard]] Map<TexelBlock> texel_block();
[[nodiscard]] List<Map<CodeLevel>> code_levels();

// What references of the schema name.
[[nodiscard]] std::vector<std::pair<std::string_view, schema::Object>> definitions();

// Fails at the entry of the map that the error is of, or at the map where it has none.
[[noreturn]] void fail_in(const Place& place, const LeafError& error);

}  // namespace gpuinfer::model::codec
