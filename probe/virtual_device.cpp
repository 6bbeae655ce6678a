// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/virtual_device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/random.hpp"

namespace gpuinfer::probe {

namespace {

constexpr std::uint64_t load_bytes = 4;
constexpr std::uint64_t smallest_buffer_bytes = 64ULL << 20U;

// The first leaf without which the cache cannot be played.
std::optional<std::string_view> null_leaf(const model::CacheDescription& cache) {
  if (!cache.line_bytes) {
    return "line_bytes";
  }
  if (!cache.sector_bytes) {
    return "sector_bytes";
  }
  if (!cache.ways) {
    return "ways";
  }
  if (!cache.index) {
    return "index";
  }
  if (!cache.replacement) {
    return "replacement";
  }
  if (!cache.latency_cycles.hit) {
    return "latency_cycles.hit";
  }
  if (!cache.latency_cycles.miss) {
    return "latency_cycles.miss";
  }
  return std::nullopt;
}

std::string refusal_of_null(const std::string& target, std::string_view leaf) {
  return "caches." + target + "." + std::string(leaf) + " is null and a simulation needs it; give it a value";
}

// Room to overflow the cache several times.
std::uint64_t buffer_bytes_for(const model::CacheDescription& cache) {
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  const std::uint64_t capacity_bytes = std::max(lines * *cache.line_bytes, cache.capacity_bytes.value_or(0));
  constexpr std::uint64_t largest_capacity_bytes = 1ULL << 60U;
  return std::max(smallest_buffer_bytes, std::bit_ceil(4 * std::min(capacity_bytes, largest_capacity_bytes)));
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

// One cache with random streams of its own, so that what is asked of another does not show in its answers.
class VirtualCache {
 public:
  VirtualCache(const model::CacheDescription& cache, const model::NoiseDescription& noise, model::Random seeds)
      : hit_cycles_(*cache.latency_cycles.hit), miss_cycles_(*cache.latency_cycles.miss), noise_(noise),
        simulator_(model::CacheSimulator::make(cache, seeds())), random_(seeds()) {}

  std::vector<float> answer(const model::Question& question, std::uint64_t address_of_buffer) {
    const std::vector<model::Outcome> outcomes = model::outcomes_of(*simulator_, question, address_of_buffer);
    std::vector<float> latency_cycles(outcomes.size());
    std::transform(outcomes.begin(), outcomes.end(), latency_cycles.begin(),
                   [this](model::Outcome outcome) { return timed(model::is_miss(outcome)); });
    return latency_cycles;
  }

 private:
  float timed(bool miss) {
    const bool seen_as_miss = miss != happens(noise_.misread_probability);
    double cycles = seen_as_miss ? miss_cycles_ : hit_cycles_;
    if (noise_.jitter_cycles > 0) {
      cycles += random_.normal() * noise_.jitter_cycles;
    }
    if (happens(noise_.outlier_probability)) {
      cycles += noise_.outlier_cycles;
    }
    return static_cast<float>(std::max(0.0, std::round(cycles)));
  }

  bool happens(double probability) { return probability > 0 && random_.unit() < probability; }

  double hit_cycles_;
  double miss_cycles_;
  model::NoiseDescription noise_;
  std::unique_ptr<model::CacheSimulator> simulator_;
  model::Random random_;
};

class VirtualDevice final : public model::Answerer {
 public:
  VirtualDevice(const model::DeviceDescription& description, const std::string& source, std::uint64_t seed) {
    facts_.name = description.device.name;
    facts_.source = source;
    facts_.compute_capability = description.device.compute_capability;
    facts_.sm_count = description.device.sm_count;
    facts_.buffer_bytes = smallest_buffer_bytes;
    facts_.provenance["seed"] = std::to_string(seed);
    for (const auto& [target, cache] : description.caches) {
      if (const auto leaf = null_leaf(cache)) {
        refusals_[target] = refusal_of_null(target, *leaf);
        continue;
      }
      const model::Random seeds(seed ^ fnv1a(target));
      caches_.try_emplace(target, cache, description.noise.value_or(model::NoiseDescription{}), seeds);
      facts_.targets.push_back(target);
      facts_.buffer_bytes = std::max(facts_.buffer_bytes, buffer_bytes_for(cache));
    }
    if (caches_.empty()) {
      throw InputError(source + ": " +
                       (refusals_.empty() ? "caches is empty; describe a cache" : refusals_.begin()->second));
    }
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    answers.reserve(questions.size());
    for (const model::Question& question : questions) {
      answers.push_back(answer(question));
    }
    return answers;
  }

 private:
  model::Answer answer(const model::Question& question) {
    if (auto refusal = refusal_of(question)) {
      return {.latency_cycles = {}, .refusal = std::move(refusal)};
    }
    try {
      return {.latency_cycles = caches_.at(question.target).answer(question, facts_.address_of_buffer),
              .refusal = std::nullopt};
    } catch (const InputError& outside_the_index) {
      return {.latency_cycles = {}, .refusal = "caches." + question.target + "." + outside_the_index.what()};
    }
  }

  std::optional<std::string> refusal_of(const model::Question& question) const {
    if (const auto refusal = refusals_.find(question.target); refusal != refusals_.end()) {
      return refusal->second;
    }
    if (!caches_.contains(question.target)) {
      return facts_.source + " has no cache " + question.target + "; ask for one that it lists";
    }
    for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (const std::uint64_t offset : *sequence) {
        if (offset % load_bytes != 0 || offset > facts_.buffer_bytes - load_bytes) {
          return "offset " + std::to_string(offset) + " is no 4-byte load inside the buffer of " +
                 std::to_string(facts_.buffer_bytes) + " bytes; ask for multiples of 4 below its end";
        }
      }
    }
    return std::nullopt;
  }

  model::DeviceFacts facts_;
  std::map<std::string, VirtualCache> caches_;
  std::map<std::string, std::string> refusals_;
};

}  // namespace

std::unique_ptr<model::Answerer> open_virtual(const model::DeviceDescription& description, const std::string& source,
                                              std::uint64_t seed) {
  return std::make_unique<VirtualDevice>(description, source, seed);
}

}  // namespace gpuinfer::probe
