// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "model/random_streams.hpp"
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
  invalidated,  // no lines, and the state that the policy had before
  flooded,      // whatever was there before
};

[[nodiscard]] SetStart start_of(const Interrogator& device);

// A policy that was learned has the state after the conditioning for its start.
[[nodiscard]] bool begins_conditioned(const model::Replacement& policy);

// The part of a set that questions use: lines [0, recorded) are asked about. The conditioning comes before, to bring a
// set that cannot be put back into the state after power-on into the same state each time, or one of few. Where the set
// can be invalidated, that follows each walk of the conditioning.
struct SetFrame {
  std::uint32_t ways = 0;
  std::uint32_t recorded = 0;
  std::uint32_t lines = 0;
  std::vector<SetLines> conditioning;
  model::RandomStreams streams;  // of questions, and of the states that a question may find the set in
};

// `lines`: so many are known of the set. What is flooded sees lines that are not asked about.
[[nodiscard]] SetFrame frame_of(std::uint32_t ways, std::size_t lines, SetStart start,
                                const model::RandomStreams& streams);

struct PolicyQuestion {
  std::string name;  // for people
  SetLines record;
  std::vector<SetLines> primer = {};  // of a set that can be invalidated, after its conditioning
};

// By access: whether it misses.
using Outcomes = std::vector<bool>;

// How far states of two policies are followed. `check_limits` is called every few milliseconds, and throws when it
// takes too long.
struct FollowLimits {
  std::size_t most_pairs = 0;
  std::function<void()> check_limits = [] {};
};

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
  ~PolicyOnSet() = default;
  PolicyOnSet(const PolicyOnSet&) = delete;
  PolicyOnSet& operator=(const PolicyOnSet&) = delete;
  PolicyOnSet(PolicyOnSet&&) = default;
  PolicyOnSet& operator=(PolicyOnSet&&) = default;

  // All answers that the sampled states give, each once, or those that the first `most_states` of them do.
  [[nodiscard]] std::vector<Prediction> predict(const SetLines& record,
                                                std::size_t most_states = ~std::size_t{0}) const;

  // The same after `primer`, each part of which begins with an invalidated set, as the record does.
  [[nodiscard]] std::vector<Prediction> predict(const std::vector<SetLines>& primer, const SetLines& record,
                                                std::size_t most_states = ~std::size_t{0}) const;

  // Whether for every sampled state of `other` one of this policy goes on alike, whatever is asked: with the same lines
  // in the set, and the same ones replaced for ever. Ways are told apart by their lines alone, unless a set can be
  // invalidated and fills them in order. None: no sequence ever tells them apart. Else more than limits.most_pairs
  // pairs of states are met, and so many accesses do not tell them apart; zero: some state of `other` has no such
  // state.
  [[nodiscard]] std::optional<unsigned> accesses_alike(const PolicyOnSet& other, const FollowLimits& limits) const;

  // A question that some state of `other` answers otherwise than those of this policy that it was compared with, where
  // accesses_alike() is zero. Primed only where a set can be invalidated. None: lines decide that nobody asks about.
  [[nodiscard]] std::optional<PolicyQuestion> difference(const PolicyOnSet& other, const FollowLimits& limits) const;

  // As accesses_alike(), of two policies the second of which counts the ways from the other end, in states in which
  // every line was hit. In sets that cannot be emptied, ways have no numbers, so nothing tells mirrored policies apart
  // there.
  [[nodiscard]] static std::optional<unsigned> accesses_mirrored(const model::Replacement& a,
                                                                 const model::Replacement& b, std::uint32_t ways,
                                                                 const FollowLimits& limits);

 private:
  struct State {
    model::SetMachine machine;
    SetLines line_in;                   // by way, of the filled ones
    std::vector<std::uint32_t> way_of;  // by line: where it lay last
    std::size_t weight = 1;

    bool load(std::uint32_t line);
    void invalidate();
    [[nodiscard]] SetLines walked(model::Random random) const;
    [[nodiscard]] Outcomes walk(model::Random random) const;
  };

  enum class InputKind : std::uint8_t { hit, miss, invalidation };
  struct Input {
    InputKind kind = InputKind::miss;
    std::uint32_t way = 0;  // that is hit
  };
  class Bisimulation;

  void sample(const model::SetMachine& begin, const SetFrame& frame, SetStart start, unsigned histories);
  void merge_states();
  [[nodiscard]] const std::multimap<Outcomes, const State*>& by_walk() const;

  [[nodiscard]] model::Random walk_that_sorts() const { return streams_.random("walk that sorts states"); }
  // The accesses of inputs of a Bisimulation that begins in `state`.
  [[nodiscard]] std::optional<PolicyQuestion> question_of(State state, const std::vector<Input>& inputs) const;

  model::RandomStreams streams_;
  std::uint32_t lines_ = 0;  // that can be asked about
  std::vector<State> states_;
  mutable std::multimap<Outcomes, const State*> by_walk_;  // worked out when it is first asked for
  bool invalidates_ = false;
};

// Whether every answer of a sample was met more than once, so that hardly any is missing (Good 1953).
[[nodiscard]] bool is_saturated(std::span<const Prediction> predictions);

// Random walks, chases, and rounds of filling, touching, driving out and probing, of several lengths and numbers of
// lines. Another `draw` draws others.
[[nodiscard]] std::vector<PolicyQuestion> question_pool(const SetFrame& frame, std::uint64_t draw);

// The same with lines that are loaded twice in a row, without which some policies keep hardly anything that is new.
[[nodiscard]] std::vector<PolicyQuestion> pool_in_pairs(const SetFrame& frame, std::uint64_t draw);

// A random walk over a third more lines than ways, so long that every way is replaced many times.
[[nodiscard]] PolicyQuestion long_walk(const SetFrame& frame, std::uint64_t draw);

// The same with lines that come back soon.
[[nodiscard]] PolicyQuestion long_returning_walk(const SetFrame& frame, std::uint64_t draw);

// Twice over one line more than ways, which many policies never hit.
[[nodiscard]] PolicyQuestion chase_past_ways(const SetFrame& frame);

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
