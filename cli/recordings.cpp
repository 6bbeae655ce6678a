// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/recordings.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "model/errors.hpp"
#include "probe/importers.hpp"

namespace gpuinfer::cli {

bool begins_as_hdf5(const std::string& file) {
  constexpr std::array<char, 4> signature{'\x89', 'H', 'D', 'F'};
  std::array<char, 4> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return begin == signature;
}

Recording read_recording(const std::string& file) {
  Recording recording;
  recording.file = file;
  recording.is_archive = begins_as_hdf5(file);
  if (recording.is_archive) {
    probe::Archive archive = probe::read_archive(file);
    recording.facts = std::move(archive.facts);
    recording.archived_targets = std::move(archive.traced_targets);
    recording.timed = std::move(archive.timed);
    recording.timed_targets = std::move(archive.timed_targets);
  } else {
    recording.facts.name = file;
    recording.facts.source = file;
    if (probe::holds_set_sequences(file)) {
      recording.set_sequences = probe::read_set_sequences(file);
    } else {
      recording.traces = probe::read_traces(file);
    }
  }
  if (recording.traces.empty() && recording.archived_targets.empty() && recording.timed_targets.empty() &&
      recording.set_sequences.empty()) {
    throw InputError(file + ": holds no trace; record one with `gpuinfer probe --record`");
  }
  return recording;
}

Recording read_recording_to_explain(const std::string& file) {
  std::vector<model::ArrayTiming> timings;
  if (!begins_as_hdf5(file)) {
    timings = probe::read_array_timings(file);
  }
  if (timings.empty()) {
    return read_recording(file);
  }
  Recording recording;
  recording.file = file;
  recording.facts.name = file;
  recording.facts.source = file;
  recording.array_timings = std::move(timings);
  return recording;
}

void name_target(Recording& recording, const std::vector<std::string>& asked) {
  for (model::Trace& trace : recording.traces) {
    if (trace.question.target.empty()) {
      trace.question.target = asked.size() == 1 && asked.front() != "all" ? asked.front() : "L1tex";
    }
  }
}

void for_each_trace(const Recording& recording, const probe::Wanted& wanted,
                    const std::function<void(const model::Trace&)>& visit) {
  if (recording.is_archive) {
    probe::for_each_trace(recording.file, wanted, visit);
  }
  for (const model::Trace& trace : recording.traces) {
    if (!wanted || wanted(trace.question.target, trace.question.circumstances)) {
      visit(trace);
    }
  }
}

std::vector<std::string> targets_of(const Recording& recording) {
  std::vector<std::string> targets = recording.archived_targets;
  for (const model::Trace& trace : recording.traces) {
    if (std::find(targets.begin(), targets.end(), trace.question.target) == targets.end()) {
      targets.push_back(trace.question.target);
    }
  }
  targets.insert(targets.end(), recording.timed_targets.begin(), recording.timed_targets.end());
  return targets;
}

std::vector<model::Trace> addressed_traces(const std::vector<Recording>& recordings, const std::string& target) {
  std::vector<model::Trace> traces;
  for (const Recording& recording : recordings) {
    const auto is_wanted = [&](std::string_view of, const model::Circumstances& circumstances) {
      return of == target && !circumstances.contended_pairs && circumstances.stores.empty();
    };
    for_each_trace(recording, is_wanted, [&](const model::Trace& recorded) {
      model::Trace& trace = traces.emplace_back(recorded);
      for (model::AccessSequence* sequence : {&trace.question.warm, &trace.question.record}) {
        *sequence = model::address_numbers(std::move(*sequence), recording.facts.buffer_of(target).address);
      }
    });
  }
  return traces;
}

}  // namespace gpuinfer::cli
