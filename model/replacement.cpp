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

namespace gpuinfer::model {

namespace {

// Calls visitor.operator()<Policy>() for the policy of that name; throws InputError where there is none.
template <class Visitor>
void with_policy(std::string_view name, Visitor&& visitor) {
  bool found = false;
  std::string known;
  for_each_policy([&]<class Policy>() {
    known += (known.empty() ? "" : ", ") + std::string(Policy::name);
    if (Policy::name == name) {
      found = true;
      visitor.template operator()<Policy>();
    }
  });
  if (!found) {
    throw InputError("policy: `" + printable(std::string(name)) + "` is not known; known are " + known);
  }
}

const PolicyParameter& parameter(const Replacement& replacement, std::string_view name) {
  const auto found = replacement.parameters.find(std::string(name));
  if (found == replacement.parameters.end()) {
    throw InputError(std::string(name) + ": is missing; policy " + replacement.policy + " needs it");
  }
  return found->second;
}

std::uint32_t whole_number(double number, std::string_view name, std::uint32_t least, std::uint32_t most) {
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    throw InputError(std::string(name) + ": must be whole, from " + std::to_string(least) + " to " +
                     std::to_string(most));
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
    throw InputError(std::string(name) + ": must be " + std::string(type));
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
  with_policy(replacement.policy, [&]<class Policy>() { Policy::check(replacement, ways); });
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

void allow_parameters(const Replacement& replacement, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : replacement.parameters) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw InputError(printable(name) + ": is no parameter of policy " + replacement.policy + "; remove it");
    }
  }
}

std::int64_t integer_parameter(const Replacement& replacement, std::string_view name) {
  return typed_parameter<std::int64_t>(replacement, name, "a whole number");
}

const std::string& text_parameter(const Replacement& replacement, std::string_view name) {
  return typed_parameter<std::string>(replacement, name, "a word");
}

const std::vector<double>& list_parameter(const Replacement& replacement, std::string_view name) {
  return typed_parameter<std::vector<double>>(replacement, name, "a list of numbers");
}

std::uint32_t whole_parameter(const Replacement& replacement, std::string_view name, std::uint32_t least,
                              std::uint32_t most) {
  return whole_number(static_cast<double>(integer_parameter(replacement, name)), name, least, most);
}

std::vector<std::uint32_t> whole_list_parameter(const Replacement& replacement, std::string_view name,
                                                std::uint32_t least, std::uint32_t most) {
  return whole_numbers(list_parameter(replacement, name), name, least, most);
}

std::vector<std::vector<std::uint32_t>> whole_lists_parameter(const Replacement& replacement, std::string_view name,
                                                              std::uint32_t least, std::uint32_t most) {
  std::vector<std::vector<std::uint32_t>> lists;
  for (const auto& list :
       typed_parameter<std::vector<std::vector<double>>>(replacement, name, "a list of lists of numbers")) {
    lists.push_back(whole_numbers(list, name, least, most));
  }
  return lists;
}

bool has_parameter(const Replacement& replacement, std::string_view name) {
  return replacement.parameters.contains(std::string(name));
}

std::uint32_t whole_parameter_or(const Replacement& replacement, std::string_view name, std::uint32_t value,
                                 std::uint32_t least, std::uint32_t most) {
  return has_parameter(replacement, name) ? whole_parameter(replacement, name, least, most) : value;
}

std::string_view word_parameter(const Replacement& replacement, std::string_view name,
                                std::initializer_list<std::string_view> words) {
  if (!has_parameter(replacement, name)) {
    return *words.begin();
  }
  const std::string& word = text_parameter(replacement, name);
  const auto* found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view each : words) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    throw InputError(std::string(name) + ": `" + printable(word) + "` is not known; write one of " + known);
  }
  return *found;
}

void require_ways(const std::vector<std::uint32_t>& ways, std::size_t wanted, std::string_view name) {
  if (std::any_of(ways.begin(), ways.end(), [wanted](std::uint32_t count) { return count != wanted; })) {
    throw InputError(std::string(name) + ": has " + std::to_string(wanted) +
                     " entries where every set needs one for each of its ways");
  }
}

void require_permutation(const std::vector<std::uint32_t>& numbers, std::string_view name) {
  std::vector<std::uint32_t> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint32_t> expected(numbers.size());
  std::iota(expected.begin(), expected.end(), 0U);
  if (sorted != expected) {
    throw InputError(std::string(name) + ": must name each of 0 to " + std::to_string(numbers.size()) +
                     " - 1 once; correct it");
  }
}

}  // namespace gpuinfer::model
