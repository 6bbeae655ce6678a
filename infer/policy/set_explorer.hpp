// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "infer/policy/learned_automaton.hpp"

// What is known of the victims of one set, and how more is found out with nothing but hits and misses.
namespace gpuinfer::infer {

// Inputs of the set from empty on: a way is a hit of it, and the number of ways is a miss.
using SetWord = std::vector<std::uint32_t>;

// Ways, one for each miss on the full set, in their order.
using Victims = std::vector<std::uint32_t>;

// The one and then the other.
[[nodiscard]] SetWord joined(SetWord first, const SetWord& second);

// Of words or of victims.
[[nodiscard]] bool is_beginning(const std::vector<std::uint32_t>& part, const std::vector<std::uint32_t>& of);

struct VictimClaim {
  SetWord word;
  Victims victims;
};

// Why nothing can be learned: one sentence.
class NothingLearned : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The set does not do the same each time.
class SetDoesNotRepeat : public NothingLearned {
  using NothingLearned::NothingLearned;
};

// Asks with one line more than there are ways: what misses next is the line that is held to have gone last, so that
// each miss proves the victim of the one before, and only the last victim of a sequence costs further accesses.
class SetExplorer {
 public:
  // All outlive it. `cost` is added to.
  SetExplorer(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available, std::size_t most_accesses,
              Learning& cost);

  [[nodiscard]] std::uint32_t ways() const { return ways_; }
  [[nodiscard]] std::uint32_t miss() const { return ways_; }
  [[nodiscard]] std::size_t accesses_left() const { return most_accesses_ - cost_->accesses; }

  // Lines in the set after so many inputs of which so many were misses.
  [[nodiscard]] std::uint32_t filled_after(const SetWord& word) const;

  // How the last victim is looked for: whether the claimed one is gone, or at all ways, which costs more where the
  // claim is right and less where it is not.
  enum class LastVictim { is_as_claimed, is_any };

  // Finds out, for each claim, the victims up to the first that is not as claimed. True when all are as claimed. Throws
  // NothingLearned when the set is none, contradicts itself, or the accesses do not suffice.
  bool examine(const std::vector<VictimClaim>& claims, LastVictim last);

  // The victims of the word as far as they are known.
  [[nodiscard]] Victims known_victims(const SetWord& word) const;

  // The same, asked for where they are not known; for fewer accesses where the guesses are right.
  Victims victims(const SetWord& word, const Victims& guesses = {});

  // A tree of all words whose victims are known; node 0 is the empty set.
  struct Known {
    std::uint32_t input = 0;
    std::optional<std::uint32_t> victim;  // of the miss that leads here, on a full set
    std::uint32_t filled = 0;
    std::vector<std::uint32_t> next;  // numbers of nodes, greater than this one's
  };
  [[nodiscard]] const std::vector<Known>& known() const { return known_; }

  // Which accesses missed, as the oracle answers it.
  std::vector<std::vector<bool>> ask(const std::vector<std::vector<std::uint32_t>>& sequences);

  // Another answer to the same question. Throws SetDoesNotRepeat when there are more of them than rare errors explain.
  void note_contradiction();

  [[nodiscard]] std::size_t lines_available() const { return lines_available_; }

 private:
  struct Sequence;
  struct Inquiry;

  [[nodiscard]] Sequence sequence_of(const VictimClaim& claim, LastVictim last) const;
  [[nodiscard]] std::optional<std::uint32_t> next_known(std::uint32_t node, std::uint32_t input) const;
  void remember(const VictimClaim& claim);
  void judge(Inquiry& inquiry, const Sequence& sequence, const std::vector<bool>& missed);
  void settle(Inquiry& inquiry) const;

  const SetOracle* oracle_;
  std::uint32_t ways_;
  std::size_t lines_available_;
  std::size_t most_accesses_;
  Learning* cost_;
  std::size_t contradictions_ = 0;
  std::vector<Known> known_{1};
};

}  // namespace gpuinfer::infer
