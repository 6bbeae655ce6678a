// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/infer_cache.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "infer/asking/disturbance.hpp"
#include "infer/asking/ending.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/cache/aliases.hpp"
#include "infer/cache/claim_sizes.hpp"
#include "infer/cache/claim_slice_accesses.hpp"
#include "infer/cache/conclude.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/explain_by_sets.hpp"
#include "infer/cache/explain_by_store.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/hints.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "infer/cache/prefetch.hpp"
#include "infer/cache/prove.hpp"
#include "infer/cache/stores.hpp"
#include "infer/circumstances/circumstances.hpp"
#include "infer/circumstances/claim_circumstances.hpp"
#include "infer/policy/policy_questions.hpp"
#include "infer/slices/claim_slices.hpp"

namespace gpuinfer::infer {

namespace {

bool claims_nothing(const CacheClaims& claims) {
  bool nothing = true;
  for_each_claim(claims, [&](std::string_view /*leaf*/, const auto& claim, auto /*member*/) {
    nothing = nothing && !claim.value && claim.alternatives.empty();
  });
  return nothing;
}

// Whether there may be a prefetch.
bool claim_fills(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts) {
  const FillGranularity fill = claim_sector(asker, claims, doubts);
  if (fill.runs_ahead) {
    conflicts.go_downwards();
  }
  if (!claims.sector_bytes.value) {
    doubts.try_emplace(Doubt::unproven, claims.sector_bytes.reason);
  } else if (asker.starts_flooded()) {
    doubts[Doubt::started_flooded] = "no question began with an empty cache";
  }
  return fill.may_prefetch;
}

// Onset and line, as far as there are any; behind a nearer level, all that hits and misses tell. Needs sector_bytes.
void claim_sizes(Interrogator& asker, Conflicts& conflicts, CacheClaims& claims, Doubts& doubts) {
  asker.report("capacity at which misses begin", 0.05);
  claim_onset(asker, conflicts, claims);
  if (!claims.onset_bytes.value) {
    doubts.try_emplace(Doubt::unproven, claims.onset_bytes.reason);
  }
  if (asker.buffer().nearer_bytes) {
    claim_outer_sets(asker, claims);
    if (claims.onset_bytes.value) {
      if (!claims.onset_bytes.stands_alone) {
        confirm_onset_elsewhere(asker, conflicts, claims, doubts);
      }
      doubts.try_emplace(Doubt::unproven, "masked by the level in front of it");
    }
  } else if (claims.onset_bytes.value) {
    claim_line(asker, conflicts, claims, doubts);
  }
}

bool is_explained(const CacheClaims& claims) { return claims.predicted_trials > 0 || claims.sets_are_counted; }

// Lines of which too many fit, or none of which can be told from a hit, may be such as tags of a few bits take for each
// other.
bool may_have_aliases(const Asker& asker, const CacheClaims& claims) {
  return !is_explained(claims) && !asker.starts_flooded() && !asker.buffer().nearer_bytes && !asker.buffer().raster;
}

// Nothing has proven the line, and nothing speaks for longer ones than a sector.
bool may_tell_lines(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  const bool has_none = !claims.line_bytes.value && !asker.buffer().nearer_bytes;
  return !is_explained(claims) && claims.sector_bytes.value &&
         (has_none || claims.line_bytes.value == claims.sector_bytes.value) && !asker.starts_flooded() &&
         !doubts.contains(Doubt::levels_unclear);
}

// What was taken for a line may be several, where nothing that followed from it explains the cache.
bool may_be_several_lines(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return !is_explained(claims) && claims.line_bytes.value && claims.sector_bytes.value && claims.onset_bytes.value &&
         *claims.line_bytes.value > *claims.sector_bytes.value && !claims.line_bytes.stands_alone &&
         !asker.starts_flooded() && !asker.buffer().nearer_bytes && !asker.buffer().raster &&
         !doubts.contains(Doubt::levels_unclear);
}

// What comes along with some misses would take room that no load of the pool shows.
bool may_tell_room(const Interrogator& asker, const CacheClaims& claims, const Doubts& doubts) {
  return !is_explained(claims) && claims.line_bytes.stands_alone && !asker.starts_flooded() &&
         !asker.buffer().nearer_bytes && !asker.buffer().raster && !doubts.contains(Doubt::levels_unclear) &&
         !doubts.contains(Doubt::undescribed);
}

std::optional<Bytes> alias_distance_of(Asker& asker) {
  asker.inquire("loads of two places half a buffer apart, together and alone",
                "tags of a few bits would take one for the other");
  std::optional<Bytes> distance;
  try {
    distance = find_alias_distance(asker);
  } catch (const QuestionRefused&) {
    asker.learned("not recorded");
    return std::nullopt;
  }
  asker.learned(distance ? "places " + std::to_string(*distance) + " bytes apart are taken for the same one"
                         : "they are told apart");
  return distance;
}

// Lines at the same places in them lie in other slices, so what is contiguous is kept here or there by where its pages
// lie.
std::size_t blocks_of_other_slices(const CacheClaims& claims) {
  return claims.slice_index && claims.slice_index->value ? claims.slice_index->details.blocks_unlike.value_or(0) : 0;
}

// Who asks once hits are told from misses, and what is known of lines that drive each other out.
struct Reader {
  Reader(Asker before, LevelClassifier classifier)
      : asker(std::move(before), std::move(classifier)), conflicts(asker, asker.settings().seed) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  Reader(Reader&&) = delete;
  Reader& operator=(Reader&&) = delete;
  ~Reader() = default;

  Interrogator asker;
  Conflicts conflicts;
};

// One run. Each attempt claims something or doubts it; what ends one attempt does not keep the next from being made.
class CacheInference {
 public:
  CacheInference(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(&device), asker_(std::in_place_type<Asker>, device, target, settings) {}

  // Calibration, sector, slices, onset and line. Until hits are told from misses nothing else can be attempted.
  void find_sizes() {
    attempt([this] {
      if (auto classifier = claim_latency(asker(), spans_, claims_, ending_.warnings)) {
        Asker before = std::move(asker());
        auto& [reader, conflicts] = asker_.emplace<Reader>(std::move(before), *std::move(classifier));
        may_prefetch_ = claim_fills(reader, conflicts, claims_, doubts_);
      } else {
        doubts_.try_emplace(Doubt::unproven, claims_.latency_cycles.reason);
      }
    });
    Reader* known = reader();
    if (!known || !claims_.sector_bytes.value) {
      return;
    }
    if (has_slices_to_tell(known->asker)) {
      attempt([&] { claim_partitions(known->asker, claims_, 0.05); });
      attempt([&] {
        if (const auto slice = claim_slices(known->asker, claims_)) {
          claim_slice_accesses(known->asker, *slice, claims_);
        }
      });
    }
    if (claims_.sets_are_counted) {
      // It would take most of the loads, and tell of the pages of one array.
      claims_.onset_bytes.reason =
          "how many contiguous bytes fit depends on the slices in which the pages of an array lie";
      claims_.onset_bytes.trials = blocks_of_other_slices(claims_);
      claims_.onset_bytes.has_none = claims_.onset_bytes.trials > 0;
    } else {
      attempt([&] { claim_sizes(known->asker, known->conflicts, claims_, doubts_); });
    }
  }

  // At the smallest of several sizes a few hundred loads tell whether one of them evicts several lines; at the only
  // one it may take more than to look for sets. Where a store is looked for first, sets that are none need not be.
  [[nodiscard]] bool begins_with_store() {
    const Reader* known = reader();
    return known && !known->asker.facts().shared_memories_kb.empty();
  }

  void look_for_store() {
    Reader* known = reader();
    if (known && may_have_store(known->asker, claims_, doubts_)) {
      attempt([&] {
        store_ = explain_by_store(known->asker, *device_, claims_);
        claims_.sets_are_counted = claims_.sets_are_counted && store_ == StoreEvidence::none;
      });
    }
  }

  void look_for_sets() {
    Reader* known = reader();
    if (!known || !claims_.line_bytes.value || known->asker.buffer().nearer_bytes || store_ == StoreEvidence::proven ||
        claims_.sets_are_counted) {
      return;
    }
    attempt([&] {
      if (store_ == StoreEvidence::seen) {
        doubts_.try_emplace(Doubt::unproven,
                            "loads evict several lines at once, as from a store apart from the tags, of "
                            "which no complete description could be verified");
        predict_as_well_as_possible(known->asker, claims_, doubts_);
      } else {
        explain_by_sets(known->asker, *device_, known->conflicts, claims_, doubts_);
      }
    });
  }

  // Lines may have been driven out of the next level, too, when misses were timed.
  void look_again_with_finer_spans() {
    if (meets_another()) {
      start_again();
      spans_ = Spans::fine;
      find_sizes();
      look_for_sets();
    }
  }

  void look_again_within_alias_distance() {
    if (const std::optional<Bytes> distance = alias_distance()) {
      start_again();
      asker().stay_within(*distance);
      doubts_[Doubt::undescribed] =
          "places " + std::to_string(*distance) +
          " bytes apart are taken for the same one, so no more bytes than these were asked about";
      find_sizes();
      look_for_sets();
    }
  }

  void tell_lines() {
    Reader* known = reader();
    if (known && store_ != StoreEvidence::proven && may_tell_lines(known->asker, claims_, doubts_)) {
      attempt([&] { claim_line_of_one_sector(known->asker, claims_); });
    }
  }

  void doubt_line() {
    Reader* known = reader();
    if (known && store_ == StoreEvidence::none && may_be_several_lines(known->asker, claims_, doubts_)) {
      attempt([&] { doubt_long_line(known->asker, claims_, doubts_); });
    }
  }

  void tell_room() {
    Reader* known = reader();
    if (known && store_ == StoreEvidence::none && may_tell_room(known->asker, claims_, doubts_)) {
      attempt([&] { claim_room(known->asker, claims_); });
    }
  }

  // What neither depends on sets nor on a store.
  void find_circumstances() {
    if (Reader* known = reader()) {
      attempt([&] {
        if (!claims_.partitions) {
          claim_partitions(known->asker, claims_, 0.95);
        }
      });
      attempt([&] { claim_circumstances(known->asker, claims_, ending_.warnings); });
      attempt([&] {
        if (!claims_.store) {
          claim_stores(known->asker, claims_);
        }
      });
      attempt([&] {
        if (!claims_.hints) {
          const bool are_empty = start_of(known->asker) != SetStart::flooded;
          claim_hints(known->asker, are_empty ? SetsAtStart::empty : SetsAtStart::full, claims_);
        }
      });
      attempt([&] { claim_prefetch(known->asker, claims_, may_prefetch_); });
    }
  }

  [[nodiscard]] CacheFinding conclusion() {
    if (const Reader* known = reader(); known && known->conflicts.met_unexplained_misses()) {
      doubts_.try_emplace(Doubt::onset_unconfirmed,
                          "lines that fit together in the end have missed before, more often than misreads explain");
    }
    if (const Reader* known = reader(); known && ending_.ended_early && may_be_other_lines(known->asker)) {
      doubts_.try_emplace(Doubt::line_uncertain, "the asking ended before other sizes of a line were ruled out");
    }
    asker().report("done", 1.0);
    if (auto disturbance = disturbance_of(*device_)) {
      doubts_.emplace(Doubt::disturbed, *std::move(disturbance));
    }
    CacheFinding finding = conclude(claims_, doubts_);
    finding.cache.carveout_kb = own_carveout_kb(device_->facts(), asker().target());
    static_cast<Ending&>(finding) = std::move(ending_);
    finding.evidence.inquiries = asker().inquiries();
    finding.questions = asker().questions_asked();
    finding.accesses = asker().accesses_asked();
    return finding;
  }

 private:
  [[nodiscard]] static Doubts doubts_at_first() {
    return {{Doubt::onset_unconfirmed, "no set was seen to overflow there"}};
  }

  // None: hits are not told from misses.
  [[nodiscard]] Reader* reader() { return std::get_if<Reader>(&asker_); }

  [[nodiscard]] Asker& asker() {
    Reader* known = reader();
    return known ? known->asker : std::get<Asker>(asker_);
  }

  template <class Asking>
  void attempt(Asking asking) {
    const auto knows_nothing = [this] { return claims_nothing(claims_); };
    if (auto reason = go_through(ending_, knows_nothing, asking)) {
      doubts_.try_emplace(Doubt::unproven, *reason);
      doubts_.try_emplace(Doubt::cut_short, *std::move(reason));
    }
  }

  // As before the first attempt, but for what the log holds.
  void start_again() {
    if (Reader* known = reader()) {
      Asker before = std::move(known->asker);
      asker_.emplace<Asker>(std::move(before));
    }
    may_prefetch_ = false;
    claims_ = {};
    doubts_ = doubts_at_first();
    ending_.warnings.clear();
  }

  [[nodiscard]] bool may_be_other_lines(const Interrogator& known) const {
    return may_tell_lines(known, claims_, doubts_) || may_be_several_lines(known, claims_, doubts_);
  }

  [[nodiscard]] bool meets_another() {
    bool meets = false;
    Reader* known = reader();
    if (known && doubts_.contains(Doubt::levels_unclear) && !ending_.ended_early) {
      attempt([&] { meets = meets_another_level(known->asker); });
    }
    return meets;
  }

  [[nodiscard]] std::optional<Bytes> alias_distance() {
    std::optional<Bytes> distance;
    if (store_ == StoreEvidence::none && !ending_.ended_early && may_have_aliases(asker(), claims_)) {
      attempt([&] { distance = alias_distance_of(asker()); });
    }
    return distance;
  }

  model::Answerer* device_;
  std::variant<Asker, Reader> asker_;
  Spans spans_ = Spans::coarse;
  StoreEvidence store_ = StoreEvidence::none;
  bool may_prefetch_ = false;
  CacheClaims claims_;
  Doubts doubts_ = doubts_at_first();
  Ending ending_;
};

}  // namespace

CacheFinding infer_cache(model::Answerer& device, const std::string& target, const Settings& settings) {
  CacheInference inference(device, target, settings);
  inference.find_sizes();
  const bool begins_with_store = inference.begins_with_store();
  if (begins_with_store) {
    inference.look_for_store();
  }
  inference.look_for_sets();
  inference.look_again_with_finer_spans();
  inference.look_again_within_alias_distance();
  if (!begins_with_store) {
    inference.look_for_store();
  }
  inference.tell_lines();
  inference.doubt_line();
  inference.tell_room();
  inference.find_circumstances();
  return inference.conclusion();
}

}  // namespace gpuinfer::infer
