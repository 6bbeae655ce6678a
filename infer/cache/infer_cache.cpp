// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/infer_cache.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "infer/asking/disturbance.hpp"
#include "infer/asking/interrogator.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/cache/conflicts.hpp"
#include "infer/cache/even_sets.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/cache/index_search.hpp"
#include "infer/cache/latency_levels.hpp"
#include "infer/cache/partition.hpp"
#include "infer/cache/prediction.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/cache/swept_store.hpp"
#include "infer/circumstances/circumstance_leaves.hpp"
#include "infer/policy/policy_questions.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;

constexpr std::array leaf_names{"capacity_bytes", "onset_bytes", "line_bytes",  "sector_bytes",
                                "ways",           "index",       "replacement", "latency_cycles"};
// Of caches with more tags than lines of data.
constexpr std::array store_leaf_names{"ways",        "index", "replacement", "capacity_bytes",
                                      "store_lines", "sweep", "carveouts"};

template <std::size_t count>
bool is_among(const std::array<const char*, count>& names, const std::string& leaf) {
  return std::find(names.begin(), names.end(), leaf) != names.end();
}

// A window is not widened further than this in search of the period of a table.
constexpr std::size_t widest_window_lines = 4096;

// With which the policy is found.
constexpr std::size_t most_single_sets = 64;

// Packings that an index function has to pass where no policy is there to predict. Where one is, the prediction is the
// harder test, and fewer will do; but a packing of few lines says little.
constexpr std::size_t all_packings = 64;
std::size_t first_packings(const std::vector<std::uint32_t>& ways) {
  const std::uint64_t lines = std::accumulate(ways.begin(), ways.end(), std::uint64_t{0});
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(2048 / lines, 3, all_packings));
}

// The stages of one inference, in order; each writes the leaves that it settles into the finding.
class Inference {
 public:
  Inference(model::Answerer& device, const std::string& target, const Settings& settings)
      : answerer_(device), device_(device, target, settings), conflicts_(device_, settings.seed),
        leaves_(device_, finding_, leaf_names) {}

  CacheFinding run() {
    go_through([this] { find_all(); });
    go_through([this] { find_store_behind_tags(); });
    go_through([this] { settle_circumstances(device_, finding_, leaves_); });
    disturbance_ = disturbance_of(answerer_);
    withdraw_unproven();
    if (disturbance_) {
      withdraw_circumstances(finding_, leaves_, *disturbance_);
    }
    withdraw_disturbed_latency();
    state_confidence();
    leaves_.close();
    return std::move(finding_);
  }

 private:
  template <class Stages>
  void go_through(Stages stages) {
    if (const std::optional<std::string> reason = leaves_.go_through(stages); reason && unproven_.empty()) {
      unproven_ = *reason;
    }
  }

  // Everything that is not settled stays null, with this reason.
  void give_up_rest(const std::string& reason) {
    leaves_.give_up_rest(reason);
    if (unproven_.empty()) {
      unproven_ = reason;
    }
  }

  template <class Value, class ToFlow>
  void withdraw(const char* leaf, std::optional<Value>& value, const ToFlow& to_flow, const std::string& remark = {}) {
    if (value) {
      leaves_[leaf].alternatives = {to_flow(*value)};
      leaves_.leave_open(leaf, EvidenceStatus::ambiguous, unproven_ + remark);
      value.reset();
    }
  }

  [[nodiscard]] std::string packings_remark() const {
    return packings_.packings == 0
               ? ""
               : "; of " + std::to_string(packings_.packings) + " packings of so many lines " +
                     std::to_string(packings_.packings - packings_.full_that_missed) + " fit, and with one line more " +
                     std::to_string(packings_.surplus_that_fitted);
  }

  // What was found but not proven by experiments that took no part in finding it becomes an alternative.
  void withdraw_unproven() {
    if (policy_proven_) {
      return;
    }
    if (sets_are_proven_ && !disturbance_) {
      if (!onset_is_confirmed_) {
        unproven_ = "another array of so many bytes does not fit";
        withdraw("onset_bytes", finding_.cache.onset_bytes, [](std::uint64_t bytes) { return std::to_string(bytes); });
      }
      return;
    }
    if (unproven_.empty()) {
      unproven_ = "no complete description could be verified on fresh sequences";
    }
    if (disturbance_) {
      unproven_ += "; and meanwhile " + *disturbance_;
    }
    model::CacheDescription& cache = finding_.cache;
    if (levels_in_doubt_) {
      cache.latency_cycles = {};
      leaves_.leave_open("latency_cycles", EvidenceStatus::unknown, unproven_);
    }
    const auto number = [](std::uint64_t value) { return std::to_string(value); };
    withdraw("replacement", cache.replacement, [](const auto& policy) { return model::to_flow_yaml(policy); });
    if (contradicted_) {
      leaves_["replacement"].alternatives.clear();
      leaves_.leave_open("replacement", EvidenceStatus::unknown, unproven_);
    }
    // Lines that fit say how much room there is, but without a policy that explains who leaves when there is none, the
    // room may be organised otherwise than in these sets: in tags apart from the data, for example.
    const std::string remark = packings_remark();
    withdraw(
        "ways", cache.ways, [](const auto& ways) { return model::to_flow_yaml(ways); }, remark);
    withdraw(
        "index", cache.index, [](const auto& index) { return model::to_flow_yaml(index); }, remark);
    cache.exercised_bits.reset();
    withdraw("capacity_bytes", cache.capacity_bytes, number, remark);
    // A description that was complete and predicts wrongly may be wrong anywhere, and so may one that grew from a start
    // which was not empty. Before a set was seen to overflow at the onset, nothing has confirmed that it is one, nor
    // what was found of it. Whoever else loads makes misses that repeat for a while.
    const bool all_in_doubt = prediction_failed_ || levels_in_doubt_ || device_.starts_flooded() ||
                              !onset_is_confirmed_ || disturbance_.has_value();
    if (all_in_doubt || !line_is_certain_) {
      withdraw("line_bytes", cache.line_bytes, number);
    }
    if (all_in_doubt) {
      withdraw("onset_bytes", cache.onset_bytes, number);
    }
    if (prediction_failed_ || levels_in_doubt_ || disturbance_) {
      withdraw("sector_bytes", cache.sector_bytes, number);
    }
    if (!cache.capacity_bytes && cache.onset_bytes && leaves_["capacity_bytes"].status == EvidenceStatus::unknown) {
      leaves_["capacity_bytes"].alternatives = {number(*cache.onset_bytes)};
      leaves_.leave_open("capacity_bytes", EvidenceStatus::ambiguous,
                         "so many contiguous bytes fit and no more, which need not be all there is room for: " +
                             leaves_["capacity_bytes"].reason);
    }
  }

  // No prediction of hits and misses proves latencies, which come with the clock and with who else is there.
  void withdraw_disturbed_latency() {
    if (!disturbance_ || leaves_["latency_cycles"].status != EvidenceStatus::resolved) {
      return;
    }
    const auto& [hit, miss] = finding_.cache.latency_cycles;
    leaves_.leave_open("latency_cycles", EvidenceStatus::ambiguous,
                       "not proven: hit " + model::to_text(hit.value_or(0)) + ", miss " +
                           model::to_text(miss.value_or(0)) + " cycles were measured, and meanwhile " + *disturbance_);
    finding_.cache.latency_cycles = {};
  }

  // For what a whole description predicts, the trials are the fresh accesses that were judged (of a cache with chance,
  // the fresh sequences and victims are fewer); for what stands without one, the questions that were asked about it.
  void state_confidence() {
    constexpr std::size_t trials_by_chance = 500;
    leaves_.state_confidence([this](const std::string& leaf, std::size_t questions) {
      const bool is_predicted =
          is_among(leaf_names, leaf) || (finding_.cache.sweep && is_among(store_leaf_names, leaf));
      if (!policy_proven_ || !is_predicted) {
        return questions;
      }
      return model::is_deterministic(*finding_.cache.replacement) ? finding_.evidence.prediction->accesses
                                                                  : trials_by_chance;
    });
  }

  void find_all() {
    device_.report("hit and miss latencies", 0.01);
    if (!find_latencies()) {
      return;
    }
    device_.report("fill granularity", 0.03);
    if (!find_sector()) {
      return;
    }
    device_.report("capacity at which misses begin", 0.05);
    const bool has_onset = find_capacity_onset();
    if (device_.buffer().nearer_bytes) {
      // Lines of one set, and whoever follows a single line, would be found in the nearer level.
      find_even_sets_of_many_lines();
      if (has_onset) {
        confirm_onset_elsewhere();
        give_up_rest("a nearer level answers in its place when few lines are loaded");
      }
      return;
    }
    if (!has_onset) {
      return;
    }
    bool has_sets = find_line_and_sets();
    // Among many ways, chance keeps strange lines for long: then the onset may have been wrong already.
    if (device_.floods_by_loads() && !conflicts_.warms_up_longer() && (!has_sets || packings_.failed())) {
      conflicts_.warm_up_longer();
      device_.report("capacity once more, after longer warm-ups", 0.05);
      packings_ = {};
      if (!find_capacity_onset()) {
        return;
      }
      has_sets = find_line_and_sets();
    }
    if (!has_sets) {
      predict_as_well_as_possible();
      return;
    }
    device_.report("replacement policy", 0.7);
    find_replacement();
    if (!finding_.cache.replacement) {
      check_further_packings();
    }
    device_.report("verification on fresh sequences", 0.9);
    if (finding_.cache.index && finding_.cache.replacement) {
      verify_all();
    } else {
      predict_as_well_as_possible();
    }
    device_.report("done", 1.0);
  }

  bool find_line_and_sets() {
    device_.report("line size", 0.15);
    find_line();
    device_.report("sets", 0.2);
    return find_sets();
  }

  bool find_latencies() {
    const LatencyLevels levels = find_latency_levels(device_);
    if (!levels.cycles) {
      give_up_rest(levels.reason);
      if (levels.warning) {
        finding_.warnings.push_back(*levels.warning);
      }
      return false;
    }
    finding_.cache.latency_cycles = *levels.cycles;
    settle_latency(leaves_, levels);
    return true;
  }

  bool find_sector() {
    device_.inquire("a second load at growing distances from one that missed, and a cold walk",
                    "loads inside one fill cannot say anything about room");
    const FillGranularity fill = find_fill_granularity(device_);
    device_.learned(fill.sector_bytes ? "a miss brings " + std::to_string(*fill.sector_bytes) + " bytes" : fill.reason);
    if (!fill.sector_bytes) {
      give_up_rest(fill.reason);
      return false;
    }
    finding_.cache.sector_bytes = *fill.sector_bytes;
    device_.set_fill_granularity(*fill.sector_bytes);
    leaves_.resolve("sector_bytes");
    return true;
  }

  bool find_capacity_onset() {
    device_.inquire("contiguous arrays of growing size, loaded again and again", "halving finds the onset of misses");
    Onset onset = find_onset(device_, conflicts_, *finding_.cache.sector_bytes, aligned_start(device_));
    // Among many ways, chance keeps strange lines for long.
    if (!onset.repeats && device_.starts_flooded()) {
      conflicts_.warm_up_longer();
      onset = find_onset(device_, conflicts_, *finding_.cache.sector_bytes, aligned_start(device_));
    }
    device_.learned(!onset.granules ? "the whole buffer fits"
                                    : std::to_string(*onset.granules * *finding_.cache.sector_bytes) + " bytes fit" +
                                          (onset.repeats ? "" : ", but not every time"));
    if (!onset.granules) {
      give_up_rest("all " + std::to_string(onset.largest_tried * *finding_.cache.sector_bytes) +
                   " bytes of the buffer fit; a larger buffer is needed");
      return false;
    }
    if (!onset.repeats) {
      give_up_rest("the same contiguous array sometimes fits and sometimes does not");
      return false;
    }
    onset_granules_ = *onset.granules;
    finding_.cache.onset_bytes = onset_granules_ * *finding_.cache.sector_bytes;
    leaves_.resolve("onset_bytes");
    return true;
  }

  // Where no set is looked into, another array has to show the same.
  void confirm_onset_elsewhere() {
    const std::uint64_t sector_bytes = *finding_.cache.sector_bytes;
    constexpr std::uint64_t sectors_on = 5;
    device_.inquire("the same from another place on", "an onset that holds at one place only says little");
    const Onset onset =
        find_onset(device_, conflicts_, sector_bytes, aligned_start(device_) + sectors_on * sector_bytes);
    onset_is_confirmed_ = onset.granules == onset_granules_ && onset.repeats;
    device_.learned(onset_is_confirmed_ ? "as many bytes fit" : "another number of bytes fits");
  }

  void find_even_sets_of_many_lines() {
    const std::uint64_t sector_bytes = *finding_.cache.sector_bytes;
    device_.inquire("contiguous arrays of growing size in laps, and how many of their lines miss",
                    "each line that is too many makes the lines of one more set miss");
    const EvenSetsFit fit = find_even_sets(device_, sector_bytes);
    if (!fit.sets) {
      device_.learned(fit.reason);
      return;
    }
    device_.learned(std::to_string(fit.sets->sets) + " sets of " + std::to_string(fit.sets->ways) + " ways");
    sets_are_proven_ = true;
    finding_.cache.line_bytes = sector_bytes;
    finding_.cache.ways.emplace(fit.sets->sets, static_cast<std::uint32_t>(fit.sets->ways));
    resolve_sets();
    leaves_["line_bytes"] = leaves_["ways"];
  }

  void find_line() {
    const std::uint64_t sector_bytes = *finding_.cache.sector_bytes;
    device_.inquire(
        "one sector, chosen by chance, of each block of one more block than fits, from large blocks to small",
        "the sectors of a line take room together, so it does not matter which one is loaded");
    const LineSize line = find_line_bytes(device_, conflicts_, sector_bytes, onset_granules_);
    finding_.cache.line_bytes = line.bytes;
    line_is_certain_ = line.is_certain;
    device_.learned("a line has " + std::to_string(*finding_.cache.line_bytes) + " bytes");
    onset_lines_ = std::max<std::size_t>(1, onset_granules_ / (*finding_.cache.line_bytes / sector_bytes));
    device_.set_line(*finding_.cache.line_bytes);
    leaves_.resolve("line_bytes");
  }

  // Ways and index, so that the cache is known but for its policy, and single sets to experiment with.
  bool find_sets() {
    const std::uint64_t line_bytes = *finding_.cache.line_bytes;
    Partitioner partitioner(device_, conflicts_, line_bytes, onset_lines_);
    device_.inquire(
        "which of the first " + std::to_string(onset_lines_ + 1) + " lines miss when they are loaded in turn",
        "one line too many shows the whole of the set that overflows");
    std::string reason;
    std::optional<ConflictClass> first = partitioner.first_set(reason);
    if (!first) {
      device_.learned(reason);
      give_up_sets(reason);
      return false;
    }
    onset_is_confirmed_ = true;
    device_.learned(std::to_string(first->lines.size()) + " lines of one set, which has " +
                    std::to_string(first->ways) + " ways");
    if (guess_index(*first)) {
      return true;
    }
    device_.report("partition into sets", 0.3);
    device_.inquire("to which set each line of a window and lines from everywhere go",
                    "no index function that was guessed from one set explains the others");
    Partition partition = partitioner.find(std::move(*first));
    if (!partition.complete) {
      device_.learned(partition.reason);
      give_up_sets(partition.reason);
      return false;
    }
    device_.learned(std::to_string(partition.classes.size()) + " sets");
    std::vector<std::uint32_t> ways;
    for (const ConflictClass& set : partition.classes) {
      ways.push_back(set.ways);
    }
    finding_.cache.ways = ways;
    device_.report("index function", 0.6);
    if (find_index(partitioner, partition)) {
      device_.report("packings that just fill the cache", 0.65);
      packings_ = check_packings(device_, conflicts_, *finding_.cache.index, *finding_.cache.ways, line_bytes, 0,
                                 first_packings(*finding_.cache.ways), false);
    }
    // A set that cannot be emptied takes more lines to bring in line than the partition needed.
    sets_ = device_.starts_flooded() && finding_.cache.index && index_covers_buffer()
                ? single_sets(device_, *finding_.cache.index, *finding_.cache.ways, line_bytes, most_single_sets)
                : std::move(partition.classes);
    resolve_sets();
    return true;
  }

  // Index functions that one set suggests, until one of them holds for all.
  bool guess_index(const ConflictClass& first) {
    const std::uint64_t line_bytes = *finding_.cache.line_bytes;
    device_.inquire("which lines with another address bit flipped go to that set",
                    "if the index is a bit field or an XOR, this tells all of it at the least cost");
    std::vector<model::IndexFunction> guesses;
    if (auto linear = guess_linear(device_, conflicts_, first, line_bytes, onset_lines_)) {
      guesses.push_back(std::move(*linear));
    }
    device_.learned(guesses.empty() ? "the answers are not those of a bit field or an XOR"
                                    : "the only one that can be right is " + model::to_flow_yaml(guesses.front()));
    for (model::IndexFunction& modulo : guess_modulo(device_, first, line_bytes, onset_lines_)) {
      guesses.push_back(std::move(modulo));
    }
    for (model::IndexFunction& sum : guess_sum(device_, first, line_bytes, onset_lines_)) {
      guesses.push_back(std::move(sum));
    }
    for (std::size_t g = 0; g < guesses.size(); ++g) {
      const model::IndexFunction& index = guesses[g];
      device_.report("index function: " + model::to_flow_yaml(index), 0.4);
      device_.inquire("packings of lines that just fill, or overflow by one, the sets of " + model::to_flow_yaml(index),
                      "the simplest function that is left");
      const std::size_t left = guesses.size() - g;
      const auto ways = find_ways(device_, conflicts_, index, line_bytes, first.ways);
      if (!ways) {
        device_.learned("these sets do not hold a line each, or the buffer has too few lines to fill them", left,
                        left - 1);
        continue;
      }
      const PackingCheck check =
          check_packings(device_, conflicts_, index, *ways, line_bytes, 0, first_packings(*ways), true);
      if (check.failed()) {
        device_.learned("refuted: sets that have room miss, or full ones do not", left, left - 1);
        continue;
      }
      device_.learned("every set behaves as predicted", left, 1);
      packings_ = check;
      finding_.cache.ways = ways;
      finding_.cache.index = index;
      finding_.cache.exercised_bits = bits_of_buffer(device_, line_bytes);
      sets_ = single_sets(device_, index, *ways, line_bytes, most_single_sets);
      resolve_sets();
      leaves_.resolve("index");
      return true;
    }
    return false;
  }

  void resolve_sets() {
    finding_.cache.capacity_bytes =
        std::accumulate(finding_.cache.ways->begin(), finding_.cache.ways->end(), std::uint64_t{0}) *
        *finding_.cache.line_bytes;
    leaves_.resolve("ways");
    leaves_.resolve("capacity_bytes");
    leaves_["capacity_bytes"].experiments = leaves_["ways"].experiments;
  }

  void give_up_sets(const std::string& reason) {
    for (const char* leaf : {"capacity_bytes", "ways", "index", "replacement"}) {
      leaves_.leave_open(leaf, EvidenceStatus::unknown, reason);
    }
    unproven_ = reason;
  }

  // Without a policy that predicts, only many packings can say whether the sets are what they seem.
  void check_further_packings() {
    if (!finding_.cache.index) {
      return;
    }
    const PackingCheck further =
        check_packings(device_, conflicts_, *finding_.cache.index, *finding_.cache.ways, *finding_.cache.line_bytes,
                       packings_.packings, std::max(packings_.packings, std::size_t{20}), false);
    packings_.packings += further.packings;
    packings_.full_that_missed += further.full_that_missed;
    packings_.surplus_that_fitted += further.surplus_that_fitted;
  }

  bool find_index(Partitioner& partitioner, Partition& partition) {
    std::optional<IndexFit> fit = fit_partition(partition);
    while (partition.complete && !(fit && fit->extrapolates) && partition.window.size() < widest_window_lines) {
      const std::size_t before = partition.window.size();
      partitioner.extend(partition, 2 * before);
      if (partition.window.size() == before) {
        break;
      }
      fit = fit_partition(partition);
    }
    if (!partition.complete || !fit) {
      leaves_.leave_open("index", EvidenceStatus::unknown,
                         partition.complete ? "no function reproduces the partition" : partition.reason);
      return false;
    }
    // The sets take the numbers that the function gives them.
    std::vector<std::uint32_t> ways;
    for (const std::uint32_t name : fit->name_of_set) {
      ways.push_back(partition.classes[name].ways);
    }
    finding_.cache.ways = ways;
    finding_.cache.index = fit->index;
    finding_.cache.exercised_bits = fit->exercised_bits;
    leaves_.resolve("index");
    return true;
  }

  [[nodiscard]] std::optional<IndexFit> fit_partition(const Partition& partition) const {
    std::vector<AssignedLine> window;
    std::vector<AssignedLine> elsewhere;
    for (std::uint32_t name = 0; name < partition.classes.size(); ++name) {
      for (const std::uint64_t line : partition.classes[name].lines) {
        const bool inside = line >= partition.window.front() && line <= partition.window.back();
        (inside ? window : elsewhere).push_back({.address = device_.address_of(line), .set = name});
      }
    }
    if (window.size() != partition.window.size()) {
      return std::nullopt;
    }
    std::sort(window.begin(), window.end(),
              [](const AssignedLine& a, const AssignedLine& b) { return a.address < b.address; });
    const std::size_t window_lines = window.size();
    window.insert(window.end(), elsewhere.begin(), elsewhere.end());
    return fit_index(window, window_lines, *finding_.cache.line_bytes,
                     static_cast<std::uint32_t>(partition.classes.size()));
  }

  void find_replacement() {
    const ReplacementFit fit = fit_replacement(device_, sets_);
    leaves_["replacement"].details = fit.details;
    if (fit.candidates.size() == 1) {
      finding_.cache.replacement = fit.candidates.front();
      leaves_.resolve("replacement");
      return;
    }
    for (const model::Replacement& candidate : fit.candidates) {
      leaves_["replacement"].alternatives.push_back(model::to_flow_yaml(candidate));
    }
    leaves_.leave_open("replacement", fit.candidates.empty() ? EvidenceStatus::unknown : EvidenceStatus::ambiguous,
                       fit.reason);
  }

  [[nodiscard]] bool index_covers_buffer() const {
    const auto* table = std::get_if<model::TableIndex>(&*finding_.cache.index);
    const model::BufferFacts& buffer = device_.buffer();
    return table == nullptr || (table->covers(buffer.address) && table->covers(buffer.address + buffer.bytes - 1));
  }

  void verify_all() {
    if (device_.starts_flooded() && !index_covers_buffer()) {
      unproven_ = "the flood before each question goes beyond what is known of the index, so nothing can be predicted";
      return;
    }
    device_.inquire("fresh random sequences over lines from everywhere",
                    "only what predicts answers that took no part in the fit is resolved");
    Verification verification = verify(device_, finding_.cache);
    device_.learned(verification.holds ? "the description predicts them" : verification.reason);
    if (verification.holds && packings_.failed()) {
      verification.holds = false;
      verification.reason = "packings of lines that should just fill every set do not behave so" + packings_remark();
    }
    if (!model::is_deterministic(*finding_.cache.replacement) && verification.holds) {
      check_fresh_victims(verification);
    }
    if (verification.holds && *finding_.cache.onset_bytes > *finding_.cache.capacity_bytes) {
      verification.holds = false;
      verification.reason = std::to_string(*finding_.cache.onset_bytes) +
                            " contiguous bytes fit, and these sets hold " +
                            std::to_string(*finding_.cache.capacity_bytes);
    }
    if (verification.holds && disturbance_of(answerer_)) {
      check_lines_side_by_side(verification);
    }
    finding_.evidence.prediction = verification.evidence;
    policy_proven_ = verification.holds;
    if (!policy_proven_) {
      leaves_["replacement"].details["deterministic"] = "null";
    }
    prediction_failed_ = !verification.holds;
    contradicted_ = verification.contradicted;
    levels_in_doubt_ = verification.levels_in_doubt;
    unproven_ = verification.reason;
  }

  // Somebody else's loads may have split a line into what looked like several.
  void check_lines_side_by_side(Verification& verification) {
    device_.inquire("fresh random sequences over lines side by side",
                    "something touched answers, and a line of twice the size would show there");
    const Verification neighbours = verify_side_by_side(device_, finding_.cache);
    device_.learned(neighbours.holds ? "the description predicts them, too" : neighbours.reason);
    verification.holds = neighbours.holds;
    verification.reason = neighbours.reason;
  }

  // Where the policy or the sets are not known, how far the plainest assumptions go: the sets as found, else a single
  // one, with each deterministic policy that needs no parameters.
  void predict_as_well_as_possible() {
    model::CacheDescription assumed = finding_.cache;
    std::string assuming;
    if (!assumed.index || !assumed.ways) {
      assumed.index = model::BitsIndex{};
      assumed.ways = {static_cast<std::uint32_t>(onset_lines_)};
      assuming = "ways: " + model::to_flow_yaml(*assumed.ways) + ", ";
    }
    const auto [policy, verification] = predict_best(device_, assumed, model::plain_policies(*assumed.ways));
    if (verification.levels_in_doubt) {
      levels_in_doubt_ = true;
      unproven_ = verification.reason;
    }
    finding_.evidence.prediction = verification.evidence;
    finding_.evidence.prediction->p_value.reset();
    finding_.evidence.prediction->assuming = "{" + assuming + "replacement: " + model::to_flow_yaml(policy) + "}";
  }

  // Where no sets explain what is seen.
  void find_store_behind_tags() {
    const model::CacheDescription& found = finding_.cache;
    const model::BufferFacts& buffer = device_.buffer();
    if (policy_proven_ || sets_are_proven_ || levels_in_doubt_ || !found.sector_bytes || !found.line_bytes ||
        !found.onset_bytes || buffer.nearer_bytes || buffer.raster || start_of(device_) != SetStart::empty) {
      return;
    }
    device_.report("more tags than lines of data", 0.95);
    const std::size_t questions_before = device_.questions_asked();
    model::CacheDescription known;
    known.line_bytes = found.line_bytes;
    known.sector_bytes = found.sector_bytes;
    known.onset_bytes = found.onset_bytes;
    known.fill = found.fill;
    known.latency_cycles = found.latency_cycles;
    std::optional<SweptStoreFit> fit;
    try {
      fit = find_swept_store(device_, known);
    } catch (const QuestionRefused& refused) {
      device_.learned(std::string("the device refused a question: ") + refused.what());
    }
    if (!fit || !fit->cache) {
      return;
    }
    if (disturbance_of(answerer_) && !verify_side_by_side(device_, *fit->cache).holds) {
      return;
    }
    finding_.cache = *std::move(fit->cache);
    for (const char* leaf : store_leaf_names) {
      if (leaf != std::string_view("carveouts") || !finding_.cache.carveouts.empty()) {
        leaves_[leaf] = {};
        leaves_.resolve(leaf);
        leaves_[leaf].experiments = device_.questions_asked() - questions_before;
      }
    }
    leaves_["replacement"].details = std::move(fit->policy_details);
    finding_.evidence.prediction = fit->verification.evidence;
    policy_proven_ = true;
    onset_is_confirmed_ = true;
  }

  // Victim frequencies, too, must come out again on questions that took no part in the fit.
  void check_fresh_victims(Verification& verification) {
    const ConflictClass& set = *std::max_element(
        sets_.begin(), sets_.end(), [](const ConflictClass& a, const ConflictClass& b) { return a.ways < b.ways; });
    for (int attempt = 0; attempt < 2; ++attempt) {
      // The smallest of six p-values is small six times as often as one is.
      const double p_value = std::min(1.0, 6 * fresh_victims_fit(device_, set, *finding_.cache.replacement,
                                                                 std::max<std::size_t>(1500, 20UL * set.ways)));
      verification.holds = p_value > 0.01;
      verification.evidence.p_value = attempt == 0 ? std::min(*verification.evidence.p_value, p_value) : p_value;
      if (verification.holds) {
        return;
      }
      verification.reason = "victims on fresh chases do not fit: p = " + std::to_string(p_value);
    }
  }

  const model::Answerer& answerer_;
  Interrogator device_;
  Conflicts conflicts_;
  CacheFinding finding_;
  Leaves leaves_;
  std::size_t onset_granules_ = 0;
  std::size_t onset_lines_ = 0;
  std::vector<ConflictClass> sets_;
  PackingCheck packings_;
  std::string unproven_;  // why what was found is not proven
  std::optional<std::string> disturbance_;
  bool line_is_certain_ = true;
  bool onset_is_confirmed_ = false;
  bool policy_proven_ = false;
  bool sets_are_proven_ = false;  // without a policy
  bool prediction_failed_ = false;
  bool contradicted_ = false;
  bool levels_in_doubt_ = false;
};

}  // namespace

CacheFinding infer_cache(model::Answerer& device, const std::string& target, const Settings& settings) {
  return Inference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
