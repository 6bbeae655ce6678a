// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/policies/policy.hpp"

namespace gpuinfer::model {

using Parameters = std::map<std::string, PolicyParameter>;
inline Parameters one_in(std::int64_t fills) { return {{"one_in", fills}}; }

using Rows = std::vector<std::vector<double>>;

// One set of a policy, for tests that read like the worked example of a paper: lines are letters, and
//   OneSet<Lru>(2).play("ab a c") == "-- + b"
// says of each access whether it hits (+), fills a free way (-), or which line has to go. Spaces stay.
// The set stands between two others of as many ways, so that a policy that mixes up its sets is noticed.
template <class Policy>
class OneSet {
 public:
  explicit OneSet(std::uint32_t ways, Parameters parameters = {}, std::uint64_t seed = 1)
      : layout_({ways, ways, ways}), random_(seed), replacement_{.policy = std::string(Policy::name),
                                                                 .parameters = std::move(parameters),
                                                                 .equivalent = {}},
        policy_(layout_, replacement_, random_), contents_(3) {
    check(replacement_, {ways, ways, ways});
  }

  OneSet(const OneSet&) = delete;
  OneSet& operator=(const OneSet&) = delete;

  std::string play(std::string_view lines, std::uint32_t set = middle) {
    std::string outcomes;
    for (const char line : lines) {
      outcomes += line == ' ' ? ' ' : access(set, line);
    }
    return outcomes;
  }

  // The lines that are there, by way; free ways are left out.
  [[nodiscard]] const std::string& contents() const { return contents_[middle]; }

  [[nodiscard]] std::vector<std::uint32_t> state() const {
    std::vector<std::uint32_t> state;
    policy_.append_state(middle, state);
    return state;
  }

  void invalidate() { contents_.assign(contents_.size(), ""); }
  void reset() {
    invalidate();
    policy_.reset();
  }

 private:
  static constexpr std::uint32_t middle = 1;

  char access(std::uint32_t set, char line) {
    std::string& contents = contents_[set];
    const std::uint32_t first = layout_.first_slot[set];
    if (const std::size_t way = contents.find(line); way != std::string::npos) {
      policy_.hit(set, first + static_cast<std::uint32_t>(way));
      return '+';
    }
    if (contents.size() < layout_.ways(set)) {
      contents += line;
      policy_.fill(set, first + static_cast<std::uint32_t>(contents.size() - 1));
      return '-';
    }
    const std::uint32_t slot = policy_.victim(set);
    policy_.fill(set, slot);
    return std::exchange(contents.at(slot - first), line);
  }

  SetLayout layout_;
  Random random_;
  Replacement replacement_;
  Policy policy_;
  std::vector<std::string> contents_;
};

// So many accesses of lines that are drawn alike from the first so many letters.
inline std::string random_lines(std::size_t accesses, std::uint32_t letters, std::uint64_t seed) {
  Random random(seed);
  std::string lines;
  for (std::size_t i = 0; i < accesses; ++i) {
    lines += static_cast<char>('A' + static_cast<char>(random.below(letters)));
  }
  return lines;
}

// What is wrong with the parameters in sets of so many ways; nothing where they are fine.
template <class Policy>
std::string policy_refusal(const Parameters& parameters, const std::vector<std::uint32_t>& ways = {}) {
  try {
    check({.policy = std::string(Policy::name), .parameters = parameters, .equivalent = {}}, ways);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace gpuinfer::model
