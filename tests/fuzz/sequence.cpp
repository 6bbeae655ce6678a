// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sequence_option.hpp"

#include "tests/fuzz/fuzz.hpp"

// Input: what follows --sequence, of loads and stores with an even first byte and of texels with an odd one. Behind
// `csv:` stands not the name of a file but what it holds.
namespace gpuinfer::fuzz {
namespace {

// Longer ones are let in, too; making them takes longer than an input may.
constexpr std::uint64_t most_accesses = 1U << 16U;

void read(bool of_texels, const std::string& text) {
  if (of_texels) {
    const std::uint64_t width = text.size() % 97 + 1;
    if (const auto texels = read_or_refused([&] { return cli::parse_texels(text, width, 40); })) {
      require(text.starts_with("csv:") || texels->size() == width * 40, "each texel comes once");
    }
  } else if (const auto accesses = read_or_refused([&] { return cli::parse_accesses(text, 1, most_accesses); })) {
    require(accesses->offsets.size() == accesses->kinds.size(), "each access is a load or a store");
    require(accesses->offsets.size() <= most_accesses, "no more than was allowed");
  }
}

void read_any(bool of_texels, const std::string& text) {
  constexpr std::string_view csv = "csv:";
  if (text.starts_with(csv)) {
    const MemoryFile file(std::string_view(text).substr(csv.size()));
    read(of_texels, std::string(csv) + file.path());
  } else {
    read(of_texels, text.substr(0, text.find('\n')));
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    gpuinfer::fuzz::read_any(data[0] % 2 != 0, std::string(gpuinfer::fuzz::text_of(data + 1, size - 1)));
  }
  return 0;
}
