// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/slices/slice_structure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/slices/lattice.hpp"

namespace gpuinfer::infer {

namespace {

using Place = std::uint32_t;  // of a line in its block: a vector over GF(2)

// The number of digits whose weights are 1, 2, 4, ... times `factor`, up to signs: a quotient of the address has such.
std::size_t doublings(const std::vector<std::uint32_t>& weights, std::uint64_t factor, std::uint64_t modulo) {
  std::vector<std::uint64_t> left;
  for (const std::uint32_t weight : weights) {
    left.push_back(weight * factor % modulo);
  }
  std::uint64_t power = 1;
  std::size_t count = 0;
  while (true) {
    const auto found =
        std::ranges::find_if(left, [&](std::uint64_t weight) { return weight == power || weight == modulo - power; });
    if (found == left.end()) {
      return count;
    }
    left.erase(found);
    power = power * 2 % modulo;
    ++count;
  }
}

class StructureSearch {
 public:
  explicit StructureSearch(const LabelledLines& lines)
      : lines_(&lines), all_(lines.bits.size()), places_(Place{1} << lines.bits.size()) {
    for (Place place = 0; place < places_; ++place) {
      if (const auto label = lines.labels[place]) {
        members_[*label].push_back(place);
      }
    }
  }

  FoundStructure find() {
    count_shared();
    find_rows();
    FoundStructure found = beside_all_parities();
    if (found.structure || !knows_all_labels()) {
      return found;
    }
    const std::vector<std::uint64_t> parities = rows_;
    for (std::uint64_t lowest = 1; lowest < std::uint64_t{1} << parities.size(); ++lowest) {
      leave_out(parities, lowest);
      if (FoundStructure other = beside_other_parities(); other.structure) {
        return other;
      }
    }
    return found;
  }

 private:
  // For each difference: how many lines share a slice with the one that is so far away.
  void count_shared() {
    shared_.assign(places_, 0);
    for (const auto& [label, members] : members_) {
      for (const Place a : members) {
        for (const Place b : members) {
          ++shared_[a ^ b];
        }
      }
    }
  }

  void find_rows() {
    for (Place d = 1; d < places_; ++d) {
      if (shared_[d] != 0 && is_unseen(d)) {
        unseen_.add(d);
      }
      if (shared_[d] != 0) {
        kernel_.add(d);
      }
    }
    rows_ = kernel_.orthogonal_complement(every_bit());
  }

  FoundStructure beside_all_parities() {
    if (!find_candidates()) {
      return {.reason = reason_};
    }
    FoundStructure found;
    std::vector<Place> digits;
    choose_digits(0, digits, found);
    return found;
  }

  // Rows are all parities but the sum of those that `lowest` has bits of.
  void leave_out(const std::vector<std::uint64_t>& parities, std::uint64_t lowest) {
    EchelonBasis with_lowest;
    with_lowest.add(sum_of(parities, lowest));
    EchelonBasis rows;
    for (const std::uint64_t parity : parities) {
      if (with_lowest.add(parity)) {
        rows.add(parity);
      }
    }
    rows_ = rows.rows();
    kernel_ = {};
    for (const std::uint64_t difference : rows.orthogonal_complement(every_bit())) {
      kernel_.add(difference);
    }
  }

  [[nodiscard]] std::vector<unsigned> every_bit() const {
    std::vector<unsigned> every(all_);
    std::iota(every.begin(), every.end(), 0U);
    return every;
  }

  // A number modulo an even number has a parity, and digits that flip it. One of these may lead through all slices of
  // some rows. Where another digit differs it leads on in the same direction, but back where all others do: so it tells
  // which differences toggle one digit and which toggle all others.
  FoundStructure beside_other_parities() {
    constexpr int most_tried = 8;
    // A digit that adds half of the number makes two of each other digit, so it is chosen before these.
    std::vector<Place> halves;
    std::vector<Place> others;
    for (const Place d : differences()) {
      const std::size_t led_to = shared_[d] == 0 ? most_led_to(d) : 0;
      if (led_to == 1) {
        halves.push_back(d);
      } else if (led_to == 2) {
        others.push_back(d);
      }
    }
    int tried = 0;
    for (std::size_t i = 0; i < others.size() && tried < most_tried; ++i) {
      std::rotate(others.begin(), others.begin() + 1, others.end());
      if (directions_along(others.front()).empty()) {
        continue;
      }
      ++tried;
      std::vector<Place> candidates{others.front()};
      candidates.insert(candidates.end(), halves.begin(), halves.end());
      candidates.insert(candidates.end(), others.begin(), others.end());
      const std::vector<Place> digits = keeping_directions(candidates);
      if (digits.size() == digit_count()) {
        return structure_with(digits);
      }
    }
    return {};
  }

  // One after the other, those that keep the directions of the ones before, which keep theirs.
  [[nodiscard]] std::vector<Place> keeping_directions(const std::vector<Place>& candidates) const {
    EchelonBasis independent = unseen_;
    std::vector<Place> kept;
    std::vector<Directions> directions;
    for (const Place d : candidates) {
      if (independent.remainder(d) == 0 ||
          !std::ranges::all_of(directions, [&](const Directions& along) { return keeps(along, d); })) {
        continue;
      }
      Directions along = directions_along(d);
      if (std::ranges::all_of(kept, [&](Place other) { return keeps(along, other); })) {
        independent.add(d);
        kept.push_back(d);
        directions.push_back(std::move(along));
      }
    }
    return kept;
  }

  // By place, whether a difference leads a line on (1) or back (-1) in the order in which it leads through slices.
  using Directions = std::vector<std::int8_t>;

  // None where it does not lead through all slices of some rows.
  [[nodiscard]] Directions directions_along(Place d) const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> led_to;
    for (const auto& [label, members] : members_) {
      std::vector<std::uint32_t>& others = led_to[label];
      for (const Place place : members) {
        const std::uint32_t other = lines_->labels[place ^ d].value();
        if (std::ranges::find(others, other) == others.end()) {
          others.push_back(other);
        }
      }
      if (others.size() != 2) {
        return {};
      }
    }
    const std::size_t length = members_.size() >> rows_.size();
    std::map<std::uint32_t, std::size_t> position;
    for (const auto& [label, members] : members_) {
      std::uint32_t before = led_to[label].back();
      std::uint32_t at = label;
      std::size_t steps = 0;
      for (; position.emplace(at, steps).second; ++steps) {
        const std::vector<std::uint32_t>& others = led_to[at];
        before = std::exchange(at, others.front() == before ? others.back() : others.front());
      }
      if (steps != 0 && steps != length) {
        return {};
      }
    }
    Directions directions(places_);
    for (Place place = 0; place < places_; ++place) {
      const std::size_t from = position[lines_->labels[place].value()];
      const std::size_t to = position[lines_->labels[place ^ d].value()];
      directions[place] = (from + 1) % length == to ? 1 : -1;
    }
    return directions;
  }

  [[nodiscard]] bool keeps(const Directions& directions, Place d) const {
    for (Place place = 0; place < directions.size(); ++place) {
      if (directions[place] != directions[place ^ d]) {
        return false;
      }
    }
    return true;
  }

  // Lines that are so far apart always share a slice, and many are.
  [[nodiscard]] bool is_unseen(Place d) const {
    constexpr std::uint32_t one_in = 16;
    for (const auto& [label, members] : members_) {
      if (!std::ranges::all_of(members, [&, label = label](Place place) {
            return lines_->labels[place ^ d].value_or(label) == label;
          })) {
        return false;
      }
    }
    return shared_[d] >= places_ / one_in;
  }

  // In each slice, to how many others `d` leads, up to three.
  [[nodiscard]] std::size_t most_led_to(Place d) const {
    std::size_t most = 0;
    for (const auto& [label, members] : members_) {
      std::array<std::uint32_t, 2> seen{};
      std::size_t count = 0;
      for (const Place place : members) {
        const std::optional<std::uint32_t> other = lines_->labels[place ^ d];
        if (!other || std::find(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(count), *other) !=
                          seen.begin() + static_cast<std::ptrdiff_t>(count)) {
          continue;
        }
        if (count == seen.size()) {
          return count + 1;
        }
        seen[count] = *other;
        ++count;
      }
      most = std::max(most, count);
    }
    return most;
  }

  [[nodiscard]] std::size_t digit_count() const { return kernel_.rank() - unseen_.rank(); }

  // Where labels are missing, a wrong choice might reproduce the others.
  [[nodiscard]] bool knows_all_labels() const {
    return std::ranges::all_of(lines_->labels, [](const auto& label) { return label.has_value(); });
  }

  // Differences beside those that toggle one digit.
  [[nodiscard]] std::size_t most_more() const {
    constexpr std::size_t few = 2;
    return knows_all_labels() ? few : 0;
  }

  // Of lines with the same rows, one for all that differ by what is not seen.
  [[nodiscard]] std::vector<Place> differences() const {
    EchelonBasis more = unseen_;
    std::vector<Place> differences{0};
    for (const std::uint64_t row : kernel_.rows()) {
      if (more.add(row)) {
        const std::size_t count = differences.size();
        for (std::size_t i = 0; i < count; ++i) {
          differences.push_back(differences[i] ^ static_cast<Place>(row));
        }
      }
    }
    differences.erase(differences.begin());
    return differences;
  }

  // Differences that may toggle one digit. Each has a partner that toggles all others; few lines may not tell which is
  // which, or make others look so.
  bool find_candidates() {
    constexpr std::size_t most_doubtful = 8;
    std::vector<Place> candidates;
    std::optional<std::uint64_t> all_digits;
    for (const Place d : differences()) {
      const std::size_t led_to = most_led_to(d);
      if (led_to == 1) {
        all_digits = unseen_.remainder(d);
      } else if (led_to == 2 && shared_[d] == 0) {
        candidates.push_back(d);
      }
    }
    std::vector<std::vector<Place>> with_partners;
    for (const Place d : candidates) {
      const auto partner =
          std::ranges::find_if(candidates, [&](Place other) { return unseen_.remainder(d ^ other) == all_digits; });
      if (partner == candidates.end()) {
        alternatives_.push_back({d});
      } else if (d < *partner) {
        with_partners.push_back({d, *partner});
      }
    }
    alternatives_.insert(alternatives_.end(), with_partners.begin(), with_partners.end());
    if (alternatives_.size() < digit_count() || alternatives_.size() > digit_count() + most_more() ||
        with_partners.size() > most_doubtful) {
      reason_ = std::to_string(candidates.size()) +
                " differences of addresses may toggle one digit of a number, where " + std::to_string(digit_count()) +
                " digits are left beside the parities";
      return false;
    }
    return true;
  }

  // So many as there are digits, one of each that are alternatives, until a choice reproduces all labels; `digits` are
  // chosen of those before `next`.
  void choose_digits(std::size_t next, std::vector<Place>& digits, FoundStructure& found) {
    if (digits.size() == digit_count()) {
      found = structure_with(digits);
      return;
    }
    if (digits.size() + alternatives_.size() - next < digit_count()) {
      return;
    }
    for (const Place d : alternatives_[next]) {
      digits.push_back(d);
      choose_digits(next + 1, digits, found);
      digits.pop_back();
      if (found.structure) {
        return;
      }
    }
    choose_digits(next + 1, digits, found);
  }

  FoundStructure structure_with(const std::vector<Place>& digits) {
    EchelonBasis found = unseen_;
    if (!std::ranges::all_of(digits, [&](Place d) { return found.add(d); })) {
      return {.reason = "the differences of addresses that toggle one digit of a number depend on one another"};
    }
    digits_ = digits;
    find_masks();
    return digits_.empty() || (find_numbers() && find_signs()) ? reproduced() : FoundStructure{.reason = reason_};
  }

  // Each row has a bit of its own, which no other row and, by choice, no digit has.
  void find_masks() {
    std::vector<std::uint64_t> basis(digits_.begin(), digits_.end());
    row_steps_.clear();
    for (const std::uint64_t row : rows_) {
      row_steps_.push_back(Place{1} << static_cast<unsigned>(std::countr_zero(row)));
    }
    basis.insert(basis.end(), row_steps_.begin(), row_steps_.end());
    basis.insert(basis.end(), unseen_.rows().begin(), unseen_.rows().end());
    masks_ = dual_basis(std::move(basis));
    masks_.resize(digits_.size());
  }

  [[nodiscard]] std::uint32_t rows_at(Place place) const {
    return static_cast<std::uint32_t>(masked_parities(place, rows_));
  }

  // Between lines with these rows that share a slice: by how much each digit differs. One line of each slice with each
  // other one is enough.
  [[nodiscard]] std::vector<Lattice::Vector> relations(std::uint32_t rows) const {
    std::vector<Lattice::Vector> found;
    for (const auto& [label, members] : members_) {
      if (rows_at(members.front()) != rows) {
        continue;
      }
      for (const Place place : members) {
        Lattice::Vector vector;
        for (const std::uint64_t mask : masks_) {
          vector.push_back(std::int64_t{parity(place & mask)} - parity(members.front() & mask));
        }
        found.push_back(std::move(vector));
      }
    }
    return found;
  }

  // With each digit last in turn, as not every weight has all multiples.
  bool find_numbers() {
    const std::vector<Lattice::Vector> vectors = relations(0);
    for (std::size_t last = 0; last < digits_.size(); ++last) {
      Lattice lattice(digits_.size());
      for (Lattice::Vector vector : vectors) {
        std::swap(vector[last], vector.back());
        lattice.add(std::move(vector));
      }
      const auto modulo = lattice.determinant();
      if (!modulo) {
        reason_ = "too few lines share a slice to tell modulo what a number is taken";
        return false;
      }
      if (auto weights = lattice.weights()) {
        std::swap(weights->at(last), weights->back());
        modulo_ = static_cast<std::uint32_t>(*modulo);
        weights_ = with_doublings(*std::move(weights), modulo_);
        return true;
      }
    }
    reason_ = "slices are not numbered by one sum of digits modulo a number";
    return false;
  }

  // Where one row differs, some digits count the other way, which is as if they had that row in them. One digit may be
  // said to have none.
  bool find_signs() {
    std::vector<std::uint64_t> rows_of_digit(digits_.size(), 0);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::vector<Lattice::Vector> vectors = relations(std::uint32_t{1} << row);
      const auto holds = [&](std::uint32_t flips) {
        return std::ranges::all_of(vectors, [&](const Lattice::Vector& vector) {
          std::int64_t sum = 0;
          for (std::size_t i = 0; i < vector.size(); ++i) {
            sum += ((flips >> i) & 1U) != 0 ? -vector[i] * weights_[i] : vector[i] * weights_[i];
          }
          return sum % modulo_ == 0;
        });
      };
      std::uint32_t flips = 0;
      while (flips < std::uint32_t{1} << digits_.size() && !holds(flips)) {
        flips += 2;
      }
      if (flips >= std::uint32_t{1} << digits_.size()) {
        reason_ = "the digits of a number have other weights where parities differ";
        return false;
      }
      for (std::size_t i = 0; i < digits_.size(); ++i) {
        rows_of_digit[i] ^= ((flips >> i) & 1U) != 0 ? rows_[row] : 0;
      }
    }
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      masks_[i] ^= rows_of_digit[i];
    }
    return true;
  }

  // Smallest weights first, each as the smaller of itself and its negative, or as a power of two that it is: the digit
  // counts the other way then.
  void order_digits(SliceStructure& structure, BlockConstants& constants) const {
    std::vector<std::uint64_t> powers;
    for (std::uint64_t power = 1; power != 0 && powers.size() < digits_.size(); power = power * 2 % modulo_) {
      powers.push_back(power);
    }
    struct Digit {
      std::size_t place;
      std::uint32_t weight;
      std::uint64_t mask;
      std::uint64_t step;
      bool flips;
    };
    std::vector<Digit> digits;
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      const std::uint32_t weight = weights_[i];
      const std::uint32_t negative = modulo_ - weight;
      const auto as_is = std::ranges::find(powers, weight) - powers.begin();
      const auto other = std::ranges::find(powers, negative) - powers.begin();
      const bool flips = as_is == other ? negative < weight : other < as_is;
      digits.push_back(
          {static_cast<std::size_t>(std::min(as_is, other)), flips ? negative : weight, masks_[i], digits_[i], flips});
    }
    std::ranges::sort(digits, [](const Digit& a, const Digit& b) {
      return std::pair(a.place, a.weight) < std::pair(b.place, b.weight) ||
             (std::pair(a.place, a.weight) == std::pair(b.place, b.weight) && a.mask < b.mask);
    });
    for (const Digit& digit : digits) {
      constants.digit_flips |= (digit.flips ? 1U : 0U) << structure.weights.size();
      structure.weights.push_back(digit.weight);
      structure.digit_masks.push_back(address_bits(digit.mask));
      structure.digit_steps.push_back(address_bits(digit.step));
    }
  }

  [[nodiscard]] std::uint64_t address_bits(std::uint64_t place) const { return address_of(place, lines_->bits); }

  FoundStructure reproduced() const {
    FoundStructure found;
    SliceStructure structure;
    structure.modulo = modulo_;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      structure.row_masks.push_back(address_bits(rows_[i]));
      structure.row_steps.push_back(address_bits(row_steps_[i]));
    }
    order_digits(structure, found.constants);
    std::map<std::uint32_t, std::uint32_t> slice_of_label;
    std::map<std::uint32_t, std::uint32_t> label_of_slice;
    for (Place place = 0; place < places_; ++place) {
      const std::uint32_t slice = slice_of(structure, found.constants, address_bits(place));
      const std::optional<std::uint32_t> label = lines_->labels[place];
      if (label && (slice_of_label.emplace(*label, slice).first->second != slice ||
                    label_of_slice.emplace(slice, *label).first->second != *label)) {
        return {.reason = "parities and a number of digits do not tell all lines apart as they are"};
      }
    }
    found.structure = std::move(structure);
    return found;
  }

  const LabelledLines* lines_;
  std::size_t all_;
  Place places_;
  std::map<std::uint32_t, std::vector<Place>> members_;  // by label
  std::vector<std::uint32_t> shared_;                    // by difference
  EchelonBasis unseen_;                                  // differences of which no line takes notice
  EchelonBasis kernel_;                                  // of the rows
  std::vector<std::uint64_t> rows_;
  std::vector<std::vector<Place>> alternatives_;  // of each at most one toggles a digit
  std::vector<Place> digits_;                     // those that are chosen
  std::vector<std::uint64_t> row_steps_;
  std::vector<std::uint64_t> masks_;  // of the digits
  std::uint32_t modulo_ = 1;
  std::vector<std::uint32_t> weights_;
  std::string reason_;
};

}  // namespace

std::uint64_t address_of(std::uint64_t place, std::span<const unsigned> bits) {
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    address |= ((place >> i) & 1U) << bits[i];
  }
  return address;
}

std::uint64_t inverse_of(std::uint64_t number, std::uint64_t modulo) {
  std::uint64_t inverse = 1;
  while (inverse * number % modulo != 1 % modulo) {
    ++inverse;
  }
  return inverse;
}

std::vector<std::uint32_t> with_doublings(std::vector<std::uint32_t> weights, std::uint32_t modulo) {
  std::size_t most = 0;
  std::uint64_t best = 1;
  for (std::uint64_t factor = 1; factor < modulo; ++factor) {
    const std::size_t count = std::gcd(factor, std::uint64_t{modulo}) == 1 ? doublings(weights, factor, modulo) : 0;
    if (count > most) {
      most = count;
      best = factor;
    }
  }
  for (std::uint32_t& weight : weights) {
    weight = static_cast<std::uint32_t>(weight * best % modulo);
  }
  return weights;
}

BlockConstants constants_of(const SliceStructure& structure, std::uint32_t slice, std::uint32_t digit_flips) {
  const auto rows = structure.row_masks.size();
  std::uint64_t shift = slice >> rows;
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    shift += ((digit_flips >> i) & 1U) != 0 ? structure.modulo - structure.weights[i] : 0;
  }
  return {.row_flips = slice & ((1U << rows) - 1),
          .digit_flips = digit_flips,
          .shift = static_cast<std::uint32_t>(shift % structure.modulo)};
}

std::uint32_t slice_of(const SliceStructure& structure, const BlockConstants& constants, std::uint64_t address) {
  const std::uint32_t rows =
      constants.row_flips ^ static_cast<std::uint32_t>(masked_parities(address, structure.row_masks));
  std::uint64_t number = constants.shift;
  for (std::size_t i = 0; i < structure.weights.size(); ++i) {
    const std::uint32_t digit = (parity(address & structure.digit_masks[i]) ^ (constants.digit_flips >> i)) & 1U;
    number += std::uint64_t{digit} * structure.weights[i];
  }
  return static_cast<std::uint32_t>(number % structure.modulo << structure.row_masks.size()) | rows;
}

std::vector<std::uint64_t> parities_of_slices(const SliceStructure& structure) {
  std::vector<std::uint64_t> parities = structure.row_masks;
  if (structure.modulo % 2 == 0) {
    std::uint64_t lowest = 0;
    for (std::size_t i = 0; i < structure.weights.size(); ++i) {
      lowest ^= structure.weights[i] % 2 != 0 ? structure.digit_masks[i] : 0;
    }
    parities.push_back(lowest);
  }
  return parities;
}

FoundStructure find_structure(const LabelledLines& lines) { return StructureSearch(lines).find(); }

model::HashIndex index_of(const SliceStructure& structure, std::uint64_t block_bytes) {
  model::HashIndex index{.row_masks = structure.row_masks, .constant = 0, .terms = {}};
  if (structure.modulo > 1) {
    index.terms.push_back({.modulo = structure.modulo,
                           .shift = static_cast<std::uint32_t>(std::countr_zero(block_bytes)),
                           .weights = structure.weights,
                           .row_masks = structure.digit_masks});
  }
  return index;
}

}  // namespace gpuinfer::infer
