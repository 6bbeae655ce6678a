// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "infer/cache/mixed_questions.hpp"
#include "model/device_description.hpp"

// What stores may do to a cache, and which of that predicts what they do.
namespace gpuinfer::infer {

// What stores may do to a cache with such lines and sectors, but for when they are written: each rule that this program
// can simulate.
[[nodiscard]] std::vector<model::Store> rules_of_stores(const model::CacheDescription& cache);

// Beside them, of a cache under LRU: rules with `cleaning`; none of sets of many ways.
[[nodiscard]] std::vector<model::Store> cleaning_rules_of_stores(const model::CacheDescription& cache);

[[nodiscard]] model::CacheDescription with_rule(model::CacheDescription cache, const model::Store& rule);

// In how many histories a load of such a cache has to come out alike to be predicted.
[[nodiscard]] std::uint64_t histories_of(const model::CacheDescription& cache, std::uint64_t where_chance_rules);

// Which rules are tried, and how many of the loads may be otherwise than the right one predicts.
struct TriedRules {
  std::vector<model::Store> rules;
  QuestionOfPool question = mixed_question;
  std::uint64_t histories = 1;  // that are told apart by what they predict
  double most_wrong = 0;        // share of loads, beside a few; 0: a single one, which may have been misread
};

struct FoundRules {
  std::vector<model::Store> rules;  // that are left, in the order in which they were tried
  bool is_narrow = false;           // nothing tells them apart; false: all that may be asked was, and some still are
};

// Asks of mixed sequences each time the one that tells most rules apart by what they predict, until none of many does,
// and drops rules that what is read contradicts. `stream_name`: of the draws.
[[nodiscard]] FoundRules search_rules(Interrogator& device, const model::CacheDescription& cache, TriedRules tried,
                                      const char* stream_name);

}  // namespace gpuinfer::infer
