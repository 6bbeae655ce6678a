// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/c/gpuinfer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/stores.hpp"

using gpuinfer::InputError;
namespace model = gpuinfer::model;

struct gpuinfer_error {
  std::string text;
};

struct gpuinfer_snapshot {
  std::shared_ptr<model::CacheSimulator> of;  // held, so that no other one gets its address
  std::unique_ptr<model::CacheSimulator::Snapshot> state;
  gpuinfer_statistics statistics{};
};

struct gpuinfer_cache {
  std::shared_ptr<model::CacheSimulator> simulator;
  std::shared_ptr<const model::CacheDescription> description;  // at all carve-outs
  std::optional<std::uint32_t> carveout_kb;
  gpuinfer_statistics statistics{};
  std::mutex mutex;

  void count(model::Outcome outcome) {
    ++statistics.accesses;
    statistics.hits += outcome == model::Outcome::hit ? 1 : 0;
    statistics.sector_misses += outcome == model::Outcome::sector_miss ? 1 : 0;
    statistics.line_misses += outcome == model::Outcome::line_miss ? 1 : 0;
  }
};

namespace {

gpuinfer_outcome outcome_of(model::Outcome outcome) {
  switch (outcome) {
    case model::Outcome::hit:
      return GPUINFER_HIT;
    case model::Outcome::sector_miss:
      return GPUINFER_SECTOR_MISS;
    case model::Outcome::line_miss:
      break;
  }
  return GPUINFER_LINE_MISS;
}

gpuinfer_access_result result_of(const model::AccessEvent& event) {
  return {.size = 0,
          .outcome = outcome_of(event.outcome),
          .set = event.set,
          .way = event.way ? static_cast<std::int32_t>(*event.way) : -1,
          .has_victim = event.victim_address ? 1 : 0,
          .victim_address = number_of(event.victim_address.value_or(model::Address{}))};
}

std::uint32_t most_ways_of(const model::CacheDescription& cache) {
  std::uint32_t most = std::ranges::max(*cache.ways);
  for (const model::Carveout& carveout : cache.carveouts) {
    most = carveout.ways ? std::max(most, std::ranges::max(*carveout.ways)) : most;
  }
  return most;
}

// What `action` gives, or `failed` with a handle of the error.
template <class Result, class Action>
Result guarded(gpuinfer_error** error, Result failed, const Action& action) noexcept {
  try {
    return action();
  } catch (const std::exception& caught) {
    if (error != nullptr) {
      try {
        *error = new gpuinfer_error{caught.what()};
      } catch (const std::exception&) {
        *error = nullptr;  // no memory for the sentence
      }
    }
  }
  return failed;
}

// As many bytes as the caller has room for.
template <class Struct>
void give(Struct value, Struct* to) {
  value.size = std::min(to->size, sizeof(Struct));
  std::memcpy(to, &value, value.size);
}

gpuinfer_cache* opened(std::shared_ptr<const model::CacheDescription> description,
                       const std::optional<std::uint32_t>& carveout_kb, std::uint64_t seed) {
  const auto cache = carveout_kb ? model::at_carveout(*description, *carveout_kb) : *description;
  if (!cache) {
    throw InputError("carveouts: say nothing of " + std::to_string(*carveout_kb) + " KB; name one of them");
  }
  auto opened = std::make_unique<gpuinfer_cache>();
  opened->simulator = model::CacheSimulator::make(*cache, seed);
  opened->description = std::move(description);
  opened->carveout_kb = carveout_kb;
  return opened.release();
}

gpuinfer_cache* open_cache(const char* profile, const char* target, const std::optional<std::uint32_t>& carveout_kb,
                           std::uint64_t seed) {
  const model::DeviceDescription device = model::read_description(profile);
  const auto found = device.caches.find(target);
  if (found == device.caches.end()) {
    throw InputError(std::string(profile) + ": has no cache " + target + "; name one of its caches");
  }
  try {
    return opened(std::make_shared<const model::CacheDescription>(found->second), carveout_kb, seed);
  } catch (const InputError& error) {
    throw InputError(std::string(profile) + ": caches." + target + "." + error.what());
  }
}

}  // namespace

uint32_t gpuinfer_api_version(void) { return GPUINFER_API_VERSION; }

const char* gpuinfer_error_text(const gpuinfer_error* error) {
  return error == nullptr ? "no memory for the message" : error->text.c_str();
}

void gpuinfer_error_close(gpuinfer_error* error) { delete error; }

gpuinfer_cache* gpuinfer_cache_open(const char* profile, const char* target, gpuinfer_error** error) {
  return guarded<gpuinfer_cache*>(error, nullptr, [&] { return open_cache(profile, target, std::nullopt, 1); });
}

gpuinfer_cache* gpuinfer_cache_open_at(const char* profile, const char* target, uint32_t carveout_kb, uint64_t seed,
                                       gpuinfer_error** error) {
  return guarded<gpuinfer_cache*>(error, nullptr, [&] { return open_cache(profile, target, carveout_kb, seed); });
}

gpuinfer_cache* gpuinfer_cache_open_like(const gpuinfer_cache* other, const uint32_t* carveout_kb, uint64_t seed,
                                         gpuinfer_error** error) {
  return guarded<gpuinfer_cache*>(error, nullptr, [&] {
    return opened(other->description, carveout_kb == nullptr ? other->carveout_kb : *carveout_kb, seed);
  });
}

void gpuinfer_cache_close(gpuinfer_cache* cache) { delete cache; }

gpuinfer_status gpuinfer_cache_geometry(const gpuinfer_cache* cache, gpuinfer_geometry* geometry) {
  const model::CacheDescription& description = *cache->description;
  give({.size = 0,
        .line_bytes = *description.line_bytes,
        .sector_bytes = *description.sector_bytes,
        .sets = static_cast<std::uint32_t>(description.ways->size()),
        .most_ways = most_ways_of(description),
        .knows_stores = model::null_leaf_of_store(description) ? 0 : 1},
       geometry);
  return GPUINFER_OK;
}

gpuinfer_status gpuinfer_cache_access(gpuinfer_cache* cache, uint64_t address, gpuinfer_access_kind kind,
                                      gpuinfer_access_result* result, gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    if (kind != GPUINFER_LOAD && kind != GPUINFER_STORE) {
      throw InputError("access: no profile says what an atomic does to a cache; leave it out or access it as a store");
    }
    const std::lock_guard lock(cache->mutex);
    const model::AccessEvent event = cache->simulator->step(
        model::Address{address}, kind == GPUINFER_STORE ? model::AccessKind::store : model::AccessKind::load);
    cache->count(event.outcome);
    if (result != nullptr) {
      give(result_of(event), result);
    }
    return GPUINFER_OK;
  });
}

gpuinfer_status gpuinfer_cache_play(gpuinfer_cache* cache, const uint64_t* addresses, size_t count, uint8_t* outcomes,
                                    gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    std::vector<model::Outcome> found(count);
    const std::lock_guard lock(cache->mutex);
    cache->simulator->play(std::span(addresses, count), found);
    for (std::size_t i = 0; i < count; ++i) {
      cache->count(found[i]);
      if (outcomes != nullptr) {
        outcomes[i] = static_cast<std::uint8_t>(outcome_of(found[i]));
      }
    }
    return GPUINFER_OK;
  });
}

gpuinfer_status gpuinfer_cache_probe(gpuinfer_cache* cache, uint64_t address, gpuinfer_access_result* result,
                                     gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    const std::lock_guard lock(cache->mutex);
    give(result_of(cache->simulator->look_up(model::Address{address})), result);
    return GPUINFER_OK;
  });
}

gpuinfer_status gpuinfer_cache_fill(gpuinfer_cache* cache, uint64_t address, gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    const std::lock_guard lock(cache->mutex);
    cache->simulator->play(std::span(&address, 1), {});
    return GPUINFER_OK;
  });
}

gpuinfer_status gpuinfer_cache_invalidate(gpuinfer_cache* cache, int as_new, gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    const std::lock_guard lock(cache->mutex);
    cache->simulator->put_into(as_new != 0 ? model::StartState::clean : model::StartState::invalidated);
    return GPUINFER_OK;
  });
}

gpuinfer_status gpuinfer_cache_statistics(gpuinfer_cache* cache, gpuinfer_statistics* statistics) {
  const std::lock_guard lock(cache->mutex);
  give(cache->statistics, statistics);
  return GPUINFER_OK;
}

gpuinfer_snapshot* gpuinfer_cache_snapshot(gpuinfer_cache* cache, gpuinfer_error** error) {
  return guarded<gpuinfer_snapshot*>(error, nullptr, [&] {
    const std::lock_guard lock(cache->mutex);
    return new gpuinfer_snapshot{
        .of = cache->simulator, .state = cache->simulator->snapshot(), .statistics = cache->statistics};
  });
}

gpuinfer_status gpuinfer_cache_restore(gpuinfer_cache* cache, const gpuinfer_snapshot* snapshot,
                                       gpuinfer_error** error) {
  return guarded(error, GPUINFER_FAILED, [&] {
    if (snapshot->of != cache->simulator) {
      throw InputError("restore: the snapshot is of another cache; take one of this cache");
    }
    const std::lock_guard lock(cache->mutex);
    cache->simulator->restore(*snapshot->state);
    cache->statistics = snapshot->statistics;
    return GPUINFER_OK;
  });
}

void gpuinfer_snapshot_close(gpuinfer_snapshot* snapshot) { delete snapshot; }
