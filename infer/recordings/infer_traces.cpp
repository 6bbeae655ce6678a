// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/infer_traces.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "infer/asking/statistics.hpp"
#include "infer/cache/index_fit.hpp"
#include "infer/recordings/trace_levels.hpp"
#include "infer/recordings/validate.hpp"
#include "infer/recordings/walk_inference.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::CacheDescription;
using model::EvidenceStatus;
using model::Trace;

constexpr std::uint64_t load_bytes = 4;
constexpr std::uint64_t largest_fill_bytes = 4096;
constexpr std::uint64_t most_sectors_per_line = 8;
constexpr unsigned most_index_bits = 6;
constexpr double most_misread = 0.02;
constexpr double unbelievable = 1e-4;
constexpr double believable_by_chance = 1e-3;

// What happened to a fill granule in one trace.
enum class Fate : std::uint8_t { always_hit, always_missed, both };

// Of a hypothesis: ways that the traces allow, and which sets ever overflowed.
struct Survivor {
  CacheDescription cache;
  std::set<std::uint32_t> overflowed_sets;
  bool is_bracketed = false;  // by what fits and what does not, of which no other number of ways lies in between
};

class TraceInference {
 public:
  TraceInference(std::span<const Trace> traces, std::uint64_t address_of_buffer, const Settings& settings,
                 const Scorer& scorer)
      : address_of_buffer_(address_of_buffer), settings_(&settings), scorer_(&scorer) {
    std::vector<float> all;
    for (const Trace& trace : traces) {
      all.insert(all.end(), trace.latency_cycles.begin(), trace.latency_cycles.end());
    }
    const TraceLevels levels(all, {});
    finding_.cache.latency_cycles = {.hit = levels.hit_median_cycles(), .miss = levels.miss_median_cycles()};
    for (const Trace& trace : traces) {
      ReadTrace& read = read_.emplace_back(ReadTrace{.trace = &trace, .readings = {}});
      for (const float latency : trace.latency_cycles) {
        read.readings.push_back(levels.read(latency));
      }
    }
    finding_.questions = traces.size();
    finding_.accesses = all.size();
  }

  CacheFinding run() {
    CacheFinding finding = find_all();
    doubt_few_loads(finding);
    return finding;
  }

 private:
  // One or two loads that took long are no median, whatever the others say.
  void doubt_few_loads(CacheFinding& finding) const {
    constexpr std::ptrdiff_t fewest = 4;
    std::map<Reading, std::ptrdiff_t> loads;
    for (const ReadTrace& read : read_) {
      for (const Reading reading : read.readings) {
        ++loads[reading];
      }
    }
    model::LeafEvidence& leaf = finding.evidence.leaves.at("latency_cycles");
    const std::ptrdiff_t fewer = std::min(loads[Reading::hit], loads[Reading::miss]);
    if (leaf.status == EvidenceStatus::resolved && fewer < fewest) {
      const auto& [hit, miss] = finding.cache.latency_cycles;
      leaf.status = EvidenceStatus::ambiguous;
      leaf.alternatives = {"{hit: " + model::to_text(*hit) + ", miss: " + model::to_text(*miss) + "}"};
      leaf.reason = "there are no more than " + std::to_string(fewer) + " loads of one of the two levels";
      finding.cache.latency_cycles = {};
    }
  }

  CacheFinding find_all() {
    for (const char* leaf :
         {"capacity_bytes", "line_bytes", "sector_bytes", "ways", "index", "replacement", "latency_cycles"}) {
      open(leaf, EvidenceStatus::unknown, "the recordings hold no pair of hits and misses that could tell");
    }
    if (!finding_.cache.latency_cycles.hit || !finding_.cache.latency_cycles.miss) {
      finding_.cache.latency_cycles = {};
      open("latency_cycles", EvidenceStatus::unknown, "all latencies belong to one level");
      return std::move(finding_);
    }
    resolve("latency_cycles");
    settings_->on_progress({.finding = "fill granularity", .done = 0.1, .questions = 0, .accesses = 0});
    find_fill_bytes();
    find_onset();
    const bool has_walks =
        std::any_of(read_.begin(), read_.end(), [](const ReadTrace& read) { return !is_lap(*read.trace); });
    if (has_walks) {
      const WalkOutcome outcome = infer_walks(read_, address_of_buffer_, fill_, *settings_, *scorer_, finding_);
      const bool has_warm_laps = std::any_of(read_.begin(), read_.end(), [](const ReadTrace& read) {
        return is_warm(*read.trace) && is_lap(*read.trace);
      });
      if (outcome != WalkOutcome::too_short || !has_warm_laps) {
        return std::move(finding_);
      }
    }
    describe_fates();
    settings_->on_progress({.finding = "hypotheses", .done = 0.3, .questions = 0, .accesses = 0});
    find_survivors();
    conclude();
    if (has_walks) {
      doubt_fit();
    }
    return std::move(finding_);
  }

  model::LeafEvidence& evidence(const std::string& leaf) { return finding_.evidence.leaves[leaf]; }

  void resolve(const std::string& leaf) {
    evidence(leaf).status = EvidenceStatus::resolved;
    evidence(leaf).reason.clear();
    evidence(leaf).experiments = read_.size();
  }

  void open(const std::string& leaf, EvidenceStatus status, std::string reason) {
    evidence(leaf).status = status;
    evidence(leaf).reason = std::move(reason);
    evidence(leaf).experiments = read_.size();
  }

  [[nodiscard]] std::uint64_t address(std::uint64_t offset) const { return address_of_buffer_ + offset; }

  // A load soon after another one of the same granule does not miss, as one of the same word does not; the largest
  // granule of which that is true is the fill, provided that loads as close as that were recorded.
  void find_fill_bytes() {
    std::size_t accesses = 0;
    std::size_t misses = 0;
    for (const ReadTrace& read : read_) {
      accesses += read.readings.size();
      misses += static_cast<std::size_t>(std::count(read.readings.begin(), read.readings.end(), Reading::miss));
    }
    const double share_of_misses =
        static_cast<double>(misses) / static_cast<double>(std::max<std::size_t>(1, accesses));
    std::uint64_t largest = load_bytes;
    bool is_larger_refuted = false;
    bool is_confirmed = false;
    for (std::uint64_t bytes = 2 * load_bytes; bytes <= largest_fill_bytes; bytes *= 2) {
      const Returns other = soon_after(bytes, true);
      const Returns same = soon_after(bytes, false);
      const double driven_out =
          same.loads == 0 ? 0 : static_cast<double>(same.missed) / static_cast<double>(same.loads);
      const double may_miss = std::max(most_misread, driven_out);
      if (binomial_upper_tail(other.missed, other.loads, may_miss) < unbelievable) {
        is_larger_refuted = true;
        break;
      }
      largest = bytes;
      // Were they apart, they would miss as others do, or at least half as often.
      is_confirmed = other.loads > 0 && share_of_misses / 2 > may_miss &&
                     1 - binomial_upper_tail(other.missed + 1, other.loads, share_of_misses / 2) < believable_by_chance;
    }
    fill_.bytes = largest;
    fill_.is_known = is_confirmed && is_larger_refuted;
    if (!fill_.is_known) {
      open("sector_bytes", EvidenceStatus::ambiguous,
           is_larger_refuted
               ? "fills bring at most " + std::to_string(largest) + " bytes; hardly any two loads lie closer than that"
               : "no load shows that fills do not bring " + std::to_string(largest) + " bytes or more");
      evidence("sector_bytes").alternatives.push_back(std::to_string(largest));
      evidence("sector_bytes").decided_by = "a chase in steps of 4 bytes over an array a little larger than the cache";
      return;
    }
    finding_.cache.sector_bytes = largest;
    resolve("sector_bytes");
  }

  struct Returns {
    std::size_t loads = 0;
    std::size_t missed = 0;
  };

  // Loads to a granule that was loaded a few accesses ago, last in its other half (or else in the same one).
  [[nodiscard]] Returns soon_after(std::uint64_t bytes, bool other_half) const {
    constexpr std::size_t few = 6;
    Returns returns;
    for (const ReadTrace& read : read_) {
      const model::AccessSequence& record = read.trace->question.record;
      for (std::size_t i = 1; i < record.size(); ++i) {
        const std::uint64_t half = address(record[i]) / (bytes / 2);
        for (std::size_t back = 1; back <= std::min(i, few); ++back) {
          const std::uint64_t before = address(record[i - back]) / (bytes / 2);
          if (before / 2 == half / 2) {
            const bool counts = (before != half) == other_half && read.readings[i] != Reading::unclear;
            returns.loads += counts ? 1U : 0U;
            returns.missed += counts && read.readings[i] == Reading::miss ? 1U : 0U;
            break;
          }
        }
      }
    }
    return returns;
  }

  // A warm chase over a contiguous array: none unless all of it was recorded.
  struct Chase {
    std::uint64_t stride_bytes = 0;
    std::uint64_t array_bytes = 0;
  };

  static std::optional<Chase> chase_of(const Trace& trace) {
    const model::AccessSequence& record = trace.question.record;
    if (!is_warm(trace) || !is_lap(trace) || record.size() < 2) {
      return std::nullopt;
    }
    const std::set<std::uint64_t> offsets(record.begin(), record.end());
    const std::set<std::uint64_t> warm(trace.question.warm.begin(), trace.question.warm.end());
    const std::uint64_t stride_bytes = offsets.size() < 2 ? 0 : *std::next(offsets.begin()) - *offsets.begin();
    const bool is_contiguous =
        stride_bytes > 0 && *offsets.rbegin() - *offsets.begin() == stride_bytes * (offsets.size() - 1);
    if (!is_contiguous || offsets != warm) {
      return std::nullopt;
    }
    return Chase{.stride_bytes = stride_bytes, .array_bytes = stride_bytes * offsets.size()};
  }

  // Arrays of several sizes show between which of them misses begin.
  void find_onset() {
    std::set<std::uint64_t> sizes;
    std::uint64_t largest_that_fits = 0;
    std::uint64_t smallest_that_does_not = ~std::uint64_t{0};
    std::uint64_t longest_stride = 0;
    for (const ReadTrace& read : read_) {
      const auto chase = chase_of(*read.trace);
      if (!chase) {
        continue;
      }
      sizes.insert(chase->array_bytes);
      longest_stride = std::max(longest_stride, chase->stride_bytes);
      const auto misses =
          static_cast<std::size_t>(std::count(read.readings.begin(), read.readings.end(), Reading::miss));
      if (misses == 0) {
        largest_that_fits = std::max(largest_that_fits, chase->array_bytes);
      } else if (misses > few_misreads(read.readings.size())) {
        smallest_that_does_not = std::min(smallest_that_does_not, chase->array_bytes);
      }
    }
    if (sizes.size() < 2) {
      return;
    }
    if (largest_that_fits == 0 || smallest_that_does_not == ~std::uint64_t{0} ||
        largest_that_fits >= smallest_that_does_not) {
      open("onset_bytes", EvidenceStatus::unknown,
           largest_that_fits == 0 ? "no recorded array fits"
           : smallest_that_does_not == ~std::uint64_t{0}
               ? "every recorded array fits"
               : "an array fits that is larger than one that does not, or is chased in longer steps");
      return;
    }
    if (fill_.is_known && longest_stride <= fill_.bytes && smallest_that_does_not - largest_that_fits <= fill_.bytes) {
      finding_.cache.onset_bytes = largest_that_fits;
      resolve("onset_bytes");
      return;
    }
    open("onset_bytes", EvidenceStatus::ambiguous,
         "arrays of " + std::to_string(largest_that_fits) + " bytes fit, and of " +
             std::to_string(smallest_that_does_not) + " bytes do not, in steps of up to " +
             std::to_string(longest_stride) + " bytes");
    evidence("onset_bytes").decided_by = "chases in steps of 4 bytes over arrays of every size between";
  }

  // How many misses in so many accesses may be misreads of an array that fits.
  static std::size_t few_misreads(std::size_t accesses) { return 1 + accesses / 2000; }

  // Misses of a trace without a warm-up may be first touches, which say nothing about room.
  static bool is_warm(const Trace& trace) { return trace.start_is_known && !trace.question.warm.empty(); }

  // Which granules missed in every lap of some trace, which in none: for a policy like LRU that is whole sets.
  void describe_fates() {
    if (std::none_of(read_.begin(), read_.end(), [](const ReadTrace& read) { return is_warm(*read.trace); })) {
      return;
    }
    std::map<std::uint64_t, bool> ever_missed;
    std::size_t smallest_overflow = 0;
    for (const ReadTrace& read : read_) {
      if (!is_warm(*read.trace)) {
        continue;
      }
      std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> hits_and_misses;
      const model::AccessSequence& record = read.trace->question.record;
      std::uint64_t granule_before = ~std::uint64_t{0};
      for (std::size_t i = 0; i < record.size(); ++i) {
        const std::uint64_t granule = address(record[i]) / fill_.bytes;
        if (granule != granule_before) {
          auto& [hits, misses] = hits_and_misses[granule];
          (read.readings[i] == Reading::miss ? misses : hits) += read.readings[i] == Reading::unclear ? 0U : 1U;
        }
        granule_before = granule;
      }
      std::size_t missing = 0;
      std::size_t run = 0;
      for (const auto& [granule, counts] : hits_and_misses) {
        const auto& [hits, misses] = counts;
        const Fate fate = misses == 0 ? Fate::always_hit : (hits == 0 ? Fate::always_missed : Fate::both);
        mixed_fates_ += fate == Fate::both ? 1U : 0U;
        ever_missed[granule] = ever_missed[granule] || misses > 0;
        missing += misses > 0 ? 1U : 0U;
        run = fate == Fate::always_missed ? run + 1 : 0;
        const bool run_ends = !hits_and_misses.contains(granule + 1) || hits_and_misses[granule + 1].second == 0;
        if (run_ends && run > 0 && hits_and_misses.contains(granule - run) && hits_and_misses.contains(granule + 1)) {
          shortest_run_ = shortest_run_ == 0 ? run : std::min(shortest_run_, run);
        }
      }
      if (missing > 0) {
        smallest_overflow = smallest_overflow == 0 ? missing : std::min(smallest_overflow, missing);
      }
    }
    never_missed_ = static_cast<std::size_t>(
        std::count_if(ever_missed.begin(), ever_missed.end(), [](const auto& granule) { return !granule.second; }));
    model::LeafEvidence& index = evidence("index");
    index.details["consecutive_fills_in_a_set"] = std::to_string(shortest_run_);
    index.details["fills_that_overflow_one_set"] = std::to_string(smallest_overflow);
    index.details["fills_that_never_miss"] = std::to_string(never_missed_);
    evidence("replacement").details["deterministic"] = mixed_fates_ == 0 ? "true" : "null";
  }

  // Every bit-field index, with equal sets, plain and sectored lines, and every deterministic policy without
  // parameters.
  void find_survivors() {
    const std::vector<FillMisses> fills = misses_of_fills();
    std::vector<Survivor> hypotheses;
    for (std::uint64_t sectors = 1; sectors <= most_sectors_per_line; sectors *= 2) {
      const std::uint64_t line_bytes = sectors * fill_.bytes;
      const auto line_bit = static_cast<unsigned>(std::countr_zero(line_bytes));
      for (unsigned bits = 0; bits <= most_index_bits; ++bits) {
        for (unsigned lowest = line_bit; lowest < line_bit + 12 && (bits > 0 || lowest == line_bit); ++lowest) {
          model::BitsIndex index;
          for (unsigned bit = 0; bit < bits; ++bit) {
            index.bits.push_back(lowest + bit);
          }
          add_hypotheses(line_bytes, index, fills, hypotheses);
        }
      }
    }
    const AllCompared compared = all_compared();
    const std::vector<Scored> scored = (*scorer_)(hypotheses.size(), [&](std::size_t hypothesis) {
      return Scored{.wrong = explains_all(hypotheses[hypothesis].cache, compared) ? 0U : 1U, .variant = 0};
    });
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      if (scored[i].wrong == 0) {
        survivors_.push_back(std::move(hypotheses[i]));
      }
    }
  }

  // Of a warm recording: how often each fill that was loaded missed, by the address of its first byte.
  struct FillMisses {
    std::map<std::uint64_t, std::size_t> misses;
    std::size_t accesses = 0;
  };

  [[nodiscard]] std::vector<FillMisses> misses_of_fills() const {
    std::vector<FillMisses> fills;
    for (const ReadTrace& read : read_) {
      if (!is_warm(*read.trace)) {
        continue;
      }
      const model::AccessSequence& record = read.trace->question.record;
      FillMisses& of_recording = fills.emplace_back();
      of_recording.accesses = record.size();
      for (std::size_t i = 0; i < record.size(); ++i) {
        of_recording.misses[address(record[i]) / fill_.bytes * fill_.bytes] +=
            read.readings[i] == Reading::miss ? 1U : 0U;
      }
    }
    return fills;
  }

  void add_hypotheses(std::uint64_t line_bytes, const model::BitsIndex& index, const std::vector<FillMisses>& fills,
                      std::vector<Survivor>& hypotheses) const {
    std::size_t at_least = 1;  // ways: as many lines as a set held without a miss
    std::size_t fewer_than = ~std::size_t{0};
    std::set<std::uint32_t> overflowed;
    for (const FillMisses& of_recording : fills) {
      std::map<std::uint32_t, std::set<std::uint64_t>> lines_of_set;
      std::map<std::uint32_t, std::size_t> misses_of_set;
      for (const auto& [fill_address, misses] : of_recording.misses) {
        const std::uint32_t set = index.set_of(fill_address);
        lines_of_set[set].insert(fill_address / line_bytes);
        misses_of_set[set] += misses;
      }
      for (const auto& [set, lines] : lines_of_set) {
        if (misses_of_set[set] > few_misreads(of_recording.accesses)) {
          fewer_than = std::min(fewer_than, lines.size());
          overflowed.insert(set);
        } else {
          at_least = std::max(at_least, lines.size());
        }
      }
    }
    if (at_least >= fewer_than || fewer_than == ~std::size_t{0} || fewer_than > 65536) {
      return;
    }
    for (const std::size_t ways : std::set<std::size_t>{at_least, fewer_than - 1}) {
      const std::vector<std::uint32_t> all_ways(index.sets(), static_cast<std::uint32_t>(ways));
      for (const model::Replacement& policy : model::plain_policies(all_ways)) {
        Survivor& hypothesis = hypotheses.emplace_back();
        hypothesis.overflowed_sets = overflowed;
        hypothesis.is_bracketed = at_least + 1 == fewer_than;
        CacheDescription& cache = hypothesis.cache;
        cache.line_bytes = line_bytes;
        cache.sector_bytes = fill_.bytes;
        cache.ways = all_ways;
        cache.capacity_bytes = line_bytes * all_ways.front() * all_ways.size();
        cache.index = index;
        cache.replacement = policy;
        cache.latency_cycles = finding_.cache.latency_cycles;
      }
    }
  }

  // A recording, or the first accesses of one, as it is compared with many hypotheses.
  struct Compared {
    const Trace* trace = nullptr;
    std::vector<Reading> readings;
    std::size_t most_wrong = 0;  // of a beginning: what explains the whole recording gets no more wrong
  };

  static constexpr double explained_share = 0.999;

  // The beginnings of those recordings that are long and whose outcomes depend on nothing that comes later; and all
  // recordings.
  struct AllCompared {
    std::vector<Compared> beginnings;
    std::vector<Compared> whole;
    std::deque<Trace> shortened;
  };

  [[nodiscard]] AllCompared all_compared() const {
    constexpr std::ptrdiff_t first_accesses = 20'000;
    AllCompared all;
    for (const ReadTrace& read : read_) {
      const Compared& whole = all.whole.emplace_back(Compared{
          .trace = read.trace, .readings = read_levels(*read.trace, finding_.cache.latency_cycles), .most_wrong = 0});
      const auto accesses = static_cast<std::ptrdiff_t>(whole.readings.size());
      if (accesses < 4 * first_accesses || !whole.trace->start_is_known ||
          model::may_hold_others(whole.trace->question.state)) {
        continue;
      }
      Trace& shortened = all.shortened.emplace_back();
      shortened.question = {
          .target = whole.trace->question.target,
          .state = whole.trace->question.state,
          .warm = whole.trace->question.warm,
          .record = {whole.trace->question.record.begin(), whole.trace->question.record.begin() + first_accesses}};
      Compared& beginning = all.beginnings.emplace_back();
      beginning.trace = &shortened;
      beginning.readings.assign(whole.readings.begin(), whole.readings.begin() + first_accesses);
      beginning.most_wrong = static_cast<std::size_t>(std::ceil((1 - explained_share) * static_cast<double>(accesses)));
    }
    return all;
  }

  [[nodiscard]] bool explains_all(const CacheDescription& cache, const AllCompared& compared) const {
    const auto agreement_with = [&](const Compared& one) {
      return validate(cache, *one.trace, one.readings, address_of_buffer_, settings_->seed);
    };
    const auto is_out = [&](const Compared& beginning) {
      const Agreement agreement = agreement_with(beginning);
      return agreement.accesses - agreement.outliers - agreement.undetermined - agreement.agreeing >
             beginning.most_wrong;
    };
    return std::none_of(compared.beginnings.begin(), compared.beginnings.end(), is_out) &&
           std::all_of(compared.whole.begin(), compared.whole.end(),
                       [&](const Compared& whole) { return agreement_with(whole).share() >= explained_share; });
  }

  void conclude() {
    if (survivors_.empty()) {
      const char* reason =
          mixed_fates_ > 0
              ? "no deterministic policy with a bit-field index explains the recordings; lines miss in some "
                "laps and hit in others"
              : "no bit-field index with equal sets explains the recordings";
      for (const char* leaf : {"capacity_bytes", "line_bytes", "ways", "index", "replacement"}) {
        open(leaf, EvidenceStatus::unknown, reason);
        evidence(leaf).decided_by = "an inference on the device itself, which asks for what is missing";
      }
      return;
    }
    // Sets that never overflowed may hold more than their lines, or be one: nothing was seen of them.
    const bool every_set_overflowed = std::all_of(survivors_.begin(), survivors_.end(), [](const Survivor& survivor) {
      return survivor.overflowed_sets.size() == survivor.cache.ways->size();
    });
    const auto number = [](const auto& value) { return std::to_string(value); };
    const bool is_bracketed = std::all_of(survivors_.begin(), survivors_.end(),
                                          [](const Survivor& survivor) { return survivor.is_bracketed; });
    const std::string unseen_lines =
        std::all_of(survivors_.begin(), survivors_.end(),
                    [this](const Survivor& survivor) { return shows_lines_of(*survivor.cache.line_bytes); })
            ? ""
            : "no half of such a line, or no single one of two neighbours, is loaded by itself, so lines of another "
              "size "
              "are not ruled out";
    const std::string unseen =
        !every_set_overflowed ? "sets that never overflow in the recordings may hold more lines, and may be one set"
        : !is_bracketed       ? "the recordings leave room for numbers of ways between those that were tried"
                              : unseen_lines;
    settle("line_bytes", &CacheDescription::line_bytes, number, unseen_lines);
    settle("capacity_bytes", &CacheDescription::capacity_bytes, number, unseen);
    settle(
        "ways", &CacheDescription::ways, [](const auto& ways) { return model::to_flow_yaml(ways); }, unseen);
    settle(
        "index", &CacheDescription::index, [](const auto& index) { return model::to_flow_yaml(index); }, unseen);
    if (finding_.cache.index) {
      finding_.cache.exercised_bits = exercised_bits(recorded_lines(*survivors_.front().cache.line_bytes));
    }
    if (survivors_.size() == 1) {
      evidence("replacement").details["deterministic"] = "true";
    }
    settle(
        "replacement", &CacheDescription::replacement, [](const auto& policy) { return model::to_flow_yaml(policy); },
        "");
    name_deciding_experiments(every_set_overflowed);
  }

  // Whether lines half and twice as long would have made a difference. Lines are no shorter than what a miss brings.
  [[nodiscard]] bool shows_lines_of(std::uint64_t line_bytes) const {
    return (line_bytes <= fill_.bytes || loads_halves_of(line_bytes)) && loads_halves_of(2 * line_bytes);
  }

  // Whether a warm recording loads one half of an aligned block, and not the other.
  [[nodiscard]] bool loads_halves_of(std::uint64_t block_bytes) const {
    return std::any_of(read_.begin(), read_.end(), [&](const ReadTrace& read) {
      std::set<std::uint64_t> blocks;
      std::set<std::uint64_t> halves;
      for (const std::uint64_t offset : read.trace->question.record) {
        blocks.insert(address(offset) / block_bytes);
        halves.insert(address(offset) / (block_bytes / 2));
      }
      return is_warm(*read.trace) && halves.size() < 2 * blocks.size();
    });
  }

  [[nodiscard]] std::vector<std::uint64_t> recorded_lines(std::uint64_t line_bytes) const {
    std::vector<std::uint64_t> lines;
    for (const ReadTrace& read : read_) {
      for (const std::uint64_t offset : read.trace->question.record) {
        lines.push_back(address(offset) / line_bytes * line_bytes);
      }
    }
    return lines;
  }

  // Walks that are too short for a check on accesses that were held out prove nothing.
  void doubt_fit() {
    const model::CacheDescription found = std::move(finding_.cache);
    finding_.cache = {};
    finding_.cache.sector_bytes = found.sector_bytes;
    finding_.cache.latency_cycles = found.latency_cycles;
    const auto doubt = [&](const char* leaf, const std::string& value) {
      if (evidence(leaf).status == EvidenceStatus::resolved) {
        open(leaf, EvidenceStatus::ambiguous, "too few accesses are left to check it");
        evidence(leaf).alternatives = {value};
        evidence(leaf).decided_by = "the same recordings, ten times as long";
      }
    };
    doubt("capacity_bytes", std::to_string(found.capacity_bytes.value_or(0)));
    doubt("line_bytes", std::to_string(found.line_bytes.value_or(0)));
    doubt("ways", found.ways ? model::to_flow_yaml(*found.ways) : "null");
    doubt("index", found.index ? model::to_flow_yaml(*found.index) : "null");
    doubt("replacement", found.replacement ? model::to_flow_yaml(*found.replacement) : "null");
  }

  // `unseen`: what keeps even a value that all survivors share from being proven; empty: nothing.
  template <class Value, class ToFlow>
  void settle(const char* leaf, std::optional<Value> CacheDescription::*member, const ToFlow& to_flow,
              const std::string& unseen) {
    std::vector<std::string> values;
    for (const Survivor& survivor : survivors_) {
      std::string value = to_flow(*(survivor.cache.*member));
      if (std::find(values.begin(), values.end(), value) == values.end()) {
        values.push_back(std::move(value));
      }
    }
    if (values.size() == 1 && unseen.empty()) {
      finding_.cache.*member = survivors_.front().cache.*member;
      resolve(leaf);
      return;
    }
    open(leaf, EvidenceStatus::ambiguous, unseen.empty() ? "several hypotheses explain every recorded access" : unseen);
    evidence(leaf).alternatives = std::move(values);
  }

  void name_deciding_experiments(bool every_set_overflowed) {
    const auto [shortest, longest] = std::minmax_element(
        survivors_.begin(), survivors_.end(),
        [](const Survivor& a, const Survivor& b) { return *a.cache.line_bytes < *b.cache.line_bytes; });
    const std::uint64_t longest_line = *longest->cache.line_bytes;
    if (!finding_.cache.line_bytes) {
      evidence("line_bytes").decided_by =
          "one load per " + std::to_string(longest_line) +
          " bytes: " + std::to_string(*shortest->cache.capacity_bytes / *shortest->cache.line_bytes) +
          " such loads fit if lines have " + std::to_string(*shortest->cache.line_bytes) + " bytes, " +
          std::to_string(*longest->cache.capacity_bytes / longest_line) + " if they have " +
          std::to_string(longest_line);
    }
    if (!every_set_overflowed) {
      const std::uint64_t all_overflow = *longest->cache.capacity_bytes +
                                         (longest->cache.ways->size() - 1) * shortest_run_ * fill_.bytes + fill_.bytes;
      for (const char* leaf : {"capacity_bytes", "ways", "index"}) {
        evidence(leaf).decided_by =
            "a cyclic chase over " + std::to_string(all_overflow) +
            " bytes, at which every set must miss if there are no more lines and sets than these";
      }
    }
    if (!finding_.cache.replacement) {
      evidence("replacement").decided_by =
          "fill a set, touch its first line again, load one more line, and look whether the first or the second is "
          "gone";
    }
  }

  std::uint64_t address_of_buffer_;
  const Settings* settings_;
  const Scorer* scorer_;
  std::vector<ReadTrace> read_;
  CacheFinding finding_;
  std::vector<Survivor> survivors_;
  FillSize fill_;
  std::size_t mixed_fates_ = 0;
  std::size_t shortest_run_ = 0;
  std::size_t never_missed_ = 0;
};

}  // namespace

CacheFinding infer_traces(std::span<const Trace> traces, std::uint64_t address_of_buffer, const Settings& settings,
                          const Scorer& scorer) {
  return TraceInference(traces, address_of_buffer, settings, scorer).run();
}

}  // namespace gpuinfer::infer
