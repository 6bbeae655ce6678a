// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/sweep_rule.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/set_map.hpp"
#include "model/access_sequence.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::infer {

namespace {

// Loads of random words of these lines, which come back soon and late, after each of them was loaded once.
RandomRun ask_randomly(Interrogator& device, RandomLines& lines, const AccessSequence& among, std::size_t accesses) {
  model::Random& random = lines.random();
  AccessSequence record;
  for (const std::uint32_t line : model::returning_walk(static_cast<std::uint32_t>(among.size()), accesses, random)) {
    record.push_back(among[line] + random.below(lines.line_bytes() / model::load_bytes) * model::load_bytes);
  }
  RandomRun run{.question = device.question(among, std::move(record)), .readings = {}};
  run.readings = device.ask_voted({&run.question, 1}, device.votes_needed()).front();
  return run;
}

// Lines of a few sets, half as many again in each as it has ways, so that full sets meet a full store.
AccessSequence crowded_lines(RandomLines& lines, const TagStore& tags, std::uint64_t store_lines) {
  const std::uint32_t sets = tags.sets.names.sets();
  const auto crowded =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(sets, (8 * store_lines / 5 + tags.ways - 1) / tags.ways));
  const std::uint32_t of_each = tags.ways + (tags.ways + 1) / 2;
  std::vector<std::uint32_t> order(sets);
  std::iota(order.begin(), order.end(), 0U);
  lines.random().shuffle(order);
  std::vector<std::uint32_t> room(sets);
  std::for_each_n(order.begin(), crowded, [&](std::uint32_t set) { room[set] = of_each; });
  return draw_within_sets(lines, tags.sets, std::move(room), std::size_t{crowded} * of_each);
}

// As many lines of each set, and no more than its ways: half as many again as fit, or all that have tags.
AccessSequence even_lines(const Interrogator& device, RandomLines& lines, const TagStore& tags, std::uint64_t fitting) {
  const std::uint64_t sets = tags.sets.names.sets();
  const auto of_each = std::min<std::uint64_t>(tags.ways, (3 * fitting / 2 + sets - 1) / sets);
  const std::vector<std::uint32_t> wanted(sets, static_cast<std::uint32_t>(of_each));
  const model::IndexFunction by_name = tags.sets.names;
  AccessSequence drawn;
  for (const Offsets& of_set : LinesOfSets(device, by_name, lines.line_bytes()).draw(wanted, lines.random())) {
    drawn.insert(drawn.end(), of_set.begin(), of_set.end());
  }
  lines.random().shuffle(drawn);
  return drawn;
}

// Just as many lines of the first bank as it has room for, by sets: so many of the first set, which the pointer comes
// by first, so many of the last, of which one more line is drawn, and the others of the sets in between. None where
// sets have too few ways, or the buffer has too few lines of some.
std::optional<std::vector<Offsets>> fill_first_bank(const Interrogator& device, model::Random& random,
                                                    const RandomLines& lines, const TagStore& tags,
                                                    const SweepOrder& order, const model::IndexFunction& index,
                                                    std::uint32_t of_first, std::uint32_t of_last) {
  const std::uint32_t sets = tags.sets.names.sets() / order.banks();
  const std::uint64_t at_ends = of_first + of_last;
  if (sets < 3 || at_ends > order.lines_of_bank || order.lines_of_bank - at_ends > (sets - 2) * tags.ways) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> wanted(tags.sets.names.sets());
  wanted[0] = of_first;
  wanted[sets - 1] = of_last + 1;
  for (std::uint64_t line = 0; line < order.lines_of_bank - at_ends; ++line) {
    ++wanted[1 + line % (sets - 2)];
  }
  std::vector<Offsets> drawn = LinesOfSets(device, index, lines.line_bytes()).draw(wanted, random);
  drawn.resize(sets);
  for (std::size_t set = 0; set < sets; ++set) {
    if (drawn[set].size() != wanted[set]) {
      return std::nullopt;
    }
  }
  return drawn;
}

AccessSequence sequence_of_all(std::span<const Offsets> of_sets) {
  AccessSequence offsets;
  for (const Offsets& of_set : of_sets) {
    offsets.insert(offsets.end(), of_set.begin(), of_set.end());
  }
  return offsets;
}

RandomRun ask_run(Interrogator& device, AccessSequence warm, AccessSequence record) {
  RandomRun run{.question = device.question(std::move(warm), std::move(record)), .readings = {}};
  run.readings = device.ask_voted({&run.question, 1}, device.votes_needed()).front();
  return run;
}

// The pointer finds the one line of the first set next to go when that is hit in a full store.
std::optional<RandomRun> ask_hit_in_front(Interrogator& device, model::Random& random, const RandomLines& lines,
                                          const TagStore& tags, const SweepOrder& order,
                                          const model::IndexFunction& index) {
  auto of_sets = fill_first_bank(device, random, lines, tags, order, index, 1, 0);
  if (!of_sets) {
    return std::nullopt;
  }
  of_sets->back().pop_back();
  return ask_run(device, sequence_of_all(*of_sets), model::repeated(of_sets->front(), 2));
}

// One line too many for the last set, of a full store: then all that were there before, those first that the pointer
// comes by first.
std::optional<RandomRun> ask_replacement(Interrogator& device, model::Random& random, const RandomLines& lines,
                                         const TagStore& tags, const SweepOrder& order,
                                         const model::IndexFunction& index) {
  auto of_sets = fill_first_bank(device, random, lines, tags, order, index, 1, tags.ways);
  if (!of_sets) {
    return std::nullopt;
  }
  AccessSequence record{of_sets->back().back()};
  of_sets->back().pop_back();
  AccessSequence warm = sequence_of_all(*of_sets);
  record.insert(record.end(), warm.begin(), warm.end());
  return ask_run(device, std::move(warm), std::move(record));
}

// Numbers of lines that the store may hold, as many in each bank.
std::vector<std::uint64_t> stores_between(std::uint64_t least_of_bank, std::uint64_t most_of_bank,
                                          std::uint32_t banks) {
  std::vector<std::uint64_t> stores;
  for (std::uint64_t of_bank = least_of_bank; of_bank <= most_of_bank; ++of_bank) {
    stores.push_back(of_bank * banks);
  }
  return stores;
}

void keep_explaining(std::vector<std::uint64_t>& stores, const model::CacheDescription& cache, const RandomRun& run,
                     model::Address address) {
  std::erase_if(stores, [&](std::uint64_t store_lines) {
    model::CacheDescription supposed = cache;
    supposed.store_lines = store_lines;
    return !explains(supposed, run, address);
  });
}

std::uint64_t find_store_lines(Interrogator& device, RandomLines& lines, const StoreSize& size, const TagStore& tags,
                               const model::CacheDescription& cache) {
  // Contiguous lines stop fitting about when the banks are full, so the stores around that are simulated first, and all
  // others only where none of these explains the answers: a set may have overflowed first.
  constexpr std::uint64_t most_apart = 6;
  constexpr std::size_t most_runs = 6;
  const Under circumstances(device, size.circumstances());
  const model::Address address = device.buffer().address;
  const std::uint32_t banks = cache.sweep->banks;
  const std::uint64_t all_tags = std::uint64_t{tags.sets.names.sets()} * tags.ways;
  const std::uint64_t near = size.onset_lines / banks;
  std::vector<std::uint64_t> left =
      stores_between(near > most_apart ? near - most_apart : 1, std::min(near + most_apart, all_tags / banks), banks);
  std::vector<RandomRun> runs;
  for (bool widened = false; left.size() > 1 && runs.size() < most_runs;) {
    const std::uint64_t fitting = runs.size() % 2 == 0 ? size.onset_lines : all_tags;
    const AccessSequence among = even_lines(device, lines, tags, fitting);
    runs.push_back(ask_randomly(device, lines, among, 2 * among.size() + 1000));
    keep_explaining(left, cache, runs.back(), address);
    if (left.empty() && !std::exchange(widened, true)) {
      left = stores_between(1, all_tags / banks, banks);
      for (const RandomRun& run : runs) {
        keep_explaining(left, cache, run, address);
      }
    }
  }
  if (left.size() != 1) {
    throw NoSweptStore("at " + size.name() + (left.empty() ? " no number" : " more than one number") +
                       " of lines in the store explains random loads");
  }
  return left.front();
}

// Votes let hardly one misread pass in a million.
constexpr std::size_t most_wrong = 2;

// Counts no further than to one too many.
std::size_t wrong_readings(const model::CacheDescription& cache, const RandomRun& run, model::Address address) {
  const auto simulator = model::CacheSimulator::make(cache, 0);
  const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, run.question, address);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < outcomes.size() && wrong <= most_wrong; ++i) {
    const bool is_wrong =
        run.readings[i] != Reading::unclear && (run.readings[i] == Reading::miss) != is_miss(outcomes[i]);
    wrong += is_wrong ? 1U : 0U;
  }
  return wrong;
}

// Hits that find their own line next to go are rare among random loads where banks have many sets, and so are full sets
// where the pointer takes many lines.
void rule_out_by_full_bank(Interrogator& device, const RandomLines& lines, const TagStore& tags,
                           const SweepOrder& order, model::CacheDescription swept, std::vector<SweepRule>& left) {
  constexpr std::size_t looks = 8;
  model::Random random = stream(device.settings(), "lines of the first set");
  std::vector<RandomRun> runs;
  try {
    for (const auto ask : {ask_hit_in_front, ask_replacement}) {
      for (std::size_t look = 0; look < looks; ++look) {
        if (std::optional<RandomRun> run = ask(device, random, lines, tags, order, *swept.index)) {
          runs.push_back(*std::move(run));
        }
      }
    }
  } catch (const QuestionRefused&) {  // as recordings do
    return;
  }
  std::erase_if(left, [&](const SweepRule& rule) {
    swept.replacement = rule.policy;
    swept.sweep = rule.sweep;
    std::size_t wrong = 0;
    for (const RandomRun& run : runs) {
      wrong += wrong_readings(swept, run, device.buffer().address);
    }
    return wrong > most_wrong;
  });
}

}  // namespace

bool explains(const model::CacheDescription& cache, const RandomRun& run, model::Address address) {
  return wrong_readings(cache, run, address) <= most_wrong;
}

// A fill that is the first too many is seen to drive out `most_at_once`; the new line itself may count as one more.
std::vector<SweepRule> possible_rules(std::span<const model::Replacement> policies, const SweepOrder& order) {
  const std::uint32_t most = std::max(8U, order.most_at_once + 2);
  std::vector<SweepRule> rules;
  for (const model::Replacement& policy : policies) {
    for (const std::uint32_t on_fill : {order.most_at_once, order.most_at_once + 1}) {
      for (std::uint32_t on_replacement = 0; on_replacement <= most; ++on_replacement) {
        for (std::uint32_t on_hit = 0; on_hit <= most; ++on_hit) {
          SweepRule rule{.policy = policy,
                         .sweep = {.banks = order.banks(),
                                   .lines_on_hit = on_hit,
                                   .lines_on_replacement = on_replacement,
                                   .lines_on_fill = on_fill}};
          rules.push_back(rule);
          if (on_hit > 0) {
            rule.sweep.keeps_hit_line = true;
            rules.push_back(std::move(rule));
          }
        }
      }
    }
  }
  return rules;
}

std::vector<SweepRule> joined_alike(std::vector<SweepRule> rules, std::uint32_t ways) {
  constexpr std::size_t most_pairs = std::size_t{1} << 14U;
  while (rules.size() > 1 && rules[0].sweep == rules[1].sweep &&
         model::are_alike_when_swept(rules[0].policy, rules[1].policy, ways, {.pairs_of_states = most_pairs})) {
    rules[0].policy.equivalent.push_back(model::to_text(rules[1].policy));
    rules.erase(rules.begin() + 1);
  }
  return rules;
}

SweepRule find_sweep_rule(Interrogator& device, RandomLines& lines, const StoreSize& smallest, const TagStore& tags,
                          const SweepOrder& order, const model::CacheDescription& cache) {
  constexpr std::size_t most_runs = 8;
  constexpr std::size_t fewest_runs = 2;
  constexpr std::size_t fewest_accesses = 2000;
  const Under small(device, smallest.circumstances());
  device.inquire("random loads while the store is full", "how many lines an access makes the pointer take");
  model::CacheDescription swept = cache;
  swept.store_lines = std::uint64_t{order.banks()} * order.lines_of_bank;
  // The more lines, the longer the pointer takes to come by what tells one rule from another.
  const std::size_t accesses = std::max(fewest_accesses, 8 * static_cast<std::size_t>(*swept.store_lines));
  std::vector<SweepRule> left = possible_rules(tags.policies, order);
  const std::size_t before = left.size();
  for (std::size_t run = 0; !left.empty() && (left.size() > 1 || run < fewest_runs) && run < most_runs; ++run) {
    const AccessSequence among =
        run % 2 == 0 ? crowded_lines(lines, tags, *swept.store_lines) : lines.draw(3 * *swept.store_lines / 2);
    const RandomRun answered = ask_randomly(device, lines, among, accesses);
    std::erase_if(left, [&](const SweepRule& rule) {
      swept.replacement = rule.policy;
      swept.sweep = rule.sweep;
      return !explains(swept, answered, device.buffer().address);
    });
  }
  if (left.size() > 1) {
    rule_out_by_full_bank(device, lines, tags, order, swept, left);
  }
  left = joined_alike(std::move(left), tags.ways);
  device.learned(left.empty() ? "no numbers explain them" : "so many are left", before, left.size());
  if (left.size() != 1) {
    throw NoSweptStore(left.empty() ? "no numbers of lines that a pointer takes explain random loads"
                                    : "several numbers of lines that a pointer takes explain all random loads");
  }
  return std::move(left.front());
}

model::CacheDescription with_store_lines(Interrogator& device, RandomLines& lines, const StoreSizes& sizes,
                                         const TagStore& tags, model::CacheDescription cache) {
  device.inquire("random loads at each size", "how many lines the store holds there");
  std::vector<model::Carveout> carveouts;
  for (const StoreSize& size : sizes.offered) {
    carveouts.push_back({.carveout_kb = *size.carveout_kb,
                         .onset_bytes = size.onset_lines * lines.line_bytes(),
                         .resident_bytes = {},
                         .ways = {},
                         .store_lines = find_store_lines(device, lines, size, tags, cache)});
  }
  cache.store_lines = find_store_lines(device, lines, sizes.own, tags, cache);
  cache.capacity_bytes = *cache.store_lines * lines.line_bytes();
  cache.carveouts = std::move(carveouts);
  device.learned("lines of the store");
  return cache;
}

}  // namespace gpuinfer::infer
