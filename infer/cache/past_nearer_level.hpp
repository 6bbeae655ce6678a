// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "infer/asking/interrogator.hpp"
#include "model/answerer.hpp"
#include "model/index_function.hpp"

namespace gpuinfer::infer {

// A level behind a nearer one, asked as if it were the first. After each access come others, to lines of sets that
// nobody asks about, which drive the line that was accessed out of the nearer level; so the next access to it is one of
// the level behind. No start is one of empty sets, which may fill in an order of their own: whoever asks fills them
// first.
class PastNearerLevel final : public model::Answerer {
 public:
  // `device` outlives it and keeps count and limits. `index`: of the level that is asked about, whose lines have
  // `line_bytes`. `is_asked`: by set, whether questions may be about it; where they may be about all, no others come,
  // and whoever asks sees to it that no line comes back soon.
  PastNearerLevel(Interrogator& device, model::IndexFunction index, std::uint64_t line_bytes,
                  std::vector<bool> is_asked);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  // Throws as Asker::latencies().
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;

 private:
  [[nodiscard]] const AccessSequence& others_after(std::uint64_t offset);
  [[nodiscard]] AccessSequence with_others(const AccessSequence& sequence);

  Interrogator* device_;
  model::DeviceFacts facts_;
  model::IndexFunction index_;
  std::uint64_t line_bytes_;
  std::vector<bool> is_asked_;
  std::map<std::uint64_t, AccessSequence> others_;  // by offset
};

}  // namespace gpuinfer::infer
