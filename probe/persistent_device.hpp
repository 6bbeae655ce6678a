// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

// Opens a device that failed once more. Throws DeviceUnavailable or DeviceError.
using Reopen = std::function<std::unique_ptr<model::Answerer>()>;

// `device`, asked again where that may help:
//  - After a TransientError, and after an answer without one latency for each recorded load, the same batch is asked
//    again, at most three times, with pauses of 50, 200 and 800 ms.
//  - So is a batch in which a question is refused though one of the same target and start was answered before, twice,
//    and then the refusal is handed on.
//  - After any other DeviceError than WaitingEnded the device is opened again, at most twice in its life, if `reopen`
//    is there. It has to be the same by its facts. Not if questions were asked of a level behind another one
//    (BufferFacts::nearer_bytes): where its lines go hangs on pages of memory, which are others then.
//
// Where a batch that is asked again begins with a question that keeps the state, those before it are asked again first,
// and their answers are not used. Nothing is asked again once `stop_waiting` holds: that ends the pauses. What passed
// in this way is one of the disturbances(); what did not is thrown as a DeviceError that says after how many answers.
[[nodiscard]] std::unique_ptr<model::Answerer> persistent(
    std::unique_ptr<model::Answerer> device, Reopen reopen = {},
    std::function<bool()> stop_waiting = [] { return false; });

}  // namespace gpuinfer::probe
