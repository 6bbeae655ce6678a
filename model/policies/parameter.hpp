// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/description/leaf.hpp"
#include "model/replacement.hpp"

// Parameters of a policy, a row each: what it is called and which values it takes. The policy reads them by these rows,
// descriptions are checked by them, and the JSON Schema has them from here. of() throws InputError "PARAMETER: what is
// wrong".
namespace gpuinfer::model {

struct WholeParameter {
  std::string_view name;
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  std::optional<std::uint32_t> usual = {};  // where it is left out; none: it must not be

  [[nodiscard]] bool is_needed() const { return !usual; }
  [[nodiscard]] std::uint32_t of(const Replacement& replacement) const { return of(replacement, most); }
  [[nodiscard]] std::uint32_t of(const Replacement& replacement, std::uint32_t at_most) const;
  [[nodiscard]] LeafFacts facts() const;
};

// The first word where it is left out, if it may be.
template <std::size_t count>
struct WordParameter {
  std::string_view name;
  std::array<std::string_view, count> words;
  bool must_be_there = false;

  [[nodiscard]] bool is_needed() const { return must_be_there; }
  [[nodiscard]] std::string_view of(const Replacement& replacement) const;
  [[nodiscard]] LeafFacts facts() const;
};

// A text of this form, an ECMA regular expression, which the policy takes apart.
struct TextParameter {
  std::string_view name;
  std::string_view pattern;

  [[nodiscard]] static bool is_needed() { return true; }
  [[nodiscard]] const std::string& of(const Replacement& replacement) const;
  [[nodiscard]] LeafFacts facts() const;
};

struct NumberListParameter {
  std::string_view name;
  double below = std::numeric_limits<double>::max();  // from 0 on

  [[nodiscard]] static bool is_needed() { return true; }
  [[nodiscard]] const std::vector<double>& of(const Replacement& replacement) const;
  [[nodiscard]] LeafFacts facts() const;
};

// With its lists of numbers up to `most`.
struct WholeListParameter {
  // It stands where, and only where, that other parameter is that word.
  struct Condition {
    std::string_view name;
    std::string_view word;
  };

  std::string_view name;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  bool may_be_left_out = false;
  std::optional<Condition> where = {};

  [[nodiscard]] bool is_needed() const { return !may_be_left_out && !where; }
  [[nodiscard]] bool is_in(const Replacement& replacement) const;
  [[nodiscard]] std::vector<std::uint32_t> of(const Replacement& replacement) const { return of(replacement, most); }
  [[nodiscard]] std::vector<std::uint32_t> of(const Replacement& replacement, std::uint32_t at_most) const;
  [[nodiscard]] LeafFacts facts() const;
};

struct WholeListsParameter {
  std::string_view name;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] static bool is_needed() { return true; }
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> of(const Replacement& replacement) const {
    return of(replacement, most);
  }
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> of(const Replacement& replacement, std::uint32_t at_most) const;
  [[nodiscard]] LeafFacts facts() const;
};

// Throws InputError when a parameter stands there that is not in `names`.
void allow_parameters(const Replacement& replacement, std::span<const std::string_view> names);
[[nodiscard]] bool has_parameter(const Replacement& replacement, std::string_view name);
// Throws InputError where `where` does not hold and the parameter is there.
void check_condition(const Replacement& replacement, const WholeListParameter& parameter);
// One of `words`. Throws InputError for any other word.
[[nodiscard]] std::string_view word_parameter(const Replacement& replacement, std::string_view name,
                                              std::span<const std::string_view> words, bool must_be_there);

template <std::size_t count>
std::string_view WordParameter<count>::of(const Replacement& replacement) const {
  return word_parameter(replacement, name, words, must_be_there);
}

template <std::size_t count>
LeafFacts WordParameter<count>::facts() const {
  return {.name = name, .is_needed = is_needed(), .schema = schema::words(words)};
}

// Each row by itself, and that there are no other parameters.
template <class... Row>
void check_parameters(const Replacement& replacement, const std::tuple<Row...>& rows) {
  std::apply(
      [&](const auto&... row) {
        const std::array<std::string_view, sizeof...(row)> names{row.name...};
        allow_parameters(replacement, names);
        [[maybe_unused]] const auto check_one = [&](const auto& each) {
          if constexpr (requires { each.where; }) {
            check_condition(replacement, each);
          }
          if (each.is_needed() || has_parameter(replacement, each.name)) {
            static_cast<void>(each.of(replacement));
          }
        };
        (check_one(row), ...);
      },
      rows);
}

// Throws InputError that names `name` unless all sets have so many ways.
void require_ways(const std::vector<std::uint32_t>& ways, std::size_t wanted, std::string_view name);

// Throws InputError that names `name` unless the numbers are 0, 1, ... in some order.
void require_permutation(const std::vector<std::uint32_t>& numbers, std::string_view name);

}  // namespace gpuinfer::model
