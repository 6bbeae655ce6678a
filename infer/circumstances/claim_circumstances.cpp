// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/circumstances/claim_circumstances.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/settle_claim.hpp"
#include "infer/circumstances/circumstances.hpp"
#include "infer/circumstances/near_and_far.hpp"
#include "infer/circumstances/sm_groups.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::Carveout;

// The target behind which all SMs find the same cache.
constexpr const char* cache_of_all_sms = "L2";

// As settle_claim() of a stage each question of which could have refuted the value.
template <class Value, class Find>
void settle(Interrogator& asker, std::optional<Claim<Value>>& claim, const char* asked, const char* why, Find find,
            By by = By::levels) {
  settle_claim(asker, claim, asked, why, std::move(find), by);
  claim->trials = std::max(claim->trials, claim->questions);
}

Bytes line_or_sector_bytes(const CacheClaims& claims) {
  return claims.line_bytes.value.value_or(*claims.sector_bytes.value);
}

// Where a miss of a far line takes longer, too, the median of all misses is that of neither part, nor does it come
// again: latencies are those of near lines.
void tell_near_latencies(Interrogator& asker, const NearAndFar& parts, CacheClaims& claims) {
  if (!claims.latency_cycles.value) {
    return;
  }
  try {
    if (const auto near = find_near_latencies(asker, *claims.sector_bytes.value, parts)) {
      claims.latency_cycles.value->hit = near->hit_cycles;
      claims.latency_cycles.value->miss = near->miss_cycles;
      claims.latency_cycles.reason.clear();
    }
  } catch (const QuestionRefused&) {  // recordings of other questions
  }
}

// No value where no SM is far from any line: then there are no parts to speak of, which is resolved, too.
std::string partitions(Interrogator& asker, CacheClaims& claims, Claim<std::optional<model::Partitions>>& claim) {
  // A line may lie in several parts, a sector does not.
  const NearAndFar found = find_near_and_far(asker, *claims.sector_bytes.value, claims.onset_bytes.value);
  if (found.sms.size() == 1 && !found.home && found.reason.empty()) {
    claim.value.emplace();
    return "no SM is far from any line";
  }
  // Where what is far stays so, the median of all hits is that of neither.
  if (found.far_cycles > 0 && !found.keeps_copies && claims.latency_cycles.value) {
    claims.latency_cycles.value->hit = found.near_cycles;
  }
  if (!found.home) {
    if (found.sms.size() > 1) {
      claim.details.parts = found.sms.size();
    }
    return found.reason;
  }
  tell_near_latencies(asker, found, claims);
  claim.value.emplace(model::Partitions{.index = *found.home,
                                        .near = 0,
                                        .far_cycles = found.far_cycles,
                                        .sms = found.sms,
                                        .keeps_copies = found.keeps_copies,
                                        .block_bytes = found.block_bytes,
                                        .resident_bytes = found.resident_bytes});
  return std::to_string(found.sms.size()) + " parts, by " + model::to_flow_yaml(*found.home);
}

std::string resident(Interrogator& asker, Bytes line_bytes, Claim<std::array<double, 2>>& claim) {
  const std::uint64_t lines = asker.buffer().bytes / line_bytes;
  const auto bytes = find_resident_bytes(asker, lines, line_bytes);
  constexpr double nearly_all = 0.95;
  if (bytes[1] > nearly_all * static_cast<double>(lines * line_bytes)) {
    return "the buffer is too small to evict what is present";
  }
  claim.value = bytes;
  claim.trials = loads_of_resident_bytes;
  return model::whole_text(bytes[0]) + " to " + model::whole_text(bytes[1]) + " bytes";
}

std::string sharers(Interrogator& asker, Bytes line_bytes, Claim<std::vector<model::ComputeUnits>>& claim) {
  SmGroups found = find_sm_groups(asker, line_bytes);
  if (!found.reason.empty()) {
    return found.reason;
  }
  claim.value = std::move(found.groups);
  return "one for each of " + std::to_string(claim.value->size()) + " groups of SMs";
}

// `known`: onset and store at each carve-out, as far as they are known.
std::string carveouts(Interrogator& asker, Bytes line_bytes, const std::vector<Carveout>& known,
                      Claim<std::vector<Carveout>>& claim) {
  std::vector<Carveout> found = find_carveouts(asker, line_bytes, known);
  for (const Carveout& carveout : found) {
    // A full cache holds as much as ever fitted, but for sets that random lines leave part empty.
    constexpr double least_full = 0.8;
    const auto fitting = static_cast<double>(carveout.onset_bytes.value_or(0));
    if (fitting == 0 || carveout.resident_bytes->at(1) < least_full * fitting) {
      return "with a carve-out of " + std::to_string(carveout.carveout_kb) + " KB " +
             std::to_string(carveout.onset_bytes.value_or(0)) + " bytes fit and at most " +
             model::whole_text(carveout.resident_bytes->at(1)) + " are present";
    }
  }
  // Once more, the first ones last: what somebody else evicts at one time is not missing at all times.
  for (auto carveout = found.rbegin(); carveout != found.rend(); ++carveout) {
    const auto again = find_resident_bytes(asker, *carveout, line_bytes);
    if (again[0] > carveout->resident_bytes->at(1) || carveout->resident_bytes->at(0) > again[1]) {
      return "with a carve-out of " + std::to_string(carveout->carveout_kb) + " KB up to " +
             model::whole_text(carveout->resident_bytes->at(1)) + " bytes are present, and up to " +
             model::whole_text(again[1]) + " at another time";
    }
  }
  claim.value = std::move(found);
  return std::to_string(claim.value->size()) + " sizes";
}

std::string sharing(Interrogator& asker, Bytes line_bytes, Claim<std::vector<std::string>>& claim) {
  const Sharing sharing = find_sharing(asker, line_bytes);
  if (!sharing.in_doubt.empty()) {
    return "neither hits nor misses through " + sharing.in_doubt.front();
  }
  claim.value = sharing.shared_with;
  claim.trials = sharing.loads;
  claim.details.apart = sharing.apart;
  return model::to_flow_yaml(sharing.shared_with) + " find them";
}

std::string all_sms(Interrogator& asker, Bytes line_bytes, Bytes onset_bytes, Claim<std::monostate>& claim,
                    std::vector<Warning>& warnings) {
  const SmSurvey survey = survey_sms(asker, line_bytes, onset_bytes);
  claim.value.emplace();
  claim.details.asked = survey.asked;
  claim.details.other_misses = survey.other_misses;
  claim.details.other_latency = survey.other_latency;
  if (survey.other_misses.empty() && survey.other_latency.empty()) {
    return "all alike";
  }
  warnings.emplace_back(
      OddSms{.asked = survey.asked, .other_misses = survey.other_misses, .other_latency = survey.other_latency});
  return "not all alike";
}

}  // namespace

void claim_partitions(Interrogator& asker, CacheClaims& claims, double done) {
  if (claims.sector_bytes.value && asker.target() == cache_of_all_sms && asker.facts().chooses_unit) {
    asker.report("near and far parts", done);
    settle(asker, claims.partitions, "lines that one SM has just brought, loaded by every SM",
           "the first load of a line that is at home near other SMs takes longer",
           [&](auto& claim) { return partitions(asker, claims, claim); });
  }
}

void claim_circumstances(Interrogator& asker, CacheClaims& claims, std::vector<Warning>& warnings) {
  if (!claims.sector_bytes.value) {
    return;
  }
  const model::DeviceFacts& facts = asker.facts();
  const Bytes line_bytes = line_or_sector_bytes(claims);
  if (asker.buffer().nearer_bytes) {
    asker.report("what is present", 0.96);
    settle(asker, claims.resident_bytes, "random loads from the whole buffer",
           "they hit as often as their lines are present",
           [&](auto& claim) { return resident(asker, line_bytes, claim); });
    if (facts.chooses_unit && facts.sm_count) {
      asker.report("who shares it", 0.97);
      settle(
          asker, claims.shared_by_sms, "lines that other SMs have just brought",
          "they hit on SMs that have it in common", [&](auto& claim) { return sharers(asker, line_bytes, claim); },
          By::comparison);
    }
  }
  if (!claims.onset_bytes.value) {
    return;
  }
  const Bytes onset_bytes = *claims.onset_bytes.value;
  const bool is_first_level = std::ranges::find(facts.warm_targets, asker.target()) != facts.warm_targets.end();
  if (is_first_level && !facts.shared_memories_kb.empty()) {
    asker.report("carve-outs", 0.96);
    const std::vector<Carveout> known =
        claims.carveouts && claims.carveouts->value ? *claims.carveouts->value : std::vector<Carveout>{};
    settle(asker, claims.carveouts, "contiguous arrays and random loads with every carve-out",
           "what is not shared memory is this cache",
           [&](auto& claim) { return carveouts(asker, line_bytes, known, claim); });
  }
  if (is_first_level && facts.warm_targets.size() > 1) {
    settle(asker, claims.shared_with, "loads through other paths of lines that this one brought",
           "hits tell that the paths share a cache", [&](auto& claim) { return sharing(asker, line_bytes, claim); });
  }
  constexpr Bytes most_lines = 1U << 14U;
  if (asker.settings().all_sms && !asker.buffer().nearer_bytes && !asker.buffer().one_unit && facts.chooses_unit &&
      facts.sm_count && onset_bytes / line_bytes <= most_lines) {
    asker.report("every SM", 0.98);
    settle(asker, claims.sms, "the same random loads on every SM", "parts of a chip may differ",
           [&](auto& claim) { return all_sms(asker, line_bytes, onset_bytes, claim, warnings); });
  }
}

}  // namespace gpuinfer::infer
