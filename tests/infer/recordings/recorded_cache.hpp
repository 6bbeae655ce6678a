// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "infer/recordings/recorded.hpp"
#include "model/cache_simulator.hpp"

namespace gpuinfer::infer {

// Recordings of a simulated cache, read without error, and the finding that is to come of them.
class RecordedCache {
 public:
  explicit RecordedCache(model::CacheDescription cache) : cache_(std::move(cache)) {
    finding.cache.latency_cycles = {.hit = 100, .miss = 300};
    all.fill = {.bytes = *cache_.sector_bytes, .is_known = true};
  }

  // From a clean start; `warm` is not recorded.
  void play(model::AccessSequence warm, model::AccessSequence record) {
    model::Trace& trace = traces_.emplace_back();
    ReadTrace& read = all.traces.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
    const auto simulator = model::CacheSimulator::make(cache_, 1);
    simulator->put_into(model::StartState::clean);
    simulator->play(warm, {});
    std::vector<model::Outcome> outcomes(record.size());
    simulator->play(record, outcomes);
    for (const model::Outcome outcome : outcomes) {
      const bool is_hit = outcome == model::Outcome::hit;
      read.readings.push_back(is_hit ? Reading::hit : Reading::miss);
      trace.latency_cycles.push_back(is_hit ? 100.0F : 300.0F);
    }
    trace.question = {
        .target = "L1tex", .state = model::StartState::clean, .warm = std::move(warm), .record = std::move(record)};
  }

  [[nodiscard]] RecordedLeaves leaves() {
    classify(all);
    return {finding, traces_.size()};
  }
  [[nodiscard]] model::EvidenceStatus status(const char* leaf) const { return finding.evidence.leaves.at(leaf).status; }

  ReadTraces all;
  CacheFinding finding;

 private:
  model::CacheDescription cache_;
  std::deque<model::Trace> traces_;
};

// Sets of as many ways each, by the address bits above the line.
inline model::CacheDescription some_cache(unsigned set_bits, std::uint32_t ways, const char* policy) {
  constexpr std::uint64_t line_bytes = 32;
  constexpr unsigned line_bits = 5;
  model::CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = line_bytes;
  cache.ways.emplace(std::size_t{1} << set_bits, ways);
  cache.capacity_bytes = line_bytes * ways * cache.ways->size();
  model::BitsIndex index;
  for (unsigned bit = 0; bit < set_bits; ++bit) {
    index.bits.push_back(line_bits + bit);
  }
  cache.index = index;
  cache.replacement = model::Replacement{.policy = policy, .parameters = {}, .equivalent = {}};
  return cache;
}

}  // namespace gpuinfer::infer
