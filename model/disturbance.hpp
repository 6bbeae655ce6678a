// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpuinfer::model {

// Something that happened to a device while it answered.
struct Disturbance {
  enum class Kind {
    asked_again,      // a question failed or was refused, and was answered when it was asked again
    clocks,           // they changed or were held down
    other_processes,  // shared the device
    memory_errors,
    other,  // what another process says without a kind
  };

  Kind kind = Kind::other;
  std::string sentence;  // what was seen, what was expected, and what to do

  bool operator==(const Disturbance&) const = default;
};

// Whether answers may be others than those of an undisturbed device. What was asked again is answered as if nothing had
// happened.
[[nodiscard]] constexpr bool may_touch_answers(Disturbance::Kind kind) {
  return kind != Disturbance::Kind::asked_again;
}

// The sentences of all, one after another; empty when there are none.
[[nodiscard]] inline std::string text_of(const std::vector<Disturbance>& disturbances) {
  std::string text;
  for (const Disturbance& each : disturbances) {
    text += (text.empty() ? "" : ". ") + each.sentence;
  }
  return text;
}

}  // namespace gpuinfer::model
