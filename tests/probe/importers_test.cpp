// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/importers.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "model/errors.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::AccessSequence;
using model::StartState;

class Importers : public ScratchTest {
 protected:
  // What is wrong with a file of this content; the message starts with its name, which is cut off.
  std::string error_in(std::string_view content) {
    const std::filesystem::path bad = file("bad.txt", content);
    const std::string message = message_of<InputError>([&] { (void)read_traces(bad); });
    return message.starts_with(bad.string()) ? message.substr(bad.string().size()) : message;
  }
};

// Five words visited in steps of one: a warm-up of four loads ends before element 4.
constexpr std::string_view five_words =
    "\r\n"
    "=====Visting the 0.019531 KB array, loop 4*1 times======\r\n"
    "         0\t 250.000000\r\n"
    "         1\t 488.500000\r\n"
    "         2\t 246.000000\r\n"
    "         3\t 250.000000\r\n"
    "\r\n";

TEST_F(Importers, MeiChaseWithItsWarmUp) {
  const auto traces = read_traces(file("five.txt", five_words));
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_TRUE(traces[0].start_is_known);
  EXPECT_EQ(traces[0].question.state, StartState::clean);
  EXPECT_EQ(traces[0].question.warm, (AccessSequence{0, 4, 8, 12}));
  EXPECT_EQ(traces[0].question.record, (AccessSequence{16, 0, 4, 8}));
  EXPECT_EQ(traces[0].latency_cycles, (std::vector<float>{250, 488.5, 246, 250}));
  EXPECT_EQ(traces[0].name, path("five.txt").string());
}

TEST_F(Importers, MeiChaseThatBeginsElsewhereHasNoKnownStart) {
  const auto traces = read_mei(file("a.txt", "===Visiting the 1 KB array===\n8 10\n16 10\n24 10\n"));
  EXPECT_FALSE(traces.at(0).start_is_known);
  EXPECT_EQ(traces[0].question.state, StartState::keep);
  EXPECT_TRUE(traces[0].question.warm.empty());
  EXPECT_EQ(traces[0].question.record, (AccessSequence{0, 32, 64}));
}

TEST_F(Importers, MeiSectionsAreTracesAndTheArrayIsFoundWhereTheChaseGoesRound) {
  const auto traces = read_traces(file("cold.txt",
                                       "\r\n=====0 GB array, cold cache miss====\r\nStride = 1 element, 4 bytes\r\n"
                                       "1\t 296\r\n2\t 220\r\n0\t 220\r\n1\t 220\r\n"
                                       "====================\r\n\r\n\r\n"
                                       "=====0 GB array, cold cache miss====\r\nStride = 2 element, 8 bytes\r\n"
                                       "2\t 296\r\n1\t 220\r\n0\t 221\r\n2\t 220\r\n"
                                       "====================\r\n"));
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_TRUE(traces[0].start_is_known);
  EXPECT_TRUE(traces[0].question.warm.empty());
  EXPECT_EQ(traces[0].question.record, (AccessSequence{0, 4, 8, 0}));
  EXPECT_EQ(traces[0].name, path("cold.txt").string() + " (line 2)");
}

TEST_F(Importers, MeiRowsThatCannotBeAreRefusedWithTheirLine) {
  const std::string head = "=====Visiting the 1 KB array====\n8 10\n16 10\n";
  EXPECT_TRUE(contains(error_in(head + "24 -5\n"), ":4: '-5' is no latency"));
  EXPECT_TRUE(contains(error_in(head + "24 nan\n"), ":4: 'nan' is no latency"));
  EXPECT_TRUE(contains(error_in(head + "24 1e300\n"), ":4: '1e300' is no latency"));
  EXPECT_TRUE(contains(error_in(head + "24 ten\n"), ":4: 'ten' is no latency"));
  EXPECT_TRUE(contains(error_in(head + "24\n"), ":4: neither"));
  EXPECT_TRUE(contains(error_in(head + "word 10\n"), ":4: neither"));
  EXPECT_TRUE(contains(error_in(head + "-24 10\n"), ":4: neither"));
  EXPECT_TRUE(contains(error_in(head + "99999999999999999999999 10\n"), ":4: neither"));
  EXPECT_TRUE(contains(error_in(head + "9007199254740991 10\n"), ":4: NEXT"));
  EXPECT_TRUE(contains(error_in(head + "32 10\n"), ":4: NEXT 32 does not continue the chase with a stride of 8 words"));
  EXPECT_TRUE(contains(error_in("=====Visiting the 1 KB array====\n8 10\n"), ":1: no two rows tell the stride"));
  EXPECT_TRUE(contains(error_in("=====Visiting the 1 KB array====\n8 10\n600 10\n"), ":3: the step"));
  EXPECT_TRUE(contains(error_in("=====a chase====\n1 10\n9 10\n"), ":2: the first row goes round"));
  EXPECT_TRUE(contains(error_in("===the 1 KB array, loop 4*1 times===\n1 10\n2 10\n"), ":1: the header promises 4"));
  EXPECT_TRUE(contains(error_in("=====\n1 10\n"), ":2: no header"));
  EXPECT_TRUE(contains(error_in("=====\n"), "no section"));
}

TEST_F(Importers, TextsThatAreNoTracesAreRefused) {
  EXPECT_TRUE(contains(error_in("stride\tFermi\tKepler\r\n0\t49.5\t46.75\r\n"), ":1: neither"));
  EXPECT_TRUE(contains(error_in("Array size: 1600 MB\r\n"), ":1: neither"));
  EXPECT_TRUE(contains(error_in(""), "neither"));
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)read_traces(path("missing")); }), "cannot be read"));
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)read_traces(path("")); }), "cannot be read"));
}

TEST_F(Importers, Csv) {
  for (const std::string_view text :
       {"# from a simulator\noffset,latency\n0,33\n128, 251.5\n", "0,33\r\n\r\n128,251.5\r\n"}) {
    const auto traces = read_traces(file("a.csv", text));
    ASSERT_EQ(traces.size(), 1U);
    EXPECT_FALSE(traces[0].start_is_known);
    EXPECT_EQ(traces[0].question.state, StartState::keep);
    EXPECT_EQ(traces[0].question.record, (AccessSequence{0, 128}));
    EXPECT_EQ(traces[0].latency_cycles, (std::vector<float>{33, 251.5}));
  }
}

TEST_F(Importers, CsvRowsThatCannotBeAreRefusedWithTheirLine) {
  EXPECT_TRUE(contains(error_in("0,33\n4,-1\n"), ":2: '-1' is no latency"));
  EXPECT_TRUE(contains(error_in("0,33\n4,inf\n"), ":2: 'inf' is no latency"));
  EXPECT_TRUE(contains(error_in("0,33\n4,3,5\n"), ":2: '3,5' is no latency"));
  EXPECT_TRUE(contains(error_in("0,33\n4\n"), ":2: no row"));
  EXPECT_TRUE(contains(error_in("0,33\n-4,33\n"), ":2: '-4' is no offset"));
  EXPECT_TRUE(contains(error_in("0,33\noffset,latency\n"), ":2: "));
  EXPECT_TRUE(contains(error_in("offset,latency\n"), "holds no row"));
}

// The authors' own recordings, which are not part of the sources.
TEST_F(Importers, RecordingsOfTheAuthors) {
  const char* const directory = std::getenv("GPUINFER_MEI_DATA");
  if (directory == nullptr) {
    GTEST_SKIP() << "GPUINFER_MEI_DATA does not name the directory of the recordings by Mei and Chu";
  }
  const std::filesystem::path data(directory);
  const auto first = [&](const char* name) { return read_traces(data / name).at(0); };
  for (const auto& [name, first_offset, stride_bytes] : {std::tuple{"fermi-3073element-stride1.txt", 4U * 1023, 4U},
                                                         std::tuple{"fermi-3080element-8stride.txt", 4U * 1968, 32U},
                                                         std::tuple{"fermi-3112element-8stride.txt", 4U * 1648, 32U}}) {
    const model::Trace trace = first(name);
    EXPECT_TRUE(trace.start_is_known) << name;
    EXPECT_EQ(trace.question.warm.size(), 4096U);
    EXPECT_EQ(trace.question.warm.at(1), stride_bytes);
    EXPECT_EQ(trace.question.record.size(), 4096U);
    EXPECT_EQ(trace.question.record.at(0), first_offset);
  }
  const auto sections = read_traces(data / "Kepler_L2_prefetch_4KB.txt");
  ASSERT_EQ(sections.size(), 4U);
  for (const model::Trace& section : sections) {
    EXPECT_TRUE(section.start_is_known && section.question.warm.empty());
    EXPECT_EQ(section.question.record.size(), 4096U);
    EXPECT_EQ(section.question.record.at(0), 0U);
  }
  EXPECT_EQ(sections[3].question.record.at(1), 32U);
  for (const char* const name : {"latency.txt", "Pattern_design_kepler_Maxwell.txt"}) {
    EXPECT_TRUE(contains(message_of<InputError>([&] { (void)first(name); }), std::string(name) + ":1: "));
  }
}

TEST_F(Importers, Mt4gSizesAreChasesInStepsThatACommentNames) {
  const auto traces = read_traces(file("sizes.csv", "# an old card\n# stride: 8\n16,200,201,30\n32,30,31,32,33,34,\n"));
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].question.warm, (AccessSequence{0, 8}));
  EXPECT_EQ(traces[0].question.record, (AccessSequence{0, 8, 0}));
  EXPECT_EQ(traces[0].latency_cycles, (std::vector<float>{200, 201, 30}));
  EXPECT_EQ(traces[0].question.state, StartState::clean);
  EXPECT_TRUE(traces[0].start_is_known);
  EXPECT_EQ(traces[1].question.warm, (AccessSequence{0, 8, 16, 24}));
  EXPECT_EQ(traces[1].question.record, (AccessSequence{0, 8, 16, 24, 0}));
  EXPECT_EQ(traces[1].name, path("sizes.csv").string() + " (line 4)");
}

TEST_F(Importers, Mt4gRowsWithStridesAreToldByAHeaderOrByTheirNumbers) {
  for (const std::string_view header : {"stride,size,latencies\n", ""}) {
    const auto traces = read_traces(file("lines.csv", std::string(header) + "4,1024,30,31\n64,2048,30,200\n"));
    ASSERT_EQ(traces.size(), 2U) << header;
    EXPECT_EQ(traces[0].question.warm.size(), 256U);
    EXPECT_EQ(traces[1].question.warm.size(), 32U);
    EXPECT_EQ(traces[1].question.record, (AccessSequence{0, 64}));
  }
  // Were the first numbers strides, arrays of 40 bytes would be chased.
  const auto sizes = read_traces(file("sizes.csv", "# stride 4\n8,40,40,40\n20,40,40,40\n"));
  EXPECT_EQ(sizes.at(1).question.warm.size(), 5U);
}

TEST_F(Importers, Mt4gRowsThatCannotBeAreRefusedWithTheirLine) {
  EXPECT_TRUE(contains(error_in("1024,30,31\n1056,30,200\n"), ":1: the rows do not say in which steps"));
  EXPECT_TRUE(
      contains(error_in("# stride 32\n1024,30,31\n1040,30,200\n"), ":3: an array of 1040 bytes is no multiple"));
  EXPECT_TRUE(contains(error_in("# stride 32\n1024,30,31\n1056,30,-1\n"), ":3: '-1' is no latency"));
  EXPECT_TRUE(contains(error_in("# stride 32\n1024,30,31\n1056\n"), ":3: no latency stands behind the size"));
  EXPECT_TRUE(contains(error_in("# stride x\n1024,30,31\n"), "'x' is no stride"));
  EXPECT_TRUE(contains(error_in("stride,size\n2048,1024,30,31\n"), ":2: an array of 1024 bytes is no multiple"));
  EXPECT_TRUE(contains(error_in("stride,size\n3,1024,30,31\n"), ":2: the stride is no multiple of 4 bytes"));
}

TEST_F(Importers, RoundsOverHugeArraysAreRefusedWithTheirLine) {
  EXPECT_TRUE(
      contains(error_in("# stride 4\n1024,30,31\n1029023544,30,200\n"), ":3: the rounds over arrays up to here"));
}

std::string row_of(std::string_view begin, std::size_t latencies) {
  std::string row(begin);
  for (std::size_t i = 0; i < latencies; ++i) {
    row += i % 2 == 0 ? ",38" : ",270";
  }
  return row + "\n";
}

// As MT4G publishes "Line Size": sizes that are no multiple of the stride, or of a word, and rows without latencies.
TEST_F(Importers, Mt4gLineSizesGoOnWithTheirFirstLoads) {
  const auto traces = read_traces(file("line.txt", row_of("16,1602", 255) + row_of("32,1602", 255) + "64,1602\n"));
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].question.warm.size(), 100U);
  EXPECT_EQ(traces[0].question.record.size(), 255U);
  EXPECT_EQ(traces[0].question.record.front(), 16U) << "the first load is left out";
  // 50 loads in steps of 32 over 1,600 bytes end where they began.
  EXPECT_EQ(traces[1].question.record.front(), 32U);
  const auto beside = read_traces(file("beside.txt", row_of("32,1616", 255)));
  EXPECT_EQ(beside.at(0).question.warm.back(), 1568U);
  EXPECT_EQ(beside[0].question.record.at(0), 16U) << "1,600 is left out, and what follows lies 16 bytes beside";
  EXPECT_EQ(beside[0].question.record.at(1), 0U) << "as a word that MT4G gives no successor leads to the first one";
  EXPECT_EQ(beside[0].question.record.at(2), 32U);
}

// As MT4G publishes "Fetch Granularity": strides 4 apart, from an empty cache on, with or without the first load.
TEST_F(Importers, Mt4gFetchGranularitiesAreColdChases) {
  std::string without_first;
  std::string with_first;
  for (int stride = 4; stride <= 64; stride += 4) {
    without_first += row_of(std::to_string(stride), 63);
    with_first += row_of(std::to_string(stride), 64);
  }
  for (const std::string& text : {without_first, with_first, "stride,latencies\n" + without_first}) {
    const auto traces = read_traces(file("fetch.txt", text));
    ASSERT_EQ(traces.size(), 16U);
    EXPECT_EQ(traces[1].question.warm, AccessSequence{0});
    EXPECT_EQ(traces[1].question.record.size(), 63U);
    EXPECT_EQ(traces[1].question.record.front(), 8U);
    EXPECT_EQ(traces[1].question.record.back(), 63U * 8);
  }
}

TEST_F(Importers, Mt4gSizesWithoutAStrideAreTimingsOfArrays) {
  const auto sizes = file("L1 Size.txt", row_of("229376", 255) + row_of("229632", 255));
  const auto timings = read_array_timings(sizes);
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[1].array_bytes, 229'632U);
  EXPECT_EQ(timings[1].latency_cycles.size(), 255U);
  EXPECT_EQ(timings[1].name, sizes.string() + " (line 2)");
  EXPECT_TRUE(read_array_timings(file("steps.txt", "# stride 32\n" + row_of("229376", 255))).empty());
  EXPECT_TRUE(read_array_timings(file("both.txt", row_of("16,159232", 255))).empty());
  EXPECT_TRUE(read_array_timings(file("chase.csv", "0,38\n32,270\n")).empty());
  const auto means = read_array_timings(file("means.txt", "128,20992,60\n128,21238,61\n256,21238,195\n"));
  ASSERT_EQ(means.size(), 3U);
  EXPECT_EQ(means[1].array_bytes, 21'236U) << "a chase goes over whole words";
  EXPECT_EQ(read_array_timings(file("means.csv", "size,latency\n8192,13\n8448,14\n")).size(), 2U);
}

TEST_F(Importers, SequencesOverOneSetWithTheirHits) {
  const std::filesystem::path rows =
      file("set.txt", "# L1\n<wbinvd> B0 B1? B2 B0? -> 1\n<wbinvd> x  y x?  y? -> HIT M\n");
  ASSERT_TRUE(holds_set_sequences(rows));
  const auto sequences = read_set_sequences(rows);
  ASSERT_EQ(sequences.size(), 2U);
  using Accesses = std::vector<model::SetSequence::Access>;
  EXPECT_EQ(sequences[0].accesses, (Accesses{{0, false}, {1, true}, {2, false}, {0, true}}));
  EXPECT_EQ(sequences[0].hits, 1U);
  EXPECT_TRUE(sequences[0].is_hit.empty());
  EXPECT_EQ(sequences[1].accesses, (Accesses{{0, false}, {1, false}, {0, true}, {1, true}}));
  EXPECT_EQ(sequences[1].is_hit, (std::vector<bool>{true, false}));
  EXPECT_EQ(sequences[1].hits, 1U);
  EXPECT_EQ(sequences[1].name, rows.string() + " (line 3)");
  EXPECT_FALSE(holds_set_sequences(file("chase.csv", "0,30\n")));
}

TEST_F(Importers, SequencesThatCannotBeAreRefusedWithTheirLine) {
  const auto error = [&](std::string_view row) {
    const std::filesystem::path bad = file("bad.txt", std::string("# set\n") + std::string(row) + "\n");
    return message_of<InputError>([&] { (void)read_set_sequences(bad); });
  };
  EXPECT_TRUE(contains(error("B0 B1? -> 1"), ":2: what the set holds at first is not known"));
  EXPECT_TRUE(contains(error("<wbinvd> B0 <wbinvd> B0? -> 1"), ":2: <wbinvd> stands inside"));
  EXPECT_TRUE(contains(error("<wbinvd> B0? -> 2"), ":2: 2 hits are more than the 1"));
  EXPECT_TRUE(contains(error("<wbinvd> B0? -> HIT MISS"), ":2: 1 accesses have `?` and 2 results"));
  EXPECT_TRUE(contains(error("<wbinvd> B0? -> maybe"), ":2: 'maybe' is no result"));
  EXPECT_TRUE(contains(error("<wbinvd> B0! B0? -> 1"), ":2: 'B0!' is no line"));
  EXPECT_TRUE(contains(error("<wbinvd> B0?"), ":2: no row `SEQUENCE -> hits`"));
}

}  // namespace
}  // namespace gpuinfer::probe
