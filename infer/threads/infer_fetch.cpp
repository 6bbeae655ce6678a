// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_fetch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/threads/twice.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::BlockFetch;
using model::EvidenceStatus;
using model::FetchEngine;

constexpr std::array engine_leaves{"loads", "async", "bulk"};
constexpr std::uint32_t fetch_runs = 25;
constexpr std::uint32_t smallest_fetch_bytes = 16;

// Shared memory may have no room for more.
std::uint32_t largest_of(Asker& device, FetchEngine engine) {
  std::uint32_t bytes = BlockFetch::most_bytes;
  while (bytes > 32 && !device.is_taken(BlockFetch{.engine = engine, .bytes = bytes})) {
    bytes /= 2;
  }
  return bytes;
}

// Those that the device takes; another is not there, and no leaf that is open.
std::vector<FetchEngine> engines_of(Asker& device, FetchFinding& finding) {
  std::vector<FetchEngine> engines;
  for (const FetchEngine engine : model::fetch_engines) {
    if (device.is_taken(BlockFetch{.engine = engine, .bytes = smallest_fetch_bytes})) {
      engines.push_back(engine);
    }
  }
  if (engines.empty()) {
    throw Undecided("the device takes no fetch at all");
  }
  for (const FetchEngine engine : model::fetch_engines) {
    if (std::ranges::find(engines, engine) == engines.end()) {
      finding.evidence.leaves.erase(std::string(to_string(engine)));
    }
  }
  return engines;
}

double cycles_of(Asker& device, BlockFetch fetch) {
  fetch.runs = fetch_runs;
  const model::Workload workload = fetch;
  return middle_mean(device.time({&workload, 1}).front().cycles);
}

// Of the last doubling.
double rate_of(const std::vector<model::FetchCycles>& cycles, double model::FetchCycles::*member) {
  const model::FetchCycles& last = cycles.back();
  const model::FetchCycles& before = cycles[cycles.size() - 2];
  const double more = last.*member - before.*member;
  return more > 0 ? model::rounded(static_cast<double>(last.bytes - before.bytes) / more) : 0;
}

void find_engine(Asker& device, FetchEngine engine, Leaves& leaves, FetchFinding& finding) {
  const std::string name(to_string(engine));
  leaves.begin(name, "fetches of every size were not all asked for");
  device.inquire("fetches of every size by " + name + ", one SM alone and all at once",
                 "small ones take a latency, large ones what their bytes cost");
  model::FetchDescription found;
  std::vector<Twice> rounds;
  const std::uint32_t largest = largest_of(device, engine);
  for (std::uint32_t bytes = smallest_fetch_bytes; bytes <= largest; bytes *= 2) {
    model::FetchCycles cycles{.bytes = bytes};
    for (const bool by_all : {false, true}) {
      const BlockFetch fetch{.engine = engine, .bytes = bytes, .by_all = by_all};
      const double first = cycles_of(device, fetch);
      const double again = cycles_of(device, fetch);
      rounds.push_back({.of_what = model::to_text(bytes) + " bytes" + (by_all ? " by all SMs" : ""),
                        .first = first,
                        .second = again});
      (by_all ? cycles.all : cycles.one) = model::rounded((first + again) / 2);
    }
    found.cycles.push_back(cycles);
  }
  found.one_bytes_per_cycle = rate_of(found.cycles, &model::FetchCycles::one);
  found.all_bytes_per_cycle = rate_of(found.cycles, &model::FetchCycles::all);
  const auto doubt = why_not_again(rounds, true);
  device.learned(doubt.value_or(model::to_text(found.one_bytes_per_cycle) + " bytes a cycle by one SM, " +
                                model::to_text(found.all_bytes_per_cycle) + " by each of all"));
  if (doubt) {
    leaves.leave_open(name, EvidenceStatus::ambiguous, *doubt);
  } else {
    finding.fetches[name] = std::move(found);
    leaves.resolve(name, rounds.size());
  }
}

}  // namespace

FetchFinding infer_fetch(model::Answerer& device, const std::string& target, const Settings& settings) {
  Asker interrogator(device, target, settings);
  FetchFinding finding;
  Leaves leaves(interrogator, finding, engine_leaves);
  static_cast<void>(leaves.go_through([&] {
    const std::vector<FetchEngine> engines = engines_of(interrogator, finding);
    for (std::size_t i = 0; i < engines.size(); ++i) {
      interrogator.report(std::string(to_string(engines[i])),
                          static_cast<double>(i) / static_cast<double>(engines.size()));
      find_engine(interrogator, engines[i], leaves, finding);
    }
    interrogator.report("done", 1.0);
  }));
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
