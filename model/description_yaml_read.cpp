// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/texel_layout.hpp"
#include "model/yaml_limits.hpp"
#include "model/yaml_place.hpp"

namespace gpuinfer::model {

namespace {

constexpr std::string_view schema_family = "gpuinfer/";
constexpr std::uint64_t schema_version = 1;

// Far above any cache and far below what could overflow or exhaust memory in a simulation.
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 50U;
constexpr std::uint64_t max_line_bytes = std::uint64_t{1} << 30U;
constexpr std::uint64_t max_lines = std::uint64_t{1} << 26U;
constexpr std::size_t max_set_bits = 24;
constexpr std::uint64_t max_address_bit = 63;
constexpr std::uint64_t max_sectors = 64;
constexpr std::uint64_t max_prefetch_lines = 1024;
constexpr std::uint64_t max_victim_lines = 1024;
constexpr std::uint64_t max_walked_lines = 1024;
constexpr std::uint32_t max_carveout_kb = 1U << 20U;
constexpr std::uint64_t max_count = std::uint64_t{1} << 53U;
constexpr double max_cycles = 1e9;
constexpr std::size_t max_path_caches = 2;  // the published access patterns know no more

// What evidence and `assumed` may speak of.
constexpr std::array<std::string_view, 20> cache_leaves{"capacity_bytes",
                                                        "onset_bytes",
                                                        "store_lines",
                                                        "line_bytes",
                                                        "sector_bytes",
                                                        "ways",
                                                        "index",
                                                        "replacement",
                                                        "walk",
                                                        "fill",
                                                        "store",
                                                        "latency_cycles",
                                                        "latency_cycles.hit",
                                                        "latency_cycles.miss",
                                                        "partitions",
                                                        "carveouts",
                                                        "shared_with",
                                                        "resident_bytes",
                                                        "shared_by_sms",
                                                        "sms"};

constexpr std::array<std::string_view, 4> texture_leaves{"latency_cycles", "sector_texels", "line_texels", "levels"};

constexpr std::array<std::string_view, 1> code_leaves{"levels"};

constexpr std::array<std::string_view, 4> shared_memory_leaves{"banks", "bank_width_bytes", "row_bytes",
                                                               "latency_cycles"};

constexpr std::array<std::string_view, 4> outstanding_leaves{"kind", "entries", "merges", "loads_per_warp"};

std::map<std::string, std::string> text_map(const Place& place) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : place.entries()) {
    texts.emplace(name, value.text());
  }
  return texts;
}

std::vector<unsigned> distinct_address_bits(const Place& place, std::size_t most) {
  auto bits = place.wholes<unsigned>(0, max_address_bit);
  if (bits.size() > most) {
    place.fail("has " + std::to_string(bits.size()) + " address bits, where at most " + std::to_string(most) +
               " fit; remove some");
  }
  if (std::set<unsigned>(bits.begin(), bits.end()).size() != bits.size()) {
    place.fail("names an address bit twice; name each one once");
  }
  return bits;
}

std::vector<Place> at_most(const Place& place, std::size_t most) {
  auto items = place.items();
  if (items.size() > most) {
    place.fail("has " + std::to_string(items.size()) + " entries, where at most " + std::to_string(most) +
               " fit; remove some");
  }
  return items;
}

XorIndex xor_index(const Place& place) {
  XorIndex index;
  for (const Place& row : at_most(place.need("rows"), max_set_bits)) {
    std::uint64_t mask = 0;
    for (const unsigned bit : distinct_address_bits(row, max_address_bit + 1)) {
      mask |= std::uint64_t{1} << bit;
    }
    index.row_masks.push_back(mask);
  }
  index.constant = static_cast<std::uint32_t>(place.find_whole("constant", 0, index.sets() - 1).value_or(0));
  return index;
}

SumIndex sum_index(const Place& place) {
  SumIndex index;
  for (const Place& field : place.need("fields").items()) {
    index.fields.push_back({distinct_address_bits(field, max_set_bits)});
  }
  index.sets_count = static_cast<std::uint32_t>(place.need("sets").whole(1, max_lines));
  return index;
}

TableIndex table_index(const Place& place) {
  TableIndex index;
  index.granule_bytes = place.need("granule_bytes").whole(1, max_line_bytes);
  const Place sets_of = place.need("sets_of");
  index.sets_of = sets_of.wholes<std::uint32_t>(0, max_lines - 1);
  if (index.sets_of.empty() || index.sets_of.size() > max_lines) {
    sets_of.fail("must have from 1 to " + std::to_string(max_lines) + " entries; give the set of each granule");
  }
  index.origin = place.find_whole("origin", 0, max_bytes).value_or(0);
  index.range_bytes = place.find_whole("range_bytes", 1, max_bytes);
  return index;
}

std::optional<IndexFunction> index_from(const Place& place) {
  const auto kind = place.find("kind");
  if (!kind) {
    place.allow({"kind", "exercised_bits"});
    return std::nullopt;
  }
  const std::string name = kind->text();
  if (name == "bits") {
    place.allow({"kind", "bits", "exercised_bits"});
    return BitsIndex{distinct_address_bits(place.need("bits"), max_set_bits)};
  }
  if (name == "xor") {
    place.allow({"kind", "rows", "constant", "exercised_bits"});
    return xor_index(place);
  }
  if (name == "modulo") {
    place.allow({"kind", "granule_bytes", "sets", "exercised_bits"});
    return ModuloIndex{.granule_bytes = place.need("granule_bytes").whole(1, max_line_bytes),
                       .sets_count = static_cast<std::uint32_t>(place.need("sets").whole(1, max_lines))};
  }
  if (name == "sum") {
    place.allow({"kind", "fields", "sets", "exercised_bits"});
    return sum_index(place);
  }
  if (name == "table") {
    place.allow({"kind", "granule_bytes", "sets_of", "origin", "range_bytes", "exercised_bits"});
    return table_index(place);
  }
  kind->fail("`" + name + "` is not a known kind of index; write one of bits, xor, modulo, sum, table");
}

std::vector<double> numbers_from(const Place& place) {
  std::vector<double> numbers;
  for (const Place& item : place.items()) {
    numbers.push_back(item.real(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()));
  }
  return numbers;
}

PolicyParameter parameter_from(const Place& place) {
  const YamlNode& node = place.node();
  if (node.kind == YamlNode::Kind::list) {
    const std::vector<Place> items = place.items();
    if (items.empty() || items.front().node().kind != YamlNode::Kind::list) {
      return numbers_from(place);
    }
    std::vector<std::vector<double>> lists(items.size());
    std::transform(items.begin(), items.end(), lists.begin(), numbers_from);
    return lists;
  }
  if (node.kind == YamlNode::Kind::plain) {
    if (const auto integer = number_from<std::int64_t>(node.text)) {
      return *integer;
    }
    if (const auto real = number_from<double>(node.text); real && std::isfinite(*real)) {
      return *real;
    }
  }
  return place.text();
}

// At the entry of the map that `message` begins with, "ENTRY: ...".
[[noreturn]] void fail_in(const Place& place, std::string_view message) {
  const std::size_t colon = message.find(": ");
  if (const auto entry = place.find(message.substr(0, colon)); entry && colon != std::string_view::npos) {
    entry->fail(std::string(message.substr(colon + 2)));
  }
  place.fail(std::string(message));
}

std::optional<Replacement> replacement_from(const Place& place, const std::optional<std::vector<std::uint32_t>>& ways) {
  const auto policy = place.find("policy");
  if (!policy) {
    place.allow({"policy"});
    return std::nullopt;
  }
  Replacement replacement{.policy = policy->text(), .parameters = {}, .equivalent = {}};
  for (const auto& [name, value] : place.entries()) {
    if (name == "equivalent" && !value.is_null()) {
      for (const Place& item : value.items()) {
        replacement.equivalent.push_back(item.text());
        const std::string other = item.text().substr(0, item.text().find(' '));
        if (!contains(policy_names(), other)) {
          item.fail("`" + other + "` is not a known policy; write `" + nearest(other, policy_names()) +
                    "` or remove it");
        }
      }
    } else if (name != "policy" && !value.is_null()) {
      replacement.parameters.emplace(name, parameter_from(value));
    }
  }
  try {
    check(replacement, ways.value_or(std::vector<std::uint32_t>{}));
  } catch (const InputError& error) {
    fail_in(place, error.what());
  }
  return replacement;
}

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

std::vector<std::string> assumed_from(const Place& place) {
  std::vector<std::string> assumed;
  for (const Place& item : place.items()) {
    assumed.push_back(item.text());
    if (!contains(cache_leaves, assumed.back())) {
      item.fail("`" + assumed.back() + "` is not a leaf of a cache; write `" + nearest(assumed.back(), cache_leaves) +
                "` or remove it");
    }
  }
  return assumed;
}

PrefetchOn prefetch_on_from(const Place& fill) {
  const auto on = fill.find("prefetch_on");
  const std::string word = on ? on->text() : "miss";
  if (word != "miss" && word != "access" && word != "stride") {
    on->fail("`" + word + "` is not known; write miss, access or stride");
  }
  return word == "miss" ? PrefetchOn::miss : word == "access" ? PrefetchOn::access : PrefetchOn::stride;
}

Fill fill_from(const Place& place) {
  place.allow({"prefetch_lines", "prefetch_on", "fetch_bytes"});
  return {
      .prefetch_lines = static_cast<unsigned>(place.find_whole("prefetch_lines", 0, max_prefetch_lines).value_or(0)),
      .prefetch_on = prefetch_on_from(place),
      .fetch_bytes = place.find_whole("fetch_bytes", 1, max_line_bytes)};
}

// True for the first of two words, false for the second.
bool is_first_word(const Place& place, std::string_view first, std::string_view second) {
  const std::string word = place.text();
  if (word != first && word != second) {
    place.fail("`" + word + "` is not known; write " + std::string(first) + " or " + std::string(second));
  }
  return word == first;
}

Store store_from(const Place& place) {
  place.allow({"miss", "hit"});
  return {.miss = is_first_word(place.need("miss"), "allocate", "bypass") ? StoreMiss::allocate : StoreMiss::bypass,
          .hit = is_first_word(place.need("hit"), "update", "evict") ? StoreHit::update : StoreHit::evict};
}

std::vector<std::vector<std::uint32_t>> sm_lists_from(const Place& place, const char* key) {
  std::vector<std::vector<std::uint32_t>> sms;
  if (const auto lists = place.find(key)) {
    for (const Place& list : lists->items()) {
      sms.push_back(list.wholes<std::uint32_t>(0, std::numeric_limits<std::uint32_t>::max()));
    }
  }
  return sms;
}

std::optional<std::array<double, 2>> resident_bytes_from(const Place& place) {
  const auto resident = place.find("resident_bytes");
  if (!resident) {
    return std::nullopt;
  }
  std::vector<double> interval;
  for (const Place& end : resident->items()) {
    interval.push_back(end.real(0, static_cast<double>(max_bytes)));
  }
  if (interval.size() != 2 || interval[0] > interval[1]) {
    resident->fail("is no interval; give its lower and its upper end");
  }
  return std::array{interval[0], interval[1]};
}

Partitions partitions_from(const Place& place) {
  place.allow({"index", "near", "far_cycles", "sms", "keeps_copies", "block_bytes", "resident_bytes"});
  const Place index = place.need("index");
  const auto function = index_from(index);
  if (!function) {
    index.fail("lacks `kind`; give it");
  }
  if (const auto bits = index.find("exercised_bits")) {
    bits->fail("is told of the index of a cache, not of its partitions; remove it");
  }
  return {.index = *function,
          .near = static_cast<std::uint32_t>(place.find_whole("near", 0, sets(*function) - 1).value_or(0)),
          .far_cycles = place.need("far_cycles").real(0, max_cycles),
          .sms = sm_lists_from(place, "sms"),
          .keeps_copies = place.find("keeps_copies") && is_first_word(place.need("keeps_copies"), "true", "false"),
          .block_bytes = place.find_whole("block_bytes", 1, max_bytes),
          .resident_bytes = resident_bytes_from(place)};
}

std::vector<std::uint32_t> ways_from(const Place& place) {
  std::vector<std::uint32_t> ways = place.wholes<std::uint32_t>(1, max_lines);
  if (ways.empty()) {
    place.fail("is empty; give one number of ways for each set, or null");
  }
  return ways;
}

Walk walk_from(const Place& place, const CacheDescription& cache) {
  place.allow({"banks", "lines_on_hit", "lines_on_replacement", "lines_on_fill"});
  if (!cache.store_lines || !cache.ways) {
    place.fail("needs store_lines and ways; give them or remove it");
  }
  const Walk walk{
      .banks = static_cast<std::uint32_t>(place.need("banks").whole(1, cache.ways->size())),
      .lines_on_hit = static_cast<std::uint32_t>(place.need("lines_on_hit").whole(0, max_walked_lines)),
      .lines_on_replacement = static_cast<std::uint32_t>(place.need("lines_on_replacement").whole(0, max_walked_lines)),
      .lines_on_fill = static_cast<std::uint32_t>(place.need("lines_on_fill").whole(1, max_walked_lines))};
  if (cache.ways->size() % walk.banks != 0 || *cache.store_lines % walk.banks != 0) {
    place.need("banks").fail("does not divide " + std::to_string(cache.ways->size()) + " sets and " +
                             std::to_string(*cache.store_lines) + " lines evenly; correct it");
  }
  return walk;
}

Carveout carveout_from(const Place& place) {
  place.allow({"carveout_kb", "onset_bytes", "resident_bytes", "ways", "store_lines"});
  Carveout carveout{.carveout_kb = static_cast<std::uint32_t>(place.need("carveout_kb").whole(0, max_carveout_kb)),
                    .onset_bytes = place.find_whole("onset_bytes", 1, max_bytes),
                    .resident_bytes = resident_bytes_from(place),
                    .ways = {},
                    .store_lines = place.find_whole("store_lines", 1, max_lines)};
  if (const auto ways = place.find("ways")) {
    carveout.ways = ways_from(*ways);
  }
  return carveout;
}

LatencyCycles latency_cycles_from(const Place& place) {
  const auto latency = place.find("latency_cycles");
  if (!latency) {
    return {};
  }
  latency->allow({"hit", "miss"});
  return {.hit = latency->find_real("hit", 0, max_cycles), .miss = latency->find_real("miss", 0, max_cycles)};
}

// As of a cache of its own, so that the same is checked.
Twin twin_from(const Place& place) {
  place.allow({"ways", "index", "replacement"});
  CacheDescription twin;
  twin.ways = ways_from(place.need("ways"));
  const Place index = place.need("index");
  twin.index = index_from(index);
  if (!twin.index) {
    index.fail("lacks `kind`; give it");
  }
  if (const auto bits = index.find("exercised_bits")) {
    bits->fail("is told of the index of a cache, not of its twin; remove it");
  }
  const Place replacement = place.need("replacement");
  twin.replacement = replacement_from(replacement, twin.ways);
  if (!twin.replacement) {
    replacement.fail("lacks `policy`; give it");
  }
  check_ways_fit_index(place, twin);
  check_capacity(place, twin);
  return {.ways = *twin.ways, .index = *twin.index, .replacement = *twin.replacement};
}

CacheDescription cache_from(const Place& place) {
  CacheDescription cache;
  if (place.is_null()) {
    return cache;
  }
  place.allow({"capacity_bytes", "onset_bytes",  "store_lines",    "line_bytes",     "sector_bytes",
               "ways",           "index",        "replacement",    "fill",           "store",
               "walk",           "victim_lines", "twin",           "latency_cycles", "partitions",
               "carveouts",      "shared_with",  "resident_bytes", "shared_by_sms",  "assumed"});
  cache.capacity_bytes = place.find_whole("capacity_bytes", 1, max_bytes);
  cache.onset_bytes = place.find_whole("onset_bytes", 1, max_bytes);
  cache.store_lines = place.find_whole("store_lines", 1, max_lines);
  cache.line_bytes = place.find_whole("line_bytes", 1, max_line_bytes);
  cache.sector_bytes = place.find_whole("sector_bytes", 1, max_line_bytes);
  if (const auto ways = place.find("ways")) {
    cache.ways = ways_from(*ways);
  }
  if (const auto index = place.find("index")) {
    cache.index = index_from(*index);
    if (const auto bits = index->find("exercised_bits")) {
      cache.exercised_bits = distinct_address_bits(*bits, max_address_bit + 1);
    }
  }
  if (const auto replacement = place.find("replacement")) {
    cache.replacement = replacement_from(*replacement, cache.ways);
  }
  if (const auto fill = place.find("fill")) {
    cache.fill = fill_from(*fill);
  }
  if (const auto store = place.find("store")) {
    cache.store = store_from(*store);
  }
  if (const auto walk = place.find("walk")) {
    cache.walk = walk_from(*walk, cache);
  }
  cache.victim_lines = place.find_whole("victim_lines", 1, max_victim_lines);
  if (const auto twin = place.find("twin")) {
    cache.twin = twin_from(*twin);
  }
  cache.latency_cycles = latency_cycles_from(place);
  if (const auto partitions = place.find("partitions")) {
    cache.partitions = partitions_from(*partitions);
  }
  if (const auto carveouts = place.find("carveouts")) {
    for (const Place& carveout : carveouts->items()) {
      cache.carveouts.push_back(carveout_from(carveout));
    }
  }
  cache.resident_bytes = resident_bytes_from(place);
  cache.shared_by_sms = sm_lists_from(place, "shared_by_sms");
  if (const auto targets = place.find("shared_with")) {
    cache.shared_with.emplace();
    for (const Place& target : targets->items()) {
      cache.shared_with->push_back(target.text());
    }
  }
  if (const auto assumed = place.find("assumed")) {
    cache.assumed = assumed_from(*assumed);
  }
  if (cache.ways && cache.index) {
    check_ways_fit_index(place, cache);
  }
  if (cache.ways) {
    check_capacity(place, cache);
  }
  if (cache.line_bytes && cache.sector_bytes) {
    check_sectors(place, cache);
  }
  return cache;
}

DeviceDescription::Device device_from(const Place& place) {
  place.allow({"name", "source", "compute_capability", "sm_count", "provenance"});
  DeviceDescription::Device device;
  device.name = place.find_text("name").value_or("");
  device.source = place.find_text("source").value_or("");
  device.compute_capability = place.find_text("compute_capability");
  if (const auto count = place.find_whole("sm_count", 1, max_lines)) {
    device.sm_count = static_cast<unsigned>(*count);
  }
  if (const auto provenance = place.find("provenance")) {
    device.provenance = text_map(*provenance);
  }
  return device;
}

PatternLatencyCycles pattern_latencies_from(const Place& place) {
  place.allow(pattern_names);
  PatternLatencyCycles cycles;
  std::transform(pattern_names.begin(), pattern_names.end(), cycles.begin(),
                 [&](std::string_view pattern) { return place.find_real(pattern, 0, max_cycles); });
  return cycles;
}

using Caches = std::map<std::string, CacheDescription>;

std::string cache_name_from(const Place& place, const Caches& caches) {
  std::string name = place.text();
  if (!caches.contains(name)) {
    place.fail("`" + name + "` is no cache of this description; describe it under `caches` or name another");
  }
  return name;
}

std::vector<std::string> cache_names_from(const Place& place, const Caches& caches) {
  std::vector<std::string> names;
  for (const Place& item : at_most(place, max_path_caches)) {
    names.push_back(cache_name_from(item, caches));
  }
  return names;
}

PathDescription path_from(const Place& place, const Caches& caches) {
  place.allow({"caches", "tlbs", "translated_from", "page_window_bytes", "memory_latency_cycles"});
  PathDescription path;
  const Place data_caches = place.need("caches");
  path.caches = cache_names_from(data_caches, caches);
  if (path.caches.empty()) {
    data_caches.fail("is empty; name a data cache");
  }
  std::set<std::string> names(path.caches.begin(), path.caches.end());
  if (const auto tlbs = place.find("tlbs")) {
    path.tlbs = cache_names_from(*tlbs, caches);
    names.insert(path.tlbs.begin(), path.tlbs.end());
  }
  if (names.size() != path.caches.size() + path.tlbs.size()) {
    place.fail("names a cache twice; name each one once, in `caches` or in `tlbs`");
  }
  if (const auto from = place.find("translated_from")) {
    path.translated_from = from->text();
    if (std::find(path.caches.begin(), path.caches.end(), *path.translated_from) == path.caches.end()) {
      from->fail("`" + *path.translated_from + "` is none of the data caches of this path; name one of them");
    }
  }
  path.page_window_bytes = place.find_whole("page_window_bytes", 1, max_bytes);
  if (path.page_window_bytes && path.tlbs.empty()) {
    place.need("page_window_bytes").fail("says when page tables are switched, but no TLB is there; name `tlbs`");
  }
  if (const auto latencies = place.find("memory_latency_cycles")) {
    path.memory_latency_cycles = pattern_latencies_from(*latencies);
  }
  return path;
}

TileLevel tile_level_from(const Place& place) {
  place.allow({"width", "height", "order"});
  TileLevel level{.width = place.need("width").whole(1, max_bytes), .height = place.need("height").whole(1, max_bytes)};
  if (const auto order = place.find("order")) {
    level.order = is_first_word(*order, "linear", "morton") ? TileOrder::linear : TileOrder::morton;
  }
  return level;
}

TexelBlock texel_block_from(const Place& place) {
  place.allow({"width", "height"});
  return {.width = place.need("width").whole(1, max_bytes), .height = place.need("height").whole(1, max_bytes)};
}

TextureDescription texture_from(const Place& place, const Caches& caches) {
  place.allow({"texel_bytes", "width", "height", "sector_texels", "line_texels", "levels", "cache", "latency_cycles"});
  TextureDescription texture{.texel_bytes = place.need("texel_bytes").whole(1, max_bytes),
                             .width = place.need("width").whole(1, max_bytes),
                             .height = place.need("height").whole(1, max_bytes),
                             .latency_cycles = latency_cycles_from(place)};
  if (const auto sector = place.find("sector_texels")) {
    texture.sector_texels = texel_block_from(*sector);
  }
  if (const auto line = place.find("line_texels")) {
    texture.line_texels = texel_block_from(*line);
  }
  if (const auto levels = place.find("levels")) {
    const std::vector<Place> items = levels->items();
    texture.levels.emplace(items.size());
    std::transform(items.begin(), items.end(), texture.levels->begin(), tile_level_from);
  }
  if (const auto cache = place.find("cache")) {
    texture.cache = cache_name_from(*cache, caches);
  }
  try {
    check(texture);
  } catch (const InputError& error) {
    fail_in(place, error.what());
  }
  return texture;
}

CodeLevel code_level_from(const Place& place) {
  place.allow({"fits_bytes", "cycles"});
  return {.fits_bytes = place.find_whole("fits_bytes", 1, max_bytes),
          .cycles = place.need("cycles").real(0, max_cycles)};
}

CodeDescription code_from(const Place& place) {
  place.allow({"piece_bytes", "levels"});
  CodeDescription code{.piece_bytes = place.need("piece_bytes").whole(1, max_bytes)};
  if (const auto levels = place.find("levels")) {
    const std::vector<Place> items = levels->items();
    code.levels.emplace(items.size());
    std::transform(items.begin(), items.end(), code.levels->begin(), code_level_from);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool is_last = i + 1 == items.size();
      const auto& fits_bytes = (*code.levels)[i].fits_bytes;
      if (fits_bytes.has_value() == is_last) {
        items[i].fail("all levels but the last have `fits_bytes`, in ascending order; give it");
      }
      if (i > 0 && !is_last && fits_bytes <= (*code.levels)[i - 1].fits_bytes) {
        items[i].fail("fits no more than the level before it; put levels in ascending order of `fits_bytes`");
      }
    }
    if (items.empty()) {
      levels->fail("is empty; give one level at least, or null");
    }
  }
  return code;
}

constexpr std::uint64_t most_banks = 1024;

DegreeLatency degree_latency_from(const Place& place) {
  place.allow({"degree", "cycles"});
  return {.degree = static_cast<std::uint32_t>(place.need("degree").whole(1, most_banks)),
          .cycles = place.need("cycles").real(0, max_cycles)};
}

std::optional<std::uint32_t> find_count(const Place& place, std::string_view name, std::uint64_t most) {
  const auto count = place.find_whole(name, 1, most);
  return count ? std::optional(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

SharedMemoryDescription shared_memory_from(const Place& place) {
  constexpr std::uint64_t most_row_bytes = 1U << 16U;
  place.allow({"banks", "bank_width_bytes", "row_bytes", "latency_cycles"});
  SharedMemoryDescription shared_memory{.banks = find_count(place, "banks", most_banks),
                                        .bank_width_bytes = find_count(place, "bank_width_bytes", most_row_bytes),
                                        .row_bytes = find_count(place, "row_bytes", most_row_bytes),
                                        .latency_cycles = {}};
  if (shared_memory.banks && shared_memory.bank_width_bytes && shared_memory.row_bytes &&
      *shared_memory.row_bytes % (std::uint64_t{*shared_memory.banks} * *shared_memory.bank_width_bytes) != 0) {
    place.need("row_bytes").fail("is no multiple of banks * bank_width_bytes; every bank has a part of each row");
  }
  if (const auto latency = place.find("latency_cycles")) {
    latency->allow({"broadcast", "two_way", "per_way", "by_degree"});
    shared_memory.latency_cycles = {.broadcast = latency->find_real("broadcast", 0, max_cycles),
                                    .two_way = latency->find_real("two_way", 0, max_cycles),
                                    .per_way = latency->find_real("per_way", 0, max_cycles),
                                    .by_degree = {}};
    if (const auto by_degree = latency->find("by_degree")) {
      std::uint32_t last = 0;
      for (const Place& item : by_degree->items()) {
        const DegreeLatency each = degree_latency_from(item);
        if (each.degree <= last) {
          item.fail("does not have a larger degree than the one before; put degrees in ascending order");
        }
        last = each.degree;
        shared_memory.latency_cycles.by_degree.push_back(each);
      }
    }
  }
  return shared_memory;
}

OutstandingKind outstanding_kind_from(const Place& place) {
  for (const auto kind : {OutstandingKind::mshr, OutstandingKind::prt, OutstandingKind::no_limit_seen}) {
    if (to_string(kind) == place.text()) {
      return kind;
    }
  }
  place.fail("`" + place.text() + "` is no kind of table; write mshr, prt or no_limit_seen");
}

OutstandingDescription outstanding_from(const Place& place) {
  constexpr std::uint64_t most = 1U << 20U;
  place.allow({"kind", "entries", "merges", "merges_at_least", "loads_per_warp", "timing"});
  OutstandingDescription outstanding{.kind = {},
                                     .entries = find_count(place, "entries", most),
                                     .merges = find_count(place, "merges", most),
                                     .merges_at_least = find_count(place, "merges_at_least", most),
                                     .loads_per_warp = find_count(place, "loads_per_warp", most),
                                     .timing = {}};
  if (const auto kind = place.find("kind")) {
    outstanding.kind = outstanding_kind_from(*kind);
  }
  if (const auto timing = place.find("timing")) {
    std::vector<std::string_view> names;
    outstanding.timing.emplace();
    for (const auto& [name, member] : outstanding_timing_members) {
      names.emplace_back(name);
      (*outstanding.timing).*member = timing->find_real(name, 0, max_cycles).value_or(0);
    }
    timing->allow(names);
  }
  return outstanding;
}

ElementBandwidth element_bandwidth_from(const Place& place) {
  constexpr double most = 1e18;
  constexpr std::uint64_t most_bits = 1024;
  return {.element_bits = static_cast<std::uint32_t>(place.need("element_bits").whole(1, most_bits)),
          .bytes_per_second = place.need("bytes_per_second").real(0, most),
          .elements_per_sm_clock = place.find_real("elements_per_sm_clock", 0, most).value_or(0)};
}

Bandwidth memory_bandwidth_from(const Place& place) {
  place.allow({"bytes_per_second", "elements_per_sm_clock", "element_bits", "by_element_bits"});
  Bandwidth bandwidth;
  if (place.find("bytes_per_second")) {
    bandwidth.best = element_bandwidth_from(place);
  }
  if (const auto by_element_bits = place.find("by_element_bits")) {
    for (const Place& item : by_element_bits->items()) {
      item.allow({"bytes_per_second", "elements_per_sm_clock", "element_bits"});
      bandwidth.by_element_bits.push_back(element_bandwidth_from(item));
    }
  }
  return bandwidth;
}

BandwidthDescription bandwidth_from(const Place& place) {
  place.allow(bandwidth_names);
  BandwidthDescription bandwidth;
  for (const auto& [name, memory] : place.entries()) {
    bandwidth.emplace(name, memory_bandwidth_from(memory));
  }
  return bandwidth;
}

// Of all kernels in all variants: gemm.plain.
std::span<const std::string_view> kernel_result_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const KernelName kernel : kernel_names) {
      for (const KernelVariant variant : kernel_variants) {
        all.push_back(name_of(kernel, variant));
      }
    }
    return all;
  }();
  static const std::vector<std::string_view> views(names.begin(), names.end());
  return views;
}

KernelResult kernel_result_from(const Place& place) {
  constexpr double most_seconds = 1e6;
  constexpr double most_share = 1e3;
  place.allow({"size", "seconds", "level_bytes", "dominant", "share"});
  KernelResult result{
      .size = static_cast<std::uint32_t>(place.need("size").whole(KernelRun::smallest_size, KernelRun::largest_size)),
      .seconds = place.need("seconds").real(0, most_seconds),
      .level_bytes = {},
      .dominant = place.need("dominant").text(),
      .share = place.need("share").real(0, most_share)};
  const Place level_bytes = place.need("level_bytes");
  level_bytes.allow(kernel_levels);
  for (const auto& [level, bytes] : level_bytes.entries()) {
    result.level_bytes.emplace(level, bytes.whole(0, max_count));
  }
  if (!result.level_bytes.contains(result.dominant)) {
    place.need("dominant").fail("`" + result.dominant + "` is none of its `level_bytes`; write one of them");
  }
  return result;
}

KernelResults kernels_from(const Place& place) {
  place.allow(kernel_result_names());
  KernelResults kernels;
  for (const auto& [name, result] : place.entries()) {
    kernels.emplace(name, kernel_result_from(result));
  }
  return kernels;
}

NoiseDescription noise_from(const Place& place) {
  place.allow({"jitter_cycles", "outlier_probability", "outlier_cycles", "misread_probability"});
  return {.jitter_cycles = place.find_real("jitter_cycles", 0, max_cycles).value_or(0),
          .outlier_probability = place.find_real("outlier_probability", 0, 1).value_or(0),
          .outlier_cycles = place.find_real("outlier_cycles", 0, max_cycles).value_or(0),
          .misread_probability = place.find_real("misread_probability", 0, 1).value_or(0)};
}

EvidenceStatus status_from(const Place& place) {
  for (const auto status : {EvidenceStatus::resolved, EvidenceStatus::ambiguous, EvidenceStatus::unknown}) {
    if (to_string(status) == place.text()) {
      return status;
    }
  }
  place.fail("`" + place.text() + "` is not a status; write resolved, ambiguous or unknown");
}

LeafEvidence leaf_evidence_from(const Place& place) {
  LeafEvidence leaf;
  leaf.status = status_from(place.need("status"));
  leaf.confidence = place.find_real("confidence", 0, 1);
  leaf.experiments = place.find_whole("experiments", 0, max_count).value_or(0);
  if (const auto alternatives = place.find("alternatives")) {
    for (const Place& alternative : alternatives->items()) {
      leaf.alternatives.push_back(to_flow_yaml(alternative.node()));
    }
  }
  leaf.reason = place.find_text("reason").value_or("");
  leaf.decided_by = place.find_text("decided_by").value_or("");
  static constexpr std::array<std::string_view, 6> common{"status",       "confidence", "experiments",
                                                          "alternatives", "reason",     "decided_by"};
  for (const auto& [name, value] : place.entries()) {
    if (!contains(common, name)) {
      leaf.details.emplace(name, to_flow_yaml(value.node()));
    }
  }
  return leaf;
}

PredictionEvidence prediction_from(const Place& place) {
  place.allow({"agreement", "accesses", "sequences", "outliers", "voted_agreement", "p_value", "assuming"});
  PredictionEvidence prediction;
  prediction.agreement = place.find_real("agreement", 0, 1);
  prediction.voted_agreement = place.find_real("voted_agreement", 0, 1);
  prediction.p_value = place.find_real("p_value", 0, 1);
  prediction.accesses = place.find_whole("accesses", 0, max_count).value_or(0);
  prediction.sequences = place.find_whole("sequences", 0, max_count).value_or(0);
  prediction.outliers = place.find_whole("outliers", 0, max_count).value_or(0);
  if (const auto assuming = place.find("assuming")) {
    prediction.assuming = to_flow_yaml(assuming->node());
  }
  return prediction;
}

Inquiry inquiry_from(const Place& place) {
  place.allow({"asked", "why", "learned", "questions", "accesses", "hypotheses_before", "hypotheses_after"});
  return {.asked = place.find_text("asked").value_or(""),
          .why = place.find_text("why").value_or(""),
          .learned = place.find_text("learned").value_or(""),
          .questions = place.find_whole("questions", 0, max_count).value_or(0),
          .accesses = place.find_whole("accesses", 0, max_count).value_or(0),
          .hypotheses_before = place.find_whole("hypotheses_before", 0, max_count),
          .hypotheses_after = place.find_whole("hypotheses_after", 0, max_count)};
}

// What evidence may speak of; anything, where there are no names.
struct LeafNames {
  std::string_view of_what;
  std::span<const std::string_view> names;
};

CacheEvidence evidence_from(const Place& place, const LeafNames& leaves) {
  CacheEvidence evidence;
  for (const auto& [name, value] : place.entries()) {
    if (name == "prediction") {
      evidence.prediction = value.is_null() ? std::nullopt : std::optional(prediction_from(value));
    } else if (name == "inquiries") {
      for (const Place& inquiry : value.items()) {
        evidence.inquiries.push_back(inquiry_from(inquiry));
      }
    } else if (!leaves.names.empty() && !contains(leaves.names, name)) {
      value.fail("is not a leaf of a " + std::string(leaves.of_what) + "; write `" + nearest(name, leaves.names) +
                 "` or remove it");
    } else {
      evidence.leaves.emplace(name, leaf_evidence_from(value));
    }
  }
  return evidence;
}

void check_schema(const Place& root) {
  const auto schema = root.find("schema");
  if (!schema) {
    root.fail("schema: is missing; begin the file with `schema: gpuinfer/1`");
  }
  const std::string text = schema->text();
  const auto version =
      text.starts_with(schema_family) ? number_from<std::uint64_t>(text.substr(schema_family.size())) : std::nullopt;
  if (!version || *version == 0) {
    schema->fail("`" + text + "` is not a schema that this program knows; write gpuinfer/1");
  }
  if (*version > schema_version) {
    schema->fail(text + " is newer than this program, which reads gpuinfer/1; use a newer gpuinfer");
  }
}

DeviceDescription description_from(const Place& root) {
  static_cast<void>(root.entries());
  check_schema(root);
  root.allow({"schema", "device", "caches", "paths", "textures", "code", "shared_memory", "memory_latency_cycles",
              "outstanding", "bandwidth", "kernels", "noise", "evidence"});
  DeviceDescription description;
  if (const auto device = root.find("device")) {
    description.device = device_from(*device);
  }
  if (const auto caches = root.find("caches")) {
    for (const auto& [name, cache] : caches->entries()) {
      description.caches.emplace(name, cache_from(cache));
    }
  }
  if (const auto paths = root.find("paths")) {
    for (const auto& [name, path] : paths->entries()) {
      description.paths.emplace(name, path_from(path, description.caches));
    }
  }
  if (const auto textures = root.find("textures")) {
    for (const auto& [name, texture] : textures->entries()) {
      description.textures.emplace(name, texture_from(texture, description.caches));
    }
  }
  if (const auto code = root.find("code")) {
    for (const auto& [name, section] : code->entries()) {
      description.code.emplace(name, code_from(section));
    }
  }
  if (const auto latencies = root.find("memory_latency_cycles")) {
    description.memory_latency_cycles = pattern_latencies_from(*latencies);
  }
  if (const auto shared_memory = root.find("shared_memory")) {
    description.shared_memory = shared_memory_from(*shared_memory);
  }
  if (const auto outstanding = root.find("outstanding")) {
    description.outstanding = outstanding_from(*outstanding);
  }
  if (const auto bandwidth = root.find("bandwidth")) {
    description.bandwidth = bandwidth_from(*bandwidth);
  }
  if (const auto kernels = root.find("kernels")) {
    description.kernels = kernels_from(*kernels);
  }
  if (const auto noise = root.find("noise")) {
    description.noise = noise_from(*noise);
  }
  if (const auto evidence = root.find("evidence")) {
    for (const auto& [name, value] : evidence->entries()) {
      LeafNames leaves;
      if (description.caches.contains(name)) {
        leaves = {.of_what = "cache", .names = cache_leaves};
      } else if (description.textures.contains(name)) {
        leaves = {.of_what = "texture", .names = texture_leaves};
      } else if (description.code.contains(name)) {
        leaves = {.of_what = "code", .names = code_leaves};
      } else if (name == "shared_memory") {
        leaves = {.of_what = "shared memory", .names = shared_memory_leaves};
      } else if (name == "memory_latency_cycles") {
        leaves = {.of_what = "latency", .names = pattern_names};
      } else if (name == "outstanding") {
        leaves = {.of_what = "table of outstanding requests", .names = outstanding_leaves};
      } else if (name == "bandwidth") {
        leaves = {.of_what = "bandwidth", .names = bandwidth_names};
      } else if (name == "kernels") {
        leaves = {.of_what = "kernel", .names = kernel_result_names()};
      } else {
        value.fail("is no cache of this description; describe it under `caches` or remove its evidence");
      }
      description.evidence.emplace(name, evidence_from(value, leaves));
    }
  }
  return description;
}

}  // namespace

DeviceDescription parse_description(std::string_view yaml, const std::string& file) {
  const YamlNode root = parse_yaml(yaml, file);
  return description_from(Place(root, file));
}

DeviceDescription read_description(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored)) {
    throw InputError(file.string() + ": cannot be read; check its name and permissions");
  }
  // One byte more than is taken, so that the parser sees that there is more.
  std::string yaml(most_description_bytes + 1, '\0');
  stream.read(yaml.data(), static_cast<std::streamsize>(yaml.size()));
  yaml.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_description(yaml, file.string());
}

}  // namespace gpuinfer::model
