// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/policies/policy.hpp"
#include "model/policies/slot_order.hpp"

namespace gpuinfer::model {

// First in, first out: the line that was filled longest ago goes; hits change nothing (Belady 1966, "FIFO").
class Fifo {
 public:
  static constexpr std::string_view name = "fifo";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = true;
  static constexpr bool hits_are_idle = true;
  static constexpr std::tuple<> parameters{};

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) { return {plain<Fifo>()}; }

  Fifo(const SetLayout& layout, const Replacement& /*replacement*/, Random& /*random*/) : fill_order_(layout) {}

  void reset() { fill_order_.reset(); }
  void hit(std::uint32_t /*set*/, std::uint32_t /*slot*/) {}
  void fill(std::uint32_t set, std::uint32_t slot) { fill_order_.make_youngest(set, slot); }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set) { return fill_order_.oldest(set); }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    fill_order_.append_state(set, state);
  }

 private:
  SlotOrder fill_order_;
};

}  // namespace gpuinfer::model
