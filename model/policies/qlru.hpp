// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model/policies/policy.hpp"
#include "model/policies/slot_ages.hpp"

namespace gpuinfer::model {

// Quad-age LRU, as Intel builds it, in the naming of nanoBench (Abel & Reineke, ISPASS 2020, section VI-B.2). Each way
// has an age of 0 to 3, after power-on 3; the parts of `variant` say
//   Hxy   a hit makes age 3 x, age 2 y, and the others 0
//   Mx    a fill makes the age x
//   R     which way goes: R0 and R1 the lowest of age 3, R2 the highest (where nanoBench counts from the other end);
//         where none has age 3, way 0, or with R2 the highest way
//   U     what happens when no way of the set has age 3: U0 all grow older by the same until the oldest has age 3, U1
//         the same but for the way accessed last, U2 all grow older by one, U3 the same but for the way accessed last
//   _UMO  this does not happen after every access, but only when a victim is wanted ("update on miss only"): then the
//         line that is accessed lies in no way yet, so U1 is U0 and U3 is U2
class Qlru {
 public:
  static constexpr std::string_view name = "qlru";
  static constexpr bool deterministic = true;
  static constexpr bool repeats_are_idle = false;

  static constexpr TextParameter variant_name{.name = "variant",
                                              .pattern = "^H(00|10|11|20|21)_M[0-3]_(R[02]_U[01]|R1_U[0-3])(_UMO)?$"};
  static constexpr std::tuple parameters{variant_name};

  static void check(const Replacement& replacement, const std::vector<std::uint32_t>& /*ways*/) {
    static_cast<void>(variant_of(replacement));
  }

  static std::vector<Replacement> guesses(const std::vector<std::uint32_t>& /*ways*/) {
    std::vector<Replacement> guesses;
    for (const auto& [hit_at_3, hit_at_2] : hit_functions) {
      for (int fill = 0; fill <= 3; ++fill) {
        for (int rule = 0; rule <= 2; ++rule) {
          for (int update = 0; update <= last_update(rule); ++update) {
            for (const bool on_miss_only : {false, true}) {
              const Variant variant{.hit_at_3 = hit_at_3,
                                    .hit_at_2 = hit_at_2,
                                    .fill = fill,
                                    .rule = rule,
                                    .update = update,
                                    .on_miss_only = on_miss_only};
              guesses.push_back(
                  {.policy = std::string(name), .parameters = {{"variant", to_text(variant)}}, .equivalent = {}});
            }
          }
        }
      }
    }
    return guesses;
  }

  Qlru(const SetLayout& layout, const Replacement& replacement, Random& /*random*/)
      : Qlru(layout, variant_of(replacement)) {
    reset();
  }

  void reset() {
    ages_.reset(oldest);
    for (std::uint32_t set = 0; set < layout_->sets(); ++set) {
      sets_[set] = {.oldest_ways = layout_->ways(set), .last_way = 0};
    }
  }

  void hit(std::uint32_t set, std::uint32_t slot) { access(set, slot, age_after_hit_[ages_[slot]]); }
  void fill(std::uint32_t set, std::uint32_t slot) { access(set, slot, age_after_fill_); }

  [[nodiscard]] std::uint32_t victim(std::uint32_t set) {
    if (on_miss_only_) {
      update(set);
    }
    if (highest_goes_) {
      return ages_.last_of(set, oldest).value_or(layout_->first_slot[set + 1] - 1);
    }
    return ages_.first_of(set, oldest).value_or(layout_->first_slot[set]);
  }

  void append_state(std::uint32_t set, std::vector<std::uint32_t>& state) const { ages_.append_state(set, state); }

 private:
  static constexpr std::uint8_t oldest = 3;
  static constexpr std::array<std::pair<int, int>, 5> hit_functions{{{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}};

  struct Variant {
    int hit_at_3 = 0;
    int hit_at_2 = 0;
    int fill = 0;
    int rule = 0;
    int update = 0;
    bool on_miss_only = false;
  };

  struct SetState {
    std::uint32_t oldest_ways = 0;  // how many
    std::uint32_t last_way = 0;     // accessed last
  };

  // Without a way of age 3 for certain, only R1 says what to do.
  [[nodiscard]] static constexpr int last_update(int rule) { return rule == 1 ? 3 : 1; }

  [[nodiscard]] static std::string to_text(const Variant& variant) {
    std::string text("H");
    text += std::to_string(variant.hit_at_3) + std::to_string(variant.hit_at_2);
    text.append("_M").append(std::to_string(variant.fill)).append("_R").append(std::to_string(variant.rule));
    text.append("_U").append(std::to_string(variant.update)).append(variant.on_miss_only ? "_UMO" : "");
    return text;
  }

  [[nodiscard]] static Variant variant_of(const Replacement& replacement) {
    const std::string& text = variant_name.of(replacement);
    const auto digit = [&text](std::size_t place) { return place < text.size() ? text[place] - '0' : 0; };
    const Variant variant{.hit_at_3 = digit(1),
                          .hit_at_2 = digit(2),
                          .fill = digit(5),
                          .rule = digit(8),
                          .update = digit(11),
                          .on_miss_only = text.ends_with("_UMO")};
    const std::pair hit_function{variant.hit_at_3, variant.hit_at_2};
    if (text != to_text(variant) ||
        std::find(hit_functions.begin(), hit_functions.end(), hit_function) == hit_functions.end() ||
        variant.fill > 3 || variant.rule > 2 || variant.update > last_update(variant.rule)) {
      throw LeafError(
          "variant",
          "`" + text +
              "` is not known; write H00, H10, H11, H20 or H21, then _M0 to _M3, then _R0 or _R2 with _U0 or "
              "_U1, or _R1 with _U0 to _U3, and at the end _UMO or nothing, as in H11_M1_R0_U0");
    }
    return variant;
  }

  Qlru(const SetLayout& layout, const Variant& variant)
      : layout_(&layout), ages_(layout, oldest),
        sets_(layout.sets()), age_after_hit_{0, 0, static_cast<std::uint8_t>(variant.hit_at_2),
                                             static_cast<std::uint8_t>(variant.hit_at_3)},
        age_after_fill_(static_cast<std::uint8_t>(variant.fill)), highest_goes_(variant.rule == 2),
        oldest_becomes_3_(variant.update < 2), spares_last_(variant.update % 2 == 1 && !variant.on_miss_only),
        on_miss_only_(variant.on_miss_only) {}

  void access(std::uint32_t set, std::uint32_t slot, std::uint8_t age) {
    SetState& state = sets_[set];
    state.oldest_ways += age == oldest ? 1U : 0U;
    state.oldest_ways -= ages_[slot] == oldest ? 1U : 0U;
    state.last_way = slot - layout_->first_slot[set];
    ages_[slot] = age;
    if (!on_miss_only_) {
      update(set);
    }
  }

  void update(std::uint32_t set) {
    SetState& state = sets_[set];
    if (state.oldest_ways > 0) {
      return;
    }
    std::uint8_t& last = ages_[layout_->first_slot[set] + state.last_way];
    const std::uint8_t age_of_last = last;
    ages_.add(set, static_cast<std::uint8_t>(oldest_becomes_3_ ? oldest - ages_.largest(set) : 1));
    if (spares_last_) {
      last = age_of_last;
    }
    state.oldest_ways = ages_.count(set, oldest);
  }

  const SetLayout* layout_;
  SlotAges ages_;
  std::vector<SetState> sets_;
  std::array<std::uint8_t, 4> age_after_hit_;  // by age
  std::uint8_t age_after_fill_;
  bool highest_goes_;
  bool oldest_becomes_3_;
  bool spares_last_;
  bool on_miss_only_;
};

}  // namespace gpuinfer::model
