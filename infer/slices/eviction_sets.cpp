// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/eviction_sets.hpp"

#include <algorithm>
#include <functional>

namespace gpuinfer::infer {

namespace {

struct EvictionSearch {
  EvictionSet set;
  std::size_t least = 0;   // a beginning of fewer lines leaves the line where it is
  std::size_t enough = 0;  // one of so many drives it out
  bool is_done = false;
};

void load_sets_of(SlicePlayer& player, const std::vector<EvictionSearch>& searches) {
  for (const EvictionSearch& search : searches) {
    if (!search.is_done) {
      player.load_all_of(search.set);
    }
  }
}

// For each search that goes on, whether the first lines of `order`, as many as it says, evict its line behind
// the others that it knows already. Where that takes few loads, each of several times: what others do may do so, too.
std::vector<bool> are_evicted(SlicePlayer& player, const std::vector<EvictionSearch>& searches, const SliceLines& order,
                              const std::vector<std::size_t>& beginnings) {
  constexpr std::size_t few_loads = 1024;
  std::vector<std::size_t> by_beginning;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    if (!searches[i].is_done) {
      by_beginning.push_back(i);
    }
  }
  std::ranges::stable_sort(by_beginning, {}, [&](std::size_t i) { return beginnings[i]; });
  const unsigned times = order.size() > few_loads ? 1 : 3;
  for (unsigned time = 0; time < times; ++time) {
    load_sets_of(player, searches);
    std::size_t loaded = 0;
    for (const std::size_t i : by_beginning) {
      for (; loaded < beginnings[i]; ++loaded) {
        player.load(order[loaded]);
      }
      player.is_gone(searches[i].set.line);
    }
  }
  const std::vector<bool> in_order = player.answers();
  std::vector<bool> gone(searches.size());
  for (std::size_t i = 0; i < by_beginning.size(); ++i) {
    gone[by_beginning[i]] = true;
    for (std::size_t answer = i; answer < in_order.size(); answer += by_beginning.size()) {
      gone[by_beginning[i]] = gone[by_beginning[i]] && in_order[answer];
    }
  }
  return gone;
}

// To each search that goes on the line that ends its shortest beginning; done is the one that needs none.
void add_one_each(SlicePlayer& player, std::vector<EvictionSearch>& searches, const SliceLines& order) {
  std::vector<std::size_t> none(searches.size(), 0);
  const std::vector<bool> are_complete = are_evicted(player, searches, order, none);
  for (std::size_t i = 0; i < searches.size(); ++i) {
    searches[i].is_done = searches[i].is_done || are_complete[i];
    searches[i].least = 0;
  }
  const auto goes_on = [](const EvictionSearch& search) { return !search.is_done && search.enough - search.least > 1; };
  while (std::ranges::any_of(searches, goes_on)) {
    std::vector<std::size_t> middles;
    for (const EvictionSearch& search : searches) {
      middles.push_back(goes_on(search) ? (search.least + search.enough) / 2 : search.enough);
    }
    const std::vector<bool> gone = are_evicted(player, searches, order, middles);
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (goes_on(searches[i])) {
        (gone[i] ? searches[i].enough : searches[i].least) = middles[i];
      }
    }
  }
  for (EvictionSearch& search : searches) {
    if (search.is_done) {
      continue;
    }
    const SliceLine line = order[search.enough - 1];
    if (std::ranges::find(search.set.others, line) == search.set.others.end()) {
      search.set.others.push_back(line);
    } else {
      search.enough = order.size();  // a misread had made it too short
    }
  }
}

// All of a set drive its line out, and all but one do not, each time.
std::vector<EvictionSet> confirmed(SlicePlayer& player, const std::vector<EvictionSearch>& searches) {
  constexpr unsigned times = 3;
  for (const EvictionSearch& search : searches) {
    for (unsigned time = 0; time < times; ++time) {
      player.load_all_of(search.set);
      player.is_gone(search.set.line);
      player.load_all_but_last_of(search.set);
      player.is_gone(search.set.line);
      player.end_sequence();
    }
  }
  const std::vector<bool> gone = player.answers();
  std::vector<EvictionSet> sets;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    bool is_so = true;
    for (unsigned time = 0; time < times; ++time) {
      is_so = is_so && gone[2 * (i * times + time)] && !gone[2 * (i * times + time) + 1];
    }
    if (is_so) {
      sets.push_back(searches[i].set);
    }
  }
  return sets;
}

}  // namespace

std::vector<EvictionSet> eviction_sets_of(SlicePlayer& player, const SliceLines& lines, const SliceLines& order) {
  std::vector<EvictionSearch> searches;
  for (const SliceLine line : lines) {
    searches.push_back({.set = {.line = line}, .least = 0, .enough = order.size()});
  }
  const std::vector<std::size_t> all(searches.size(), order.size());
  const std::vector<bool> gone = are_evicted(player, searches, order, all);
  for (std::size_t i = 0; i < searches.size(); ++i) {
    searches[i].is_done = !gone[i];
  }
  std::erase_if(searches, [](const EvictionSearch& search) { return search.is_done; });
  for (std::uint32_t found = 0;
       found <= most_slice_ways && std::ranges::any_of(searches, std::not_fn(&EvictionSearch::is_done)); ++found) {
    add_one_each(player, searches, order);
  }
  std::erase_if(searches, [](const EvictionSearch& search) { return !search.is_done || search.set.others.empty(); });
  return confirmed(player, searches);
}

}  // namespace gpuinfer::infer
