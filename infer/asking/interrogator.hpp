// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/level_classifier.hpp"

namespace gpuinfer::infer {

// Asks, and reads latencies as hits and misses. Where latencies drift, the levels follow them.
class Interrogator : public Asker {
 public:
  // Goes on where `asker` stopped.
  Interrogator(Asker asker, LevelClassifier classifier) : Asker(std::move(asker)), classifier_(std::move(classifier)) {}

  [[nodiscard]] std::vector<Reading> ask(AccessSequence warm, AccessSequence record);

  // The same questions `times` over, in one batch, and for each access what the sum of its log likelihood ratios says.
  // Questions with accesses that this leaves open are asked again, at most as often as before and three times more;
  // what is open then is unclear. Asked but once, nothing is asked again. Only for answers that repeat.
  [[nodiscard]] std::vector<std::vector<Reading>> ask_voted(std::span<const model::Question> questions, unsigned times);

  // How often a question has to be repeated for the verdict on an access to be wrong with less than this probability.
  // The default is for whoever decides on single accesses. Whoever allows for misreads when he counts (a test against
  // hit_misread_bound(), say) can do with a larger one, and then crisp levels take a single reading.
  [[nodiscard]] unsigned votes_needed(double wrong_probability = wrong_verdict) const;

  [[nodiscard]] const LevelClassifier& classifier() const { return classifier_; }
  void learn_hits(std::size_t accesses, std::size_t read_as_misses) {
    classifier_.learn_hits(accesses, read_as_misses);
  }
  void learn_misses(std::size_t accesses, std::size_t read_as_hits) {
    classifier_.learn_misses(accesses, read_as_hits);
  }
  void forget_hits() { classifier_.forget_hits(); }

 protected:
  void hear(const model::Question& question, std::span<const float> latency_cycles) override;

 private:
  LevelClassifier classifier_;
};

}  // namespace gpuinfer::infer
