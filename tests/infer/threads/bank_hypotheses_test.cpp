// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove them wrong: a layout that is ruled out by its own answers, two left that never differ, a question of
// which all that are left say the same, or one layout that takes very many questions.
#include "infer/threads/bank_hypotheses.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <random>

namespace gpuinfer::infer {
namespace {

// Kepler's banks in both modes, Fermi's, and some of nobody.
const std::vector<Banks> layouts{
    {.banks = 32, .width_bytes = 4, .row_bytes = 128},  {.banks = 32, .width_bytes = 8, .row_bytes = 256},
    {.banks = 32, .width_bytes = 8, .row_bytes = 4},    {.banks = 16, .width_bytes = 4, .row_bytes = 64},
    {.banks = 33, .width_bytes = 12, .row_bytes = 396}, {.banks = 1, .width_bytes = 16, .row_bytes = 16}};

TEST(BankHypotheses, QuestionsLeaveTheTruth) {
  const std::uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  model::Random random(seed);
  BankHypotheses all({});
  const std::size_t before = all.left().size();
  for (const Banks& truth : layouts) {
    BankHypotheses hypotheses = all;
    std::size_t questions = 0;
    while (const auto pair = hypotheses.next_question(random)) {
      const std::size_t were_left = hypotheses.left().size();
      hypotheses.rule_out({.pair = *pair, .conflicts = pair->conflicts_in(truth)});
      ASSERT_LT(hypotheses.left().size(), were_left) << "a question that rules nothing out, whatever the answer";
      ASSERT_LT(++questions, 500U);
    }
    ASSERT_EQ(hypotheses.left().size(), 1U);
    EXPECT_EQ(hypotheses.left().front(), truth) << truth.banks << " banks of " << truth.width_bytes << " bytes";
  }
  EXPECT_GT(before, layouts.size());
}

TEST(BankHypotheses, AnswersGivenAtFirstCountAsLaterOnes) {
  const Banks truth = layouts.front();
  std::vector<BankHypotheses::Answered> answers;
  BankHypotheses later({});
  for (const std::uint32_t offset : {4U, 64U, 128U, 256U, 132U}) {
    const WordPair pair{.offsets = {0, offset}};
    answers.push_back({.pair = pair, .conflicts = pair.conflicts_in(truth)});
    later.rule_out(answers.back());
  }
  EXPECT_EQ(BankHypotheses(answers).left(), later.left());
}

TEST(BankHypotheses, WordsOfARowDoNotConflict) {
  const Banks banks = layouts.front();
  EXPECT_FALSE((WordPair{.offsets = {0, 4}}.conflicts_in(banks))) << "two banks";
  EXPECT_TRUE((WordPair{.offsets = {0, 128}}.conflicts_in(banks))) << "two rows of one bank";
  EXPECT_FALSE((WordPair{.offsets = {128, 128}}.conflicts_in(banks))) << "one word";
  // In 4-byte rows of 8-byte banks the two words of one element conflict.
  EXPECT_TRUE((WordPair{.offsets = {0, 4}}.conflicts_in(layouts[2])));
}

}  // namespace
}  // namespace gpuinfer::infer
