// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/journal.hpp"

#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tests/probe/journal_bytes.hpp"

// Input: with an even first byte the bytes of a journal. With an odd one payloads, each behind its length in two bytes,
// of which a journal with right checksums is made: no mutation would ever hit those.
namespace gpuinfer::fuzz {
namespace {

std::string journal_of(std::string_view lengths_and_payloads) {
  std::vector<std::string> payloads;
  while (lengths_and_payloads.size() > 2) {
    const std::size_t length = static_cast<unsigned char>(lengths_and_payloads[0]) +
                               std::size_t{256} * static_cast<unsigned char>(lengths_and_payloads[1]);
    payloads.emplace_back(lengths_and_payloads.substr(2, length));
    lengths_and_payloads.remove_prefix(2 + payloads.back().size());
  }
  return probe::journal_of(payloads);
}

void read(std::string_view bytes) {
  const MemoryFile file(bytes);
  done_or_refused([&] {
    probe::JournalReader reader(file.path());
    require(reader.whole_bytes() + reader.dropped_bytes() == bytes.size(), "each byte counts or was dropped");
    for (const char* target : {"L1tex", "Shared"}) {
      while (const auto answered = reader.next_question(target)) {
        require(answered->question.target == target, "an answer is of the target that was asked for");
        require(answered->answer.refusal || answered->answer.latency_cycles.size() == answered->question.record.size(),
                "each recorded load has a latency");
      }
      while (const auto timed = reader.next_workload(target)) {
        require(model::target_of(timed->workload) == target, "a timing is of the target that was asked for");
      }
    }
  });
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuinfer::fuzz;
  if (size > 0) {
    const std::string_view rest = text_of(data + 1, size - 1);
    read(data[0] % 2 == 0 ? std::string(rest) : journal_of(rest));
  }
  return 0;
}
