// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/values.hpp"

#include <algorithm>
#include <map>

#include "model/errors.hpp"
#include "model/index/address_bits.hpp"

namespace gpuinfer::model::codec {

namespace {

using FlowEntries = std::vector<std::pair<std::string, std::string>>;

template <class Number>
FlowYaml number_list(const std::vector<Number>& numbers) {
  return flow_list(numbers, [](Number number) { return to_text(number); });
}

// Between the name of the kind and what only a cache says of its index.
template <class Kind>
Leaves<Kind> rows_of() {
  Leaves<Kind> rows = Kind::leaves();
  Leaf<Kind> kind({.name = "kind", .is_needed = true, .schema = schema::constant(Kind::kind)});
  kind.read = [](const Place&, Kind&) {};
  kind.write = [](const Kind&) { return std::string(Kind::kind); };
  kind.is_default = [](const Kind&) { return false; };
  rows.insert(rows.begin(), kind);
  Leaf<Kind> bits({.name = "exercised_bits", .schema = AddressBits{}.facts().schema});
  bits.read = kind.read;
  rows.push_back(bits);
  return rows;
}

schema::Object index_of_a_kind_schema() {
  std::vector<schema::Object> kinds;
  for_each_index_kind([&]<class Kind>() { kinds.push_back(schema_of(facts_of(rows_of<Kind>()))); });
  return schema::one_of(kinds);
}

schema::Object ways_schema() {
  const schema::Object count = schema::number("integer", "1", to_text(max_lines));
  const std::string number = schema::text(count);
  return schema::one_of({schema::list(count, 1), schema::map({{"sets", number}, {"each", number}}, {"sets", "each"})});
}

schema::Object index_schema() {
  return schema::one_of({schema::map({{"kind", "{type: \"null\"}"},
                                      {"exercised_bits", schema::text(schema::or_null(AddressBits{}.facts().schema))}}),
                         schema::reference("index_of_a_kind")});
}

}  // namespace

std::optional<IndexFunction> index_from(const Place& place) {
  const auto kind = place.find("kind");
  if (!kind) {
    place.allow({"kind", "exercised_bits"});
    return std::nullopt;
  }
  const std::string name = kind->text();
  std::optional<IndexFunction> index;
  std::string known;
  for_each_index_kind([&]<class Kind>() {
    known += (known.empty() ? "" : ", ") + std::string(Kind::kind);
    if (Kind::kind == name) {
      Kind found;
      read_leaves(place, found, rows_of<Kind>());
      index = std::move(found);
    }
  });
  if (!index) {
    kind->fail("`" + name + "` is not a known kind of index; write one of " + known);
  }
  return index;
}

FlowEntries index_entries(const IndexFunction& index) {
  return std::visit([]<class Kind>(const Kind& kind) { return written_leaves(kind, rows_of<Kind>()); }, index);
}

IndexFunction Index::read(const Place& place) const {
  const auto function = index_from(place);
  if (!function) {
    place.fail("lacks `kind`; give it");
  }
  if (const auto bits = place.find("exercised_bits")) {
    bits->fail("is told of the index of a cache, not of its " + std::string(of_what) + "; remove it");
  }
  return *function;
}

LeafFacts Index::facts() const {
  return {.sameness = Sameness::index,
          .schema = {{"$ref", "\"#/$defs/index_of_a_kind\""}, {"properties", "{exercised_bits: {type: \"null\"}}"}}};
}

std::string Index::write(const IndexFunction& index) const { return flow_map(index_entries(index)); }

void fail_in(const Place& place, const LeafError& error) {
  if (const auto entry = place.find(error.leaf())) {
    entry->fail(error.sentence());
  }
  place.fail(error.what());
}

std::vector<std::uint32_t> Ways::read(const Place& place) const {
  if (place.node().kind == YamlNode::Kind::map) {
    place.allow({"sets", "each"});
    const std::uint64_t each = place.need("each").whole(1, max_lines);
    const std::uint64_t sets = place.need("sets").whole(1, max_lines / each);
    return std::vector<std::uint32_t>(sets, static_cast<std::uint32_t>(each));
  }
  std::vector<std::uint32_t> ways = place.wholes<std::uint32_t>(1, max_lines);
  if (ways.empty()) {
    place.fail("is empty; give one number of ways for each set, or null");
  }
  return ways;
}

std::string Ways::write(const std::vector<std::uint32_t>& ways) const {
  constexpr std::size_t most_listed = 16;
  const bool is_counted =
      ways.size() > most_listed && std::ranges::all_of(ways, [&](std::uint32_t each) { return each == ways.front(); });
  return is_counted ? flow_map({{"sets", to_text(ways.size())}, {"each", to_text(ways.front())}}) : number_list(ways);
}

LeafFacts Ways::facts() const { return {.sameness = Sameness::ways, .schema = schema::reference("ways")}; }

std::string SmLists::text(const std::vector<ComputeUnits>& groups) {
  std::map<std::size_t, std::size_t> count_of_size;
  for (const auto& group : groups) {
    ++count_of_size[group.size()];
  }
  std::vector<std::string> texts;
  for (const auto& [size, count] : count_of_size) {
    texts.push_back(words::together({to_text(count), " by ", to_text(size), " SMs"}));
  }
  return words::together({to_text(groups.size()), ": ", words::joined(texts)});
}

Map<LatencyCycles> latency_cycles() {
  return {.leaves = {leaf("hit", &LatencyCycles::hit, Cycles{}, "of a load that hits"),
                     leaf("miss", &LatencyCycles::miss, Cycles{}, "of a load that hits in the next level")},
          .words = [](const LatencyCycles& cycles) {
            const auto text = [](const std::optional<double>& value) { return value ? to_text(*value) : "?"; };
            return words::together({"hit ", text(cycles.hit), ", miss ", text(cycles.miss),
                                    cycles.dirty_miss ? ", dirty miss " + to_text(*cycles.dirty_miss) : "", " cycles"});
          }};
}

Map<PatternLatencyCycles> pattern_latencies() {
  constexpr std::array<std::string_view, pattern_names.size()> meanings{
      "data in the cache, translation in the first TLB", "data in the cache, translation in the second TLB",
      "data in the cache, translation in neither TLB",   "data in memory, translation in the first TLB",
      "data in memory, translation in neither TLB",      "as P5, with a switch between page tables"};
  Map<PatternLatencyCycles> patterns;
  for (std::size_t i = 0; i < pattern_names.size(); ++i) {
    Leaf<PatternLatencyCycles> row(facts_of(pattern_names.at(i), Cycles{}, meanings.at(i)));
    row.sameness = Sameness::mean;
    row.read = [i](const Place& place, PatternLatencyCycles& cycles) { cycles.at(i) = Cycles{}.read(place); };
    row.write = [i](const PatternLatencyCycles& cycles) {
      return cycles.at(i) ? Cycles{}.write(*cycles.at(i)) : "null";
    };
    row.is_default = [i](const PatternLatencyCycles& cycles) { return !cycles.at(i); };
    row.text = [i](const PatternLatencyCycles& cycles) {
      return cycles.at(i) ? std::optional(Cycles{}.text(*cycles.at(i))) : std::nullopt;
    };
    patterns.leaves.push_back(row);
  }
  return patterns;
}

Map<TexelBlock> texel_block() {
  return {
      .leaves = {leaf("width", &TexelBlock::width, Texels{.least = 1, .most = max_bytes}, "of the block").needed(),
                 leaf("height", &TexelBlock::height, Texels{.least = 1, .most = max_bytes}, "of the block").needed()},
      .words = [](const TexelBlock& block) { return to_string(block) + " texels"; }};
}

List<Map<CodeLevel>> code_levels() {
  return {.item = {.leaves = {leaf("fits_bytes", &CodeLevel::fits_bytes, Bytes{.least = 1, .most = max_bytes},
                                   "the longest code that is as fast; not of the last level"),
                              leaf("cycles", &CodeLevel::cycles, Cycles{}, "of one piece").needed()}}};
}

std::vector<std::pair<std::string_view, schema::Object>> definitions() {
  return {{"index", index_schema()},
          {"index_of_a_kind", index_of_a_kind_schema()},
          {"ways", ways_schema()},
          {"replacement", replacement_schema()},
          {"policies", policies_schema()}};
}

}  // namespace gpuinfer::model::codec
