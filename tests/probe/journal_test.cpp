// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/journal.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <random>

#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/journalled_device.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Answer;
using model::Question;
using model::StartState;

const RunFacts some_run{{"device", "Größe \"7\""}, {"source", "cuda:0"}, {"targets", "L1tex L2"}};

struct Batch {
  std::vector<Question> questions;
  std::vector<Answer> answers;
};

Answer answered(std::vector<float> latency_cycles) {
  return {.latency_cycles = std::move(latency_cycles), .refusal = std::nullopt};
}

// Everything that has a form of its own: far offsets, steps back, latencies of any size, repetition, refusals.
std::vector<Batch> some_batches() {
  constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();
  const Question first{.target = "L1tex", .state = StartState::clean, .warm = {0, 128, far, 4}, .record = {0, 256, 12}};
  Question again = first;
  again.state = StartState::invalidated;
  Question other = first;
  other.record = {far / 2, far / 2 + 1, 0};
  other.circumstances = {.warm_target = "ReadOnly", .shared_memory_kb = 228, .unit = 131};
  const Question empty{.target = "L2", .state = StartState::keep, .warm = {}, .record = {}};
  return {{{first, again, first}, {answered({33, 65535, 0}), answered({33, 65536, 1}), answered({0.5F, 1e30F, 7})}},
          {{empty}, {answered({})}},
          {{other, other, empty},
           {Answer{.latency_cycles = {}, .refusal = "not\n\xff so"}, answered({-0.0F, 1, 2}), answered({})}}};
}

// Many small batches, drawn by chance.
std::vector<Batch> random_batches(std::mt19937& random, std::size_t count) {
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  std::vector<Batch> batches(count);
  for (Batch& batch : batches) {
    for (std::uint32_t i = below(4) + 1; i > 0; --i) {
      Question question{.target = below(2) == 0 ? "L1tex" : "L2",
                        .state = static_cast<StartState>(below(4)),
                        .warm = {},
                        .record = {}};
      Answer answer;
      for (std::uint32_t n = below(20); n > 0; --n) {
        question.warm.push_back(below(1U << 30U));
      }
      for (std::uint32_t n = below(20); n > 0; --n) {
        question.record.push_back(below(1U << 20U));
        answer.latency_cycles.push_back(static_cast<float>(below(2000)) / (below(8) == 0 ? 8.0F : 1.0F));
      }
      if (below(10) == 0) {
        answer = {.latency_cycles = {}, .refusal = "no"};
      }
      batch.questions.push_back(question);
      batch.answers.push_back(answer);
    }
  }
  return batches;
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool bits_equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// How many questions come out, each of which has to be the next one of `batches`.
std::size_t questions_like(JournalReader& reader, const std::vector<Batch>& batches) {
  std::size_t count = 0;
  for (const Batch& batch : batches) {
    for (std::size_t i = 0; i < batch.questions.size(); ++i) {
      const auto next = reader.next_question(batch.questions[i].target);
      if (!next) {
        return count;
      }
      EXPECT_EQ(next->question, batch.questions[i]);
      EXPECT_TRUE(bits_equal(next->answer.latency_cycles, batch.answers[i].latency_cycles));
      EXPECT_EQ(next->answer.refusal, batch.answers[i].refusal);
      ++count;
    }
  }
  EXPECT_FALSE(reader.next_question("L1tex"));
  EXPECT_FALSE(reader.next_question("L2"));
  return count;
}

class JournalFile : public ScratchTest {
 protected:
  [[nodiscard]] std::filesystem::path some() const { return path("some.journal"); }

  // The end of the first frame, and of each batch's.
  std::vector<std::size_t> write(const std::vector<Batch>& batches) const {
    JournalWriter writer(some(), some_run);
    std::vector<std::size_t> ends{std::filesystem::file_size(some())};
    for (const Batch& batch : batches) {
      writer.append(batch.questions, batch.answers);
      ends.push_back(std::filesystem::file_size(some()));
    }
    return ends;
  }

  // Of a file that somebody has damaged: the questions before the damage, or a sentence.
  std::size_t recovered(std::string_view damaged, const std::vector<Batch>& batches) const {
    try {
      JournalReader reader(file("damaged.journal", damaged));
      EXPECT_EQ(reader.run(), some_run);
      EXPECT_EQ(reader.whole_bytes() + reader.dropped_bytes(), damaged.size());
      return questions_like(reader, batches);
    } catch (const InputError& error) {
      EXPECT_TRUE(contains(error.what(), "begin the run anew")) << error.what();
      return 0;
    }
  }

  static std::size_t questions_before(std::size_t byte, const std::vector<std::size_t>& ends,
                                      const std::vector<Batch>& batches) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < batches.size() && ends[i + 1] <= byte; ++i) {
      count += batches[i].questions.size();
    }
    return count;
  }
};

TEST_F(JournalFile, HoldsWhatWasAnswered) {
  const std::vector<Batch> batches = some_batches();
  write(batches);
  JournalReader reader(some());
  EXPECT_EQ(reader.run(), some_run);
  EXPECT_EQ(reader.dropped_bytes(), 0U);
  EXPECT_EQ(questions_like(reader, batches), 7U);
  EXPECT_FALSE(reader.next_workload("Shared"));
}

TEST_F(JournalFile, HasTheFormThatItsHeaderTells) {
  write({{{{.target = "L2", .state = StartState::flooded, .warm = {8, 4}, .record = {300}}}, {answered({258})}}});
  const std::string bytes = content_of(some());
  const std::string magic = "gpuinfer-journal/1\n";
  ASSERT_TRUE(bytes.starts_with(magic));
  // CRC-32 (IEEE 802.3), bit by bit.
  const auto checksum = [](std::string_view of) {
    std::uint32_t crc = 0xffffffffU;
    for (const char c : of) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
      }
    }
    crc = ~crc;
    return std::string{static_cast<char>(crc), static_cast<char>(crc >> 8U), static_cast<char>(crc >> 16U),
                       static_cast<char>(crc >> 24U)};
  };
  const std::size_t head_bytes = static_cast<unsigned char>(bytes[magic.size()]);
  const std::string head = bytes.substr(magic.size(), 4 + head_bytes);
  EXPECT_EQ(head[4], 'H');
  const std::string head_checksum = checksum(std::string(4, '\0') + head);
  const std::string question{'Q', 1, 2, 2, 'L', '2', 2, '{', '}', 2, 16, 7, 1, '\xd8', 4, 1, 2, 1};
  std::string frame = std::string{static_cast<char>(question.size()), 0, 0, 0} + question;
  // Bit 6, as the latency is a whole number of 2 bytes.
  frame[6] = static_cast<char>(2 | 1 << 6);
  EXPECT_EQ(bytes, magic + head + head_checksum + frame + checksum(head_checksum + frame));
}

TEST_F(JournalFile, HoldsTimingsPlacesAndDisturbances) {
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
  timings[2].why_not_counted = "\xff";
  const std::vector<model::Disturbance> disturbances{
      {.kind = model::Disturbance::Kind::other, .sentence = "it rained"},
      {.kind = model::Disturbance::Kind::memory_errors, .sentence = "it blew"}};
  {
    JournalWriter writer(some(), some_run);
    writer.append("Texture2D", std::vector<std::uint64_t>{0, 4}, std::vector<std::uint64_t>{4, 1ULL << 63U});
    writer.append(workloads, timings);
    writer.append_disturbances({{.sentence = "it rained"}});
    writer.append_disturbances(disturbances);
  }
  JournalReader reader(some());
  for (const std::size_t i : {1U, 0U, 2U}) {
    const auto next = reader.next_workload(std::string(target_of(workloads[i])));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->workload, workloads[i]);
    EXPECT_EQ(next->timing, timings[i]);
  }
  EXPECT_FALSE(reader.next_workload("Shared"));
  EXPECT_FALSE(reader.next_workload("Kernels"));
  EXPECT_EQ(reader.places().at("Texture2D").at(4), 1ULL << 63U);
  EXPECT_EQ(reader.disturbances(), disturbances);
}

TEST_F(JournalFile, RefusesTimingsThatAreNoneOfTheirWorkload) {
  const std::vector<model::Workload> workloads{model::strided(8, 4, 2)};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& cycles : std::vector<std::vector<double>>{{1}, {1, -1}, {1, nan}, {1, 1e300}}) {
    JournalWriter(some(), some_run).append(workloads, std::vector<model::Timing>{{.cycles = cycles, .seconds = {}}});
    JournalReader reader(some());
    EXPECT_THROW(static_cast<void>(reader.next_workload("Shared")), InputError);
    std::filesystem::remove(some());
  }
}

TEST_F(JournalFile, CutOffAnywhereHoldsWhatWasBefore) {
  const std::vector<Batch> batches = some_batches();
  const std::vector<std::size_t> ends = write(batches);
  const std::string whole = content_of(some());
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    EXPECT_EQ(recovered(std::string_view(whole).substr(0, bytes), batches), questions_before(bytes, ends, batches))
        << bytes;
  }
}

TEST_F(JournalFile, DamagedAnywhereHoldsWhatWasBefore) {
  const std::random_device::result_type seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<Batch> batches = random_batches(random, 2000);
  const std::vector<std::size_t> ends = write(batches);
  const std::string whole = content_of(some());
  for (int i = 0; i < 60; ++i) {
    const std::size_t byte = random() % whole.size();
    EXPECT_EQ(recovered(std::string_view(whole).substr(0, byte), batches), questions_before(byte, ends, batches));
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (random() % 8)));
    EXPECT_EQ(recovered(flipped, batches), questions_before(byte, ends, batches)) << byte;
  }
  // A frame that is missing, or stands there twice.
  std::string without = whole;
  EXPECT_EQ(recovered(without.erase(ends[4], ends[5] - ends[4]), batches), questions_before(ends[4], ends, batches));
  std::string twice = whole;
  EXPECT_EQ(recovered(twice.insert(ends[5], whole.substr(ends[4], ends[5] - ends[4])), batches),
            questions_before(ends[5], ends, batches));
}

TEST_F(JournalFile, IsGoneOnWithAfterItsLastWholeFrame) {
  std::vector<Batch> batches = some_batches();
  const std::vector<std::size_t> ends = write(batches);
  std::filesystem::resize_file(some(), ends.back() - 3);
  {
    JournalReader reader(some());
    EXPECT_EQ(reader.dropped_bytes(), ends[3] - 3 - ends[2]);
    JournalWriter writer(reader);
    writer.append(batches[0].questions, batches[0].answers);
    EXPECT_TRUE(contains(message_of<InputError>([&] { JournalWriter other(reader); }), "another gpuinfer"));
  }
  batches[2] = batches[0];
  JournalReader reader(some());
  EXPECT_EQ(reader.dropped_bytes(), 0U);
  EXPECT_EQ(questions_like(reader, batches), 7U);
  EXPECT_TRUE(contains(message_of<InputError>([&] { JournalWriter other(some(), some_run); }), "--resume"));
}

TEST_F(JournalFile, AFullDiskLeavesWhatWasThere) {
  const std::vector<Batch> batches = some_batches();
  JournalWriter writer(some(), some_run);
  writer.append(batches[0].questions, batches[0].answers);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tiny{.rlim_cur = std::filesystem::file_size(some()) + 10, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tiny);
  const auto append = [&] { writer.append(batches[2].questions, batches[2].answers); };
  const std::string message = message_of<Error>(append);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(contains(message, "some.journal: cannot be written (File too large); make room")) << message;
  EXPECT_TRUE(contains(message_of<Error>(append), "some.journal: "));
  JournalReader reader(some());
  EXPECT_EQ(reader.dropped_bytes(), 0U);
  EXPECT_EQ(questions_like(reader, {batches[0]}), 3U);
}

TEST_F(JournalFile, RunsThatDifferAreToldApart) {
  const auto device = open_virtual(small_device(), "virtual:small", 7);
  const RunFacts run = run_facts_of(device->facts());
  check_same_run("run.h5", run, run);
  model::DeviceFacts other = device->facts();
  other.provenance["sm_clock_mhz"] = "1980";
  check_same_run("run.h5", run, run_facts_of(other));
  other.buffer.address = std::uint64_t{1} << 40U;
  check_same_run("run.h5", run, run_facts_of(other));
  const std::vector<std::string>& targets = other.targets;
  EXPECT_TRUE(targets_elsewhere(targets, run, run_facts_of(other)).empty());
  other.buffer.address += 4;
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

class JournalledRun : public JournalFile {
 protected:
  // The answers that a run gets which asks these questions one by one.
  std::vector<std::vector<float>> run(model::Answerer& device, std::span<const Question> questions, Reopened reopened) {
    std::optional<JournalReader> past;
    if (std::filesystem::exists(some())) {
      past.emplace(some());
    }
    std::optional<JournalWriter> writer;
    if (past) {
      writer.emplace(*past);
    } else {
      writer.emplace(some(), some_run);
    }
    const auto kept = journalled(device, *writer, std::move(past), reopened);
    std::vector<std::vector<float>> latencies;
    for (const Question& question : questions) {
      latencies.push_back(kept->ask({&question, 1}).front().latency_cycles);
    }
    return latencies;
  }

  const std::vector<Question> questions_{question_in(StartState::clean, {0, 32}), question_in(StartState::keep, {64}),
                                         question_in(StartState::invalidated, {96, 0, 32}),
                                         question_in(StartState::keep, {128}), question_in(StartState::keep, {160, 0})};
};

TEST_F(JournalledRun, OfADeviceThatAnswersTheSameGoesOnAsIfNothingHadBeen) {
  model::DeviceDescription noisy = small_device();
  noisy.noise = model::NoiseDescription{.jitter_cycles = 20};
  const auto opened = [&] { return open_virtual(noisy, "virtual:small", 3); };
  const auto uninterrupted = run(*opened(), questions_, Reopened::answers_the_same);
  for (std::size_t asked = 0; asked <= questions_.size(); ++asked) {
    std::filesystem::remove(some());
    (void)run(*opened(), std::span(questions_).first(asked), Reopened::answers_the_same);
    EXPECT_EQ(run(*opened(), questions_, Reopened::answers_the_same), uninterrupted) << asked;
    JournalReader reader(some());
    for (const std::vector<float>& latency_cycles : uninterrupted) {
      EXPECT_EQ(reader.next_question("L1tex")->answer.latency_cycles, latency_cycles);
    }
    EXPECT_FALSE(reader.next_question("L1tex"));
  }
  const auto other = open_virtual(noisy, "virtual:small", 4);
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)run(*other, questions_, Reopened::answers_the_same); }),
                       "answers otherwise than it did then"));
}

TEST_F(JournalledRun, OfADeviceThatAnswersAnewAsksWhatLedToAKeptState) {
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

TEST_F(JournalledRun, ThatAsksOtherwiseAsksTheRestAnew) {
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

TEST_F(JournalledRun, GoesOnFromAnArchive) {
  Counting device;
  {
    const auto archive = create_archive(path("some.h5"), device.facts());
    const auto recorder = recording(device, *archive);
    for (const Question& question : std::span(questions_).first(3)) {
      (void)recorder->ask({&question, 1});
    }
    archive->close();
    JournalWriter writer(some(), some_run);
    append_archive(path("some.h5"), writer);
  }
  EXPECT_EQ(run_facts_of(read_archive_facts(path("some.h5"))), run_facts_of(device.facts()));
  Counting after;
  const auto all = run(after, questions_, Reopened::answers_anew);
  EXPECT_EQ(all[2], (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(after.asked, (std::vector{questions_[2], questions_[3], questions_[4]}));
}

}  // namespace
}  // namespace gpuinfer::probe
