// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/replacement.hpp"
#include "model/set_machine.hpp"

// Which sequence of accesses to a single set tells most of the policies that are still possible. A sequence is worth
// the entropy of the groups of policies that answer it alike, and costs its accesses and the trouble of asking at all
// (adaptive distinguishing sequences: Lee & Yannakakis, "Principles and methods of testing finite state machines",
// Proc. IEEE 84(8), 1996; the greedy choice by information: Chaloner & Verdinelli, Statistical Science 10(3), 1995).
namespace gpuinfer::infer {

// Lines of one set, numbered from 0.
using SetLines = std::vector<std::uint32_t>;

// What a set holds, and what its policy remembers, when a question begins.
enum class SetStart {
  empty,        // nothing
  invalidated,  // no lines, and whatever state histories lead to
  flooded,      // whatever histories and then many strange lines leave
};

// The part of a set that questions use: lines [0, recorded) are asked about. The conditioning comes before, to bring a
// set that is not as after power-on into a state that is known better.
struct SetFrame {
  std::uint32_t ways = 0;
  std::uint32_t recorded = 0;
  std::uint32_t lines = 0;
  SetLines conditioning;
};

// `lines`: so many are known of the set. What is invalidated gets filled, so that lines lie in the order of the ways.
// What is flooded sees lines that are not asked about.
[[nodiscard]] SetFrame frame_of(std::uint32_t ways, std::size_t lines, SetStart start);

// By access: whether it misses.
using Outcomes = std::vector<bool>;

// What a policy may answer, and in how many of its sampled states it does.
struct Prediction {
  Outcomes missed;
  std::size_t states = 0;
};

inline constexpr unsigned few_histories = 96;
inline constexpr unsigned many_histories = 1024;

// A deterministic policy on one set, in each of the states that a question may find it in. From an empty start that is
// one; else they are a sample: what histories of random walks, chases, hits and invalidations lead to.
class PolicyOnSet {
 public:
  // Throws InputError as SetMachine does. `histories` is the size of the sample.
  PolicyOnSet(const model::Replacement& policy, const SetFrame& frame, SetStart start, unsigned histories);

  // All answers that the sampled states give, each once, or those that the first `most_states` of them do.
  [[nodiscard]] std::vector<Prediction> predict(const SetLines& record,
                                                std::size_t most_states = ~std::size_t{0}) const;

 private:
  struct State {
    model::SetMachine machine;
    SetLines line_in;  // by way, of the filled ones
    std::size_t weight = 1;

    bool load(std::uint32_t line);
  };

  void sample(const model::SetMachine& begin, const SetFrame& frame, SetStart start, unsigned histories);

  std::vector<State> states_;
};

// Whether every answer of a sample was met more than once, so that hardly any is missing (Good 1953).
[[nodiscard]] bool is_saturated(std::span<const Prediction> predictions);

struct PolicyQuestion {
  std::string name;  // for people
  SetLines record;
};

// Random walks, chases, and rounds of filling, touching, driving out and probing, of several lengths and numbers of
// lines. Another `draw` draws others.
[[nodiscard]] std::vector<PolicyQuestion> question_pool(const SetFrame& frame, std::uint64_t draw);

// A random walk over a third more lines than ways, so long that every way is replaced many times.
[[nodiscard]] PolicyQuestion long_walk(const SetFrame& frame, std::uint64_t draw);

struct RankedQuestion {
  PolicyQuestion question;
  double bits = 0;         // expected
  std::size_t groups = 0;  // of policies that answer alike
};

// The question with most expected bits for its cost, under equal weights of the policies. `readings`: how often each
// question is asked. None where all policies answer all questions alike.
[[nodiscard]] std::optional<RankedQuestion> most_informative(std::span<const PolicyQuestion> pool,
                                                             std::span<const PolicyOnSet* const> policies,
                                                             unsigned readings);

}  // namespace gpuinfer::infer
