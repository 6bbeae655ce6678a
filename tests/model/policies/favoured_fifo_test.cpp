// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/policies/favoured_fifo.hpp"

#include <gtest/gtest.h>

#include "tests/model/policies/one_set.hpp"

namespace gpuinfer::model {
namespace {

Parameters with(std::int64_t favoured_way, std::vector<double> others) {
  return {{"favoured_way", favoured_way}, {"others", std::move(others)}};
}

// The chases of Mei & Chu over one line more than a set holds, and over two: two misses and a hit, for ever. The
// victims of the first are ways 1, 2, 1, 0, 1, 3; of the second it is ways 1 and 2 alone, and two lines stay.
TEST(FavouredFifo, PlaysTheRecordedChasesOfFermi) {
  const Parameters fermi = with(1, {2, 0, 3});
  EXPECT_EQ(OneSet<FavouredFifo>(4, fermi).play("abcdeabcdeabcdeabcdeabcde"), "----b+ce+ac+da+bd+eb+ce+a");
  EXPECT_EQ(OneSet<FavouredFifo>(4, fermi).play("abcdefabcdefabcdefabcdef"), "----bc+ef+bc+ef+bc+ef+bc");
}

// Others 0 and 2: filled in the order of their ways, first out in the order given.
TEST(FavouredFifo, AHitOnTheNextToGoMakesItTheNewest) {
  const Parameters three = with(1, {2, 0});
  EXPECT_EQ(OneSet<FavouredFifo>(3, three).play("abc w x y z"), "--- b c w a");
  EXPECT_EQ(OneSet<FavouredFifo>(3, three).play("abc c x y z"), "--- + b a x");
  EXPECT_EQ(OneSet<FavouredFifo>(3, three).play("abc a w x y z"), "--- + b c w a");
  OneSet<FavouredFifo> set(3, three);
  EXPECT_EQ(set.play("abc c x y"), "--- + b a");
  set.reset();
  EXPECT_EQ(set.play("abc x y"), "--- b c");
}

TEST(FavouredFifo, ChecksItsParameters) {
  EXPECT_EQ(policy_refusal<FavouredFifo>(with(0, {1})), "");
  EXPECT_TRUE(policy_refusal<FavouredFifo>(with(1, {1})).starts_with("others: "));
  EXPECT_TRUE(policy_refusal<FavouredFifo>(with(0, {2, 2})).starts_with("others: "));
  EXPECT_TRUE(policy_refusal<FavouredFifo>(with(0, {})).starts_with("others: "));
  EXPECT_TRUE(policy_refusal<FavouredFifo>({{"favoured_way", std::int64_t{0}}}).starts_with("others: "));
}

}  // namespace
}  // namespace gpuinfer::model
