// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iostream>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "model/errors.hpp"
#include "model/random.hpp"

namespace gpuinfer::probe {
namespace {

using model::AccessSequence;
using model::Answer;
using model::Question;
using model::StartState;

constexpr std::uint64_t line_bytes = 128;

AccessSequence lines(std::uint64_t count) { return model::cold_pass(0, count * line_bytes, line_bytes); }

AccessSequence random_lines(std::uint64_t count, std::size_t accesses, std::uint64_t seed) {
  model::Random random(seed);
  return model::random_walk(lines(count), accesses, random);
}

TEST(CudaProbe, SaysThatThereIsNoSuchDevice) {
  EXPECT_THROW(static_cast<void>(open_cuda({.device = static_cast<int>(cuda_device_names().size())})),
               DeviceUnavailable);
  EXPECT_THROW(static_cast<void>(open_cuda({.device = -1})), DeviceUnavailable);
}

Question from_clean(AccessSequence record, AccessSequence warm = {}) {
  return {.target = "L1tex", .state = StartState::clean, .warm = std::move(warm), .record = std::move(record)};
}

Question from(StartState state, AccessSequence record) {
  return {.target = "L1tex", .state = state, .warm = {}, .record = std::move(record)};
}

class CudaProbeOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_names().empty()) {
      GTEST_SKIP() << "there is no CUDA device";
    }
    open({});
  }

  void open(const CudaOptions& options) {
    probe_ = open_cuda(options);
    const Answer answer = ask(from_clean(model::repeated(lines(1), 16), lines(1)));
    ASSERT_FALSE(answer.refusal) << *answer.refusal;
    slowest_hit_ = 1.5F * *std::ranges::min_element(answer.latency_cycles);
  }

  std::vector<Answer> ask_all(const std::vector<Question>& questions) { return probe_->ask(questions); }
  Answer ask(const Question& question) { return ask_all({question}).front(); }

  // One letter for each access: h(it) or m(iss).
  std::string pattern(const Answer& answer) const {
    std::string letters;
    for (const float latency : answer.latency_cycles) {
      letters += latency <= slowest_hit_ ? 'h' : 'm';
    }
    return answer.refusal.value_or(letters);
  }
  std::ptrdiff_t misses(const Answer& answer) const { return std::ranges::count(pattern(answer), 'm'); }

  std::unique_ptr<model::Answerer> probe_;
  float slowest_hit_ = 0;
};

TEST_F(CudaProbeOnGpu, SaysWhatOfTheGpuIsWatched) {
  const auto& provenance = probe_->facts().provenance;
  ASSERT_TRUE(provenance.contains("watched"));
  EXPECT_EQ(provenance.contains("sm_clock_mhz"), provenance.at("watched").find("sm_clock") != std::string::npos);
  for (const model::Disturbance& disturbance : probe_->disturbances()) {
    EXPECT_NE(disturbance.sentence.find("; "), std::string::npos) << disturbance.sentence;
  }
}

TEST_F(CudaProbeOnGpu, L1HitsTakeTheSameFewCycles) {
  const Answer answer = ask(from_clean(lines(64), lines(64)));
  const auto [fastest, slowest] = std::ranges::minmax(answer.latency_cycles);
  EXPECT_LE(slowest - fastest, 4);
  if (probe_->facts().compute_capability == "9.0") {
    EXPECT_NEAR(fastest, 33, 3);
  }
}

TEST_F(CudaProbeOnGpu, EveryFirstTouchMissesOnEverySmHoweverOftenItIsAsked) {
  const Question question = from_clean(model::repeated(lines(64), 2));
  for (int round = 0; round < 3; ++round) {
    for (const Answer& answer : ask_all(std::vector(*probe_->facts().sm_count, question))) {
      EXPECT_EQ(pattern(answer), std::string(64, 'm') + std::string(64, 'h'));
    }
  }
}

TEST_F(CudaProbeOnGpu, TheSameQuestionFromCleanGetsTheSameAnswerOnEverySm) {
  const Question question = from_clean(random_lines(2600, 6000, 1));
  const std::string first = pattern(ask(question));
  EXPECT_NE(first.find('h'), std::string::npos);
  for (int round = 0; round < 3; ++round) {
    for (const Answer& answer : ask_all(std::vector(*probe_->facts().sm_count, question))) {
      EXPECT_EQ(pattern(answer), first);
    }
  }
}

TEST_F(CudaProbeOnGpu, FillsSectorsOf32Bytes) {
  const Answer answer = ask(from_clean(model::cold_pass(0, 1024, 4)));
  std::string expected;
  for (int sector = 0; sector < 32; ++sector) {
    expected += "mhhhhhhh";
  }
  EXPECT_EQ(pattern(answer), expected);
}

TEST_F(CudaProbeOnGpu, StreamingALongSequenceDisturbsNothing) {
  EXPECT_EQ(misses(ask(from_clean(model::repeated(lines(100), 2000)))), 100);

  const AccessSequence walk = random_lines(2600, 20000, 2);
  const std::string whole = pattern(ask(from_clean(walk)));
  for (const std::ptrdiff_t split : {1, 777, 1024, 12345}) {
    const Answer tail = ask(from_clean({walk.begin() + split, walk.end()}, {walk.begin(), walk.begin() + split}));
    EXPECT_EQ(pattern(tail), whole.substr(static_cast<std::size_t>(split))) << split;
  }
}

TEST_F(CudaProbeOnGpu, ALargerCarveOutLeavesASmallerL1) {
  const Question question = from_clean(lines(800), lines(800));
  EXPECT_EQ(misses(ask(question)), 0);
  open({.carveout_kb = probe_->facts().shared_memories_kb.back()});
  EXPECT_GT(misses(ask(question)), 0);
}

TEST_F(CudaProbeOnGpu, GoesAlongEveryLoadPath) {
  for (const std::string& target : probe_->facts().targets) {
    const bool floods = target == "L2" || target == "ConstL1" || target == "L1TLB";
    if (model::takes_workloads(target) || target == "Instruction" || target == "ConstImmediate") {
      continue;  // the latter runs in laps
    }
    const bool drops = target == "L2TLB" || target == "ConstL15" || target == "Latency";
    const StartState state = floods ? StartState::flooded : drops ? StartState::invalidated : StartState::clean;
    const Answer answer = ask({.target = target, .state = state, .warm = lines(16), .record = lines(16)});
    ASSERT_FALSE(answer.refusal) << *answer.refusal;
    EXPECT_EQ(answer.latency_cycles.size(), 16U) << target;
    if (target == "ReadOnly" || target == "ConstL1" || target == "L2") {
      EXPECT_EQ(misses(answer), target == "L2" ? 16 : 0) << target;
    }
  }
}

TEST_F(CudaProbeOnGpu, AFloodDrivesOutWhatWasLoaded) {
  for (const std::string target : {"ConstL1", "L2", "L1TLB"}) {
    const std::uint64_t stride = target == "L1TLB" ? 32ULL << 20U : line_bytes;
    const AccessSequence touches = model::cold_pass(0, 8 * stride, stride);
    const Question question{
        .target = target, .state = StartState::flooded, .warm = {}, .record = model::repeated(touches, 4)};
    for (const Answer& answer : ask_all({question, question})) {
      ASSERT_FALSE(answer.refusal) << *answer.refusal;
      const auto first = std::span(answer.latency_cycles).first(8);
      const auto last = std::span(answer.latency_cycles).last(8);
      EXPECT_GT(std::accumulate(first.begin(), first.end(), 0.0F), std::accumulate(last.begin(), last.end(), 0.0F));
    }
  }
}

// Beyond what a first TLB holds, and for every SM.
TEST_F(CudaProbeOnGpu, ANewMappingDropsTranslations) {
  constexpr std::uint64_t page_bytes = 32ULL << 20U;
  const AccessSequence pages = model::cold_pass(0, 64 * page_bytes, page_bytes);
  for (const std::uint32_t sm : {0U, 1U}) {
    Question question{
        .target = "L2TLB", .state = StartState::invalidated, .warm = {}, .record = model::repeated(pages, 3)};
    question.circumstances.unit = model::ComputeUnit{sm};
    for (const Answer& answer : ask_all({question, question})) {
      ASSERT_FALSE(answer.refusal) << *answer.refusal;
      const auto first = std::span(answer.latency_cycles).first(pages.size());
      const auto last = std::span(answer.latency_cycles).last(pages.size());
      EXPECT_GT(std::accumulate(first.begin(), first.end(), 0.0F),
                std::accumulate(last.begin(), last.end(), 0.0F) + 60.0F * static_cast<float>(pages.size()));
    }
  }
}

TEST_F(CudaProbeOnGpu, KernelsWithBanksOfTheirOwnShareACacheThatALaunchEmpties) {
  constexpr std::uint64_t bank_bytes = 64ULL << 10U;
  AccessSequence lines;
  for (std::uint64_t line = 0; line < 32; ++line) {
    for (std::uint64_t bank = 0; bank < 8; ++bank) {
      lines.push_back(bank * bank_bytes + line * 256);
    }
  }
  for (const std::uint32_t sm : {0U, 1U}) {
    // Three times, since the code of the kernels goes through the same cache when it runs first.
    Question question{
        .target = "ConstL15", .state = StartState::invalidated, .warm = {}, .record = model::repeated(lines, 3)};
    question.circumstances.unit = model::ComputeUnit{sm};
    for (const Answer& answer : ask_all({question, question})) {
      ASSERT_FALSE(answer.refusal) << *answer.refusal;
      const std::vector<float>& latencies = answer.latency_cycles;
      const float fastest_miss = *std::min_element(latencies.begin(), latencies.begin() + std::ssize(lines));
      const auto again = std::span(latencies).last(lines.size());
      EXPECT_LE(std::ranges::count_if(again, [&](float cycles) { return cycles >= fastest_miss; }), 4);
    }
  }
}

TEST_F(CudaProbeOnGpu, LongCodeRunsMoreSlowlyThanShortCode) {
  const auto laps_of = [](std::uint64_t pieces) {
    const AccessSequence lap = model::cold_pass(0, pieces * 1024, 1024);
    return Question{.target = "Instruction",
                    .state = StartState::keep,
                    .warm = model::repeated(lap, 2),
                    .record = model::repeated(lap, 4)};
  };
  const auto median_of = [](std::vector<float> cycles) {
    std::ranges::nth_element(cycles, cycles.begin() + std::ssize(cycles) / 2);
    return cycles[cycles.size() / 2];
  };
  const Answer fits = ask(laps_of(8));
  const Answer does_not_fit = ask(laps_of(192));
  ASSERT_FALSE(fits.refusal || does_not_fit.refusal);
  EXPECT_EQ(does_not_fit.latency_cycles.size(), 4U * 192);
  EXPECT_GT(median_of(does_not_fit.latency_cycles), 1.5F * median_of(fits.latency_cycles));
  const Answer jumps = ask({.target = "Instruction", .state = StartState::keep, .warm = {}, .record = {0, 2048, 1024}});
  EXPECT_TRUE(jumps.refusal && jumps.refusal->find("laps") != std::string::npos);
}

TEST_F(CudaProbeOnGpu, KeepsTheLinesOfTheLastAnswerOrDropsThem) {
  const Question keep = from(StartState::keep, lines(64));
  const Question drop = from(StartState::invalidated, lines(64));
  const auto answers = ask_all({from_clean(lines(64)), keep, drop, keep});
  if (!answers[1].refusal) {
    EXPECT_EQ(pattern(answers[1]), std::string(64, 'h'));
    EXPECT_EQ(pattern(answers[3]), std::string(64, 'h'));
  }
  if (!answers[2].refusal) {
    EXPECT_EQ(pattern(answers[2]), std::string(64, 'm'));
  }
}

// Whatever a store does to a cache, memory stays as it is, loads before it are timed as ever, and the same question
// gets the same answer.
TEST_F(CudaProbeOnGpu, StoresWhatIsThere) {
  ASSERT_EQ(probe_->facts().stored_targets, (std::vector<std::string>{"L1tex", "L2"}));
  for (const std::string target : {"L1tex", "L2"}) {
    Question question{.target = target, .state = StartState::clean, .warm = {}, .record = {}};
    if (target == "L2") {
      question.state = StartState::flooded;
    }
    // Two loads of each line, a store to it, and two loads again.
    for (const std::uint64_t line : lines(64)) {
      for (const bool stores : {false, false, true, false, false}) {
        if (stores) {
          question.circumstances.stores.push_back(static_cast<std::uint32_t>(question.record.size()));
        }
        question.record.push_back(line);
      }
    }
    const auto answers = ask_all(std::vector(3, question));
    for (const Answer& answer : answers) {
      ASSERT_FALSE(answer.refusal) << *answer.refusal;
      ASSERT_EQ(answer.latency_cycles.size(), 5U * 64);
      std::string after_stores;
      for (std::size_t i = 0; i < answer.latency_cycles.size(); i += 5) {
        const float miss = answer.latency_cycles[i];
        const float hit = answer.latency_cycles[i + 1];
        EXPECT_LT(hit, miss) << target << ", line " << i / 5;
        EXPECT_EQ(answer.latency_cycles[i + 2], 0) << "nobody waits for a store";
        EXPECT_GT(answer.latency_cycles[i + 3], 0);
        after_stores += answer.latency_cycles[i + 3] < 1.5F * hit ? 'h' : 'm';
      }
      std::cout << target << ", loads of what was stored to: " << after_stores << '\n';
    }
  }
  // The chase traps where the buffer holds anything but zeros.
  EXPECT_FALSE(ask(from_clean(lines(64), lines(64))).refusal);
  Question texture{.target = "Texture", .state = StartState::clean, .warm = {}, .record = {0}};
  texture.circumstances.stores = {0};
  EXPECT_NE(ask(texture).refusal.value_or("").find("does not store"), std::string::npos);
}

TEST_F(CudaProbeOnGpu, RefusesWhatItCannotAnswerAndAnswersTheRestInOrder) {
  const std::uint64_t end = probe_->facts().buffer.bytes;
  const auto answers = ask_all({from_clean(lines(3)),
                                from_clean({end}),
                                from_clean({}, {2}),
                                {.target = "L3", .state = StartState::clean, .warm = {}, .record = {0}},
                                {.target = "L2", .state = StartState::clean, .warm = {}, .record = {0}},
                                {.target = "ReadOnly", .state = StartState::clean, .warm = {}, .record = {end - 4, 0}},
                                from_clean({}, lines(5))});
  ASSERT_EQ(answers.size(), 7U);
  EXPECT_EQ(pattern(answers[0]), "mmm");
  for (const std::size_t refused : {1U, 2U, 3U, 4U}) {
    EXPECT_TRUE(answers[refused].refusal) << refused;
    EXPECT_TRUE(answers[refused].latency_cycles.empty()) << refused;
  }
  EXPECT_EQ(pattern(answers[5]), "mm");
  EXPECT_FALSE(answers[6].refusal);
  EXPECT_TRUE(answers[6].latency_cycles.empty());
}

TEST_F(CudaProbeOnGpu, SaysWhenThereIsNoRoomForTheBuffer) {
  std::vector<std::unique_ptr<model::Answerer>> taking_room;
  EXPECT_THROW(
      for (int i = 0; i < 64; ++i) { taking_room.push_back(open_cuda({.buffer_bytes = 16ULL << 30U})); },
      DeviceUnavailable);
}

TEST_F(CudaProbeOnGpu, ManyConstantsInInstructionsTakeLongerThanFew) {
  constexpr std::uint64_t piece_bytes = 64;
  const auto median_of = [&](std::uint64_t pieces) {
    const model::AccessSequence lap = model::cold_pass(0, pieces * piece_bytes, piece_bytes);
    std::vector<float> cycles = ask({.target = "ConstImmediate",
                                     .state = StartState::keep,
                                     .warm = model::repeated(lap, 2),
                                     .record = model::repeated(lap, 3)})
                                    .latency_cycles;
    EXPECT_EQ(cycles.size(), 3 * pieces);
    std::ranges::sort(cycles);
    return cycles.empty() ? 0 : cycles[cycles.size() / 2];
  };
  EXPECT_LT(1.2F * median_of(8), median_of(192));
}

// Each texel in a place of its own, those of a row of four side by side; and the texture is as it was.
TEST_F(CudaProbeOnGpu, ShowsWhereTexelsLie) {
  probe_ = open_cuda({.targets = {"Texture2D"}});
  const auto& raster = probe_->facts().buffer_of("Texture2D").raster;
  ASSERT_TRUE(raster);
  std::vector<std::uint64_t> texels(std::size_t{1} << 16U);
  for (std::size_t i = 0; i < texels.size(); ++i) {
    texels[i] = 4 * (i % 256 + raster->width * (i / 256));
  }
  const auto places = probe_->places_of("Texture2D", texels);
  if (!places) {
    GTEST_SKIP() << "the driver does not map arrays by addresses";
  }
  EXPECT_EQ(std::set(places->begin(), places->end()).size(), texels.size());
  for (std::size_t i = 0; i < texels.size(); i += 4) {
    EXPECT_EQ((*places)[i + 3] - (*places)[i], 12U) << i;
  }
  EXPECT_EQ(probe_->places_of("Texture2D", texels), places);
  EXPECT_EQ(probe_->places_of("L1tex", texels), std::nullopt);
}

class WorkloadsOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_names().empty()) {
      GTEST_SKIP() << "there is no CUDA device";
    }
    probe_ = open_cuda({.targets = {"Shared", "Outstanding", "Bandwidth", "Kernels", "Cluster", "Fetch"}});
  }

  model::Timing time(const model::Workload& workload) { return probe_->time({&workload, 1}).front(); }

  double fastest_cycles(const model::Workload& workload) {
    const model::Timing timing = time(workload);
    EXPECT_FALSE(timing.refusal) << timing.refusal.value_or("");
    return timing.refusal ? 0 : *std::ranges::min_element(timing.cycles);
  }

  double bytes_per_second(model::Stream stream) {
    stream.elements_in_flight = 4;
    stream.element_bits = 128;
    stream.block_threads = 1024;
    stream.blocks = *probe_->facts().sm_count;
    if (stream.path == model::StreamPath::global_cg) {
      // Lines that several SMs ask for at a time would come once for all of them.
      stream.part_bytes = std::bit_floor(stream.dataset_bytes / stream.blocks);
      stream.dataset_bytes = stream.part_bytes * stream.blocks;
    }
    stream.elements_per_thread = 4096;
    stream.runs = 3;
    const model::Timing timing = time(stream);
    EXPECT_FALSE(timing.refusal) << timing.refusal.value_or("");
    EXPECT_EQ(timing.seconds.size(), 3U);
    return timing.refusal ? 0
                          : static_cast<double>(model::bytes_moved(stream)) / *std::ranges::min_element(timing.seconds);
  }

  std::unique_ptr<model::Answerer> probe_;
};

TEST_F(WorkloadsOnGpu, MoreWaysOfAConflictTakeLonger) {
  double last = 0;
  for (const std::uint32_t stride_words : {1U, 2U, 4U, 8U, 16U, 32U}) {
    const double cycles = fastest_cycles(model::strided(4 * stride_words, 4, 5));
    EXPECT_GT(cycles, last) << stride_words;
    last = cycles;
  }
  EXPECT_NEAR(fastest_cycles(model::strided(0, 4, 5)), fastest_cycles(model::strided(4, 4, 5)), 1);
}

TEST_F(WorkloadsOnGpu, BatchesAnswerInOrder) {
  std::vector<model::Workload> workloads;
  for (std::size_t i = 0; i < 300; ++i) {
    workloads.emplace_back(model::strided(i % 2 == 0 ? 4 : 128, 4, 3));
  }
  workloads.emplace_back(model::ConcurrentLoads{});
  const std::vector<model::Timing> timings = probe_->time(workloads);
  ASSERT_EQ(timings.size(), workloads.size());
  for (std::size_t i = 0; i + 2 < workloads.size(); i += 2) {
    EXPECT_LT(2 * timings[i].cycles[1], timings[i + 1].cycles[1]) << i;
  }
}

TEST_F(WorkloadsOnGpu, MoreLoadsAndMoreDistanceTakeLonger) {
  const model::ConcurrentLoads few{.threads = 32, .runs = 15};
  model::ConcurrentLoads many = few;
  many.threads = 1024;
  many.loads_per_thread = 8;
  EXPECT_LT(2 * fastest_cycles(few), fastest_cycles(many));
  model::ConcurrentLoads merged = many;
  merged.threads_per_line = 32;
  EXPECT_LT(2 * fastest_cycles(merged), fastest_cycles(many));
  model::ConcurrentLoads flushed = few;
  flushed.from_l2 = false;
  EXPECT_LT(fastest_cycles(few) + 50, fastest_cycles(flushed));
}

TEST_F(WorkloadsOnGpu, NearerMemoriesGiveMore) {
  using model::StreamPath;
  const double l1 = bytes_per_second({.path = StreamPath::global_ca, .dataset_bytes = 16384});
  const double l2 = bytes_per_second({.path = StreamPath::global_cg, .dataset_bytes = 1U << 24U});
  const double dram = bytes_per_second({.path = StreamPath::global_cg, .dataset_bytes = 1ULL << 31U});
  EXPECT_GT(l1, 1.5 * l2);
  EXPECT_GT(l2, 1.2 * dram);
  EXPECT_GT(bytes_per_second({.path = StreamPath::texture, .dataset_bytes = 16384}), l2);
  EXPECT_GT(bytes_per_second({.path = StreamPath::constant}), dram);
}

// L2 and memory may take stores equally fast, as on an H200: what comes before them bounds both.
TEST_F(WorkloadsOnGpu, StoresToSharedMemoryAreFastest) {
  using model::StreamPath;
  using model::StreamWork;
  const double shared = bytes_per_second({.path = StreamPath::shared, .work = StreamWork::store});
  const double l2 =
      bytes_per_second({.path = StreamPath::global_cg, .work = StreamWork::store, .dataset_bytes = 1U << 24U});
  const double dram =
      bytes_per_second({.path = StreamPath::global_cg, .work = StreamWork::store, .dataset_bytes = 1ULL << 31U});
  EXPECT_GT(shared, 1.5 * std::max(l2, dram));
  EXPECT_GT(l2, 0.75 * dram);
}

TEST_F(WorkloadsOnGpu, WhatIsDroppedFromL2ComesFromMemory) {
  model::Stream stream{.path = model::StreamPath::global_cg, .dataset_bytes = 8U << 20U, .blocks = 8192, .runs = 5};
  const double in_l2 = fastest_cycles(stream);
  stream.drops_l2 = true;
  EXPECT_GT(fastest_cycles(stream), 1.2 * in_l2);
}

// Three loads and a store of each element, all but for a row; each matrix comes once from memory.
TEST_F(WorkloadsOnGpu, OtherSharedMemoryIsFartherThanItsOwn) {
  using model::ClusterExchange;
  using model::ExchangeWork;
  const std::vector<std::string>& targets = probe_->facts().targets;
  if (std::ranges::find(targets, "Cluster") == targets.end()) {
    GTEST_SKIP() << "the GPU has no clusters";
  }
  const double own = fastest_cycles(ClusterExchange{.runs = 5});
  for (const std::uint32_t blocks : {2U, 4U, 8U}) {
    const double other = fastest_cycles(ClusterExchange{.blocks = blocks, .to = blocks - 1, .runs = 5});
    EXPECT_GT(other, 2 * own) << blocks;
    EXPECT_LT(other, 20 * own) << blocks;
    EXPECT_GT(fastest_cycles(
                  ClusterExchange{.work = ExchangeWork::hand_over, .blocks = blocks, .from = 1, .to = 0, .runs = 5}),
              own);
  }
  const auto copied = [&](std::uint32_t bytes) {
    return fastest_cycles(ClusterExchange{.work = ExchangeWork::copy, .blocks = 2, .to = 1, .bytes = bytes, .runs = 5});
  };
  EXPECT_GT(copied(32768), 2 * copied(16));
  for (const ExchangeWork work : {ExchangeWork::stream_load, ExchangeWork::stream_store}) {
    const double one = fastest_cycles(ClusterExchange{.work = work, .blocks = 2, .to = 1, .runs = 5});
    const double bytes_per_cycle = static_cast<double>(ClusterExchange::stream_bytes) / one;
    EXPECT_GT(bytes_per_cycle, 4) << to_string(work);
    EXPECT_LT(bytes_per_cycle, 128) << to_string(work);  // as much as its own gives
  }
  const model::Workload too_large = ClusterExchange{.blocks = ClusterExchange::most_blocks, .to = 1};
  EXPECT_TRUE(probe_->time({&too_large, 1}).front().refusal);
}

TEST_F(WorkloadsOnGpu, LargeFetchesTakeLonger) {
  for (const model::FetchEngine engine : model::fetch_engines) {
    const model::Workload small = model::BlockFetch{.engine = engine, .runs = 5};
    if (probe_->time({&small, 1}).front().refusal) {
      continue;
    }
    const auto fetched = [&](std::uint32_t bytes, bool by_all) {
      return fastest_cycles(model::BlockFetch{.engine = engine, .bytes = bytes, .by_all = by_all, .runs = 5});
    };
    EXPECT_GT(fetched(32768, false), 1.2 * fetched(16, false)) << to_string(engine);
    EXPECT_GT(fetched(32768, true), fetched(32768, false)) << to_string(engine);
  }
}

TEST_F(WorkloadsOnGpu, CountsWhatKernelsMove) {
  const model::KernelRun run{.kernel = model::KernelName::fdtd_step1, .size = 2048, .is_counted = true};
  const model::Timing timing = time(run);
  ASSERT_FALSE(timing.refusal) << *timing.refusal;
  if (!timing.counted) {
    ASSERT_FALSE(timing.why_not_counted.empty());
    GTEST_SKIP() << timing.why_not_counted;
  }
  const auto matrix = static_cast<double>(model::matrix_bytes(run));
  EXPECT_NEAR(static_cast<double>(timing.counted->l1_sectors), 3 * matrix / 32, 0.01 * matrix);
  EXPECT_NEAR(static_cast<double>(timing.counted->l2_store_bytes), matrix, 0.02 * matrix);
  EXPECT_GT(static_cast<double>(timing.counted->l2_load_bytes), 1.9 * matrix);
  EXPECT_NEAR(static_cast<double>(timing.counted->dram_load_bytes), 2 * matrix, 0.2 * matrix);
}

// Past L1, 16 passes of 4 MB, which come from memory where nothing of them is left in L2.
TEST_F(WorkloadsOnGpu, CountsWhatStreamsMove) {
  model::Stream stream{.path = model::StreamPath::global_cg,
                       .dataset_bytes = 4U << 20U,
                       .part_bytes = 64U << 10U,
                       .blocks = 64,
                       .elements_per_thread = 1024,
                       .is_counted = true};
  const auto bytes = static_cast<double>(model::bytes_moved(stream));
  const model::Timing timing = time(stream);
  ASSERT_FALSE(timing.refusal) << *timing.refusal;
  if (!timing.counted) {
    ASSERT_FALSE(timing.why_not_counted.empty());
    GTEST_SKIP() << timing.why_not_counted;
  }
  EXPECT_NEAR(static_cast<double>(timing.counted->l2_load_bytes), bytes, 0.01 * bytes);
  EXPECT_LT(static_cast<double>(timing.counted->dram_load_bytes), 0.1 * static_cast<double>(stream.dataset_bytes));
  stream.drops_l2 = true;
  const model::Timing dropped = time(stream);
  ASSERT_TRUE(dropped.counted);
  EXPECT_NEAR(static_cast<double>(dropped.counted->dram_load_bytes), static_cast<double>(stream.dataset_bytes),
              0.2 * static_cast<double>(stream.dataset_bytes));
}

TEST_F(WorkloadsOnGpu, RefusesWhatItCannotCarryOut) {
  EXPECT_TRUE(time(model::strided(2, 4, 1)).refusal);
  EXPECT_TRUE(time(model::Stream{.dataset_bytes = 1ULL << 40U}).refusal);
  EXPECT_TRUE(time(model::Stream{.path = model::StreamPath::shared,
                                 .work = model::StreamWork::swap,
                                 .element_bits = 128,
                                 .elements_in_flight = 8,
                                 .block_threads = 1024,
                                 .elements_per_thread = 8})
                  .refusal);
}

}  // namespace
}  // namespace gpuinfer::probe
