// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_shared_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/threads/bank_hypotheses.hpp"
#include "infer/threads/conclude_shared_memory.hpp"
#include "infer/threads/questioner.hpp"
#include "model/number_text.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

using model::DegreeLatency;
using model::EvidenceStatus;
using model::SharedLoads;
using model::warp_lanes;

constexpr std::array shared_memory_leaves{"banks", "bank_width_bytes", "row_bytes", "latency_cycles"};
constexpr std::uint32_t most_stride_words = 128;
constexpr std::uint32_t most_runs = 4096;

// Of a single value, from at least 16 of them; the one at either end is left out, and made up for.
double deviation_of(std::vector<double> values) {
  constexpr double for_those_left_out = 1.3;
  std::sort(values.begin(), values.end());
  return for_those_left_out * spread_of(std::span(values.begin() + 1, values.end() - 1)).deviation;
}

// Half of the lanes at either place.
SharedLoads loads_of_pair(const WordPair& pair) {
  SharedLoads loads;
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    loads.lane_offsets.at(lane) = pair.offsets.at(lane % 2);
  }
  return loads;
}

// Each of `offsets` by at least one lane, in random order. At most warp_lanes of them.
SharedLoads loads_of(std::vector<std::uint32_t> offsets, model::Random& random) {
  const std::size_t distinct = offsets.size();
  while (offsets.size() < warp_lanes) {
    offsets.push_back(offsets[random.below(distinct)]);
  }
  random.shuffle(offsets);
  SharedLoads loads;
  std::ranges::copy(offsets, loads.lane_offsets.begin());
  return loads;
}

std::vector<model::Timing> time(Asker& device, std::vector<SharedLoads> loads, std::uint32_t runs) {
  std::vector<model::Workload> workloads;
  for (SharedLoads& each : loads) {
    each.runs = runs;
    workloads.emplace_back(each);
  }
  return device.time(workloads);
}

// One value for each of `loads`, from so many runs.
std::vector<double> cycles_of(Asker& device, const std::vector<SharedLoads>& loads, std::uint32_t runs) {
  std::vector<double> cycles;
  for (const model::Timing& timing : time(device, loads, runs)) {
    cycles.push_back(middle_mean(timing.cycles));
  }
  return cycles;
}

// The fewest runs that make the error no larger, as far as runs can do that.
std::uint32_t runs_for(double error, const SharedNoise& noise) {
  std::uint32_t runs = 4;
  while (runs < most_runs && noise.error_of(runs) > error) {
    runs *= 2;
  }
  return runs;
}

std::string cycles_text_of(double cycles) { return model::to_text(rounded_to_thousandths(cycles)); }

// With the cycles of a word that all lanes load.
std::pair<SharedNoise, double> find_noise(Asker& device) {
  constexpr std::uint32_t runs = 16;
  constexpr std::size_t repeats = 32;
  device.inquire("a word that all lanes load, again and again", "how much the same load differs");
  device.report("noise", 0.0);
  const auto timings = time(device, std::vector(repeats, model::strided(0, 4, runs)), runs);
  std::vector<double> means;
  double variance = 0;
  for (const model::Timing& timing : timings) {
    means.push_back(middle_mean(timing.cycles));
    const double deviation = deviation_of(timing.cycles);
    variance += deviation * deviation / repeats;
  }
  SharedNoise noise{.run_deviation = std::sqrt(variance)};
  const double of_means = deviation_of(means);
  noise.launch_deviation = of_means > 2 * noise.error_of(runs) ? of_means : 0;
  const double free_cycles = middle_mean(means);
  device.learned(cycles_text_of(free_cycles) + " cycles, of which a run differs by " +
                 cycles_text_of(noise.run_deviation));
  return {noise, free_cycles};
}

// What tells a conflict of two lanes from none.
struct ConflictCost {
  double free_cycles = 0;  // of a word that all lanes load
  double way_cycles = 0;   // what a conflict of two lanes costs
  std::uint32_t runs = 1;  // enough to tell that
  std::vector<BankHypotheses::Answered> answers;

  [[nodiscard]] bool shows_in(double cycles) const { return cycles > free_cycles + way_cycles / 2; }
};

// None: noise would hide it.
std::optional<ConflictCost> find_cost_in(Asker& device, const SharedLoads& stride, const SharedNoise& noise) {
  device.inquire("the first lane of a slow stride with each other one", "two words conflict or not");
  std::vector<BankHypotheses::Answered> pairs;
  for (std::size_t lane = 1; lane < warp_lanes; ++lane) {
    pairs.push_back({.pair = {.offsets = {stride.lane_offsets[0], stride.lane_offsets.at(lane)}}});
  }
  std::vector<SharedLoads> loads;
  std::ranges::transform(pairs, std::back_inserter(loads),
                         [](const BankHypotheses::Answered& answer) { return loads_of_pair(answer.pair); });
  constexpr std::size_t free_repeats = 4;
  loads.insert(loads.end(), free_repeats, model::strided(0, shared_word_bytes, 1));
  // More runs each time, until they are as many as the cost that they show takes.
  for (std::uint32_t runs = 64;;) {
    const std::vector<double> cycles = cycles_of(device, loads, runs);
    const std::span of_pairs = std::span(cycles).first(pairs.size());
    ConflictCost cost;
    cost.free_cycles = spread_of(std::span(cycles).last(free_repeats)).mean;
    const double slowest = std::ranges::max(of_pairs);
    cost.way_cycles = slowest - cost.free_cycles;
    const bool shows = cost.way_cycles > noise.tolerance_of(slowest, runs);
    cost.runs = shows ? runs_for(cost.way_cycles / 2 / (clearly_other_degree + 1), noise) : most_runs;
    if (cost.runs > runs) {
      runs = cost.runs;
      continue;
    }
    if (!shows || noise.error_of(cost.runs) > cost.way_cycles / 2 / clearly_other_degree) {
      device.learned("none that noise would not hide");
      return std::nullopt;
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      pairs[i].conflicts = cost.shows_in(of_pairs[i]);
    }
    cost.answers = std::move(pairs);
    device.learned("a conflict takes " + cycles_text_of(cost.way_cycles) + " cycles");
    return cost;
  }
}

// The strides, the slowest first. Throws Undecided where words are not broadcast, or nothing conflicts.
std::vector<SharedLoads> strides_by_cycles(Asker& device, const SharedNoise& noise, double free_cycles) {
  constexpr std::uint32_t runs = 64;
  device.inquire("every stride up to " + std::to_string(most_stride_words) + " words",
                 "the slowest one has lanes that conflict");
  device.report("cost of a conflict", 0.1);
  std::vector<SharedLoads> strides;
  for (std::uint32_t stride = 1; stride <= most_stride_words; ++stride) {
    strides.push_back(model::strided(stride * shared_word_bytes, shared_word_bytes, 1));
  }
  const std::vector<double> cycles = cycles_of(device, strides, runs);
  const auto [fastest, slowest] = std::ranges::minmax(cycles);
  device.learned(cycles_text_of(fastest) + " to " + cycles_text_of(slowest) + " cycles");
  if (const auto doubt = doubt_of_conflicts({.one_word_cycles = free_cycles,
                                             .fastest_cycles = fastest,
                                             .slowest_cycles = slowest,
                                             .noise = noise,
                                             .runs = runs})) {
    throw Undecided(*doubt);
  }
  std::vector<std::size_t> order(strides.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&cycles](std::size_t i) { return cycles[i]; });
  std::vector<SharedLoads> sorted;
  std::ranges::transform(order, std::back_inserter(sorted), [&strides](std::size_t i) { return strides[i]; });
  return sorted;
}

// What it costs that two lanes conflict: looked for among the lanes of the strides that take longest.
ConflictCost find_cost(Asker& device, const SharedNoise& noise, double free_cycles) {
  constexpr std::size_t strides_to_look_at = 4;
  const std::vector<SharedLoads> strides = strides_by_cycles(device, noise, free_cycles);
  for (std::size_t i = 0; i < strides_to_look_at; ++i) {
    if (auto cost = find_cost_in(device, strides[i], noise)) {
      return *std::move(cost);
    }
  }
  throw Undecided("no two lanes of the slowest strides take longer than one word, beyond the noise of " +
                  cycles_text_of(noise.error_of(most_runs)) + " cycles");
}

std::uint32_t degree_of(const SharedLoads& loads, const Banks& banks) {
  return model::conflict_degree(
      {.banks = banks.banks, .bank_width_bytes = banks.width_bytes, .row_bytes = banks.row_bytes, .latency_cycles = {}},
      loads);
}

// With a conflict or without, if chance finds such words. They come from everywhere, or from a few periods.
SharedLoads random_loads(const Banks& banks, std::size_t words, bool with_conflict, model::Random& random) {
  constexpr unsigned most_tries = 64;
  const std::uint32_t period_bytes = banks.banks * banks.width_bytes;
  SharedLoads loads;
  for (unsigned tries = 0; tries < most_tries; ++tries) {
    const std::uint32_t around = random_word(random);
    const std::uint64_t window_bytes =
        random.below(2) == 0 ? SharedLoads::shared_bytes : period_bytes * (1 + random.below(4));
    const std::uint64_t window_words = window_bytes / shared_word_bytes;
    std::vector<std::uint32_t> offsets(words);
    std::ranges::generate(offsets, [&] {
      const auto beside = static_cast<std::uint32_t>(random.below(window_words)) * shared_word_bytes;
      return (around + beside) % SharedLoads::shared_bytes;
    });
    loads = loads_of(std::move(offsets), random);
    if ((degree_of(loads, banks) > 1) == with_conflict) {
      break;
    }
  }
  return loads;
}

// Fresh loads of 2 to 12 words, about as many with a conflict as without; returns how many. Throws Undecided where the
// banks are wrong about any.
std::size_t check_banks(Questioner asker, const Banks& banks, const ConflictCost& cost) {
  constexpr std::size_t patterns = 512;
  asker.device.report("check of the banks", 0.4);
  asker.device.inquire("random loads of a few words", "whether the layout says which of them conflict");
  std::vector<SharedLoads> loads;
  for (std::size_t i = 0; i < patterns; ++i) {
    const std::size_t words = 2 + asker.random.below(11);
    loads.push_back(random_loads(banks, words, i % 2 == 0, asker.random));
  }
  const std::vector<double> cycles = cycles_of(asker.device, loads, cost.runs);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < patterns; ++i) {
    const bool predicted = degree_of(loads[i], banks) > 1;
    const auto again = [&] { return cycles_of(asker.device, {loads[i]}, std::min(most_runs, 4 * cost.runs)).front(); };
    wrong += cost.shows_in(cycles[i]) != predicted && cost.shows_in(again()) != predicted ? 1U : 0U;
  }
  asker.device.learned(std::to_string(wrong) + " of " + std::to_string(patterns) + " are otherwise");
  if (wrong > 0) {
    throw Undecided("the banks that explain which pairs of words conflict are wrong about " + std::to_string(wrong) +
                    " of " + std::to_string(patterns) + " random loads");
  }
  return patterns;
}

Banks find_banks(Questioner asker, const ConflictCost& cost, Leaves& leaves, SharedMemoryFinding& finding) {
  Asker& device = asker.device;
  const std::size_t questions_before = device.questions_asked();
  leaves.begin("banks", "the questions about it did not end");
  BankHypotheses hypotheses(cost.answers);
  device.report("banks", 0.2);
  device.inquire("pairs of words of which the layouts that are left say different things",
                 "which words conflict tells where the banks are");
  const std::size_t before = hypotheses.left().size();
  while (const std::optional<WordPair> pair = hypotheses.next_question(asker.random)) {
    const double cycles = cycles_of(device, {loads_of_pair(*pair)}, cost.runs).front();
    hypotheses.rule_out({.pair = *pair, .conflicts = cost.shows_in(cycles)});
  }
  device.learned(std::to_string(hypotheses.left().size()) + " layout(s) left", before, hypotheses.left().size());
  if (hypotheses.left().empty()) {
    throw Undecided(
        "no banks of consecutive bytes, whatever their number, width and rows, explain which words conflict");
  }
  const std::size_t trials = check_banks(asker, hypotheses.left().front(), cost);
  leaves["row_bytes"].details.broadcast = true;
  leaves["row_bytes"].details.multicast = true;
  const std::size_t questions = device.questions_asked();
  const BanksVerdict verdict = conclude_banks(hypotheses.left());
  const auto settle_number = [&](const char* leaf, const NumberVerdict& number, std::optional<std::uint32_t>& value) {
    value = number.value;
    leaves.settle(leaf, number.leaf, trials);
  };
  settle_number("banks", verdict.banks, finding.shared_memory.banks);
  settle_number("bank_width_bytes", verdict.bank_width_bytes, finding.shared_memory.bank_width_bytes);
  settle_number("row_bytes", verdict.row_bytes, finding.shared_memory.row_bytes);
  for (const char* leaf : {"banks", "bank_width_bytes", "row_bytes"}) {
    leaves[leaf].experiments = questions - questions_before;
  }
  return hypotheses.left().front();
}

// So many rows of one bank, and beside them words of other banks that make no more.
SharedLoads loads_of_degree(const Banks& banks, std::vector<std::uint32_t> bank_words, std::uint32_t degree,
                            model::Random& random) {
  random.shuffle(bank_words);
  std::vector<std::uint32_t> offsets;
  std::set<std::uint32_t> rows;
  for (const std::uint32_t word : bank_words) {
    if (rows.size() < degree && rows.insert(banks.row_of(word)).second) {
      offsets.push_back(word);
    }
  }
  const std::size_t wanted = degree + random.below(warp_lanes - degree + 1);
  for (unsigned tries = 0; tries < 4 * warp_lanes && offsets.size() < wanted; ++tries) {
    offsets.push_back(random_word(random));
    if (degree_of(loads_of(offsets, random), banks) > degree) {
      offsets.pop_back();
    }
  }
  return loads_of(std::move(offsets), random);
}

// Of every degree that a bank has rows for, ascending.
std::vector<DegreeLatency> time_degrees(Questioner asker, const Banks& banks, std::uint32_t runs) {
  constexpr std::size_t patterns_of_degree = 6;
  std::vector<SharedLoads> loads;
  std::vector<DegreeLatency> points;
  for (std::size_t pattern = 0; pattern < patterns_of_degree; ++pattern) {
    const std::uint32_t bank = banks.bank_of(random_word(asker.random));
    std::vector<std::uint32_t> words;
    std::set<std::uint32_t> rows;
    for (std::uint32_t word = 0; word < SharedLoads::shared_bytes; word += shared_word_bytes) {
      if (banks.bank_of(word) == bank) {
        words.push_back(word);
        rows.insert(banks.row_of(word));
      }
    }
    const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(rows.size(), warp_lanes));
    for (std::uint32_t degree = 1; degree <= most; ++degree) {
      loads.push_back(loads_of_degree(banks, words, degree, asker.random));
      points.push_back({.degree = degree, .cycles = 0});
    }
  }
  const std::vector<double> cycles = cycles_of(asker.device, loads, runs);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].cycles = cycles[i];
  }
  std::ranges::stable_sort(points, {}, &DegreeLatency::degree);
  return points;
}

// Whether the law goes on beyond two rows.
bool goes_on(const model::SharedMemoryLatency& law) { return law.per_way || law.by_degree.size() > 1; }

// What was found of shared memory, and how well it is timed.
struct Timed {
  Banks banks;
  SharedNoise noise;
  std::uint32_t runs = 1;
  model::SharedMemoryLatency law;

  [[nodiscard]] double tolerance_of(double cycles) const { return noise.tolerance_of(cycles, runs); }

  // None: no degree takes so long.
  [[nodiscard]] std::optional<std::uint32_t> degree_that_takes(double cycles) const {
    std::optional<std::uint32_t> nearest;
    double distance = tolerance_of(cycles);
    for (std::uint32_t degree = 1; degree <= (goes_on(law) ? warp_lanes : 2); ++degree) {
      const double away = std::abs(model::cycles_of(law, degree) - cycles);
      if (away < distance) {
        distance = away;
        nearest = degree;
      }
    }
    return nearest;
  }

  // Degrees that were not seen, as turns of wide elements may add up to, cost what the law says if it goes on.
  [[nodiscard]] double predicted_cycles(const SharedLoads& loads) const {
    const std::uint32_t degree = degree_of(loads, banks);
    return model::cycles_of(law, goes_on(law) ? degree : std::min(degree, 2U));
  }

  // The degree whose cycles were measured, for stride 0, 1, ...; none where they are those of none.
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> degrees_of(std::span<const double> cycles) const {
    std::vector<std::optional<std::uint32_t>> degrees;
    for (const double each : cycles) {
      degrees.push_back(degree_that_takes(each));
    }
    return degrees;
  }
};

// Fresh loads of all sorts, the strides among them.
void check_latency(Questioner asker, const Timed& timed, Leaves& leaves, SharedMemoryFinding& finding) {
  constexpr std::size_t patterns = 256;
  asker.device.report("check of the latencies", 0.8);
  asker.device.inquire("random loads and strides", "whether those of one degree take the time that was found for it");
  std::vector<SharedLoads> loads;
  for (std::uint32_t stride = 0; stride <= most_stride_words; ++stride) {
    loads.push_back(model::strided(stride * shared_word_bytes, shared_word_bytes, 1));
  }
  for (std::size_t i = 0; i < patterns; ++i) {
    const std::size_t words = 1 + asker.random.below(warp_lanes);
    loads.push_back(random_loads(timed.banks, words, i % 4 != 0, asker.random));
  }
  const std::vector<double> cycles = cycles_of(asker.device, loads, timed.runs);
  std::vector<CheckedLoad> checked;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    checked.push_back(
        {.predicted_cycles = model::cycles_of(timed.law, degree_of(loads[i], timed.banks)), .cycles = cycles[i]});
  }
  const LatencyVerdict verdict = conclude_latency(checked, timed.noise, timed.runs);
  asker.device.learned(std::to_string(verdict.wrong) + " of " + std::to_string(loads.size()) + " take another time");
  auto& details = leaves["latency_cycles"].details;
  details.residuals = {rounded_to_thousandths(verdict.residuals.first),
                       rounded_to_thousandths(verdict.residuals.second)};
  details.degree_by_stride = timed.degrees_of(std::span(cycles).first(most_stride_words + 1));
  leaves.settle("latency_cycles", verdict.leaf, checked.size());
  if (verdict.leaf.status == EvidenceStatus::resolved) {
    finding.shared_memory.latency_cycles = timed.law;
  }
}

Timed find_latency(Questioner asker, const Banks& banks, const SharedNoise& noise, const ConflictCost& cost,
                   Leaves& leaves, SharedMemoryFinding& finding) {
  leaves.begin("latency_cycles", "the questions about it did not end");
  asker.device.report("latencies", 0.6);
  asker.device.inquire("loads of every degree of conflict", "each further row of a bank takes longer");
  const double error = std::min(cost.way_cycles / 20, 0.003 * cost.free_cycles);
  Timed timed{.banks = banks,
              .noise = noise,
              .runs = std::max(cost.runs, std::min(runs_for(error, noise), most_runs / 4)),
              .law = {}};
  const LatencyLaw law = law_of(time_degrees(asker, banks, timed.runs), noise, timed.runs);
  timed.law = law.latency;
  if (law.slope) {
    auto& details = leaves["latency_cycles"].details;
    details.per_way = rounded_to_thousandths(law.slope->per_way);
    details.per_way_interval_95_percent = {rounded_to_thousandths(law.slope->interval_95_percent.first),
                                           rounded_to_thousandths(law.slope->interval_95_percent.second)};
  }
  asker.device.learned(timed.law.by_degree.empty() ? "each further row takes as long"
                                                   : "the rows take different times");
  check_latency(asker, timed, leaves, finding);
  return timed;
}

// What the description says of elements of 8 and 16 bytes rests on which lanes are served together, which no leaf
// tells; so it is only said whether that holds, but for what all of a size take longer.
void state_wide_elements(Questioner asker, const Timed& timed, std::uint32_t element_bytes,
                         std::optional<model::WideElements>& details) {
  constexpr std::size_t patterns = 32;
  const std::string bytes_text = std::to_string(element_bytes);
  asker.device.report("wide elements", element_bytes == 8 ? 0.9 : 0.95);
  asker.device.inquire("elements of " + bytes_text + " bytes", "how many rows they take");
  std::vector<SharedLoads> loads{model::strided(element_bytes, element_bytes, 1)};
  for (std::uint32_t bytes = 0; bytes <= most_stride_words * shared_word_bytes; bytes += element_bytes) {
    loads.push_back(model::strided(bytes, element_bytes, 1));
  }
  for (std::size_t i = 0; i < patterns; ++i) {
    SharedLoads random = random_loads(timed.banks, warp_lanes, true, asker.random);
    random.element_bytes = element_bytes;
    for (std::uint32_t& offset : random.lane_offsets) {
      offset -= offset % element_bytes;
    }
    loads.push_back(random);
  }
  const std::vector<double> cycles = cycles_of(asker.device, loads, timed.runs);
  std::vector<double> more(loads.size());
  for (std::size_t i = 0; i < loads.size(); ++i) {
    more[i] = cycles[i] - timed.predicted_cycles(loads[i]);
  }
  const double usually_more = median(more);
  std::size_t as_described = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    as_described += std::abs(more[i] - usually_more) <= timed.tolerance_of(cycles[i]) ? 1U : 0U;
  }
  const std::optional<std::uint32_t> contiguous = timed.degree_that_takes(cycles.front() - usually_more);
  const std::string share = std::to_string(as_described) + " of " + std::to_string(loads.size());
  asker.device.learned(share + " take as long as described, and " + cycles_text_of(usually_more) +
                       " cycles more for the size");
  details = {.contiguous_cycles = rounded_to_thousandths(cycles.front()),
             .contiguous_rows = contiguous,
             .more_cycles = rounded_to_thousandths(usually_more),
             .as_described = {as_described, loads.size()}};
}

void go_through_stages(Questioner asker, Leaves& leaves, SharedMemoryFinding& finding) {
  const auto [noise, free_cycles] = find_noise(asker.device);
  const ConflictCost cost = find_cost(asker.device, noise, free_cycles);
  const Banks banks = find_banks(asker, cost, leaves, finding);
  const Timed timed = find_latency(asker, banks, noise, cost, leaves, finding);
  model::EvidenceDetails& details = leaves["latency_cycles"].details;
  state_wide_elements(asker, timed, 8, details.elements_of_8_bytes);
  state_wide_elements(asker, timed, 16, details.elements_of_16_bytes);
  asker.device.report("done", 1.0);
}

}  // namespace

SharedMemoryFinding infer_shared_memory(model::Answerer& device, const std::string& target, const Settings& settings) {
  Asker interrogator(device, target, settings);
  model::Random random = stream(settings, "shared memory");
  SharedMemoryFinding finding;
  Leaves leaves(interrogator, finding, shared_memory_leaves);
  static_cast<void>(
      leaves.go_through([&] { go_through_stages({.device = interrogator, .random = random}, leaves, finding); }));
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
