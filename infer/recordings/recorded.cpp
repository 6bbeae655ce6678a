// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/recorded.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace gpuinfer::infer {

namespace {

bool is_cyclic(const model::AccessSequence& record, const LongLoop& loop) {
  std::unordered_map<std::uint64_t, std::size_t> last_load;
  std::optional<std::size_t> round;
  for (std::size_t i = 0; i < record.size(); ++i) {
    loop.step();
    const auto [last, is_first] = last_load.emplace(record[i], i);
    if (!is_first) {
      const std::size_t distance = i - last->second;
      if (distance != round.value_or(distance)) {
        return false;
      }
      round = distance;
      last->second = i;
    }
  }
  return true;
}

bool is_warm(const model::Trace& trace, const ReadTraces& all) {
  const auto& [target, state, warm, record, circumstances] = trace.question;
  if (!trace.start_is_known || warm.empty()) {
    return false;
  }
  const std::uint64_t granule_bytes = all.fill.is_known ? all.fill.bytes : 1;
  const auto granule_of = [&](std::uint64_t offset) { return (all.address_of_buffer + offset) / granule_bytes; };
  std::unordered_set<std::uint64_t> loaded;
  for (const std::uint64_t offset : warm) {
    all.loop.step();
    loaded.insert(granule_of(offset));
  }
  return std::ranges::all_of(record, [&](std::uint64_t offset) {
    all.loop.step();
    return loaded.contains(granule_of(offset));
  });
}

}  // namespace

void classify(ReadTraces& all) {
  for (ReadTrace& read : all.traces) {
    read.is_cyclic = is_cyclic(read.trace->question.record, all.loop);
    read.is_warm = is_warm(*read.trace, all);
  }
}

std::string stopped_early(const std::string& why) {
  return "it was stopped before every hypothesis was simulated (" + why + ")";
}

void RecordedLeaves::resolve(const std::string& leaf) const { open(leaf, model::EvidenceStatus::resolved, {}); }

void RecordedLeaves::open(const std::string& leaf, model::EvidenceStatus status, std::string reason,
                          std::string decided_by, std::vector<std::string> alternatives) const {
  model::LeafEvidence& evidence = (*this)[leaf];
  evidence.status = status;
  evidence.reason = std::move(reason);
  evidence.decided_by = std::move(decided_by);
  evidence.alternatives = std::move(alternatives);
  evidence.experiments = recordings_;
}

void RecordedLeaves::open_description(model::EvidenceStatus status, const std::string& reason,
                                      const std::string& decided_by) const {
  for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "index", "replacement"}) {
    open(leaf, status, reason, decided_by);
  }
}

void RecordedLeaves::open_description_and_fill(model::EvidenceStatus status, const std::string& reason,
                                               const std::string& decided_by) const {
  open_description(status, reason, decided_by);
  open("sector_bytes", status, reason, decided_by);
}

model::Inquiry& RecordedLeaves::log(std::string asked, std::string why, std::string learned,
                                    std::optional<std::size_t> before, std::optional<std::size_t> after) const {
  return finding_->evidence.inquiries.emplace_back(model::Inquiry{.asked = std::move(asked),
                                                                  .why = std::move(why),
                                                                  .learned = std::move(learned),
                                                                  .questions = 0,
                                                                  .accesses = 0,
                                                                  .hypotheses_before = before,
                                                                  .hypotheses_after = after});
}

}  // namespace gpuinfer::infer
