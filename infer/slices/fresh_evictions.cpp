// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/fresh_evictions.hpp"

#include <algorithm>
#include <utility>

namespace gpuinfer::infer {

namespace {

struct SaidEviction {
  EvictionSet set;
  bool is_evicted = false;
};

// Which of these are otherwise than was said.
std::vector<SaidEviction> wrong_ones(SlicePlayer& player, std::vector<SaidEviction> said) {
  for (const SaidEviction& each : said) {
    player.load_all_of(each.set);
    player.is_gone(each.set.line);
    player.end_sequence();
  }
  const std::vector<bool> gone = player.answers();
  std::vector<SaidEviction> wrong;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (gone[i] != said[i].is_evicted) {
      wrong.push_back(std::move(said[i]));
    }
  }
  return wrong;
}

}  // namespace

FreshEvictions ask_fresh_evictions(Asker& device, const SliceView& view, const LinesBySet& lines, std::uint32_t ways,
                                   std::size_t count, model::Random& random) {
  std::vector<SliceLines> sets;
  for (const auto& [set, of_set] : lines) {
    if (of_set.size() > ways) {
      sets.push_back(of_set);
    }
  }
  if (sets.size() < 2) {
    return {};
  }
  std::vector<SaidEviction> said;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = random.below(sets.size());
    SliceLines& of_set = sets[number];
    random.shuffle(of_set);
    SaidEviction each{.set = {.line = of_set.front(),
                              .others = {of_set.begin() + 1, of_set.begin() + 1 + static_cast<std::ptrdiff_t>(ways)}},
                      .is_evicted = i % 2 == 0};
    if (!each.is_evicted) {
      const SliceLines& others = sets[(number + 1 + random.below(sets.size() - 1)) % sets.size()];
      each.set.others[random.below(ways)] = others[random.below(others.size())];
    }
    said.push_back(std::move(each));
  }
  // What others load meanwhile evicts a line, too, at one time and not each time.
  SlicePlayer player(device, view);
  constexpr int times = 3;
  for (int time = 0; time < times; ++time) {
    said = wrong_ones(player, std::move(said));
  }
  return {.asked = count, .wrong = said.size()};
}

}  // namespace gpuinfer::infer
