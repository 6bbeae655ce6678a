// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
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

std::vector<double> numbers_from(const Place& place) {
  std::vector<double> numbers;
  for (const Place& item : place.items()) {
    numbers.push_back(item.real(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()));
  }
  return numbers;
}

PolicyParameter parameter_from(const Place& place) {
  const YamlNode& node = place.node();
  if (node.kind == YamlNode::Kind::list) {
    const std::vector<Place> items = place.items();
    if (items.empty() || items.front().node().kind != YamlNode::Kind::list) {
      return numbers_from(place);
    }
    std::vector<std::vector<double>> lists(items.size());
    std::transform(items.begin(), items.end(), lists.begin(), numbers_from);
    return lists;
  }
  if (node.kind == YamlNode::Kind::plain) {
    if (const auto integer = number_from<std::int64_t>(node.text)) {
      return *integer;
    }
    if (const auto real = number_from<double>(node.text); real && std::isfinite(*real)) {
      return *real;
    }
  }
  return place.text();
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

// A whole number of type double keeps its `.0`, which is what tells it from an integer when it is read back.
struct ParameterText {
  FlowYaml operator()(std::int64_t number) const { return to_text(number); }
  FlowYaml operator()(double number) const {
    const std::string text = to_text(number);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  // `true` and `false` stay bare: they are words here, and truth values to whoever else reads this.
  FlowYaml operator()(const std::string& text) const {
    return text == "true" || text == "false" ? text : to_yaml_scalar(text);
  }
  FlowYaml operator()(const std::vector<double>& numbers) const { return number_list(numbers); }
  FlowYaml operator()(const std::vector<std::vector<double>>& lists) const {
    return list_of(lists, number_list<double>);
  }
};

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

std::string Index::write(const IndexFunction& index) const { return flow_map(index_entries(index)); }

void fail_in(const Place& place, std::string_view message) {
  const std::size_t colon = message.find(": ");
  if (const auto entry = place.find(message.substr(0, colon)); entry && colon != std::string_view::npos) {
    entry->fail(std::string(message.substr(colon + 2)));
  }
  place.fail(std::string(message));
}

std::optional<Replacement> replacement_from(const Place& place, const std::optional<std::vector<std::uint32_t>>& ways) {
  const auto policy = place.find("policy");
  if (!policy) {
    place.allow({"policy"});
    return std::nullopt;
  }
  Replacement replacement{.policy = policy->text(), .parameters = {}, .equivalent = {}};
  for (const auto& [name, value] : place.entries()) {
    if (name == "equivalent" && !value.is_null()) {
      for (const Place& item : value.items()) {
        replacement.equivalent.push_back(item.text());
        const std::string other = item.text().substr(0, item.text().find(' '));
        if (!contains(policy_names(), other)) {
          item.fail("`" + other + "` is not a known policy; write `" + nearest(other, policy_names()) +
                    "` or remove it");
        }
      }
    } else if (name != "policy" && !value.is_null()) {
      replacement.parameters.emplace(name, parameter_from(value));
    }
  }
  try {
    check(replacement, ways.value_or(std::vector<std::uint32_t>{}));
  } catch (const InputError& error) {
    fail_in(place, error.what());
  }
  return replacement;
}

std::string replacement_text(const Replacement& replacement) {
  FlowEntries entries{{"policy", to_yaml_scalar(replacement.policy)}};
  for (const auto& [name, value] : replacement.parameters) {
    entries.emplace_back(to_yaml_scalar(name), std::visit(ParameterText{}, value));
  }
  if (!replacement.equivalent.empty()) {
    entries.emplace_back("equivalent", list_of(replacement.equivalent, to_yaml_scalar));
  }
  return flow_map(entries);
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

std::string Ways::write(const std::vector<std::uint32_t>& ways) const { return number_list(ways); }

Map<LatencyCycles> latency_cycles() {
  return {.leaves = {leaf("hit", &LatencyCycles::hit, Real{}), leaf("miss", &LatencyCycles::miss, Real{})}};
}

Map<PatternLatencyCycles> pattern_latencies() {
  Map<PatternLatencyCycles> patterns;
  for (std::size_t i = 0; i < pattern_names.size(); ++i) {
    Leaf<PatternLatencyCycles> row(pattern_names[i], "");
    row.read = [i](const Place& place, PatternLatencyCycles& cycles) { cycles[i] = Real{}.read(place); };
    row.write = [i](const PatternLatencyCycles& cycles) { return cycles[i] ? Real{}.write(*cycles[i]) : "null"; };
    row.is_default = [i](const PatternLatencyCycles& cycles) { return !cycles[i]; };
    patterns.leaves.push_back(row);
  }
  return patterns;
}

Map<TexelBlock> texel_block() {
  return {.leaves = {leaf("width", &TexelBlock::width, Bytes{.least = 1, .most = max_bytes}).needed(),
                     leaf("height", &TexelBlock::height, Bytes{.least = 1, .most = max_bytes}).needed()}};
}

List<Map<CodeLevel>> code_levels() {
  return {.item = {.leaves = {leaf("fits_bytes", &CodeLevel::fits_bytes, Bytes{.least = 1, .most = max_bytes}),
                              leaf("cycles", &CodeLevel::cycles, Real{}).needed()}}};
}

}  // namespace gpuinfer::model::codec
