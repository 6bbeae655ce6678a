// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/replacement.hpp"

#include <algorithm>
#include <string>

#include "model/policies/table.hpp"

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
    throw InputError("policy: `" + std::string(name) + "` is not known; known are " + known);
  }
}

const PolicyParameter& parameter(const Replacement& replacement, std::string_view name) {
  const auto found = replacement.parameters.find(std::string(name));
  if (found == replacement.parameters.end()) {
    throw InputError(std::string(name) + ": is missing; policy " + replacement.policy + " needs it");
  }
  return found->second;
}

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

std::vector<Replacement> plain_policies(const std::vector<std::uint32_t>& ways) {
  std::vector<Replacement> policies;
  for_each_policy([&]<class Policy>() {
    if (!Policy::deterministic) {
      return;
    }
    Replacement plain{.policy = std::string(Policy::name), .parameters = {}, .equivalent = {}};
    try {
      Policy::check(plain, ways);
    } catch (const InputError&) {
      return;
    }
    policies.push_back(std::move(plain));
  });
  return policies;
}

void allow_parameters(const Replacement& replacement, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : replacement.parameters) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw InputError(name + ": is no parameter of policy " + replacement.policy + "; remove it");
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

}  // namespace gpuinfer::model
