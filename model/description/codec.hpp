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
#include "model/number_text.hpp"

// Values of leaves in their YAML form, each with its limits. All that reads throws InputError.
namespace gpuinfer::model::codec {

// Far above any cache and far below what could overflow or exhaust memory in a simulation.
inline constexpr std::uint64_t max_bytes = std::uint64_t{1} << 50U;
inline constexpr std::uint64_t max_line_bytes = std::uint64_t{1} << 30U;
inline constexpr std::uint64_t max_lines = std::uint64_t{1} << 26U;
inline constexpr std::uint64_t max_count = std::uint64_t{1} << 53U;
inline constexpr double max_cycles = 1e9;

template <class Number>
struct Whole {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<Number>::max();

  [[nodiscard]] Number read(const Place& place) const { return static_cast<Number>(place.whole(least, most)); }
  [[nodiscard]] std::string write(Number number) const { return to_text(number); }
};

using Bytes = Whole<std::uint64_t>;
using Count = Whole<std::uint32_t>;

struct Real {
  double least = 0;
  double most = max_cycles;

  [[nodiscard]] double read(const Place& place) const { return place.real(least, most); }
  [[nodiscard]] std::string write(double number) const { return to_text(number); }
};

struct Text {
  [[nodiscard]] std::string read(const Place& place) const { return place.text(); }
  [[nodiscard]] std::string write(const std::string& text) const { return to_yaml_scalar(text); }
};

// Not known where it is empty.
struct TextOrNull {
  [[nodiscard]] std::string read(const Place& place) const { return place.text(); }
  [[nodiscard]] std::string write(const std::string& text) const {
    return text.empty() ? "null" : to_yaml_scalar(text);
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
};

template <class Item>
struct List {
  Item item;
  std::size_t most = std::numeric_limits<std::size_t>::max();

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
};

// A struct by its rows; `check` fails at the place where they do not fit one another.
template <class Part>
struct Map {
  Leaves<Part> leaves;
  std::function<void(const Place&, const Part&)> check = {};

  [[nodiscard]] Part read(const Place& place) const {
    Part part{};
    read_leaves(place, part, leaves);
    if (check) {
      check(place, part);
    }
    return part;
  }
  [[nodiscard]] std::string write(const Part& part) const { return flow_map(written_leaves(part, leaves)); }
};

// Its lower and its upper end.
struct Interval {
  double most = static_cast<double>(max_bytes);

  [[nodiscard]] std::array<double, 2> read(const Place& place) const {
    const std::vector<double> ends = List<Real>{Real{.least = 0, .most = most}}.read(place);
    if (ends.size() != 2 || ends[0] > ends[1]) {
      place.fail("is no interval; give its lower and its upper end");
    }
    return {ends[0], ends[1]};
  }
  [[nodiscard]] std::string write(const std::array<double, 2>& interval) const {
    return flow_list({to_text(interval[0]), to_text(interval[1])});
  }
};

// A value that has functions of its own.
template <class Value>
struct Custom {
  Value (*reader)(const Place&);
  std::string (*writer)(const Value&);

  [[nodiscard]] Value read(const Place& place) const { return reader(place); }
  [[nodiscard]] std::string write(const Value& value) const { return writer(value); }
};

}  // namespace gpuinfer::model::codec
