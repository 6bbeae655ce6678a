// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/replacement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "model/number_text.hpp"
#include "model/policies/table.hpp"
#include "model/printable.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::model {

namespace {

const PolicyParameter& parameter(const Replacement& replacement, std::string_view name) {
  const auto found = replacement.parameters.find(std::string(name));
  if (found == replacement.parameters.end()) {
    throw LeafError(std::string(name), "is missing; policy " + replacement.policy + " needs it");
  }
  return found->second;
}

std::uint32_t whole_number(double number, std::string_view name, std::uint32_t least, std::uint32_t most) {
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    throw LeafError(std::string(name), "must be whole, from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<std::uint32_t>(number);
}

std::vector<std::uint32_t> whole_numbers(const std::vector<double>& numbers, std::string_view name, std::uint32_t least,
                                         std::uint32_t most) {
  std::vector<std::uint32_t> whole;
  whole.reserve(numbers.size());
  for (const double number : numbers) {
    whole.push_back(whole_number(number, name, least, most));
  }
  return whole;
}

struct ParameterText {
  std::string operator()(std::int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return to_text(number); }
  std::string operator()(const std::string& text) const { return text; }
  template <class Value>
  std::string operator()(const std::vector<Value>& list) const {
    std::string text;
    for (const Value& item : list) {
      text += (text.empty() ? "" : ",") + (*this)(item);
    }
    return "[" + text + "]";
  }
};

template <class Value>
const Value& typed_parameter(const Replacement& replacement, std::string_view name, std::string_view type) {
  const Value* value = std::get_if<Value>(&parameter(replacement, name));
  if (value == nullptr) {
    throw LeafError(std::string(name), "must be " + std::string(type));
  }
  return *value;
}

}  // namespace

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for_each_policy([&]<class Policy>() { names.push_back(Policy::name); });
  return names;
}

void check(const Replacement& replacement, const std::vector<std::uint32_t>& ways) {
  with_policy(replacement.policy, [&]<class Policy>() {
    check_parameters(replacement, Policy::parameters);
    if constexpr (requires { Policy::check(replacement, ways); }) {
      Policy::check(replacement, ways);
    }
  });
}

bool is_deterministic(const Replacement& replacement) {
  bool deterministic = false;
  with_policy(replacement.policy, [&]<class Policy>() { deterministic = Policy::deterministic; });
  return deterministic;
}

std::vector<Replacement> guessed_policies(const std::vector<std::uint32_t>& ways) {
  std::vector<Replacement> policies;
  for_each_policy([&]<class Policy>() {
    for (Replacement& guess : Policy::guesses(ways)) {
      policies.push_back(std::move(guess));
    }
  });
  return policies;
}

std::vector<Replacement> plain_policies(const std::vector<std::uint32_t>& ways) {
  std::vector<Replacement> policies = guessed_policies(ways);
  std::erase_if(policies, [](const Replacement& policy) { return !policy.parameters.empty(); });
  return policies;
}

std::string to_text(const Replacement& replacement) {
  std::string text = replacement.policy;
  for (const auto& [name, value] : replacement.parameters) {
    text += " " + name + "=" + std::visit(ParameterText{}, value);
  }
  return text;
}

void allow_parameters(const Replacement& replacement, std::span<const std::string_view> names) {
  for (const auto& [name, value] : replacement.parameters) {
    if (std::ranges::find(names, name) == names.end()) {
      throw LeafError(printable(name), "is not a parameter of policy " + replacement.policy + "; remove it");
    }
  }
}

bool has_parameter(const Replacement& replacement, std::string_view name) {
  return replacement.parameters.contains(std::string(name));
}

std::uint32_t WholeParameter::of(const Replacement& replacement, std::uint32_t at_most) const {
  if (usual && !has_parameter(replacement, name)) {
    return *usual;
  }
  return whole_number(static_cast<double>(typed_parameter<std::int64_t>(replacement, name, "a whole number")), name,
                      least, at_most);
}

LeafFacts WholeParameter::facts() const {
  return {.name = name, .is_needed = is_needed(), .schema = schema::number("integer", to_text(least), to_text(most))};
}

const std::string& TextParameter::of(const Replacement& replacement) const {
  return typed_parameter<std::string>(replacement, name, "a word");
}

LeafFacts TextParameter::facts() const {
  return {.name = name,
          .is_needed = true,
          .schema = {{"type", "string"}, {"pattern", to_yaml_scalar(std::string(pattern))}}};
}

const std::vector<double>& NumberListParameter::of(const Replacement& replacement) const {
  return typed_parameter<std::vector<double>>(replacement, name, "a list of numbers");
}

LeafFacts NumberListParameter::facts() const {
  return {.name = name,
          .is_needed = true,
          .is_measured = true,
          .schema = schema::list({{"type", "number"}, {"minimum", "0"}, {"exclusiveMaximum", to_text(below)}})};
}

bool WholeListParameter::is_in(const Replacement& replacement) const { return has_parameter(replacement, name); }

std::vector<std::uint32_t> WholeListParameter::of(const Replacement& replacement, std::uint32_t at_most) const {
  return whole_numbers(typed_parameter<std::vector<double>>(replacement, name, "a list of numbers"), name, 0, at_most);
}

LeafFacts WholeListParameter::facts() const {
  return {
      .name = name, .is_needed = is_needed(), .schema = schema::list(schema::number("integer", "0", to_text(most)))};
}

void check_condition(const Replacement& replacement, const WholeListParameter& parameter) {
  if (!parameter.where) {
    return;
  }
  const auto& [other, word] = *parameter.where;
  const auto found = replacement.parameters.find(std::string(other));
  const auto* const said = found == replacement.parameters.end() ? nullptr : std::get_if<std::string>(&found->second);
  const bool holds = said != nullptr && *said == word;
  if (holds && !parameter.is_in(replacement)) {
    throw LeafError(std::string(parameter.name),
                    "is missing; `" + std::string(other) + ": " + std::string(word) + "` needs it");
  }
  if (!holds && parameter.is_in(replacement)) {
    throw LeafError(std::string(parameter.name),
                    "stands only beside `" + std::string(other) + ": " + std::string(word) + "`; remove it");
  }
}

std::vector<std::vector<std::uint32_t>> WholeListsParameter::of(const Replacement& replacement,
                                                                std::uint32_t at_most) const {
  std::vector<std::vector<std::uint32_t>> lists;
  for (const auto& list :
       typed_parameter<std::vector<std::vector<double>>>(replacement, name, "a list of lists of numbers")) {
    lists.push_back(whole_numbers(list, name, 0, at_most));
  }
  return lists;
}

LeafFacts WholeListsParameter::facts() const {
  const schema::Object list = schema::list(schema::number("integer", "0", to_text(most)));
  return {.name = name, .is_needed = true, .schema = schema::list(list, 1)};
}

std::string_view word_parameter(const Replacement& replacement, std::string_view name,
                                std::span<const std::string_view> words, bool must_be_there) {
  if (!must_be_there && !has_parameter(replacement, name)) {
    return words.front();
  }
  const std::string& word = typed_parameter<std::string>(replacement, name, "a word");
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view each : words) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    throw LeafError(std::string(name), "`" + printable(word) + "` is not known; write one of " + known);
  }
  return *found;
}

void require_ways(const std::vector<std::uint32_t>& ways, std::size_t wanted, std::string_view name) {
  if (std::any_of(ways.begin(), ways.end(), [wanted](std::uint32_t count) { return count != wanted; })) {
    throw LeafError(std::string(name),
                    "has " + std::to_string(wanted) + " entries where every set needs one for each of its ways");
  }
}

void require_permutation(const std::vector<std::uint32_t>& numbers, std::string_view name) {
  std::vector<std::uint32_t> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint32_t> expected(numbers.size());
  std::iota(expected.begin(), expected.end(), 0U);
  if (sorted != expected) {
    throw LeafError(std::string(name),
                    "must name each of 0 to " + std::to_string(numbers.size()) + " - 1 once; correct it");
  }
}

}  // namespace gpuinfer::model
