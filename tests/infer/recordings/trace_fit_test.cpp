// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// What would prove the search in recordings wrong: a finding that depends on who scored the hypotheses, or in what
// order.
#include "infer/recordings/trace_fit.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "infer/recordings/infer_traces.hpp"
#include "tests/infer/finding_check.hpp"
#include "tests/infer/virtual_cache.hpp"

namespace gpuinfer::infer {
namespace {

constexpr unsigned seed = 20240817;

// Backwards, by threads that each take what comes.
std::vector<Scored> score_in_disorder(std::size_t hypotheses, const Score& score) {
  std::vector<Scored> scored(hypotheses);
  std::vector<std::jthread> threads;
  constexpr std::size_t helpers = 3;
  for (std::size_t helper = 0; helper < helpers; ++helper) {
    threads.emplace_back([&, helper] {
      for (std::size_t i = hypotheses; i-- > 0;) {
        if (i % helpers == helper) {
          scored[i] = score(i);
        }
      }
    });
  }
  return scored;
}

TEST(Scorer, WhoScoresDoesNotShow) {
  const auto device = device_of(cache_of({4, 4, 4, 4}, model::XorIndex{{0x120, 0x240}, 0}, replacement("lru")),
                                {.jitter_cycles = 2, .misread_probability = 0.0005});
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t offset = 0; offset < 1536; offset += 4) {
    offsets.push_back(offset);
  }
  model::Random random(seed);
  std::vector<model::Trace> traces(2);
  for (model::Trace& trace : traces) {
    trace.question.target = "L1tex";
    trace.question.record = model::random_walk(offsets, 4000, random);
    trace.latency_cycles = device->ask({&trace.question, 1}).front().latency_cycles;
  }
  const CacheFinding in_turn = infer_traces(traces, model::Address{0}, Settings{});
  EXPECT_TRUE(in_turn.cache.ways) << text_of(in_turn);
  std::size_t calls = 0;
  const auto counted = [&](std::size_t hypotheses, const Score& score) {
    ++calls;
    return score_in_disorder(hypotheses, score);
  };
  EXPECT_EQ(text_of(infer_traces(traces, model::Address{0}, Settings{}, counted)), text_of(in_turn));
  EXPECT_GT(calls, 10U);
}

}  // namespace
}  // namespace gpuinfer::infer
