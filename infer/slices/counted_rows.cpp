// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/counted_rows.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/slices/lattice.hpp"

namespace gpuinfer::infer {

namespace {

// Which of the rows differ from those of the first line of a block, or from those of another slice.
using Rows = std::uint32_t;

// The line of a block where these rows differ from its first line, with each digit odd or each even.
std::uint64_t place_of(const SliceStructure& structure, Rows rows, bool digits_are_odd) {
  const std::uint64_t place = sum_of(structure.row_steps, rows);
  const std::uint64_t all = digits_are_odd ? (std::uint64_t{1} << structure.digit_masks.size()) - 1 : 0;
  return place ^ sum_of(structure.digit_steps, masked_parities(place, structure.digit_masks) ^ all);
}

class CountedRows {
 public:
  CountedRows(const SliceStructure& structure, const BlockConstants& constants, const LabelledBlock& block,
              std::span<const std::vector<LabelledLine>> seen)
      : plain_(&structure), constants_(constants), block_(&block), seen_(seen),
        rows_(Rows{1} << structure.row_masks.size()) {}

  // Which way the number counts where rows differ is not known, nor is which row is its lowest digit.
  std::optional<NamedSlices> find() {
    const Rows senses = plain_->modulo > 1 ? rows_ : 1;
    for (Rows sense = 0; sense < senses; ++sense) {
      sensed_ = with_rows(*plain_, sense);
      name_lines(sense);
      const EchelonBasis parities = parities_of_all_blocks();
      for (Rows lowest = 1; lowest < rows_; ++lowest) {
        if (parities.remainder(lowest) == 0 && count_beside(parities, lowest)) {
          return found_;
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct Name {
    Rows rows = 0;
    std::uint32_t number = 0;
  };
  // What a difference leads a slice to.
  struct Step {
    Rows rows = 0;
    std::uint32_t further = 0;  // by number

    bool operator==(const Step&) const = default;
  };
  // By the rows of a slice, where its difference leads that of the labelled block does not.
  using OtherSteps = std::map<Rows, Step>;
  struct Digit {
    Rows step = 0;
    OtherSteps others;
  };

  // Of each block by rows, with all digits even.
  void name_lines(Rows sense) {
    const NamedSlices slices = named(sensed_, constants_, *block_);
    names_.clear();
    for (const std::vector<LabelledLine>& lines : seen_) {
      std::vector<Name>& names = names_.emplace_back();
      for (Rows rows = 0; rows < rows_; ++rows) {
        const std::uint64_t place = place_of(*plain_, rows, parity(rows & sense) != 0);
        const std::uint32_t slice = slices.slice_of_label[std::ranges::find(lines, place, &LabelledLine::place)->label];
        names.push_back({.rows = slice & (rows_ - 1), .number = slice / rows_});
      }
    }
  }

  // Sums of rows that each block flips in all slices or in none.
  [[nodiscard]] EchelonBasis parities_of_all_blocks() const {
    EchelonBasis parities;
    for (Rows sum = 1; sum < rows_; ++sum) {
      const bool holds = std::ranges::all_of(names_, [&](const std::vector<Name>& names) {
        const std::uint32_t flips = parity(names.front().rows & sum);
        for (Rows rows = 0; rows < rows_; ++rows) {
          if ((parity(names[rows].rows & sum) ^ parity(rows & sum)) != flips) {
            return false;
          }
        }
        return true;
      });
      if (holds) {
        parities.add(sum);
      }
    }
    return parities;
  }

  // None where it leads a slice to more than two others.
  [[nodiscard]] std::optional<OtherSteps> other_steps(Rows difference) const {
    OtherSteps others;
    for (const std::vector<Name>& names : names_) {
      for (Rows rows = 0; rows < rows_; ++rows) {
        const Name& from = names[rows];
        const Name& to = names[rows ^ difference];
        const Step step{.rows = to.rows, .further = (to.number + plain_->modulo - from.number) % plain_->modulo};
        if (step != Step{.rows = from.rows ^ difference} && others.emplace(from.rows, step).first->second != step) {
          return std::nullopt;
        }
      }
    }
    return others;
  }

  // With a number of which the lowest digit is that sum of rows, beside the other parities.
  bool count_beside(const EchelonBasis& parities, Rows lowest) {
    EchelonBasis with_lowest;
    with_lowest.add(lowest);
    std::vector<std::uint64_t> beside;
    for (const std::uint64_t sum : parities.rows()) {
      if (with_lowest.add(sum)) {
        beside.push_back(sum);
      }
    }
    EchelonBasis row_steps;
    row_steps_.clear();
    std::vector<Digit> candidates;
    for (Rows difference = 1; difference < rows_; ++difference) {
      const std::uint64_t flipped = masked_parities(difference, beside);
      auto others = other_steps(difference);
      if (others && flipped == 0) {
        candidates.push_back({.step = difference, .others = *std::move(others)});
      } else if (others && others->empty() && row_steps_.size() < beside.size() && row_steps.add(flipped)) {
        row_steps_.push_back(difference);
      }
    }
    // Where half of the numbers is a weight, it makes two of each other digit. More are seen where blocks tell little.
    const bool tells = candidates.size() <= 2 * (plain_->row_masks.size() - beside.size());
    std::vector<Digit> digits;
    return tells && row_steps_.size() == beside.size() && choose_digits(candidates, digits);
  }

  // As many as there are rows beside those that are none, until a choice explains all lines.
  bool choose_digits(std::span<const Digit> candidates, std::vector<Digit>& digits) {
    if (digits.size() + row_steps_.size() == plain_->row_masks.size()) {
      return are_counted(digits);
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      digits.push_back(candidates[i]);
      if (choose_digits(candidates.subspan(i + 1), digits)) {
        return true;
      }
      digits.pop_back();
    }
    return false;
  }

  bool are_counted(const std::vector<Digit>& digits) {
    EchelonBasis independent;
    std::vector<std::uint64_t> steps;
    for (const Digit& digit : digits) {
      steps.push_back(digit.step);
    }
    steps.insert(steps.end(), row_steps_.begin(), row_steps_.end());
    if (!std::ranges::all_of(steps, [&](std::uint64_t step) { return independent.add(step); })) {
      return false;
    }
    const std::vector<std::uint64_t> masks = dual_basis(steps);
    const auto weights = weights_of(digits, masks);
    if (!weights) {
      return false;
    }
    NamedSlices slices = named(structure_of(steps, masks, *weights), counted_constants(digits.size()), *block_);
    if (std::ranges::all_of(seen_, [&](const auto& lines) { return explains(slices, lines); })) {
      found_ = std::move(slices);
    }
    return found_.has_value();
  }

  // Of each digit, and of what was the number.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> weights_of(const std::vector<Digit>& digits,
                                                                     const std::vector<std::uint64_t>& masks) const {
    const std::size_t count = digits.size();
    // Beside these weights the last place is for one of which all are multiples.
    Lattice relations(count + 2);
    Lattice::Vector vector(count + 2);
    vector[count] = plain_->modulo;
    relations.add(vector);
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& [rows, step] : digits[i].others) {
        for (std::size_t j = 0; j < count; ++j) {
          vector[j] = std::int64_t{parity(step.rows & masks[j])} - parity(rows & masks[j]);
        }
        vector[count] = step.further;
        // The labelled block adds the weight where the digit is even, so another block takes it away.
        vector[i] += parity(rows & masks[i]) == 0 ? 1 : -1;
        relations.add(vector);
      }
    }
    for (std::size_t odd = 0; odd < count; ++odd) {
      for (std::uint32_t times = 0; times < plain_->modulo; ++times) {
        Lattice lattice = relations;
        std::ranges::fill(vector, 0);
        vector[odd] = 1;
        vector[count] = times;
        vector.back() = -1;
        lattice.add(vector);
        if (lattice.determinant() != std::int64_t{plain_->modulo} << count) {
          return std::nullopt;
        }
        if (auto weights = lattice.weights()) {
          weights->pop_back();
          return weights;
        }
      }
    }
    return std::nullopt;
  }

  // Counted rows are the first digits.
  [[nodiscard]] SliceStructure structure_of(const std::vector<std::uint64_t>& steps,
                                            const std::vector<std::uint64_t>& masks,
                                            const std::vector<std::uint32_t>& weights) const {
    const std::size_t count = weights.size() - 1;
    SliceStructure structure;
    structure.modulo = plain_->modulo << count;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::uint64_t mask = sum_of(plain_->row_masks, masks[i]);
      const std::uint64_t step = place_of(sensed_, static_cast<Rows>(steps[i]), false);
      (i < count ? structure.digit_masks : structure.row_masks).push_back(mask);
      (i < count ? structure.digit_steps : structure.row_steps).push_back(step);
    }
    structure.weights.assign(weights.begin(), weights.end() - 1);
    for (std::size_t i = 0; i < sensed_.weights.size(); ++i) {
      structure.weights.push_back(
          static_cast<std::uint32_t>(std::uint64_t{sensed_.weights[i]} * weights.back() % structure.modulo));
      structure.digit_masks.push_back(sensed_.digit_masks[i]);
      structure.digit_steps.push_back(sensed_.digit_steps[i]);
    }
    structure.weights = with_doublings(std::move(structure.weights), structure.modulo);
    return structure;
  }

  [[nodiscard]] BlockConstants counted_constants(std::size_t count) const {
    return {.digit_flips = constants_.digit_flips << count};
  }

  const SliceStructure* plain_;
  BlockConstants constants_;
  const LabelledBlock* block_;
  std::span<const std::vector<LabelledLine>> seen_;
  Rows rows_;
  SliceStructure sensed_;
  std::vector<std::vector<Name>> names_;
  std::vector<Rows> row_steps_;
  std::optional<NamedSlices> found_;
};

}  // namespace

std::vector<std::uint64_t> places_that_tell_carries(const SliceStructure& structure) {
  std::vector<std::uint64_t> places;
  for (Rows rows = 0; rows < Rows{1} << structure.row_masks.size(); ++rows) {
    places.push_back(place_of(structure, rows, false));
    if (!structure.digit_masks.empty()) {
      places.push_back(place_of(structure, rows, true));
    }
  }
  return places;
}

std::optional<NamedSlices> count_rows(const SliceStructure& structure, const BlockConstants& constants,
                                      const LabelledBlock& block, std::span<const std::vector<LabelledLine>> seen) {
  return CountedRows(structure, constants, block, seen).find();
}

}  // namespace gpuinfer::infer
