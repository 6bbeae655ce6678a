// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/trace.hpp"

// How a cache of a GPU is put into the state that a question begins with, as far as no launch is needed to say it. A
// back end brings the launches.
namespace gpuinfer::probe::gpu {

// What is loaded last before a question to flood a first-level cache: a part at the end of the buffer that questions do
// not reach, several times larger than any such cache is known to be. All of the buffer is loaded before that, so that
// what is not in the first level is in the second.
struct Flood {
  std::uint64_t bytes = 0;
  std::uint64_t stride_bytes = 1;
};

// Lines that are known to fit, to try a state with.
struct Touches {
  std::uint64_t count = 64;
  std::uint64_t stride_bytes = 128;
};

// One way of emptying.
struct Emptying {
  // The states that it may lead to, besides keep.
  bool to_clean = false;
  bool to_invalidated = false;
  bool to_flooded = false;
  // Questions that begin with this state may be answered on different SMs at a time.
  std::optional<model::StartState> apart = {};
  Flood flood = {};
  // What stands in front of the cache and answers in its place when little is loaded.
  std::optional<std::uint64_t> nearer_bytes = {};
  Touches touches = {};
};

// A level behind another one is not offered with a buffer of less, in multiples of what the nearer one holds.
inline constexpr std::uint64_t nearer_multiple = 8;

// Of a buffer of so many bytes, those that questions reach. None: it is too small for questions to tell anything.
[[nodiscard]] std::optional<std::uint64_t> asked_bytes(const Emptying& emptying, std::uint64_t buffer_bytes);

// The question after the loads that flood the cache, where it asks for that. `bytes`: that questions reach.
[[nodiscard]] model::Question after_flood(const Emptying& emptying, std::uint64_t bytes,
                                          const model::Question& question);

// The same of several questions with one start. Nothing: they ask for no flood.
[[nodiscard]] std::vector<model::Question> after_flood(const Emptying& emptying, std::uint64_t bytes,
                                                       std::span<const model::Question> questions);

// A warm-up with the places of the question, each once, and nothing recorded.
[[nodiscard]] model::Question once_each(const model::Question& question);

using Latencies = std::vector<float>;

// What a back end launches.
struct Launches {
  // One question on the SM of the last one. None when no block got there alone.
  std::function<std::optional<Latencies>(const model::Question&)> alone;
  // One question on every SM, for questions that go apart.
  std::function<std::vector<Latencies>(const model::Question&)> everywhere;
};

// The states that are reached: lines that were there, and fit with room to spare, all miss afterwards, or hit if they
// were to stay.
[[nodiscard]] std::set<model::StartState> states_reached(const Emptying& emptying, const std::string& target,
                                                         std::uint64_t bytes, const Touches& touches,
                                                         const Launches& launches);

// How many of the first questions can go out in one launch, at least one: of one target, start and circumstances, each
// to an SM of its own. `is_refused`: these are answered without a launch.
[[nodiscard]] std::size_t batch_size(std::span<const model::Question> questions, std::size_t sms,
                                     const std::function<bool(const model::Question&)>& is_refused);

}  // namespace gpuinfer::probe::gpu
