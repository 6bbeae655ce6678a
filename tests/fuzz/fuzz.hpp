// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/errors.hpp"

// What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(): it hands the bytes to a reader and
// does a little with what the reader lets in. An Error of one sentence is a good answer; any other exception, a failed
// require(), a report of a sanitizer, more than a second or more memory than scripts/fuzz allows is a finding.
namespace gpuinfer::fuzz {

inline void require(bool holds, const char* what) {
  if (!holds) {
    static_cast<void>(std::fprintf(stderr, "fuzz: does not hold: %s\n", what));
    std::abort();
  }
}

// What `read` returns, or none where it throws an Error.
template <class Read>
auto read_or_refused(Read&& read) -> std::optional<decltype(read())> {
  try {
    return std::forward<Read>(read)();
  } catch (const Error& error) {
    const std::string_view sentence = error.what();
    require(!sentence.empty() && sentence.find('\n') == std::string_view::npos, "an error is one sentence");
    return std::nullopt;
  }
}

// The same of work that returns nothing. True where it was done.
template <class Work>
bool done_or_refused(Work&& work) {
  return read_or_refused([&] {
           std::forward<Work>(work)();
           return true;
         })
      .has_value();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Bytes under a name by which a reader can open them, without a disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : number_(memfd_create("input", MFD_CLOEXEC)) {
    require(number_ >= 0, "there is room for another file");
    while (!bytes.empty()) {
      const ssize_t written = ::write(number_, bytes.data(), bytes.size());
      require(written > 0, "a file in memory takes bytes");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  ~MemoryFile() { ::close(number_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }

 private:
  int number_;
};

}  // namespace gpuinfer::fuzz
