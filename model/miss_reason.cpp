// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/miss_reason.hpp"

#include <numeric>

#include "model/policies/lru.hpp"

namespace gpuinfer::model {

namespace {

CacheDescription as_one_set(const CacheDescription& cache) {
  CacheDescription one_set;
  one_set.line_bytes = cache.line_bytes;
  one_set.sector_bytes = cache.line_bytes;
  if (cache.ways) {
    one_set.ways = {std::accumulate(cache.ways->begin(), cache.ways->end(), 0U)};
  }
  one_set.index = BitsIndex{};
  one_set.replacement = plain<Lru>();
  return one_set;
}

}  // namespace

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::cold:
      return "cold";
    case MissReason::capacity:
      return "capacity";
    case MissReason::conflict:
      return "conflict";
    case MissReason::sector:
      return "sector";
  }
  return "cold";
}

MissReasons::MissReasons(const CacheDescription& cache)
    : line_bytes_(cache.line_bytes.value_or(1)), one_set_(CacheSimulator::make(as_one_set(cache), 0)) {}

MissReason MissReasons::next(Address address, Outcome outcome) {
  const bool is_first = seen_.insert(address / line_bytes_).second;
  const bool misses_anyway = is_miss(one_set_->step(address, AccessKind::load).outcome);
  if (outcome == Outcome::sector_miss) {
    return MissReason::sector;
  }
  if (is_first) {
    return MissReason::cold;
  }
  return misses_anyway ? MissReason::capacity : MissReason::conflict;
}

}  // namespace gpuinfer::model
