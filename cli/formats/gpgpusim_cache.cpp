// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/gpgpusim_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "cli/formats/replay.hpp"
#include "cli/leaf_table.hpp"
#include "cli/supposed_cache.hpp"
#include "infer/asking/gf2.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;

constexpr std::uint64_t sector_bytes_of_s = 32;
constexpr std::uint64_t line_bytes_of_s = 128;

unsigned log2_of(std::uint64_t power_of_two) { return static_cast<unsigned>(std::countr_zero(power_of_two)); }

std::uint64_t nearest_power_of_two(double number) {
  return std::uint64_t{1} << static_cast<unsigned>(std::max(0L, std::lround(std::log2(std::max(number, 1.0)))));
}

std::uint64_t at_least_one(double number) { return static_cast<std::uint64_t>(std::max(1LL, std::llround(number))); }

std::uint64_t lines_of(const CacheDescription& cache) {
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  return std::min(lines, cache.store_lines.value_or(lines));
}

// The hash of Rau, "Pseudo-Randomly Interleaved Memory" (ISCA 1991): bit k of the address above the plain index is
// x^(degree + k) modulo a polynomial over GF(2). So many bits take part as the simulator writes out.
struct Polynomial {
  std::uint64_t sets;
  std::uint64_t coefficients;
  unsigned address_bits;
};
constexpr std::array polynomials{Polynomial{16, 0b10011, 13}, Polynomial{32, 0b100101, 15},
                                 Polynomial{64, 0b1000011, 19}};

void add_polynomial(std::vector<std::uint64_t>& rows, std::uint64_t sets, unsigned first_bit) {
  const auto* hash = std::ranges::find(polynomials, sets, &Polynomial::sets);
  std::uint64_t power = hash->coefficients ^ sets;
  for (unsigned k = 0; k < hash->address_bits; ++k) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] |= ((power >> i) & 1U) << (first_bit + k);
    }
    power <<= 1U;
    power ^= (power & sets) != 0 ? hash->coefficients : 0;
  }
}

// Nugteren et al., "A Detailed GPU Cache Model Based on Reuse Distance Theory" (HPCA 2014). Address bits, not those
// above the line; with 64 sets the sixth is bit 12 alone.
void add_fermi(std::vector<std::uint64_t>& rows) {
  constexpr std::array<unsigned, 5> upper{13, 14, 15, 17, 19};
  for (std::size_t i = 0; i < upper.size(); ++i) {
    rows[i] ^= std::uint64_t{1} << upper[i];
  }
  if (rows.size() > upper.size()) {
    rows[upper.size()] = std::uint64_t{1} << 12U;
  }
}

// The parities of address bits that choose the part and the set in it.
std::vector<std::uint64_t> parities(const GpgpusimCache& cache, std::uint64_t parts) {
  const unsigned part_bit = log2_of(cache.line_bytes);
  const unsigned set_bit = part_bit + log2_of(parts);
  const unsigned set_bits = log2_of(cache.sets);
  std::vector<std::uint64_t> rows;
  for (unsigned i = 0; i < set_bits; ++i) {
    rows.push_back(std::uint64_t{1} << (set_bit + i));  // NOLINT(clang-analyzer-core.*): no part and no line is empty
  }
  if (cache.index == 'X') {
    for (unsigned i = 0; i < set_bits; ++i) {
      rows[i] |= std::uint64_t{1} << (set_bit + set_bits + i);
    }
  } else if (cache.index == 'P') {
    add_polynomial(rows, cache.sets, set_bit + set_bits);
  } else if (cache.index == 'H') {
    add_fermi(rows);
  }
  for (unsigned bit = part_bit; bit < set_bit; ++bit) {
    rows.push_back(std::uint64_t{1} << bit);
  }
  return rows;
}

// Whether they tell the same addresses apart.
bool same_split(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  infer::EchelonBasis basis;
  for (const std::uint64_t row : a) {
    basis.add(row);
  }
  const std::size_t rank = basis.rank();
  infer::EchelonBasis other;
  for (const std::uint64_t row : b) {
    other.add(row);
    basis.add(row);
  }
  return rank == basis.rank() && rank == other.rank();
}

std::string bit_range(std::uint64_t first, std::uint64_t count) {
  return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

std::string words_of(const model::IndexFunction& index) {
  const model::Masks masks = model::masks(index);
  const std::uint64_t all = std::accumulate(masks.begin(), masks.end(), std::uint64_t{0}, std::bit_or<>());
  const bool are_bits = model::parities(index) && std::ranges::all_of(masks, std::has_single_bit<std::uint64_t>);
  const auto low = static_cast<std::uint64_t>(std::countr_zero(all));
  if (are_bits && all != 0 && std::has_single_bit((all >> low) + 1)) {
    return "bits " + bit_range(low, masks.size());
  }
  return model::to_text(index);
}

std::string words_of(const GpgpusimCache& cache, std::uint64_t parts) {
  const std::uint64_t sets = cache.sets * parts;
  if (sets == 1) {
    return "one set";
  }
  std::string range = "bits " + bit_range(log2_of(cache.line_bytes), log2_of(sets));
  switch (cache.index) {
    case 'X':
      return range + " with the next higher ones XORed in";
    case 'P':
      return "the polynomial hash of " + std::to_string(cache.sets) + " sets";
    case 'H':
      return "the hash of Fermi";
    default:
      return range;
  }
}

bool is_policy(const CacheDescription& cache, std::string_view name) {
  const model::Replacement& policy = cache.replacement.value();
  const bool one_way = std::ranges::all_of(cache.ways.value(), [](std::uint32_t ways) { return ways == 1; });
  return policy.policy == name || one_way || std::ranges::find(policy.equivalent, name) != policy.equivalent.end();
}

std::string_view policy_name(char replacement) { return replacement == 'F' ? "fifo" : "lru"; }

std::string change_of_index(const std::string& described, const std::string& exported) {
  constexpr std::string_view noun = "bits ";
  const bool twice = described.starts_with(noun) && exported.starts_with(noun);
  return fmt::format("index {} became {}", described, exported.substr(twice ? noun.size() : 0));
}

// Fits one cache, step by step; every step says what it loses.
class Fitting {
 public:
  Fitting(std::string where, CacheDescription cache, CacheClues clues, const GpgpusimCache& shipped,
          std::uint64_t parts)
      : where_(std::move(where)), clues_(std::move(clues)), shipped_(shipped), most_parts_(parts),
        whole_(std::move(cache)) {
    result_.cache = shipped;
  }

  GpgpusimFit run() {
    suppose();
    stand_in_for_sizes();
    stand_in_for_ways();
    stand_in_for_replacement();
    fit_line();
    fit_sets();
    stand_in_for_index();
    fit_rules();
    fit_stores();
    tell_what_has_no_field();
    return std::move(result_);
  }

 private:
  void lose(const std::string& leaf, std::string what) {
    result_.losses.push_back({.where = where_ + leaf, .what = std::move(what)});
  }

  // Why a leaf is null, for the end of a sentence.
  [[nodiscard]] std::string reason_of(const std::string& leaf) const {
    if (clues_.evidence != nullptr) {
      const auto entry = clues_.evidence->leaves.find(leaf);
      if (entry != clues_.evidence->leaves.end() && entry->second.alternatives.size() > 1) {
        return fmt::format("one of {} alternatives", entry->second.alternatives.size());
      }
    }
    return "not known";
  }

  void suppose() {
    for (const std::string& leaf : whole_.assumed) {
      lose("." + leaf, "assumed in the description, which has no source for it");
    }
    SupposedCache likely = supposed(whole_, clues_.evidence);
    for (const std::string& leaf : likely.leaves) {
      lose("." + leaf, "not proven; the only alternative of the evidence stands in");
    }
    whole_ = std::move(likely.cache);
  }

  void stand_in_for_sizes() {
    if (!whole_.line_bytes) {
      whole_.line_bytes = std::max(shipped_.line_bytes, whole_.sector_bytes.value_or(0));
      lose(".line_bytes", fmt::format("{}; {} stands in", reason_of("line_bytes"), *whole_.line_bytes));
    }
    if (!whole_.sector_bytes) {
      const bool in_sectors = shipped_.type == 'S' && whole_.line_bytes == line_bytes_of_s;
      whole_.sector_bytes = in_sectors ? sector_bytes_of_s : *whole_.line_bytes;
      lose(".sector_bytes", fmt::format("{}; {} stands in", reason_of("sector_bytes"), *whole_.sector_bytes));
    }
  }

  // The capacity where ways are not known, with where it is from; none: that of `shipped_`.
  [[nodiscard]] std::optional<std::pair<std::uint64_t, std::string>> capacity() const {
    if (whole_.capacity_bytes) {
      return std::pair{*whole_.capacity_bytes, std::string("as many as the capacity needs")};
    }
    if (whole_.onset_bytes) {
      return std::pair{*whole_.onset_bytes,
                       fmt::format("as many as {} B need, above which misses begin", *whole_.onset_bytes)};
    }
    if (clues_.capacity_bytes) {
      return std::pair{*clues_.capacity_bytes,
                       fmt::format("as many as {} B need, {}", *clues_.capacity_bytes, clues_.capacity_source)};
    }
    return std::nullopt;
  }

  void stand_in_for_ways() {
    if (whole_.ways) {
      return;
    }
    std::uint64_t sets = whole_.index ? model::sets(*whole_.index) : shipped_.sets * most_parts_;
    std::uint64_t ways = shipped_.ways;
    std::string source = "as shipped";
    if (const auto known = capacity()) {
      const double lines = std::max(1.0, static_cast<double>(known->first) / static_cast<double>(*whole_.line_bytes));
      if (!whole_.index) {
        sets = std::min(sets, std::bit_floor(static_cast<std::uint64_t>(std::llround(lines))));
      }
      ways = at_least_one(lines / static_cast<double>(sets));
      source = known->second;
    }
    whole_.ways = std::vector<std::uint32_t>(sets, static_cast<std::uint32_t>(ways));
    lose(".ways", fmt::format("{}; {} sets of {} ways, {}", reason_of("ways"), sets, ways, source));
  }

  void stand_in_for_replacement() {
    if (!whole_.replacement) {
      whole_.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
      std::string what = reason_of("replacement") + "; lru as shipped";
      if (clues_.evidence != nullptr && clues_.evidence->prediction && clues_.evidence->prediction->assuming &&
          clues_.evidence->prediction->agreement) {
        what += fmt::format("; assuming {}, the described cache predicted {} of fresh random loads",
                            *clues_.evidence->prediction->assuming,
                            model::percent_text(*clues_.evidence->prediction->agreement));
      }
      lose(".replacement", std::move(what));
    }
  }

  void fit_line() {
    GpgpusimCache& cache = result_.cache;
    cache.line_bytes = nearest_power_of_two(static_cast<double>(*whole_.line_bytes));
    const bool in_sectors = *whole_.sector_bytes < *whole_.line_bytes;
    cache.type = shipped_.type == 'S' && in_sectors && cache.line_bytes == line_bytes_of_s ? 'S' : 'N';
    if (cache.line_bytes != *whole_.line_bytes) {
      lose(".line_bytes",
           fmt::format("{} B became {} B, the nearest power of two", *whole_.line_bytes, cache.line_bytes));
    }
    const std::uint64_t brought = cache.type == 'S' ? sector_bytes_of_s : cache.line_bytes;
    if (in_sectors && brought != *whole_.sector_bytes) {
      lose(".sector_bytes", fmt::format("sectors of {} B became {}", *whole_.sector_bytes,
                                        cache.type == 'S' ? "32 B" : fmt::format("whole lines of {} B", brought)));
    }
  }

  void fit_sets() {
    GpgpusimCache& cache = result_.cache;
    const std::vector<std::uint32_t>& ways = *whole_.ways;
    // Where the store is what lines wait for, its banks are nearer to sets than the sets of tags are.
    const std::size_t sets = whole_.sweep ? whole_.sweep->banks : ways.size();
    const std::uint64_t all_sets = nearest_power_of_two(static_cast<double>(sets));
    const std::uint64_t bytes = lines_of(whole_) * *whole_.line_bytes;
    result_.parts = std::min(most_parts_, all_sets);
    cache.sets = all_sets / result_.parts;
    cache.ways = at_least_one(static_cast<double>(bytes) / static_cast<double>(all_sets * cache.line_bytes));
    const bool unequal = std::ranges::any_of(ways, [&](std::uint32_t each) { return each != ways.front(); });
    const std::uint64_t exported_bytes = cache.bytes() * result_.parts;
    if (unequal || ways.size() != all_sets || exported_bytes != bytes) {
      lose(".ways", fmt::format("{} sets ({} ways) became {} sets of {} ways: {} B became {} B", ways.size(),
                                model::words::ways(ways), all_sets, cache.ways, bytes, exported_bytes));
    }
    if (whole_.store_lines) {
      lose(".store_lines", fmt::format("a store of {} lines in {} banks behind more tags became {} sets",
                                       *whole_.store_lines, sets, all_sets));
    }
  }

  // That of `shipped_`, or the bits above the line where that is none for so many sets.
  void stand_in_for_index() {
    if (whole_.index) {
      return;
    }
    stands_in_for_index_ = true;
    GpgpusimCache& cache = result_.cache;
    cache.index = shipped_.index == 'P' && !has_polynomial(cache.sets) ? 'X' : shipped_.index;
    if (whole_.ways->size() == cache.sets * result_.parts && whole_.line_bytes == cache.line_bytes) {
      whole_.index = described(cache, result_.parts).index;
    } else {
      whole_.index = model::ModuloIndex{.granule_bytes = *whole_.line_bytes,
                                        .sets_count = static_cast<std::uint32_t>(whole_.ways->size())};
    }
    if (whole_.ways->size() > 1) {
      lose(".index", fmt::format("{}; {} in its place", reason_of("index"), words_of(cache, result_.parts)));
    }
  }

  [[nodiscard]] std::vector<char> index_candidates() const {
    if (stands_in_for_index_) {
      return {result_.cache.index};
    }
    const std::uint64_t sets = result_.cache.sets;
    std::vector<char> candidates{'L', 'X'};
    if (has_polynomial(sets)) {
      candidates.push_back('P');
    }
    if (result_.parts == 1 && (sets == 32 || sets == 64)) {
      candidates.push_back('H');
    }
    const auto known = parities(*whole_.index);
    for (const char candidate : candidates) {
      GpgpusimCache cache = result_.cache;
      cache.index = candidate;
      if (known && same_index(cache)) {
        return {candidate};
      }
    }
    return model::scatters(*whole_.index) && sets > 1 ? candidates : std::vector<char>{'L'};
  }

  [[nodiscard]] std::vector<char> replacement_candidates() const {
    if (is_policy(whole_, "lru")) {
      return {'L'};
    }
    return is_policy(whole_, "fifo") ? std::vector<char>{'F'} : std::vector<char>{'L', 'F'};
  }

  // Without the address bits that took no part in finding the index: of them nothing is known.
  [[nodiscard]] std::vector<std::uint64_t> exercised(std::vector<std::uint64_t> rows) const {
    if (whole_.exercised_bits) {
      const std::uint64_t mask = infer::mask_of(*whole_.exercised_bits);
      for (std::uint64_t& row : rows) {
        row &= mask;
      }
    }
    return rows;
  }

  [[nodiscard]] bool same_index(const GpgpusimCache& cache) const {
    const auto known = parities(*whole_.index);
    if (!known) {
      return false;
    }
    const std::vector<std::uint64_t> exported = exercised(parities(cache, result_.parts));
    return std::ranges::count(exported, std::uint64_t{0}) == 0 && same_split(exercised(*known), exported);
  }

  [[nodiscard]] bool loads_can_tell(const GpgpusimCache& cache) const {
    const CacheDescription exported = described(cache, result_.parts);
    return !same_index(cache) || !is_policy(whole_, policy_name(cache.replacement)) ||
           exported.line_bytes != whole_.line_bytes || exported.sector_bytes != whole_.sector_bytes ||
           exported.ways != whole_.ways || whole_.store_lines || whole_.victim_lines || whole_.twin ||
           whole_.fill != model::Fill{};
  }

  void fit_rules() {
    std::optional<std::uint64_t> least;
    GpgpusimCache best = result_.cache;
    std::vector<Replay> best_replays;
    for (const char replacement : replacement_candidates()) {
      for (const char index : index_candidates()) {
        GpgpusimCache cache = result_.cache;
        cache.replacement = replacement;
        cache.index = index;
        const std::vector<Replay> counted =
            loads_can_tell(cache) ? replays(whole_, described(cache, result_.parts)) : std::vector<Replay>{};
        std::uint64_t difference = 0;
        for (const Replay& replay : counted) {
          const auto [fewer, more] = std::minmax(replay.described_misses, replay.exported_misses);
          difference += more - fewer;
        }
        if (!least || difference < *least) {
          least = difference;
          best = cache;
          best_replays = counted;
        }
      }
    }
    result_.cache = best;
    tell_rules(best_replays);
  }

  void tell_rules(const std::vector<Replay>& counted) {
    const GpgpusimCache& cache = result_.cache;
    const std::string_view policy = policy_name(cache.replacement);
    if (!is_policy(whole_, policy)) {
      lose(".replacement", fmt::format("{} became {}", model::to_flow_yaml(*whole_.replacement), policy));
    }
    if (whole_.fill.lines_ahead() > 0) {
      lose(".fill", fmt::format("the prefetch of {} lines is left out", whole_.fill.lines_ahead()));
    }
    if (whole_.victim_lines) {
      lose(".victim_lines", fmt::format("the {} lines that are kept of victims are left out", *whole_.victim_lines));
    }
    if (whole_.twin) {
      lose(".twin", "the cache beside this one is left out");
    }
    if (whole_.fill.fetch_bytes) {
      lose(".fill", fmt::format("a miss brings its sector and not the {} B around it", *whole_.fill.fetch_bytes));
    }
    if (!stands_in_for_index_ && !same_index(cache)) {
      lose(".index", change_of_index(words_of(*whole_.index), words_of(cache, result_.parts)));
    }
    if (!counted.empty()) {
      // They tell of all changes together, and stand with the last one.
      result_.losses.back().replays = counted;
    }
    if (result_.parts > 1) {
      lose(".index", fmt::format("among {} sub-partitions the address mapping of the base configuration chooses; lines "
                                 "that take turns are assumed",
                                 result_.parts));
    }
  }

  void fit_stores() {
    GpgpusimCache& cache = result_.cache;
    if (cache.write == 'R') {
      lose("", "not known: MSHRs and queues; as shipped");
      return;
    }
    const bool in_sectors = cache.type == 'S';
    const model::Store store = whole_.store.value_or(model::Store{});
    if (store.evicts) {
      cache.write = 'E';
    } else if (store.write) {
      cache.write = *store.write == model::Write::back ? 'B' : 'T';
    }
    const bool allocates = store.allocate.value_or(in_sectors || cache.write == 'B');
    // Lazy fetches are of sectors.
    const bool is_lazy = in_sectors && !store.fetches.value_or(false);
    cache.write_allocate = !allocates ? 'N' : is_lazy ? 'L' : store.fetches.value_or(false) ? 'F' : 'W';
    lose("", !whole_.store ? "not known: what stores do, MSHRs and queues; as shipped"
             : store.cleaning
                 ? "dirty lines are written back as they go, not before; MSHRs and queues are not known, as shipped"
             : !store.evicts && !store.write ? "not known: MSHRs, queues and when dirty lines are written; as shipped"
                                             : "not known: MSHRs and queues; as shipped");
  }

  void tell_what_has_no_field() {
    if (whole_.partitions) {
      lose(".partitions",
           fmt::format("all parts are equally near; the far one takes {} cycles more", whole_.partitions->far_cycles));
    }
    if (whole_.resident_bytes) {
      lose(".resident_bytes", "no field");
    }
  }

  std::string where_;
  CacheClues clues_;
  GpgpusimCache shipped_;
  std::uint64_t most_parts_;
  bool stands_in_for_index_ = false;
  CacheDescription whole_;  // with a stand-in for every leaf that a simulation needs
  GpgpusimFit result_;
};

}  // namespace

bool has_polynomial(std::uint64_t sets) {
  return std::ranges::find(polynomials, sets, &Polynomial::sets) != polynomials.end();
}

std::string to_text(const GpgpusimCache& cache) {
  return fmt::format("{}:{}:{}:{},{}:{}:{}:{}:{},{}:{}:{},{}", cache.type, cache.sets, cache.line_bytes, cache.ways,
                     cache.replacement, cache.write, cache.allocate, cache.write_allocate, cache.index, cache.mshr,
                     cache.mshr_entries, cache.mshr_merges, cache.queues);
}

std::optional<GpgpusimCache> gpgpusim_cache_from(std::string_view text) {
  constexpr std::size_t fields = 12;  // and the queues, as they are
  std::vector<std::string> values;
  std::size_t begin = 0;
  while (values.size() < fields) {
    const std::size_t end = text.find_first_of(":,", begin);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    values.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::array<std::uint64_t, 5> numbers{};
  constexpr std::array<std::size_t, 5> at{1, 2, 3, 10, 11};
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto number = model::number_from<std::uint64_t>(values[at[i]]);
    if (!number || *number == 0) {
      return std::nullopt;
    }
    numbers[i] = *number;
  }
  for (const unsigned letter : {0U, 4U, 5U, 6U, 7U, 8U, 9U}) {
    if (values[letter].size() != 1) {
      return std::nullopt;
    }
  }
  return GpgpusimCache{values[0][0], numbers[0],   numbers[1],        numbers[2],   values[4][0],
                       values[5][0], values[6][0], values[7][0],      values[8][0], values[9][0],
                       numbers[3],   numbers[4],   text.substr(begin)};
}

bool set_mshr_type(GpgpusimCache& cache, bool l2_in_sectors) {
  const bool is_texture = cache.mshr == 'F' || cache.mshr == 'T';
  const bool one_answer =
      !l2_in_sectors || cache.type == 'S' || (cache.line_bytes == sector_bytes_of_s && cache.write != 'R');
  if (one_answer) {
    cache.mshr = is_texture ? 'F' : 'A';
    return true;
  }
  cache.mshr = is_texture ? 'T' : 'S';
  constexpr std::uint64_t half_line_bytes = 64;
  return cache.line_bytes == line_bytes_of_s || (cache.line_bytes == half_line_bytes && cache.write == 'R');
}

CacheDescription described(const GpgpusimCache& cache, std::uint64_t parts) {
  CacheDescription description;
  description.capacity_bytes = cache.bytes() * parts;
  description.line_bytes = cache.line_bytes;
  description.sector_bytes = cache.type == 'S' ? sector_bytes_of_s : cache.line_bytes;
  description.ways = std::vector<std::uint32_t>(cache.sets * parts, static_cast<std::uint32_t>(cache.ways));
  description.index = model::XorIndex{.row_masks = parities(cache, parts), .constant = 0};
  description.replacement =
      model::Replacement{.policy = std::string(policy_name(cache.replacement)), .parameters = {}, .equivalent = {}};
  return description;
}

GpgpusimFit fit(const std::string& where, const CacheDescription& cache, const CacheClues& clues,
                const GpgpusimCache& shipped, std::uint64_t parts) {
  return Fitting(where, cache, clues, shipped, parts).run();
}

}  // namespace gpuinfer::cli
