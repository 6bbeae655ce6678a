// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/asking/conflict_class.hpp"
#include "infer/asking/interrogator.hpp"
#include "model/cache_simulator.hpp"
#include "model/device_description.hpp"
#include "model/random.hpp"

// Sequences that took no part in a fit, and what a description predicts of them.
namespace gpuinfer::infer {

// A fresh sequence, and what is loaded before it so that it does not matter what was there.
struct FreshQuestion {
  Primer primer;  // in questions of its own
  model::Question question;
};

// What fresh sequences load, and what brings the sets in line before.
struct Pool {
  std::size_t sets = 0;
  std::vector<Offsets> asked;  // by set
  AccessSequence warm = {};    // from a start that is the same each time
  Primer conditioning;

  [[nodiscard]] Offsets all() const;
};

// Where lines lie: every 2^so-many-th of a stretch, or, with none, everywhere.
using StrideExponent = std::optional<unsigned>;
inline constexpr StrideExponent everywhere = std::nullopt;
inline constexpr StrideExponent side_by_side = 0;

// So many lines of each set as are asked of it, fewer where there are no more; from everywhere where the stretch that
// is drawn has no line of these sets.
[[nodiscard]] Pool pool_of_lines(const Interrogator& device, const model::CacheDescription& cache,
                                 std::span<const std::uint32_t> asked, StrideExponent lying, model::Random& random);

// Lines of the first sets of `order`, as many as together hold enough for a sequence that fills them several times
// over, which the sets of a small cache all are. `footprint` is in capacities.
[[nodiscard]] Pool pool_of_sets(const Interrogator& device, const model::CacheDescription& cache, double footprint,
                                std::span<const std::uint32_t> order, StrideExponent lying, model::Random& random);

// Lines from everywhere, so many times as many as the store holds, where that is fewer than the tags: evenly from all
// sets where there are few, each loaded once before, since the store is hardly ever full where many sets are not.
[[nodiscard]] Pool pool_of_store(const Interrogator& device, const model::CacheDescription& cache, double footprint,
                                 model::Random& random);

// The question that records these loads after what the pool has to be loaded before.
[[nodiscard]] FreshQuestion question_over(const Interrogator& device, Pool pool, AccessSequence record);

// Random loads of random words, so that sectors are met one by one, of lines that come back soon and late.
[[nodiscard]] FreshQuestion fresh_question(const Interrogator& device, const model::CacheDescription& cache, Pool pool,
                                           model::Random& random);

using Answers = std::vector<std::vector<float>>;

// All questions, each so many times: first all of them, then all of them again.
[[nodiscard]] Answers ask_times(Interrogator& device, std::span<const FreshQuestion> questions, unsigned times);

// The same as often as votes need of which few may be wrong: they are counted, so crisp levels need none. Lines that
// were not loaded for long may come from beyond the next level and take longer than any known miss; asked again right
// away they come from there.
[[nodiscard]] Answers ask_for_votes(Interrogator& device, std::span<const FreshQuestion> questions);

// The same of sequences that chance answers otherwise each time.
[[nodiscard]] Answers ask_until_near(Interrogator& device, std::span<const model::Question> questions);

// What a description predicts, by access, as far as that does not depend on what was there before: on which of so many
// histories.
[[nodiscard]] std::vector<std::optional<bool>> predicted_misses(const Interrogator& device,
                                                                const model::CacheDescription& cache,
                                                                const FreshQuestion& fresh, std::uint64_t histories);

// Of the recorded accesses, after one history and with one stream of chance, each another for each number.
[[nodiscard]] std::vector<model::Outcome> outcomes_after(const Interrogator& device,
                                                         const model::CacheDescription& cache,
                                                         const FreshQuestion& fresh, std::uint64_t history);

// The recorded accesses, loads or stores, once for each of so many histories and streams of chance, where these matter.
[[nodiscard]] std::vector<std::vector<model::AccessEvent>> possible_events(const Interrogator& device,
                                                                           const model::CacheDescription& cache,
                                                                           const FreshQuestion& fresh,
                                                                           std::uint64_t histories);

}  // namespace gpuinfer::infer
