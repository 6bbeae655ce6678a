// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/bank_hypotheses.hpp"

#include <algorithm>
#include <cstddef>

namespace gpuinfer::infer {

namespace {

constexpr std::uint32_t most_banks = 256;
constexpr std::uint32_t widest_bytes = 64;
constexpr std::uint32_t longest_bytes = 8192;  // of a period, and of a row

bool agrees(const Banks& banks, const BankHypotheses::Answered& answer) {
  return answer.pair.conflicts_in(banks) == answer.conflicts;
}

// Two words that may well conflict if `banks` is right or nearly so: whole periods apart, or a little more or less.
WordPair near_conflict(const Banks& banks, model::Random& random) {
  const std::uint32_t period_bytes = banks.banks * banks.width_bytes;
  const std::uint32_t first = random_word(random);
  const auto periods = static_cast<std::uint32_t>(random.below(2 + 2 * banks.row_bytes / period_bytes));
  const std::uint32_t beside =
      random.below(2) == 0
          ? 0
          : static_cast<std::uint32_t>(random.below(2 * banks.width_bytes / shared_word_bytes)) * shared_word_bytes;
  const std::uint32_t second = (first + periods * period_bytes + beside) % model::SharedLoads::shared_bytes;
  return {.offsets = {first, second}};
}

}  // namespace

// Rows longer than a word of a bank, but not longer than a word of each, put no two words of a bank together; with one
// bank, its width says nothing that the row does not.
BankHypotheses::BankHypotheses(const std::vector<Answered>& answers) {
  const auto consider = [&](const Banks& banks) {
    if (std::ranges::all_of(answers, [&banks](const Answered& answer) { return agrees(banks, answer); })) {
      left_.push_back(banks);
    }
  };
  for (std::uint32_t width = shared_word_bytes; width <= widest_bytes; width += shared_word_bytes) {
    consider({.banks = 1, .width_bytes = width, .row_bytes = width});
    for (std::uint32_t banks = 2; banks <= most_banks && banks * width <= longest_bytes; ++banks) {
      for (std::uint32_t part = shared_word_bytes; part < width; part += shared_word_bytes) {
        if (width % part == 0) {
          consider({.banks = banks, .width_bytes = width, .row_bytes = part});
        }
      }
      for (std::uint32_t row = banks * width; row <= longest_bytes; row += width) {
        consider({.banks = banks, .width_bytes = width, .row_bytes = row});
      }
    }
  }
}

void BankHypotheses::rule_out(const Answered& answer) {
  std::erase_if(left_, [&answer](const Banks& banks) { return !agrees(banks, answer); });
}

std::optional<WordPair> BankHypotheses::next_question(model::Random& random) const {
  constexpr std::size_t most_heard = 256;
  constexpr std::size_t most_tried = 4096;
  constexpr std::size_t enough_that_split = 64;
  if (left_.size() < 2) {
    return std::nullopt;
  }
  std::vector<Banks> heard = left_;
  if (heard.size() > most_heard) {
    heard.resize(most_heard);
    std::ranges::generate(heard, [&] { return left_[random.below(left_.size())]; });
  }
  std::optional<WordPair> best;
  std::size_t best_split = 0;
  std::size_t split = 0;
  for (std::size_t tried = 0; tried < most_tried && split < enough_that_split; ++tried) {
    const WordPair pair = near_conflict(heard[random.below(heard.size())], random);
    const auto conflicts = static_cast<std::size_t>(
        std::ranges::count_if(heard, [&pair](const Banks& banks) { return pair.conflicts_in(banks); }));
    const std::size_t smaller = std::min(conflicts, heard.size() - conflicts);
    split += smaller > 0 ? 1 : 0;
    if (smaller > best_split) {
      best_split = smaller;
      best = pair;
    }
  }
  return best;
}

}  // namespace gpuinfer::infer
