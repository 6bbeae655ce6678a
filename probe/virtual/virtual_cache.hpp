// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "model/answerer.hpp"
#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/hinted_cache.hpp"
#include "model/policies/lru.hpp"
#include "model/random.hpp"
#include "probe/virtual/noise.hpp"
#include "probe/virtual/virtual_parts.hpp"

namespace gpuinfer::probe {

// One load path to a cache, with random streams of its own, so that what is asked of another does not show in its
// answers. Several paths may lead to one cache.
class VirtualCache {
 public:
  VirtualCache(const model::CacheDescription& cache, const model::NoiseDescription& noise, model::Random seeds)
      : hit_cycles_(*cache.latency_cycles.hit), miss_cycles_(*cache.latency_cycles.miss),
        dirty_miss_cycles_(cache.latency_cycles.dirty_miss.value_or(miss_cycles_)),
        simulator_(model::CacheSimulator::make(cache, seeds())), noise_(noise, seeds()) {
    if (cache.hints && takes_hints(cache)) {
      hinted_ = std::make_shared<model::HintedCache>(cache);
      description_ = cache;
    }
    if (cache.partitions) {
      parts_ = std::make_shared<VirtualParts>(*cache.partitions, *cache.sector_bytes);
    }
  }

  // Nobody has defined what stores, or parts, do beside them.
  [[nodiscard]] static bool takes_hints(const model::CacheDescription& cache) {
    return cache.hints && !cache.store && !cache.partitions && !cache.sweep && cache.fill.lines_ahead() == 0 &&
           cache.replacement->policy == model::Lru::name;
  }

  void share_cache_of(const VirtualCache& other) {
    hinted_ = other.hinted_;
    simulator_ = other.simulator_;
    parts_ = other.parts_;
  }
  [[nodiscard]] bool shares_cache_with(const VirtualCache& other) const { return simulator_ == other.simulator_; }

  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    if (parts_) {
      return answer_in_parts(question, address_of_buffer);
    }
    if (hinted_) {
      hinted_->protect(model::protected_ways(description_, question));
      return timed(model::outcomes_of(*hinted_, question, address_of_buffer));
    }
    if (dirty_miss_cycles_ != miss_cycles_ || !question.circumstances.stores.empty()) {
      return answer_with_stores(question, address_of_buffer);
    }
    return timed(model::outcomes_of(*simulator_, question, address_of_buffer));
  }

 private:
  std::vector<float> timed(const std::vector<model::Outcome>& outcomes) {
    std::vector<float> latency_cycles(outcomes.size());
    std::ranges::transform(outcomes, latency_cycles.begin(), [this](model::Outcome each) { return timed(each); });
    return latency_cycles;
  }

  float timed(model::Outcome outcome, double extra_of_hit = 0, double extra_of_miss = 0) {
    const bool seen_as_miss = model::is_miss(outcome) != noise_.misreads();
    return noise_.timed(seen_as_miss ? miss_cycles_ + extra_of_miss : hit_cycles_ + extra_of_hit);
  }

  // A load that misses may have to wait until a line that stores have written is out of its way. Nobody waits for a
  // store.
  std::vector<float> answer_with_stores(const model::Question& question, model::Address address_of_buffer) {
    const std::vector<model::AccessEvent> events = model::events_of(*simulator_, question, address_of_buffer);
    const std::vector<model::AccessKind> kinds = model::kinds_of(question);
    std::vector<float> latency_cycles(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (kinds[question.warm.size() + i] == model::AccessKind::load) {
        const double more_cycles = events[i].victim_is_dirty ? dirty_miss_cycles_ - miss_cycles_ : 0;
        latency_cycles[i] = timed(events[i].outcome, 0, more_cycles);
      }
    }
    return latency_cycles;
  }

  // What is near depends on the warm-up as well.
  std::vector<float> answer_in_parts(const model::Question& question, model::Address address_of_buffer) {
    model::Question whole = question;
    whole.warm.clear();
    whole.record.insert(whole.record.begin(), question.warm.begin(), question.warm.end());
    const std::vector<model::Outcome> outcomes = model::outcomes_of(*simulator_, whole, address_of_buffer);
    parts_->put_into(question.state);
    std::vector<float> latency_cycles;
    latency_cycles.reserve(question.record.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const double extra_cycles = parts_->extra_cycles(address_of_buffer + whole.record[i], question.circumstances.unit,
                                                       model::is_miss(outcomes[i]));
      if (i >= question.warm.size()) {
        latency_cycles.push_back(timed(outcomes[i], extra_cycles));
      }
    }
    return latency_cycles;
  }

  double hit_cycles_;
  double miss_cycles_;
  double dirty_miss_cycles_;
  std::shared_ptr<model::CacheSimulator> simulator_;
  std::shared_ptr<model::HintedCache> hinted_;  // in its place; null: the cache takes no hints
  model::CacheDescription description_;         // of what is hinted
  std::shared_ptr<VirtualParts> parts_;         // null: all is near
  Noise noise_;
};

}  // namespace gpuinfer::probe
