// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/answer_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <set>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "model/printable.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/keep/sqlite.hpp"
#include "probe/latency.hpp"
#include "probe/output_file.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using sqlite::Database;
using sqlite::Statement;

constexpr const char* in_memory = ":memory:";
constexpr std::string_view magic_of_old_journals = "gpuinfer-journal/1\n";
constexpr const char* columns =
    "id INTEGER PRIMARY KEY, kind INTEGER, target TEXT, place INTEGER, about TEXT, warm BLOB, record BLOB, "
    "latencies BLOB, checksum INTEGER";

// A row holds something else than its kind says.
class Malformed : public std::runtime_error {
 public:
  Malformed() : std::runtime_error("a row holds something else than it should") {}
};

void require(bool holds) {
  if (!holds) {
    throw Malformed();
  }
}

std::string text_of(const json& value) { return model::json_text(value, {.replaces_bytes = true}); }

// Each offset by its distance from the one before, at first from 0: twice the distance, or twice what it goes back less
// 1, as 7 bits in each byte, the lowest first, bit 7 set in all but the last.
std::string bytes_of(std::span<const std::uint64_t> sequence) {
  std::string bytes;
  std::uint64_t before = 0;
  for (const std::uint64_t offset : sequence) {
    const std::uint64_t distance = offset - before;
    std::uint64_t number = (distance >> 63U) != 0 ? ~(distance << 1U) : distance << 1U;
    for (; number >= 0x80U; number >>= 7U) {
      bytes += static_cast<char>((number & 0x7fU) | 0x80U);
    }
    bytes += static_cast<char>(number);
    before = offset;
  }
  return bytes;
}

model::AccessSequence sequence_in(std::string_view bytes) {
  model::AccessSequence sequence;
  std::uint64_t before = 0;
  std::uint64_t number = 0;
  unsigned shift = 0;
  for (const char byte : bytes) {
    require(shift < 64);
    number |= std::uint64_t{static_cast<unsigned char>(byte) & 0x7fU} << shift;
    shift += 7;
    if (static_cast<unsigned char>(byte) < 0x80U) {
      before += (number & 1U) != 0 ? ~(number >> 1U) : number >> 1U;
      sequence.push_back(before);
      number = 0;
      shift = 0;
    }
  }
  require(shift == 0);
  return sequence;
}

static_assert(std::endian::native == std::endian::little, "latencies are kept as they are");

std::vector<float> latencies_in(const std::string& bytes, std::size_t count) {
  std::vector<float> latency_cycles(count);
  require(bytes.size() == count * sizeof(float));
  std::ranges::copy(std::as_bytes(std::span(bytes)), std::as_writable_bytes(std::span(latency_cycles)).begin());
  require(std::ranges::all_of(latency_cycles, is_latency));
  return latency_cycles;
}

AnsweredQuestion question_in(const Row& row) {
  const json about = wire::parse_object(row.about);
  const auto state = model::start_state_from(about.at("state").get<std::string>());
  require(state.has_value());
  AnsweredQuestion answered{.question = {.target = row.target,
                                         .state = *state,
                                         .warm = sequence_in(row.warm),
                                         .record = sequence_in(row.record),
                                         .circumstances = wire::parse_circumstances(about.at("circumstances"))},
                            .answer = {}};
  if (about.contains("refusal")) {
    answered.answer.refusal = about.at("refusal").get<std::string>();
  } else {
    answered.answer.latency_cycles = latencies_in(row.latencies, answered.question.record.size());
  }
  return answered;
}

constexpr std::array counts{&model::CacheTraffic::l1_sectors, &model::CacheTraffic::l2_load_bytes,
                            &model::CacheTraffic::l2_store_bytes, &model::CacheTraffic::dram_load_bytes,
                            &model::CacheTraffic::dram_store_bytes};

json to_json(const model::Workload& workload, const model::Timing& timing) {
  json about{{"workload", wire::to_json(workload)},
             {"cycles", timing.cycles},
             {"seconds", timing.seconds},
             {"why_not_counted", timing.why_not_counted}};
  if (timing.counted) {
    for (const auto count : counts) {
      about["counted"].push_back((*timing.counted).*count);
    }
  }
  if (timing.refusal) {
    about["refusal"] = *timing.refusal;
  }
  return about;
}

std::vector<double> times_in(const json& list, std::size_t count) {
  auto all = list.get<std::vector<double>>();
  require(all.size() == count && std::ranges::all_of(all, is_latency));
  return all;
}

TimedWorkload workload_in(const Row& row) {
  const json about = wire::parse_object(row.about);
  TimedWorkload timed{.workload = wire::parse_workload(about.at("workload")), .timing = {}};
  if (about.contains("refusal")) {
    timed.timing.refusal = about.at("refusal").get<std::string>();
  }
  const std::size_t runs =
      timed.timing.refusal ? 0 : std::visit([](const auto& any) { return std::size_t{any.runs}; }, timed.workload);
  timed.timing.cycles = times_in(about.at("cycles"), runs);
  timed.timing.seconds = times_in(about.at("seconds"), model::has_seconds(timed.workload) ? runs : 0);
  timed.timing.why_not_counted = about.at("why_not_counted").get<std::string>();
  if (about.contains("counted")) {
    timed.timing.counted.emplace();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      (*timed.timing.counted).*counts[i] = about.at("counted").at(i).get<std::uint64_t>();
    }
  }
  return timed;
}

bool is_vital(RowKind kind) { return kind != RowKind::question && kind != RowKind::workload; }

// How much of a log there has to be; row 0 of `spare`.
struct Count {
  std::uint64_t last_id = 0;
  std::uint64_t missing = 0;  // of ids up to that, lost before
  std::uint64_t vital = 0;

  [[nodiscard]] Row row() const {
    return {.place = last_id, .about = text_of({{"missing", missing}, {"vital", vital}})};
  }
  static Count in(const Row& row) {
    const json about = wire::parse_object(row.about);
    return {.last_id = row.place,
            .missing = about.at("missing").get<std::uint64_t>(),
            .vital = about.at("vital").get<std::uint64_t>()};
  }
};

InputError is_of_another(const fs::path& file) {
  return InputError(file.string() + ": another gpuinfer is writing it; let it end, or name another file");
}

InputError cannot_open(const fs::path& file, const sqlite::Failure& failure) {
  if (failure.is_busy()) {
    return is_of_another(file);
  }
  return InputError(file.string() + ": cannot be written (" + failure.what() +
                    "); name another file, on a disk of this machine where the file system cannot lock files");
}

InputError is_no_log(const fs::path& file) {
  return InputError(file.string() +
                    ": is no journal, or lost what its answers hang on; begin the run anew with --record");
}

Row row_in(const Statement& statement) {
  return {.id = statement.number(0),
          .kind = static_cast<RowKind>(statement.number(1)),
          .target = statement.bytes(2),
          .place = statement.number(3),
          .about = statement.bytes(4),
          .warm = statement.bytes(5),
          .record = statement.bytes(6),
          .latencies = statement.bytes(7)};
}

bool is_whole(const Row& row, const Statement& statement) { return checksum_of(row) == statement.number(8); }

void insert(Statement& statement, const Row& row) {
  statement.bind(0, row.id);
  statement.bind(1, static_cast<std::uint64_t>(row.kind));
  statement.bind_text(2, row.target);
  statement.bind(3, row.place);
  statement.bind_text(4, row.about);
  statement.bind_blob(5, row.warm);
  statement.bind_blob(6, row.record);
  statement.bind_blob(7, row.latencies);
  statement.bind(8, checksum_of(row));
  statement.run();
}

std::string insertion_into(const std::string& table) {
  return "INSERT OR REPLACE INTO " + table + " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
}

}  // namespace

// A database that no other process can open meanwhile.
struct AnswerLog::Connection {
  Connection(const fs::path& file, Database::Open open) : database(file, open) {
    // Locks are kept only from there on where this one has it alone: two that kept what they read by would each wait
    // for the other.
    database.execute("PRAGMA page_size = " + std::to_string(log_page_bytes) +
                     "; PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA cell_size_check = ON; "
                     "BEGIN EXCLUSIVE; PRAGMA locking_mode = EXCLUSIVE");
    if (open == Database::Open::made) {
      database.execute(std::string("CREATE TABLE kept (") + columns + "); CREATE TABLE spare (" + columns + ")");
    }
    database.execute("COMMIT");
    if (database.has_moved()) {
      throw sqlite::Failure(SQLITE_BUSY, "whoever had it has ended and removed it");
    }
    insertion.emplace(database, insertion_into("kept"));
    spare_insertion.emplace(database, insertion_into("spare"));
    selection.emplace(database, "SELECT * FROM kept WHERE id = ?");
  }

  Database database;
  std::optional<Statement> insertion;
  std::optional<Statement> spare_insertion;
  std::optional<Statement> selection;
};

AnswerLog::AnswerLog(const fs::path& file, const RunFacts& run, const std::function<void(AnswerLog&)>& fill)
    : file_(file) {
  if (fs::exists(file)) {
    throw InputError(file.string() + ": is left of a run that did not end; go on with --resume, or remove it");
  }
  make();
  append_run(run);
  fill(*this);
  publish(Publish::as_new);
  try {
    connection_ = std::make_unique<Connection>(file_, Database::Open::existing);
  } catch (const sqlite::Failure& failure) {
    if (!failure.is_busy()) {
      remove();
    }
    throw cannot_open(file_, failure);
  }
}

void AnswerLog::make() {
  try {
    connection_ = std::make_unique<Connection>(in_memory, Database::Open::made);
  } catch (const sqlite::Failure& failure) {
    throw cannot_open(file_, failure);
  }
}

// Gives the database in memory the name of the file.
void AnswerLog::publish(Publish how) {
  commit_pending();
  OutputFile output(file_);
  guarded([&] { connection_->database.save(output.working_name()); });
  connection_.reset();
  if (std::error_code ignored; how == Publish::in_place || !fs::exists(file_, ignored)) {
    // What would be rolled back into the database of another log.
    fs::remove(file_.string() + "-journal", ignored);
  }
  if (how == Publish::in_place) {
    output.publish();
  } else if (!output.publish_as_new()) {
    throw is_of_another(file_);
  }
}

AnswerLog::AnswerLog(const fs::path& file) : file_(file) {
  std::string begin(magic_of_old_journals.size(), '\0');
  std::ifstream(file, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin == magic_of_old_journals) {
    throw InputError(file.string() + ": is the journal of an earlier version; begin the run anew with --record");
  }
  if (!read()) {
    mend();
    if (!read()) {
      throw is_no_log(file);
    }
  }
}

AnswerLog::~AnswerLog() {
  try {
    commit_pending();
  } catch (const Error&) {
    // Whoever cares has committed.
  }
}

bool AnswerLog::read() {
  run_.clear();
  rows_.clear();
  places_.clear();
  disturbances_.clear();
  last_id_ = 0;
  connection_.reset();
  try {
    connection_ = std::make_unique<Connection>(file_, Database::Open::existing);
    return read_rows();
  } catch (const sqlite::Failure& failure) {
    // Damage shows as any other failure, even as a file that is too new to be written to.
    if (failure.is_busy() || ::access(file_.c_str(), R_OK | W_OK) != 0) {
      throw cannot_open(file_, failure);
    }
  } catch (const json::exception&) {
  } catch (const Malformed&) {
  } catch (const InputError&) {
  }
  connection_.reset();
  return false;
}

// Whether nothing is missing but what was missed before.
bool AnswerLog::read_rows() {
  const Database& database = connection_->database;
  Statement check(database, "PRAGMA quick_check(1)");
  if (!check.step() || check.bytes(0) != "ok") {
    return false;
  }
  std::optional<Count> count;
  std::map<RowId, Row> vital;
  for (Statement spare(database, "SELECT * FROM spare ORDER BY id"); spare.step();) {
    if (Row row = row_in(spare); is_whole(row, spare)) {
      if (row.id == 0) {
        count = Count::in(row);
      } else {
        vital.emplace(row.id, std::move(row));
      }
    }
  }
  std::uint64_t rows = 0;
  for (Statement kept(database, "SELECT * FROM kept ORDER BY id"); kept.step(); ++rows) {
    if (Row row = row_in(kept); is_whole(row, kept)) {
      if (is_vital(row.kind) && !vital.contains(row.id)) {
        return false;
      }
      take_in(row);
      last_id_ = row.id;
    } else {
      return false;
    }
  }
  if (!count || last_id_ > count->last_id || rows + count->missing != count->last_id || vital.size() != count->vital) {
    return false;
  }
  last_id_ = count->last_id;
  committed_id_ = last_id_;
  missing_ = count->missing;
  vital_ = count->vital;
  return !run_.empty();
}

// Makes a new database of the rows that are whole, and puts it in the place of the damaged one.
void AnswerLog::mend() {
  make();
  std::optional<Count> count;
  std::set<RowId> found;
  std::set<RowId> vital;
  guarded([&] {
    connection_->database.execute("BEGIN");
    salvage_rows(file_, [&](const Row& row) {
      if (row.id == 0) {
        count = Count::in(row);
        return;
      }
      found.insert(row.id);
      insert(*connection_->insertion, row);
      if (is_vital(row.kind)) {
        vital.insert(row.id);
        insert(*connection_->spare_insertion, row);
      }
    });
  });
  if (found.empty() || (count && vital.size() < count->vital)) {
    throw is_no_log(file_);
  }
  last_id_ = std::max(*found.rbegin(), count ? count->last_id : 0);
  vital_ = vital.size();
  missing_ = last_id_ - found.size();
  lost_rows_ = missing_ - (count ? std::min(count->missing, missing_) : 0);
  has_pending_ = true;
  publish(Publish::in_place);
}

void AnswerLog::take_in(const Row& row) {
  switch (row.kind) {
    case RowKind::question:
    case RowKind::workload: {
      Rows& rows = rows_[{row.kind == RowKind::question ? Asked::question : Asked::workload, row.target}];
      require(row.place < row.id);  // so many others at least come before
      rows.resize(std::max<std::size_t>(rows.size(), row.place + 1));
      rows[row.place] = row.id;
      break;
    }
    case RowKind::run:
      run_ = wire::parse_object(row.about).get<RunFacts>();
      break;
    case RowKind::disturbances:
      disturbances_ = wire::parse_object(row.about).at("all").get<std::vector<model::Disturbance>>();
      break;
    case RowKind::places: {
      const model::AccessSequence offsets = sequence_in(row.warm);
      const model::AccessSequence places = sequence_in(row.record);
      require(offsets.size() == places.size());
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        places_[row.target][offsets[i]] = places[i];
      }
      break;
    }
    case RowKind::question_cut:
    case RowKind::workload_cut: {
      Rows& rows = rows_[{row.kind == RowKind::question_cut ? Asked::question : Asked::workload, row.target}];
      rows.resize(std::min<std::size_t>(rows.size(), row.place));
      break;
    }
  }
}

std::optional<AnswerLog::RowId> AnswerLog::row_at(Asked asked, const std::string& target, std::uint64_t place) const {
  const auto rows = rows_.find({asked, target});
  if (rows == rows_.end() || place >= rows->second.size() || rows->second[place] == 0) {
    return std::nullopt;
  }
  return rows->second[place];
}

template <class Decode>
auto AnswerLog::decoded(RowId id, Decode decode) const {
  const auto damaged = [this](const std::exception& why) {
    return InputError(file_.string() + ": holds what no gpuinfer of this version writes (" + printable(why.what()) +
                      "); begin the run anew with --record");
  };
  try {
    Statement& selection = *connection_->selection;
    selection.reset();
    selection.bind(0, id);
    require(selection.step());
    const Row row = row_in(selection);
    require(is_whole(row, selection));
    return decode(row);
  } catch (const json::exception& wrong) {
    throw damaged(wrong);
  } catch (const Malformed& wrong) {
    throw damaged(wrong);
  } catch (const InputError& wrong) {
    throw damaged(wrong);
  } catch (const sqlite::Failure& failure) {
    throw InputError(file_.string() + ": cannot be read again (" + failure.what() + "); look after the disk");
  }
}

AnsweredQuestion AnswerLog::question(RowId id) const { return decoded(id, question_in); }
TimedWorkload AnswerLog::workload(RowId id) const { return decoded(id, workload_in); }

template <class Work>
void AnswerLog::guarded(Work work) {
  try {
    work();
  } catch (const sqlite::Failure& failure) {
    has_pending_ = false;
    last_id_ = committed_id_;
    // SQLite has done so by itself, unless it could not even begin.
    sqlite3_exec(connection_->database.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw Error(file_.string() + ": cannot be written (" + failure.what() + "); make room, and go on with --resume");
  }
}

AnswerLog::RowId AnswerLog::write(Row row) {
  row.id = ++last_id_;
  guarded([&] {
    if (!has_pending_) {
      begin(std::chrono::steady_clock::now() >= sync_due_);
    }
    insert(*connection_->insertion, row);
    if (is_vital(row.kind)) {
      insert(*connection_->spare_insertion, row);
      ++vital_;
    }
  });
  if (is_vital(row.kind)) {
    take_in(row);
  }
  if (std::chrono::steady_clock::now() >= commit_due_) {
    commit_pending();
  }
  return row.id;
}

void AnswerLog::begin(bool synchronous) {
  is_synchronous_ = synchronous;
  connection_->database.execute(synchronous ? "PRAGMA synchronous = FULL; BEGIN" : "PRAGMA synchronous = OFF; BEGIN");
  has_pending_ = true;
}

AnswerLog::RowId AnswerLog::append(std::uint64_t place, const model::Question& question, const model::Answer& answer) {
  json about{{"state", to_string(question.state)}, {"circumstances", wire::to_json(question.circumstances)}};
  if (answer.refusal) {
    about["refusal"] = *answer.refusal;
  }
  Row row{.kind = RowKind::question,
          .target = question.target,
          .place = place,
          .about = text_of(about),
          .warm = bytes_of(question.warm),
          .record = bytes_of(question.record)};
  const auto latencies = std::as_bytes(std::span(answer.latency_cycles));
  row.latencies.resize(latencies.size());
  std::ranges::copy(latencies, std::as_writable_bytes(std::span(row.latencies)).begin());
  return write(std::move(row));
}

AnswerLog::RowId AnswerLog::append(std::uint64_t place, const model::Workload& workload, const model::Timing& timing) {
  return write({.kind = RowKind::workload,
                .target = std::string(target_of(workload)),
                .place = place,
                .about = text_of(to_json(workload, timing))});
}

void AnswerLog::append_places(const std::string& target, std::span<const std::uint64_t> offsets,
                              std::span<const std::uint64_t> places) {
  write({.kind = RowKind::places, .target = target, .warm = bytes_of(offsets), .record = bytes_of(places)});
}

void AnswerLog::append_disturbances(const std::vector<model::Disturbance>& disturbances) {
  write({.kind = RowKind::disturbances, .about = text_of({{"all", disturbances}})});
}

void AnswerLog::append_run(const RunFacts& run) { write({.kind = RowKind::run, .about = text_of(run)}); }

void AnswerLog::cut(Asked asked, const std::string& target, std::uint64_t place) {
  write({.kind = asked == Asked::question ? RowKind::question_cut : RowKind::workload_cut,
         .target = target,
         .place = place});
}

void AnswerLog::commit() {
  commit_pending();
  guarded([this] { begin(true); });
  commit_pending();
}

// Takes a twentieth of the time, and brings answers to the disk once a second at least while they come.
void AnswerLog::commit_pending() {
  if (!has_pending_) {
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  guarded([this] {
    insert(*connection_->spare_insertion, Count{.last_id = last_id_, .missing = missing_, .vital = vital_}.row());
    connection_->database.execute("COMMIT");
  });
  has_pending_ = false;
  committed_id_ = last_id_;
  const auto end = std::chrono::steady_clock::now();
  constexpr int share_of_time = 20;
  constexpr std::chrono::steady_clock::duration least = std::chrono::milliseconds(500);
  constexpr std::chrono::steady_clock::duration longest = std::chrono::seconds(1);
  const auto due = end + std::min(longest, share_of_time * (end - begin));
  commit_due_ = is_synchronous_ ? end : due;
  sync_due_ = is_synchronous_ ? std::max(due, end + least) : sync_due_;
}

void AnswerLog::remove() {
  has_pending_ = false;
  // Before another process can open it.
  std::error_code ignored;
  fs::remove(file_, ignored);
  connection_.reset();
}

}  // namespace gpuinfer::probe
