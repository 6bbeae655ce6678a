// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "model/policies/clock.hpp"
#include "model/policies/fifo.hpp"
#include "model/policies/lip.hpp"
#include "model/policies/lru.hpp"
#include "model/policies/mru.hpp"
#include "model/policies/nru.hpp"
#include "model/policies/plru.hpp"
#include "model/policies/policy.hpp"
#include "model/policies/srrip.hpp"

namespace gpuinfer::model {

// Two policies for the same sets, `first` and `second`, each with the parameters that it has by default. Both hear of
// every hit and every fill at all times; of a full set one of them is asked for the victim.
class Rivals {
 public:
  enum class Side : std::uint8_t { first, second };

  // Of the two names. Throws InputError.
  static constexpr std::array names{Lru::name, Fifo::name, Lip::name,   Plru::name,
                                    Nru::name, Mru::name,  Clock::name, Srrip::name};
  static constexpr WordParameter<names.size()> first{.name = "first", .words = names, .must_be_there = true};
  static constexpr WordParameter<names.size()> second{.name = "second", .words = names, .must_be_there = true};

  Rivals(const SetLayout& layout, const Replacement& replacement, Random& random)
      : rivals_{made(first.of(replacement), layout, random), made(second.of(replacement), layout, random)} {}

  void reset() {
    for_both([](auto& policy) { policy.reset(); });
  }
  void hit(std::uint32_t set, std::uint32_t slot) {
    for_both([=](auto& policy) { policy.hit(set, slot); });
  }
  void fill(std::uint32_t set, std::uint32_t slot) {
    for_both([=](auto& policy) { policy.fill(set, slot); });
  }
  [[nodiscard]] std::uint32_t victim(std::uint32_t set, Side side) {
    return std::visit([=](auto& policy) { return policy.victim(set); }, rivals_.at(static_cast<std::size_t>(side)));
  }
  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const {
    for (const Rival& rival : rivals_) {
      std::visit([&](const auto& policy) { policy.append_state(set, state); }, rival);
    }
  }

 private:
  using Rival = std::variant<Lru, Fifo, Lip, Plru, Nru, Mru, Clock, Srrip>;

  template <std::size_t place = 0>
  static Rival made(std::string_view name, const SetLayout& layout, Random& random) {
    using Policy = std::variant_alternative_t<place, Rival>;
    if constexpr (place + 1 < std::variant_size_v<Rival>) {
      if (Policy::name != name) {
        return made<place + 1>(name, layout, random);
      }
    }
    return Policy(layout, {.policy = std::string(name), .parameters = {}, .equivalent = {}}, random);
  }

  template <class Call>
  void for_both(Call&& call) {
    for (Rival& rival : rivals_) {
      std::visit(call, rival);
    }
  }

  std::array<Rival, 2> rivals_;
};

}  // namespace gpuinfer::model
