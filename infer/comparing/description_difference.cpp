// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/comparing/description_difference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "infer/comparing/cache_sameness.hpp"
#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/provenance.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::EvidenceDetails;
using model::find;
using model::LeafEvidence;
using model::LeafFacts;
using model::Sameness;
using model::YamlEntry;
using model::YamlNode;

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

// Of one leaf in either description; null: there is none.
struct Evidences {
  const LeafEvidence* first = nullptr;
  const LeafEvidence* second = nullptr;
};

// Of two values of the leaf that `row` is of, or of what stands inside of them: a part that only one of them has makes
// no difference.
Judgement judge_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second,
                      const Evidences& evidences = {});

// The row of a part of such a value.
const LeafFacts& part_of(const LeafFacts& row, std::string_view key) {
  static const LeafFacts none;
  const LeafFacts* const part = find(row.parts, key);
  return part == nullptr ? none : *part;
}

// Judges each part by its row.
auto by_rows(const LeafFacts& row, const Evidences& evidences) {
  return [&row, evidences](const std::string& key, const YamlNode& first, const YamlNode& second) {
    return judge_nodes(part_of(row, key), first, second, evidences);
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

Judgement judge_lists(const LeafFacts& row, const YamlNode& first, const YamlNode& second, const Evidences& evidences) {
  if (const auto a = by_name(row, first), b = by_name(row, second); a && b && !first.items.empty()) {
    return judge_maps(*a, *b, [&](const std::string& /*name*/, const YamlNode& x, const YamlNode& y) {
      return judge_nodes(row, x, y, evidences);
    });
  }
  if (first.items.size() != second.items.size()) {
    return different(std::to_string(first.items.size()) + " and " + std::to_string(second.items.size()) + " entries");
  }
  std::size_t others = 0;
  std::string note;
  for (std::size_t i = 0; i < first.items.size(); ++i) {
    const Judgement item = judge_nodes(row, first.items[i], second.items[i], evidences);
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

// Of tables that are the same, as Sameness::columns has it; none for all else.
std::optional<Judgement> judge_tables(const LeafFacts& row, const YamlNode& first, const YamlNode& second,
                                      const Evidences& evidences);

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

// How far a time is from its average over processes on one GPU, since the lines that it is taken on lie nearer or
// farther: more than the 0.7 % of the median that was seen at most in 21 processes.
constexpr double spread_of_places = 0.01;

Interval around_places(const Interval& times) {
  return {.least = times.least * (1 - spread_of_places), .most = times.most * (1 + spread_of_places)};
}

// Two processes on one GPU differ by up to that on either side, whatever the spread inside of one.
constexpr double spread_of_processes = 0.005;

// Of a value and its repetition.
Interval around_both(double value, double again, double spread) {
  return {.least = std::min(value, again) * (1 - spread), .most = std::max(value, again) * (1 + spread)};
}

// Between a measurement and its repetition, with the spread of each.
std::optional<Interval> peak_interval(double bytes_per_second, const EvidenceDetails& details) {
  if (!details.spread) {
    return std::nullopt;
  }
  constexpr double giga = 1e9;
  return around_both(bytes_per_second, details.asked_again_gb_per_second.value_or(bytes_per_second / giga) * giga,
                     std::max(*details.spread, spread_of_processes));
}

std::optional<Interval> interval_of(const std::optional<model::RealInterval>& ends) {
  return ends ? std::optional(Interval{.least = ends->front(), .most = ends->back()}) : std::nullopt;
}

// How far the number of such a leaf spreads; none where its evidence does not say.
std::optional<Interval> interval_of(const LeafFacts& row, double value, const LeafEvidence* evidence) {
  static const EvidenceDetails none;
  const EvidenceDetails& details = evidence == nullptr ? none : evidence->details;
  switch (row.sameness) {
    case Sameness::peak:
      return peak_interval(value, details);
    case Sameness::time:
      return details.seconds_again ? std::optional(around_both(value, *details.seconds_again, spread_of_processes))
                                   : std::nullopt;
    case Sameness::slope:
      return interval_of(details.per_way_interval_95_percent);
    case Sameness::mean: {
      // The interval says where the mean of one process is.
      const auto interval = interval_of(details.interval_95_percent);
      return interval ? std::optional(around_places(*interval)) : std::nullopt;
    }
    default:
      return around_places({.least = value, .most = value});
  }
}

// Counters of a device take in what else it does.
Judgement judge_counted(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  return judge_maps(first, second, [&row](const std::string& key, const YamlNode& x, const YamlNode& y) {
    constexpr double as_good_as_same = 0.1;
    const auto a = number(&x);
    const auto b = number(&y);
    return a && b && std::abs(*a - *b) <= as_good_as_same * std::max(*a, *b) ? same()
                                                                             : judge_nodes(part_of(row, key), x, y);
  });
}

bool is_counted(const LeafEvidence* evidence) {
  return evidence != nullptr && evidence->details.simulated_over_counted.has_value();
}

// A word that need not stand does where it is another than usual, if anything is known beside it; a number or a list
// that does not is not known.
bool is_otherwise_in(const LeafFacts& row, const LeafFacts& part, const YamlNode& with, const YamlNode& without) {
  const YamlNode* const value = find(with, part.name);
  const bool is_known_without = std::ranges::any_of(
      row.parts, [&](const LeafFacts& other) { return !other.is_sparse && !is_null(find(without, other.name)); });
  return part.is_sparse && value != nullptr && value->kind == YamlNode::Kind::plain && !number(value) &&
         find(without, part.name) == nullptr && is_known_without;
}

Judgement judge_parts(const LeafFacts& row, const YamlNode& first, const YamlNode& second, const Evidences& evidences) {
  const auto main = std::ranges::find_if(row.parts, &LeafFacts::stands_for_all);
  if (main != row.parts.end()) {
    const YamlNode* const a = find(first, main->name);
    const YamlNode* const b = find(second, main->name);
    if (number(a) && number(b)) {
      return judge_nodes(*main, *a, *b, evidences);
    }
  }
  Judgement judgement = judge_maps(first, second, by_rows(row, evidences));
  for (const LeafFacts& part : row.parts) {
    if (is_otherwise_in(row, part, first, second) || is_otherwise_in(row, part, second, first)) {
      judgement.verdict = Verdict::differs;
      add(judgement.note, std::string(part.name));
    }
  }
  return judgement;
}

Judgement judge_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second, const Evidences& evidences) {
  if (row.sameness == Sameness::given) {
    return same();
  }
  if (row.sameness == Sameness::overlap) {
    const auto a = interval(&first);
    const auto b = interval(&second);
    if (a && b) {
      return a->overlaps(*b) ? same("the intervals overlap") : different("the intervals do not overlap");
    }
  }
  if (row.sameness == Sameness::index) {
    return judge_index_nodes(row, first, second);
  }
  if (row.sameness == Sameness::columns) {
    if (auto judgement = judge_tables(row, first, second, evidences)) {
      return *std::move(judgement);
    }
  }
  if (first.kind == YamlNode::Kind::map && second.kind == YamlNode::Kind::map) {
    return row.sameness == Sameness::counted && is_counted(evidences.first) && is_counted(evidences.second)
               ? judge_counted(row, first, second)
               : judge_parts(row, first, second, evidences);
  }
  if (first.kind == YamlNode::Kind::list && second.kind == YamlNode::Kind::list) {
    return judge_lists(row, first, second, evidences);
  }
  if (const auto a = number(&first), b = number(&second); a && b) {
    if (row.is_measured) {
      return judge_timed(*a, interval_of(row, *a, evidences.first), *b, interval_of(row, *b, evidences.second));
    }
    return *a == *b ? same() : different(change(*a, *b));
  }
  return model::to_flow_yaml(first) == model::to_flow_yaml(second) ? same() : different();
}

using Table = std::vector<std::vector<double>>;  // rows of one length

// None: the node is something else.
std::optional<Table> table_of(const YamlNode& node) {
  Table table;
  for (const YamlNode& row : node.items) {
    std::vector<double>& numbers = table.emplace_back();
    for (const YamlNode& item : row.items) {
      const auto value = number(&item);
      if (!value) {
        return std::nullopt;
      }
      numbers.push_back(*value);
    }
    if (numbers.size() != table.front().size()) {
      return std::nullopt;
    }
  }
  return table.empty() || table.front().empty() ? std::nullopt : std::optional(table);
}

// By which columns of another table get their numbers: a column is a number and, in its lowest bits, parities.
struct Renumbering {
  std::size_t parities = 0;  // how many
  std::size_t begin = 0;     // of the numbers
  std::size_t flips = 0;     // of the parities, a bit for each

  [[nodiscard]] std::size_t operator()(std::size_t column, std::size_t columns) const {
    const std::size_t number = ((column >> parities) + begin) % (columns >> parities);
    const std::size_t parity_bits = column & ((std::size_t{1} << parities) - 1);
    return number << parities | (parity_bits ^ flips);
  }
};

// The first one that `is_right`, with as many parities as the number of columns allows; the one that leaves all as they
// are is tried before the others.
template <class IsRight>
std::optional<Renumbering> find_renumbering(std::size_t columns, IsRight is_right) {
  for (std::size_t parities = 0; columns % (std::size_t{1} << parities) == 0; ++parities) {
    for (std::size_t begin = 0; begin < columns >> parities; ++begin) {
      for (std::size_t flips = 0; flips < std::size_t{1} << parities; ++flips) {
        if (const Renumbering renumbered{.parities = parities, .begin = begin, .flips = flips}; is_right(renumbered)) {
          return renumbered;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<Judgement> judge_tables(const LeafFacts& row, const YamlNode& first, const YamlNode& second,
                                      const Evidences& evidences) {
  const auto a = table_of(first);
  const auto b = table_of(second);
  if (!a || !b || a->size() != b->size() || a->front().size() != b->front().size()) {
    return std::nullopt;
  }
  const std::size_t columns = a->front().size();
  // There are `columns` renumberings for each number of parities. No cache has so many slices that it would take long.
  constexpr std::size_t most_compared = std::size_t{1} << 25U;
  const std::size_t renumberings = columns * static_cast<std::size_t>(std::countr_zero(columns) + 1);
  if (renumberings > most_compared / (a->size() * columns)) {
    return std::nullopt;
  }
  const auto is_same_by = [&](const Renumbering& renumbered) {
    for (std::size_t i = 0; i < a->size() * columns; ++i) {
      const double x = (*a)[i / columns][i % columns];
      const double y = (*b)[i / columns][renumbered(i % columns, columns)];
      if (judge_timed(x, interval_of(row, x, evidences.first), y, interval_of(row, y, evidences.second)).verdict !=
          Verdict::same) {
        return false;
      }
    }
    return true;
  };
  const auto found = find_renumbering(columns, is_same_by);
  if (!found) {
    return std::nullopt;
  }
  return found->begin == 0 && found->flips == 0 ? same() : same("but for the numbers of the columns");
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

// A cache of which nothing is known but the leaf that is compared so; none where that cannot be so.
std::optional<CacheDescription> cache_with(Sameness sameness, const YamlNode& value) {
  static const std::string file = "alternative";
  CacheDescription cache;
  try {
    std::ranges::find(model::cache_leaves(), sameness, &LeafFacts::sameness)->read(model::Place(value, file), cache);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return cache;
}

Judgement judge_index_nodes(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  const auto a = cache_with(row.sameness, first);
  const auto b = cache_with(row.sameness, second);
  return a && a->index && b && b->index ? judge_indices(*a, *b) : judge_maps(first, second, by_rows(row, {}));
}

// Whether the cache would be the same with that value of its leaf; none where the value alone tells.
std::optional<bool> is_same_with(const LeafFacts& row, const CacheDescription& cache, const YamlNode& value) {
  const bool is_index = row.sameness == Sameness::index;
  if (!is_index && row.sameness != Sameness::policy) {
    return std::nullopt;
  }
  const auto supposed = cache_with(row.sameness, value);
  if (!supposed || !(is_index ? supposed->index.has_value() : supposed->replacement.has_value())) {
    return std::nullopt;
  }
  CacheDescription other = cache;
  if (is_index) {
    other.index = supposed->index;
    return judge_indices(cache, other).verdict == Verdict::same;
  }
  other.replacement = supposed->replacement;
  return judge_policies(cache, nullptr, other, nullptr).verdict == Verdict::same;
}

// Whether a value is one of the alternatives that the other description leaves. `known`: the cache that has it, if it
// is of one.
bool is_an_alternative(const LeafFacts& row, const YamlNode& value, const CacheDescription* known,
                       const std::vector<model::FlowYaml>& alternatives) {
  return std::ranges::any_of(alternatives, [&](const model::FlowYaml& alternative) {
    const YamlNode supposed = model::parse_yaml(alternative, "alternative");
    const auto by_meaning = known == nullptr ? std::nullopt : is_same_with(row, *known, supposed);
    return by_meaning ? *by_meaning : judge_nodes(row, supposed, value).verdict == Verdict::same;
  });
}

// Null: the section is none of a cache.
const CacheDescription* cache_of(const model::DeviceDescription& description, const std::string& section) {
  const auto found = description.caches.find(section);
  return found == description.caches.end() ? nullptr : &found->second;
}

// A leaf of the cache at that carve-out; null where the cache does not say.
YamlNode value_at(const LeafFacts& row, const CacheDescription& cache, std::uint32_t carveout_kb) {
  const auto there = sizes_at_carveout(cache, carveout_kb);
  return there ? model::parse_yaml(std::ranges::find(model::cache_leaves(), row.name, &LeafFacts::name)->write(*there),
                                   "carveouts")
               : YamlNode{};
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
    const CacheDescription* const first_cache = cache_of(first_, section);
    const CacheDescription* const second_cache = cache_of(second_, section);
    const auto a = carveout_of(first_, section);
    const auto b = carveout_of(second_, section);
    const bool are_carved = first_cache != nullptr && second_cache != nullptr && a && b && a != b &&
                            !(first_cache->carveouts.empty() && second_cache->carveouts.empty());
    for (const std::string& leaf : keys_of(*first, *second)) {
      const LeafFacts* const row = find(rows, leaf);
      if (row == nullptr || row->sameness == Sameness::given) {
        continue;
      }
      if (are_carved && row->is_carved) {
        compare_carved(*row, section, {.cache = first_cache, .own = find(*first, leaf), .carveout_kb = *a},
                       {.cache = second_cache, .own = find(*second, leaf), .carveout_kb = *b});
      } else {
        compare_leaf(*row, section, find(*first, leaf), find(*second, leaf));
      }
    }
  }

  // A leaf of a cache that was found out at some carve-out.
  struct Carved {
    const CacheDescription* cache = nullptr;
    const YamlNode* own = nullptr;  // its value there
    std::uint32_t carveout_kb = 0;
  };

  // What hangs on the carve-out, at one that both say something of.
  void compare_carved(const LeafFacts& row, const std::string& section, const Carved& first, const Carved& second) {
    const YamlNode second_there = value_at(row, *second.cache, first.carveout_kb);
    const YamlNode first_there = value_at(row, *first.cache, second.carveout_kb);
    const auto at = [](std::uint32_t kb) { return "at a carve-out of " + std::to_string(kb) + " KB"; };
    std::string where;
    if (!is_null(first.own) && !is_null(&second_there)) {
      compare_leaf(row, section, first.own, &second_there);
      where = at(first.carveout_kb);
    } else if (!is_null(second.own) && !is_null(&first_there)) {
      compare_leaf(row, section, &first_there, second.own);
      where = at(second.carveout_kb);
    } else {
      compare_leaf(row, section, first.own, second.own);
      found_.back().verdict = Verdict::open;
      found_.back().note = "";
      where = "cannot be compared: the first is " + at(first.carveout_kb) + ", the second " + at(second.carveout_kb);
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
    const bool is_one = is_an_alternative(row, value, cache_of(knows, section), evidence->alternatives);
    return text + (is_one ? ", this among others" : ", and this is none of its alternatives");
  }

  [[nodiscard]] Judgement judge(const LeafFacts& row, const std::string& section, const YamlNode& first,
                                const LeafEvidence* a, const YamlNode& second, const LeafEvidence* b) const {
    const CacheDescription* const x = cache_of(first_, section);
    const CacheDescription* const y = cache_of(second_, section);
    if (x != nullptr && y != nullptr) {
      if (row.sameness == Sameness::index && x->index && y->index) {
        return judge_indices(*x, *y);
      }
      if (row.sameness == Sameness::ways && x->ways && y->ways) {
        return judge_ways(*x, *y);
      }
      if (row.sameness == Sameness::policy && x->replacement && y->replacement) {
        return judge_policies(*x, a, *y, b);
      }
    }
    return judge_nodes(row, first, second, {.first = a, .second = b});
  }

  const model::Sections<model::DeviceDescription>& all_;
  const model::DeviceDescription& first_;
  const model::DeviceDescription& second_;
  YamlNode first_tree_;
  YamlNode second_tree_;
  std::vector<LeafDifference> found_;
};

}  // namespace

bool are_otherwise_in_a_word(const LeafFacts& row, const YamlNode& first, const YamlNode& second) {
  return std::ranges::any_of(row.parts, [&](const LeafFacts& part) {
    return is_otherwise_in(row, part, first, second) || is_otherwise_in(row, part, second, first);
  });
}

std::optional<std::uint32_t> carveout_of(const model::DeviceDescription& description, const std::string& section) {
  const CacheDescription* const cache = cache_of(description, section);
  if (cache != nullptr && cache->carveout_kb) {
    return cache->carveout_kb;
  }
  return model::told<std::uint32_t>(description.device.provenance, section, model::carveout_fact);
}

std::vector<LeafDifference> differences(const model::DeviceDescription& first, const model::DeviceDescription& second,
                                        const model::Sections<model::DeviceDescription>& all) {
  return Comparison(first, second, all).run();
}

}  // namespace gpuinfer::infer
