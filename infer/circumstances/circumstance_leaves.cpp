// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/circumstances/circumstance_leaves.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "infer/circumstances/circumstances.hpp"
#include "infer/circumstances/near_and_far.hpp"
#include "infer/circumstances/sm_groups.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

// The target behind which all SMs find the same cache.
constexpr const char* cache_of_all_sms = "L2";

// What was learned about a leaf, and whether that settles it.
struct Learned {
  std::string what;
  bool settles = true;
  bool by_levels = true;  // by hits and misses as the classifier tells them
};

class CircumstanceLeaves {
 public:
  CircumstanceLeaves(Interrogator& device, CacheFinding& finding, Leaves& leaves)
      : device_(device), finding_(finding), leaves_(leaves) {}

  void settle_all() {
    const model::DeviceFacts& facts = device_.facts();
    const model::CacheDescription& cache = finding_.cache;
    if (cache.sector_bytes && device_.target() == cache_of_all_sms && facts.chooses_sm) {
      device_.report("near and far parts", 1.0);
      settle("partitions", "lines that one SM has just brought, loaded by every SM",
             "the first load of a line that is at home near other SMs takes longer", [this] { return partitions(); });
    }
    if (cache.sector_bytes && device_.buffer().nearer_bytes) {
      device_.report("what is present", 1.0);
      settle("resident_bytes", "random loads from the whole buffer", "they hit as often as their lines are present",
             [this] { return resident(); });
      if (facts.chooses_sm && facts.sm_count) {
        device_.report("who shares it", 1.0);
        settle("shared_by_sms", "lines that other SMs have just brought", "they hit on SMs that have it in common",
               [this] { return sharers(); });
      }
    }
    if (!cache.sector_bytes || !cache.onset_bytes) {
      return;
    }
    const bool is_first_level =
        std::find(facts.warm_targets.begin(), facts.warm_targets.end(), device_.target()) != facts.warm_targets.end();
    if (is_first_level && !facts.carveouts_kb.empty()) {
      device_.report("carve-outs", 1.0);
      settle("carveouts", "contiguous arrays and random loads with every carve-out",
             "what is not shared memory is this cache", [this] { return carveouts(); });
    }
    if (is_first_level && facts.warm_targets.size() > 1) {
      settle("shared_with", "loads through other paths of lines that this one brought",
             "hits tell that the paths share a cache", [this] { return sharing(); });
    }
    constexpr std::uint64_t most_lines = 1U << 14U;
    if (device_.settings().all_sms && !device_.buffer().nearer_bytes && facts.chooses_sm && facts.sm_count &&
        *cache.onset_bytes / line_or_sector_bytes() <= most_lines) {
      device_.report("every SM", 1.0);
      settle("sms", "the same random loads on every SM", "parts of a chip may differ", [this] { return sms(); });
    }
  }

 private:
  [[nodiscard]] std::uint64_t line_or_sector_bytes() const {
    return finding_.cache.line_bytes.value_or(*finding_.cache.sector_bytes);
  }

  template <class Find>
  void settle(const char* leaf, const char* asked, const char* why, Find find) {
    device_.inquire(asked, why);
    leaves_.begin(leaf, "the asking did not end");
    std::string reason;
    try {
      Learned learned = find();
      if (learned.by_levels && device_.classifier().drifts_away()) {
        learned = {.what = "the latencies drift further than they can be followed", .settles = false};
      }
      device_.learned(learned.what);
      if (learned.settles) {
        leaves_.resolve(leaf);
        return;
      }
      reason = learned.what;
    } catch (const QuestionRefused& refused) {
      reason = std::string("the device refused a question: ") + refused.what();
      device_.learned(reason);
    }
    leaves_.leave_open(leaf, EvidenceStatus::unknown, reason);
  }

  Learned partitions() {
    // A line may lie in several parts, a sector does not.
    const NearAndFar found = find_near_and_far(device_, *finding_.cache.sector_bytes, finding_.cache.onset_bytes);
    if (found.sms.size() == 1 && !found.home && found.reason.empty()) {
      return {.what = "no SM is far from any line"};
    }
    // Where what is far stays so, the median of all hits is that of neither.
    if (found.far_cycles > 0 && !found.keeps_copies) {
      finding_.cache.latency_cycles.hit = found.near_cycles;
    }
    if (!found.home) {
      if (found.sms.size() > 1) {
        leaves_["partitions"].details["parts"] = std::to_string(found.sms.size());
      }
      return {.what = found.reason, .settles = false};
    }
    finding_.cache.partitions = model::Partitions{.index = *found.home,
                                                  .near = 0,
                                                  .far_cycles = found.far_cycles,
                                                  .sms = found.sms,
                                                  .keeps_copies = found.keeps_copies,
                                                  .block_bytes = found.block_bytes,
                                                  .resident_bytes = found.resident_bytes};
    return {.what = std::to_string(found.sms.size()) + " parts, by " + model::to_flow_yaml(*found.home)};
  }

  Learned resident() {
    const std::uint64_t line_bytes = line_or_sector_bytes();
    const std::uint64_t lines = device_.buffer().bytes / line_bytes;
    const auto bytes = find_resident_bytes(device_, lines, line_bytes);
    constexpr double nearly_all = 0.95;
    if (bytes[1] > nearly_all * static_cast<double>(lines * line_bytes)) {
      return {.what = "the buffer holds too little to drive out what is present", .settles = false};
    }
    finding_.cache.resident_bytes = bytes;
    return {.what = std::to_string(std::lround(bytes[0])) + " to " + std::to_string(std::lround(bytes[1])) + " bytes"};
  }

  Learned sharers() {
    SmGroups found = find_sm_groups(device_, line_or_sector_bytes());
    if (!found.reason.empty()) {
      return {.what = found.reason, .settles = false};
    }
    finding_.cache.shared_by_sms = std::move(found.groups);
    return {.what = "one for each of " + std::to_string(finding_.cache.shared_by_sms.size()) + " groups of SMs",
            .settles = true,
            .by_levels = false};
  }

  Learned carveouts() {
    const std::vector<model::Carveout> known = std::exchange(finding_.cache.carveouts, {});
    std::vector<model::Carveout> carveouts = find_carveouts(device_, line_or_sector_bytes());
    for (const model::Carveout& carveout : carveouts) {
      // A full cache holds as much as ever fitted, but for sets that random lines leave part empty.
      constexpr double least_full = 0.8;
      const auto fitting = static_cast<double>(carveout.onset_bytes.value_or(0));
      if (fitting == 0 || carveout.resident_bytes->at(1) < least_full * fitting) {
        return {.what = "with a carve-out of " + std::to_string(carveout.carveout_kb) + " KB " +
                        std::to_string(carveout.onset_bytes.value_or(0)) + " bytes fit and at most " +
                        std::to_string(std::lround(carveout.resident_bytes->at(1))) + " are present",
                .settles = false};
      }
    }
    for (const model::Carveout& stored : known) {
      const auto same = std::ranges::find(carveouts, stored.carveout_kb, &model::Carveout::carveout_kb);
      if (same != carveouts.end()) {
        same->store_lines = stored.store_lines;
      }
    }
    finding_.cache.carveouts = std::move(carveouts);
    return {.what = std::to_string(finding_.cache.carveouts.size()) + " sizes"};
  }

  Learned sharing() {
    const Sharing sharing = find_sharing(device_, line_or_sector_bytes());
    if (!sharing.in_doubt.empty()) {
      return {.what = "neither hits nor misses through " + sharing.in_doubt.front(), .settles = false};
    }
    finding_.cache.shared_with = sharing.shared_with;
    leaves_["shared_with"].details["apart"] = model::to_flow_yaml(sharing.apart);
    return {.what = model::to_flow_yaml(sharing.shared_with) + " find them"};
  }

  Learned sms() {
    const SmSurvey survey = survey_sms(device_, line_or_sector_bytes(), *finding_.cache.onset_bytes);
    auto& details = leaves_["sms"].details;
    details["asked"] = std::to_string(survey.asked);
    details["other_misses"] = model::to_flow_yaml(survey.other_misses);
    details["other_latency"] = model::to_flow_yaml(survey.other_latency);
    const std::size_t others = survey.other_misses.size() + survey.other_latency.size();
    if (others > 0) {
      finding_.warnings.push_back(std::to_string(others) + " of " + details["asked"] +
                                  " SMs answer otherwise (other misses " + details["other_misses"] +
                                  ", another latency " + details["other_latency"] +
                                  "), and none is expected; the profile holds for the others, so run again when the "
                                  "device has no other work");
    }
    return {.what = others == 0 ? "all alike" : "not all alike"};
  }

  Interrogator& device_;
  CacheFinding& finding_;
  Leaves& leaves_;
};

}  // namespace

void settle_circumstances(Interrogator& device, CacheFinding& finding, Leaves& leaves) {
  CircumstanceLeaves(device, finding, leaves).settle_all();
}

void withdraw_circumstances(CacheFinding& finding, Leaves& leaves, const std::string& disturbance) {
  model::CacheDescription& cache = finding.cache;
  if (cache.shared_with) {
    leaves["shared_with"].alternatives = {model::to_flow_yaml(*cache.shared_with)};
  }
  cache.partitions.reset();
  cache.resident_bytes.reset();
  cache.shared_by_sms.clear();
  cache.carveouts.clear();
  cache.shared_with.reset();
  for (const char* leaf : {"partitions", "resident_bytes", "shared_by_sms", "carveouts", "shared_with", "sms"}) {
    const auto settled = finding.evidence.leaves.find(leaf);
    if (settled != finding.evidence.leaves.end() && settled->second.status == EvidenceStatus::resolved) {
      leaves.leave_open(leaf, EvidenceStatus::ambiguous, "not proven: it was measured, and meanwhile " + disturbance);
    }
  }
}

}  // namespace gpuinfer::infer
