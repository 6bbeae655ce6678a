// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/validate_chance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/cache_simulator.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t simulated_runs = 999;
constexpr std::size_t most_judged = 200'000;

// The accesses of a recording that count, in order.
struct Judged {
  std::vector<std::size_t> place;                        // among the recorded ones
  std::vector<std::uint32_t> set;                        // its number among those that occur
  std::vector<std::optional<std::size_t>> last_of_line;  // the judged access to the same line before
  std::vector<std::uint32_t> name_of_set;
};

// One run: whether each judged access missed.
using Run = std::vector<bool>;

std::size_t first_judged(const model::Trace& trace) {
  const model::AccessSequence& record = trace.question.record;
  if (trace.start_is_known && !model::may_hold_others(trace.question.state)) {
    return 0;
  }
  constexpr std::size_t rounds_unseen = 8;
  const std::unordered_set<std::uint64_t> distinct(record.begin(), record.end());
  return std::min(record.size() / 3, rounds_unseen * distinct.size());
}

Judged judged_of(const model::CacheDescription& cache, const model::Trace& trace, const std::vector<Reading>& readings,
                 model::Address address_of_buffer) {
  Judged judged;
  std::map<std::uint32_t, std::uint32_t> number_of;
  std::unordered_map<model::Address, std::size_t> last;
  for (std::size_t i = first_judged(trace); i < readings.size() && judged.place.size() < most_judged; ++i) {
    if (readings[i] == Reading::unclear) {
      continue;
    }
    const model::Address line = aligned_down(address_of_buffer + trace.question.record[i], *cache.line_bytes);
    const std::uint32_t name = model::set_of(*cache.index, line);
    const auto [number, is_new] = number_of.emplace(name, static_cast<std::uint32_t>(number_of.size()));
    if (is_new) {
      judged.name_of_set.push_back(name);
    }
    const auto [before, is_first] = last.try_emplace(line, judged.place.size());
    judged.last_of_line.push_back(is_first ? std::nullopt : std::optional(before->second));
    before->second = judged.place.size();
    judged.place.push_back(i);
    judged.set.push_back(number->second);
  }
  return judged;
}

std::vector<std::uint64_t> addresses_of(const model::AccessSequence& offsets, std::size_t count,
                                        model::Address address_of_buffer) {
  return model::address_numbers({offsets.begin(), offsets.begin() + static_cast<std::ptrdiff_t>(count)},
                                address_of_buffer);
}

std::vector<Run> simulate(const model::CacheDescription& cache, const model::Trace& trace, const Judged& judged,
                          model::Address address_of_buffer, std::uint64_t seed) {
  const model::Question& question = trace.question;
  const bool start_is_known = trace.start_is_known && !model::may_hold_others(question.state);
  const auto warm = addresses_of(question.warm, question.warm.size(), address_of_buffer);
  const auto record =
      addresses_of(question.record, judged.place.empty() ? 0 : judged.place.back() + 1, address_of_buffer);
  std::vector<model::Outcome> outcomes(record.size());
  std::vector<Run> runs;
  model::Random seeds = model::RandomStreams(seed).random("runs");
  for (std::size_t r = 0; r < simulated_runs; ++r) {
    const auto simulator = model::CacheSimulator::make(cache, seeds());
    simulator->put_into(model::StartState::clean);
    if (!start_is_known) {
      simulator->play(record, {});
    }
    simulator->play(warm, {});
    simulator->play(record, outcomes);
    Run& run = runs.emplace_back();
    for (const std::size_t place : judged.place) {
      run.push_back(is_miss(outcomes[place]));
    }
  }
  return runs;
}

// In how many of all runs each access misses.
std::vector<std::size_t> missing_runs(const std::vector<Run>& runs) {
  std::vector<std::size_t> missing(runs.front().size());
  for (const Run& run : runs) {
    for (std::size_t i = 0; i < run.size(); ++i) {
      missing[i] += run[i] ? 1U : 0U;
    }
  }
  return missing;
}

// A share of misreads as likely as it is by what is known of it: `otherwise` of `certain` accesses were misread, and
// before that it was anything up to the most (Jeffreys' prior).
class MisreadShare {
 public:
  MisreadShare(std::size_t otherwise, std::size_t certain) {
    const double misread = static_cast<double>(otherwise) - 0.5;
    const double read = static_cast<double>(certain - otherwise) - 0.5;
    std::vector<double> nats;
    for (std::size_t step = 0; step < steps; ++step) {
      nats.push_back(misread * std::log(share(step)) + read * std::log1p(-share(step)));
    }
    const double most = *std::ranges::max_element(nats);
    double sum = 0;
    for (const double each : nats) {
      sum += std::exp(each - most);
      below_.push_back(sum);
    }
  }

  [[nodiscard]] double draw(model::Random& random) const {
    const auto found = std::ranges::lower_bound(below_, random.unit() * below_.back());
    return share(static_cast<std::size_t>(found - below_.begin()));
  }

 private:
  static constexpr std::size_t steps = 1000;

  [[nodiscard]] static double share(std::size_t step) {
    return most_misread * (static_cast<double>(step) + 0.5) / static_cast<double>(steps);
  }

  std::vector<double> below_;
};

// What hits in every run, and what misses in every run, tells by how much of it was recorded otherwise how large the
// share of misreads may be. Where little is certain that is hardly known, so each run has a share of its own.
// `missing`: in how many runs each access misses.
void add_misreads(std::vector<Run>& runs, const std::vector<std::size_t>& missing, const Run& recorded,
                  std::uint64_t seed, ChanceAgreement& agreement) {
  for (const bool miss : {false, true}) {
    std::size_t certain = 0;
    std::size_t otherwise = 0;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      if (missing[i] == (miss ? runs.size() : 0)) {
        ++certain;
        otherwise += recorded[i] != miss ? 1U : 0U;
      }
    }
    agreement.certain += certain;
    agreement.certain_otherwise += otherwise;
    const MisreadShare known(otherwise, certain);
    model::Random random = model::RandomStreams(seed).random("misreads", miss);
    for (Run& run : runs) {
      // Draws how far the next misread is, as there are few.
      const double decay = std::log1p(-known.draw(random));
      const auto distance = [&] { return std::log1p(-random.unit()) / decay; };
      double next = distance();
      for (std::size_t i = 0; i < run.size(); ++i) {
        if (run[i] == miss) {
          if (next < 1) {
            run[i] = !miss;
            next = distance();
          } else {
            next -= 1;
          }
        }
      }
    }
  }
}

// By run and set, of the accesses that count.
std::vector<std::vector<double>> misses_of_sets(const std::vector<Run>& runs, const Judged& judged,
                                                const std::vector<bool>& counts) {
  std::vector<std::vector<double>> misses;
  for (const Run& run : runs) {
    std::vector<double>& of_sets = misses.emplace_back(judged.name_of_set.size());
    for (std::size_t i = 0; i < run.size(); ++i) {
      of_sets[judged.set[i]] += counts[i] && run[i] ? 1 : 0;
    }
  }
  return misses;
}

// By run: squared distances from the means, in deviations.
std::vector<double> distances(const std::vector<std::vector<double>>& misses_of_runs) {
  std::vector<double> distances(misses_of_runs.size());
  for (std::size_t set = 0; set < misses_of_runs.front().size(); ++set) {
    std::vector<double> misses;
    for (const auto& of_run : misses_of_runs) {
      misses.push_back(of_run[set]);
    }
    const Spread spread = spread_of(misses);
    for (std::size_t r = 0; r < distances.size(); ++r) {
      const double distance = spread.deviation > 0 ? (misses[r] - spread.mean) / spread.deviation : 0;
      distances[r] += distance * distance;
    }
  }
  return distances;
}

std::vector<double> likelihoods(const std::vector<Run>& runs, const std::vector<bool>& counts) {
  const std::vector<std::size_t> missing = missing_runs(runs);
  const auto all = static_cast<double>(runs.size());
  std::vector<double> nats(runs.size());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!counts[i]) {
      continue;
    }
    const double miss = std::log((static_cast<double>(missing[i]) + 0.5) / (all + 1));
    const double hit = std::log((all - static_cast<double>(missing[i]) + 0.5) / (all + 1));
    for (std::size_t r = 0; r < runs.size(); ++r) {
      nats[r] += runs[r][i] ? miss : hit;
    }
  }
  return nats;
}

std::vector<double> repeats(const std::vector<Run>& runs, const Judged& judged, const std::vector<bool>& counts) {
  std::vector<double> repeats;
  for (const Run& run : runs) {
    double repeated = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
      const auto& last = judged.last_of_line[i];
      repeated += counts[i] && last && run[i] && run[*last] ? 1 : 0;
    }
    repeats.push_back(repeated);
  }
  return repeats;
}

// Share of the values, the last one included, that are no smaller than the last one.
double share_above_last(const std::vector<double>& values) {
  const auto above = std::ranges::count_if(values, [last = values.back()](double value) { return value >= last; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

// Of a value that may be too small or too large.
double share_beyond_last(std::vector<double> values) {
  const double above = share_above_last(values);
  std::ranges::transform(values, values.begin(), std::negate<>());
  return std::min(1.0, 2 * std::min(above, share_above_last(values)));
}

std::pair<double, double> middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t cut = values.size() / 200;
  return {values[cut], values[values.size() - 1 - cut]};
}

}  // namespace

namespace {

void put_p_values(ChanceAgreement& agreement) {
  agreement.p_of_certain = binomial_upper_tail(agreement.certain_otherwise, agreement.certain, most_misread);
  agreement.p_of_sets = share_above_last(agreement.of_runs.distance);
  agreement.p_of_likelihood = share_beyond_last(agreement.of_runs.likelihood);
  agreement.p_of_repeats = share_beyond_last(agreement.of_runs.repeats);
}

void add(std::vector<double>& sums, const std::vector<double>& values) {
  sums.resize(std::max(sums.size(), values.size()));
  std::ranges::transform(values, sums, sums.begin(), std::plus<>());
}

}  // namespace

double ChanceAgreement::p_value() const {
  return std::min(1.0, 4 * std::min({p_of_sets, p_of_likelihood, p_of_repeats, p_of_certain}));
}

ChanceAgreement validate_chance(const model::CacheDescription& cache, const model::Trace& trace,
                                const std::vector<Reading>& readings, model::Address address_of_buffer,
                                std::uint64_t seed) {
  static_cast<void>(model::CacheSimulator::make(cache, seed));  // throws where a leaf is null
  const Judged judged = judged_of(cache, trace, readings, address_of_buffer);
  ChanceAgreement agreement;
  agreement.judged = judged.place.size();
  if (judged.place.empty()) {
    return agreement;
  }
  Run recorded;
  for (const std::size_t place : judged.place) {
    recorded.push_back(readings[place] == Reading::miss);
  }
  std::vector<Run> runs = simulate(cache, trace, judged, address_of_buffer, seed);
  const std::vector<std::size_t> missing = missing_runs(runs);
  std::vector<bool> differs;
  for (const std::size_t missed : missing) {
    differs.push_back(missed > 0 && missed < runs.size());
  }
  add_misreads(runs, missing, recorded, seed, agreement);
  // The recorded run is one of all, and the last of them.
  runs.push_back(recorded);
  const std::vector<std::vector<double>> misses = misses_of_sets(runs, judged, std::vector(recorded.size(), true));
  agreement.of_runs = {.distance = distances(misses_of_sets(runs, judged, differs)),
                       .likelihood = likelihoods(runs, differs),
                       .repeats = repeats(runs, judged, differs)};
  put_p_values(agreement);

  std::vector<double> all(runs.size());
  for (std::size_t set = 0; set < judged.name_of_set.size(); ++set) {
    std::vector<double> of_set;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      of_set.push_back(misses[r][set]);
      all[r] += of_set.back();
    }
    agreement.sets.push_back(
        {.set = judged.name_of_set[set],
         .judged = static_cast<std::size_t>(std::ranges::count(judged.set, static_cast<std::uint32_t>(set))),
         .misses = static_cast<std::size_t>(of_set.back()),
         .expected_misses = middle_of(of_set)});
  }
  std::ranges::sort(agreement.sets, {}, &ChanceAgreement::SetMisses::set);
  agreement.misses = static_cast<std::size_t>(all.back());
  agreement.expected_misses = middle_of(all);
  return agreement;
}

double p_value_of_all(std::span<const ChanceAgreement* const> recordings) {
  ChanceAgreement all;
  for (const ChanceAgreement* const each : recordings) {
    add(all.of_runs.distance, each->of_runs.distance);
    add(all.of_runs.likelihood, each->of_runs.likelihood);
    add(all.of_runs.repeats, each->of_runs.repeats);
    all.certain += each->certain;
    all.certain_otherwise += each->certain_otherwise;
  }
  if (!all.of_runs.distance.empty()) {
    put_p_values(all);
  }
  return all.p_value();
}

}  // namespace gpuinfer::infer
