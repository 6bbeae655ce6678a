// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "infer/asking/finding.hpp"
#include "infer/asking/interrogator.hpp"

namespace gpuinfer::infer {

// Goes through stages that ask. Returns why they ended before the last one, if they did; `finding` notes who ended
// them. Throws DeviceError when the device fails and knows_nothing() holds.
template <class Stages, class KnowsNothing>
std::optional<std::string> go_through(Finding& finding, KnowsNothing knows_nothing, Stages stages) {
  try {
    stages();
    return std::nullopt;
  } catch (const AskingEnded& ended) {
    finding.ended_early = true;
    return std::string("not asked: ") + ended.what();
  } catch (const Undecided& undecided) {
    return undecided.what();
  } catch (const QuestionRefused& refused) {
    return std::string("the device refused a question: ") + refused.what();
  } catch (const DeviceError& failure) {
    if (knows_nothing()) {
      throw;
    }
    finding.ended_early = true;
    finding.device_failure = failure.what();
    finding.warnings.push_back(std::string("the device failed, so what follows is what was known by then: ") +
                               failure.what());
    return std::string("the device failed: ") + failure.what();
  }
}

}  // namespace gpuinfer::infer
