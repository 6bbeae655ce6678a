// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/description_difference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/cache/index_fit.hpp"
#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/policy_classes.hpp"
#include "model/random.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::EvidenceDetails;
using model::find;
using model::IndexFunction;
using model::LeafEvidence;
using model::LeafFacts;
using model::Replacement;
using model::YamlEntry;
using model::YamlNode;

struct Judgement {
  Verdict verdict = Verdict::same;
  std::string note;
};

Judgement same(std::string note = "") { return {.verdict = Verdict::same, .note = std::move(note)}; }
Judgement different(std::string note = "") { return {.verdict = Verdict::differs, .note = std::move(note)}; }

struct Interval {
  double least = 0;
  double most = 0;

  [[nodiscard]] bool overlaps(const Interval& other) const { return least <= other.most && other.least <= most; }
};

// "+5 (+4.5 %)"
std::string change(double first, double second) {
  const auto with_sign = [](double value) {
    constexpr int digits = 4;
    const bool is_short = value == std::round(value) && std::abs(value) < 0x1p53;
    const double size = is_short ? std::abs(value) : model::rounded(std::abs(value), digits);
    return (value < 0 ? '-' : '+') +
           (is_short ? model::to_text(static_cast<std::int64_t>(size)) : model::to_text(size));
  };
  constexpr double percent = 100;
  return with_sign(second - first) +
         (first == 0 ? "" : " (" + with_sign(percent * (second - first) / std::abs(first)) + " %)");
}

bool is_null(const YamlNode* node) { return node == nullptr || node->kind == YamlNode::Kind::null; }

std::optional<double> number(const YamlNode* node) {
  return node != nullptr && node->kind == YamlNode::Kind::plain ? model::number_from<double>(node->text) : std::nullopt;
}

// Of two numbers in a list.
std::optional<Interval> interval(const YamlNode* node) {
  if (node == nullptr || node->kind != YamlNode::Kind::list || node->items.size() != 2) {
    return std::nullopt;
  }
  const auto least = number(&node->items.front());
  const auto most = number(&node->items.back());
  return least && most ? std::optional(Interval{.least = *least, .most = *most}) : std::nullopt;
}

// The details of evidence, where there is any.
const EvidenceDetails& details_of(const LeafEvidence* evidence) {
  static const EvidenceDetails none;
  return evidence == nullptr ? none : evidence->details;
}

std::vector<std::string> keys_of(const YamlNode& first, const YamlNode& second) {
  std::vector<std::string> keys;
  for (const YamlNode* map : {&first, &second}) {
    for (const YamlEntry& entry : map->entries) {
      if (std::ranges::find(keys, entry.key.text) == keys.end()) {
        keys.push_back(entry.key.text);
      }
    }
  }
  return keys;
}

// Of two values of the leaf that `row` is of, or of what stands inside of them: a part that only one of them has makes
// no difference.
Judgement judge_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second);

// The row of a part of such a value.
const LeafFacts& part_of(const LeafFacts& row, std::string_view key) {
  static const LeafFacts none;
  const LeafFacts* const part = find(row.parts, key);
  return part == nullptr ? none : *part;
}

// Judges each part by its row.
auto by_rows(const LeafFacts& row) {
  return [&row](const std::string& key, const YamlNode& first, const YamlNode& second) {
    return judge_nodes(part_of(row, key), first, second);
  };
}

void add(std::string& notes, const std::string& note) {
  if (!note.empty()) {
    notes += (notes.empty() ? "" : ", ") + note;
  }
}

// All parts of a leaf together. `judge_part`: (key, first, second) of parts that both have.
template <class JudgePart>
Judgement judge_maps(const YamlNode& first, const YamlNode& second, JudgePart&& judge_part) {
  Judgement all;
  bool any_in_both = false;
  bool any_in_one = false;
  for (const std::string& key : keys_of(first, second)) {
    const YamlNode* const a = find(first, key);
    const YamlNode* const b = find(second, key);
    if (is_null(a) || is_null(b)) {
      any_in_one = any_in_one || is_null(a) != is_null(b);
      continue;
    }
    any_in_both = true;
    const Judgement part = judge_part(key, *a, *b);
    if (part.verdict == Verdict::differs) {
      all.verdict = Verdict::differs;
      add(all.note, key + (part.note.empty() ? "" : " " + part.note));
    } else if (part.verdict == Verdict::less_certain) {
      any_in_one = true;
    }
  }
  if (all.verdict == Verdict::same && any_in_one) {
    return {.verdict = Verdict::less_certain, .note = "in part known to one only"};
  }
  if (all.verdict == Verdict::same && !any_in_both) {
    all.verdict = Verdict::open;
  }
  return all;
}

// The list as a map by what tells its entries apart; none where they are a mere sequence.
std::optional<YamlNode> by_name(const LeafFacts& row, const YamlNode& list) {
  YamlNode map{.kind = YamlNode::Kind::map, .line = list.line, .text = {}, .items = {}, .entries = {}};
  for (const YamlNode& item : list.items) {
    const YamlNode* const name = row.key.empty() ? nullptr : find(item, row.key);
    if (name == nullptr) {
      return std::nullopt;
    }
    map.entries.push_back({.key = {.kind = YamlNode::Kind::plain,
                                   .line = item.line,
                                   .text = std::string(row.key) + " " + name->text,
                                   .items = {},
                                   .entries = {}},
                           .value = item});
  }
  return map;
}

Judgement judge_lists(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  if (const auto a = by_name(row, first), b = by_name(row, second); a && b && !first.items.empty()) {
    return judge_maps(*a, *b, [&row](const std::string& /*name*/, const YamlNode& x, const YamlNode& y) {
      return judge_nodes(row, x, y);
    });
  }
  if (first.items.size() != second.items.size()) {
    return different(std::to_string(first.items.size()) + " and " + std::to_string(second.items.size()) + " entries");
  }
  std::size_t others = 0;
  std::string note;
  for (std::size_t i = 0; i < first.items.size(); ++i) {
    const Judgement item = judge_nodes(row, first.items[i], second.items[i]);
    if (item.verdict == Verdict::differs) {
      ++others;
      note = item.note;
    }
  }
  if (others == 0) {
    return same();
  }
  return different(others == 1 ? note
                               : std::to_string(others) + " of " + std::to_string(first.items.size()) + " entries");
}

// Of an index function inside another leaf.
Judgement judge_index_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second);

// Of what was timed: the intervals that are known, else the numbers themselves.
Judgement judge_timed(double first, const std::optional<Interval>& around_first, double second,
                      const std::optional<Interval>& around_second) {
  if (first == second) {
    return same();
  }
  const Interval a = around_first.value_or(Interval{.least = first, .most = first});
  const Interval b = around_second.value_or(Interval{.least = second, .most = second});
  return a.overlaps(b) ? same(change(first, second) + ", as far as it spreads") : different(change(first, second));
}

// How far a time is from where it is on average over processes on one GPU, as the lines that it is taken on lie nearer
// or farther: by 0.7 % of the median at most among 21 processes on an H100.
constexpr double spread_of_places = 0.01;

Interval around_places(const Interval& times) {
  return {.least = times.least * (1 - spread_of_places), .most = times.most * (1 + spread_of_places)};
}

Judgement judge_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  if (row.sameness == model::Sameness::given) {
    return same();
  }
  if (row.sameness == model::Sameness::overlap) {
    const auto a = interval(&first);
    const auto b = interval(&second);
    if (a && b) {
      return a->overlaps(*b) ? same("the intervals overlap") : different("the intervals do not overlap");
    }
  }
  if (row.sameness == model::Sameness::index) {
    return judge_index_nodes(row, first, second);
  }
  if (first.kind == YamlNode::Kind::map && second.kind == YamlNode::Kind::map) {
    return judge_maps(first, second, by_rows(row));
  }
  if (first.kind == YamlNode::Kind::list && second.kind == YamlNode::Kind::list) {
    return judge_lists(row, first, second);
  }
  if (const auto a = number(&first), b = number(&second); a && b) {
    if (row.is_measured) {
      return judge_timed(*a, around_places({.least = *a, .most = *a}), *b, around_places({.least = *b, .most = *b}));
    }
    return *a == *b ? same() : different(change(*a, *b));
  }
  return model::to_flow_yaml(first) == model::to_flow_yaml(second) ? same() : different();
}

bool same_row_space(const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& second,
                    std::uint64_t bits) {
  const auto basis_of = [bits](const std::vector<std::uint64_t>& masks) {
    EchelonBasis basis;
    for (const std::uint64_t mask : masks) {
      basis.add(mask & bits);
    }
    return basis;
  };
  const EchelonBasis a = basis_of(first);
  const EchelonBasis b = basis_of(second);
  return a.rank() == b.rank() &&
         std::ranges::all_of(b.rows(), [&](std::uint64_t row) { return a.remainder(row) == 0; });
}

std::uint64_t mask_of(const std::optional<std::vector<unsigned>>& bits) {
  return bits ? std::accumulate(bits->begin(), bits->end(), std::uint64_t{0},
                                [](std::uint64_t mask, unsigned bit) { return mask | (std::uint64_t{1} << bit); })
              : ~std::uint64_t{0};
}

// Of which both descriptions say something: contiguous lines, and such that differ in any of the bits that took part.
std::vector<std::uint64_t> common_addresses(const CacheDescription& first, const CacheDescription& second,
                                            std::uint64_t bits) {
  constexpr std::size_t contiguous = std::size_t{1} << 16U;
  constexpr std::size_t random_ones = std::size_t{1} << 16U;
  constexpr std::uint64_t widest_bits = (std::uint64_t{1} << 40U) - 1;
  constexpr std::uint64_t unknown_line_bytes = 32;
  const std::uint64_t line_bytes = std::min(first.line_bytes.value_or(second.line_bytes.value_or(unknown_line_bytes)),
                                            second.line_bytes.value_or(~std::uint64_t{0}));
  std::vector<std::uint64_t> numbers;
  const auto add_if_covered = [&](model::Address address) {
    if (covers(*first.index, address) && covers(*second.index, address)) {
      numbers.push_back(number_of(address));
    }
  };
  model::Random random(1);
  for (const CacheDescription* cache : {&first, &second}) {
    const model::CoveredRange range = covered(*cache->index);
    for (std::size_t i = 0; i < contiguous; ++i) {
      add_if_covered(model::Address{range.begin + i * line_bytes});
    }
    for (std::size_t i = 0; i < random_ones; ++i) {
      add_if_covered(
          model::Address{range.bytes ? range.begin + random.below(*range.bytes) : random() & bits & widest_bits});
    }
  }
  return numbers;
}

Judgement judge_indices(const CacheDescription& first, const CacheDescription& second) {
  const std::uint64_t bits = mask_of(first.exercised_bits) & mask_of(second.exercised_bits);
  const bool took_other_parts = first.exercised_bits != second.exercised_bits;
  const auto a = parities(*first.index);
  const auto b = parities(*second.index);
  if (a && b) {
    return same_row_space(*a, *b, bits) ? same(took_other_parts ? "on the address bits that both say something of" : "")
                                        : different("the addresses are split differently");
  }
  const std::vector<std::uint64_t> addresses = common_addresses(first, second, bits);
  if (addresses.empty()) {
    return {.verdict = Verdict::less_certain, .note = "no address is covered by both"};
  }
  return same_partition(*first.index, *second.index, addresses)
             ? same("on " + std::to_string(addresses.size()) + " addresses")
             : different("the addresses are split differently");
}

std::string sets_text(const std::vector<std::uint32_t>& ways) {
  return std::to_string(ways.size()) + " sets with " +
         std::to_string(std::accumulate(ways.begin(), ways.end(), std::uint64_t{0})) + " ways in all";
}

// Set numbers are only names: where both indices split the addresses alike, the sets of the same addresses are
// compared, else how many ways there are how often.
Judgement judge_ways(const CacheDescription& first, const CacheDescription& second) {
  std::vector<std::uint32_t> a = *first.ways;
  std::vector<std::uint32_t> b = *second.ways;
  std::ranges::sort(a);
  std::ranges::sort(b);
  if (a != b) {
    return different(sets_text(a) + ", and " + sets_text(b));
  }
  if (a.front() == a.back()) {
    return same();
  }
  if (!first.index || !second.index || judge_indices(first, second).verdict != Verdict::same) {
    return same("but for which set has how many");
  }
  const std::uint64_t bits = mask_of(first.exercised_bits) & mask_of(second.exercised_bits);
  const bool alike = std::ranges::all_of(common_addresses(first, second, bits), [&](std::uint64_t number) {
    const model::Address address{number};
    return first.ways->at(set_of(*first.index, address)) == second.ways->at(set_of(*second.index, address));
  });
  return alike ? same() : different("other sets have them");
}

// The probabilities of the ways to be replaced, as intervals: as measured where that was, else as they are stated.
std::optional<std::vector<Interval>> victim_probabilities(const Replacement& replacement,
                                                          const LeafEvidence* evidence) {
  std::vector<Interval> intervals;
  if (const model::Victims& measured = details_of(evidence).victim_probability_intervals; !measured.empty()) {
    for (const auto& [least, most] : measured) {
      intervals.push_back({.least = least, .most = most});
    }
    return intervals;
  }
  const auto weights = replacement.parameters.find("victim_weights");
  const auto* list =
      weights == replacement.parameters.end() ? nullptr : std::get_if<std::vector<double>>(&weights->second);
  if (list == nullptr) {
    return std::nullopt;
  }
  const double sum = std::accumulate(list->begin(), list->end(), 0.0);
  for (const double weight : *list) {
    intervals.push_back({.least = weight / sum, .most = weight / sum});
  }
  return intervals;
}

Judgement judge_chances(const Replacement& first, const LeafEvidence* first_evidence, const Replacement& second,
                        const LeafEvidence* second_evidence) {
  const auto a = victim_probabilities(first, first_evidence);
  const auto b = victim_probabilities(second, second_evidence);
  if (first.policy != second.policy || !a || !b || a->size() != b->size()) {
    return different();
  }
  // Proportions written with few digits.
  constexpr double rounding = 1e-6;
  const bool overlap = std::equal(a->begin(), a->end(), b->begin(), [](const Interval& x, const Interval& y) {
    return Interval{.least = x.least - rounding, .most = x.most + rounding}.overlaps(y);
  });
  return overlap ? same("the probabilities are as far as they are known")
                 : different("the probabilities of the ways differ");
}

// Of a set that begins empty: a line for each number.
std::string sequence_text(const std::vector<std::uint32_t>& lines) {
  constexpr std::size_t most_lines = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), most_lines); ++i) {
    text += i == 0 ? "" : " ";
    text += std::to_string(lines[i]);
  }
  return text + (lines.size() > most_lines ? " ..." : "");
}

Judgement judge_policies(const CacheDescription& first, const LeafEvidence* first_evidence,
                         const CacheDescription& second, const LeafEvidence* second_evidence) {
  const Replacement& a = *first.replacement;
  const Replacement& b = *second.replacement;
  if (to_text(a) == to_text(b)) {
    return same();
  }
  if (!is_deterministic(a) || !is_deterministic(b)) {
    return is_deterministic(a) == is_deterministic(b) ? judge_chances(a, first_evidence, b, second_evidence)
                                                      : different("only one of them is random");
  }
  std::set<std::uint32_t> ways_of_sets;
  for (const auto* ways : {&first.ways, &second.ways}) {
    if (*ways) {
      ways_of_sets.insert((*ways)->begin(), (*ways)->end());
    }
  }
  if (ways_of_sets.empty()) {
    const bool named = std::ranges::find(a.equivalent, to_text(b)) != a.equivalent.end() ||
                       std::ranges::find(b.equivalent, to_text(a)) != b.equivalent.end();
    return named ? same("they behave alike") : different();
  }
  std::string note = "they behave alike";
  for (const std::uint32_t ways : ways_of_sets) {
    constexpr std::uint32_t ways_for_all_states = 8;
    const model::ComparisonLimits limits{.pairs_of_states = std::size_t{1}
                                                            << (ways <= ways_for_all_states ? 18U : 12U)};
    try {
      const model::Comparison comparison = model::compare(a, b, ways, limits);
      if (comparison.difference) {
        return different("the last of " + sequence_text(*comparison.difference) + " tells them apart in a set of " +
                         std::to_string(ways) + " ways");
      }
      if (comparison.depth_accesses) {
        note += ", in " + std::to_string(*comparison.depth_accesses) + " accesses at least";
      }
    } catch (const InputError&) {
      return different("one of them does not go with " + std::to_string(ways) + " ways");
    }
  }
  return same(note);
}

std::optional<Interval> interval_of(const std::optional<model::RealInterval>& ends) {
  return ends ? std::optional(Interval{.least = ends->front(), .most = ends->back()}) : std::nullopt;
}

// Two processes on one GPU differ by up to that on either side, whatever the spread inside of one.
constexpr double spread_of_processes = 0.005;

// Between a measurement and its repetition, with the spread of each.
std::optional<Interval> bandwidth_interval(double bytes_per_second, const LeafEvidence* evidence) {
  const EvidenceDetails& details = details_of(evidence);
  if (!details.spread) {
    return std::nullopt;
  }
  const double spread = std::max(*details.spread, spread_of_processes);
  constexpr double giga = 1e9;
  const double other = details.asked_again_gb_per_second.value_or(bytes_per_second / giga) * giga;
  return Interval{.least = std::min(bytes_per_second, other) * (1 - spread),
                  .most = std::max(bytes_per_second, other) * (1 + spread)};
}

std::optional<Interval> seconds_interval(double seconds, const LeafEvidence* evidence) {
  const std::optional<double> again = details_of(evidence).seconds_again;
  return again ? std::optional(Interval{.least = std::min(seconds, *again) * (1 - spread_of_processes),
                                        .most = std::max(seconds, *again) * (1 + spread_of_processes)})
               : std::nullopt;
}

Judgement judge_bandwidths(const LeafFacts& row, const YamlNode& first, const LeafEvidence* first_evidence,
                           const YamlNode& second, const LeafEvidence* second_evidence) {
  const auto a = number(find(first, "bytes_per_second"));
  const auto b = number(find(second, "bytes_per_second"));
  if (!a || !b) {
    return judge_maps(first, second, by_rows(row));
  }
  return judge_timed(*a, bandwidth_interval(*a, first_evidence), *b, bandwidth_interval(*b, second_evidence));
}

// Bytes that counters of a device say, which take in what else it does.
Judgement judge_counted(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  return judge_maps(first, second, [&row](const std::string& key, const YamlNode& x, const YamlNode& y) {
    constexpr double as_good_as_same = 0.1;
    const auto a = number(&x);
    const auto b = number(&y);
    return a && b && std::abs(*a - *b) <= as_good_as_same * std::max(*a, *b) ? same()
                                                                             : judge_nodes(part_of(row, key), x, y);
  });
}

// The share follows from the time and the bandwidths.
Judgement judge_kernels(const LeafFacts& row, const YamlNode& first, const LeafEvidence* first_evidence,
                        const YamlNode& second, const LeafEvidence* second_evidence) {
  return judge_maps(first, second, [&](const std::string& key, const YamlNode& x, const YamlNode& y) {
    if (key == "level_bytes" && details_of(first_evidence).simulated_over_counted &&
        details_of(second_evidence).simulated_over_counted) {
      return judge_counted(part_of(row, key), x, y);
    }
    const auto a = number(&x);
    const auto b = number(&y);
    return key == "seconds" && a && b
               ? judge_timed(*a, seconds_interval(*a, first_evidence), *b, seconds_interval(*b, second_evidence))
               : judge_nodes(part_of(row, key), x, y);
  });
}

Judgement judge_shared_latency(const LeafFacts& row, const YamlNode& first, const LeafEvidence* first_evidence,
                               const YamlNode& second, const LeafEvidence* second_evidence) {
  return judge_maps(first, second, [&](const std::string& key, const YamlNode& x, const YamlNode& y) {
    const auto a = number(&x);
    const auto b = number(&y);
    return key == "per_way" && a && b
               ? judge_timed(*a, interval_of(details_of(first_evidence).per_way_interval_95_percent), *b,
                             interval_of(details_of(second_evidence).per_way_interval_95_percent))
               : judge_nodes(part_of(row, key), x, y);
  });
}

Judgement judge_pattern(const LeafFacts& row, const YamlNode& first, const LeafEvidence* first_evidence,
                        const YamlNode& second, const LeafEvidence* second_evidence) {
  const auto a = number(&first);
  const auto b = number(&second);
  // The interval says where the mean of one process is.
  const auto around = [](const LeafEvidence* evidence) {
    const auto interval = interval_of(details_of(evidence).interval_95_percent);
    return interval ? std::optional(around_places(*interval)) : std::nullopt;
  };
  return a && b ? judge_timed(*a, around(first_evidence), *b, around(second_evidence))
                : judge_nodes(row, first, second);
}

const LeafEvidence* evidence_of(const model::DeviceDescription& description, const std::string& section,
                                const std::string& leaf) {
  const auto found = description.evidence.find(section);
  if (found == description.evidence.end()) {
    return nullptr;
  }
  const auto entry = found->second.leaves.find(leaf);
  return entry == found->second.leaves.end() ? nullptr : &entry->second;
}

// The one leaf of a cache as a description of its own; none when it cannot stand alone.
std::optional<CacheDescription> cache_with(const std::string& leaf, const model::FlowYaml& value,
                                           CacheDescription others) {
  const std::string yaml = "schema: gpuinfer/1\ndevice: {name: supposed, source: supposed}\ncaches:\n  L1tex: {" +
                           leaf + ": " + value + "}\n";
  try {
    const CacheDescription supposed = model::parse_description(yaml, "alternative").caches.at("L1tex");
    others.index = leaf == "index" ? supposed.index : others.index;
    others.replacement = leaf == "replacement" ? supposed.replacement : others.replacement;
    return others;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Judgement judge_index_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  const auto a = cache_with("index", model::to_flow_yaml(first), {});
  const auto b = cache_with("index", model::to_flow_yaml(second), {});
  return a && b ? judge_indices(*a, *b) : judge_maps(first, second, by_rows(row));
}

// Whether a value is one of the alternatives that the other description leaves. `known`: the cache that has it, if it
// is of one.
bool is_an_alternative(const LeafFacts& row, const YamlNode& value, const CacheDescription* known,
                       const std::vector<model::FlowYaml>& alternatives) {
  const bool is_index = row.sameness == model::Sameness::index;
  const bool by_meaning = known != nullptr && (is_index || row.sameness == model::Sameness::policy);
  return std::ranges::any_of(alternatives, [&](const model::FlowYaml& alternative) {
    if (const auto supposed = by_meaning ? cache_with(std::string(row.name), alternative, *known) : std::nullopt) {
      return (is_index ? judge_indices(*known, *supposed) : judge_policies(*known, nullptr, *supposed, nullptr))
                 .verdict == Verdict::same;
    }
    return judge_nodes(row, model::parse_yaml(alternative, "alternative"), value).verdict == Verdict::same;
  });
}

// How much was set aside as shared memory when a section was found out, of those that say it.
std::optional<std::uint32_t> carveout_of(const model::DeviceDescription& description, const std::string& section) {
  const auto cache = description.caches.find(section);
  if (cache != description.caches.end() && cache->second.carveout_kb) {
    return cache->second.carveout_kb;
  }
  constexpr const char* key = "carveout_kb_asked";
  const auto& provenance = description.device.provenance;
  const auto own = provenance.find(section + "." + key);
  const auto found = own == provenance.end() ? provenance.find(key) : own;
  return found == provenance.end() ? std::nullopt : model::number_from<std::uint32_t>(found->second);
}

// Of a cache: what `carveouts` has of each carve-out, too, and what follows from that.
bool depends_on_carveout(const std::vector<LeafFacts>& rows, std::string_view leaf) {
  const LeafFacts* const carveouts = find(rows, "carveouts");
  return carveouts != nullptr && leaf != "ways" &&
         (leaf == "capacity_bytes" || find(carveouts->parts, leaf) != nullptr);
}

// Such a leaf of a cache at another carve-out than its own; null where the cache does not say.
YamlNode at_carveout(const YamlNode& cache, const std::string& leaf, std::uint32_t carveout_kb) {
  const YamlNode* const list = find(cache, "carveouts");
  const std::string wanted = model::to_text(carveout_kb);
  const YamlNode none;
  for (const YamlNode& item : list == nullptr ? none.items : list->items) {
    const YamlNode* const kb = find(item, "carveout_kb");
    if (kb == nullptr || kb->text != wanted) {
      continue;
    }
    if (leaf != "capacity_bytes") {
      const YamlNode* const value = find(item, leaf);
      return value == nullptr ? none : *value;
    }
    const auto lines = number(find(item, "store_lines"));
    const auto line_bytes = number(find(cache, "line_bytes"));
    return lines && line_bytes
               ? model::parse_yaml(model::to_text(static_cast<std::uint64_t>(*lines * *line_bytes)), "carveouts")
               : none;
  }
  return none;
}

class Comparison {
 public:
  Comparison(const model::DeviceDescription& first, const model::DeviceDescription& second,
             const model::Sections<model::DeviceDescription>& all)
      : all_(all), first_(first), second_(second), first_tree_(model::parse_yaml(write_sections(first, all), "first")),
        second_tree_(model::parse_yaml(write_sections(second, all), "second")) {}

  std::vector<LeafDifference> run() {
    for (const auto& section : all_) {
      if (!section.is_found_out()) {
        continue;
      }
      const YamlNode* const a = find(first_tree_, section.key);
      const YamlNode* const b = find(second_tree_, section.key);
      if (!section.is_named) {
        compare_section(section.facts, std::string(section.key), a, b);
        continue;
      }
      const YamlNode none;
      for (const std::string& name : keys_of(a == nullptr ? none : *a, b == nullptr ? none : *b)) {
        compare_section(section.facts, name, a == nullptr ? nullptr : find(*a, name),
                        b == nullptr ? nullptr : find(*b, name));
      }
    }
    return std::move(found_);
  }

 private:
  void compare_section(const std::vector<LeafFacts>& rows, const std::string& section, const YamlNode* first,
                       const YamlNode* second) {
    if (first == nullptr || second == nullptr) {
      if (first != second) {
        found_.push_back({.section = section,
                          .leaf = "",
                          .verdict = Verdict::less_certain,
                          .first = "null",
                          .second = "null",
                          .note = std::string("only in the ") + (first == nullptr ? "second" : "first")});
      }
      return;
    }
    for (const std::string& leaf : keys_of(*first, *second)) {
      const LeafFacts* const row = find(rows, leaf);
      if (row == nullptr || row->sameness == model::Sameness::given) {
        continue;
      }
      const auto a = carveout_of(first_, section);
      const auto b = carveout_of(second_, section);
      if (a && b && a != b && depends_on_carveout(rows, leaf) &&
          (find(*first, "carveouts") != nullptr || find(*second, "carveouts") != nullptr)) {
        compare_carved(*row, section, *first, *a, *second, *b);
      } else {
        compare_leaf(*row, section, find(*first, leaf), find(*second, leaf));
      }
    }
  }

  // What hangs on the carve-out, at one that both say something of.
  void compare_carved(const LeafFacts& row, const std::string& section, const YamlNode& first, std::uint32_t first_kb,
                      const YamlNode& second, std::uint32_t second_kb) {
    const std::string leaf(row.name);
    const YamlNode* const own_first = find(first, leaf);
    const YamlNode* const own_second = find(second, leaf);
    const YamlNode second_there = at_carveout(second, leaf, first_kb);
    const YamlNode first_there = at_carveout(first, leaf, second_kb);
    const auto at = [](std::uint32_t kb) { return "at a carve-out of " + std::to_string(kb) + " KB"; };
    std::string where;
    if (!is_null(own_first) && !is_null(&second_there)) {
      compare_leaf(row, section, own_first, &second_there);
      where = at(first_kb);
    } else if (!is_null(own_second) && !is_null(&first_there)) {
      compare_leaf(row, section, &first_there, own_second);
      where = at(second_kb);
    } else {
      compare_leaf(row, section, own_first, own_second);
      found_.back().verdict = Verdict::open;
      found_.back().note = "";
      where = "cannot be compared: the first is " + at(first_kb) + ", the second " + at(second_kb);
    }
    std::string& note = found_.back().note;
    note += (note.empty() ? "" : ", ") + where;
  }

  void compare_leaf(const LeafFacts& row, const std::string& section, const YamlNode* first, const YamlNode* second) {
    const std::string leaf(row.name);
    const LeafEvidence* const a = evidence_of(first_, section, leaf);
    const LeafEvidence* const b = evidence_of(second_, section, leaf);
    LeafDifference result{.section = section,
                          .leaf = leaf,
                          .verdict = Verdict::open,
                          .first = first == nullptr ? "null" : model::to_flow_yaml(*first),
                          .second = second == nullptr ? "null" : model::to_flow_yaml(*second),
                          .note = "",
                          .row = &row};
    if (is_null(first) != is_null(second)) {
      result.verdict = Verdict::less_certain;
      result.note = is_null(first) ? why_open("first", section, row, a, *second, second_)
                                   : why_open("second", section, row, b, *first, first_);
    } else if (!is_null(first)) {
      const Judgement judgement = judge(row, section, *first, a, *second, b);
      result.verdict = judgement.verdict;
      result.note = judgement.note;
    }
    found_.push_back(std::move(result));
  }

  [[nodiscard]] static std::string why_open(const std::string& which, const std::string& section, const LeafFacts& row,
                                            const LeafEvidence* evidence, const YamlNode& value,
                                            const model::DeviceDescription& knows) {
    const std::string begin = "the " + which + " ";
    if (evidence == nullptr) {
      return begin + "does not say";
    }
    std::string text = begin + "says " + std::string(to_string(evidence->status));
    if (evidence->alternatives.empty()) {
      return text;
    }
    const auto cache = knows.caches.find(section);
    const bool is_one =
        is_an_alternative(row, value, cache == knows.caches.end() ? nullptr : &cache->second, evidence->alternatives);
    return text + (is_one ? ", this among others" : ", and this is none of its alternatives");
  }

  [[nodiscard]] Judgement judge(const LeafFacts& row, const std::string& section, const YamlNode& first,
                                const LeafEvidence* a, const YamlNode& second, const LeafEvidence* b) const {
    const auto first_cache = first_.caches.find(section);
    const auto second_cache = second_.caches.find(section);
    if (first_cache != first_.caches.end() && second_cache != second_.caches.end()) {
      const CacheDescription& x = first_cache->second;
      const CacheDescription& y = second_cache->second;
      if (row.sameness == model::Sameness::index) {
        return judge_indices(x, y);
      }
      if (row.sameness == model::Sameness::ways) {
        return judge_ways(x, y);
      }
      if (row.sameness == model::Sameness::policy) {
        return judge_policies(x, a, y, b);
      }
    }
    if (section == "bandwidth") {
      return judge_bandwidths(row, first, a, second, b);
    }
    if (section == "kernels") {
      return judge_kernels(row, first, a, second, b);
    }
    if (section == "memory_latency_cycles") {
      return judge_pattern(row, first, a, second, b);
    }
    if (section == "shared_memory" && row.name == "latency_cycles") {
      return judge_shared_latency(row, first, a, second, b);
    }
    return judge_nodes(row, first, second);
  }

  const model::Sections<model::DeviceDescription>& all_;
  const model::DeviceDescription& first_;
  const model::DeviceDescription& second_;
  YamlNode first_tree_;
  YamlNode second_tree_;
  std::vector<LeafDifference> found_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "same";
    case Verdict::differs:
      return "differs";
    case Verdict::less_certain:
      return "less_certain";
    case Verdict::open:
      break;
  }
  return "open";
}

std::vector<LeafDifference> differences(const model::DeviceDescription& first, const model::DeviceDescription& second,
                                        const model::Sections<model::DeviceDescription>& all) {
  return Comparison(first, second, all).run();
}

}  // namespace gpuinfer::infer
