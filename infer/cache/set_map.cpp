// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/set_map.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/granularity.hpp"

namespace gpuinfer::infer {

// A table was found from aligned_start() on; a function holds for what comes before as well, and has to show it.
LinesOfSets::LinesOfSets(const Interrogator& device, const model::IndexFunction& index, std::uint64_t line_bytes)
    : device_(&device), index_(&index), line_bytes_(line_bytes),
      start_(std::holds_alternative<model::TableIndex>(index) ? aligned_start(device)
                                                              : bytes_to_next(device.buffer().address, line_bytes)),
      lines_((device.buffer().bytes - start_) / line_bytes) {
  if (const auto* table = std::get_if<model::TableIndex>(&index); table != nullptr && table->range_bytes) {
    lines_ = std::min(lines_,
                      (model::Address{table->origin} + *table->range_bytes - device.address_of(start_)) / line_bytes);
  }
}

// Deals out lines until no set wants another one.
class LinesOfSets::Dealer {
 public:
  Dealer(const LinesOfSets& lines, std::span<const std::uint32_t> wanted)
      : lines_(&lines), wanted_(wanted), missing_(std::accumulate(wanted.begin(), wanted.end(), std::uint64_t{0})),
        lines_of_set_(wanted.size()) {}

  [[nodiscard]] bool done() const { return missing_ == 0; }

  void offer(std::uint64_t line) {
    if (taken_.contains(line)) {
      return;
    }
    const std::uint64_t offset = lines_->start_ + line * lines_->line_bytes_;
    const std::uint32_t set = model::set_of(*lines_->index_, lines_->device_->address_of(offset));
    if (lines_of_set_[set].size() < wanted_[set]) {
      taken_.insert(line);
      lines_of_set_[set].push_back(offset);
      --missing_;
    }
  }

  [[nodiscard]] std::vector<Offsets> take() { return std::move(lines_of_set_); }

 private:
  const LinesOfSets* lines_;
  std::span<const std::uint32_t> wanted_;
  std::uint64_t missing_;
  std::vector<Offsets> lines_of_set_;
  std::unordered_set<std::uint64_t> taken_;  // few of the lines of a large buffer
};

std::vector<Offsets> LinesOfSets::draw(std::span<const std::uint32_t> wanted, model::Random& random) const {
  Dealer dealer(*this, wanted);
  const std::uint64_t total = std::accumulate(wanted.begin(), wanted.end(), std::uint64_t{0});
  const std::uint64_t near = std::min(lines_, std::max<std::uint64_t>(512, 4 * total));
  for (std::uint64_t i = 0; i < 8 * total && !dealer.done(); ++i) {
    dealer.offer(i % 2 == 0 ? random.below(near) : random.below(lines_));
  }
  // Chance leaves a few sets short; a walk in large steps that meets every line once serves them.
  std::uint64_t step = lines_ * 5 / 8 + 1;
  while (std::gcd(step, lines_) != 1) {
    ++step;
  }
  std::uint64_t line = random.below(lines_);
  for (std::uint64_t i = 0; i < lines_ && !dealer.done(); ++i, line = (line + step) % lines_) {
    dealer.offer(line);
  }
  return dealer.take();
}

std::vector<Offsets> LinesOfSets::draw_strided(std::span<const std::uint32_t> wanted, unsigned stride_exponent,
                                               model::Random& random) const {
  Dealer dealer(*this, wanted);
  const std::uint64_t total = std::accumulate(wanted.begin(), wanted.end(), std::uint64_t{0});
  const std::uint64_t places = lines_ >> stride_exponent;
  const std::uint64_t offered = std::min(places, std::max<std::uint64_t>(512, 8 * total));
  const std::uint64_t first = places > offered ? random.below(places - offered) : 0;
  for (std::uint64_t i = 0; i < offered && !dealer.done(); ++i) {
    dealer.offer((first + i) << stride_exponent);
  }
  return dealer.take();
}

std::optional<std::vector<std::uint32_t>> find_ways(Interrogator& device, Conflicts& conflicts,
                                                    const model::IndexFunction& index, std::uint64_t line_bytes,
                                                    std::uint32_t likely_ways) {
  const LinesOfSets lines(device, index, line_bytes);
  model::Random random = stream(device.settings(), "ways");
  const std::uint32_t sets = model::sets(index);
  std::vector<std::uint32_t> fits(sets, 0);
  std::vector<std::optional<std::uint32_t>> too_many(sets);
  std::vector<std::uint32_t> tried(sets, likely_ways);
  while (std::any_of(tried.begin(), tried.end(), [](std::uint32_t lines_of_set) { return lines_of_set > 0; })) {
    const std::vector<Offsets> groups = lines.draw(tried, random);
    for (std::uint32_t set = 0; set < sets; ++set) {
      if (groups[set].size() < tried[set]) {
        return std::nullopt;
      }
    }
    const std::vector<bool> overflows = conflicts.overflows(groups);
    for (std::uint32_t set = 0; set < sets; ++set) {
      if (tried[set] == 0) {
        continue;
      }
      if (overflows[set]) {
        too_many[set] = tried[set];
      } else {
        fits[set] = tried[set];
      }
      if (!too_many[set]) {
        tried[set] = fits[set] == likely_ways ? fits[set] + 1 : 2 * fits[set];
      } else if (*too_many[set] == fits[set] + 1) {
        tried[set] = 0;
      } else {
        tried[set] = fits[set] + (*too_many[set] - fits[set]) / 2;
      }
    }
  }
  if (std::find(fits.begin(), fits.end(), 0U) != fits.end()) {
    return std::nullopt;
  }
  return fits;
}

PackingCheck& PackingCheck::operator+=(const PackingCheck& more) {
  packings += more.packings;
  full_that_missed += more.full_that_missed;
  surplus_that_fitted += more.surplus_that_fitted;
  return *this;
}

namespace {

PackingCheck check_packing(Conflicts& conflicts, const std::vector<Offsets>& groups,
                           const std::vector<std::uint32_t>& ways) {
  const std::vector<bool> overflows = conflicts.overflows(groups);
  bool full_missed = false;
  bool surplus_fitted = false;
  for (std::size_t set = 0; set < groups.size(); ++set) {
    const bool has_surplus = groups[set].size() > ways[set];
    full_missed = full_missed || (overflows[set] && !has_surplus);
    surplus_fitted = surplus_fitted || (!overflows[set] && has_surplus);
  }
  return {.packings = 1,
          .full_that_missed = full_missed ? std::size_t{1} : 0,
          .surplus_that_fitted = surplus_fitted ? std::size_t{1} : 0};
}

}  // namespace

PackingCheck check_packings(Interrogator& device, Conflicts& conflicts, const model::IndexFunction& index,
                            const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes, std::size_t first,
                            std::size_t last, bool stop_at_failure) {
  const LinesOfSets lines(device, index, line_bytes);
  PackingCheck check;
  for (std::size_t packing = first; packing < last && !(stop_at_failure && check.failed()); ++packing) {
    model::Random random = stream(device.settings(), "packings", packing);
    std::vector<std::uint32_t> wanted = ways;
    for (std::uint32_t& lines_of_set : wanted) {
      lines_of_set += static_cast<std::uint32_t>(random.below(2));
    }
    constexpr std::size_t strides = 16;
    const std::vector<Offsets> groups =
        packing % 2 == 0 ? lines.draw(wanted, random)
                         : lines.draw_strided(wanted, static_cast<unsigned>(packing / 2 % strides), random);
    check += check_packing(conflicts, groups, ways);
  }
  return check;
}

PackingCheck check_packings_of(Interrogator& device, Conflicts& conflicts, const model::IndexFunction& index,
                               const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes,
                               const Offsets& places) {
  constexpr int times = 3;
  std::vector<Offsets> of_sets(ways.size());
  for (const std::uint64_t place : places) {
    of_sets[model::set_of(index, aligned_down(device.address_of(place), line_bytes))].push_back(place);
  }
  PackingCheck check;
  for (const std::size_t surplus : {0U, 1U}) {
    bool all_taken = false;
    for (std::size_t packing = 0; !all_taken; ++packing) {
      all_taken = true;
      std::vector<Offsets> groups(ways.size());
      for (std::size_t set = 0; set < ways.size(); ++set) {
        const Offsets& lines = of_sets[set];
        const std::size_t size = std::min(ways[set] + surplus, lines.size());
        // The last ones fill up with lines that were taken before.
        const std::size_t first = std::min(packing * size, lines.size() - size);
        all_taken = all_taken && first + size == lines.size();
        groups[set].assign(lines.begin() + static_cast<std::ptrdiff_t>(first),
                           lines.begin() + static_cast<std::ptrdiff_t>(first + size));
      }
      PackingCheck once = check_packing(conflicts, groups, ways);
      for (int time = 1; time < times && once.failed(); ++time) {
        once = check_packing(conflicts, groups, ways);
      }
      check += once;
    }
  }
  return check;
}

CrowdCheck check_crowds(Interrogator& device, std::span<const ConflictClass> sets) {
  constexpr std::size_t walks = 64;
  constexpr std::size_t times = 4;
  constexpr std::uint64_t most_hot = 4;
  // Of the walks that leave a line out, fewer than one in a million is read as one that leaves none out.
  constexpr double all_stay = -14;
  model::Random random = stream(device.settings(), "crowds");
  std::vector<model::Question> questions;
  for (std::size_t walk = 0; walk < walks; ++walk) {
    const ConflictClass& set = sets[walk / 2 % sets.size()];
    if (set.lines.size() <= set.ways) {
      continue;
    }
    Offsets lines = set.lines;
    random.shuffle(lines);
    lines.resize(set.ways + 1);
    // Each time, or, as a nearer cache that replaces in turn keeps a line best, one of them now and then.
    const bool each_time = walk % 2 == 0;
    const std::size_t hot = each_time ? 1 + random.below(std::min<std::uint64_t>(set.ways, most_hot)) : 1;
    const auto passing = lines.begin() + static_cast<std::ptrdiff_t>(hot);
    AccessSequence crowd(lines.begin(), passing);
    for (auto line = passing; line != lines.end(); ++line) {
      crowd.push_back(*line);
      if (each_time || random.below(2) == 0) {
        crowd.insert(crowd.end(), lines.begin(), passing);
      }
    }
    questions.insert(questions.end(), times, device.question(std::move(crowd), std::move(lines)));
  }
  const std::vector<std::vector<float>> answers = device.latencies(questions);
  CrowdCheck check{.walks = questions.size() / times};
  for (std::size_t walk = 0; walk < check.walks; ++walk) {
    const std::size_t lines = questions[walk * times].record.size();
    OverflowEvidence evidence(lines, std::numeric_limits<double>::infinity(), device.classifier().plausible_excesses());
    for (std::size_t time = 0; time < times; ++time) {
      evidence.add(device.classifier().log_ratios(answers[walk * times + time]), lines);
    }
    check.all_stayed += evidence.log_ratio() < all_stay ? 1U : 0U;
  }
  return check;
}

std::vector<ConflictClass> single_sets(const Interrogator& device, const model::IndexFunction& index,
                                       const std::vector<std::uint32_t>& ways, std::uint64_t line_bytes,
                                       std::size_t most) {
  std::vector<std::uint32_t> chosen;
  std::vector<bool> is_chosen(ways.size());
  const auto choose = [&](std::uint32_t set) {
    if (chosen.size() < most && !is_chosen[set]) {
      is_chosen[set] = true;
      chosen.push_back(set);
    }
  };
  std::vector<std::uint32_t> seen;
  for (std::uint32_t set = 0; set < ways.size(); ++set) {
    if (std::find(seen.begin(), seen.end(), ways[set]) == seen.end()) {
      seen.push_back(ways[set]);
      choose(set);
    }
  }
  for (std::uint32_t set = 0; set < ways.size() && chosen.size() < most; ++set) {
    choose(set);
  }
  std::vector<std::uint32_t> wanted(ways.size());
  for (const std::uint32_t set : chosen) {
    wanted[set] = ways[set] + std::max<std::uint32_t>(8, ways[set]);
  }
  model::Random random = stream(device.settings(), "sets to learn the policy from");
  std::vector<Offsets> drawn = LinesOfSets(device, index, line_bytes).draw(wanted, random);
  std::vector<ConflictClass> sets;
  for (const std::uint32_t set : chosen) {
    sets.push_back({.lines = std::move(drawn[set]), .ways = ways[set]});
  }
  return sets;
}

}  // namespace gpuinfer::infer
