// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/random_cache.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "model/access_sequence.hpp"
#include "tests/oracle/naive_policies.hpp"

namespace gpuinfer::oracle {
namespace {

using model::CacheDescription;
using model::IndexFunction;
using model::PolicyParameter;
using Parameters = std::map<std::string, PolicyParameter>;

// One in so many is a draw that hardly ever comes true: about once in 10^10 accesses of a long run.
constexpr std::int64_t as_good_as_never = std::int64_t{1} << 30U;

std::vector<std::string> all_qlru_variants() {
  std::vector<std::string> names;
  for (const char* hit : {"H00", "H10", "H11", "H20", "H21"}) {
    for (const char* fill : {"M0", "M1", "M2", "M3"}) {
      for (const char* rules : {"R0_U0", "R0_U1", "R1_U0", "R1_U1", "R1_U2", "R1_U3", "R2_U0", "R2_U1"}) {
        for (const char* when : {"", "_UMO"}) {
          names.push_back(std::string(hit) + "_" + fill + "_" + rules + when);
        }
      }
    }
  }
  return names;
}

bool has_parameters_for_each_way(std::string_view policy) {
  return policy == "weighted_random" || policy == "permutation" || policy == "automaton" || policy == "favoured_fifo";
}

// Number `number` of the things, from the beginning again after the last one; `number` becomes what is left.
template <class T>
T next_of(const std::vector<T>& things, std::size_t& number) {
  const T& thing = things[number % things.size()];
  number /= things.size();
  return thing;
}

std::vector<double> random_numbers(std::size_t count, std::size_t bound, Dice& dice) {
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    number = static_cast<double>(dice.below(bound));
  }
  return numbers;
}

Parameters random_automaton(std::size_t ways, Dice& dice) {
  const std::size_t states = dice.between(1, 20);
  std::vector<std::vector<double>> hits;
  for (std::size_t state = 0; state < states; ++state) {
    hits.push_back(random_numbers(ways, states, dice));
  }
  Parameters parameters{{"hits", hits},
                        {"victims", random_numbers(states, ways, dice)},
                        {"misses", random_numbers(states, states, dice)}};
  if (dice.one_in(2)) {
    parameters["fills"] = random_numbers(states, states, dice);
  }
  if (dice.one_in(2)) {
    parameters["start"] = static_cast<std::int64_t>(dice.below(states));
  }
  return parameters;
}

Parameters random_permutations(std::size_t ways, Dice& dice) {
  std::vector<std::vector<double>> hits;
  for (std::size_t position = 0; position < ways; ++position) {
    hits.push_back(random_permutation(ways, dice));
  }
  return {{"hits", hits}, {"miss", random_permutation(ways, dice)}};
}

Parameters nru_parameters(std::size_t number, std::size_t ways, Dice& dice) {
  const auto victim = next_of<std::string>({"first", "rotating", "order"}, number);
  Parameters parameters{{"victim", victim},
                        {"clear", next_of<std::string>({"on_miss", "on_access"}, number)},
                        {"keep_last", next_of<std::string>({"false", "true"}, number)}};
  if (victim == "order") {
    parameters["order"] = random_permutation(ways, dice);
  }
  return parameters;
}

Parameters rrip_parameters(std::size_t& number) {
  const auto promotion = next_of<std::string>({"hit", "frequency"}, number);
  return {{"promotion", promotion}, {"bits", next_of<std::int64_t>({1, 2, 3, 4, 5, 6, 7, 8}, number)}};
}

Parameters random_rivals(std::string_view policy, Dice& dice) {
  const std::vector<std::string> names{"lru", "fifo", "lip", "plru", "nru", "mru", "clock", "srrip"};
  Parameters parameters{{"first", dice.one_of(names)}, {"second", dice.one_of(names)}};
  if (policy == "alternating") {
    parameters["every_accesses"] = static_cast<std::int64_t>(dice.between(1, 1000));
  } else {
    parameters["one_leader_in"] = static_cast<std::int64_t>(dice.between(2, 8));
    parameters["psel_bits"] = static_cast<std::int64_t>(dice.between(1, 10));
  }
  return parameters;
}

Parameters random_parameters(std::string_view policy, std::size_t number, const std::vector<std::uint32_t>& ways,
                             Dice& dice) {
  if (policy == "bip") {
    return {{"one_in", next_of<std::int64_t>({1, as_good_as_never}, number)}};
  }
  if (policy == "plru") {
    const auto order = next_of<std::string>({"forward", "reversed"}, number);
    return {{"order", order}, {"split", next_of<std::string>({"balanced", "power_of_two"}, number)}};
  }
  if (policy == "nru") {
    return nru_parameters(number, ways.front(), dice);
  }
  if (policy == "mru") {
    return {{"of", next_of<std::string>({"access", "fill"}, number)}};
  }
  if (policy == "clock") {
    return {{"mark_fill", next_of<std::string>({"true", "false"}, number)}};
  }
  if (policy == "srrip") {
    return rrip_parameters(number);
  }
  if (policy == "slru") {
    const auto most = std::int64_t{*std::ranges::min_element(ways)} - 1;
    return {{"protected_ways", 1 + static_cast<std::int64_t>(number) % most}};
  }
  if (policy == "brrip") {
    Parameters parameters = rrip_parameters(number);
    parameters["one_in"] = next_of<std::int64_t>({1, as_good_as_never}, number);
    return parameters;
  }
  if (policy == "qlru") {
    return {{"variant", next_of(all_qlru_variants(), number)}};
  }
  if (policy == "permutation") {
    return random_permutations(ways.front(), dice);
  }
  if (policy == "automaton") {
    return random_automaton(ways.front(), dice);
  }
  if (policy == "weighted_random") {
    std::vector<double> weights(ways.front());
    weights[dice.below(weights.size())] = 0.5 + dice.unit();
    return {{"victim_weights", weights}};
  }
  if (policy == "set_duelling" || policy == "alternating") {
    return random_rivals(policy, dice);
  }
  if (policy == "favoured_fifo") {
    std::vector<double> others = random_permutation(ways.front(), dice);
    const auto favoured_way = static_cast<std::int64_t>(others.back());
    others.pop_back();
    return {{"favoured_way", favoured_way}, {"others", others}};
  }
  if (policy == "fermi") {
    return {{"favoured_way", static_cast<std::int64_t>(dice.below(2))}, {"others", std::string("random")}};
  }
  return {};
}

// Leaves some of the parameters out where they say what goes without saying.
void drop_defaults(Parameters& parameters, Dice& dice) {
  static const Parameters defaults{{"order", std::string("forward")},   {"split", std::string("balanced")},
                                   {"victim", std::string("first")},    {"clear", std::string("on_miss")},
                                   {"keep_last", std::string("false")}, {"of", std::string("access")},
                                   {"mark_fill", std::string("true")},  {"bits", std::int64_t{2}},
                                   {"promotion", std::string("hit")},   {"start", std::int64_t{0}}};
  std::erase_if(parameters, [&](const auto& parameter) {
    const auto found = defaults.find(parameter.first);
    return found != defaults.end() && found->second == parameter.second && dice.one_in(2);
  });
}

std::vector<std::uint32_t> random_ways(std::string_view policy, std::size_t number, std::size_t sets, bool wide,
                                       Dice& dice) {
  std::vector<std::uint32_t> ways(sets);
  const std::uint32_t most = dice.one_in(3) ? 4 : 20;
  for (std::uint32_t& of_set : ways) {
    of_set = static_cast<std::uint32_t>(wide ? dice.one_of<std::uint64_t>({63, 64, 65, 96, 97, 128, 129})
                                             : dice.between(1, most));
  }
  if (policy == "slru" || policy == "favoured_fifo") {
    std::ranges::transform(ways, ways.begin(), [](std::uint32_t of_set) { return std::max(of_set, 2U); });
  }
  if (policy == "random") {
    ways.assign(sets, 1);
  } else if (policy == "fermi") {
    ways.assign(sets, 2);
  } else if (has_parameters_for_each_way(policy) || (policy == "nru" && number % 3 == 2) || dice.one_in(2)) {
    ways.assign(sets, ways.front());
  }
  return ways;
}

// Address bits a hash may take: near the lowest one most of the time, else anywhere up to the highest.
unsigned random_bit(unsigned lowest, Dice& dice) {
  return static_cast<unsigned>(dice.one_in(3) ? dice.between(lowest, 63) : dice.between(lowest, lowest + 8));
}

model::BitsIndex random_bits(std::size_t count, unsigned lowest, Dice& dice) {
  std::set<unsigned> distinct;
  while (distinct.size() < count) {
    distinct.insert(random_bit(lowest, dice));
  }
  model::BitsIndex index{{distinct.begin(), distinct.end()}};
  dice.shuffle(index.bits);
  return index;
}

model::XorIndex random_xor(std::size_t set_bits, unsigned lowest, Dice& dice) {
  model::XorIndex index;
  for (std::size_t row = 0; row < set_bits; ++row) {
    index.row_masks.push_back(0);
    for (std::uint64_t bits = dice.between(1, 6); bits > 0; --bits) {
      index.row_masks.back() |= std::uint64_t{1} << random_bit(lowest, dice);
    }
  }
  index.constant = static_cast<std::uint32_t>(dice.below(std::uint64_t{1} << set_bits));
  return index;
}

model::SumIndex random_sum(std::uint32_t sets, unsigned lowest, Dice& dice) {
  model::SumIndex index{.fields = {}, .sets_count = sets};
  for (std::uint64_t fields = dice.between(1, 3); fields > 0; --fields) {
    index.fields.push_back(random_bits(dice.between(1, 7), lowest, dice));
  }
  return index;
}

model::TableIndex random_table(std::uint32_t sets, std::uint64_t line_bytes, bool inside_lines, Dice& dice) {
  model::TableIndex index;
  index.granule_bytes = inside_lines ? dice.between(1, 3 * line_bytes) : line_bytes * dice.between(1, 4);
  index.origin = (inside_lines ? 1 : line_bytes) * dice.below(10000);
  for (std::uint32_t set = 0; set < sets; ++set) {
    index.sets_of.push_back(set);
  }
  for (std::uint64_t more = dice.below(2 * sets + 1); more > 0; --more) {
    index.sets_of.push_back(static_cast<std::uint32_t>(dice.below(sets)));
  }
  dice.shuffle(index.sets_of);
  return index;
}

// At most 2^most_set_bits sets.
model::HashIndex random_hash(std::size_t most_set_bits, unsigned lowest, Dice& dice) {
  const auto parities = random_xor(dice.below(most_set_bits + 1), lowest, dice);
  model::HashIndex index{.row_masks = parities.row_masks, .constant = parities.constant, .terms = {}};
  std::uint64_t room = (std::uint64_t{1} << most_set_bits) / index.sets();
  while (room > 1 && index.terms.size() < 8 && !dice.one_in(3)) {
    model::HashIndex::Term term{.modulo = static_cast<std::uint32_t>(dice.between(1, room)),
                                .shift = static_cast<std::uint32_t>(dice.between(lowest, 63)),
                                .weights = {},
                                .row_masks = random_xor(dice.between(0, 4), lowest, dice).row_masks};
    for (std::size_t row = 0; row < term.row_masks.size(); ++row) {
      term.weights.push_back(static_cast<std::uint32_t>(dice.below(1000)));
    }
    room /= term.modulo;
    index.terms.push_back(std::move(term));
  }
  return index;
}

// At most 2^most_set_bits sets.
model::QuotientIndex random_quotient(std::size_t most_set_bits, unsigned lowest, Dice& dice) {
  const std::size_t row_bits = dice.below(most_set_bits + 1);
  const std::uint64_t room = std::uint64_t{1} << (most_set_bits - row_bits);
  model::QuotientIndex index{.row_masks = random_xor(row_bits, lowest, dice).row_masks,
                             .divisor = static_cast<std::uint32_t>(dice.between(1, room)),
                             .shift = static_cast<std::uint32_t>(dice.between(std::max(lowest, 8U), 63)),
                             .digit_masks = random_xor(dice.between(0, 5), lowest, dice).row_masks,
                             .constant = 0,
                             .beside_masks = random_xor(dice.between(0, 3), lowest, dice).row_masks,
                             .set = {}};
  index.constant = static_cast<std::uint32_t>(dice.below(std::uint64_t{1} << index.digit_masks.size()));
  index.set = random_hash(static_cast<std::size_t>(std::bit_width(room / index.divisor)) - 1, 0, dice);
  return index;
}

// `inside_lines`: the set may change from one byte of a line to the next.
IndexFunction random_index(std::size_t most_set_bits, std::uint64_t line_bytes, bool inside_lines, Dice& dice) {
  const std::size_t set_bits = dice.between(0, most_set_bits);
  const std::uint64_t about = std::uint64_t{1} << set_bits;
  const auto sets = static_cast<std::uint32_t>(dice.between((about + 1) / 2, about));
  const unsigned lowest = inside_lines ? 0 : static_cast<unsigned>(std::bit_width(line_bytes - 1));
  switch (dice.below(7)) {
    case 0:
      return random_bits(set_bits, lowest, dice);
    case 1:
      return random_xor(set_bits, lowest, dice);
    case 2:
      return random_sum(sets, lowest, dice);
    case 3:
      return model::ModuloIndex{
          .granule_bytes = inside_lines ? dice.between(1, 3 * line_bytes) : line_bytes * dice.between(1, 4),
          .sets_count = sets};
    case 4:
      return random_hash(most_set_bits, lowest, dice);
    case 5:
      return random_quotient(most_set_bits, lowest, dice);
    default:
      return random_table(sets, line_bytes, inside_lines, dice);
  }
}

std::uint64_t random_part(std::uint64_t bytes, Dice& dice) {
  constexpr std::uint64_t most_parts = 64;
  std::vector<std::uint64_t> parts;
  for (std::uint64_t part = 1; part <= bytes; ++part) {
    if (bytes % part == 0 && bytes / part <= most_parts) {
      parts.push_back(part);
    }
  }
  return dice.one_of(parts);
}

// What a store does.
model::Store random_store(const CacheDescription& cache, Dice& dice) {
  model::Store store{.allocate = !dice.one_in(3),
                     .write = dice.one_in(2) ? model::Write::back : model::Write::through,
                     .granule_bytes = {},
                     .fetches = *cache.sector_bytes % model::load_bytes != 0 || dice.one_in(2),
                     .touches = dice.one_in(2),
                     .evicts = dice.one_in(5)};
  if (!*store.fetches) {
    const std::uint64_t words = *cache.sector_bytes / model::load_bytes;
    store.granule_bytes = model::load_bytes;
    while (words % (2 * *store.granule_bytes / model::load_bytes) == 0 && dice.one_in(2)) {
      *store.granule_bytes *= 2;
    }
  } else if (dice.one_in(2)) {
    store.granule_bytes = *cache.sector_bytes * random_part(*cache.line_bytes / *cache.sector_bytes, dice);
  }
  if (cache.replacement->policy == "lru" && cache.fill.lines_ahead() == 0 && !cache.sweep && !dice.one_in(3)) {
    store.write = model::Write::back;
    store.cleaning = {.dirty_lines = static_cast<std::uint32_t>(dice.between(1, 8)),
                      .partial_lines = static_cast<std::uint32_t>(dice.between(1, 5))};
  }
  return store;
}

// A store with room for fewer lines than there are tags.
void add_sweep(CacheDescription& cache, Dice& dice) {
  const std::size_t sets = cache.ways->size();
  const auto tags = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  const auto banks = static_cast<std::uint32_t>(random_part(sets, dice));
  if (banks == 0 || tags < banks) {
    return;
  }
  cache.fill.prefetch_lines = 0;
  cache.store_lines = banks * dice.between(1, tags / banks);
  cache.capacity_bytes = *cache.store_lines * *cache.line_bytes;
  cache.sweep = model::Sweep{.banks = static_cast<std::uint32_t>(banks),
                             .lines_on_hit = static_cast<std::uint32_t>(dice.between(0, 3)),
                             .lines_on_replacement = static_cast<std::uint32_t>(dice.between(0, 3)),
                             .lines_on_fill = static_cast<std::uint32_t>(dice.between(1, 6)),
                             .keeps_hit_line = dice.one_in(3)};
}

// In some of them, what lies beside a cache and answers as fast.
void add_second_cache(CacheDescription& cache, Dice& dice) {
  if (cache.sector_bytes == cache.line_bytes && cache.fill.lines_ahead() == 0 && dice.one_in(2)) {
    cache.victim_lines = dice.between(1, 12);
  }
  const auto* table = std::get_if<model::TableIndex>(&*cache.index);
  if (!(table != nullptr && table->range_bytes) && dice.one_in(4)) {
    const auto sets = static_cast<std::uint32_t>(dice.between(1, 5));
    cache.twin = model::Twin{
        .ways = std::vector<std::uint32_t>(sets, static_cast<std::uint32_t>(dice.between(1, 20))),
        .index = model::ModuloIndex{.granule_bytes = *cache.line_bytes, .sets_count = sets},
        .replacement = {
            .policy = dice.one_of<std::string>({"lru", "fifo", "plru"}), .parameters = {}, .equivalent = {}}};
  }
}

}  // namespace

std::vector<double> random_permutation(std::size_t count, Dice& dice) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  dice.shuffle(numbers);
  return numbers;
}

std::size_t caches_in_a_round(std::string_view policy) { return policy == "qlru" ? all_qlru_variants().size() : 64; }

CacheDescription random_cache(std::string_view policy, std::size_t number, Dice& dice) {
  const bool wide = !has_parameters_for_each_way(policy) && dice.one_in(8);
  CacheDescription cache;
  cache.line_bytes = dice.one_of<std::uint64_t>({32, 64, 80, 96, 128, 192, 256, 320, 512, 1024, 2048, 4096});
  cache.sector_bytes = dice.one_in(3) ? *cache.line_bytes : random_part(*cache.line_bytes, dice);
  cache.index = random_index(wide ? 2 : 6, *cache.line_bytes, dice.one_in(6), dice);
  cache.ways = random_ways(policy, number, sets(*cache.index), wide, dice);
  const std::uint64_t lines = std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0});
  cache.capacity_bytes = lines * *cache.line_bytes;
  if (auto* table = std::get_if<model::TableIndex>(&*cache.index); table != nullptr && dice.one_in(2)) {
    table->range_bytes = (3 * lines + 16) * *cache.line_bytes + dice.below(1000);
  }
  cache.fill.prefetch_lines = static_cast<unsigned>(dice.one_in(2) ? dice.between(1, 3) : 0);
  const auto* table = std::get_if<model::TableIndex>(&*cache.index);
  if (dice.one_in(3)) {
    cache.fill.prefetch_on = model::PrefetchOn::access;
  } else if (!(table != nullptr && table->range_bytes) && dice.one_in(2)) {
    cache.fill.prefetch_on = model::PrefetchOn::stride;
  }
  if (dice.one_in(4)) {
    cache.fill.fetch_bytes = *cache.sector_bytes * random_part(*cache.line_bytes / *cache.sector_bytes, dice);
  }
  cache.replacement = {.policy = std::string(policy),
                       .parameters = random_parameters(policy, number, *cache.ways, dice),
                       .equivalent = {}};
  drop_defaults(cache.replacement->parameters, dice);
  if (policy.ends_with("slru") && dice.one_in(2)) {
    add_sweep(cache, dice);
  } else if (dice.one_in(2)) {
    add_second_cache(cache, dice);
  }
  if (!cache.victim_lines && !cache.twin && dice.one_in(2)) {
    cache.store = random_store(cache, dice);
  }
  return cache;
}

}  // namespace gpuinfer::oracle
