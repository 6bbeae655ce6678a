// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <csignal>
#include <limits>

#include "model/errors.hpp"
#include "probe/hdf5.hpp"
#include "probe/importers.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/answered.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Answer;
using model::Question;
using model::StartState;

model::DeviceFacts some_facts() {
  return {.name = "Größe \"7\"",
          .source = "cuda:0",
          .compute_capability = "9.0",
          .sm_count = 132,
          .targets = {"L1tex", "L2"},
          .buffer = {.bytes = 1U << 20U, .address = model::Address{0x7f0000000000}},
          .own_buffers =
              {{"ConstL1", {.bytes = 65536, .address = model::Address{512}}},
               {"L2TLB", {.bytes = 1U << 30U, .address = {}, .raster = {}, .nearer_bytes = 1U << 20U}},
               {"Instruction", {.bytes = 1U << 18U, .piece_bytes = 1024}},
               {"dTLB", {.bytes = 1U << 25U, .averages_laps = true}},
               {"L1TLB", {.bytes = 1U << 25U, .one_unit = true}},
               {"Texture2D",
                {.bytes = 8192, .address = {}, .raster = model::Raster{.texel_bytes = 4, .width = 64, .height = 32}}}},
          .warm_targets = {"L1tex", "ReadOnly"},
          .shared_memories_kb = {8, 228},
          .chooses_unit = true,
          .stored_targets = {"L1tex"},
          .hinted_targets = {"L1tex"},
          .largest_set_aside_bytes = 65536,
          .provenance = {{"driver", "550.54"}, {"empty", ""}}};
}

Answer refused(const std::string& sentence) { return {.latency_cycles = {}, .refusal = sentence}; }

const std::vector<Question> some_questions{
    {.target = "L1tex", .state = StartState::clean, .warm = {0, 128}, .record = {0, 256, 512}},
    {.target = "L2", .state = StartState::invalidated, .warm = {}, .record = {4}},
    {.target = "L1tex", .state = StartState::keep, .warm = {8}, .record = {}},
    {.target = "L1tex",
     .state = StartState::keep,
     .warm = {},
     .record = {12, 16},
     .circumstances = {.warm_target = "ReadOnly", .shared_memory_kb = 228, .unit = model::ComputeUnit{131}}}};
const std::vector<Answer> some_answers{answered({33, 250.5F, 1e6F}), refused("not in this state"), answered({}),
                                       answered({33, 34})};

class ArchiveFile : public ScratchTest {
 protected:
  std::filesystem::path some_archive() {
    const auto writer = create_archive(path("some.h5"), some_facts());
    writer->append(some_questions, some_answers);
    writer->append({some_questions.data(), 1}, std::vector{answered({1, 2, 3})});
    writer->close();
    return path("some.h5");
  }

  static std::string error_of(const std::filesystem::path& archive) {
    std::string message = message_of<InputError>([&] {
      (void)archived_traces(archive);
      (void)read_archive(archive);
    });
    EXPECT_TRUE(message.starts_with(archive.string()) && !contains(message, "\n")) << message;
    return message;
  }
};

TEST_F(ArchiveFile, HoldsWhatWasAskedAndAnswered) {
  const Archive archive = read_archive(some_archive());
  const model::DeviceFacts facts = some_facts();
  EXPECT_EQ(archive.facts.name, facts.name);
  EXPECT_EQ(archive.facts.source, facts.source);
  EXPECT_EQ(archive.facts.compute_capability, facts.compute_capability);
  EXPECT_EQ(archive.facts.sm_count, facts.sm_count);
  EXPECT_EQ(archive.facts.warm_targets, facts.warm_targets);
  EXPECT_EQ(archive.facts.shared_memories_kb, facts.shared_memories_kb);
  EXPECT_TRUE(archive.facts.chooses_unit);
  EXPECT_EQ(archive.facts.stored_targets, facts.stored_targets);
  EXPECT_EQ(archive.facts.hinted_targets, facts.hinted_targets);
  EXPECT_EQ(archive.facts.largest_set_aside_bytes, facts.largest_set_aside_bytes);
  EXPECT_EQ(archive.facts.targets, facts.targets);
  EXPECT_EQ(archive.facts.buffer, facts.buffer);
  EXPECT_EQ(archive.facts.own_buffers, facts.own_buffers);
  EXPECT_EQ(archive.facts.provenance, facts.provenance);

  EXPECT_EQ(archive.traced_targets, std::vector<std::string>{"L1tex"});

  const std::vector<model::Trace> traces = archived_traces(path("some.h5"));
  ASSERT_EQ(traces.size(), 4U);
  EXPECT_EQ(traces[0].question, some_questions[0]);
  EXPECT_EQ(traces[0].latency_cycles, some_answers[0].latency_cycles);
  EXPECT_TRUE(traces[0].start_is_known);
  EXPECT_EQ(traces[1].question, some_questions[2]);
  EXPECT_FALSE(traces[1].start_is_known);
  EXPECT_EQ(traces[2].latency_cycles, some_answers[3].latency_cycles);
  EXPECT_EQ(traces[2].name, path("some.h5").string() + ":/launch_000000/3");
  EXPECT_EQ(read_traces(path("some.h5")).size(), 4U);
}

TEST_F(ArchiveFile, KeepsWhichAccessesAreStores) {
  Question stored{.target = "L1tex", .state = StartState::clean, .warm = {0, 4}, .record = {8}};
  const Question loaded = stored;
  stored.circumstances.stores = {1};
  const auto writer = create_archive(path("stores.h5"), some_facts());
  writer->append(std::vector{loaded, stored}, std::vector{answered({33}), answered({250})});
  writer->close();
  EXPECT_EQ(archived_traces(path("stores.h5"))[1].question, stored);
  const auto recorded = open_recording(path("stores.h5"), "recorded");
  EXPECT_EQ(recorded->facts().stored_targets, std::vector<std::string>{"L1tex"});
  EXPECT_EQ(recorded->ask({&stored, 1}).front().latency_cycles, std::vector<float>{250});
  EXPECT_EQ(recorded->ask({&loaded, 1}).front().latency_cycles, std::vector<float>{33});
  stored.circumstances.stores = {0};
  EXPECT_TRUE(recorded->ask({&stored, 1}).front().refusal);
}

TEST_F(ArchiveFile, KeepsWhichSmsWarmUp) {
  model::DeviceFacts facts = some_facts();
  facts.warm_unit_targets = {"L1tex"};
  Question asked{.target = "L1tex", .state = StartState::invalidated, .warm = {0, 4}, .record = {8, 12}};
  asked.circumstances.unit = model::ComputeUnit{7};
  asked.circumstances.warm_units = {model::ComputeUnit{0}, model::ComputeUnit{131}};
  const auto writer = create_archive(path("warm.h5"), facts);
  writer->append(std::vector{asked}, std::vector{answered({33, 250})});
  writer->close();
  EXPECT_EQ(archived_traces(path("warm.h5"))[0].question, asked);
  const auto recorded = open_recording(path("warm.h5"), "recorded");
  EXPECT_EQ(recorded->facts().warm_unit_targets, facts.warm_unit_targets);
  EXPECT_EQ(recorded->ask({&asked, 1}).front().latency_cycles, (std::vector<float>{33, 250}));
  asked.circumstances.warm_units.pop_back();
  EXPECT_TRUE(recorded->ask({&asked, 1}).front().refusal);
}

TEST_F(ArchiveFile, KeepsWhichLoadsCarryHints) {
  Question hinted{.target = "L1tex", .state = StartState::clean, .warm = {0, 4}, .record = {8, 12}};
  const Question loaded = hinted;
  hinted.circumstances.hints = {{model::AccessKind::evict_first, {1}}, {model::AccessKind::evict_last, {0, 3}}};
  hinted.circumstances.set_aside_bytes = 4096;
  const auto writer = create_archive(path("hints.h5"), some_facts());
  writer->append(std::vector{loaded, hinted}, std::vector{answered({33, 34}), answered({250, 251})});
  writer->close();
  EXPECT_EQ(archived_traces(path("hints.h5"))[1].question, hinted);
  const auto recorded = open_recording(path("hints.h5"), "recorded");
  EXPECT_EQ(recorded->ask({&hinted, 1}).front().latency_cycles, (std::vector<float>{250, 251}));
  hinted.circumstances.set_aside_bytes.reset();
  EXPECT_TRUE(recorded->ask({&hinted, 1}).front().refusal);
}

TEST_F(ArchiveFile, TakesProvenanceUntilItIsClosed) {
  const auto writer = create_archive(path("some.h5"), some_facts());
  writer->append(some_questions, some_answers);
  writer->add_provenance("weather", "rain");
  writer->close();
  EXPECT_EQ(read_archive(path("some.h5")).facts.provenance.at("weather"), "rain");
  EXPECT_EQ(read_archive(path("some.h5")).facts.provenance.size(), some_facts().provenance.size() + 1);
}

TEST_F(ArchiveFile, KeepsDisturbancesAsTheyWere) {
  const std::vector<model::Disturbance> disturbances{
      {.kind = model::Disturbance::Kind::asked_again, .sentence = "it failed. And again; wait"},
      {.kind = model::Disturbance::Kind::other, .sentence = "it rained; wait"}};
  const auto writer = create_archive(path("some.h5"), some_facts());
  writer->append(some_questions, some_answers);
  writer->add_disturbances(disturbances);
  writer->close();
  EXPECT_EQ(open_recording(path("some.h5"), "recorded:some.h5")->disturbances(), disturbances);
  EXPECT_EQ(read_archive(path("some.h5")).facts.provenance.at("disturbances"),
            "it failed. And again; wait. it rained; wait");
}

TEST_F(ArchiveFile, ReadsTheDisturbancesOfEarlierVersions) {
  for (const char* text : {"it rained; wait. it blew; wait", "7", "[\"\"", "{}"}) {
    const auto writer = create_archive(path("some.h5"), some_facts());
    writer->append(some_questions, some_answers);
    writer->add_provenance("disturbances", text);
    writer->close();
    EXPECT_EQ(open_recording(path("some.h5"), "recorded:some.h5")->disturbances(),
              (std::vector<model::Disturbance>{{.kind = model::Disturbance::Kind::other, .sentence = text}}));
  }
}

TEST_F(ArchiveFile, RefusesDisturbancesThatAreNone) {
  for (const char* text : {"[7]", "[{}]", R"([{"kind": 7, "sentence": "a"}])", R"([{"kind": "clocks"}])"}) {
    const auto writer = create_archive(path("some.h5"), some_facts());
    writer->append(some_questions, some_answers);
    writer->add_provenance("disturbances", text);
    writer->close();
    EXPECT_THROW((void)open_recording(path("some.h5"), "recorded:some.h5"), InputError) << text;
  }
}

TEST_F(ArchiveFile, AppearsWhenItIsClosedAndLeavesNothingElse) {
  (void)file("some.h5", "an older file");
  {
    const auto writer = create_archive(path("some.h5"), some_facts());
    writer->append(some_questions, some_answers);
    EXPECT_EQ(std::filesystem::file_size(path("some.h5")), 13U);
  }
  EXPECT_EQ(std::filesystem::file_size(path("some.h5")), 13U);
  some_archive();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1);
  EXPECT_EQ(archived_traces(path("some.h5")).size(), 4U);
}

TEST_F(ArchiveFile, ManySmallLaunchesAreSmallAndQuick) {
  model::DeviceDescription description = small_device();
  description.noise = model::NoiseDescription{.jitter_cycles = 3, .outlier_probability = 0.001, .outlier_cycles = 400};
  const auto device = open_virtual(description, "virtual:small", 1);
  const auto begin = std::chrono::steady_clock::now();
  const auto writer = create_archive(path("many.h5"), device->facts());
  const std::vector<std::uint64_t> lines = model::cold_pass(0, 4096, 32);
  model::Random random(1);
  constexpr std::size_t launches = 5000;
  for (std::size_t i = 0; i < launches; ++i) {
    const Question question{
        .target = "L1tex", .state = StartState::clean, .warm = {}, .record = model::random_walk(lines, 100, random)};
    writer->append({&question, 1}, device->ask({&question, 1}));
  }
  writer->close();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(seconds.count()));
  RecordProperty("bytes", std::to_string(std::filesystem::file_size(path("many.h5"))));
  EXPECT_LT(std::filesystem::file_size(path("many.h5")), 1000000U);
  EXPECT_EQ(archived_traces(path("many.h5")).size(), launches);
}

TEST_F(ArchiveFile, ManyAccessesAreSplitAndComeBackInOrder) {
  const auto writer = create_archive(path("large.h5"), some_facts());
  const Question question{
      .target = "L1tex", .state = StartState::clean, .warm = {}, .record = model::cyclic(4096, 4, 400000)};
  for (int launch = 0; launch < 7; ++launch) {
    writer->append({&question, 1}, std::vector{answered(std::vector<float>(400000, static_cast<float>(launch)))});
  }
  writer->close();
  const std::vector<model::Trace> traces = archived_traces(path("large.h5"));
  ASSERT_EQ(traces.size(), 7U);
  for (std::size_t launch = 0; launch < 7; ++launch) {
    EXPECT_EQ(traces[launch].latency_cycles.front(), static_cast<float>(launch));
  }
  EXPECT_EQ(traces[6].name, path("large.h5").string() + ":/launch_000005/1");
}

TEST_F(ArchiveFile, CutShortIsRefusedWhereverItWasCut) {
  const std::filesystem::path whole = some_archive();
  const auto size = std::filesystem::file_size(whole);
  for (std::uintmax_t part = 0; part < 20; ++part) {
    const std::filesystem::path cut = path("cut.h5");
    std::filesystem::copy_file(whole, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, size * part / 20);
    EXPECT_TRUE(contains(error_of(cut), "no whole HDF5 file")) << part;
  }
}

TEST_F(ArchiveFile, WhatIsNoArchiveIsRefused) {
  error_of(path("missing.h5"));
  error_of(path(""));
  EXPECT_TRUE(contains(error_of(file("text.h5", "offset,latency\n0,33\n")), "no whole HDF5 file"));
}

// Replaces one dataset of the archive by another of the same name.
template <class Element>
void replace(const std::filesystem::path& archive, const std::string& name, hid_t type,
             const std::vector<Element>& elements) {
  const hdf5::Handle file(H5Fopen(archive.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
  const hdf5::Handle group = hdf5::open_group(file, "launch_000000");
  hdf5::checked(H5Ldelete(group.get(), name.c_str(), H5P_DEFAULT), "delete");
  hdf5::write_dataset(group, name, type, type, elements.data(), elements.size());
}

TEST_F(ArchiveFile, ContentsThatCannotBeAreRefused) {
  const auto broken_by = [&]<class Element>(const std::string& name, hid_t type, const std::vector<Element>& elements) {
    replace(some_archive(), name, type, elements);
    return error_of(path("some.h5"));
  };
  const auto latencies = [&](float value) {
    return broken_by("latency_cycles", H5T_NATIVE_FLOAT, std::vector<float>{33, 1, 1, 1, 1, 1, 1, value});
  };
  EXPECT_TRUE(contains(latencies(-1), "negative or infinite"));
  EXPECT_TRUE(contains(latencies(std::numeric_limits<float>::quiet_NaN()), "negative or infinite"));
  EXPECT_TRUE(contains(latencies(std::numeric_limits<float>::infinity()), "negative or infinite"));
  EXPECT_TRUE(contains(broken_by("latency_cycles", H5T_NATIVE_FLOAT, std::vector<float>(7)), "too short"));
  EXPECT_TRUE(contains(broken_by("latency_cycles", H5T_NATIVE_FLOAT, std::vector<float>(9)), "does not cover"));
  EXPECT_TRUE(contains(broken_by("offset", H5T_NATIVE_UINT64, std::vector<std::uint64_t>(3)), "does not fit"));
  EXPECT_TRUE(contains(broken_by("offset", H5T_NATIVE_UINT64, std::vector<std::uint64_t>(9, 1U << 20U)), "leaves"));
  EXPECT_TRUE(contains(broken_by("state", H5T_NATIVE_UINT8, std::vector<std::uint8_t>(5)), "does not hold strings"));
  EXPECT_TRUE(contains(broken_by("question", H5T_NATIVE_UINT8, std::vector<std::uint8_t>(5)), "not the table"));
  EXPECT_TRUE(contains(broken_by("refused", H5T_NATIVE_UINT64, std::vector<std::uint64_t>{9}), "does not fit"));
}

// A row of `question`, as probe/archive.hpp has its columns.
using QuestionRow = std::array<std::uint64_t, 6>;

hdf5::Handle row_type(const std::vector<const char*>& columns) {
  hdf5::Handle type(H5Tcreate(H5T_COMPOUND, columns.size() * sizeof(std::uint64_t)), H5Tclose, "type");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    H5Tinsert(type.get(), columns[i], i * sizeof(std::uint64_t), H5T_NATIVE_UINT64);
  }
  return type;
}

const std::vector<const char*> row_columns{"launch",       "warm_begin", "warm_end",
                                           "record_begin", "record_end", "latency_begin"};

void replace_texts(const std::filesystem::path& archive, const std::string& name,
                   const std::vector<std::string>& texts) {
  const hdf5::Handle file(H5Fopen(archive.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
  const hdf5::Handle group = hdf5::open_group(file, "launch_000000");
  hdf5::checked(H5Ldelete(group.get(), name.c_str(), H5P_DEFAULT), "delete");
  hdf5::write_strings(group, name, texts);
}

TEST_F(ArchiveFile, SequencesThatCannotBeAreRefused) {
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  const hdf5::Handle type = row_type(row_columns);
  const std::vector<QuestionRow> whole(5, QuestionRow{0, 0, 2, 2, 5, 0});
  for (const QuestionRow& row :
       {QuestionRow{0, 3, 2, 2, 5, 0}, QuestionRow{0, 2, huge, 2, 5, 0}, QuestionRow{0, 9, 11, 2, 5, 0},
        QuestionRow{0, 0, 2, 5, 2, 0}, QuestionRow{0, 0, 2, 7, 10, 0}, QuestionRow{0, 0, 2, 2, 5, 1}}) {
    std::vector<QuestionRow> rows = whole;
    rows.front() = row;
    replace(some_archive(), "question", type.get(), rows);
    EXPECT_TRUE(contains(error_of(path("some.h5")), "does not fit")) << testing::PrintToString(row);
  }
}

// A question costs a file some bytes, however long the sequence of another one is that it asks again.
TEST_F(ArchiveFile, OneSequenceForTooManyQuestionsIsRefused) {
  constexpr std::uint64_t accesses = 1U << 20U;
  const Question question{
      .target = "L1tex", .state = StartState::clean, .warm = std::vector<std::uint64_t>(accesses, 4), .record = {}};
  const auto asked = [&](std::size_t times) {
    const auto writer = create_archive(path("some.h5"), some_facts());
    writer->append({&question, 1}, std::vector{answered({})});
    writer->close();
    replace(path("some.h5"), "question", row_type(row_columns).get(),
            std::vector<QuestionRow>(times, {0, 0, accesses, accesses, accesses, 0}));
    replace_texts(path("some.h5"), "target", std::vector<std::string>(times, "L1tex"));
    replace_texts(path("some.h5"), "state", std::vector<std::string>(times, "clean"));
    return path("some.h5");
  };
  EXPECT_TRUE(contains(error_of(asked(513)), "than are held at once"));
  EXPECT_TRUE(contains(error_of(asked(4097)), "than are read of one archive"));
}

TEST_F(ArchiveFile, KeepsEachSequenceOnce) {
  model::Random random(7);
  const std::vector<std::uint64_t> lines = model::cold_pass(0, 1U << 20U, 32);
  const model::AccessSequence walk = model::random_walk(lines, 300000, random);
  const model::AccessSequence record = model::random_walk(lines, 300000, random);
  std::vector<Question> questions;
  for (const char* target : {"L1tex", "L2"}) {
    questions.push_back({.target = target, .state = StartState::clean, .warm = walk, .record = record});
    questions.push_back({.target = target, .state = StartState::keep, .warm = record, .record = walk});
    questions.push_back({.target = target, .state = StartState::keep, .warm = walk, .record = {}});
    questions.push_back({.target = target, .state = StartState::keep, .warm = {}, .record = {}});
  }
  const auto write = [&](const char* name, std::size_t times) {
    const auto writer = create_archive(path(name), some_facts());
    for (std::size_t i = 0; i < times; ++i) {
      for (const Question& question : questions) {
        writer->append({&question, 1},
                       std::vector{answered(std::vector<float>(question.record.size(), static_cast<float>(i)))});
      }
    }
    writer->close();
    return std::filesystem::file_size(path(name));
  };
  const auto once = write("once.h5", 1);
  EXPECT_LT(write("often.h5", 8), once + once / 10);
  const std::vector<model::Trace> traces = archived_traces(path("often.h5"));
  ASSERT_EQ(traces.size(), 8 * questions.size());
  for (std::size_t i = 0; i < traces.size(); ++i) {
    EXPECT_EQ(traces[i].question, questions[i % questions.size()]);
  }
  const auto device = open_recording(path("often.h5"), "recorded:often.h5");
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(device->ask({{questions[1]}}).front().latency_cycles.back(), static_cast<float>(i));
  }
}

// The schema gpuinfer-trace/1: some_questions, as it was written then.
TEST_F(ArchiveFile, ReadsTheFormOfEarlierVersions) {
  some_archive();
  const std::vector<model::Trace> now = archived_traces(path("some.h5"));
  const hdf5::Handle type = row_type({"launch", "warm_begin", "record_begin", "record_end", "latency_begin"});
  {
    const hdf5::Handle file(H5Fopen(path("some.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
    H5Adelete(file.get(), "schema");
    hdf5::write_attribute(file, "schema", "gpuinfer-trace/1");
  }
  const std::vector<std::array<std::uint64_t, 5>> rows{
      {0, 0, 2, 5, 0}, {0, 5, 5, 6, 3}, {0, 6, 7, 7, 3}, {0, 7, 7, 9, 3}, {1, 9, 11, 14, 5}};
  replace(path("some.h5"), "question", type.get(), rows);
  replace(path("some.h5"), "offset", H5T_NATIVE_UINT64,
          std::vector<std::uint64_t>{0, 128, 0, 256, 512, 4, 8, 12, 16, 0, 128, 0, 256, 512});
  const std::vector<model::Trace> then = archived_traces(path("some.h5"));
  ASSERT_EQ(then.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(then[i].name, now[i].name);
    EXPECT_EQ(then[i].question, now[i].question);
    EXPECT_EQ(then[i].latency_cycles, now[i].latency_cycles);
  }
}

TEST_F(ArchiveFile, ALengthThatIsNotStoredIsNotBelieved) {
  const std::filesystem::path archive = some_archive();
  {
    const hdf5::Handle file(H5Fopen(archive.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open");
    const hdf5::Handle group = hdf5::open_group(file, "launch_000000");
    hdf5::checked(H5Ldelete(group.get(), "offset", H5P_DEFAULT), "delete");
    const hsize_t length = 1ULL << 50U;
    const hsize_t chunk = 1024;
    const hdf5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "properties");
    H5Pset_chunk(properties.get(), 1, &chunk);
    const hdf5::Handle space(H5Screate_simple(1, &length, nullptr), H5Sclose, "space");
    const hdf5::Handle dataset(
        H5Dcreate2(group.get(), "offset", H5T_NATIVE_UINT64, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
        H5Dclose, "dataset");
  }
  EXPECT_TRUE(contains(error_of(archive), "longer than what is stored"));
}

TEST_F(ArchiveFile, UnwritableOrFullIsOneSentence) {
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)create_archive(path("no/such/folder.h5"), some_facts()); }),
                       "No such file or directory"));

  const auto writer = create_archive(path("full.h5"), some_facts());
  writer->append(some_questions, some_answers);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tiny{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tiny);
  const std::string message = message_of<Error>([&] { writer->close(); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(contains(message, "full.h5: ")) << message;
  EXPECT_FALSE(std::filesystem::exists(path("full.h5")));
}

TEST_F(ArchiveFile, ARecordingAnswersAsItsDeviceDid) {
  const auto device = open_recording(some_archive(), "recorded:some.h5");
  EXPECT_EQ(device->facts().source, "recorded:some.h5");
  EXPECT_EQ(device->facts().targets, std::vector<std::string>{"L1tex"});
  const auto ask = [&](const Question& question) { return device->ask({&question, 1}).front(); };
  EXPECT_EQ(ask(some_questions[0]).latency_cycles, (std::vector<float>{33, 250.5F, 1e6F}));
  EXPECT_EQ(ask(some_questions[3]).latency_cycles, (std::vector<float>{33, 34}));
  EXPECT_EQ(ask(some_questions[0]).latency_cycles, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(ask(some_questions[0]).latency_cycles, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(ask(some_questions[1]).refusal, "not in this state");
  Question other = some_questions[0];
  other.state = StartState::invalidated;
  EXPECT_TRUE(contains(ask(other).refusal.value_or(""), "does not hold this question"));
}

TEST_F(ArchiveFile, OfADeviceThatWasNeverAskedIsEmpty) {
  create_archive(path("empty.h5"), some_facts())->close();
  EXPECT_TRUE(archived_traces(path("empty.h5")).empty());
  EXPECT_TRUE(open_recording(path("empty.h5"), "recorded:empty.h5")->facts().targets.empty());
}

const std::vector<model::Workload> some_workloads{
    model::strided(8, 4, 2),
    model::ConcurrentLoads{.threads = 64, .from_l2 = false, .runs = 1},
    model::Stream{.path = model::StreamPath::texture, .dataset_bytes = 4096, .runs = 3},
    model::Stream{.work = model::StreamWork::copy, .dataset_bytes = 12288, .part_bytes = 4096, .blocks = 3},
    model::KernelRun{.kernel = model::KernelName::syrk, .variant = model::KernelVariant::texture_vector, .size = 256},
    model::KernelRun{.size = 128, .is_counted = true},
    model::Stream{.path = model::StreamPath::global_cg, .dataset_bytes = 4096, .drops_l2 = true},
    model::Stream{.dataset_bytes = 8192, .is_counted = true},
    model::ClusterExchange{
        .work = model::ExchangeWork::copy, .blocks = 4, .cluster = 3, .from = 1, .to = 2, .bytes = 64, .runs = 2},
    model::ClusterExchange{.work = model::ExchangeWork::stream_store, .blocks = 2, .to = 1, .by_all = true},
    model::BlockFetch{.engine = model::FetchEngine::bulk, .bytes = 256, .by_all = true, .runs = 2}};

std::vector<model::Timing> some_timings() {
  return {{.cycles = {25.5, 26}, .seconds = {}, .refusal = {}},
          {.cycles = {1000}, .seconds = {}, .refusal = {}},
          {.cycles = {3e6, 2e6, 4e6}, .seconds = {0.003, 0.002, 0.004}, .refusal = {}},
          {.cycles = {}, .seconds = {}, .refusal = "too large; ask for less"},
          {.cycles = {5e6}, .seconds = {0.005}, .refusal = {}},
          {.cycles = {6e6},
           .seconds = {0.006},
           .counted = model::CacheTraffic{.l1_sectors = 1,
                                          .l2_load_bytes = 2,
                                          .l2_store_bytes = 3,
                                          .dram_load_bytes = 4,
                                          .dram_store_bytes = 1ULL << 40U}},
          {.cycles = {7e6}, .seconds = {0.007}, .why_not_counted = "nobody may"},
          {.cycles = {8e6}, .seconds = {0.008}, .counted = model::CacheTraffic{.l2_load_bytes = 5}},
          {.cycles = {310.5, 312}, .seconds = {}, .refusal = {}},
          {.cycles = {120000}, .seconds = {}, .refusal = {}},
          {.cycles = {520, 521}, .seconds = {}, .refusal = {}}};
}

TEST_F(ArchiveFile, KeepsWorkloadsAndTheirTimings) {
  const auto writer = create_archive(path("timed.h5"), some_facts());
  writer->append(some_workloads, some_timings());
  writer->append(some_questions, some_answers);
  const std::vector<model::Timing> again{{.cycles = {27, 28}, .seconds = {}, .refusal = {}}};
  writer->append(std::span(some_workloads).first(1), again);
  writer->close();
  const Archive archive = read_archive(path("timed.h5"));
  EXPECT_EQ(archive.timed_targets,
            (std::vector<std::string>{"Shared", "Outstanding", "Bandwidth", "Kernels", "Cluster", "Fetch"}));
  // All but the refused one, the repeated one last.
  ASSERT_EQ(archive.timed.size(), some_workloads.size());
  EXPECT_TRUE(archive.timed.front().workload == some_workloads.front());
  EXPECT_TRUE(archive.timed.back().workload == some_workloads.front());
  EXPECT_EQ(archive.timed.back().timing.cycles, again.front().cycles);

  const auto device = open_recording(path("timed.h5"), "recorded:timed.h5");
  EXPECT_EQ(device->time(some_workloads), some_timings());
  EXPECT_EQ(device->time(std::span(some_workloads).first(1)), again);
  const model::Workload other = model::strided(12, 4, 2);
  EXPECT_TRUE(device->time({&other, 1}).front().refusal);
}

TEST_F(ArchiveFile, KeepsWhereTexelsLie) {
  const std::vector<std::uint64_t> texels{0, 8, 4};
  const auto writer = create_archive(path("places.h5"), some_facts());
  writer->append("Texture2D", texels, std::vector<std::uint64_t>{1000, 992, 996});
  writer->close();
  const auto recorded = open_recording(path("places.h5"), "recorded:places.h5");
  EXPECT_EQ(recorded->places_of("Texture2D", std::vector<std::uint64_t>{4, 0}),
            (std::vector<std::uint64_t>{996, 1000}));
  EXPECT_EQ(recorded->places_of("Texture2D", std::vector<std::uint64_t>{4, 12}), std::nullopt);
  EXPECT_EQ(recorded->places_of("L1tex", texels), std::nullopt);
}

TEST_F(ArchiveFile, WorkloadsThatSomebodyTamperedWithAreRefused) {
  struct Damage {
    const char* dataset;
    double value;
  };
  for (const auto& [dataset, value] :
       {Damage{"cycles", -1.0}, Damage{"seconds", std::numeric_limits<double>::infinity()}, Damage{"run_begin", 7.0}}) {
    const auto writer = create_archive(path("damaged.h5"), some_facts());
    writer->append(some_workloads, some_timings());
    writer->close();
    const hid_t file = H5Fopen(path("damaged.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, (std::string("/timings_000001/") + dataset).c_str(), H5P_DEFAULT);
    ASSERT_GE(set, 0) << dataset;
    std::vector<double> values(16, value);
    ASSERT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(set);
    H5Fclose(file);
    EXPECT_NE(message_of<InputError>([&] {
                (void)read_archive(path("damaged.h5"));
                (void)archived_traces(path("damaged.h5"));
              }),
              "")
        << dataset;
  }
}

}  // namespace
}  // namespace gpuinfer::probe
