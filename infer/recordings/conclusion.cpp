// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/conclusion.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "infer/cache/index_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::Replacement;

constexpr double decisive_nats = 20;
constexpr double decisive_bits = 20;

std::size_t tolerated_errors(std::size_t wrong, std::size_t judged) {
  const double misread =
      std::clamp(static_cast<double>(wrong + 1) / static_cast<double>(std::max<std::size_t>(1, judged)),
                 fewest_misread_share, most_misread);
  return static_cast<std::size_t>(std::ceil(decisive_nats / std::log((1 - misread) / misread)));
}

void conclude_line(const Explanation& explanation, FillSize fill, const RecordedLeaves& leaves) {
  std::vector<std::string> possible;
  for (const TraceFit& fit : explanation.fits) {
    if (fit.wrong <= explanation.best().wrong + explanation.tolerated) {
      possible.push_back(std::to_string(fit.line_bytes));
    }
  }
  const std::uint64_t line_bytes = explanation.best().line_bytes;
  // Lines of several fills hold together what smaller ones would not.
  const bool smaller_are_excluded = fill.is_known || line_bytes > fill.bytes;
  if (possible.size() == 1 && smaller_are_excluded) {
    leaves.cache().line_bytes = line_bytes;
    leaves.resolve("line_bytes");
    return;
  }
  leaves.open("line_bytes", EvidenceStatus::ambiguous,
              possible.size() > 1 ? "no two of the loads lie close enough to tell these apart"
                                  : "no two loads lie closer than that",
              "a random walk in steps of 4 bytes over an array a little larger than the cache", possible);
}

bool are_alike(const Replacement& a, const Replacement& b, const std::set<std::uint32_t>& ways) {
  const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1} << 14U};
  return std::ranges::all_of(ways, [&](std::uint32_t count) { return model::compare(a, b, count, limits).is_alike(); });
}

// The first policy of each class that behaves alike at these ways, with the others as its equivalents.
std::vector<Replacement> classes_of(const Rivals& rivals, const std::set<std::uint32_t>& ways) {
  std::vector<Replacement> classes;
  for (const auto& [policy, suiting_ways] : rivals.policies) {
    const auto same = std::ranges::find_if(
        classes, [&policy = policy, &ways](const Replacement& known) { return are_alike(known, policy, ways); });
    if (same == classes.end()) {
      classes.push_back(policy);
    } else {
      same->equivalent.push_back(model::to_text(policy));
    }
  }
  return classes;
}

// A sequence on which two policies differ; none: the widest set has too few recorded lines, or they do not differ.
std::optional<std::string> telling_sequence(const Replacement& one, const Replacement& other, const TraceFit& best,
                                            model::Address address_of_buffer) {
  const auto widest = std::ranges::max_element(best.ways);
  const auto lines = best.split.lines_of_sets()[static_cast<std::size_t>(widest - best.ways.begin())];
  const model::Comparison comparison = model::compare(one, other, *widest);
  if (!comparison.difference) {
    return std::nullopt;
  }
  std::string text = "from a clean start, loads of";
  for (const std::uint32_t line : *comparison.difference) {
    if (line >= lines.size()) {
      return std::nullopt;
    }
    text += ' ';
    text += std::to_string(model::Address{lines[line]} - address_of_buffer);
  }
  return text + ": the last one hits under one of " + model::to_text(one) + " and " + model::to_text(other) +
         " and misses under the other";
}

void conclude_replacement(const Explanation& explanation, model::Address address_of_buffer,
                          const std::string& longer_walk, const RecordedLeaves& leaves) {
  const TraceFit& best = explanation.best();
  const std::vector<Replacement> classes =
      classes_of(explanation.rivals, std::set<std::uint32_t>(best.ways.begin(), best.ways.end()));
  leaves["replacement"].details.deterministic = true;
  if (classes.size() == 1) {
    leaves.cache().replacement = classes.front();
    leaves.resolve("replacement");
    return;
  }
  std::vector<std::string> alternatives;
  for (const Replacement& policy : classes) {
    alternatives.push_back(model::to_flow_yaml(policy));
  }
  leaves.open("replacement", EvidenceStatus::ambiguous, "several policies explain the recordings",
              telling_sequence(classes[0], classes[1], best, address_of_buffer).value_or(longer_walk), alternatives);
}

// Bits that the sets of the lines say beyond what the function could be adapted to.
double surplus_bits(const IndexFit& fit, std::size_t lines, std::uint32_t sets) {
  const double of_a_set = std::log2(static_cast<double>(sets));
  const double names = std::lgamma(static_cast<double>(sets) + 1) / std::log(2.0);
  const auto bits = static_cast<double>(fit.exercised_bits.size());
  double parameters = 3 * std::log2(2 + bits) + of_a_set;
  if (const auto* table = std::get_if<model::TableIndex>(&fit.index)) {
    parameters = of_a_set * static_cast<double>(table->sets_of.size()) + std::log2(static_cast<double>(lines));
  } else if (std::holds_alternative<model::XorIndex>(fit.index)) {
    parameters = of_a_set * bits;
  }
  return of_a_set * static_cast<double>(lines) - names - parameters;
}

// The longest run of contiguous lines goes to the front; its length.
std::size_t contiguous_first(std::vector<AssignedLine>& lines, std::uint64_t line_bytes) {
  std::size_t longest_begin = 0;
  std::size_t longest = 1;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    begin = lines[i].address == lines[i - 1].address + line_bytes ? begin : i;
    if (i - begin + 1 > longest) {
      longest = i - begin + 1;
      longest_begin = begin;
    }
  }
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(longest_begin);
  std::rotate(lines.begin(), first, first + static_cast<std::ptrdiff_t>(longest));
  return longest;
}

bool holds_for_all_lines(const IndexFit& fit, const Explanation& explanation, const Scorer& scorer) {
  TraceFit by_index = explanation.best();
  for (std::size_t i = 0; i < by_index.split.lines.size(); ++i) {
    if (!model::covers(fit.index, model::Address{by_index.split.lines[i]})) {
      return false;
    }
    by_index.split.set_of[i] = fit.name_of_set[model::set_of(fit.index, model::Address{by_index.split.lines[i]})];
  }
  return wrong_of(by_index, explanation.simulation, scorer) <= explanation.best().wrong + explanation.tolerated;
}

// A bit between those of the line and the highest one that varied, of which nothing was seen.
std::optional<unsigned> unexercised_bit(const std::vector<unsigned>& bits, std::uint64_t line_bytes) {
  const auto lowest = static_cast<unsigned>(std::countr_zero(line_bytes));
  for (unsigned bit = lowest; !bits.empty() && bit < bits.back(); ++bit) {
    if (std::ranges::find(bits, bit) == bits.end()) {
      return bit;
    }
  }
  return std::nullopt;
}

// Why an index that puts the decided lines in their sets is not yet proven.
struct IndexDoubt {
  std::string reason;
  std::string decided_by;
};

std::optional<IndexDoubt> doubt_in_index(const IndexFit& fit, std::size_t decided, std::size_t window,
                                         const Explanation& explanation, const std::string& longer_walk,
                                         const Scorer& scorer) {
  const LineSplit& split = explanation.best().split;
  if (!fit.extrapolates && window < split.lines.size()) {
    return IndexDoubt{"a table holds for contiguous lines only", longer_walk};
  }
  if (fit.extrapolates && split.sets() > 1 && surplus_bits(fit, decided, split.sets()) < decisive_bits) {
    return IndexDoubt{"so few lines fit many index functions",
                      "a random walk over more lines, at twice the distances that were recorded"};
  }
  if (decided < split.lines.size() && !holds_for_all_lines(fit, explanation, scorer)) {
    return IndexDoubt{"lines that are not certain to be in their set do not fit the function of the others",
                      longer_walk};
  }
  if (const auto gap = unexercised_bit(fit.exercised_bits, explanation.best().line_bytes)) {
    const std::string bit = std::to_string(*gap);
    return IndexDoubt{"address bit " + bit + " is the same in all recorded lines",
                      "a random walk over lines that differ in bit " + bit};
  }
  return std::nullopt;
}

// None: the index stays open.
std::optional<IndexFit> conclude_index(const Explanation& explanation, const std::string& longer_walk,
                                       const Scorer& scorer, const RecordedLeaves& leaves) {
  const TraceFit& best = explanation.best();
  std::vector<AssignedLine> decided;
  for (std::size_t i = 0; i < best.split.lines.size(); ++i) {
    if (explanation.rivals.line_is_decided[i]) {
      decided.push_back({.address = model::Address{best.split.lines[i]}, .set = best.split.set_of[i]});
    }
  }
  const auto give_up = [&](const IndexDoubt& doubt, std::vector<std::string> alternatives) {
    leaves.open("index", EvidenceStatus::ambiguous, doubt.reason, doubt.decided_by, std::move(alternatives));
    leaves["index"].details.sets = best.split.sets();
    leaves["index"].details.lines_assigned = decided.size();
    return std::nullopt;
  };
  if (decided.empty()) {
    return give_up({"no line is certain to be in its set", longer_walk}, {});
  }
  const std::size_t window = contiguous_first(decided, best.line_bytes);
  std::optional<IndexFit> fit = fit_index(decided, window, best.line_bytes, best.split.sets());
  if (!leaves.cache().line_bytes) {
    const IndexDoubt doubt{"where lines may be smaller, lower bits of the address may take part",
                           leaves["line_bytes"].decided_by};
    return give_up(doubt, fit ? std::vector{model::to_flow_yaml(fit->index)} : std::vector<std::string>{});
  }
  if (!fit) {
    return give_up({"no index function puts every line in its set", longer_walk}, {});
  }
  if (const auto doubt = doubt_in_index(*fit, decided.size(), window, explanation, longer_walk, scorer)) {
    return give_up(*doubt, {model::to_flow_yaml(fit->index)});
  }
  leaves.cache().index = fit->index;
  leaves.cache().exercised_bits = fit->exercised_bits;
  leaves.resolve("index");
  return fit;
}

void conclude_ways(const Explanation& explanation, const std::optional<IndexFit>& fit, const std::string& longer_walk,
                   const RecordedLeaves& leaves) {
  const TraceFit& best = explanation.best();
  const bool ways_are_known =
      std::ranges::all_of(explanation.rivals.ways_of_set, [](const auto& possible) { return possible.size() == 1; });
  std::vector<std::uint32_t> ways = best.ways;
  if (fit) {
    ways.clear();
    for (const std::uint32_t name : fit->name_of_set) {
      ways.push_back(best.ways[name]);
    }
  }
  if (fit && ways_are_known) {
    leaves.cache().ways = ways;
    leaves.resolve("ways");
  } else {
    leaves.open("ways", EvidenceStatus::ambiguous,
                ways_are_known ? "there may be sets that no recorded line is in"
                               : "sets that hardly overflow in the recordings may hold more lines",
                ways_are_known ? "a random walk over a contiguous array twice as large as the cache" : longer_walk,
                {model::to_flow_yaml(ways)});
  }
  const std::uint64_t capacity_bytes = std::accumulate(ways.begin(), ways.end(), std::uint64_t{0}) * best.line_bytes;
  if (leaves.cache().ways && leaves.cache().line_bytes) {
    leaves.cache().capacity_bytes = capacity_bytes;
    leaves.resolve("capacity_bytes");
  } else {
    leaves.open("capacity_bytes", EvidenceStatus::ambiguous, "the line, or the ways of all sets, are not certain",
                leaves.cache().ways ? leaves["line_bytes"].decided_by : leaves["ways"].decided_by,
                {std::to_string(capacity_bytes)});
  }
}

}  // namespace

Explanation explain(std::vector<TraceFit> fits, std::span<const Played> played, const ReadTraces& all,
                    const Scorer& scorer) {
  for (TraceFit& fit : fits) {
    fit.wrong = wrong_of(fit, SetSimulation(played, fit.line_bytes, all.fill.bytes), scorer);
  }
  SetSimulation simulation(played, fits.front().line_bytes, all.fill.bytes);
  const std::size_t tolerated = tolerated_errors(fits.front().wrong, simulation.judged());
  Rivals rivals = rivals_of(fits.front(), simulation, tolerated, scorer);
  return {.fits = std::move(fits),
          .simulation = std::move(simulation),
          .tolerated = tolerated,
          .rivals = std::move(rivals)};
}

void conclude(const Explanation& explanation, const ReadTraces& all, const std::string& longer_walk,
              const Scorer& scorer, const RecordedLeaves& leaves) {
  conclude_line(explanation, all.fill, leaves);
  conclude_replacement(explanation, all.address_of_buffer, longer_walk, leaves);
  conclude_ways(explanation, conclude_index(explanation, longer_walk, scorer, leaves), longer_walk, leaves);
}

}  // namespace gpuinfer::infer
