// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/virtual_device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/description/words.hpp"
#include "model/errors.hpp"
#include "model/hierarchy.hpp"
#include "model/kernels.hpp"
#include "model/partitions.hpp"
#include "model/printable.hpp"
#include "model/random_streams.hpp"
#include "model/stores.hpp"
#include "model/stream_simulator.hpp"
#include "model/texel_layout.hpp"
#include "model/workload.hpp"

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

class Noise {
 public:
  Noise(const model::NoiseDescription& noise, std::uint64_t seed) : noise_(noise), random_(seed) {}

  bool misreads() { return happens(noise_.misread_probability); }

  double disturbed(double cycles) {
    if (noise_.jitter_cycles > 0) {
      cycles += random_.normal() * noise_.jitter_cycles;
    }
    if (happens(noise_.outlier_probability)) {
      cycles += noise_.outlier_cycles;
    }
    return cycles;
  }

  float timed(double cycles) { return static_cast<float>(std::max(0.0, std::round(disturbed(cycles)))); }

 private:
  bool happens(double probability) { return probability > 0 && random_.unit() < probability; }

  model::NoiseDescription noise_;
  model::Random random_;
};

// Which hits of a cache in parts are far. A copy stays for as long as what it is a copy of.
class VirtualParts {
 public:
  VirtualParts(model::Partitions partitions, std::uint64_t sector_bytes)
      : partitions_(std::move(partitions)), sector_bytes_(sector_bytes) {}

  void put_into(model::StartState state) {
    if (state != model::StartState::keep) {
      copied_to_.clear();
    }
  }

  // How much longer a load takes than if all were near. Throws InputError where a table does not cover the address.
  double extra_cycles(model::Address address, std::optional<model::ComputeUnit> sm, bool is_miss) {
    const std::uint32_t near = model::near_part(partitions_, sm);
    bool is_far = model::home_of(partitions_, sector_bytes_, address, "partitions.index") != near;
    if (partitions_.keeps_copies && (is_far || is_miss)) {
      std::vector<std::uint32_t>& parts = copied_to_[address / sector_bytes_];
      if (is_miss) {
        parts.clear();
      }
      if (std::find(parts.begin(), parts.end(), near) != parts.end()) {
        is_far = false;
      } else if (is_far) {
        parts.push_back(near);
      }
    }
    return is_far && !is_miss ? partitions_.far_cycles : 0;
  }

 private:
  model::Partitions partitions_;
  std::uint64_t sector_bytes_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> copied_to_;  // sector -> the parts besides its home
};

// One load path to a cache, with random streams of its own, so that what is asked of another does not show in its
// answers. Several paths may lead to one cache.
class VirtualCache {
 public:
  VirtualCache(const model::CacheDescription& cache, const model::NoiseDescription& noise, model::Random seeds)
      : hit_cycles_(*cache.latency_cycles.hit), miss_cycles_(*cache.latency_cycles.miss),
        dirty_miss_cycles_(cache.latency_cycles.dirty_miss.value_or(miss_cycles_)),
        simulator_(model::CacheSimulator::make(cache, seeds())), noise_(noise, seeds()) {
    if (cache.partitions) {
      parts_ = std::make_shared<VirtualParts>(*cache.partitions, *cache.sector_bytes);
    }
  }

  void share_cache_of(const VirtualCache& other) {
    simulator_ = other.simulator_;
    parts_ = other.parts_;
  }
  [[nodiscard]] bool shares_cache_with(const VirtualCache& other) const { return simulator_ == other.simulator_; }

  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    if (parts_) {
      return answer_in_parts(question, address_of_buffer);
    }
    if (dirty_miss_cycles_ != miss_cycles_ || !question.circumstances.stores.empty()) {
      return answer_with_stores(question, address_of_buffer);
    }
    const std::vector<model::Outcome> outcomes = model::outcomes_of(*simulator_, question, address_of_buffer);
    std::vector<float> latency_cycles(outcomes.size());
    std::transform(outcomes.begin(), outcomes.end(), latency_cycles.begin(),
                   [this](model::Outcome outcome) { return timed(outcome); });
    return latency_cycles;
  }

 private:
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
  std::shared_ptr<VirtualParts> parts_;  // null: all is near
  Noise noise_;
};

// Contended pairs of a cache in slices, with a random stream of its own.
class VirtualSlices {
 public:
  VirtualSlices(model::SliceIndex slices, const model::NoiseDescription& noise, model::Random seeds)
      : slices_(std::move(slices)), noise_(noise, seeds()) {}

  // Throws InputError where a table does not cover an address.
  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    std::vector<float> cycles;
    cycles.reserve(question.record.size());
    for (std::size_t i = 0; i < question.record.size(); i += 2) {
      const bool are_together =
          slice_at(address_of_buffer + question.record[i]) == slice_at(address_of_buffer + question.record[i + 1]);
      cycles.insert(cycles.end(), 2, timed(are_together));
    }
    return cycles;
  }

 private:
  [[nodiscard]] std::uint32_t slice_at(model::Address address) const {
    return model::covered_set_of(slices_.index, address, "slice_index.index");
  }
  float timed(bool are_together) {
    return noise_.timed(are_together != noise_.misreads() ? slices_.together_cycles : slices_.apart_cycles);
  }

  model::SliceIndex slices_;
  Noise noise_;
};

// A two-dimensional texture, read through a cache of its own.
class VirtualTexture {
 public:
  VirtualTexture(const model::TextureDescription& texture, const model::CacheDescription& cache,
                 const model::NoiseDescription& noise, model::Random seeds)
      : raster_{.texel_bytes = texture.texel_bytes, .width = texture.width, .height = texture.height}, layout_(texture),
        cache_name_(*texture.cache), cache_(cache, noise, seeds) {}

  [[nodiscard]] const std::string& cache_name() const { return cache_name_; }

  [[nodiscard]] model::BufferFacts buffer() const {
    return {.bytes = raster_.texel_bytes * raster_.width * raster_.height, .address = {}, .raster = raster_};
  }

  std::vector<float> answer(model::Question question) {
    for (model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (std::uint64_t& offset : *sequence) {
        offset = place_of(offset);
      }
    }
    return cache_.answer(question, {});
  }

  [[nodiscard]] std::vector<std::uint64_t> places_of(std::span<const std::uint64_t> offsets) const {
    std::vector<std::uint64_t> places(offsets.size());
    std::ranges::transform(offsets, places.begin(), [this](std::uint64_t offset) { return place_of(offset); });
    return places;
  }

 private:
  [[nodiscard]] std::uint64_t place_of(std::uint64_t offset) const {
    return layout_.offset_of(model::texel_at(raster_, offset)) + offset % raster_.texel_bytes;
  }

  model::Raster raster_;
  model::TexelLayout layout_;
  std::string cache_name_;
  VirtualCache cache_;
};

// Straight-line code that runs through caches of pieces, each level with the least recently run ones.
class VirtualCode {
 public:
  VirtualCode(const model::CodeDescription& code, const model::NoiseDescription& noise, model::Random seeds)
      : piece_bytes_(code.piece_bytes), levels_(*code.levels), noise_(noise, seeds()) {}

  [[nodiscard]] static std::optional<std::string> why_refused(const model::CodeDescription& code) {
    if (!code.levels) {
      return "levels is null and a simulation needs it; give it a value";
    }
    if (fitting_pieces(*code.levels, code.piece_bytes) > most_pieces) {
      return "levels has one that fits more than " + std::to_string(most_pieces) +
             " pieces, too many for a simulation; describe larger pieces";
    }
    return std::nullopt;
  }

  // Twice the code that fits the last level with an end.
  [[nodiscard]] model::BufferFacts buffer() const {
    constexpr std::uint64_t fewest_pieces = 64;
    return {.bytes = std::max(fewest_pieces, 2 * fitting_pieces(levels_, piece_bytes_)) * piece_bytes_,
            .piece_bytes = piece_bytes_};
  }

  std::vector<float> answer(const model::Question& question) {
    if (question.state != model::StartState::keep) {
      last_runs_.clear();
    }
    for (const std::uint64_t offset : question.warm) {
      static_cast<void>(run(offset / piece_bytes_));
    }
    std::vector<float> cycles(question.record.size());
    std::transform(question.record.begin(), question.record.end(), cycles.begin(),
                   [this](std::uint64_t offset) { return noise_.timed(run(offset / piece_bytes_)); });
    return cycles;
  }

 private:
  static constexpr std::uint64_t most_pieces = 4096;

  static std::uint64_t fitting_pieces(const std::vector<model::CodeLevel>& levels, std::uint64_t piece_bytes) {
    return levels.size() > 1 ? *levels[levels.size() - 2].fits_bytes / piece_bytes : 0;
  }

  double run(std::uint64_t piece) {
    const auto last = std::find(last_runs_.begin(), last_runs_.end(), piece);
    const auto others = static_cast<std::uint64_t>(last - last_runs_.begin());
    const bool is_known = last != last_runs_.end();
    if (is_known) {
      last_runs_.erase(last);
    }
    last_runs_.insert(last_runs_.begin(), piece);
    const auto level = std::find_if(levels_.begin(), levels_.end(), [&](const model::CodeLevel& each) {
      return !each.fits_bytes || (is_known && others < *each.fits_bytes / piece_bytes_);
    });
    return level->cycles;
  }

  std::uint64_t piece_bytes_;
  std::vector<model::CodeLevel> levels_;
  std::vector<std::uint64_t> last_runs_;  // the last one first
  Noise noise_;
};

// A path of memory, with caches and random streams of its own.
class VirtualPath {
 public:
  VirtualPath(const model::DeviceDescription& device, const std::string& path, const model::NoiseDescription& noise,
              model::Random seeds)
      : last_cache_(static_cast<std::uint8_t>(device.paths.at(path).caches.size() - 1)), latencies_(device, path),
        simulator_(device, path, seeds()), noise_(noise, seeds()) {}

  std::vector<float> answer(const model::Question& question, model::Address address_of_buffer) {
    const std::vector<model::AccessClass> classes = model::classes_of(simulator_, question, address_of_buffer);
    std::vector<float> latency_cycles(classes.size());
    std::transform(classes.begin(), classes.end(), latency_cycles.begin(), [this](const model::AccessClass& access) {
      return noise_.timed(latencies_.of(noise_.misreads() ? misread(access) : access).cycles);
    });
    return latency_cycles;
  }

 private:
  // As if the data had been in memory instead of a cache, or in the last cache instead of memory.
  [[nodiscard]] model::AccessClass misread(const model::AccessClass& access) const {
    return {.cache = access.cache ? std::nullopt : std::optional(last_cache_),
            .translation = access.translation,
            .far = false};
  }

  std::uint8_t last_cache_;
  model::PathLatencies latencies_;
  model::HierarchySimulator simulator_;
  Noise noise_;
};

// What many threads do at once, each kind of workload with random streams of its own.
class VirtualThreads {
 public:
  VirtualThreads(model::DeviceDescription description, const model::NoiseDescription& noise,
                 const model::RandomStreams& streams)
      : description_(std::move(description)) {
    for (const model::Workload& kind : kinds()) {
      const std::string target(target_of(kind));
      noise_.try_emplace(target, noise, streams.random("threads of " + target)());
    }
  }

  // One small workload of each kind.
  [[nodiscard]] static std::vector<model::Workload> kinds() {
    return {model::SharedLoads{}, model::ConcurrentLoads{},
            model::Stream{.path = model::StreamPath::global_cg, .dataset_bytes = 1024}, model::KernelRun{}};
  }

  [[nodiscard]] bool describes(const model::Workload& kind) const {
    return std::holds_alternative<model::SharedLoads>(kind)       ? description_.shared_memory.has_value()
           : std::holds_alternative<model::ConcurrentLoads>(kind) ? description_.outstanding.has_value()
           : std::holds_alternative<model::KernelRun>(kind)       ? describes_kernels()
                                                                  : !description_.bandwidth.empty();
  }

  // Throws InputError that names what is not described.
  model::Timing time(const model::Workload& workload) {
    const model::StreamTime once = std::visit([this](const auto& each) { return time_once(each); }, workload);
    const auto runs = std::visit([](const auto& each) { return std::size_t{each.runs}; }, workload);
    Noise& noise = noise_.at(std::string(target_of(workload)));
    model::Timing timing;
    for (std::size_t i = 0; i < runs; ++i) {
      const double cycles = std::max(1.0, noise.disturbed(once.cycles));
      timing.cycles.push_back(cycles);
      if (once.seconds > 0) {
        timing.seconds.push_back(once.seconds * cycles / once.cycles);
      }
    }
    if (const auto* kernel = std::get_if<model::KernelRun>(&workload); kernel != nullptr && kernel->is_counted) {
      timing.counted = model::traffic_of(description_, *kernel);
    }
    if (const auto* stream = std::get_if<model::Stream>(&workload); stream != nullptr && stream->is_counted) {
      timing.counted = model::traffic_of(description_, *stream);
    }
    return timing;
  }

 private:
  [[nodiscard]] model::StreamTime time_once(const model::SharedLoads& loads) const {
    return {.cycles = model::cycles_of(*description_.shared_memory, loads)};
  }
  [[nodiscard]] model::StreamTime time_once(const model::ConcurrentLoads& loads) const {
    return {.cycles = model::cycles_of(*description_.outstanding, loads)};
  }
  [[nodiscard]] model::StreamTime time_once(const model::Stream& stream) const {
    return model::time_of(description_, stream);
  }
  [[nodiscard]] model::StreamTime time_once(const model::KernelRun& run) {
    const auto key = std::tuple(run.kernel, run.variant, run.size);
    const auto found = kernel_times_.find(key);
    return found != kernel_times_.end() ? found->second
                                        : kernel_times_.emplace(key, model::time_of(description_, run)).first->second;
  }

  [[nodiscard]] bool describes_kernels() const {
    const auto& bandwidth = description_.bandwidth;
    return (bandwidth.contains("L1") || bandwidth.contains("texture")) && bandwidth.contains("L2_load") &&
           bandwidth.contains("DRAM_load");
  }

  model::DeviceDescription description_;
  std::map<std::string, Noise> noise_;  // by target
  std::map<std::tuple<model::KernelName, model::KernelVariant, std::uint32_t>, model::StreamTime> kernel_times_;
};

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
    if (!description.shared_memory && !description.outstanding && description.bandwidth.empty()) {
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
