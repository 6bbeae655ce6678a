// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "cli/nearest_word.hpp"
#include "model/description/sections.hpp"
#include "model/description/words.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array targets{
    Target{.name = "L1tex",
           .what = "the L1 and texture path",
           .place = Place::data,
           .plain_loads = PlainLoads::where_no_other_does,
           .bandwidth = "L1"},
    Target{.name = "Texture", .what = "the texture path asked by itself, tex1Dfetch", .place = Place::data},
    Target{.name = "Texture2D",
           .what = "which texels of a two-dimensional texture lie together, tex2D",
           .place = Place::data,
           .bandwidth = "texture"},
    Target{.name = "L1D",
           .what = "a data L1 apart from the texture path",
           .place = Place::data,
           .plain_loads = PlainLoads::all,
           .bandwidth = "L1"},
    Target{.name = "ReadOnly", .what = "the read-only path, ld.global.nc", .place = Place::data},
    Target{.name = "ConstL1",
           .what = "first level of the constant cache",
           .place = Place::constants,
           .bandwidth = "constant"},
    Target{.name = "ConstL15", .what = "second level of the constant cache", .place = Place::constants},
    Target{.name = "ConstImmediate",
           .what = "immediate-addressed constants (c[bank][imm]), by footprint",
           .place = Place::constants},
    Target{.name = "Instruction", .what = "how fast straight-line code runs, by its length", .place = Place::code},
    Target{.name = "L2",
           .what = "second-level cache, which all SMs of a GPU share",
           .place = Place::shared_by_sms,
           .plain_loads = PlainLoads::all,
           .bandwidth = "L2_load",
           .size_fact = "l2_bytes"},
    Target{.name = "L3",
           .what = "the third level of a CPU",
           .place = Place::shared_by_sms,
           .plain_loads = PlainLoads::all},
    Target{
        .name = "dTLB", .what = "first level of address translation of a CPU, for data", .place = Place::translation},
    Target{.name = "L1TLB", .what = "first level of address translation", .place = Place::translation},
    Target{.name = "L2TLB", .what = "second level of address translation", .place = Place::translation},
    Target{.name = "Shared", .what = "banks of shared memory", .place = Place::data, .bandwidth = "shared"},
    Target{.name = "Latency", .what = "what each combination of hits and misses in caches and TLBs costs"},
    Target{.name = "Outstanding", .what = "outstanding (in-flight) loads per SM"},
    Target{.name = "Bandwidth", .what = "peak bandwidth of each memory level"},
    Target{.name = "Kernels", .what = "real kernels against the measured bandwidths"},
    Target{.name = "Cluster", .what = "what SMs of a cluster do with the shared memory of one another"},
    Target{.name = "Fetch", .what = "how blocks bring data from L2 to shared memory, by size"},
};

constexpr std::string_view everything = "all";

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.emplace_back(name);
  }
}

std::string_view spelled(const std::string& asked) {
  if (same_letters(asked, everything)) {
    return everything;
  }
  const auto* known = std::find_if(targets.begin(), targets.end(),
                                   [&](const Target& target) { return same_letters(target.name, asked); });
  if (known == targets.end()) {
    std::vector<std::string> names;
    std::transform(targets.begin(), targets.end(), std::back_inserter(names),
                   [](const Target& t) { return std::string(t.name); });
    throw InputError("--target: `" + asked + "` is not a target" + did_you_mean(asked, names) + "; targets are " +
                     model::words::joined(names) + ", all");
  }
  return known->name;
}

[[noreturn]] void refuse(const std::string& name, model::Answerer& device) {
  const model::Question probing{.target = name, .state = model::StartState::clean, .warm = {}, .record = {0}};
  const std::vector<model::Answer> answers = device.ask({&probing, 1});
  throw InputError("--target: " + name + " is not offered by " + device.facts().source + ", which offers " +
                   (device.facts().targets.empty() ? "nothing" : model::words::joined(device.facts().targets)) +
                   (answers.front().refusal ? "; it says: " + *answers.front().refusal : ""));
}

}  // namespace

std::span<const Target> known_targets() { return targets; }

const Target* known_target(std::string_view name) {
  const auto* const found = std::ranges::find(targets, name, &Target::name);
  return found == targets.end() ? nullptr : found;
}

bool translates(std::string_view target) {
  const Target* const known = known_target(target);
  return known != nullptr && known->place == Place::translation;
}

std::string_view section_of(std::string_view target) {
  const auto own = std::ranges::find_if(
      model::sections(), [&](const auto& section) { return section.is_found_out() && section.target == target; });
  return own == model::sections().end() ? target : own->key;
}

std::vector<std::string> spelled_targets(std::span<const std::string> asked) {
  std::vector<std::string> names;
  for (const std::string& name : asked) {
    add_once(names, spelled(name));
  }
  return names;
}

bool stands_for_all(std::span<const std::string> spelled) {
  return std::find(spelled.begin(), spelled.end(), everything) != spelled.end();
}

std::vector<std::string> described_targets(const model::DeviceDescription& profile, const std::string& file,
                                           const std::vector<std::string>& asked) {
  std::vector<std::string> targets;
  for (const auto& section : model::sections()) {
    if (section.is_found_out()) {
      for (const std::string& name : section.names(profile)) {
        targets.push_back(section.is_named ? name : std::string(section.target));
      }
    }
  }
  const auto place_of = [](const std::string& target) {
    return std::ranges::find(known_targets(), target, &Target::name) - known_targets().begin();
  };
  std::ranges::stable_sort(targets, {}, place_of);
  for (const std::string& target : asked) {
    if (target == everything) {
      return targets;
    }
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      throw InputError(fmt::format("--target: {} is not in {}; leave it out to see what is", target, file));
    }
  }
  return asked.empty() ? targets : asked;
}

std::vector<std::string> offered_targets(std::span<const std::string> spelled, model::Answerer& device) {
  const std::vector<std::string>& offered = device.facts().targets;
  std::vector<std::string> names;
  for (const std::string& name : spelled) {
    if (name == everything) {
      // A device may answer for more than there is an inference for.
      for (const std::string& each : offered) {
        if (known_target(each) != nullptr) {
          add_once(names, each);
        }
      }
    } else if (std::find(offered.begin(), offered.end(), name) != offered.end()) {
      add_once(names, name);
    } else {
      refuse(name, device);
    }
  }
  if (names.empty()) {
    throw DeviceUnavailable(device.facts().source + ": offers no target at all; name another device");
  }
  return names;
}

}  // namespace gpuinfer::cli
