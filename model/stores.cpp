// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/stores.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "model/errors.hpp"
#include "model/lru_cache.hpp"
#include "model/policy_traits.hpp"

namespace gpuinfer::model {

std::optional<std::string_view> null_leaf_of_store(const CacheDescription& cache) {
  const std::optional<Store>& store = cache.store;
  if (!store) {
    return "store";
  }
  if (!store->allocate) {
    return "store.allocate";
  }
  if (!store->touches && !store->evicts && (!cache.replacement || heeds_hits(*cache.replacement))) {
    return "store.touches";
  }
  if (*store->allocate && !store->fetches) {
    return "store.fetches";
  }
  if (*store->allocate && !*store->fetches && !store->granule_bytes) {
    return "store.granule_bytes";
  }
  return std::nullopt;
}

std::optional<StoreRule> store_rule(const CacheDescription& cache) {
  if (null_leaf_of_store(cache)) {
    return std::nullopt;
  }
  const std::optional<Store>& store = cache.store;
  StoreRule rule{.allocates = *store->allocate,
                 .evicts = store->evicts,
                 .touches = store->touches.value_or(false),
                 .is_back = store->write == Write::back,
                 .fetches = store->fetches.value_or(false),
                 .stored_with = {}};
  CacheDescription fetching = cache;
  if (rule.fetches && store->granule_bytes) {
    fetching.fill.fetch_bytes = store->granule_bytes;
  }
  rule.stored_with = fetch_masks(fetching);
  return rule;
}

void throw_null(std::string_view leaf) {
  throw InputError(std::string(leaf) + ": is null, and a simulation needs it; give it a value");
}

void WrittenLines::clear() {
  marks_.clear();
  words_.clear();
}

void WrittenLines::write(std::uint32_t slot, std::uint64_t offset) {
  std::vector<bool>& words = words_[slot];
  const std::uint64_t word = offset / word_bytes;
  words.resize(std::max<std::size_t>(words.size(), word + 1));
  words[word] = true;
  Mark& mark = mark_of(slot);
  mark.is_partial = !is_whole(words, word) || (mark.is_partial && has_partial_granule(words));
}

bool WrittenLines::is_readable(std::uint32_t slot, std::uint64_t offset) const {
  const auto words = words_.find(slot);
  return words != words_.end() && is_whole(words->second, offset / word_bytes);
}

void WrittenLines::fetch(std::uint32_t slot, std::uint64_t sectors, std::uint64_t sector_bytes) {
  const auto found = words_.find(slot);
  if (found == words_.end()) {
    return;
  }
  std::vector<bool>& words = found->second;
  for (std::size_t word = 0; word < words.size(); ++word) {
    if (((sectors >> (word * word_bytes / sector_bytes)) & 1U) != 0) {
      words[word] = false;
    }
  }
  mark_of(slot).is_partial = has_partial_granule(words);
}

void WrittenLines::complete(std::uint32_t slot) {
  std::vector<bool>& words = words_[slot];
  words.resize((words.size() + granule_words_ - 1) / granule_words_ * granule_words_);
  const auto granule = static_cast<std::ptrdiff_t>(granule_words_);
  for (auto first = words.begin(); first != words.end(); first += granule) {
    std::fill(first, first + granule, std::find(first, first + granule, true) != first + granule);
  }
  mark_of(slot) = {};
}

// The granule around the word was written as a whole.
bool WrittenLines::is_whole(const std::vector<bool>& words, std::uint64_t word) const {
  if (granule_words_ == 0) {
    return false;
  }
  const std::uint64_t first = word / granule_words_ * granule_words_;
  if (first + granule_words_ > words.size()) {
    return false;
  }
  const auto begin = words.begin() + static_cast<std::ptrdiff_t>(first);
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(granule_words_), [](bool written) { return written; });
}

bool WrittenLines::has_partial_granule(const std::vector<bool>& words) const {
  for (std::size_t word = 0; word < words.size(); ++word) {
    if (words[word] && !is_whole(words, word)) {
      return true;
    }
  }
  return false;
}

}  // namespace gpuinfer::model
