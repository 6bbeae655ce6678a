// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/keep/run_facts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace {

using nlohmann::json;

// Of the address only the bits that offsets reach: those above differ from one start of a GPU's driver to the next, and
// concern all lines of the buffer alike.
json buffer_facts(const model::BufferFacts& buffer) {
  constexpr std::uint64_t largest_bytes = std::uint64_t{1} << 62U;
  json facts{{"bytes", buffer.bytes},
             {"address", buffer.address % std::bit_ceil(std::min(buffer.bytes, largest_bytes))}};
  if (buffer.raster) {
    facts["raster"] = {buffer.raster->texel_bytes, buffer.raster->width, buffer.raster->height};
  }
  if (buffer.nearer_bytes) {
    facts["nearer_bytes"] = *buffer.nearer_bytes;
  }
  if (buffer.piece_bytes) {
    facts["piece_bytes"] = *buffer.piece_bytes;
  }
  if (buffer.one_unit) {
    facts["one_sm"] = true;
  }
  if (buffer.averages_laps) {
    facts["averages_laps"] = true;
  }
  return facts;
}

const std::string own_buffer = "buffer of ";

bool differs_in_address(const std::string& name, const RunFacts& begun, const RunFacts& now) {
  const auto before = begun.find(name);
  const auto after = now.find(name);
  if ((name != "buffer" && !name.starts_with(own_buffer)) || before == begun.end() || after == now.end() ||
      before->second == after->second) {
    return false;
  }
  json facts_before = model::parse_json(before->second);
  json facts_after = model::parse_json(after->second);
  if (!facts_before.is_object() || !facts_after.is_object()) {
    return false;
  }
  facts_before.erase("address");
  facts_after.erase("address");
  return facts_before == facts_after;
}

}  // namespace

RunFacts run_facts_of(const model::DeviceFacts& facts) {
  // What was so when the device was opened, or is known only after it has answered.
  constexpr std::array<std::string_view, 10> changing{
      "sm_clock_mhz", "memory_clock_mhz", "watched",          "disturbances",  "resumed",
      "host",         "clock_cycles",     "clock_step_ticks", "amplification", "time_stamp_tick_cycles"};
  const auto text = [](const json& value) { return model::json_text(value, {.replaces_bytes = true}); };
  RunFacts run{{"device", facts.name},
               {"source", facts.source},
               {"compute_capability", facts.compute_capability.value_or("none")},
               {"sm_count", facts.sm_count ? std::to_string(*facts.sm_count) : "none"},
               {"offered targets", text(facts.targets)},
               {"buffer", text(buffer_facts(facts.buffer))},
               {"heeded circumstances", text(wire::heeded_by(facts))},
               {"latency path", facts.latency_path ? text(wire::to_json(*facts.latency_path)) : "none"}};
  for (const auto& [target, buffer] : facts.own_buffers) {
    run[own_buffer + target] = text(buffer_facts(buffer));
  }
  for (const auto& [name, value] : facts.provenance) {
    if (std::ranges::find(changing, name) == changing.end()) {
      run[name] = value;
    }
  }
  return run;
}

std::vector<std::string> targets_elsewhere(std::span<const std::string> targets, const RunFacts& begun,
                                           const RunFacts& now) {
  std::vector<std::string> elsewhere;
  std::ranges::copy_if(targets, std::back_inserter(elsewhere), [&](const std::string& target) {
    const std::string own = own_buffer + target;
    return differs_in_address(begun.contains(own) ? own : "buffer", begun, now);
  });
  return elsewhere;
}

void check_same_run(const std::filesystem::path& file, const RunFacts& begun, const RunFacts& now) {
  // What tells most comes first.
  std::vector<std::string> names{"source", "device", "targets"};
  for (const auto& [name, value] : begun) {
    names.push_back(name);
  }
  const auto shown = [](const RunFacts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("nothing") : "`" + found->second + "`";
  };
  for (const std::string& name : names) {
    if (begun.contains(name) && shown(begun, name) != shown(now, name) && !differs_in_address(name, begun, now)) {
      throw InputError(file.string() + ": was begun with " + name + " " + shown(begun, name) + ", and this run has " +
                       shown(now, name) + "; resume it as it was begun, or begin another one with --record");
    }
  }
}

}  // namespace gpuinfer::probe
