// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "model/answerer.hpp"

// A device in another process: JSON lines over its standard input and output.
namespace gpuinfer::probe {

// Starts `command` by the shell, in a process group of its own, and reads its greeting. Throws DeviceUnavailable when
// it cannot be started or does not greet. Later failures (death, silence for timeout_seconds, nonsense) throw
// DeviceError, and so does every question after one. Once `stop_waiting` says so, a silent process is waited for no
// longer, nor one that talks for another 5 s: WaitingEnded. What travels is sequences: targets that are none are
// refused. Beside any answer may stand `disturbances`, a list of all of model::Answerer::disturbances() so far, as
// probe/disturbance_json.hpp has them. `source`: what --device named, where that was not `exec:` and the command.
[[nodiscard]] std::unique_ptr<model::Answerer> open_exec(
    const std::string& command, double timeout_seconds = 60, std::function<bool()> stop_waiting = [] { return false; },
    const std::optional<std::string>& source = std::nullopt);

// The other side: greets for `device`, then answers line by line, in order, until `in` ends. Bad lines get an error
// answer. Throws DeviceError when the device fails, so that whoever asks sees the process end and not a refusal.
// Disturbances of the device go out with the first answer and then at most once a second. Questions that `in` has
// buffered already are asked together, so it should be a stream with a buffer of its own (std::cin after
// sync_with_stdio(false)).
void serve(model::Answerer& device, std::istream& in, std::ostream& out);

}  // namespace gpuinfer::probe
