// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "infer/asking/claim.hpp"
#include "infer/asking/ending.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// What a claim rests on: hits and misses as the classifier tells them, or latencies compared with their like.
enum class By { levels, comparison };

// `claim` becomes what find(claim) makes of it; find() returns what was learned in words. Where it gives no value, that
// is the reason; so is what the device refuses, what stays undecided, and a drift that the classifier did not follow,
// by which no claim about levels stands.
template <class Value, class Find>
void settle_claim(Interrogator& asker, std::optional<Claim<Value>>& claim, const char* asked, const char* why,
                  Find find, By by = By::levels) {
  asker.inquire(asked, why);
  claim.emplace();
  const std::size_t questions_before = asker.questions_asked();
  std::string learned;
  try {
    Claim<Value> found;
    learned = find(found);
    claim = std::move(found);
    if (by == By::levels && asker.classifier().drifts_away()) {
      claim->value.reset();
      learned = "the latencies drift further than they can be followed";
    }
  } catch (const QuestionRefused& refused) {
    learned = refused.reason();
  } catch (const Undecided& undecided) {
    learned = undecided.what();
  }
  claim->questions = asker.questions_asked() - questions_before;
  if (!claim->value) {
    claim->reason = learned;
  }
  asker.learned(learned);
}

}  // namespace gpuinfer::infer
