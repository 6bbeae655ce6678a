// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <set>

#include "model/description/checks.hpp"
#include "model/description/sections.hpp"
#include "model/description/values.hpp"

namespace gpuinfer::model {

namespace {

using codec::Bytes;
using codec::Count;
using codec::Map;
using codec::max_bytes;
using codec::max_line_bytes;
using codec::max_lines;

constexpr std::uint64_t max_sectors = 64;
constexpr std::uint64_t max_prefetch_lines = 1024;
constexpr std::uint64_t max_victim_lines = 1024;
constexpr std::uint64_t max_swept_lines = 1024;
constexpr std::uint32_t max_carveout_kb = 1U << 20U;

void check_ways_fit_index(const Place& place, const CacheDescription& cache) {
  const std::size_t ways = cache.ways->size();
  const std::uint32_t index_sets = sets(*cache.index);
  if (const auto* table = std::get_if<TableIndex>(&*cache.index)) {
    const Place sets_of = place.need("index").need("sets_of");
    if (index_sets > ways) {
      sets_of.fail("names set " + std::to_string(index_sets - 1) + ", but ways has " + std::to_string(ways) +
                   " sets, numbered from 0; correct one of them");
    }
    const std::set<std::uint32_t> named(table->sets_of.begin(), table->sets_of.end());
    if (named.size() != ways) {
      sets_of.fail("names " + std::to_string(named.size()) + " sets, but ways has " + std::to_string(ways) +
                   "; name every set");
    }
  } else if (index_sets != ways) {
    place.need("ways").fail("has " + std::to_string(ways) + " entries, but the index makes " +
                            std::to_string(index_sets) + " sets; give one number of ways for each set");
  }
}

void check_capacity(const Place& place, const CacheDescription& cache) {
  const std::uint64_t tags = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  if (tags > max_lines) {
    place.need("ways").fail("adds up to " + std::to_string(tags) + " lines, more than " + std::to_string(max_lines) +
                            "; correct it");
  }
  if (cache.store_lines && *cache.store_lines > tags) {
    place.need("store_lines").fail("is more than the " + std::to_string(tags) + " lines of ways; remove it");
  }
  if (!cache.capacity_bytes || !cache.line_bytes) {
    return;
  }
  const std::uint64_t capacity_bytes = cache.store_lines.value_or(tags) * *cache.line_bytes;
  if (*cache.capacity_bytes != capacity_bytes) {
    place.need("capacity_bytes")
        .fail("is " + std::to_string(*cache.capacity_bytes) + ", but " +
              (cache.store_lines ? "store_lines" : "the sum of ways") + " x line_bytes is " +
              std::to_string(capacity_bytes) + "; correct one of them");
  }
}

void check_sectors(const Place& place, const CacheDescription& cache) {
  if (*cache.line_bytes % *cache.sector_bytes != 0) {
    place.need("sector_bytes")
        .fail("is " + std::to_string(*cache.sector_bytes) + ", which does not divide a line of " +
              std::to_string(*cache.line_bytes) + " bytes; correct one of them");
  }
  if (*cache.line_bytes / *cache.sector_bytes > max_sectors) {
    place.need("sector_bytes")
        .fail("makes more than " + std::to_string(max_sectors) + " sectors in a line; correct it or line_bytes");
  }
  const std::uint64_t fetch_bytes = cache.fill.fetch_bytes.value_or(*cache.sector_bytes);
  if (fetch_bytes % *cache.sector_bytes != 0 || *cache.line_bytes % fetch_bytes != 0) {
    place.need("fill")
        .need("fetch_bytes")
        .fail("is " + std::to_string(fetch_bytes) + ", which is not a whole number of sectors that divides a line of " +
              std::to_string(*cache.line_bytes) + " bytes; correct it");
  }
}

Leaf<CacheDescription> index_leaf(std::string_view meaning) {
  Leaf<CacheDescription> row("index", meaning);
  row.read = [](const Place& place, CacheDescription& cache) {
    cache.index = codec::index_from(place);
    if (const auto bits = place.find("exercised_bits")) {
      cache.exercised_bits = codec::distinct_address_bits(*bits);
    }
  };
  row.is_default = [](const CacheDescription& cache) { return !cache.index && !cache.exercised_bits; };
  row.write = [](const CacheDescription& cache) -> std::string {
    if (!cache.index && !cache.exercised_bits) {
      return "null";
    }
    auto entries = cache.index ? codec::index_entries(*cache.index)
                               : std::vector<std::pair<std::string, std::string>>{{"kind", "null"}};
    if (cache.exercised_bits) {
      entries.emplace_back("exercised_bits", codec::List<codec::Whole<unsigned>>{}.write(*cache.exercised_bits));
    }
    return flow_map(entries);
  };
  return row;
}

Leaf<CacheDescription> replacement_leaf(std::string_view meaning) {
  Leaf<CacheDescription> row("replacement", meaning);
  row.read = [](const Place& place, CacheDescription& cache) {
    cache.replacement = codec::replacement_from(place, cache.ways);
  };
  row.write = [](const CacheDescription& cache) {
    return cache.replacement ? codec::replacement_text(*cache.replacement) : "null";
  };
  row.is_default = [](const CacheDescription& cache) { return !cache.replacement; };
  return row;
}

Map<Fill> fill() {
  return {.leaves = {
              leaf("prefetch_lines", &Fill::prefetch_lines, codec::Whole<unsigned>{.most = max_prefetch_lines}),
              leaf("prefetch_on", &Fill::prefetch_on,
                   codec::Words<PrefetchOn>{.words = {{"miss", PrefetchOn::miss},
                                                      {"access", PrefetchOn::access},
                                                      {"stride", PrefetchOn::stride}}})
                  .sparse(),
              leaf("fetch_bytes", &Fill::fetch_bytes, Bytes{.least = 1, .most = max_line_bytes}).sparse(),
          }};
}

Map<Store> store() {
  return {.leaves = {
              leaf("miss", &Store::miss,
                   codec::Words<StoreMiss>{.words = {{"allocate", StoreMiss::allocate}, {"bypass", StoreMiss::bypass}}})
                  .needed(),
              leaf("hit", &Store::hit,
                   codec::Words<StoreHit>{.words = {{"update", StoreHit::update}, {"evict", StoreHit::evict}}})
                  .needed(),
          }};
}

// Its numbers depend on the store and the sets of the cache.
Leaf<CacheDescription> sweep_leaf(std::string_view meaning) {
  const Count lines{.most = max_swept_lines};
  const Map<Sweep> sweep{
      .leaves = {leaf("banks", &Sweep::banks, Count{.least = 1}).needed(),
                 leaf("lines_on_hit", &Sweep::lines_on_hit, lines).needed(),
                 leaf("lines_on_replacement", &Sweep::lines_on_replacement, lines).needed(),
                 leaf("lines_on_fill", &Sweep::lines_on_fill, Count{.least = 1, .most = max_swept_lines}).needed()}};
  Leaf<CacheDescription> row = leaf("sweep", &CacheDescription::sweep, sweep, meaning);
  row.read = [sweep](const Place& place, CacheDescription& cache) {
    if (!cache.store_lines || !cache.ways) {
      place.fail("needs store_lines and ways; give them or remove it");
    }
    cache.sweep = sweep.read(place);
    static_cast<void>(place.need("banks").whole(1, cache.ways->size()));
    if (cache.ways->size() % cache.sweep->banks != 0 || *cache.store_lines % cache.sweep->banks != 0) {
      place.need("banks").fail("does not divide " + std::to_string(cache.ways->size()) + " sets and " +
                               std::to_string(*cache.store_lines) + " lines evenly; correct it");
    }
  };
  return row;
}

// Checked as a cache of its own.
Map<Twin> twin() {
  Leaf<Twin> replacement("replacement", "");
  replacement.read = [](const Place& place, Twin& twin) {
    const auto policy = codec::replacement_from(place, twin.ways);
    if (!policy) {
      place.fail("lacks `policy`; give it");
    }
    twin.replacement = *policy;
  };
  replacement.write = [](const Twin& twin) { return codec::replacement_text(twin.replacement); };
  replacement.is_needed = true;
  return {.leaves = {leaf("ways", &Twin::ways, codec::Ways{}).needed(),
                     leaf("index", &Twin::index, codec::Index{.of_what = "twin"}).needed(), replacement},
          .check = [](const Place& place, const Twin& twin) {
            CacheDescription cache;
            cache.ways = twin.ways;
            cache.index = twin.index;
            check_ways_fit_index(place, cache);
            check_capacity(place, cache);
          }};
}

Map<Partitions> partitions() {
  Leaf<Partitions> near = leaf("near", &Partitions::near, Count{});
  near.read = [](const Place& place, Partitions& parts) {
    parts.near = Count{.most = sets(parts.index) - 1}.read(place);
  };
  return {.leaves = {
              leaf("index", &Partitions::index, codec::Index{.of_what = "partitions"}).needed(),
              near,
              leaf("far_cycles", &Partitions::far_cycles, codec::Real{}).needed(),
              leaf("block_bytes", &Partitions::block_bytes, Bytes{.least = 1, .most = max_bytes}).sparse(),
              leaf("keeps_copies", &Partitions::keeps_copies,
                   codec::Words<bool>{.words = {{"true", true}, {"false", false}}})
                  .sparse(),
              leaf("resident_bytes", &Partitions::resident_bytes, codec::Interval{}).sparse(),
              leaf("sms", &Partitions::sms, codec::SmLists{}).sparse(),
          }};
}

Map<Carveout> carveout() {
  return {.leaves = {
              leaf("carveout_kb", &Carveout::carveout_kb, Count{.most = max_carveout_kb}).needed(),
              leaf("onset_bytes", &Carveout::onset_bytes, Bytes{.least = 1, .most = max_bytes}),
              leaf("resident_bytes", &Carveout::resident_bytes, codec::Interval{}).sparse(),
              leaf("ways", &Carveout::ways, codec::Ways{}).sparse(),
              leaf("store_lines", &Carveout::store_lines, Bytes{.least = 1, .most = max_lines}).sparse(),
          }};
}

// Names of leaves that a cache has.
struct LeafNames {
  [[nodiscard]] static std::vector<std::string> read(const Place& place) {
    const std::vector<std::string_view> known = found_out(cache_leaves());
    std::vector<std::string> names;
    for (const Place& item : place.items()) {
      names.push_back(item.text());
      if (!contains(known, names.back())) {
        item.fail("`" + names.back() + "` is not a leaf of a cache; write `" + nearest(names.back(), known) +
                  "` or remove it");
      }
    }
    return names;
  }
  [[nodiscard]] static std::string write(const std::vector<std::string>& names) {
    return codec::List<codec::Text>{}.write(names);
  }
};

}  // namespace

const Leaves<CacheDescription>& cache_leaves() {
  using Cache = CacheDescription;
  static const Leaves<Cache> leaves{
      leaf("capacity_bytes", &Cache::capacity_bytes, Bytes{.least = 1, .most = max_bytes},
           "all ways of all sets, times the line"),
      leaf("onset_bytes", &Cache::onset_bytes, Bytes{.least = 1, .most = max_bytes},
           "the largest contiguous array without misses")
          .sparse(),
      leaf("store_lines", &Cache::store_lines, Bytes{.least = 1, .most = max_lines},
           "lines of data, where there are more tags")
          .sparse(),
      leaf("line_bytes", &Cache::line_bytes, Bytes{.least = 1, .most = max_line_bytes}, "what has one tag"),
      leaf("sector_bytes", &Cache::sector_bytes, Bytes{.least = 1, .most = max_line_bytes}, "what one miss brings"),
      leaf("ways", &Cache::ways, codec::Ways{}, "one number for each set"),
      index_leaf("address to set"),
      replacement_leaf("the policy and its parameters"),
      leaf("fill", &Cache::fill, fill(), "what comes along with a miss").sparse(),
      leaf("store", &Cache::store, store(), "what a store does").sparse(),
      sweep_leaf("what happens when the store of lines is full").sparse(),
      leaf("victim_lines", &Cache::victim_lines, Bytes{.least = 1, .most = max_victim_lines},
           "the last evicted lines, which still hit")
          .sparse()
          .given(),
      leaf("twin", &Cache::twin, twin(), "a second cache of the same lines that answers as fast").sparse().given(),
      leaf("latency_cycles", &Cache::latency_cycles, codec::latency_cycles(),
           "medians as timed; a miss is a hit in the next level"),
      leaf_of_evidence<Cache>("latency_cycles.hit"),
      leaf_of_evidence<Cache>("latency_cycles.miss"),
      leaf("partitions", &Cache::partitions, partitions(), "parts that are near to some SMs and far from others")
          .sparse(),
      leaf("carveouts", &Cache::carveouts, codec::List<Map<Carveout>>{.item = carveout()},
           "the same cache with each amount of shared memory set aside")
          .sparse(),
      leaf("shared_with", &Cache::shared_with, codec::List<codec::Text>{},
           "other paths whose loads find the lines that loads of this one brought")
          .sparse(),
      leaf("resident_bytes", &Cache::resident_bytes, codec::Interval{},
           "what is present on an average while random lines are loaded (95 %)")
          .sparse(),
      leaf("shared_by_sms", &Cache::shared_by_sms, codec::SmLists{}, "the SMs that have one in common").sparse(),
      leaf_of_evidence<Cache>("sms", "SMs whose cache behaves otherwise"),
      leaf("assumed", &Cache::assumed, LeafNames{}, "leaves that no source gives").sparse().given(),
  };
  return leaves;
}

void check(const Place& place, const CacheDescription& cache) {
  if (cache.ways && cache.index) {
    check_ways_fit_index(place, cache);
  }
  if (cache.ways) {
    check_capacity(place, cache);
  }
  if (cache.line_bytes && cache.sector_bytes) {
    check_sectors(place, cache);
  }
}

}  // namespace gpuinfer::model
