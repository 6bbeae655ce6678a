// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/description/leaf.hpp"
#include "model/description/words.hpp"
#include "model/number_text.hpp"

// Values of leaves: each in YAML with its limits, in words for people, and as a piece of the JSON Schema. All that
// reads throws InputError.
namespace gpuinfer::model::codec {

// Far above any cache and far below what could overflow or exhaust memory in a simulation.
inline constexpr std::uint64_t max_bytes = std::uint64_t{1} << 50U;
inline constexpr std::uint64_t max_line_bytes = std::uint64_t{1} << 30U;
inline constexpr std::uint64_t max_lines = std::uint64_t{1} << 26U;
inline constexpr std::uint64_t max_count = std::uint64_t{1} << 53U;
inline constexpr double max_cycles = 1e9;

enum class Unit : std::uint8_t { none, bytes, lines, texels, kilobytes, cycles, seconds, megahertz, bytes_per_second };

[[nodiscard]] std::string_view to_string(Unit unit);  // B, cycles, ..

template <class Number, Unit unit = Unit::none>
struct Whole {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<Number>::max();

  [[nodiscard]] Number read(const Place& place) const { return static_cast<Number>(place.whole(least, most)); }
  [[nodiscard]] std::string write(Number number) const { return to_text(number); }
  [[nodiscard]] std::string text(Number number) const {
    if constexpr (unit == Unit::bytes) {
      return words::bytes(number);
    }
    return words::grouped(number);
  }
  [[nodiscard]] LeafFacts facts() const {
    return {.unit = to_string(unit), .schema = schema::number("integer", to_text(least), to_text(most))};
  }
};

using Bytes = Whole<std::uint64_t, Unit::bytes>;
using Bytes32 = Whole<std::uint32_t, Unit::bytes>;
using Lines = Whole<std::uint64_t, Unit::lines>;
using Texels = Whole<std::uint64_t, Unit::texels>;
using Count = Whole<std::uint32_t>;

template <Unit unit = Unit::none>
struct Real {
  double least = 0;
  double most = max_cycles;

  [[nodiscard]] double read(const Place& place) const { return place.real(least, most); }
  [[nodiscard]] std::string write(double number) const { return to_text(number); }
  [[nodiscard]] std::string text(double number) const {
    return words::together({to_text(number), unit == Unit::none ? "" : " ", to_string(unit)});
  }
  [[nodiscard]] LeafFacts facts() const {
    return {.unit = to_string(unit),
            .is_measured = true,
            .schema = schema::number("number", to_text(least), to_text(most))};
  }
};

using Cycles = Real<Unit::cycles>;

struct Text {
  [[nodiscard]] std::string read(const Place& place) const { return place.text(); }
  [[nodiscard]] std::string write(const std::string& text) const { return to_yaml_scalar(text); }
  [[nodiscard]] std::string text(const std::string& text) const { return text; }
  [[nodiscard]] LeafFacts facts() const { return {.schema = schema::any_text()}; }
};

// Not known where it is empty.
struct TextOrNull : Text {
  [[nodiscard]] std::string write(const std::string& text) const { return text.empty() ? "null" : Text::write(text); }
  [[nodiscard]] std::optional<std::string> text(const std::string& text) const {
    return text.empty() ? std::nullopt : std::optional(text);
  }
};

// One of some words, each of which stands for a value.
template <class Value>
struct Words {
  std::vector<std::pair<std::string_view, Value>> words;
  std::string_view refusal = "is not known";

  [[nodiscard]] Value read(const Place& place) const {
    const std::string text = place.text();
    std::string known;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].first == text) {
        return words[i].second;
      }
      known += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i].first);
    }
    place.fail("`" + text + "` " + std::string(refusal) + "; write " + known);
  }
  [[nodiscard]] std::string write(Value value) const {
    return std::string(std::ranges::find(words, value, &std::pair<std::string_view, Value>::second)->first);
  }
  [[nodiscard]] std::string text(Value value) const { return write(value); }
  [[nodiscard]] LeafFacts facts() const {
    std::vector<std::string_view> names;
    for (const auto& [word, value] : words) {
      names.push_back(word);
    }
    return {.schema = schema::words(names)};
  }
};

template <class Item>
struct List {
  Item item;
  std::size_t most = std::string::npos;
  std::string_view separator = ", ";  // for people
  std::string_view none = "none";     // an empty list, for people

  [[nodiscard]] auto read(const Place& place) const {
    const std::vector<Place> items = place.items();
    if (items.size() > most) {
      place.fail("has " + std::to_string(items.size()) + " entries, where at most " + std::to_string(most) +
                 " fit; remove some");
    }
    std::vector<decltype(item.read(place))> values;
    for (const Place& each : items) {
      values.push_back(item.read(each));
    }
    return values;
  }
  template <class Value>
  [[nodiscard]] std::string write(const std::vector<Value>& values) const {
    std::vector<std::string> texts;
    for (const Value& value : values) {
      texts.push_back(item.write(value));
    }
    return flow_list(texts);
  }
  template <class Value>
  [[nodiscard]] std::string text(const std::vector<Value>& values) const {
    std::vector<std::string> texts;
    for (const Value& value : values) {
      texts.push_back(item.text(value));
    }
    return texts.empty() ? std::string(none) : words::joined(texts, separator);
  }
  [[nodiscard]] LeafFacts facts() const {
    LeafFacts facts = item.facts();
    facts.schema = schema::list(facts.schema, 0, most);
    facts.may_be_null = false;
    return facts;
  }
};

// A struct by its rows; `check` fails at the place where they do not fit one another.
template <class Part>
struct Map {
  Leaves<Part> leaves;
  std::function<void(const Place&, const Part&)> check = {};
  std::function<std::string(const Part&)> words = {};  // for people; empty: as in files
  std::string_view key = {};                           // the leaf that tells those of a list apart

  [[nodiscard]] Part read(const Place& place) const {
    Part part{};
    read_leaves(place, part, leaves);
    if (check) {
      check(place, part);
    }
    return part;
  }
  [[nodiscard]] std::string write(const Part& part) const { return flow_map(written_leaves(part, leaves)); }
  [[nodiscard]] std::string text(const Part& part) const { return words ? words(part) : write(part); }
  [[nodiscard]] LeafFacts facts() const {
    LeafFacts facts{.parts = facts_of(leaves), .key = key};
    facts.schema = schema_of(facts.parts);
    return facts;
  }
};

// A list of structs, of each of which `key`, the leaf that tells them apart, is more than of the one before.
template <class Part, class Number>
struct Ascending {
  List<Map<Part>> list;
  Number Part::*key;
  std::function<std::string(const std::vector<Part>&)> words = {};  // for people; empty: as any list

  [[nodiscard]] std::vector<Part> read(const Place& place) const {
    std::vector<Part> parts = list.read(place);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (parts[i].*key <= parts[i - 1].*key) {
        place.items()[i].fail("does not have more " + std::string(list.item.key) +
                              " than the one before; put them in ascending order");
      }
    }
    return parts;
  }
  [[nodiscard]] std::string write(const std::vector<Part>& parts) const { return list.write(parts); }
  [[nodiscard]] std::string text(const std::vector<Part>& parts) const {
    return words ? words(parts) : list.text(parts);
  }
  [[nodiscard]] LeafFacts facts() const { return list.facts(); }
};

// Its lower and its upper end: what a number is inside of with 95 %.
struct Interval {
  double most = static_cast<double>(max_bytes);

  [[nodiscard]] std::array<double, 2> read(const Place& place) const {
    const std::vector<double> ends = List<Real<>>{Real<>{.least = 0, .most = most}}.read(place);
    if (ends.size() != 2 || ends[0] > ends[1]) {
      place.fail("is no interval; give its lower and its upper end");
    }
    return {ends[0], ends[1]};
  }
  [[nodiscard]] std::string write(const std::array<double, 2>& interval) const {
    return flow_list({to_text(interval[0]), to_text(interval[1])});
  }
  [[nodiscard]] std::string text(const std::array<double, 2>& interval) const {
    return words::together({words::bytes(interval), " on average"});
  }
  [[nodiscard]] LeafFacts facts() const {
    return {.unit = to_string(Unit::bytes),
            .is_measured = true,
            .sameness = Sameness::overlap,
            .schema = schema::list(Real<>{.most = most}.facts().schema, 2, 2)};
  }
};

}  // namespace gpuinfer::model::codec
