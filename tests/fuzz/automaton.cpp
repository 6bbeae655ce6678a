// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"
#include "model/set_machine.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: a number of ways from 1 to 16 in the first byte, then a replacement policy as descriptions have it, such as
// `{policy: srrip, bits: 2}`. What is let in is played on one set by the simulator and by the machine of a set, which
// must agree.
namespace gpuinfer::fuzz {
namespace {

void play(const model::Replacement& replacement, std::uint32_t ways) {
  const auto simulator = model::CacheSimulator::make(model::one_set(replacement, ways), 1);
  if (!model::is_deterministic(replacement)) {
    std::vector<std::uint64_t> lines(64);
    std::generate(lines.begin(), lines.end(), [line = 0U]() mutable { return line = (line * 5 + 3) % 19; });
    simulator->play(lines, {});
    return;
  }
  model::SetMachine machine(replacement, ways);
  std::vector<std::uint64_t> lines_of_ways;
  std::uint32_t draw = 1;
  for (int i = 0; i < 96; ++i) {
    draw = draw * 1664525U + 1013904223U;
    const std::uint64_t line = (draw >> 16U) % (ways + 2);
    const auto found = std::find(lines_of_ways.begin(), lines_of_ways.end(), line);
    const model::AccessEvent event = simulator->step(model::Address{line}, model::AccessKind::load);
    require((event.outcome == model::Outcome::hit) == (found != lines_of_ways.end()), "both know what is in the set");
    if (found != lines_of_ways.end()) {
      machine.hit(static_cast<std::uint32_t>(found - lines_of_ways.begin()));
    } else {
      const std::uint32_t way = machine.miss();
      require(way < ways && way <= lines_of_ways.size(), "a victim is one of the ways");
      require(event.way == way, "both choose the same victim");
      lines_of_ways.resize(std::max<std::size_t>(lines_of_ways.size(), way + 1));
      lines_of_ways[way] = line;
    }
  }
  constexpr std::size_t most_states = 64;
  static_cast<void>(model::SetAutomaton(model::SetMachine(replacement, ways)).complete(most_states));
  static_cast<void>(model::compare(replacement, {.policy = "fifo", .parameters = {}, .equivalent = {}}, ways,
                                   {.pairs_of_states = most_states}));
}

void read(std::uint32_t ways, std::string_view policy) {
  const std::string number = std::to_string(ways);
  const std::string yaml = "schema: gpuinfer/1\ncaches:\n  C:\n    line_bytes: 1\n    sector_bytes: 1\n    ways: [" +
                           number + "]\n    index: {kind: bits, bits: []}\n    replacement: " + std::string(policy);
  const auto device = read_or_refused([&] { return model::parse_description(yaml, "input"); });
  if (device && device->caches.size() == 1 && device->caches.begin()->second.replacement &&
      device->caches.begin()->second.ways == std::vector{ways}) {
    play(*device->caches.begin()->second.replacement, ways);
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t most_ways = 16;
  if (size > 0) {
    gpuinfer::fuzz::read(data[0] % most_ways + 1, gpuinfer::fuzz::text_of(data + 1, size - 1));
  }
  return 0;
}
