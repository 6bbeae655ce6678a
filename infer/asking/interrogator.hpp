// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/level_classifier.hpp"
#include "infer/asking/settings.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer {

using model::AccessSequence;

// The budget, the deadline or the user ended the asking; what is known so far remains valid.
class AskingEnded : public Error {
  using Error::Error;
};

// The device refused a question, in its own words.
class QuestionRefused : public Error {
  using Error::Error;
};

// More questions would not decide it either, or would take too long.
class Undecided : public Error {
  using Error::Error;
};

// Sequences each of which is loaded from an invalidated start.
using Primer = std::vector<AccessSequence>;

// One target of one device: asks, keeps count, and reads latencies as hits and misses.
class Interrogator {
 public:
  Interrogator(model::Answerer& device, std::string target, const Settings& settings);

  [[nodiscard]] const model::DeviceFacts& facts() const { return device_->facts(); }
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] const model::BufferFacts& buffer() const { return facts().buffer_of(target_); }
  [[nodiscard]] std::uint64_t address_of(std::uint64_t offset) const { return buffer().address + offset; }

  // Latencies of the recorded accesses, one list for each question. Throws AskingEnded, QuestionRefused, DeviceError.
  [[nodiscard]] std::vector<std::vector<float>> latencies(std::span<const model::Question> questions);

  // One for each workload. Throws AskingEnded, QuestionRefused, DeviceError.
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads);

  // As Answerer::places_of() of the target; counts as one question without accesses. Throws AskingEnded, DeviceError.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(std::span<const std::uint64_t> offsets);

  // The question from a start in which no line that it touches is present: clean where the device can give that, else
  // invalidated, else after a flood, which leaves LRU and FIFO as good as empty and others in a state of their own.
  // Where the device has no flood to offer, other parts of the buffer are loaded.
  [[nodiscard]] model::Question question(AccessSequence warm, AccessSequence record) const;

  // Loaded before each question from an invalidated start, so that what the policies remember is the same each time.
  // Returns what it was before.
  Primer prime_with(Primer primer) { return std::exchange(primer_, std::move(primer)); }

  // The question without a flood by loads of its own.
  [[nodiscard]] model::Question question_unflooded(AccessSequence warm, AccessSequence record) const {
    return {.target = target_,
            .state = start_,
            .warm = std::move(warm),
            .record = std::move(record),
            .circumstances = circumstances_};
  }

  // What questions are asked under. Returns what it was before.
  model::Circumstances ask_under(model::Circumstances circumstances) {
    return std::exchange(circumstances_, std::move(circumstances));
  }

  // Finds out which of these starts the device can give. Throws QuestionRefused when it answers nothing at all.
  void choose_start();
  [[nodiscard]] bool starts_flooded() const { return model::may_hold_others(start_); }
  // The flood is loads of this program, as the device has none to offer.
  [[nodiscard]] bool floods_by_loads() const { return start_ == model::StartState::keep; }

  // How often in a row the flood by loads of this program loads each place. Once drives lines out of a cache that keeps
  // what came last. Where a new line is the next to go until it is hit (LIP), the flood passes through one place of
  // each set, and only lines that are hit at once drive out what was hit before.
  void flood_in_repeats(unsigned repeats) { flood_repeats_ = repeats; }

  // The fewer bytes are known to belong together, the more a flood has to load and to stay away from.
  void set_fill_granularity(std::uint64_t sector_bytes) {
    flood_stride_bytes_ = sector_bytes;
    flood_block_bytes_ = std::max(flood_block_bytes_, sector_bytes);
  }
  // From here on warm-ups bring lines in line themselves, so the flood loads each place once again.
  void set_line(std::uint64_t line_bytes) {
    flood_stride_bytes_ = flood_block_bytes_ = line_bytes;
    flood_repeats_ = 1;
  }

  // Needs a classifier.
  [[nodiscard]] std::vector<Reading> ask(AccessSequence warm, AccessSequence record);

  // The same questions `times` over, in one batch, and for each access what the sum of its log likelihood ratios says.
  // Questions with accesses that this leaves open are asked again, at most as often as before and three times more;
  // what is open then is unclear. Asked but once, nothing is asked again. Only for answers that repeat.
  [[nodiscard]] std::vector<std::vector<Reading>> ask_voted(std::span<const model::Question> questions, unsigned times);

  // How often a question has to be repeated for the verdict on an access to be wrong with less than this probability.
  // The default is for whoever decides on single accesses. Whoever allows for misreads when he counts (a test against
  // hit_misread_bound(), say) can do with a larger one, and then crisp levels take a single reading.
  [[nodiscard]] unsigned votes_needed(double wrong_probability = 1e-6) const;

  void set_classifier(LevelClassifier classifier) { classifier_ = std::move(classifier); }
  [[nodiscard]] const LevelClassifier& classifier() const { return *classifier_; }
  void learn_hits(std::size_t accesses, std::size_t read_as_misses) {
    classifier_->learn_hits(accesses, read_as_misses);
  }

  void report(std::string finding, double done);

  // The log of the inference. inquire() opens an entry, to which all questions that follow are counted; learned()
  // completes it. An entry that nothing was learned from (an exception came in between) stays as it is.
  void inquire(std::string asked, std::string why);
  void learned(std::string what, std::optional<std::size_t> hypotheses_before = {},
               std::optional<std::size_t> hypotheses_after = {});
  [[nodiscard]] const std::vector<model::Inquiry>& inquiries() const { return inquiries_; }

  [[nodiscard]] std::size_t questions_asked() const { return questions_; }
  [[nodiscard]] std::size_t accesses_asked() const { return accesses_; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }

 private:
  [[nodiscard]] std::vector<model::Answer> ask_within_limits(std::span<const model::Question> questions);
  // Throws AskingEnded when so many more accesses are not allowed.
  void check_limits(std::size_t accesses) const;
  void count(std::size_t questions, std::size_t accesses);
  [[nodiscard]] std::vector<model::Answer> ask_primed(std::span<const model::Question> questions);
  [[nodiscard]] AccessSequence flood_around(const AccessSequence& warm, const AccessSequence& record) const;

  model::Answerer* device_;
  std::string target_;
  const Settings* settings_;
  std::optional<LevelClassifier> classifier_;
  Progress progress_;
  model::StartState start_ = model::StartState::clean;
  Primer primer_;
  model::Circumstances circumstances_;
  std::uint64_t flood_stride_bytes_ = 32;
  std::uint64_t flood_block_bytes_ = 4096;
  unsigned flood_repeats_ = 1;
  std::size_t questions_ = 0;
  std::size_t accesses_ = 0;
  std::vector<model::Inquiry> inquiries_;
};

// Primes questions as long as it lives.
class Priming {
 public:
  Priming(Interrogator& device, Primer primer) : device_(&device), before_(device.prime_with(std::move(primer))) {}
  ~Priming() { device_->prime_with(std::move(before_)); }
  Priming(const Priming&) = delete;
  Priming& operator=(const Priming&) = delete;
  Priming(Priming&&) = delete;
  Priming& operator=(Priming&&) = delete;

 private:
  Interrogator* device_;
  Primer before_;
};

// Has questions asked under these circumstances as long as it lives.
class Under {
 public:
  Under(Interrogator& device, model::Circumstances circumstances)
      : device_(&device), before_(device.ask_under(std::move(circumstances))) {}
  ~Under() { device_->ask_under(std::move(before_)); }
  Under(const Under&) = delete;
  Under& operator=(const Under&) = delete;
  Under(Under&&) = delete;
  Under& operator=(Under&&) = delete;

 private:
  Interrogator* device_;
  model::Circumstances before_;
};

}  // namespace gpuinfer::infer
