// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/index_space.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <variant>

#include "model/policy_traits.hpp"

namespace gpuinfer::infer {

namespace {

using Lines = std::vector<std::uint64_t>;
using Supposed = SetSimulation::Supposed;

// Two of the lines that miss most often, and one that misses as often as half of the others: their sets overflow.
Lines lines_to_ask_about(const SetSimulation& simulation) {
  std::vector<std::pair<std::size_t, std::uint64_t>> by_misses;
  for (const std::uint64_t line : simulation.lines()) {
    by_misses.emplace_back(simulation.counts({&line, 1}).misses, line);
  }
  std::stable_sort(by_misses.begin(), by_misses.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Lines lines;
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}, by_misses.size() / 2}) {
    if (place < by_misses.size() && by_misses[place].first > 0) {
      lines.push_back(by_misses[place].second);
    }
  }
  return lines;
}

// What the set of one line, as a function has it, is compared with.
class FunctionScore {
 public:
  FunctionScore(const SetSimulation& simulation, const IndexSpace& space)
      : simulation_(&simulation), space_(&space), asked_(lines_to_ask_about(simulation)) {}

  // How many sets a function is asked about, and with which policies.
  enum class Effort { one_set, all_sets };

  // Of the accesses that are looked at, those that the best of the hypotheses gets wrong, and in `variant` how many
  // accesses there are.
  [[nodiscard]] Scored score(std::size_t number, Effort effort) const {
    const model::IndexFunction index = space_->function(number);
    std::vector<Lines> members(effort == Effort::one_set ? std::min<std::size_t>(1, asked_.size()) : asked_.size());
    std::visit(
        [&](const auto& kind) {
          std::vector<std::uint32_t> sets;
          for (std::size_t i = 0; i < members.size(); ++i) {
            sets.push_back(kind.set_of(model::Address{asked_[i]}));
          }
          for (const std::uint64_t line : simulation_->lines()) {
            const std::uint32_t set = kind.set_of(model::Address{line});
            for (std::size_t i = 0; i < sets.size(); ++i) {
              if (sets[i] == set) {
                members[i].push_back(line);
              }
            }
          }
        },
        index);
    Scored sum;
    for (const Lines& of_set : members) {
      const Scored scored = of_members(of_set, effort);
      sum.wrong += scored.wrong;
      sum.variant += scored.variant;
    }
    return sum;
  }

  // For each function.
  [[nodiscard]] static std::size_t hypotheses(Effort effort) { return ways_tried * policies(4, effort).size(); }

 private:
  static constexpr std::uint32_t ways_tried = 3;

  // Most policies are near one of two.
  [[nodiscard]] static std::vector<model::Replacement> policies(std::uint32_t ways, Effort effort) {
    if (effort == Effort::all_sets) {
      return model::plain_policies({ways});
    }
    return model::typical_policies();
  }

  [[nodiscard]] Scored of_members(const Lines& members, Effort effort) const {
    // A line alone in its set is no evidence: it is predicted by whatever it does.
    constexpr std::size_t first_accesses = 1500;
    const SetSimulation::Counts counts = simulation_->counts_of_first(first_accesses, members);
    if (members.size() < 2 || counts.judged == 0) {
      return {.wrong = counts.judged, .variant = counts.judged};
    }
    // Loads drawn evenly and independently hit in as many cases as the set holds of its lines.
    const double share_of_hits =
        static_cast<double>(counts.judged - counts.misses) / static_cast<double>(counts.judged);
    const auto likely = static_cast<std::uint32_t>(std::lround(share_of_hits * static_cast<double>(members.size())));
    std::vector<Supposed> supposed;
    for (std::uint32_t ways = std::max(1U, likely) - (likely > 1 ? 1 : 0), tried = 0; tried < ways_tried;
         ++ways, ++tried) {
      for (model::Replacement& policy : policies(ways, effort)) {
        supposed.push_back({.ways = ways, .policy = std::move(policy)});
      }
    }
    const std::vector<std::size_t> wrong = simulation_->wrong_of_first(first_accesses, members, supposed);
    return {.wrong = std::min(*std::min_element(wrong.begin(), wrong.end()), counts.judged), .variant = counts.judged};
  }

  const SetSimulation* simulation_;
  const IndexSpace* space_;
  Lines asked_;
};

struct Ranked {
  double share_wrong = 1;
  std::size_t function = 0;
};

void keep_best(std::vector<Ranked>& ranking, std::size_t most) {
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const Ranked& a, const Ranked& b) { return a.share_wrong < b.share_wrong; });
  ranking.resize(std::min(ranking.size(), most));
}

LineSplit split_by(const model::IndexFunction& index, const Lines& lines) {
  LineSplit split{.lines = lines, .set_of = {}, .support = 0};
  std::unordered_map<std::uint32_t, std::uint32_t> number_of;
  for (const std::uint64_t line : lines) {
    split.set_of.push_back(
        number_of.emplace(model::set_of(index, model::Address{line}), static_cast<std::uint32_t>(number_of.size()))
            .first->second);
  }
  return split;
}

}  // namespace

IndexSpace::IndexSpace(unsigned line_bit, unsigned end_bit)
    : line_bytes_(std::uint64_t{1} << line_bit), end_bit_(end_bit) {
  const auto add = [this](unsigned bits, unsigned first, unsigned second, unsigned third) {
    fields_.push_back({.bits = static_cast<std::uint8_t>(bits),
                       .first = static_cast<std::uint8_t>(first),
                       .second = static_cast<std::uint8_t>(second),
                       .third = static_cast<std::uint8_t>(third)});
  };
  add(0, 0, 0, 0);
  for (unsigned bits = 1; bits <= most_set_bits; ++bits) {
    for (unsigned first = line_bit; first + bits <= end_bit; ++first) {
      add(bits, first, 0, 0);
      for (unsigned second = first + bits; second < end_bit; ++second) {
        add(bits, first, second, 0);
        for (unsigned third = second + bits; third < end_bit; ++third) {
          add(bits, first, second, third);
        }
      }
    }
  }
}

model::IndexFunction IndexSpace::function(std::size_t number) const {
  if (number >= fields_.size()) {
    const std::size_t place = number - fields_.size();
    return model::ModuloIndex{.granule_bytes = line_bytes_ << (place / moduli),
                              .sets_count = static_cast<std::uint32_t>(2 + place % moduli)};
  }
  const Fields& fields = fields_[number];
  if (fields.second == 0) {
    model::BitsIndex index;
    for (unsigned bit = 0; bit < fields.bits; ++bit) {
      index.bits.push_back(fields.first + bit);
    }
    return index;
  }
  model::XorIndex index;
  for (unsigned bit = 0; bit < fields.bits; ++bit) {
    std::uint64_t& row_mask = index.row_masks.emplace_back();
    for (const unsigned begin : {fields.first, fields.second, fields.third}) {
      if (begin != 0 && begin + bit < end_bit_) {
        row_mask |= std::uint64_t{1} << (begin + bit);
      }
    }
  }
  return index;
}

IndexGuess guess_splits_by_index(const SetSimulation& simulation, std::size_t most, const Scorer& scorer,
                                 const std::function<bool()>& stop) {
  const Lines& lines = simulation.lines();
  const std::uint64_t differing = lines.front() ^ lines.back();
  const IndexSpace space(static_cast<unsigned>(std::countr_zero(simulation.line_bytes())),
                         static_cast<unsigned>(std::bit_width(differing)));
  const FunctionScore functions(simulation, space);
  using Effort = FunctionScore::Effort;
  IndexGuess guess;
  const auto ranked = [&](const std::vector<std::size_t>& asked, Effort effort) {
    std::vector<Ranked> ranking;
    const std::vector<Scored> scored =
        scorer(asked.size(), [&](std::size_t i) { return functions.score(asked[i], effort); });
    for (std::size_t i = 0; i < scored.size(); ++i) {
      const auto judged = static_cast<double>(std::max<std::uint64_t>(1, scored[i].variant));
      ranking.push_back({.share_wrong = static_cast<double>(scored[i].wrong) / judged, .function = asked[i]});
    }
    guess.hypotheses += asked.size() * FunctionScore::hypotheses(effort);
    return ranking;
  };
  // Some at a time, so that those that are out of the question are forgotten.
  constexpr std::size_t at_once = 1024;
  constexpr std::size_t kept_of_these = 64;
  std::vector<Ranked> best;
  for (std::size_t first = 0; first < space.size() && !stop(); first += at_once) {
    std::vector<std::size_t> asked(std::min(at_once, space.size() - first));
    std::iota(asked.begin(), asked.end(), first);
    std::vector<Ranked> these = ranked(asked, Effort::one_set);
    keep_best(these, kept_of_these);
    asked.clear();
    for (const Ranked& each : these) {
      asked.push_back(each.function);
    }
    const std::vector<Ranked> again = ranked(asked, Effort::all_sets);
    best.insert(best.end(), again.begin(), again.end());
    // Several may make the same sets.
    keep_best(best, 4 * most);
  }
  for (const Ranked& each : best) {
    LineSplit split = split_by(space.function(each.function), lines);
    const bool is_new = std::none_of(guess.splits.begin(), guess.splits.end(),
                                     [&](const LineSplit& other) { return other.set_of == split.set_of; });
    if (is_new && guess.splits.size() < most) {
      guess.splits.push_back(std::move(split));
    }
  }
  return guess;
}

}  // namespace gpuinfer::infer
