// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/answer_log.hpp"

#include <sys/resource.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/keep/kept_device.hpp"
#include "probe/keep/sqlite.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/answered.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Answer;
using model::Question;
using model::StartState;

const RunFacts some_run{{"device", "Größe \"7\""}, {"source", "cuda:0"}, {"targets", "L1tex L2"}};

// Everything that has a form of its own: far offsets, steps back, latencies of any size, refusals.
std::vector<AnsweredQuestion> answers_of_all_forms() {
  constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();
  const Question first{.target = "L1tex", .state = StartState::clean, .warm = {0, 128, far, 4}, .record = {0, 256, 12}};
  Question again = first;
  again.state = StartState::invalidated;
  Question other = first;
  other.record = {far / 2, far / 2 + 1, 0};
  other.circumstances = {.warm_target = "ReadOnly", .shared_memory_kb = 228, .unit = model::ComputeUnit{131}};
  const Question empty{.target = "L2", .state = StartState::keep, .warm = {}, .record = {}};
  return {{first, answered({33, 65535, 0})},
          {again, answered({33, 65536, 1})},
          {first, answered({0.5F, 1e30F, 7})},
          {empty, answered({})},
          {other, Answer{.latency_cycles = {}, .refusal = "not \"so\""}},
          {other, answered({-0.0F, 1, 2})},
          {empty, answered({})}};
}

bool bits_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class AnswerLogFile : public ScratchTest {
 protected:
  [[nodiscard]] std::filesystem::path some() const { return path("some.journal"); }

  // How many of the questions, of one target each in this order, the log holds; what it holds must be what was asked.
  static std::size_t held(const AnswerLog& log, std::span<const AnsweredQuestion> all) {
    std::map<std::string, std::uint64_t> places;
    std::size_t count = 0;
    for (const auto& [question, answer] : all) {
      if (const auto row = log.row_at(Asked::question, question.target, places[question.target]++)) {
        const AnsweredQuestion kept = log.question(*row);
        EXPECT_EQ(kept.question, question);
        EXPECT_TRUE(bits_equal(kept.answer.latency_cycles, answer.latency_cycles));
        EXPECT_EQ(kept.answer.refusal, answer.refusal);
        ++count;
      }
    }
    for (const auto& [target, place] : places) {
      EXPECT_FALSE(log.row_at(Asked::question, target, place));
    }
    return count;
  }

  static void append(AnswerLog& log, std::span<const AnsweredQuestion> all) {
    std::map<std::string, std::uint64_t> places;
    for (const auto& [question, answer] : all) {
      log.append(places[question.target]++, question, answer);
    }
  }

  void write(std::span<const AnsweredQuestion> all) const {
    AnswerLog log(some(), some_run);
    append(log, all);
  }

  static void expect_refused(const std::filesystem::path& file, const std::string& why) {
    const std::string message = message_of<InputError>([&] { AnswerLog log(file); });
    EXPECT_TRUE(contains(message, why)) << message;
  }
};

TEST_F(AnswerLogFile, HoldsWhatWasAnswered) {
  const auto answers = answers_of_all_forms();
  write(answers);
  const AnswerLog log(some());
  EXPECT_EQ(log.run(), some_run);
  EXPECT_EQ(log.lost_rows(), 0U);
  EXPECT_EQ(held(log, answers), answers.size());
  EXPECT_FALSE(log.row_at(Asked::workload, "L1tex", 0));
}

// As other programs see it.
TEST_F(AnswerLogFile, IsADatabaseOfRows) {
  write({{{.question = {.target = "L2", .state = StartState::flooded, .warm = {8, 4}, .record = {300}},
           .answer = answered({258})}}});
  const sqlite::Database database(some(), sqlite::Database::Open::existing);
  sqlite::Statement rows(database,
                         "SELECT id, kind, target, place, about, hex(warm), hex(record), hex(latencies) FROM "
                         "kept ORDER BY id");
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.number(1), 3U);
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.number(0), 2U);
  EXPECT_EQ(rows.number(1), 1U);
  EXPECT_EQ(rows.bytes(2), "L2");
  EXPECT_EQ(rows.number(3), 0U);
  EXPECT_EQ(rows.bytes(4), R"({"circumstances":{},"state":"flooded"})");
  EXPECT_EQ(rows.bytes(5), "1007");      // 8, and 4 less
  EXPECT_EQ(rows.bytes(6), "D804");      // 300
  EXPECT_EQ(rows.bytes(7), "00008143");  // 258 as IEEE 754
  EXPECT_FALSE(rows.step());
}

TEST_F(AnswerLogFile, HoldsTimingsPlacesAndDisturbances) {
  const std::vector<model::Workload> workloads{model::strided(8, 4, 3), model::KernelRun{.is_counted = true},
                                               model::KernelRun{}};
  std::vector<model::Timing> timings(3);
  timings[0].cycles = {1, 0.1, 1e38};
  timings[1].counted = model::CacheTraffic{.l1_sectors = std::numeric_limits<std::uint64_t>::max(),
                                           .l2_load_bytes = 2,
                                           .l2_store_bytes = 3,
                                           .dram_load_bytes = 4,
                                           .dram_store_bytes = 5};
  timings[1].cycles = {4};
  timings[1].seconds = {1.0 / 3};
  timings[2].refusal = "no";
  timings[2].why_not_counted = "not \"so\"";
  const std::vector<model::Disturbance> disturbances{
      {.kind = model::Disturbance::Kind::other, .sentence = "it rained"},
      {.kind = model::Disturbance::Kind::memory_errors, .sentence = "it blew"}};
  {
    AnswerLog log(some(), some_run);
    log.append_places("Texture2D", std::vector<std::uint64_t>{0, 4}, std::vector<std::uint64_t>{4, 1ULL << 63U});
    log.append(0, workloads[0], timings[0]);
    log.append(0, workloads[1], timings[1]);
    log.append(1, workloads[2], timings[2]);
    log.append_disturbances({{.sentence = "it rained"}});
    log.append_disturbances(disturbances);
  }
  const AnswerLog log(some());
  const std::vector<std::uint64_t> places{0, 0, 1};
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const auto row = log.row_at(Asked::workload, std::string(target_of(workloads[i])), places[i]);
    ASSERT_TRUE(row);
    EXPECT_EQ(log.workload(*row).workload, workloads[i]);
    EXPECT_EQ(log.workload(*row).timing, timings[i]);
  }
  EXPECT_FALSE(log.row_at(Asked::workload, "Kernels", 2));
  EXPECT_EQ(log.places().at("Texture2D").at(4), 1ULL << 63U);
  EXPECT_EQ(log.disturbances(), disturbances);
}

TEST_F(AnswerLogFile, RefusesTimingsThatAreNoneOfTheirWorkload) {
  const model::Workload workload = model::strided(8, 4, 2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& cycles : std::vector<std::vector<double>>{{1}, {1, -1}, {1, nan}, {1, 1e300}}) {
    AnswerLog(some(), some_run).append(0, workload, {.cycles = cycles, .seconds = {}});
    const AnswerLog log(some());
    EXPECT_THROW(static_cast<void>(log.workload(*log.row_at(Asked::workload, "Shared", 0))), InputError);
    std::filesystem::remove(some());
  }
}

// Each of 1,000 bytes, one at a time, of a log with rows of all sizes.
TEST_F(AnswerLogFile, ADamagedByteCostsWhatItTouched) {
  const std::random_device::result_type seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  std::vector<AnsweredQuestion> all;
  for (int i = 0; i < 1000; ++i) {
    Question question{.target = i % 2 == 0 ? "L1tex" : "L2", .state = StartState::keep, .warm = {}, .record = {}};
    Answer answer;
    for (std::size_t n = i % 300 == 7 ? 4000 : 10 + random() % 10; n > 0; --n) {
      question.warm.push_back(random() % (1U << 30U));
      question.record.push_back(random() % (1U << 20U));
      answer.latency_cycles.push_back(static_cast<float>(random() % 1000));
    }
    all.push_back({std::move(question), std::move(answer)});
  }
  write(all);
  std::string bytes;
  {
    std::ifstream stream(some(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  constexpr std::size_t least_row_bytes = 100;
  constexpr std::size_t rows_of_two_pages = std::size_t{2} * log_page_bytes / least_row_bytes;
  const char* const wanted = std::getenv("GPUINFER_TEST_BYTES");
  const std::size_t damages = wanted == nullptr ? 250 : std::stoul(wanted);
  std::size_t harmed = 0;
  for (std::size_t i = 0; i < damages; ++i) {
    std::string damaged = bytes;
    // The pages that all others hang on are the first ones.
    const std::size_t byte = i < damages / 10 ? random() % (std::size_t{3} * log_page_bytes) : random() % bytes.size();
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (random() % 8)));
    SCOPED_TRACE("byte " + std::to_string(byte));
    const AnswerLog log(file("damaged.journal", damaged));
    EXPECT_EQ(log.run(), some_run);
    const std::size_t lost = all.size() - held(log, all);
    EXPECT_LE(lost, rows_of_two_pages);
    EXPECT_LE(lost, log.lost_rows());
    EXPECT_LE(log.lost_rows(), lost + 1);  // a row of the run is there twice
    harmed += lost > 0 ? 1 : 0;
  }
  std::cout << harmed << " of " << damages << " harmed rows\n";
  EXPECT_GT(harmed, damages / 2);
}

TEST_F(AnswerLogFile, CutOffAnywhereHoldsWhatWasBefore) {
  std::vector<AnsweredQuestion> all;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    all.push_back({.question = {.target = "L1tex", .state = StartState::clean, .warm = {}, .record = {4 * i}},
                   .answer = answered({static_cast<float>(i)})});
  }
  write(all);
  const std::uintmax_t bytes = std::filesystem::file_size(some());
  std::size_t before = all.size();
  for (std::uintmax_t left = bytes - 1; left > bytes / 2; left -= bytes / 20) {
    std::filesystem::copy_file(some(), path("torn.journal"), std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path("torn.journal"), left);
    const AnswerLog log(path("torn.journal"));
    const std::size_t kept = held(log, all);
    EXPECT_LT(kept, before);
    EXPECT_GT(kept, all.size() * left / bytes - 200);
    EXPECT_EQ(log.lost_rows(), all.size() - kept);
    before = kept;
  }
}

TEST_F(AnswerLogFile, WhatIsLostIsToldOnce) {
  const auto answers = answers_of_all_forms();
  write(answers);
  {
    const sqlite::Database database(some(), sqlite::Database::Open::existing);
    database.execute("UPDATE kept SET latencies = x'00' WHERE id = 3; DELETE FROM kept WHERE id = 4");
  }
  EXPECT_EQ(AnswerLog(some()).lost_rows(), 2U);
  AnswerLog log(some());
  EXPECT_EQ(log.lost_rows(), 0U);
  EXPECT_EQ(held(log, answers), answers.size() - 2);
}

TEST_F(AnswerLogFile, OneRunAtATimeWritesIt) {
  write(answers_of_all_forms());
  AnswerLog log(some());
  expect_refused(some(), "some.journal: another gpuinfer is writing it");
  EXPECT_TRUE(contains(message_of<InputError>([&] { AnswerLog other(some(), some_run); }), "--resume"));
}

// Neither may keep the other from it for ever.
TEST_F(AnswerLogFile, OfTwoThatOpenItAtOnceOneGetsIt) {
  { const AnswerLog begun(some(), some_run); }
  for (int round = 0; round < 8; ++round) {
    std::barrier both(2);
    std::atomic<int> writers = 0;
    const auto open = [&] {
      std::unique_ptr<const AnswerLog> log;
      both.arrive_and_wait();
      try {
        log = std::make_unique<const AnswerLog>(some());
        ++writers;
      } catch (const InputError&) {  // the other one has it
      }
      both.arrive_and_wait();
    };
    {
      const std::jthread first(open);
      const std::jthread second(open);
    }
    EXPECT_EQ(writers, 1);
  }
}

TEST_F(AnswerLogFile, RefusesWhatIsNone) {
  expect_refused(file("old", "gpuinfer-journal/1\n1234"),
                 "old: is the journal of an earlier version; begin the run anew");
  expect_refused(file("other", std::string(10'000, 'x')), "other: is no journal");
  expect_refused(file("empty", ""), "empty: is no journal");
  expect_refused(path("none"), "none: cannot be written");
  {
    const sqlite::Database database(path("theirs"), sqlite::Database::Open::made);
    database.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)");
  }
  expect_refused(path("theirs"), "theirs: is no journal");
}

TEST_F(AnswerLogFile, AFullDiskLeavesWhatWasThere) {
  const auto answers = answers_of_all_forms();
  AnswerLog log(some(), some_run);
  append(log, answers);
  log.commit();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tiny{.rlim_cur = std::filesystem::file_size(some()), .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tiny);
  const Question large{.target = "L2", .state = StartState::keep, .warm = model::AccessSequence(100'000), .record = {}};
  const std::string message = message_of<Error>([&] {
    log.append(2, large, answered({}));
    log.commit();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(contains(message, "some.journal: cannot be written (File too large); make room")) << message;
  std::filesystem::copy_file(some(), path("copy.journal"));
  const AnswerLog copy(path("copy.journal"));
  EXPECT_EQ(copy.lost_rows(), 0U);
  EXPECT_EQ(held(copy, answers), answers.size());
}

TEST_F(AnswerLogFile, RunsThatDifferAreToldApart) {
  const auto device = open_virtual(small_device(), "virtual:small", 7);
  const RunFacts run = run_facts_of(device->facts());
  check_same_run("run.h5", run, run);
  model::DeviceFacts other = device->facts();
  other.provenance["sm_clock_mhz"] = "1980";
  check_same_run("run.h5", run, run_facts_of(other));
  // How often a question is played is measured whenever a CPU is opened.
  model::DeviceFacts cpu = device->facts();
  cpu.provenance["amplification"] = "each question played 277 times at least";
  other.provenance["amplification"] = "each question played 288 times at least";
  check_same_run("run.h5", run_facts_of(cpu), run_facts_of(other));
  other.buffer.address = model::Address{std::uint64_t{1} << 40U};
  check_same_run("run.h5", run, run_facts_of(other));
  const std::vector<std::string>& targets = other.targets;
  EXPECT_TRUE(targets_elsewhere(targets, run, run_facts_of(other)).empty());
  other.buffer.address = other.buffer.address + 4;
  check_same_run("run.h5", run, run_facts_of(other));
  EXPECT_EQ(targets_elsewhere(targets, run, run_facts_of(other)), targets);
  other.buffer.bytes *= 2;
  EXPECT_TRUE(targets_elsewhere(targets, run, run_facts_of(other)).empty());
  EXPECT_TRUE(contains(message_of<InputError>([&] { check_same_run("run.h5", run, run_facts_of(other)); }), "buffer"));
  const auto seeded = open_virtual(small_device(), "virtual:small", 8);
  EXPECT_EQ(message_of<InputError>([&] { check_same_run("run.h5", run, run_facts_of(seeded->facts())); }),
            "run.h5: was begun with seed `7`, and this run has `8`; resume it as it was begun, or begin another one "
            "with --record");
}

// Answers with the number of the load that it is, counted from the first load on.
class Counting final : public model::Answerer {
 public:
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<Answer> ask(std::span<const Question> questions) override {
    std::vector<Answer> answers;
    for (const Question& question : questions) {
      asked.push_back(question);
      Answer& answer = answers.emplace_back();
      for (std::size_t i = 0; i < question.record.size(); ++i) {
        answer.latency_cycles.push_back(static_cast<float>(loads_++));
      }
    }
    return answers;
  }

  Counting() {
    facts_.source = "exec:count";
    facts_.buffer.bytes = 1024;
  }

  void put_behind_another_level() { facts_.buffer.nearer_bytes = 256; }

  std::vector<Question> asked;

 private:
  model::DeviceFacts facts_;
  std::size_t loads_ = 0;
};

Question question_in(StartState state, model::AccessSequence record) {
  return {.target = "L1tex", .state = state, .warm = {}, .record = std::move(record)};
}

class KeptRun : public AnswerLogFile {
 protected:
  // The answers that a run gets which asks these questions one by one.
  std::vector<std::vector<float>> run(model::Answerer& device, std::span<const Question> questions, Reopened reopened) {
    auto log = std::filesystem::exists(some()) ? std::make_unique<AnswerLog>(some())
                                               : std::make_unique<AnswerLog>(some(), some_run);
    KeptDevice kept(device, *log, reopened);
    std::vector<std::vector<float>> latencies;
    for (const Question& question : questions) {
      latencies.push_back(kept.ask({&question, 1}).front().latency_cycles);
    }
    return latencies;
  }

  const std::vector<Question> questions_{question_in(StartState::clean, {0, 32}), question_in(StartState::keep, {64}),
                                         question_in(StartState::invalidated, {96, 0, 32}),
                                         question_in(StartState::keep, {128}), question_in(StartState::keep, {160, 0})};
};

TEST_F(KeptRun, OfADeviceThatAnswersTheSameGoesOnAsIfNothingHadBeen) {
  model::DeviceDescription noisy = small_device();
  noisy.noise = model::NoiseDescription{.jitter_cycles = 20};
  const auto opened = [&] { return open_virtual(noisy, "virtual:small", 3); };
  const auto uninterrupted = run(*opened(), questions_, Reopened::answers_the_same);
  for (std::size_t asked = 0; asked <= questions_.size(); ++asked) {
    std::filesystem::remove(some());
    (void)run(*opened(), std::span(questions_).first(asked), Reopened::answers_the_same);
    EXPECT_EQ(run(*opened(), questions_, Reopened::answers_the_same), uninterrupted) << asked;
    const AnswerLog log(some());
    for (std::size_t i = 0; i < uninterrupted.size(); ++i) {
      EXPECT_EQ(log.question(*log.row_at(Asked::question, "L1tex", i)).answer.latency_cycles, uninterrupted[i]);
    }
    EXPECT_FALSE(log.row_at(Asked::question, "L1tex", uninterrupted.size()));
  }
  const auto other = open_virtual(noisy, "virtual:small", 4);
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)run(*other, questions_, Reopened::answers_the_same); }),
                       "answers otherwise than it did then"));
}

TEST_F(KeptRun, OfADeviceThatAnswersAnewAsksWhatLedToAKeptState) {
  Counting before;
  const auto first = run(before, std::span(questions_).first(4), Reopened::answers_anew);
  Counting after;
  const auto all = run(after, questions_, Reopened::answers_anew);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  EXPECT_EQ(after.asked, (std::vector{questions_[2], questions_[3], questions_[4]}));
  EXPECT_EQ(all[4], (std::vector<float>{4, 5}));  // 0 to 3 were asked again

  std::filesystem::remove(some());
  (void)run(before, std::span(questions_).first(2), Reopened::answers_anew);
  Counting fresh;
  (void)run(fresh, std::span(questions_).first(3), Reopened::answers_anew);
  EXPECT_EQ(fresh.asked, std::vector{questions_[2]});

  Counting behind;
  behind.put_behind_another_level();
  (void)run(behind, questions_, Reopened::answers_anew);
  EXPECT_EQ(behind.asked, questions_);
}

TEST_F(KeptRun, ThatAsksOtherwiseAsksTheRestAnew) {
  Counting device;
  (void)run(device, questions_, Reopened::answers_anew);
  const std::vector<Question> others{questions_[0], questions_[2], questions_[0]};
  Counting other;
  const auto first = run(other, others, Reopened::answers_anew);
  EXPECT_EQ(other.asked, (std::vector{questions_[2], questions_[0]}));
  EXPECT_EQ(first[0], (std::vector<float>{0, 1}));

  // What was asked anew is kept as well, and takes the place of what it differs from.
  Counting third;
  EXPECT_EQ(run(third, others, Reopened::answers_anew), first);
  EXPECT_TRUE(third.asked.empty());
  const std::vector<Question> once_more{questions_[0], questions_[2], questions_[2]};
  const auto last = run(third, once_more, Reopened::answers_anew);
  EXPECT_EQ(third.asked, (std::vector{questions_[2]}));
  Counting fourth;
  EXPECT_EQ(run(fourth, once_more, Reopened::answers_anew), last);
  EXPECT_TRUE(fourth.asked.empty());
}

TEST_F(KeptRun, AsksAgainWhatIsLostAndNoMore) {
  Counting device;
  const auto first = run(device, questions_, Reopened::answers_anew);
  {
    const sqlite::Database database(some(), sqlite::Database::Open::existing);
    database.execute("UPDATE kept SET latencies = x'00' WHERE kind = 1 AND place = 2");
  }
  Counting again;
  const auto mended = run(again, questions_, Reopened::answers_anew);
  EXPECT_EQ(again.asked, std::vector{questions_[2]});
  EXPECT_EQ(mended[2], (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(mended[4], first[4]);
  Counting third;
  EXPECT_EQ(run(third, questions_, Reopened::answers_anew), mended);
  EXPECT_TRUE(third.asked.empty());
}

TEST_F(KeptRun, PassesOnWhatDisturbedTheDevice) {
  class Disturbed final : public model::Answerer {
   public:
    [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
    [[nodiscard]] std::vector<Answer> ask(std::span<const Question> /*questions*/) override { return {}; }
    [[nodiscard]] std::vector<model::Disturbance> disturbances() const override {
      return {{.sentence = "it rained; wait"}};
    }

   private:
    model::DeviceFacts facts_;
  };
  Disturbed device;
  AnswerLog log(some(), some_run);
  EXPECT_EQ(KeptDevice(device, log, Reopened::answers_anew).disturbances(), device.disturbances());
}

// Disturbed until it is calm. Its answers count up.
class Crowded final : public model::Answerer {
 public:
  [[nodiscard]] const model::DeviceFacts& facts() const override { return counting_.facts(); }
  [[nodiscard]] std::vector<Answer> ask(std::span<const Question> questions) override {
    return counting_.ask(questions);
  }
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override {
    using enum model::Disturbance::Kind;
    return {{.kind = is_calm ? asked_again : other_processes, .sentence = "it was crowded; wait"}};
  }
  [[nodiscard]] model::PieceState discard_piece() override {
    return is_calm ? model::PieceState::discarded : model::PieceState::disturbed;
  }

  bool is_calm = false;

 private:
  Counting counting_;
};

TEST_F(KeptRun, ForgetsAPieceThatIsDiscarded) {
  const Question before = question_in(StartState::clean, {0});
  const Question touched = question_in(StartState::clean, {32, 64});
  Crowded device;
  std::vector<float> anew;
  {
    AnswerLog log(some(), some_run);
    KeptDevice kept(device, log, Reopened::answers_anew);
    device.is_calm = true;
    static_cast<void>(kept.ask({&before, 1}));
    kept.begin_piece();
    device.is_calm = false;
    static_cast<void>(kept.ask({&touched, 1}));
    EXPECT_EQ(kept.discard_piece(), model::PieceState::disturbed);
    device.is_calm = true;
    EXPECT_EQ(kept.discard_piece(), model::PieceState::discarded);
    anew = kept.ask({&touched, 1}).front().latency_cycles;
    EXPECT_EQ(anew, (std::vector<float>{3, 4}));
    EXPECT_EQ(kept.disturbances(), device.disturbances());

    const std::filesystem::path file = path("calm.h5");
    const auto archive = create_archive(file, device.facts());
    EXPECT_TRUE(kept.write_to(*archive));
    archive->close();
    const auto recorded = open_recording(file, "recorded");
    EXPECT_EQ(recorded->ask({&touched, 1}).front().latency_cycles, anew);
  }
  Crowded later;
  later.is_calm = true;
  AnswerLog log(some());
  KeptDevice kept(later, log, Reopened::answers_anew);
  static_cast<void>(kept.ask({&before, 1}));
  EXPECT_EQ(kept.ask({&touched, 1}).front().latency_cycles, anew);
  EXPECT_FALSE(std::ranges::any_of(kept.disturbances(), model::may_touch_answers, &model::Disturbance::kind));
}

TEST_F(KeptRun, GoesOnFromAnArchive) {
  Counting device;
  {
    AnswerLog log(path("first.journal"), some_run);
    KeptDevice kept(device, log, Reopened::answers_anew);
    for (const Question& question : std::span(questions_).first(3)) {
      (void)kept.ask({&question, 1});
    }
    const auto archive = create_archive(path("some.h5"), device.facts());
    kept.write_to(*archive);
    archive->close();
    const AnswerLog of_archive(some(), some_run, [&](AnswerLog& filled) { append_archive(path("some.h5"), filled); });
  }
  EXPECT_EQ(run_facts_of(read_archive_facts(path("some.h5"))), run_facts_of(device.facts()));
  Counting after;
  const auto all = run(after, questions_, Reopened::answers_anew);
  EXPECT_EQ(all[2], (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(after.asked, (std::vector{questions_[2], questions_[3], questions_[4]}));
}

}  // namespace
}  // namespace gpuinfer::probe
