// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive.hpp"

#include <hdf5.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "cli/parts_between.hpp"
#include "probe/latency.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: with an even first byte the bytes of an HDF5 file. With an odd one a program of which an HDF5 file is made
// that is whole and yet need not be an archive; no mutation would ever hit the checksums of one:
//   G NAME\n               begin the group of that name (`.`: the root)
//   A NAME=TEXT\n          an attribute, a text
//   L NAME=TEXT|TEXT\n     an attribute, a list of texts
//   N NAME=NUMBER\n        an attribute, a whole number
//   S NAME=TEXT|TEXT\n     a dataset of texts
//   I NAME=NUMBER NUMBER\n a dataset of whole numbers
//   F NAME=NUMBER NUMBER\n a dataset of real numbers
//   R NAME=NUMBER NUMBER\n a dataset of rows of six numbers each, as `question` is one
//   Q NAME=NUMBER NUMBER\n of five, as in gpuinfer-trace/1
namespace gpuinfer::fuzz {
namespace {

// HDF5 wants the true path of a file, which one without a name has not: this one has one in memory.
class NamedFile {
 public:
  explicit NamedFile(std::string_view bytes) : path_("/dev/shm/gpuinfer_fuzz_" + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~NamedFile() { std::remove(path_.c_str()); }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whatever HDF5 does not take is left out.
class Builder {
 public:
  explicit Builder(const NamedFile& to) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    file_ = H5Fcreate(to.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    group_ = H5Gopen2(file_, "/", H5P_DEFAULT);  // NOLINT(*-prefer-member-initializer): of the file
  }
  ~Builder() {
    H5Gclose(group_);
    H5Fclose(file_);
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  void take(std::string_view line) {
    const std::size_t equals = line.find('=');
    if (line.size() < 3) {
      return;
    }
    const std::string name(line.substr(2, equals == std::string_view::npos ? equals : equals - 2));
    if (line.front() == 'G') {
      begin_group(name);
    } else if (equals != std::string_view::npos && equals >= 2) {
      const std::string_view value = line.substr(equals + 1);
      switch (line.front()) {
        case 'A':
          texts(name, {value}, true, true);
          break;
        case 'L':
          texts(name, cli::parts_between(value, '|'), true, false);
          break;
        case 'S':
          texts(name, cli::parts_between(value, '|'), false, false);
          break;
        default:
          numbers(line.front(), name, value);
      }
    }
  }

 private:
  void begin_group(const std::string& name) {
    const hid_t next = name == "." ? H5Gopen2(file_, "/", H5P_DEFAULT)
                                   : H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (next >= 0) {
      H5Gclose(group_);
      group_ = next;
    }
  }

  void texts(const std::string& name, const std::vector<std::string_view>& values, bool is_attribute,
             bool is_scalar) const {
    std::size_t length = 1;
    for (const std::string_view value : values) {
      length = std::max(length, value.size());
    }
    std::string padded;
    for (const std::string_view value : values) {
      padded.append(value).append(length - value.size(), '\0');
    }
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, length);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    put(name, type, padded.data(), is_scalar ? 0 : values.size(), is_attribute);
    H5Tclose(type);
  }

  void numbers(char kind, const std::string& name, std::string_view text) const {
    std::vector<std::uint64_t> whole;
    std::vector<double> real;
    for (const std::string_view part : cli::parts_between(text, ' ')) {
      const std::string word(part);
      whole.push_back(std::strtoull(word.c_str(), nullptr, 10));
      real.push_back(std::strtod(word.c_str(), nullptr));
    }
    if (kind == 'N') {
      put(name, H5T_NATIVE_UINT64, whole.data(), 0, true);
    } else if (kind == 'I') {
      put(name, H5T_NATIVE_UINT64, whole.data(), whole.size(), false);
    } else if (kind == 'F') {
      put(name, H5T_NATIVE_DOUBLE, real.data(), real.size(), false);
    } else if (kind == 'R') {
      rows(name, {"launch", "warm_begin", "warm_end", "record_begin", "record_end", "latency_begin"}, std::move(whole));
    } else if (kind == 'Q') {
      rows(name, {"launch", "warm_begin", "record_begin", "record_end", "latency_begin"}, std::move(whole));
    }
  }

  void rows(const std::string& name, const std::vector<const char*>& columns, std::vector<std::uint64_t> whole) const {
    whole.resize(std::max(whole.size(), columns.size()));
    const hid_t row = H5Tcreate(H5T_COMPOUND, columns.size() * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      H5Tinsert(row, columns[i], i * sizeof(std::uint64_t), H5T_NATIVE_UINT64);
    }
    put(name, row, whole.data(), whole.size() / columns.size(), false);
    H5Tclose(row);
  }

  // count 0: one value, without a dimension.
  void put(const std::string& name, hid_t type, const void* data, hsize_t count, bool is_attribute) const {
    const hid_t space = count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr);
    const hid_t at = is_attribute
                         ? H5Acreate2(group_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT)
                         : H5Dcreate2(group_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (at >= 0) {
      is_attribute ? H5Awrite(at, type, data) : H5Dwrite(at, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
      is_attribute ? H5Aclose(at) : H5Dclose(at);
    }
    H5Sclose(space);
  }

  hid_t file_ = H5I_INVALID_HID;
  hid_t group_ = H5I_INVALID_HID;
};

void build(std::string_view program, const NamedFile& file) {
  // What HDF5 does not take it would complain of on stderr.
  static const herr_t silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static_cast<void>(silent);
  Builder builder(file);
  for (const std::string_view line : cli::parts_between(program, '\n')) {
    builder.take(line);
  }
}

void read(const NamedFile& file) {
  const auto archive = read_or_refused([&] { return probe::read_archive(file.path()); });
  const auto traces = read_or_refused([&] { return probe::archived_traces(file.path()); });
  const auto targets = read_or_refused([&] { return probe::recorded_targets(file.path()); });
  if (!archive || !traces) {
    return;
  }
  for (const model::Trace& trace : *traces) {
    require(trace.latency_cycles.size() == trace.question.record.size(), "each recorded load has a latency");
    require(std::all_of(trace.latency_cycles.begin(), trace.latency_cycles.end(), probe::is_latency),
            "latencies are such");
  }
  const auto device = probe::open_recording(file.path(), "recorded:input");
  require(targets == device->facts().targets, "targets are the same without reading all of it");
  for (const model::Trace& trace : *traces) {
    require(!device->ask({&trace.question, 1}).front().refusal, "what was recorded is answered");
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuinfer::fuzz;
  if (size > 0) {
    const std::string_view rest = text_of(data + 1, size - 1);
    const bool is_program = data[0] % 2 != 0;
    const NamedFile file(is_program ? std::string_view() : rest);
    if (is_program) {
      build(rest, file);
    }
    read(file);
  }
  return 0;
}
