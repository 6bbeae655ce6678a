// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/conclude.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "infer/asking/leaves.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/asking/written_leaf.hpp"
#include "model/description/sections.hpp"
#include "model/index_function.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::LeafEvidence;
using enum Doubt;

constexpr unsigned bits(std::same_as<Doubt> auto... doubts) {
  return (0U | ... | (1U << static_cast<unsigned>(doubts)));
}

struct Rule {
  std::string_view leaf;
  bool is_predicted;  // hits and misses that were predicted prove it, whatever else is in doubt
  bool is_counted;    // so do sets that were counted, unless something touched the answers
  unsigned leaves_ambiguous;
  unsigned leaves_unknown;
};

// A description that was complete and predicts wrongly may be wrong anywhere but in what a miss brings, which loads of
// neighbours show whatever becomes of lines.
constexpr unsigned anywhere = bits(mispredicted, levels_unclear, disturbed);
// So may what grew from a start that was not empty. Before a set was seen to overflow at the onset, nothing has
// confirmed that it is one, nor what was found of it.
constexpr unsigned from_onset = anywhere | bits(onset_unconfirmed, started_flooded);

// Lines that fit say how much room there is. Without a policy that explains who leaves when there is none, the room may
// be organised otherwise than in the sets that were found: in tags apart from the data, for example. No prediction of
// hits and misses proves latencies and circumstances.
constexpr std::array rules{
    Rule{"capacity_bytes", true, true, bits(unproven, disturbed), 0},
    Rule{"onset_bytes", true, false, from_onset, 0},
    Rule{"line_bytes", true, true, from_onset | bits(line_uncertain), 0},
    Rule{"sector_bytes", true, false, bits(levels_unclear, disturbed), 0},
    Rule{"ways", true, true, bits(unproven, disturbed), 0},
    Rule{"index", true, true, bits(unproven, disturbed), 0},
    Rule{"replacement", true, false, bits(unproven, undescribed, disturbed), bits(contradicted)},
    Rule{"store_lines", true, false, bits(unproven, disturbed), 0},
    Rule{"sweep", true, false, bits(unproven, disturbed), 0},
    Rule{"fill", false, false, bits(levels_unclear, disturbed), 0},
    Rule{"store", false, false, bits(levels_unclear, disturbed), 0},
    Rule{"hints", false, false, bits(levels_unclear, disturbed), 0},
    Rule{"set_asides", false, false, bits(levels_unclear, disturbed), 0},
    Rule{"latency_cycles", false, false, bits(disturbed), bits(levels_unclear)},
};

// Of all other leaves, which stages show that ask for them alone.
constexpr Rule other_leaves{"", false, false, bits(disturbed), 0};

const Rule& rule_of(std::string_view leaf) {
  const auto* const rule = std::ranges::find(rules, leaf, &Rule::leaf);
  return rule == rules.end() ? other_leaves : *rule;
}

// What is seen of these doubts, each sentence once.
std::string sentences_of(unsigned which, const Doubts& doubts) {
  std::string text;
  for (const auto& [doubt, sentence] : doubts) {
    if ((bits(doubt) & which) != 0 && doubt != disturbed && text.find(sentence) == std::string::npos) {
      text += (text.empty() ? "" : "; ") + sentence;
    }
  }
  if ((bits(disturbed) & which) != 0 && doubts.contains(disturbed)) {
    text += (text.empty() ? "not proven: it was measured, and meanwhile " : "; and meanwhile ") + doubts.at(disturbed);
  }
  return text;
}

// Values of a leaf as they stand in a description.
template <class Value, class Member>
std::vector<model::FlowYaml> texts_of(std::string_view leaf, const std::vector<Value>& values, Member member) {
  std::vector<model::FlowYaml> texts;
  if constexpr (std::is_same_v<Value, model::FlowYaml>) {
    texts = values;
  } else if constexpr (!std::is_null_pointer_v<Member>) {
    for (const Value& value : values) {
      texts.push_back(written_leaf(leaf, member, value));
    }
  }
  return texts;
}

struct JudgedLeaf {
  LeafEvidence evidence;
  bool keeps_value = false;
};

class Judge {
 public:
  Judge(const CacheClaims& claims, const Doubts& doubts)
      : claims_(claims), doubts_(doubts), is_predicted_(claims.predicted_trials > 0),
        is_counted_(claims.sets_are_counted && !doubts.contains(disturbed)) {
    doubts_.try_emplace(unproven, "no complete description could be verified on fresh sequences");
  }

  template <class Value>
  [[nodiscard]] JudgedLeaf judge(std::string_view leaf, const Claim<Value>& claim) const {
    JudgedLeaf judgement;
    LeafEvidence& evidence = judgement.evidence;
    evidence.details = claim.details;
    evidence.experiments = claim.questions;
    if (claim.has_none && !doubts_.contains(disturbed) && confidence_after(claim.trials) >= least_confidence) {
      evidence.status = EvidenceStatus::resolved;
      evidence.reason = claim.reason;
      evidence.confidence = confidence_after(claim.trials);
      return judgement;
    }
    if (!claim.value) {
      evidence.status = claim.alternatives.empty() ? EvidenceStatus::unknown : EvidenceStatus::ambiguous;
      evidence.reason =
          claim.reason.empty() ? doubts_.at(doubts_.contains(cut_short) ? cut_short : unproven) : claim.reason;
      return judgement;
    }
    const Rule& rule = rule_of(leaf);
    const bool is_proven = (rule.is_predicted && is_predicted_) || (rule.is_counted && is_counted_) ||
                           (claim.stands_alone && !doubts_.contains(disturbed));
    const unsigned open = is_proven ? 0 : seen_of(rule.leaves_ambiguous | rule.leaves_unknown);
    if (open != 0) {
      const bool says_nothing = (open & rule.leaves_unknown) != 0;
      evidence.status = says_nothing ? EvidenceStatus::unknown : EvidenceStatus::ambiguous;
      evidence.reason = sentences_of(open, doubts_) + (claim.tested.empty() ? "" : "; " + claim.tested);
      return judgement;
    }
    const std::size_t trials = trials_of(rule, claim.trials);
    if (claim.reason.empty() && confidence_after(trials) < least_confidence) {
      evidence.status = EvidenceStatus::ambiguous;
      evidence.reason = "no more than " + std::to_string(trials) + " trials could have refuted it";
      return judgement;
    }
    judgement.keeps_value = true;
    evidence.status = claim.reason.empty() ? EvidenceStatus::resolved : EvidenceStatus::ambiguous;
    evidence.reason = claim.reason;
    if (evidence.status == EvidenceStatus::resolved) {
      evidence.confidence = confidence_after(trials);
      evidence.bound = claim.bound;
    }
    return judgement;
  }

 private:
  // Sets that fill as they should are also of lines of that size.
  [[nodiscard]] std::size_t trials_of(const Rule& rule, std::size_t of_claim) const {
    if (rule.is_predicted && is_predicted_) {
      return claims_.predicted_trials;
    }
    const bool sets_stand = claims_.ways.value && claims_.ways.stands_alone;
    return rule.is_counted && sets_stand ? std::max(of_claim, claims_.ways.trials) : of_claim;
  }

  [[nodiscard]] unsigned seen_of(unsigned which) const {
    unsigned seen = 0;
    for (const auto& [doubt, sentence] : doubts_) {
      seen |= bits(doubt) & which;
    }
    return seen;
  }

  const CacheClaims& claims_;
  Doubts doubts_;
  bool is_predicted_;
  bool is_counted_;
};

// So many contiguous bytes fit and no more, which need not be all there is room for.
void suppose_capacity(CacheFinding& finding) {
  LeafEvidence& capacity = finding.evidence.leaves.at("capacity_bytes");
  if (capacity.status == EvidenceStatus::unknown && finding.cache.onset_bytes) {
    capacity.status = EvidenceStatus::ambiguous;
    capacity.alternatives = {
        written_leaf("capacity_bytes", &model::CacheDescription::capacity_bytes, finding.cache.onset_bytes)};
    capacity.reason =
        "so many contiguous bytes fit and no more, which need not be all there is room for: " + capacity.reason;
  }
}

bool are_close(std::uint64_t a, std::uint64_t b) {
  constexpr double least_ratio = 0.9;
  return static_cast<double>(std::min(a, b)) >= least_ratio * static_cast<double>(std::max(a, b));
}

std::optional<std::uint64_t> bytes_counted(const CacheClaims& claims) {
  if (!claims.ways.value || !claims.line_bytes.value || claims.store_lines) {
    return std::nullopt;
  }
  return std::reduce(claims.ways.value->begin(), claims.ways.value->end(), std::uint64_t{0}) * *claims.line_bytes.value;
}

struct Conflict {
  std::vector<std::string_view> leaves;
  std::string sentence;
};

std::string bytes_text(double bytes) { return model::whole_text(bytes) + " bytes"; }

// Values that cannot hold together, however well each of them was tested.
// `contiguous_bytes`: that fit, at one base at least. `counted_bytes`: that sets hold which were counted, proven or
// not.
std::vector<Conflict> conflicts_of(const model::CacheDescription& cache, std::optional<std::uint64_t> contiguous_bytes,
                                   std::optional<std::uint64_t> counted_bytes) {
  // Lines that a nearer level keeps are resident, too, and those of sets that few loads meet may not be.
  constexpr double most_resident = 1.25;
  // Random loads fill a cache but for the sets that few of them meet.
  constexpr double least_resident = 0.85;
  std::vector<Conflict> found;
  const auto check = [&](bool holds, std::vector<std::string_view> leaves, std::string sentence) {
    if (!holds) {
      found.push_back({.leaves = std::move(leaves), .sentence = std::move(sentence)});
    }
  };
  if (cache.capacity_bytes) {
    const auto capacity = static_cast<double>(*cache.capacity_bytes);
    const std::string capacity_text = bytes_text(capacity);
    if (cache.onset_bytes) {
      check(
          *cache.onset_bytes <= *cache.capacity_bytes, {"capacity_bytes", "onset_bytes"},
          bytes_text(static_cast<double>(*cache.onset_bytes)) + " in a row fit, and the capacity is " + capacity_text);
    }
    if (cache.ways && cache.ways->size() == 1 && contiguous_bytes) {
      check(*contiguous_bytes >= *cache.capacity_bytes, {"capacity_bytes", "ways"},
            "of a single set " + bytes_text(static_cast<double>(*contiguous_bytes)) +
                " in a row fit and no more, and its capacity is " + capacity_text);
    }
    // Lines that something takes away now and then make nearly full sets look like a smaller cache that is always full.
    if (!cache.ways && counted_bytes) {
      check(*counted_bytes == *cache.capacity_bytes || !are_close(*counted_bytes, *cache.capacity_bytes),
            {"capacity_bytes"},
            "random loads find room for " + capacity_text + ", and sets were counted that hold " +
                bytes_text(static_cast<double>(*counted_bytes)));
    }
    if (cache.resident_bytes) {
      const auto [fewest, most] = *cache.resident_bytes;
      check(fewest <= most_resident * capacity, {"capacity_bytes", "ways", "resident_bytes"},
            "random loads find " + bytes_text(fewest) + " or more, and the capacity is " + capacity_text);
      check(most >= least_resident * capacity, {"capacity_bytes", "ways", "resident_bytes"},
            "random loads find no more than " + bytes_text(most) + ", and the capacity is " + capacity_text);
    }
  }
  if (cache.ways && cache.index) {
    check(model::sets(*cache.index) == cache.ways->size(), {"ways", "index"},
          "the index has " + std::to_string(model::sets(*cache.index)) + " sets, and " +
              std::to_string(cache.ways->size()) + " have ways");
  }
  if (cache.line_bytes && cache.sector_bytes) {
    check(*cache.line_bytes % *cache.sector_bytes == 0, {"line_bytes", "sector_bytes"},
          "a line of " + std::to_string(*cache.line_bytes) + " bytes has no whole number of sectors of " +
              std::to_string(*cache.sector_bytes));
  }
  return found;
}

// Opens all leaves of each conflict.
void open_conflicts(const CacheClaims& claims, CacheFinding& finding) {
  for (const Conflict& conflict : conflicts_of(finding.cache, claims.onset_bytes.value, bytes_counted(claims))) {
    for_each_claim(claims,
                   [&]<class Value, class Member>(std::string_view leaf, const Claim<Value>& claim, Member member) {
                     if (std::ranges::find(conflict.leaves, leaf) == conflict.leaves.end()) {
                       return;
                     }
                     LeafEvidence& evidence = finding.evidence.leaves.at(std::string(leaf));
                     evidence.status = EvidenceStatus::ambiguous;
                     evidence.confidence.reset();
                     evidence.bound.reset();
                     evidence.reason = conflict.sentence;
                     if constexpr (!std::is_null_pointer_v<Member>) {
                       finding.cache.*member = {};
                       evidence.alternatives = texts_of(leaf, std::vector<Value>{*claim.value}, member);
                     }
                   });
  }
}

}  // namespace

CacheFinding conclude(const CacheClaims& claims, const Doubts& doubts) {
  const Judge judge(claims, doubts);
  CacheFinding finding;
  for_each_claim(claims,
                 [&]<class Value, class Member>(std::string_view leaf, const Claim<Value>& claim, Member member) {
                   auto [evidence, keeps_value] = judge.judge(leaf, claim);
                   if constexpr (!std::is_null_pointer_v<Member>) {
                     if (keeps_value) {
                       finding.cache.*member = *claim.value;
                     }
                   }
                   if (!claim.value) {
                     evidence.alternatives = texts_of(leaf, claim.alternatives, member);
                   } else if (!keeps_value && evidence.status == EvidenceStatus::ambiguous) {
                     evidence.alternatives = texts_of(leaf, std::vector<Value>{*claim.value}, member);
                   }
                   finding.evidence.leaves.emplace(leaf, std::move(evidence));
                 });
  if (finding.cache.index) {
    finding.cache.exercised_bits = claims.exercised_bits;
  }
  open_conflicts(claims, finding);
  suppose_capacity(finding);
  finding.evidence.prediction = claims.prediction;
  return finding;
}

model::CacheDescription claimed_cache(const CacheClaims& claims) {
  model::CacheDescription cache;
  for_each_claim(claims,
                 [&]<class Value, class Member>(std::string_view /*leaf*/, const Claim<Value>& claim, Member member) {
                   if constexpr (!std::is_null_pointer_v<Member>) {
                     if (claim.value) {
                       cache.*member = *claim.value;
                     }
                   }
                 });
  cache.exercised_bits = claims.exercised_bits;
  return cache;
}

}  // namespace gpuinfer::infer
