// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/answerer.hpp"

#include <algorithm>
#include <functional>

namespace gpuinfer::model {

bool fills(const Raster& raster, std::uint64_t bytes) {
  constexpr std::uint64_t most = std::uint64_t{1} << 24U;  // so that no product overflows
  const auto is_sound = [](std::uint64_t number) { return number > 0 && number <= most; };
  return raster.texel_bytes <= 64 && is_sound(raster.texel_bytes) && is_sound(raster.width) &&
         is_sound(raster.height) && raster.texel_bytes * raster.width * raster.height == bytes;
}

namespace {

template <class Number>
bool ascend(const std::vector<Number>& numbers) {
  return std::ranges::adjacent_find(numbers, std::ranges::greater_equal()) == numbers.end();
}

// Of accesses of one kind, which have numbers of their own.
std::optional<std::string> refusal_of_numbers(const DeviceFacts& facts, const Question& question,
                                              const std::vector<std::uint32_t>& numbers, std::string_view kind) {
  const BufferFacts& buffer = facts.buffer_of(question.target);
  if (buffer.raster || buffer.piece_bytes || buffer.averages_laps) {
    return question.target + " is not asked by single loads from memory, in place of which there could be " +
           std::string(kind) + "; ask for loads only";
  }
  if (question.circumstances.warm_target) {
    return "a warm-up through another path is loads; leave out one of `warm_target` and " + std::string(kind);
  }
  if (!ascend(numbers) || numbers.empty() || numbers.back() >= question.warm.size() + question.record.size()) {
    return "the numbers of the " + std::string(kind) +
           " do not ascend, or one is none of an access; number warm-up and recorded part through from 0";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal_of(const DeviceFacts& facts, const Question& question) {
  const auto& [warm_target, shared_memory_kb, unit, warm_units, contended_pairs, stores, hints, set_aside_bytes] =
      question.circumstances;
  const auto warms = [&](const std::string& target) {
    return std::ranges::find(facts.warm_targets, target) != facts.warm_targets.end();
  };
  if (warm_target && !(warms(*warm_target) && warms(question.target))) {
    return facts.source + " cannot warm up " + question.target + " through " + *warm_target +
           "; ask for two of its `warm_targets`";
  }
  if (shared_memory_kb &&
      std::ranges::find(facts.shared_memories_kb, *shared_memory_kb) == facts.shared_memories_kb.end()) {
    return facts.source + " does not offer a carve-out of " + std::to_string(*shared_memory_kb) +
           " KB; ask for one of its `carveouts_kb`";
  }
  if (unit && !(facts.chooses_unit && facts.sm_count && number_of(*unit) < *facts.sm_count)) {
    return facts.source + " cannot be told to load on SM " + std::to_string(number_of(*unit)) +
           "; leave the choice to it";
  }
  if (!warm_units.empty()) {
    if (std::ranges::find(facts.warm_unit_targets, question.target) == facts.warm_unit_targets.end()) {
      return facts.source + " cannot have other SMs warm up " + question.target +
             "; ask for one of its `warm_sms_targets`";
    }
    if (!unit || warm_target || !ascend(warm_units) || number_of(warm_units.back()) >= *facts.sm_count) {
      return "other SMs warm up for one that is named by `sm`, through its own path, and their numbers ascend; ask so";
    }
  }
  if (contended_pairs) {
    if (std::ranges::find(facts.contended_targets, question.target) == facts.contended_targets.end()) {
      return facts.source + " cannot have many units contend for places of " + question.target +
             "; ask for one of its `contended_targets`";
    }
    if (!question.warm.empty() || question.record.size() % 2 != 0 || warm_target || shared_memory_kb || unit ||
        !warm_units.empty() || !stores.empty() || !hints.empty() || set_aside_bytes) {
      return "contended pairs are recorded two by two, without a warm-up and on all units; ask for them so";
    }
  }
  if (!stores.empty()) {
    if (std::ranges::find(facts.stored_targets, question.target) == facts.stored_targets.end()) {
      return facts.source + " does not store through " + question.target + "; ask for loads only";
    }
    if (auto refusal = refusal_of_numbers(facts, question, stores, "stores")) {
      return refusal;
    }
  }
  if (!hints.empty()) {
    if (std::ranges::find(facts.hinted_targets, question.target) == facts.hinted_targets.end()) {
      return facts.source + " does not give hints through " + question.target + "; ask for loads without";
    }
    if (!stores.empty()) {
      return "hints and stores are not asked for together; ask for one of them";
    }
    for (const auto& [hint, numbers] : hints) {
      if (auto refusal = refusal_of_numbers(facts, question, numbers, to_string(hint))) {
        return refusal;
      }
    }
  }
  if (set_aside_bytes && !(facts.largest_set_aside_bytes && *set_aside_bytes <= *facts.largest_set_aside_bytes)) {
    return facts.source + " does not set " + std::to_string(*set_aside_bytes) +
           " bytes aside; ask for its `largest_set_aside_bytes` at most, where it has any";
  }
  return std::nullopt;
}

std::optional<std::vector<std::uint64_t>> Answerer::places_of(const std::string& /*target*/,
                                                              std::span<const std::uint64_t> /*offsets*/) {
  return std::nullopt;
}

std::vector<Timing> Answerer::time(std::span<const Workload> workloads) {
  const Timing refused{.cycles = {},
                       .seconds = {},
                       .refusal = facts().source +
                                  " answers sequences of single loads only; name a GPU, a virtual "
                                  "device or a recording of one"};
  return std::vector<Timing>(workloads.size(), refused);
}

}  // namespace gpuinfer::model
