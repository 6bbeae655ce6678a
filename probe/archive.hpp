// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/answerer.hpp"
#include "model/trace.hpp"
#include "probe/kept_answers.hpp"

// The trace archive: HDF5, readable with h5py and h5dump.
//
// Attributes of the root: schema ("gpuinfer-trace/2"), device_name, source, compute_capability and sm_count where
// known, latency_path (JSON) where there is one, targets, buffer_bytes, address_of_buffer, program_version, recorded_at
// (UTC). Attributes of /provenance: what else the device says of itself, among it the seed of a virtual one, and
// `disturbances`, a JSON list as probe/disturbance_json.hpp has them. Groups
// /own_buffers/<target>, for targets with a buffer of their own: buffer_bytes and address_of_buffer again, and
// texel_bytes, raster_width and raster_height where offsets are texels, nearer_bytes where another level lies in front
// of the one that is asked about, piece_bytes where offsets are pieces of code, averages_laps (1) where latencies are
// averages, one_sm (1) where it is always asked of the same SM.
//
// A launch is a batch of questions asked together. Groups /launch_000000, ... hold one launch, or several small ones in
// a row, and are named after their first. One-dimensional datasets in each, with Q questions:
//   offset          byte offsets into the buffer. Those of all groups, one after another by the numbers in their names,
//                   are the accesses of the archive
//   question        [Q] launch; warm_begin, warm_end and record_begin, record_end: where in the accesses of the archive
//                   the sequences of warm-up and recorded loads stand; latency_begin: where in latency_cycles of the
//                   group. Sequences that are equal stand there once, at the first question that has them
//   target, state   [Q] strings
//   latency_cycles  one for each recorded access of the questions that were answered
//   circumstances   [Q] strings, JSON; only where one is not empty
//   refused, refusal    only where there are any: numbers of the questions (rows of `question`) that were refused, and
//                   why
//
// Archives of the schema gpuinfer-trace/1 are read as well. There `offset` holds the sequences of each question, one
// that comes again as often as it does; `question` has warm_begin, record_begin, where the warm-up ends, too, and
// record_end, all in `offset` of the group; and is_warm_up says again which accesses are warm-up.
//
// Groups /timings_000000, ... hold workloads that many threads carried out, W of them:
//   workload        [W] strings: what was done, as JSON
//   run_begin       [W] where in cycles the runs of each begin; the next one's are their end
//   cycles          one for each run of the workloads that were carried out
//   seconds         as many, 0 where only cycles are told
//   refused, refusal    as above
//   counted_workload    only where there are any: rows of `workload` for which the device counted
//   counted             five for each of them: l1_sectors, l2_load_bytes, l2_store_bytes, dram_load_bytes,
//                       dram_store_bytes
//   not_counted         only where there are any: [W] strings why the device did not count, or empty
//
// Groups /places_000000, ... hold where in memory lies what offsets into the buffer of a target name. Attribute:
// target.
//   offset          [N]
//   place           [N] bytes from the first of that memory on
namespace gpuinfer::probe {

class AnswerLog;

// What an archive holds, but for the traces themselves.
struct Archive {
  model::DeviceFacts facts;
  std::vector<std::string> traced_targets;  // that have traces, each once, in the order they were asked
  std::vector<TimedWorkload> timed;         // in the order they were asked, without the refused ones
  std::vector<std::string> timed_targets;   // of these, each once
};

// Throws InputError: not there, not HDF5, truncated, another schema than those two, lengths that do not fit, negative
// times.
[[nodiscard]] Archive read_archive(const std::filesystem::path& file);

// Which questions are read, by their target and circumstances; empty: all. The others are hardly looked at.
using Wanted = std::function<bool(std::string_view target, const model::Circumstances& circumstances)>;

// Shows traces in the order they were asked, without the refused ones. One is there until the next: of a whole GPU all
// together are far longer than the archive. The start is known unless it was what another one had left. Throws as
// read_archive() does, before the first, and what `visit` throws.
void for_each_trace(const std::filesystem::path& file, const Wanted& wanted,
                    const std::function<void(const model::Trace&)>& visit);

// The same, held all at once. Throws InputError also where they are too long for that.
[[nodiscard]] std::vector<model::Trace> archived_traces(const std::filesystem::path& file, const Wanted& wanted = {});

// The targets of which the archive has answers, as open_recording() offers them, without reading what they are. Throws
// as read_archive() does.
[[nodiscard]] std::vector<std::string> recorded_targets(const std::filesystem::path& path);

// The facts of the device that an archive was recorded from, without reading what it was asked. Throws as
// read_archive() does.
[[nodiscard]] model::DeviceFacts read_archive_facts(const std::filesystem::path& file);

// Appends all that an archive holds, so that a run can go on after it. Throws InputError as read_archive() does, and
// what the log throws.
void append_archive(const std::filesystem::path& file, AnswerLog& log);

// Writes what a device was asked. The file takes its name when close() is called, and nothing is left of it when that
// is not.
class ArchiveWriter {
 public:
  virtual ~ArchiveWriter() = default;
  virtual void append(std::span<const model::Question> questions, std::span<const model::Answer> answers) = 0;
  virtual void append(std::span<const model::Workload> workloads, std::span<const model::Timing> timings) = 0;
  virtual void append(const std::string& target, std::span<const std::uint64_t> offsets,
                      std::span<const std::uint64_t> places) = 0;
  // Known only after the questions. As JSON, and once.
  virtual void add_disturbances(const std::vector<model::Disturbance>& disturbances) = 0;
  // One more attribute of /provenance.
  virtual void add_provenance(const std::string& name, const std::string& value) = 0;
  virtual void close() = 0;
};

// Throws InputError when the file cannot be begun, and the other functions Error when the disk is full.
[[nodiscard]] std::unique_ptr<ArchiveWriter> create_archive(const std::filesystem::path& file,
                                                            const model::DeviceFacts& facts);

// A device that answers what the archive holds, the same question asked again with the next answer to it that was
// recorded (the last one again when all are used up), and refuses other questions with a sentence; so with workloads.
// Its targets are those that were answered at least once.
class RecordedDevice : public model::Answerer {
 public:
  [[nodiscard]] virtual bool holds(const model::Question& question) = 0;
  [[nodiscard]] virtual bool holds(const model::Workload& workload) const = 0;
};

// `source` is what --device named. What a target was asked is read when it is asked for the first time. Throws as
// read_archive() does, and so does the device then.
[[nodiscard]] std::unique_ptr<RecordedDevice> open_recording(const std::filesystem::path& file,
                                                             const std::string& source);

}  // namespace gpuinfer::probe
