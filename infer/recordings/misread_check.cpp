// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/misread_check.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

using SetPrediction = SetSimulation::Prediction;
using PredictionsOfSets = std::vector<std::vector<SetPrediction>>;

constexpr double uneven = 0.0025;  // p-value of how errors lie, in each of four respects

// Accesses that ought to be misread alike: those predicted to hit, and those predicted to miss.
struct Misread {
  std::array<std::size_t, 2> wrong{};
  std::array<std::size_t, 2> judged{};

  void add(const SetPrediction& prediction) {
    ++judged.at(prediction.miss ? 1 : 0);
    wrong.at(prediction.miss ? 1 : 0) += prediction.is_wrong ? 1U : 0U;
  }
  [[nodiscard]] double rate(bool miss) const {
    const std::size_t kind = miss ? 1 : 0;
    return static_cast<double>(wrong.at(kind)) / static_cast<double>(std::max<std::size_t>(1, judged.at(kind)));
  }
  [[nodiscard]] std::size_t all_wrong() const { return wrong[0] + wrong[1]; }
  // Chance that so many of all the errors fall here.
  [[nodiscard]] double chance(const Misread& all) const {
    double least = 1;
    for (std::size_t kind = 0; kind < wrong.size(); ++kind) {
      const double share =
          static_cast<double>(judged.at(kind)) / static_cast<double>(std::max<std::size_t>(1, all.judged.at(kind)));
      least = std::min(least, 2 * binomial_upper_tail(wrong.at(kind), all.wrong.at(kind), share));
    }
    return least;
  }
};

std::string doubt_by_set(const PredictionsOfSets& of_sets, const Misread& all, const std::string& of_all) {
  for (const auto& predictions : of_sets) {
    Misread of_set;
    for (const SetPrediction& prediction : predictions) {
      of_set.add(prediction);
    }
    if (of_set.chance(all) * static_cast<double>(of_sets.size()) < uneven) {
      return std::to_string(of_set.all_wrong()) + of_all + "are in one set";
    }
  }
  return {};
}

std::string doubt_by_line(const PredictionsOfSets& of_sets, const Misread& all, const std::string& of_all) {
  std::map<std::uint64_t, Misread> of_line;
  for (const auto& predictions : of_sets) {
    for (const SetPrediction& prediction : predictions) {
      of_line[prediction.line].add(prediction);
    }
  }
  for (const auto& [line, misread] : of_line) {
    if (misread.chance(all) * static_cast<double>(of_line.size()) < uneven) {
      return std::to_string(misread.all_wrong()) + of_all + "are of one line";
    }
  }
  return {};
}

std::string doubt_by_neighbours(const PredictionsOfSets& of_sets, const Misread& all, const std::string& of_all) {
  double expected = 0;
  std::size_t neighbours = 0;
  for (const auto& predictions : of_sets) {
    for (std::size_t i = 1; i < predictions.size(); ++i) {
      expected += all.rate(predictions[i].miss) * all.rate(predictions[i - 1].miss);
      neighbours += predictions[i].is_wrong && predictions[i - 1].is_wrong ? 1U : 0U;
    }
  }
  return poisson_upper_tail(neighbours, expected) < uneven ? std::to_string(neighbours) + of_all + "follow one another"
                                                           : "";
}

// A wrong policy, or room that is counted wrong, shows in lines that were loaded a certain time ago.
std::string doubt_by_age(const PredictionsOfSets& of_sets, bool miss) {
  std::vector<const SetPrediction*> by_age;
  Misread all;
  for (const auto& predictions : of_sets) {
    for (const SetPrediction& prediction : predictions) {
      if (prediction.miss == miss && prediction.age) {
        by_age.push_back(&prediction);
        all.add(prediction);
      }
    }
  }
  std::ranges::stable_sort(by_age, {}, [](const SetPrediction* prediction) { return *prediction->age; });
  for (const std::size_t parts : {2U, 8U}) {
    for (std::size_t part = 0; part < parts; ++part) {
      Misread of_part;
      for (std::size_t i = part * by_age.size() / parts; i < (part + 1) * by_age.size() / parts; ++i) {
        of_part.add(*by_age[i]);
      }
      if (of_part.chance(all) * static_cast<double>(2 * parts) < uneven) {
        return std::to_string(of_part.all_wrong()) + " of its " + std::to_string(all.all_wrong()) +
               " errors where it predicts " + (miss ? "misses" : "hits") +
               " are of lines that were loaded about equally long ago";
      }
    }
  }
  return {};
}

}  // namespace

std::string doubt_in_errors(const TraceFit& fit, const SetSimulation& simulation,
                            const std::function<void()>& at_times) {
  const auto sets = fit.split.lines_of_sets();
  PredictionsOfSets of_sets;
  Misread all;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    at_times();
    of_sets.push_back(simulation.predictions(sets[set], {.ways = fit.ways[set], .policy = fit.policy}));
    for (const SetPrediction& prediction : of_sets.back()) {
      all.add(prediction);
    }
  }
  constexpr std::size_t fewest_to_judge = 20;
  if (all.all_wrong() < fewest_to_judge && all.all_wrong() * 1000 > simulation.judged()) {
    return std::to_string(all.all_wrong()) + " errors are too few to tell whether they are misreads";
  }
  const std::string of_all = " of its " + std::to_string(all.all_wrong()) + " errors ";
  std::string doubt = doubt_by_set(of_sets, all, of_all);
  at_times();
  doubt = doubt.empty() ? doubt_by_line(of_sets, all, of_all) : doubt;
  at_times();
  doubt = doubt.empty() ? doubt_by_neighbours(of_sets, all, of_all) : doubt;
  doubt = doubt.empty() ? doubt_by_age(of_sets, false) : doubt;
  at_times();
  return doubt.empty() ? doubt_by_age(of_sets, true) : doubt;
}

}  // namespace gpuinfer::infer
