// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <set>

#include "model/access_sequence.hpp"
#include "model/description/checks.hpp"
#include "model/description/sections.hpp"
#include "model/description/values.hpp"
#include "model/index/address_bits.hpp"

namespace gpuinfer::model {

namespace {

using codec::Bytes;
using codec::Count;
using codec::Lines;
using codec::Map;
using codec::max_bytes;
using codec::max_line_bytes;
using codec::max_lines;

constexpr std::uint64_t max_sectors = 64;
constexpr std::uint64_t max_prefetch_lines = 1024;
constexpr std::uint64_t max_victim_lines = 1024;
constexpr std::uint64_t max_swept_lines = 1024;
constexpr std::size_t max_distances = 1024;  // groups of SMs, and slices
constexpr codec::Whole<std::uint32_t, codec::Unit::kilobytes> kilobytes{.most = 1U << 20U};

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

void check_tags(const Place& place, const CacheDescription& cache) {
  const auto written = place.find("tag_bytes");
  if (const auto bytes = written ? tag_bytes(cache) : std::nullopt; bytes && written->whole(1, max_bytes) != *bytes) {
    written->fail("is not the sum of ways x line_bytes, " + std::to_string(*bytes) + "; correct one of them");
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

void check_store(const Place& place, const CacheDescription& cache) {
  const Store& store = *cache.store;
  if (!store.granule_bytes || !store.fetches) {
    return;
  }
  const std::uint64_t granule = *store.granule_bytes;
  const std::uint64_t line = *cache.line_bytes;
  const std::uint64_t sector = *cache.sector_bytes;
  if (*store.fetches && (granule % sector != 0 || line % granule != 0)) {
    place.need("granule_bytes")
        .fail("is " + std::to_string(granule) + ", which is not a whole number of sectors that divides a line of " +
              std::to_string(line) + " bytes; correct it");
  }
  if (!*store.fetches && (granule % load_bytes != 0 || sector % granule != 0)) {
    place.need("granule_bytes")
        .fail("is " + std::to_string(granule) + ", which is not a whole number of words of 4 bytes that divides a " +
              "sector of " + std::to_string(sector) + " bytes; correct it");
  }
}

Leaf<CacheDescription> index_leaf(std::string_view meaning) {
  Leaf<CacheDescription> row(
      {.name = "index", .meaning = meaning, .sameness = Sameness::index, .schema = schema::reference("index")});
  row.read = [](const Place& place, CacheDescription& cache) {
    cache.index = codec::index_from(place);
    if (const auto bits = place.find("exercised_bits")) {
      cache.exercised_bits = codec::AddressBits{}.read(*bits);
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
  row.text = [](const CacheDescription& cache) {
    return cache.index ? std::optional(to_text(*cache.index)) : std::nullopt;
  };
  return row;
}

template <class Part>
Leaf<Part> replacement_row(std::string_view meaning) {
  Leaf<Part> row(codec::replacement_facts());
  row.name = "replacement";
  row.meaning = meaning;
  return row;
}

Leaf<CacheDescription> replacement_leaf(std::string_view meaning) {
  Leaf<CacheDescription> row = replacement_row<CacheDescription>(meaning);
  row.read = [](const Place& place, CacheDescription& cache) {
    cache.replacement = codec::replacement_from(place, cache.ways);
  };
  row.write = [](const CacheDescription& cache) {
    return cache.replacement ? codec::replacement_text(*cache.replacement) : "null";
  };
  row.is_default = [](const CacheDescription& cache) { return !cache.replacement; };
  row.text = [](const CacheDescription& cache) {
    return cache.replacement ? std::optional(codec::replacement_text(*cache.replacement)) : std::nullopt;
  };
  return row;
}

Map<Fill> fill() {
  return {.leaves = {
              leaf("prefetch_lines", &Fill::prefetch_lines, codec::Whole<unsigned>{.most = max_prefetch_lines},
                   "how many further lines come along; not known: virtual devices take it for none"),
              leaf("prefetch_on", &Fill::prefetch_on,
                   codec::Words<PrefetchOn>{.words = {{"miss", PrefetchOn::miss},
                                                      {"access", PrefetchOn::access},
                                                      {"stride", PrefetchOn::stride}}},
                   "with every missed line, with every access, or after two steps of one width in such steps")
                  .sparse(),
              leaf("fetch_bytes", &Fill::fetch_bytes, Bytes{.least = 1, .most = max_line_bytes},
                   "the aligned block that a missed sector brings: whole sectors, and divides the line")
                  .sparse(),
          }};
}

const codec::Words<bool> yes_or_no{.words = {{"true", true}, {"false", false}}};

Map<Cleaning> cleaning() {
  return {.leaves = {leaf("dirty_lines", &Cleaning::dirty_lines, Count{.least = 1, .most = max_lines},
                          "dirty lines of a set, those written in part aside, with which an access to the set has the "
                          "oldest of them written back")
                         .needed(),
                     leaf("partial_lines", &Cleaning::partial_lines, Count{.least = 1, .most = max_lines},
                          "lines of a set written in part with which an access to another one has the oldest of them "
                          "fetched to the end, which makes it clean and the youngest")
                         .needed()}};
}

Map<Store> store() {
  return {.leaves = {
              leaf("allocate", &Store::allocate, yes_or_no, "whether one that misses brings its line"),
              leaf("write", &Store::write,
                   codec::Words<Write>{.words = {{"back", Write::back}, {"through", Write::through}}},
                   "whether the next level sees it when the line goes, or at once"),
              leaf("granule_bytes", &Store::granule_bytes, Bytes{.least = 1, .most = max_line_bytes},
                   "what one that misses brings, or, where it does not fetch, what has to be written before loads find "
                   "it; at least 4"),
              leaf("fetches", &Store::fetches, yes_or_no,
                   "whether one that brings its line brings what it does not write, too"),
              leaf("touches", &Store::touches, yes_or_no,
                   "whether one to a line that is there counts as a hit in the replacement order"),
              leaf("evicts", &Store::evicts, yes_or_no, "whether one to a line that is there makes it go").sparse(),
              leaf("cleaning", &Store::cleaning, cleaning(),
                   "dirty lines that are written back, or fetched to the end, before they have to go; under lru")
                  .sparse(),
          }};
}

Map<Hints> hints() {
  return {.leaves = {leaf("first_goes_next", &Hints::first_goes_next, yes_or_no,
                          "whether a line that is loaded to be evicted first goes before all others, until a load "
                          "without a hint finds it")
                         .needed(),
                     leaf("unchanged_keeps_place", &Hints::unchanged_keeps_place, yes_or_no,
                          "whether a load that is to leave the order unchanged does")
                         .needed(),
                     leaf("protected_ways", &Hints::protected_ways, Count{.most = max_lines},
                          "how many lines of a set that were loaded to be evicted last go after all others; with one "
                          "more the oldest of them is as any other; 0: the hint does nothing")
                         .needed(),
                     leaf("loads_unprotect", &Hints::loads_unprotect, yes_or_no,
                          "whether any other load of such a line makes it as any other")
                         .needed()}};
}

Map<SetAside> set_aside() {
  return {
      .leaves = {leaf("bytes", &SetAside::bytes, Bytes{.most = max_bytes}, "up to so many are set aside").needed(),
                 leaf("protected_ways", &SetAside::protected_ways, Count{.most = max_lines}, "of each set").needed()},
      .words =
          [](const SetAside& each) {
            return words::together({to_text(each.protected_ways), each.protected_ways == 1 ? " way" : " ways",
                                    " up to ", words::bytes(each.bytes)});
          },
      .key = "bytes"};
}

Map<LatencyCycles> latency_cycles() {
  Map<LatencyCycles> map = codec::latency_cycles();
  map.leaves.push_back(leaf("dirty_miss", &LatencyCycles::dirty_miss, codec::Cycles{},
                            "of a miss for which a line goes that has to be written back")
                           .sparse());
  return map;
}

// Its numbers depend on the store and the sets of the cache.
Leaf<CacheDescription> sweep_leaf(std::string_view meaning) {
  const Count lines{.most = max_swept_lines};
  const Map<Sweep> sweep{
      .leaves = {leaf("banks", &Sweep::banks, Count{.least = 1, .most = max_lines},
                      "of sets, which share the store evenly; divides the sets and store_lines")
                     .needed(),
                 leaf("lines_on_hit", &Sweep::lines_on_hit, lines, "that the pointer takes after a hit").needed(),
                 leaf("lines_on_replacement", &Sweep::lines_on_replacement, lines,
                      "that it takes after a miss that evicted a line of its set")
                     .needed(),
                 leaf("lines_on_fill", &Sweep::lines_on_fill, Count{.least = 1, .most = max_swept_lines},
                      "that it takes after a miss that did not")
                     .needed(),
                 leaf("keeps_hit_line", &Sweep::keeps_hit_line, yes_or_no,
                      "whether a line stays that is hit as the pointer comes by")
                     .sparse()},
      .words = words::sweep};
  Leaf<CacheDescription> row =
      leaf("sweep", &CacheDescription::sweep, sweep, meaning).sparse().beside({"store_lines", "ways"});
  row.read = [sweep](const Place& place, CacheDescription& cache) {
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
  Leaf<Twin> replacement = replacement_row<Twin>("the policy and its parameters");
  replacement.schema.emplace_back("properties", "{policy: {type: string}}");
  replacement.schema.emplace_back("required", "[policy]");
  replacement.read = [](const Place& place, Twin& twin) {
    const auto policy = codec::replacement_from(place, twin.ways);
    if (!policy) {
      place.fail("lacks `policy`; give it");
    }
    twin.replacement = *policy;
  };
  replacement.write = [](const Twin& twin) { return codec::replacement_text(twin.replacement); };
  replacement.is_needed = true;
  return {
      .leaves = {leaf("ways", &Twin::ways, codec::Ways{}, "one number for each set").needed(),
                 leaf("index", &Twin::index, codec::Index{.of_what = "twin"}, "address to set").needed(), replacement},
      .check = [](const Place& place, const Twin& twin) {
        CacheDescription cache;
        cache.ways = twin.ways;
        cache.index = twin.index;
        check_ways_fit_index(place, cache);
        check_capacity(place, cache);
      }};
}

Map<Partitions> partitions() {
  Leaf<Partitions> near = leaf("near", &Partitions::near, Count{.most = max_lines},
                               "of virtual devices: which part is close to the SM that loads");
  near.read = [](const Place& place, Partitions& parts) {
    parts.near = Count{.most = sets(parts.index) - 1}.read(place);
  };
  return {
      .leaves =
          {
              leaf("index", &Partitions::index, codec::Index{.of_what = "partitions"}, "address to part").needed(),
              near,
              leaf("far_cycles", &Partitions::far_cycles, codec::Cycles{},
                   "what a hit in another part than the near one takes longer")
                  .needed(),
              leaf("block_bytes", &Partitions::block_bytes, Bytes{.least = 1, .most = max_bytes},
                   "inside aligned blocks of that size the index holds; from one to the next parts may be swapped")
                  .sparse(),
              leaf("keeps_copies", &Partitions::keeps_copies, yes_or_no,
                   "whether a far line is found in the near part from its second load on")
                  .sparse(),
              leaf("resident_bytes", &Partitions::resident_bytes, codec::Interval{},
                   "what is present near an SM, on average, while it loads random lines (an interval)")
                  .sparse(),
              leaf("sms", &Partitions::sms, codec::SmLists{}, "the SMs to which each part is the near one").sparse(),
          },
      .words = [](const Partitions& parts) {
        std::vector<std::string> sms;
        for (const auto& list : parts.sms) {
          sms.push_back(to_text(list.size()));
        }
        const std::string resident =
            parts.resident_bytes ? words::together({"; near an SM ", codec::Interval{}.text(*parts.resident_bytes)})
                                 : "";
        return words::together({"near to ", words::joined(sms, " and "), " SMs, ", to_text(parts.far_cycles),
                                " cycles more from the other; ", flow_map(codec::index_entries(parts.index)),
                                resident});
      }};
}

Map<SliceIndex> slice_index() {
  return {
      .leaves =
          {
              leaf("index", &SliceIndex::index, codec::Index{.of_what = "slice_index"}, "address to slice").needed(),
              leaf("block_bytes", &SliceIndex::block_bytes, Bytes{.least = 1, .most = max_bytes},
                   "inside aligned blocks of that size the index holds; from one to the next parities may flip, and "
                   "the number may shift")
                  .sparse(),
              leaf("apart_cycles", &SliceIndex::apart_cycles, codec::Cycles{},
                   "what the atomic additions of a contended pair take in two slices")
                  .needed(),
              leaf("together_cycles", &SliceIndex::together_cycles, codec::Cycles{}, "the same in one slice").needed(),
          },
      .words = [](const SliceIndex& slices) {
        return words::together({to_text(slices.index), "; pairs take ", to_text(slices.apart_cycles),
                                " cycles apart and ", to_text(slices.together_cycles), " together"});
      }};
}

Map<SliceDistances> slice_distances() {
  return {.leaves = {leaf("sms", &SliceDistances::sms, codec::SmLists{},
                          "groups of SMs: those of one differ by as many cycles at all slices")
                         .needed(),
                     leaf("cycles", &SliceDistances::cycles,
                          codec::List<codec::List<codec::Cycles>>{
                              .item = {.item = {}, .most = max_distances}, .most = max_distances, .separator = "; "},
                          "of each group on average, to each slice in the order of their numbers, from any one on")
                         .needed()
                         .compared_by(Sameness::columns),
                     leaf("mean_cycles", &SliceDistances::mean_cycles, codec::List<codec::Cycles>{},
                          "of each SM, to all slices on average")
                         .needed()},
          .check =
              [](const Place& place, const SliceDistances& distances) {
                std::vector<std::uint32_t> sms;
                for (const ComputeUnits& group : distances.sms) {
                  const std::vector<std::uint32_t> numbers = numbers_of(group);
                  sms.insert(sms.end(), numbers.begin(), numbers.end());
                }
                std::ranges::sort(sms);
                if (sms != numbers_of(all_units(distances.mean_cycles.size()))) {
                  place.need("sms").fail("does not name each SM that `mean_cycles` has once; correct it");
                }
                const auto has_other_length = [&](const std::vector<double>& row) {
                  return row.size() != distances.cycles.front().size();
                };
                if (distances.cycles.size() != distances.sms.size() ||
                    std::ranges::any_of(distances.cycles, has_other_length)) {
                  place.need("cycles").fail("is no table of one row for each list of `sms`; correct it");
                }
              },
          .words =
              [](const SliceDistances& distances) {
                double least = codec::max_cycles;
                double most = 0;
                for (const std::vector<double>& row : distances.cycles) {
                  for (const double cycles : row) {
                    least = std::min(least, cycles);
                    most = std::max(most, cycles);
                  }
                }
                return words::together({to_text(distances.sms.size()), " groups of SMs, ", to_text(least), " to ",
                                        to_text(most), " cycles"});
              }};
}

Map<Carveout> carveout() {
  return {
      .leaves = {leaf("carveout_kb", &Carveout::carveout_kb, kilobytes, "what is set aside").needed(),
                 leaf("onset_bytes", &Carveout::onset_bytes, Bytes{.least = 1, .most = max_bytes},
                      "the largest contiguous array without misses"),
                 leaf("resident_bytes", &Carveout::resident_bytes, codec::Interval{},
                      "what is present, on average, while random lines are loaded (an interval)")
                     .sparse(),
                 leaf("ways", &Carveout::ways, codec::Ways{}, "of virtual devices: one number for each set").sparse(),
                 leaf("store_lines", &Carveout::store_lines, Lines{.least = 1, .most = max_lines},
                      "lines of data, where there are more tags")
                     .sparse()},
      .words =
          [](const Carveout& carveout) {
            return words::together({to_text(carveout.carveout_kb),
                                    " KB: ", carveout.onset_bytes ? words::bytes(*carveout.onset_bytes) : "?"});
          },
      .key = "carveout_kb"};
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
  [[nodiscard]] static std::string text(const std::vector<std::string>& names) { return words::joined(names); }
  // The names are those of the rows that this is one of.
  [[nodiscard]] static LeafFacts facts() {
    return {.sameness = Sameness::given, .schema = schema::list({{"$ref", "\"#/$defs/cache_leaf\""}})};
  }
};

// Follows from other leaves, with which it is compared where a file has it.
Leaf<CacheDescription> tag_bytes_leaf(std::string_view meaning) {
  const Bytes bytes{.least = 1, .most = max_bytes};
  Leaf<CacheDescription> row(facts_of("tag_bytes", bytes, meaning));
  row.sameness = Sameness::given;
  row.read = [bytes](const Place& place, CacheDescription&) { static_cast<void>(bytes.read(place)); };
  row.write = [](const CacheDescription& cache) {
    const auto size = tag_bytes(cache);
    return size ? to_text(*size) : "null";
  };
  row.is_default = [](const CacheDescription& cache) { return !cache.store_lines || !tag_bytes(cache); };
  row.text = [](const CacheDescription& cache) {
    const auto size = tag_bytes(cache);
    return size ? std::optional(words::bytes(*size)) : std::nullopt;
  };
  return std::move(row).sparse().given().beside({"ways", "line_bytes"});
}

}  // namespace

std::optional<std::uint64_t> tag_bytes(const CacheDescription& cache) {
  if (!cache.ways || !cache.line_bytes) {
    return std::nullopt;
  }
  return std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0}) * *cache.line_bytes;
}

const Leaves<CacheDescription>& cache_leaves() {
  using Cache = CacheDescription;
  static const Leaves<Cache> leaves{
      leaf("capacity_bytes", &Cache::capacity_bytes, Bytes{.least = 1, .most = max_bytes},
           "of data: line_bytes x the ways of all sets, or x store_lines where those are fewer")
          .carved(),
      leaf("carveout_kb", &Cache::carveout_kb, kilobytes,
           "set aside as shared memory while the cache had this capacity, onset and store")
          .sparse()
          .given()
          .carved(),
      tag_bytes_leaf("line_bytes x the ways of all sets, where there are more tags than lines of data"),
      leaf("onset_bytes", &Cache::onset_bytes, Bytes{.least = 1, .most = max_bytes},
           "the largest contiguous array without misses; below the capacity where sets fill unevenly")
          .sparse()
          .carved(),
      leaf("store_lines", &Cache::store_lines, Lines{.least = 1, .most = max_lines},
           "lines of data, where there are more tags")
          .sparse()
          .carved(),
      leaf("line_bytes", &Cache::line_bytes, Bytes{.least = 1, .most = max_line_bytes}, "what has one tag"),
      leaf("sector_bytes", &Cache::sector_bytes, Bytes{.least = 1, .most = max_line_bytes},
           "what one miss brings; divides the line, into 64 sectors at most"),
      leaf("ways", &Cache::ways, codec::Ways{}, "one number for each set that the index makes"),
      index_leaf("address to set; exercised_bits are the address bits that took part, others are not spoken of"),
      replacement_leaf("the policy and its parameters; `equivalent` lists policies that behave alike with these ways"),
      leaf("fill", &Cache::fill, fill(), "what comes along with what is loaded").sparse(),
      leaf("store", &Cache::store, store(), "what a store does").sparse(),
      leaf_of_evidence<Cache>("store.granule_bytes", {}),
      leaf_of_evidence<Cache>("store.fetches", {}),
      leaf_of_evidence<Cache>("store.touches", {}),
      leaf_of_evidence<Cache>("store.write", {}),
      leaf("hints", &Cache::hints, hints(), "what loads do that say when their line is to be evicted; under lru")
          .sparse(),
      leaf("set_asides", &Cache::set_asides,
           codec::Ascending<SetAside, std::uint64_t>{.list = {.item = set_aside()}, .key = &SetAside::bytes},
           "how many ways are protected for lines that are evicted last, by what is set aside for them")
          .sparse(),
      sweep_leaf(
          "what an access does to a full store: a pointer goes from set to set and evicts the next line of each"),
      leaf("victim_lines", &Cache::victim_lines, Lines{.least = 1, .most = max_victim_lines},
           "of virtual devices: so many evicted lines still hit, the last ones, and then go back to their set")
          .sparse()
          .given(),
      leaf("twin", &Cache::twin, twin(),
           "of virtual devices: a second cache of the same lines, as fast, in which misses of the first are looked up")
          .sparse()
          .given(),
      leaf("latency_cycles", &Cache::latency_cycles, latency_cycles(),
           "medians as timed, of near lines where far ones take longer; a miss is a hit in the next level")
          .in_words([](const Cache& cache) -> std::optional<std::string> {
            return cache.latency_cycles == LatencyCycles{} ? std::nullopt
                                                           : std::optional(latency_cycles().text(cache.latency_cycles));
          }),
      leaf_of_evidence<Cache>("latency_cycles.hit", {}),
      leaf_of_evidence<Cache>("latency_cycles.miss", {}),
      leaf(
          "partitions", &Cache::partitions, partitions(),
          "parts of an L2 that are near to some SMs and far from others; none where no SM sees a difference of a cycle")
          .sparse(),
      leaf("slices", &Cache::slices, Count{.least = 1, .most = max_lines},
           "how many there are; atomic additions to lines of one slice wait for one another")
          .sparse(),
      leaf("slice_index", &Cache::slice_index, slice_index(), "which slice a line lies in").sparse(),
      leaf("slice_ways", &Cache::slice_ways, codec::Ways{}, "one number for each set of one slice")
          .sparse()
          .compared_by(Sameness::equality),
      leaf("slice_distances", &Cache::slice_distances, slice_distances(),
           "how long each SM takes for lines at home in each slice: hits of single loads")
          .sparse(),
      leaf("carveouts", &Cache::carveouts, codec::List<Map<Carveout>>{.item = carveout(), .separator = "; "},
           "the same cache with each amount of shared memory set aside")
          .sparse(),
      leaf("shared_with", &Cache::shared_with, codec::List<codec::Text>{.item = {}, .none = "no other path"},
           "other paths whose loads find the lines that loads of this one brought")
          .sparse(),
      leaf("resident_bytes", &Cache::resident_bytes, codec::Interval{},
           "of a level behind another one: what is present, on average, while random lines are loaded (an interval)")
          .sparse()
          .carved(),
      leaf("shared_by_sms", &Cache::shared_by_sms, codec::SmLists{},
           "of a level behind another one: the SMs that have one in common, a list for each")
          .sparse(),
      leaf_of_evidence<Cache>("sms", "SMs whose cache behaves otherwise"),
      leaf("assumed", &Cache::assumed, LeafNames{}, "of virtual devices: leaves that no source gives").sparse().given(),
  };
  return leaves;
}

void check(const Place& place, const CacheDescription& cache) {
  if (cache.ways && cache.index) {
    check_ways_fit_index(place, cache);
  }
  if (cache.ways) {
    check_capacity(place, cache);
    check_tags(place, cache);
  }
  if (cache.line_bytes && cache.sector_bytes) {
    check_sectors(place, cache);
    if (cache.store) {
      check_store(place.need("store"), cache);
    }
  }
}

}  // namespace gpuinfer::model
