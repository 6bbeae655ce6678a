// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/random_lines.hpp"
#include "infer/cache/store_sizes.hpp"
#include "model/index_function.hpp"

// Which lines share a set where sets are a hash of the address and their store has room for fewer lines than they have
// tags for.
namespace gpuinfer::infer {

// Sets by names: one linear function of the address tells them apart, as many others would. In which order they lie is
// another matter (infer/cache/sweep_order.hpp).
struct HashedSets {
  std::vector<unsigned> bits;  // of addresses, as many as tell lines apart
  model::XorIndex names;

  [[nodiscard]] unsigned name_bits() const { return static_cast<unsigned>(names.row_masks.size()); }
};

// So many lines, and of each set no more than it has room for.
[[nodiscard]] AccessSequence draw_within_sets(RandomLines& lines, const HashedSets& sets,
                                              std::vector<std::uint32_t> room, std::size_t count);

// Differences of the addresses of two lines of one set: they span the kernel of the index.
class SetDifferences {
 public:
  void add(std::uint64_t difference) { added_nothing_ = span_.add(difference) ? 0 : added_nothing_ + 1; }

  // Pairs that have nothing to do with one another lie in a span by chance half of the time, or more rarely, so they
  // look like that once in 2^24 times at most.
  [[nodiscard]] bool are_all() const { return added_nothing_ >= 24; }

  [[nodiscard]] const EchelonBasis& span() const { return span_; }

 private:
  EchelonBasis span_;
  std::size_t added_nothing_ = 0;  // pairs in a row
};

// From lines that go one by one while the store is not full, each driven out by one of its own set. Throws NoSweptStore
// where too few go so, or not as those of sets that are a hash.
[[nodiscard]] HashedSets find_hashed_sets(Interrogator& device, RandomLines& lines, const StoreSize& largest);

}  // namespace gpuinfer::infer
