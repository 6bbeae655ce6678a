// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/pushed_out.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

namespace {

// Finds the place where each set overflows by halving, for all sets side by side.
class OverflowSearch {
 public:
  OverflowSearch(Interrogator& device, const Offsets& further) : device_(&device), further_(&further) {}

  // Of `lines`, the sets that fit beside the first `fits` further lines and overflow beside the first `too_many`. False
  // when answers stayed unclear.
  bool search(const Offsets& lines, std::size_t fits, std::size_t too_many) {
    if (lines.empty()) {
      return true;
    }
    if (too_many - fits == 1) {
      found_.push_back({.lines = lines, .place = fits});  // the further line at this place goes to one set only
      return true;
    }
    const std::size_t middle = fits + (too_many - fits) / 2;
    Offsets gone;
    Offsets present;
    return part(lines, middle, gone, present) && search(gone, fits, middle) && search(present, middle, too_many);
  }

  // Which of the lines go when the first `count` of the further lines are loaded after them.
  bool part(const Offsets& lines, std::size_t count, Offsets& gone, Offsets& present) {
    const model::Question question = device_->question(joined(lines, std::span(*further_).first(count)), lines);
    const std::vector<Reading> readings = device_->ask_voted({&question, 1}, device_->votes_needed()).front();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      (readings[i] == Reading::miss ? gone : present).push_back(lines[i]);
    }
    return std::find(readings.begin(), readings.end(), Reading::unclear) == readings.end();
  }

  [[nodiscard]] std::vector<SetOverflow> take() { return std::move(found_); }

 private:
  Interrogator* device_;
  const Offsets* further_;
  std::vector<SetOverflow> found_;
};

// Code words, a digit for each question, that tell which sets are pushed out in it: so that one misread makes no word
// of another, even that of no set at all, which is 0.
class Code {
 public:
  explicit Code(std::size_t sets) {
    while (words_in(digits_) < sets) {
      ++digits_;
    }
    const std::uint64_t all_ones = (std::uint64_t{1} << digits_) - 1;
    for (std::uint64_t number = 1; words_.size() < sets; ++number) {
      if (const std::uint64_t word = 2 * number + parity(number); word != all_ones) {
        words_.push_back(word);
      }
    }
  }

  [[nodiscard]] unsigned digits() const { return digits_; }
  [[nodiscard]] bool digit(std::size_t set, unsigned place) const { return (words_[set] >> place & 1U) != 0; }

  // What the answers say of a line, as log likelihood ratios (gone against present) by digit.
  [[nodiscard]] SetOfLine decoded(std::span<const double> log_ratios) const {
    constexpr double decided = 13.8;  // wrong in one of a million
    // Few sets get more of the lines than they hold.
    constexpr double log_prior_of_crowded = -4;
    using Kind = SetOfLine::Kind;
    const double crowded = std::accumulate(log_ratios.begin(), log_ratios.end(), log_prior_of_crowded);
    std::vector<double> scores{0, crowded};
    double best = std::max(0.0, crowded);
    SetOfLine likeliest{.kind = crowded > 0 ? Kind::crowded : Kind::of_none};
    for (std::size_t set = 0; set < words_.size(); ++set) {
      double score = 0;
      for (unsigned place = 0; place < digits_; ++place) {
        score += digit(set, place) ? log_ratios[place] : 0;
      }
      scores.push_back(score);
      if (score > best) {
        best = score;
        likeliest = {.kind = Kind::of_set, .set = set};
      }
    }
    const double others = std::accumulate(scores.begin(), scores.end(), -1.0,
                                          [best](double sum, double score) { return sum + std::exp(score - best); });
    return others < std::exp(-decided) ? likeliest : SetOfLine{};
  }

 private:
  static std::size_t words_in(unsigned digits) { return (std::size_t{1} << (digits - 1)) - (digits % 2 == 0 ? 2 : 1); }

  unsigned digits_ = 3;
  std::vector<std::uint64_t> words_;
};

}  // namespace

std::optional<std::vector<SetOverflow>> overflows_in_turn(Interrogator& device, const Offsets& residents,
                                                          const Offsets& further, std::size_t known_to_fit) {
  OverflowSearch search(device, further);
  Offsets gone;
  Offsets present;
  if (!search.part(residents, further.size(), gone, present)) {
    return std::nullopt;
  }
  const bool contradicts_what_is_known = !gone.empty() && known_to_fit >= further.size();
  if (contradicts_what_is_known || !search.search(gone, known_to_fit, further.size())) {
    return std::nullopt;
  }
  return search.take();
}

std::vector<SetOfLine> sets_of_lines(Interrogator& device, std::span<const Offsets> pushing, const Offsets& lines) {
  constexpr unsigned most_rounds = 6;
  const Code code(pushing.size());
  std::vector<SetOfLine> sets(lines.size());
  std::vector<std::vector<double>> log_ratios(lines.size(), std::vector<double>(code.digits()));
  std::vector<std::size_t> open(lines.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  for (unsigned round = 0; round < most_rounds && !open.empty(); ++round) {
    // Lines of a set that is too full only together with them push each other out, one after the other.
    const Offsets recorded(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(open.back() + 1));
    std::vector<model::Question> questions;
    for (unsigned place = 0; place < code.digits(); ++place) {
      Offsets loaded = lines;
      for (std::size_t set = 0; set < pushing.size(); ++set) {
        if (code.digit(set, place)) {
          loaded.insert(loaded.end(), pushing[set].begin(), pushing[set].end());
        }
      }
      questions.push_back(device.question(std::move(loaded), recorded));
    }
    const std::vector<std::vector<float>> answers = device.latencies(questions);
    for (unsigned place = 0; place < code.digits(); ++place) {
      const std::vector<double> ratios = device.classifier().log_ratios(answers[place]);
      for (const std::size_t line : open) {
        log_ratios[line][place] += ratios[line];
      }
    }
    std::erase_if(open, [&](std::size_t line) {
      sets[line] = code.decoded(log_ratios[line]);
      return sets[line].kind != SetOfLine::Kind::unclear;
    });
  }
  return sets;
}

}  // namespace gpuinfer::infer
