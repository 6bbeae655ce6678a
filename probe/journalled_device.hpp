// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "model/answerer.hpp"
#include "probe/journal.hpp"

namespace gpuinfer::probe {

// What a device does when it is opened again and asked the same questions in the same order.
enum class Reopened {
  answers_the_same,  // so it is led to where it was: virtual devices, recordings
  answers_anew,      // a GPU, or a process of which nothing is known
};

// `device`, which outlives it as `journal` does, with every answer in the journal before it is handed on. As far as
// `past` goes, answers are those that it holds, as long as the questions are the same in the same order: another budget
// may lead to others, and then the rest of that target's past does not count. Then the device is asked. One that
// answers the same is asked what the past holds as well, and has to confirm it. Of one that answers anew, a question
// that keeps the state which another one left has those before it asked again, from the last start that does not keep
// any, or at most a million loads; those answers are not used. And what it answered before of a level behind another
// one (BufferFacts::nearer_bytes) does not count.
//
// ask() and time() throw InputError when the device does not confirm the past, and besides what JournalWriter and the
// device throw.
[[nodiscard]] std::unique_ptr<model::Answerer> journalled(model::Answerer& device, JournalWriter& journal,
                                                          std::optional<JournalReader> past, Reopened reopened);

}  // namespace gpuinfer::probe
