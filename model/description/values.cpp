// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/values.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "model/errors.hpp"

namespace gpuinfer::model::codec {

namespace {

using FlowEntries = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t max_set_bits = 24;
constexpr std::uint64_t max_address_bit = 63;

std::vector<unsigned> at_most_bits(const Place& place, std::size_t most) {
  auto bits = place.wholes<unsigned>(0, max_address_bit);
  if (bits.size() > most) {
    place.fail("has " + std::to_string(bits.size()) + " address bits, where at most " + std::to_string(most) +
               " fit; remove some");
  }
  if (std::set<unsigned>(bits.begin(), bits.end()).size() != bits.size()) {
    place.fail("names an address bit twice; name each one once");
  }
  return bits;
}

std::vector<Place> at_most(const Place& place, std::size_t most) {
  auto items = place.items();
  if (items.size() > most) {
    place.fail("has " + std::to_string(items.size()) + " entries, where at most " + std::to_string(most) +
               " fit; remove some");
  }
  return items;
}

XorIndex xor_index(const Place& place) {
  XorIndex index;
  for (const Place& row : at_most(place.need("rows"), max_set_bits)) {
    std::uint64_t mask = 0;
    for (const unsigned bit : distinct_address_bits(row)) {
      mask |= std::uint64_t{1} << bit;
    }
    index.row_masks.push_back(mask);
  }
  index.constant = static_cast<std::uint32_t>(place.find_whole("constant", 0, index.sets() - 1).value_or(0));
  return index;
}

SumIndex sum_index(const Place& place) {
  SumIndex index;
  for (const Place& field : place.need("fields").items()) {
    index.fields.push_back({at_most_bits(field, max_set_bits)});
  }
  index.sets_count = static_cast<std::uint32_t>(place.need("sets").whole(1, max_lines));
  return index;
}

TableIndex table_index(const Place& place) {
  TableIndex index;
  index.granule_bytes = place.need("granule_bytes").whole(1, max_line_bytes);
  const Place sets_of = place.need("sets_of");
  index.sets_of = sets_of.wholes<std::uint32_t>(0, max_lines - 1);
  if (index.sets_of.empty() || index.sets_of.size() > max_lines) {
    sets_of.fail("must have from 1 to " + std::to_string(max_lines) + " entries; give the set of each granule");
  }
  index.origin = place.find_whole("origin", 0, max_bytes).value_or(0);
  index.range_bytes = place.find_whole("range_bytes", 1, max_bytes);
  return index;
}

template <class Value, class Text>
FlowYaml list_of(const std::vector<Value>& values, Text&& text_of) {
  std::vector<std::string> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(), text_of);
  return flow_list(texts);
}

template <class Number>
FlowYaml number_list(const std::vector<Number>& numbers) {
  return list_of(numbers, [](Number number) { return to_text(number); });
}

FlowYaml bit_lists(const std::vector<std::vector<unsigned>>& lists) { return list_of(lists, number_list<unsigned>); }

FlowEntries parameters_of(const BitsIndex& index) { return {{"bits", number_list(index.bits)}}; }

FlowEntries parameters_of(const XorIndex& index) {
  std::vector<std::vector<unsigned>> rows;
  for (const std::uint64_t mask : index.row_masks) {
    rows.emplace_back();
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
      rows.back().push_back(static_cast<unsigned>(std::countr_zero(rest)));
    }
  }
  return {{"rows", bit_lists(rows)}, {"constant", to_text(index.constant)}};
}

FlowEntries parameters_of(const ModuloIndex& index) {
  return {{"granule_bytes", to_text(index.granule_bytes)}, {"sets", to_text(index.sets_count)}};
}

FlowEntries parameters_of(const SumIndex& index) {
  std::vector<std::vector<unsigned>> fields;
  for (const BitsIndex& field : index.fields) {
    fields.push_back(field.bits);
  }
  return {{"fields", bit_lists(fields)}, {"sets", to_text(index.sets_count)}};
}

FlowEntries parameters_of(const TableIndex& index) {
  FlowEntries entries{{"granule_bytes", to_text(index.granule_bytes)}, {"sets_of", number_list(index.sets_of)}};
  if (index.origin != 0) {
    entries.emplace_back("origin", to_text(index.origin));
  }
  if (index.range_bytes) {
    entries.emplace_back("range_bytes", to_text(*index.range_bytes));
  }
  return entries;
}

schema::Object bits_schema(std::size_t most = std::string::npos) {
  schema::Object list = schema::list(schema::number("integer", "0", to_text(max_address_bit)), 0, most);
  list.emplace_back("uniqueItems", "true");
  return list;
}

schema::Object kind_schema(std::string_view kind, schema::Object properties,
                           const std::vector<std::string_view>& optional_ones = {}) {
  properties.insert(properties.begin(), {"kind", schema::text(schema::constant(kind))});
  std::vector<std::string> needed;
  for (const auto& [name, value] : properties) {
    if (std::ranges::find(optional_ones, name) == optional_ones.end()) {
      needed.push_back(name);
    }
  }
  properties.emplace_back("exercised_bits", schema::text(schema::or_null(bits_schema())));
  return schema::map(properties, {needed.begin(), needed.end()});
}

schema::Object index_of_a_kind_schema() {
  const auto whole = [](std::uint64_t least, std::uint64_t most) {
    return schema::number("integer", to_text(least), to_text(most));
  };
  const std::string granule = schema::text(whole(1, max_line_bytes));
  const std::string sets = schema::text(whole(1, max_lines));
  return schema::one_of(
      {kind_schema("bits", {{"bits", schema::text(bits_schema(max_set_bits))}}),
       kind_schema("xor",
                   {{"rows", schema::text(schema::list(bits_schema(), 0, max_set_bits))},
                    {"constant", schema::text(schema::or_null(whole(0, max_lines)))}},
                   {"constant"}),
       kind_schema("modulo", {{"granule_bytes", granule}, {"sets", sets}}),
       kind_schema("sum", {{"fields", schema::text(schema::list(bits_schema(max_set_bits)))}, {"sets", sets}}),
       kind_schema("table",
                   {{"granule_bytes", granule},
                    {"sets_of", schema::text(schema::list(whole(0, max_lines - 1), 1, max_lines))},
                    {"origin", schema::text(schema::or_null(whole(0, max_bytes)))},
                    {"range_bytes", schema::text(schema::or_null(whole(1, max_bytes)))}},
                   {"origin", "range_bytes"})});
}

schema::Object ways_schema() {
  const schema::Object count = schema::number("integer", "1", to_text(max_lines));
  const std::string number = schema::text(count);
  return schema::one_of({schema::list(count, 1), schema::map({{"sets", number}, {"each", number}}, {"sets", "each"})});
}

schema::Object index_schema() {
  return schema::one_of(
      {schema::map({{"kind", "{type: \"null\"}"}, {"exercised_bits", schema::text(schema::or_null(bits_schema()))}}),
       schema::reference("index_of_a_kind")});
}

}  // namespace

std::vector<unsigned> distinct_address_bits(const Place& place) { return at_most_bits(place, max_address_bit + 1); }

std::optional<IndexFunction> index_from(const Place& place) {
  const auto kind = place.find("kind");
  if (!kind) {
    place.allow({"kind", "exercised_bits"});
    return std::nullopt;
  }
  const std::string name = kind->text();
  if (name == "bits") {
    place.allow({"kind", "bits", "exercised_bits"});
    return BitsIndex{at_most_bits(place.need("bits"), max_set_bits)};
  }
  if (name == "xor") {
    place.allow({"kind", "rows", "constant", "exercised_bits"});
    return xor_index(place);
  }
  if (name == "modulo") {
    place.allow({"kind", "granule_bytes", "sets", "exercised_bits"});
    return ModuloIndex{.granule_bytes = place.need("granule_bytes").whole(1, max_line_bytes),
                       .sets_count = static_cast<std::uint32_t>(place.need("sets").whole(1, max_lines))};
  }
  if (name == "sum") {
    place.allow({"kind", "fields", "sets", "exercised_bits"});
    return sum_index(place);
  }
  if (name == "table") {
    place.allow({"kind", "granule_bytes", "sets_of", "origin", "range_bytes", "exercised_bits"});
    return table_index(place);
  }
  kind->fail("`" + name + "` is not a known kind of index; write one of bits, xor, modulo, sum, table");
}

FlowEntries index_entries(const IndexFunction& index) {
  FlowEntries entries = std::visit([](const auto& kind) { return parameters_of(kind); }, index);
  entries.insert(entries.begin(), {"kind", std::string(kind_name(index))});
  return entries;
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

void fail_in(const Place& place, std::string_view message) {
  const std::size_t colon = message.find(": ");
  if (const auto entry = place.find(message.substr(0, colon)); entry && colon != std::string_view::npos) {
    entry->fail(std::string(message.substr(colon + 2)));
  }
  place.fail(std::string(message));
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

std::string SmLists::text(const std::vector<std::vector<std::uint32_t>>& groups) {
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
            return words::together({"hit ", text(cycles.hit), ", miss ", text(cycles.miss), " cycles"});
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
