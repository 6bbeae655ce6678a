// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/answerer.hpp"
#include "model/trace.hpp"
#include "model/workload.hpp"
#include "probe/kept_answers.hpp"
#include "probe/process.hpp"

// The journal of a run: what was answered, appended batch by batch, so that a run that was cut off can be gone on with.
//
// Version 1 begins with the line "gpuinfer-journal/1". Frames follow, all numbers of fixed length little-endian:
//   4 bytes   N, the length of the payload
//   N bytes   the payload; its first byte says what it holds
//   4 bytes   CRC-32 of: the checksum of the frame before (0 for the first), N, payload
// As each checksum covers the one before, a frame that is missing or out of place is noticed like a changed one. What
// counts is everything before the first frame that is not whole.
//
// Payloads, by their first byte; the rest of all but Q is CBOR (RFC 8949):
//   H   what was asked of whom, as texts by name; the first frame, and only that
//   Q   questions with answers, in the order of each target, see probe/journal.cpp
//   W   workloads with timings: a list of [workload (probe/wire.hpp), cycles, seconds, counted or null, why not
//       counted, refusal or null]
//   P   [target, offsets, places]
//   D   all that had disturbed the device so far, a list of sentences
//   R   as H, of the run that went on from here
//   X   ["Q" or "W", target, count]: of that target, questions or workloads after the first `count` that stand before
//       this frame do not count, since the run that went on asked others
namespace gpuinfer::probe {

// What two runs must have in common for one to go on with the other, as texts by name.
using RunFacts = std::map<std::string, std::string>;

// What a device is, without what may change between two runs on the same one, such as its clock at the moment.
[[nodiscard]] RunFacts run_facts_of(const model::DeviceFacts& facts);

// Throws InputError when `now` has another value, or lacks one, for a name in `begun`, unless all that differs is the
// address of a buffer. `file`: where that stands.
void check_same_run(const std::filesystem::path& file, const RunFacts& begun, const RunFacts& now);

// Of these targets those whose buffer has another address by now: what was answered of them does not count.
[[nodiscard]] std::vector<std::string> targets_elsewhere(std::span<const std::string> targets, const RunFacts& begun,
                                                         const RunFacts& now);

struct AnsweredQuestion {
  model::Question question;
  model::Answer answer;
};

// Reads a journal from its begin, each target apart: a budget that is used up may end one target and leave some of
// another. Holds one frame of each in memory.
class JournalReader {
 public:
  // Throws InputError when the file cannot be read or is no journal, or when its first frame is not whole.
  explicit JournalReader(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] const RunFacts& run() const { return run_; }

  // None: there are no more. Both throw InputError when a whole frame holds something else.
  [[nodiscard]] std::optional<AnsweredQuestion> next_question(const std::string& target);
  [[nodiscard]] std::optional<TimedWorkload> next_workload(const std::string& target);

  [[nodiscard]] const PlacesByTarget& places() const { return places_; }
  [[nodiscard]] const std::vector<model::Disturbance>& disturbances() const { return disturbances_; }

  [[nodiscard]] std::uint64_t whole_bytes() const { return whole_bytes_; }      // to the end of the last whole frame
  [[nodiscard]] std::uint64_t dropped_bytes() const { return dropped_bytes_; }  // after it
  [[nodiscard]] std::uint32_t last_checksum() const { return last_checksum_; }

 private:
  template <class Element>
  struct Cursor {
    std::uint64_t position = 0;          // of the frame that is looked at next
    std::vector<Element> elements = {};  // of the target in the last frame
    std::size_t taken = 0;
    std::uint64_t given = 0;
  };
  struct Cut {
    std::uint64_t after = 0;     // so many elements
    std::uint64_t position = 0;  // what counts goes on there
  };

  [[nodiscard]] std::optional<std::string> whole_frame_at(std::uint64_t position, std::uint64_t file_bytes);
  template <class Element>
  using Cursors = std::map<std::string, Cursor<Element>>;  // by target

  template <class Element, class Decode>
  [[nodiscard]] std::optional<Element> next(Cursors<Element>& cursors, const std::string& target, char kind,
                                            Decode decode);
  // What `decode` makes of it.
  template <class Decode>
  auto decoded(Decode decode) const;
  void take_in(char kind, std::string_view content);

  std::filesystem::path file_;
  std::ifstream stream_;
  RunFacts run_;
  PlacesByTarget places_;
  std::vector<model::Disturbance> disturbances_;
  std::map<std::pair<std::string, std::string>, std::vector<Cut>> cuts_;  // by kind and target
  std::uint64_t whole_bytes_ = 0;
  std::uint64_t dropped_bytes_ = 0;
  std::uint32_t last_checksum_ = 0;
  Cursors<AnsweredQuestion> questions_;
  Cursors<TimedWorkload> workloads_;
};

// Appends. What append() has returned from survives the end of the process; what sync() has, that of the machine.
// append() syncs twice a second at most. The constructors throw InputError when the file cannot be written or belongs
// to another process; the rest throws Error when there is no room, and leaves the frames before as they are.
class JournalWriter {
 public:
  // Begins a journal; until its first frame is whole it is FILE.partial. There must be none yet.
  JournalWriter(const std::filesystem::path& file, const RunFacts& run);
  // Goes on after the last whole frame of what was read, and cuts off what follows it.
  explicit JournalWriter(const JournalReader& read);

  void append(std::span<const model::Question> questions, std::span<const model::Answer> answers);
  void append(std::span<const model::Workload> workloads, std::span<const model::Timing> timings);
  void append(const std::string& target, std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> places);
  void append_disturbances(const std::vector<model::Disturbance>& disturbances);
  void append_run(const RunFacts& run);
  // Of what a reader gives, nothing after so many questions, or workloads, of the target counts that stands before
  // this.
  void append_question_cut(const std::string& target, std::uint64_t questions);
  void append_workload_cut(const std::string& target, std::uint64_t workloads);
  void sync();

  // Synced, and in the place of whatever had that name.
  void move_to(const std::filesystem::path& file);
  // The answers are elsewhere by now.
  void remove();

 private:
  void begin_frame(char kind);
  void end_frame();
  void write_all(std::string_view bytes);
  void append_cut(char kind, const std::string& target, std::uint64_t count);

  std::filesystem::path file_;
  FileDescriptor open_;
  std::string frame_;
  std::uint64_t whole_bytes_ = 0;
  std::uint32_t last_checksum_ = 0;
  bool failed_ = false;
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace gpuinfer::probe
