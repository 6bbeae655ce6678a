// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "probe/importers.hpp"
#include "probe/latency.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: which form in the first byte, then the text of a recording in that form.
namespace gpuinfer::fuzz {
namespace {

void check(const std::vector<model::Trace>& traces) {
  require(!traces.empty(), "what is read holds a trace");
  for (const model::Trace& trace : traces) {
    require(trace.latency_cycles.size() == trace.question.record.size(), "each recorded load has a latency");
    require(std::all_of(trace.latency_cycles.begin(), trace.latency_cycles.end(), probe::is_latency),
            "latencies are such");
    require(trace.start_is_known == (trace.question.state != model::StartState::keep),
            "the state at the start says whether it is known");
  }
}

void check(const std::vector<model::SetSequence>& sequences) {
  require(!sequences.empty(), "what is read holds a sequence");
  for (const model::SetSequence& sequence : sequences) {
    const auto counted = static_cast<std::size_t>(std::count_if(sequence.accesses.begin(), sequence.accesses.end(),
                                                                [](const auto& access) { return access.is_counted; }));
    require(sequence.hits <= counted, "no more hits than accesses that are counted");
    require(sequence.is_hit.empty() || sequence.is_hit.size() == counted, "each has a result, or none has");
  }
}

void read(unsigned form, std::string_view text) {
  const MemoryFile file(text);
  done_or_refused([&] {
    switch (form % 5) {
      case 0:
        check(probe::read_mei(file.path()));
        break;
      case 1:
        check({probe::read_csv(file.path())});
        break;
      case 2:
        check(probe::read_mt4g(file.path()));
        break;
      case 3:
        static_cast<void>(probe::holds_set_sequences(file.path()));
        check(probe::read_set_sequences(file.path()));
        break;
      default:
        // Archives have a target of their own.
        if (!text.starts_with("\x89HDF")) {
          check(probe::read_traces(file.path()));
        }
    }
  });
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    gpuinfer::fuzz::read(data[0], gpuinfer::fuzz::text_of(data + 1, size - 1));
  }
  return 0;
}
