// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/slices/slice_player.hpp"
#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::infer {

// A set of a slice: lines that may be asked about, as many of each set, and others that fill it.
struct SliceSet {
  SliceLines lines;
  SliceLines others;
};

// A few sets of a slice as a cache of their own, for whoever asks caches: line i of set s begins at byte
// (i x sets + s) x line_bytes of its buffer. A clean start is one in which others fill each set that a question
// touches: under LRU none of its lines is present then. What an access fetches, or has fetched or written
// back, is waited for.
class SliceAsCache final : public model::Answerer {
 public:
  // `device` outlives it, and counts what is asked. `sets`: not empty. `waiting_line`: of another set, loaded while
  // something is waited for.
  SliceAsCache(Asker& device, const SliceView& view, std::vector<SliceSet> sets, std::uint64_t line_bytes,
               SliceLine waiting_line);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  // The same index for each of its addresses.
  [[nodiscard]] model::IndexFunction index() const;

  // Refuses all starts but clean ones.
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;

 private:
  // As it is put to the device, and where in its record the accesses are that were asked for.
  struct PutQuestion {
    model::Question question;
    std::vector<std::size_t> places;
  };

  [[nodiscard]] std::uint64_t set_of(std::uint64_t offset) const { return offset / line_bytes_ % sets_.size(); }
  [[nodiscard]] std::uint64_t offset_in_slice(std::uint64_t offset) const;
  [[nodiscard]] PutQuestion put_to_slice(const model::Question& question) const;

  Asker* device_;
  SliceView view_;
  std::vector<SliceSet> sets_;
  std::uint64_t line_bytes_;
  SliceLine waiting_line_;
  model::DeviceFacts facts_;
};

}  // namespace gpuinfer::infer
