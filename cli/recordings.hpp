// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "model/array_timing.hpp"
#include "model/set_sequence.hpp"
#include "model/trace.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

// What a user named as TRACE: an archive, or a text file of somebody else.
struct Recording {
  std::string file;
  bool is_archive = false;
  model::DeviceFacts facts;                       // of a text file: its name and nothing else
  std::vector<std::string> archived_targets;      // of an archive: that have traces, which for_each_trace() reads
  std::vector<model::Trace> traces;               // of a text file
  std::vector<model::SetSequence> set_sequences;  // in place of traces
  std::vector<model::ArrayTiming> array_timings;  // in place of traces, of read_recording_to_explain() alone
  std::vector<probe::TimedWorkload> timed;        // what many threads did at once
  std::vector<std::string> timed_targets;         // that are no traces: only the run that recorded them explains them
};

// By the first bytes of the file.
[[nodiscard]] bool begins_as_hdf5(const std::string& file);

// Throws InputError, also when there is nothing in the file.
[[nodiscard]] Recording read_recording(const std::string& file);
// The same, also of arrays that were chased in unknown steps.
[[nodiscard]] Recording read_recording_to_explain(const std::string& file);

// Text files name no load path: their traces become traces of the one target in `asked`, else of L1tex.
void name_target(Recording& recording, const std::vector<std::string>& asked);

// Shows the traces that are wanted, in the order in which they stand there. One is there until the next. Throws as
// read_recording() does, and what `visit` throws.
void for_each_trace(const Recording& recording, const probe::Wanted& wanted,
                    const std::function<void(const model::Trace&)>& visit);

// Distinct targets in the order in which they first stand there.
[[nodiscard]] std::vector<std::string> targets_of(const Recording& recording);

// The traces of `target` in all recordings, offsets replaced by addresses, so that buffers at different places can be
// looked at together.
[[nodiscard]] std::vector<model::Trace> addressed_traces(const std::vector<Recording>& recordings,
                                                         const std::string& target);

}  // namespace gpuinfer::cli
