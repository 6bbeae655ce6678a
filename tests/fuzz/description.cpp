// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/hierarchy.hpp"
#include "model/texel_layout.hpp"
#include "probe/virtual_device.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: a device description, YAML or JSON. What is let in is written and read again, and played a little.
namespace gpuinfer::fuzz {
namespace {

// Larger caches are let in, too; building them takes longer than an input may.
constexpr std::uint64_t most_lines_played = 1U << 14U;

bool is_small(const model::DeviceDescription& device) {
  std::uint64_t lines = 0;
  for (const auto& [name, cache] : device.caches) {
    lines += cache.ways ? std::accumulate(cache.ways->begin(), cache.ways->end(), std::uint64_t{0}) : 0;
    lines += cache.fill.lines_ahead();
  }
  return lines <= most_lines_played;
}

std::vector<std::uint64_t> some_addresses(std::uint64_t line_bytes) {
  std::vector<std::uint64_t> addresses{0, 4, ~std::uint64_t{0}, std::uint64_t{1} << 40U};
  for (std::uint64_t line = 0; line < 24; ++line) {
    addresses.push_back(line * line_bytes);
    addresses.push_back(line * line * 17 * line_bytes + line_bytes / 2);
  }
  return addresses;
}

void play(const model::CacheDescription& cache) {
  done_or_refused([&] {
    const auto simulator = model::CacheSimulator::make(cache, 1);
    const std::vector<std::uint64_t> addresses = some_addresses(*cache.line_bytes);
    std::vector<model::Outcome> outcomes(addresses.size());
    for (const auto state : {model::StartState::clean, model::StartState::keep, model::StartState::flooded,
                             model::StartState::invalidated}) {
      simulator->put_into(state);
      if (done_or_refused([&] { simulator->play(addresses, outcomes); })) {
        require(state != model::StartState::clean || outcomes.front() != model::Outcome::hit, "an empty cache misses");
      }
    }
    const auto snapshot = simulator->snapshot();
    const model::AccessEvent event = simulator->step(model::Address{addresses.back()}, model::AccessKind::load);
    simulator->restore(*snapshot);
    require(event == simulator->step(model::Address{addresses.back()}, model::AccessKind::load),
            "a snapshot brings the state back");
    static_cast<void>(simulator->step(model::Address{addresses.front()}, model::AccessKind::store));
  });
}

void play_path(const model::DeviceDescription& device, const std::string& path) {
  done_or_refused([&] {
    model::HierarchySimulator simulator(device, path, 1);
    const std::vector<std::uint64_t> addresses = some_addresses(128);
    std::vector<model::AccessClass> classes(addresses.size());
    simulator.play(addresses, classes);
    const model::PathLatencies latencies(device, path);
    for (const model::AccessClass& each : classes) {
      static_cast<void>(latencies.of(each));
    }
  });
}

void ask(const model::DeviceDescription& description) {
  done_or_refused([&] {
    const auto device = probe::open_virtual(description, "virtual:fuzzed", 1);
    std::vector<model::Question> questions;
    for (const std::string& target : device->facts().targets) {
      questions.push_back({.target = target, .warm = {0, 128}, .record = {0, 4096, 32, 0}});
    }
    const std::vector<model::Answer> answers = device->ask(questions);
    for (const model::Answer& answer : answers) {
      require(answer.refusal.has_value() || answer.latency_cycles.size() == 4, "each recorded load has a latency");
    }
  });
}

void read(std::string_view yaml) {
  const auto device = read_or_refused([&] { return model::parse_description(yaml, "input"); });
  if (!device) {
    return;
  }
  const std::string written = model::to_yaml(*device);
  require(model::to_yaml(model::parse_description(written, "written")) == written, "YAML comes back as it was written");
  const std::string json = model::to_json(*device);
  require(model::to_json(model::parse_description(json, "written")) == json, "JSON comes back as it was written");
  for (const auto& each : device->textures) {
    done_or_refused([&] { static_cast<void>(model::TexelLayout(each.second).offset_of({.x = 3, .y = 1})); });
  }
  if (is_small(*device)) {
    for (const auto& [name, cache] : device->caches) {
      play(cache);
    }
    for (const auto& [name, path] : device->paths) {
      play_path(*device, name);
    }
    ask(*device);
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpuinfer::fuzz::read(gpuinfer::fuzz::text_of(data, size));
  return 0;
}
