// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <sstream>
#include <thread>

#include "model/errors.hpp"
#include "probe/archive.hpp"
#include "probe/exec.hpp"
#include "probe/first_try.hpp"
#include "probe/importers.hpp"
#include "probe/input_limits.hpp"
#include "probe/wire.hpp"
#include "tests/probe/scratch.hpp"

// Files and processes that mean harm: few bytes that ask for all memory, nesting that would exhaust the stack, names of
// other files. Each gets one sentence.
namespace gpuinfer::probe {
namespace {

class HostileFile : public ScratchTest {
 protected:
  // Begins with the name of the file and is one line.
  template <class Read>
  std::string error_of(const std::filesystem::path& file, Read read) {
    std::string message = message_of<InputError>([&] { static_cast<void>(read(file)); });
    EXPECT_TRUE(message.starts_with(file.string()) && !contains(message, "\n")) << message;
    return message;
  }
};

TEST_F(HostileFile, AFewBytesDoNotAskForALongSequence) {
  const std::string chase = error_of(file("chase.csv", "size,latency\n# stride 4\n549755813888,33\n"), read_mt4g);
  EXPECT_TRUE(contains(chase, ":3: ") && contains(chase, std::to_string(most_told_accesses) + " accesses")) << chase;
}

TEST_F(HostileFile, ASizeIsReadToItsLastDigit) {
  // As a latency it would be rounded to 2^30.
  const auto traces = read_mt4g(file("size.csv", "size,latency\n# stride 268435457\n1073741828,33,33\n"));
  EXPECT_EQ(traces.front().question.warm, (model::AccessSequence{0, 268435457, 536870914, 805306371}));
}

TEST_F(HostileFile, ALineHasAnEnd) {
  EXPECT_TRUE(contains(error_of("/dev/zero", read_csv), "/dev/zero:1: is longer than 67108864 bytes"));
}

TEST_F(HostileFile, WhatIsQuotedDoesNotBreakTheSentence) {
  EXPECT_TRUE(contains(error_of(file("steer.csv", "\x1b[31m,33\n"), read_csv), ":1: '?[31m' is no offset"));
}

TEST(HostileLine, IsQuotedInOneLine) {
  EXPECT_TRUE(contains(message_of<InputError>([] { (void)wire::parse_object("[\n]"); }), "'[?]' is no JSON object"));
}

TEST(HostileLine, IsNotNestedWithoutEnd) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_TRUE(contains(message_of<InputError>([&] { (void)wire::parse_answer("{\"id\":0,\"latency\":" + deep + "}"); }),
                       "nested more than 32 deep"));
  const wire::Asked asked = wire::parse_question("{\"id\":" + deep + "}");
  EXPECT_TRUE(asked.id.is_null());
  EXPECT_TRUE(asked.error && contains(*asked.error, "nested more than 32 deep"));
  // Brackets in texts are no lists.
  EXPECT_EQ(wire::parse_answer(R"({"id":0,"error":"\")" + std::string(100, '[') + "\"}").answer.refusal,
            "\"" + std::string(100, '['));
}

TEST(HostileLine, GetsItsIdBackOnlyIfThatIsANumberOrAText) {
  EXPECT_EQ(wire::parse_question(R"({"id":"seven"})").id, "seven");
  EXPECT_TRUE(wire::parse_question(R"({"id":[7]})").id.is_null());
}

model::DeviceFacts one_target() {
  model::DeviceFacts facts;
  facts.name = "One";
  facts.targets = {"T"};
  facts.buffer.bytes = 4096;
  return facts;
}

class OneTarget final : public model::Answerer {
 public:
  const model::DeviceFacts& facts() const override { return facts_; }
  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    return std::vector<model::Answer>(questions.size(), {.latency_cycles = {33}, .refusal = std::nullopt});
  }

 private:
  model::DeviceFacts facts_ = one_target();
};

TEST(HostileLine, ThatIsTooLongIsPassedOver) {
  std::istringstream in(std::string(most_line_bytes + 2, 'x') + "\n" +
                        R"({"id":7,"target":"T","state":"clean","warm":[],"record":[0]})" + "\n");
  std::ostringstream out;
  OneTarget device;
  serve(device, in, out);
  const std::string said = out.str();
  EXPECT_TRUE(contains(said, "longer than 67108864 bytes")) << said;
  EXPECT_TRUE(contains(said, R"({"id":7,"latency":[33]})")) << said;
}

class HostileArchive : public HostileFile {
 protected:
  // An archive with one question, changed as somebody may who means harm.
  std::filesystem::path archive(const std::function<void(hid_t)>& change) const {
    auto file = path("hostile.h5");
    const auto writer = create_archive(file, one_target());
    const model::Question question{.target = "T", .warm = {}, .record = {0, 4}};
    writer->append({&question, 1}, std::vector{model::Answer{.latency_cycles = {33, 34}, .refusal = std::nullopt}});
    writer->close();
    EXPECT_EQ(archived_traces(file).size(), 1U);
    const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(opened);
    H5Fclose(opened);
    return file;
  }

  static constexpr const char* offsets = "launch_000000/offset";

  // In place of the offsets.
  static void replace_offsets(hid_t file, hid_t properties, hsize_t count, const hsize_t* most = nullptr) {
    H5Ldelete(file, offsets, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &count, most);
    const hid_t dataset = H5Dcreate2(file, offsets, H5T_STD_U64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    EXPECT_GE(dataset, 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(properties);
  }

  std::string error_of_archive(const std::function<void(hid_t)>& change) {
    return error_of(archive(change), [](const std::filesystem::path& file) {
      static_cast<void>(read_archive(file));
      return archived_traces(file);
    });
  }
};

TEST_F(HostileArchive, LinksAreNotFollowed) {
  const auto elsewhere = archive([](hid_t) {});
  std::filesystem::rename(elsewhere, path("elsewhere.h5"));
  const std::string to_file = error_of_archive([&](hid_t file) {
    H5Ldelete(file, "launch_000000", H5P_DEFAULT);
    H5Lcreate_external(path("elsewhere.h5").c_str(), "/launch_000000", file, "launch_000000", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(contains(to_file, "group launch_000000 is a link to another place")) << to_file;
  const std::string to_dataset = error_of_archive([](hid_t file) {
    H5Lmove(file, offsets, file, "kept", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/kept", file, offsets, H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(contains(to_dataset, "dataset offset is a link to another place")) << to_dataset;
}

TEST_F(HostileArchive, DataInOtherFilesAreNotRead) {
  const std::string raw = file("raw", std::string(16, '\0')).string();
  const std::string external = error_of_archive([&](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(properties, raw.c_str(), 0, 16);
    replace_offsets(file, properties, 2);
  });
  EXPECT_TRUE(contains(external, "dataset offset has its data in another file")) << external;
  const std::string is_virtual = error_of_archive([&](hid_t file) {
    const hsize_t count = 2;
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(properties, space, raw.c_str(), "/offset", space);
    H5Sclose(space);
    replace_offsets(file, properties, count);
  });
  EXPECT_TRUE(contains(is_virtual, "dataset offset has its data in another file")) << is_virtual;
}

TEST_F(HostileArchive, AFewBytesDoNotUnpackToAllMemory) {
  const std::string chunk = error_of_archive([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t elements = hsize_t{1} << 28U;
    H5Pset_chunk(properties, 1, &elements);
    H5Pset_deflate(properties, 9);
    replace_offsets(file, properties, 2, &elements);
  });
  EXPECT_TRUE(contains(chunk, "stored in chunks of more than 268435456 bytes")) << chunk;
  const std::string length = error_of_archive([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t elements = 1U << 16U;
    H5Pset_chunk(properties, 1, &elements);
    replace_offsets(file, properties, hsize_t{1} << 40U);
  });
  EXPECT_TRUE(contains(length, "dataset offset is longer than what is stored of it")) << length;
}

// 512 MB of zeros, stored in half a megabyte, that no question asks for.
void replace_by_zeros(hid_t file, const char* name) {
  constexpr hsize_t of_chunk = hsize_t{1} << 19U;
  constexpr hsize_t chunks = 128;
  const hsize_t count = chunks * of_chunk;
  H5Ldelete(file, name, H5P_DEFAULT);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &of_chunk);
  H5Pset_deflate(properties, 9);
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t dataset = H5Dcreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  const std::vector<std::uint64_t> zeros(of_chunk);
  const hid_t first = H5Screate_simple(1, &of_chunk, nullptr);
  const hsize_t begin = 0;
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &of_chunk, nullptr);
  H5Dwrite(dataset, H5T_NATIVE_UINT64, first, space, H5P_DEFAULT, zeros.data());
  H5Dflush(dataset);
  hsize_t bytes = 0;
  H5Dget_chunk_storage_size(dataset, &begin, &bytes);
  std::vector<char> packed(bytes);
  std::uint32_t filters = 0;
  H5Dread_chunk(dataset, H5P_DEFAULT, &begin, &filters, packed.data());
  for (hsize_t chunk = 1; chunk < chunks; ++chunk) {
    const hsize_t at = chunk * of_chunk;
    EXPECT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &at, packed.size(), packed.data()), 0);
  }
  H5Dclose(dataset);
  H5Sclose(first);
  H5Sclose(space);
  H5Pclose(properties);
}

// Of this process, and of the copies that try to read first.
long most_kilobytes() {
  rusage self{};
  rusage copies{};
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &copies);
  return std::max(self.ru_maxrss, copies.ru_maxrss);
}

TEST_F(HostileArchive, WhatNoQuestionAsksForIsNotUnpacked) {
  constexpr long few_kilobytes = 100'000;
  for (const char* name : {offsets, "launch_000000/latency_cycles"}) {
    const auto bomb = archive([name](hid_t file) { replace_by_zeros(file, name); });
    EXPECT_LT(std::filesystem::file_size(bomb), 2U << 20U);
    const long before = most_kilobytes();
    const std::string error = error_of(bomb, [](const std::filesystem::path& file) { return archived_traces(file); });
    EXPECT_TRUE(contains(error, "dataset question does not ")) << error;
    EXPECT_LT(most_kilobytes() - before, few_kilobytes) << name;
  }
}

TEST_F(HostileArchive, OtherFiltersAreNotRun) {
  const std::string filter = error_of_archive([](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t elements = 2;
    H5Pset_chunk(properties, 1, &elements);
    H5Pset_nbit(properties);
    replace_offsets(file, properties, 2);
  });
  EXPECT_TRUE(contains(filter, "packed by a filter other than")) << filter;
}

TEST(FirstTry, DiesInPlaceOfTheProcess) {
  using std::chrono::seconds;
  EXPECT_EQ(how_first_try_dies([] {}, seconds(10)), std::nullopt);
  EXPECT_EQ(how_first_try_dies([] { throw InputError("no"); }, seconds(10)), std::nullopt);
  EXPECT_EQ(how_first_try_dies([] { std::raise(SIGSEGV); }, seconds(10)), "crashes on it (Segmentation fault)");
  EXPECT_EQ(how_first_try_dies(
                [] {
                  for (volatile bool forever = true; forever;) {
                  }
                },
                seconds(1)),
            "does not get to its end in 1 s");
  // Other programs have the processor meanwhile.
  EXPECT_EQ(how_first_try_dies([] { std::this_thread::sleep_for(seconds(2)); }, seconds(1)), std::nullopt);
}

}  // namespace
}  // namespace gpuinfer::probe
