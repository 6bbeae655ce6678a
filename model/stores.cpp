// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/stores.hpp"

#include <algorithm>
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

bool WrittenLines::is_dirty(std::uint32_t slot) const {
  const auto line = lines_.find(slot);
  return line != lines_.end() && line->second.is_dirty;
}

void WrittenLines::write(std::uint32_t slot, std::uint64_t offset) {
  std::vector<bool>& words = lines_[slot].words;
  const std::uint64_t word = offset / word_bytes;
  words.resize(std::max<std::size_t>(words.size(), word + 1));
  words[word] = true;
}

bool WrittenLines::is_readable(std::uint32_t slot, std::uint64_t offset) const {
  const auto line = lines_.find(slot);
  if (line == lines_.end() || granule_words_ == 0) {
    return false;
  }
  const std::vector<bool>& words = line->second.words;
  const std::uint64_t first = offset / word_bytes / granule_words_ * granule_words_;
  if (first + granule_words_ > words.size()) {
    return false;
  }
  const auto begin = words.begin() + static_cast<std::ptrdiff_t>(first);
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(granule_words_), [](bool written) { return written; });
}

}  // namespace gpuinfer::model
