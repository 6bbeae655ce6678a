// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/gf2.hpp"
#include "model/answerer.hpp"
#include "model/random.hpp"

// Devices whose outer cache has slices, by a simulator that shares nothing with the product's.
namespace gpuinfer::infer::foreign {

// How many random ones to ask, and from which seed on.
inline std::size_t number_from(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

struct SliceNoise {
  double jitter = 0;    // deviation, as a share of what a pair takes apart
  double outliers = 0;  // share of pairs that take twice as long as together
  double mirrored = 0;  // what pairs of which only the first row differs take longer, as a share of what a slice adds
};

class SlicedDevice final : public model::Answerer {
 public:
  using SliceOf = std::function<std::uint32_t(std::uint64_t)>;  // by address

  static constexpr double apart_cycles = 2700;
  static constexpr double together_cycles = 5300;
  static constexpr std::uint64_t buffer_address = (5ULL << 30U) + (3ULL << 19U);

  SlicedDevice(SliceOf slice_of, std::uint64_t seed, SliceNoise noise = {}, std::uint64_t buffer_bytes = 256ULL << 20U)
      : slice_of_(std::move(slice_of)), random_(seed), noise_(noise) {
    facts_.name = facts_.source = "sliced";
    facts_.targets = facts_.contended_targets = {"L2"};
    facts_.buffer = {.bytes = buffer_bytes, .address = model::Address{buffer_address}};
  }

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::size_t pairs_asked() const { return pairs_asked_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      model::Answer answer{.latency_cycles = {}, .refusal = model::refusal_of(facts_, question)};
      for (std::size_t i = 0; !answer.refusal && i < question.record.size(); i += 2) {
        answer.latency_cycles.insert(answer.latency_cycles.end(), 2,
                                     static_cast<float>(cycles_of(question.record[i], question.record[i + 1])));
        ++pairs_asked_;
      }
      answers.push_back(std::move(answer));
    }
    return answers;
  }

 private:
  double cycles_of(std::uint64_t one, std::uint64_t other) {
    const std::uint32_t a = slice_of_(number_of(facts_.buffer.address + one));
    const std::uint32_t b = slice_of_(number_of(facts_.buffer.address + other));
    double cycles = apart_cycles;
    if (a == b) {
      cycles = together_cycles;
    } else if ((a ^ b) == 1) {
      cycles += noise_.mirrored * (together_cycles - apart_cycles);
    }
    cycles += noise_.jitter * apart_cycles * random_.normal();
    return random_.unit() < noise_.outliers ? 2 * together_cycles : cycles;
  }

  SliceOf slice_of_;
  model::Random random_;
  SliceNoise noise_;
  model::DeviceFacts facts_;
  std::size_t pairs_asked_ = 0;
};

// Slices by parities of address bits and a weighted sum of such parities modulo a number, to which the address above
// 2 MB adds as it is.
struct HiddenSlices {
  std::vector<std::uint64_t> rows;
  std::uint32_t modulo = 1;
  std::vector<std::uint64_t> digits;
  std::vector<std::uint32_t> weights;
  std::uint32_t weight_of_block = 0;

  [[nodiscard]] std::uint32_t operator()(std::uint64_t address) const {
    const auto is_odd = [address](std::uint64_t mask) {
      unsigned ones = 0;
      for (unsigned bit = 0; bit < 64; ++bit) {
        ones += static_cast<unsigned>((address & mask) >> bit & 1U);
      }
      return ones % 2;
    };
    std::uint64_t number = (address >> 21U) * weight_of_block;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      number += is_odd(digits[i]) * std::uint64_t{weights[i]};
    }
    auto slice = static_cast<std::uint32_t>(number % modulo);
    for (std::size_t i = rows.size(); i-- > 0;) {
      slice = 2 * slice + is_odd(rows[i]);
    }
    return slice;
  }
  [[nodiscard]] std::uint32_t count() const { return modulo << rows.size(); }
};

// Address bits from one between 7 and 10 on, in masks that do not depend on one another; as many digits as are left
// beside the rows, or one or two fewer; digits of a quotient mostly, else with any weights. Up to 128 slices, of an odd
// number or of any.
inline HiddenSlices any_slices(std::uint64_t seed) {
  model::Random random(seed);
  const unsigned lowest = 7 + static_cast<unsigned>(random.below(4));
  const unsigned bits = 21 - lowest;
  HiddenSlices slices;
  const auto rows = static_cast<unsigned>(random.below(5));
  const std::uint32_t most = 128U >> rows;
  slices.modulo = random.below(4) == 0 ? 2 + static_cast<std::uint32_t>(random.below(most - 1))
                                       : 3 + 2 * static_cast<std::uint32_t>(random.below((most - 1) / 2));
  slices.modulo = std::min(slices.modulo, 127U);
  const bool is_quotient = random.below(3) != 0;
  const unsigned digits = bits - rows - static_cast<unsigned>(random.below(3));
  EchelonBasis independent;
  std::vector<std::uint64_t> masks;
  while (masks.size() < rows + digits) {
    const std::uint64_t inside = random.below(std::uint64_t{1} << bits) << lowest;
    if (independent.add(inside)) {
      masks.push_back(inside | random.below(std::uint64_t{1} << 12U) << 21U);
    }
  }
  slices.rows.assign(masks.begin(), masks.begin() + rows);
  slices.digits.assign(masks.begin() + rows, masks.end());
  for (unsigned i = 0; i < digits; ++i) {
    slices.weights.push_back(is_quotient ? static_cast<std::uint32_t>((std::uint64_t{1} << i) % slices.modulo)
                                         : 1 + static_cast<std::uint32_t>(random.below(slices.modulo - 1)));
  }
  slices.weight_of_block = static_cast<std::uint32_t>(random.below(slices.modulo));
  return slices;
}

inline SliceNoise any_noise(std::uint64_t seed) {
  model::Random random(~seed);
  return {.jitter = 0.06 * random.unit(),
          .outliers = random.below(2) == 0 ? 0 : 0.01 * random.unit(),
          .mirrored = random.below(2) == 0 ? 0 : 0.4 * random.unit()};
}

}  // namespace gpuinfer::infer::foreign
