// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/asking/settings.hpp"
#include "infer/asking/warning.hpp"
#include "model/errors.hpp"

namespace gpuinfer::infer {

// The budget, the deadline or the user ended the asking; what is known so far remains valid.
class AskingEnded : public Error {
  using Error::Error;
};

// Throws AskingEnded when the time allowed is over, or the user has interrupted.
inline void check_time(const Settings& settings) {
  if (is_past(settings.deadline)) {
    throw AskingEnded("the time allowed is over");
  }
  if (settings.stop_requested()) {
    throw AskingEnded("it was interrupted");
  }
}

// The device refused a question, in its own words.
class QuestionRefused : public Error {
  using Error::Error;

 public:
  // Why a leaf that it was about is not known.
  [[nodiscard]] std::string reason() const { return std::string("the device refused a question: ") + what(); }
};

// More questions would not decide it either, or would take too long.
class Undecided : public Error {
  using Error::Error;
};

// How an inference ended, besides what it found.
struct Ending {
  std::vector<Warning> warnings;
  bool ended_early = false;  // by budget, deadline, Ctrl-C or a device that failed; the finding holds what is known
  std::optional<std::string> device_failure = {};  // what the device said when it failed
};

// Goes through stages that ask. Returns why they ended before the last one, if they did. Throws DeviceError when the
// device fails and knows_nothing() holds.
template <class Stages, class KnowsNothing>
std::optional<std::string> go_through(Ending& ending, KnowsNothing knows_nothing, Stages stages) {
  try {
    stages();
    return std::nullopt;
  } catch (const AskingEnded& ended) {
    ending.ended_early = true;
    return std::string("not asked: ") + ended.what();
  } catch (const Undecided& undecided) {
    return undecided.what();
  } catch (const QuestionRefused& refused) {
    return refused.reason();
  } catch (const DeviceError& failure) {
    if (knows_nothing()) {
      throw;
    }
    ending.ended_early = true;
    ending.device_failure = failure.what();
    ending.warnings.emplace_back(DeviceFailed{failure.what()});
    return std::string("the device failed: ") + failure.what();
  }
}

}  // namespace gpuinfer::infer
