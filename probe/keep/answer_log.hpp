// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/disturbance.hpp"
#include "model/trace.hpp"
#include "probe/keep/row.hpp"
#include "probe/keep/run_facts.hpp"
#include "probe/kept_answers.hpp"

// What a run was answered, kept so that a run that was cut off can be gone on with: an SQLite database in which every
// answer is a row, with a checksum of its own.
//
// The table `kept` has the columns of Row and the checksum. Rows that all others hang on stand in the table `spare` as
// well, on other pages; its row 0 says in `place` how many rows there are. Rows are written together, by SQLite's
// rollback journal, and brought to the disk about twice a second: a process that ends loses the answers of a moment, a
// machine those of a second at most, and what is damaged costs the rows that the damage touched.
namespace gpuinfer::probe {

struct AnsweredQuestion {
  model::Question question;
  model::Answer answer;
};

enum class Asked { question, workload };

class AnswerLog {
 public:
  using RowId = std::uint64_t;

  // Begins a log with what `fill` appends, held in memory until then: the file appears whole. Throws InputError when
  // there is one already, when the file cannot be written, or when its file system cannot lock files.
  AnswerLog(
      const std::filesystem::path& file, const RunFacts& run,
      const std::function<void(AnswerLog&)>& fill = [](AnswerLog& /*log*/) {});

  // Goes on with a log, of which every row is read and checked first. One that is damaged is replaced by what is whole
  // of it. Throws InputError likewise, and when the file is no log, or lost what the others hang on.
  explicit AnswerLog(const std::filesystem::path& file);

  // Commits what it can.
  ~AnswerLog();
  AnswerLog(const AnswerLog&) = delete;
  AnswerLog& operator=(const AnswerLog&) = delete;

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] const RunFacts& run() const { return run_; }
  // Of those that were there when the log was opened.
  [[nodiscard]] std::uint64_t lost_rows() const { return lost_rows_; }

  // The row of what was asked of a target after so many others of its kind; none: it was not asked, or is lost.
  [[nodiscard]] std::optional<RowId> row_at(Asked asked, const std::string& target, std::uint64_t place) const;
  // Of rows that are there. Throw InputError when one holds something else than it should.
  [[nodiscard]] AnsweredQuestion question(RowId id) const;
  [[nodiscard]] TimedWorkload workload(RowId id) const;
  [[nodiscard]] const PlacesByTarget& places() const { return places_; }
  [[nodiscard]] const std::vector<model::Disturbance>& disturbances() const { return disturbances_; }

  // These throw Error when there is no room, and leave what was committed as it is.
  RowId append(std::uint64_t place, const model::Question& question, const model::Answer& answer);
  RowId append(std::uint64_t place, const model::Workload& workload, const model::Timing& timing);
  void append_places(const std::string& target, std::span<const std::uint64_t> offsets,
                     std::span<const std::uint64_t> places);
  void append_disturbances(const std::vector<model::Disturbance>& disturbances);
  void append_run(const RunFacts& run);
  // What was asked of the target from `place` on does not count.
  void cut(Asked asked, const std::string& target, std::uint64_t place);
  // Brings all to the disk.
  void commit();

  // The answers are elsewhere by now.
  void remove();

 private:
  struct Connection;
  using Rows = std::vector<RowId>;  // by place; 0: none

  void make();
  enum class Publish { as_new, in_place };
  void publish(Publish how);
  [[nodiscard]] bool read();
  [[nodiscard]] bool read_rows();
  void mend();
  void take_in(const Row& row);
  RowId write(Row row);
  void begin(bool synchronous);
  void commit_pending();
  template <class Work>
  void guarded(Work work);
  template <class Decode>
  auto decoded(RowId id, Decode decode) const;

  std::filesystem::path file_;
  std::unique_ptr<Connection> connection_;
  RunFacts run_;
  std::map<std::pair<Asked, std::string>, Rows> rows_;  // by kind and target
  PlacesByTarget places_;
  std::vector<model::Disturbance> disturbances_;
  RowId last_id_ = 0;
  RowId committed_id_ = 0;
  std::uint64_t missing_ = 0;  // of the ids up to the last one
  std::uint64_t vital_ = 0;
  std::uint64_t lost_rows_ = 0;
  bool has_pending_ = false;
  bool is_synchronous_ = false;  // what is pending will be brought to the disk
  std::chrono::steady_clock::time_point commit_due_;
  std::chrono::steady_clock::time_point sync_due_;
};

}  // namespace gpuinfer::probe
