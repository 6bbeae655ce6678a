// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/virtual_device.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

#include "model/access_sequence.hpp"
#include "model/description/words.hpp"
#include "model/errors.hpp"
#include "model/index_function.hpp"
#include "model/printable.hpp"
#include "model/random_streams.hpp"
#include "model/stores.hpp"
#include "model/texel_layout.hpp"
#include "model/workload.hpp"
#include "probe/virtual/virtual_cache.hpp"
#include "probe/virtual/virtual_code.hpp"
#include "probe/virtual/virtual_path.hpp"
#include "probe/virtual/virtual_slices.hpp"
#include "probe/virtual/virtual_texture.hpp"
#include "probe/virtual/virtual_threads.hpp"

namespace gpuinfer::probe {

namespace {

constexpr std::uint64_t smallest_buffer_bytes = 64ULL << 20U;

constexpr const char* latency_target = "Latency";
constexpr const char* path_of_latency = "global";

// The leaves without which the cache cannot be played and that it does not have.
std::vector<std::string_view> null_leaves(const model::CacheDescription& cache) {
  std::vector<std::string_view> leaves;
  const auto need = [&leaves](bool is_there, std::string_view leaf) {
    if (!is_there) {
      leaves.push_back(leaf);
    }
  };
  need(cache.line_bytes.has_value(), "line_bytes");
  need(cache.sector_bytes.has_value(), "sector_bytes");
  need(cache.ways.has_value(), "ways");
  need(cache.index.has_value(), "index");
  need(cache.replacement.has_value(), "replacement");
  need(cache.latency_cycles.hit.has_value(), "latency_cycles.hit");
  need(cache.latency_cycles.miss.has_value(), "latency_cycles.miss");
  return leaves;
}

// `place`: where the leaves stand in the description, such as caches.L2.
std::string refusal_of_null(const std::string& place, std::span<const std::string_view> leaves) {
  if (leaves.size() == 1) {
    return place + "." + std::string(leaves.front()) + " is null and a simulation needs it; give it a value";
  }
  return place + ": " + model::words::joined(leaves) + " are null and a simulation needs them; give them values";
}

std::string refusal_of_null(const std::string& place, std::string_view leaf) {
  return refusal_of_null(place, std::span(&leaf, 1));
}

// An index function is only found out as far as the buffer exercises its bits: as much as there is room for on a card.
std::uint64_t reach_of(const model::IndexFunction& index) {
  constexpr std::uint64_t largest_bytes = std::uint64_t{1} << 33U;
  const model::Masks masks = model::masks(index);
  const std::uint64_t mask = std::accumulate(masks.begin(), masks.end(), std::uint64_t{0}, std::bit_or<>());
  return mask >= largest_bytes ? largest_bytes : std::bit_ceil(mask + 1);
}

// Room to overflow the cache several times.
std::uint64_t buffer_bytes_for(const model::CacheDescription& cache) {
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  const std::uint64_t capacity_bytes = std::max(lines * *cache.line_bytes, cache.capacity_bytes.value_or(0));
  constexpr std::uint64_t largest_capacity_bytes = 1ULL << 60U;
  return std::max({smallest_buffer_bytes, reach_of(*cache.index),
                   std::bit_ceil(4 * std::min(capacity_bytes, largest_capacity_bytes))});
}

class VirtualDevice final : public model::Answerer {
 public:
  VirtualDevice(const model::DeviceDescription& description, const std::string& source, std::uint64_t seed,
                const std::optional<model::BufferFacts>& buffer, std::span<const std::string> asked) {
    facts_.name = description.device.name;
    facts_.source = source;
    facts_.compute_capability = description.device.compute_capability;
    facts_.sm_count = description.device.sm_count;
    facts_.buffer.bytes = smallest_buffer_bytes;
    facts_.provenance["seed"] = std::to_string(seed);
    const model::RandomStreams streams(seed);
    const model::NoiseDescription noise = description.noise.value_or(model::NoiseDescription{});
    for (const auto& [target, cache] : description.caches) {
      if (const auto leaves = null_leaves(cache); !leaves.empty()) {
        refusals_[target] = refusal_of_null("caches." + target, leaves);
        continue;
      }
      caches_.try_emplace(target, cache, noise, streams.random(target));
      if (cache.partitions) {
        refusals_of_stores_[target] = "caches." + target + ".partitions: nobody has defined what a store does to a " +
                                      "cache in parts; ask for loads only";
      } else if (const auto leaf = model::null_leaf_of_store(cache)) {
        refusals_of_stores_[target] = refusal_of_null("caches." + target, *leaf);
      } else {
        facts_.stored_targets.push_back(target);
      }
      if (VirtualCache::takes_hints(cache)) {
        facts_.hinted_targets.push_back(target);
        if (cache.set_asides && !cache.set_asides->empty()) {
          facts_.largest_set_aside_bytes =
              std::max(facts_.largest_set_aside_bytes.value_or(0), cache.set_asides->back().bytes);
        }
      }
      add_carveouts(target, cache, noise, streams);
      if (cache.slice_index) {
        slices_.try_emplace(target, *cache.slice_index, noise, streams.random(target + ".slices"));
        facts_.contended_targets.push_back(target);
      }
      facts_.targets.push_back(target);
      facts_.buffer.bytes = std::max(facts_.buffer.bytes, buffer_bytes_for(cache));
    }
    share_caches(description);
    for (const auto& [target, texture] : description.textures) {
      add_texture(target, texture, description, noise, streams.random(target));
    }
    for (const auto& [target, code] : description.code) {
      if (const auto refusal = VirtualCode::why_refused(code)) {
        refusals_[target] = "code." + target + "." + *refusal;
      } else {
        const auto made = code_.try_emplace(target, code, noise, streams.random(target)).first;
        facts_.own_buffers[target] = made->second.buffer();
        facts_.targets.push_back(target);
      }
    }
    facts_.chooses_unit = facts_.sm_count.has_value();
    if (description.paths.contains(path_of_latency)) {
      add_path(description, noise, streams);
    }
    add_threads(description, noise, streams);
    facts_.buffer = buffer.value_or(facts_.buffer);
    if (facts_.targets.empty()) {
      throw InputError(printable(source + ": " + why_nothing_is_simulated(asked)));
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

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    std::vector<model::Timing> timings(workloads.size());
    std::transform(workloads.begin(), workloads.end(), timings.begin(),
                   [this](const model::Workload& workload) { return timing(workload); });
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    const auto texture = textures_.find(target);
    return texture == textures_.end() ? std::nullopt : std::optional(texture->second.places_of(offsets));
  }

 private:
  [[nodiscard]] std::string why_nothing_is_simulated(std::span<const std::string> asked) const {
    if (refusals_.empty()) {
      return "caches is empty; describe a cache";
    }
    const auto refused =
        std::ranges::find_if(asked, [this](const std::string& target) { return refusals_.contains(target); });
    return refused == asked.end() ? refusals_.begin()->second : refusals_.at(*refused);
  }

  // The carve-outs of which it is described what the cache is like then.
  void add_carveouts(const std::string& target, const model::CacheDescription& cache,
                     const model::NoiseDescription& noise, const model::RandomStreams& streams) {
    for (const model::Carveout& carveout : cache.carveouts) {
      if (const auto smaller = model::at_carveout(cache, carveout.carveout_kb)) {
        carved_out_.try_emplace({target, carveout.carveout_kb}, *smaller, noise,
                                streams.random(target, carveout.carveout_kb));
        if (std::find(facts_.shared_memories_kb.begin(), facts_.shared_memories_kb.end(), carveout.carveout_kb) ==
            facts_.shared_memories_kb.end()) {
          facts_.shared_memories_kb.push_back(carveout.carveout_kb);
        }
      }
    }
  }

  void add_texture(const std::string& target, const model::TextureDescription& texture,
                   const model::DeviceDescription& description, const model::NoiseDescription& noise,
                   model::Random seeds) {
    if (const auto leaf = model::null_leaf(texture)) {
      refusals_[target] = refusal_of_null("textures." + target, *leaf);
      return;
    }
    if (const auto refusal = refusals_.find(*texture.cache); refusal != refusals_.end()) {
      refusals_[target] = refusal->second;
      return;
    }
    const model::CacheDescription& cache = description.caches.at(*texture.cache);
    facts_.own_buffers[target] = textures_.try_emplace(target, texture, cache, noise, seeds).first->second.buffer();
    facts_.targets.push_back(target);
  }

  void share_caches(const model::DeviceDescription& description) {
    for (auto& [target, cache] : caches_) {
      const auto& others = description.caches.at(target).shared_with;
      if (!others) {
        continue;
      }
      facts_.warm_targets.push_back(target);
      for (const std::string& other : *others) {
        if (const auto found = caches_.find(other); found != caches_.end()) {
          cache.share_cache_of(found->second);
        }
      }
    }
  }

  // What a question is put to, besides the one that warms up for it.
  VirtualCache& cache_for(const model::Question& question) {
    const auto& carveout_kb = question.circumstances.shared_memory_kb;
    return carveout_kb ? carved_out_.at({question.target, *carveout_kb}) : caches_.at(question.target);
  }

  std::vector<float> latencies_of(const model::Question& question) {
    VirtualCache& cache = cache_for(question);
    const auto& warm_target = question.circumstances.warm_target;
    if (!warm_target || caches_.at(*warm_target).shares_cache_with(cache)) {
      return cache.answer(question, facts_.buffer.address);
    }
    model::Question warm_up = question;
    model::Question recorded = question;
    warm_up.record.clear();
    recorded.warm.clear();
    static_cast<void>(caches_.at(*warm_target).answer(warm_up, facts_.buffer.address));
    return cache.answer(recorded, facts_.buffer.address);
  }

  void add_path(const model::DeviceDescription& description, const model::NoiseDescription& noise,
                const model::RandomStreams& streams) {
    try {
      path_.emplace(description, path_of_latency, noise, streams.random(latency_target));
    } catch (const InputError& incomplete) {
      refusals_[latency_target] = incomplete.what();
      return;
    }
    facts_.targets.emplace_back(latency_target);
    facts_.latency_path = description.paths.at(path_of_latency);
    facts_.latency_path->memory_latency_cycles.reset();
    // Room to go from one window of page tables to another.
    const std::uint64_t window_bytes = description.paths.at(path_of_latency).page_window_bytes.value_or(0);
    facts_.buffer.bytes = std::max(facts_.buffer.bytes, 2 * window_bytes);
  }

  void add_threads(const model::DeviceDescription& description, const model::NoiseDescription& noise,
                   const model::RandomStreams& streams) {
    // Enough to come out of memory, however large the last cache.
    constexpr std::uint64_t stream_bytes = std::uint64_t{1} << 34U;
    if (!description.shared_memory && !description.outstanding && description.bandwidth.empty() &&
        !description.cluster && description.fetches.empty()) {
      return;
    }
    threads_.emplace(description, noise, streams);
    for (const model::Workload& kind : VirtualThreads::kinds()) {
      const std::string target(target_of(kind));
      if (!threads_->describes(kind)) {
        continue;
      }
      try {
        static_cast<void>(threads_->time(kind));
        facts_.targets.push_back(target);
        facts_.own_buffers[target] = {.bytes = stream_bytes};
      } catch (const InputError& incomplete) {
        refusals_[target] = incomplete.what();
      }
    }
  }

  model::Timing timing(const model::Workload& workload) {
    const std::string target(target_of(workload));
    if (auto reason = model::why_malformed(workload)) {
      return {.cycles = {}, .seconds = {}, .refusal = std::move(reason)};
    }
    if (const auto refusal = refusals_.find(target); refusal != refusals_.end()) {
      return {.cycles = {}, .seconds = {}, .refusal = refusal->second};
    }
    if (!threads_ || !threads_->describes(workload)) {
      return {.cycles = {},
              .seconds = {},
              .refusal = facts_.source + " does not describe " + target + "; ask for one of the targets that it lists"};
    }
    try {
      return threads_->time(workload);
    } catch (const InputError& unknown) {
      return {.cycles = {}, .seconds = {}, .refusal = unknown.what()};
    }
  }

  model::Answer answer(const model::Question& question) {
    if (auto refusal = refusal_of(question)) {
      return {.latency_cycles = {}, .refusal = std::move(refusal)};
    }
    const bool of_path = path_ && question.target == latency_target;
    const auto texture = textures_.find(question.target);
    const bool of_texture = texture != textures_.end();
    if (const auto code = code_.find(question.target); code != code_.end()) {
      return {.latency_cycles = code->second.answer(question), .refusal = std::nullopt};
    }
    try {
      if (question.circumstances.contended_pairs) {
        return {.latency_cycles = slices_.at(question.target).answer(question, facts_.buffer.address),
                .refusal = std::nullopt};
      }
      return {.latency_cycles = of_path      ? path_->answer(question, facts_.buffer.address)
                                : of_texture ? texture->second.answer(question)
                                             : latencies_of(question),
              .refusal = std::nullopt};
    } catch (const InputError& unknown) {
      const std::string& cache = of_texture ? texture->second.cache_name() : question.target;
      return {.latency_cycles = {}, .refusal = (of_path ? "" : "caches." + cache + ".") + unknown.what()};
    }
  }

  std::optional<std::string> refusal_of(const model::Question& question) const {
    if (const auto refusal = refusals_.find(question.target); refusal != refusals_.end()) {
      return refusal->second;
    }
    if (std::find(facts_.targets.begin(), facts_.targets.end(), question.target) == facts_.targets.end()) {
      return facts_.source + " has no cache " + question.target + "; ask for one that it lists";
    }
    if (model::takes_workloads(question.target)) {
      return question.target + " is not a sequence of single loads; only `gpuinfer run` asks for it";
    }
    if (auto refusal = refusal_of_stores(question)) {
      return refusal;
    }
    if (auto refusal = model::refusal_of(facts_, question)) {
      return refusal;
    }
    const auto& carveout_kb = question.circumstances.shared_memory_kb;
    if (carveout_kb && !carved_out_.contains({question.target, *carveout_kb})) {
      return "caches." + question.target + ".carveouts has neither ways nor store_lines for " +
             std::to_string(*carveout_kb) + " KB; ask for another carve-out";
    }
    const std::uint64_t bytes = facts_.buffer_of(question.target).bytes;
    for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (const std::uint64_t offset : *sequence) {
        if (offset % model::load_bytes != 0 || offset > bytes - model::load_bytes) {
          return "offset " + std::to_string(offset) + " is no 4-byte load inside the buffer of " +
                 std::to_string(bytes) + " bytes; ask for multiples of 4 below its end";
        }
      }
    }
    return std::nullopt;
  }

  // Why a target that could be stored to does not take the stores of the question.
  std::optional<std::string> refusal_of_stores(const model::Question& question) const {
    const auto refusal = refusals_of_stores_.find(question.target);
    return question.circumstances.stores.empty() || refusal == refusals_of_stores_.end()
               ? std::nullopt
               : std::optional(refusal->second);
  }

  model::DeviceFacts facts_;
  std::map<std::string, VirtualCache> caches_;
  std::map<std::pair<std::string, std::uint32_t>, VirtualCache> carved_out_;  // by target and KB
  std::map<std::string, VirtualSlices> slices_;                               // by target
  std::map<std::string, VirtualTexture> textures_;
  std::map<std::string, VirtualCode> code_;
  std::optional<VirtualPath> path_;
  std::optional<VirtualThreads> threads_;
  std::map<std::string, std::string> refusals_;
  std::map<std::string, std::string> refusals_of_stores_;
};

}  // namespace

std::unique_ptr<model::Answerer> open_virtual(const model::DeviceDescription& description, const std::string& source,
                                              std::uint64_t seed, const std::optional<model::BufferFacts>& buffer,
                                              std::span<const std::string> asked) {
  return std::make_unique<VirtualDevice>(description, source, seed, buffer, asked);
}

}  // namespace gpuinfer::probe
