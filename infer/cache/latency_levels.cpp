// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/latency_levels.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "infer/asking/statistics.hpp"
#include "infer/asking/thresholds.hpp"
#include "infer/cache/known_outcomes.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

std::vector<double> hits_of(Asker& asker, const LevelClassifier& classifier,
                            const std::vector<model::Question>& questions) {
  std::vector<double> hits;
  for (const std::vector<float>& answer : asker.latencies(questions)) {
    std::ranges::copy_if(answer, std::back_inserter(hits),
                         [&](float latency) { return classifier.read(latency) == Reading::hit; });
  }
  return hits;
}

// What hits take that the nearer level does not answer, where its own take less: of laps over twice as much as it holds
// hardly any load is as quick as half of those that it answers, so these move no median. Shorter strides load each of
// its lines several times in a row.
std::optional<double> hit_beyond_nearer_level(Asker& asker, const LevelClassifier& classifier) {
  constexpr std::size_t loads = 512;
  constexpr std::uint64_t most_lines = 64;
  constexpr std::uint64_t fewest_lines = 8;
  constexpr double most_as_quick = 0.05;
  const std::uint64_t nearer_bytes = *asker.buffer().nearer_bytes;
  std::vector<model::Question> of_one_place = known_hits(asker, loads);
  of_one_place.pop_back();  // the walk
  try {
    const std::vector<double> nearer = hits_of(asker, classifier, of_one_place);
    for (std::uint64_t lines = most_lines; !nearer.empty() && lines >= fewest_lines; lines /= 2) {
      const std::uint64_t stride = std::max(model::load_bytes, nearer_bytes / lines);
      const AccessSequence lap = model::cold_pass(0, 2 * nearer_bytes, stride);
      std::vector<double> beyond =
          hits_of(asker, classifier, {asker.question(lap, model::repeated(lap, 1 + loads / lap.size()))});
      const double quick = median(nearer);
      const auto as_quick = std::ranges::count_if(beyond, [&](double cycles) { return cycles <= quick; });
      if (beyond.size() >= loads / 2 &&
          static_cast<double>(as_quick) <= most_as_quick * static_cast<double>(beyond.size())) {
        return median(std::move(beyond));
      }
    }
  } catch (const QuestionRefused&) {  // as recordings do
  }
  return std::nullopt;
}

}  // namespace

LatencyLevels find_latency_levels(Asker& asker, Spans spans) {
  constexpr std::uint64_t smallest_buffer_bytes = 4096;
  if (asker.buffer().bytes < smallest_buffer_bytes) {
    return {.cycles = {},
            .reason = "the buffer has " + std::to_string(asker.buffer().bytes) + " bytes, and at least " +
                      std::to_string(smallest_buffer_bytes) + " are needed"};
  }
  asker.inquire("loads of lines that were just loaded, first touches, and lines that were driven out",
                "before anything else, a hit has to be told from a miss");
  asker.choose_start();
  LevelClassifier classifier = calibrate(asker, spans);
  const std::string hit = model::whole_text(classifier.hit_median_cycles());
  const std::string miss = model::whole_text(classifier.miss_median_cycles());
  if (!classifier.levels_are_apart()) {
    asker.learned("hits and misses do not come apart");
    return {.cycles = {},
            .reason = "loads that should hit and loads that should miss take the same time (" + hit + " and " + miss +
                      " cycles): there is no cache on this path, it is never empty, or noise hides the difference"};
  }
  if (classifier.misreads_are_too_frequent()) {
    const TooManyMisreads misreads{.share = classifier.unexplained_misreads()};
    asker.learned(observed(misreads));
    return {.cycles = {},
            .reason =
                observed(misreads) + ", and more than " + model::percent_text(most_misread) + " leave nothing certain",
            .warning = misreads};
  }
  asker.learned("hits take " + hit + " cycles, misses " + miss);
  LatencyLevels levels{
      .cycles = model::LatencyCycles{.hit = classifier.hit_median_cycles(), .miss = classifier.miss_median_cycles()},
      .reason = {}};
  if (asker.buffer().nearer_bytes && asker.reach_beyond_nearer() != Reach::wide) {
    levels.cycles->hit = hit_beyond_nearer_level(asker, classifier);
    if (!levels.cycles->hit) {
      return {
          .cycles = {},
          .reason =
              "this level holds hardly more than the one in front of it, whose hits are among those that were timed",
          .classifier = std::move(classifier)};
    }
  }
  constexpr double least_cycles = 16;
  constexpr double least_share = 0.05;
  const double tolerance = std::max(least_cycles, least_share * classifier.miss_median_cycles());
  const auto leave_miss_open = [&](std::string reason) {
    levels.cycles->miss.reset();
    levels.reason = std::move(reason);
  };
  const auto [low, high] = classifier.miss_median_interval_cycles();
  const std::optional<double> evicted = classifier.evicted_median_cycles();
  // Behind a nearer level a start drops more than this one, and a lap may drive lines further than one level: the upper
  // levels of a page table, say.
  if (asker.buffer().nearer_bytes && !evicted) {
    leave_miss_open("too few lines were seen to be evicted, and first touches, which take " + miss +
                    " cycles, may come from further away than the next level");
  } else if (asker.buffer().nearer_bytes && *evicted > classifier.miss_median_cycles() + tolerance) {
    leave_miss_open("some evicted lines take " + miss + " cycles, and half of them more than " +
                    model::whole_text(*evicted));
  } else if (high - low > tolerance) {
    leave_miss_open("misses come from levels that differ: about as many take less than " + model::whole_text(low) +
                    " cycles as more than " + model::whole_text(high));
  }
  levels.classifier = std::move(classifier);
  return levels;
}

void settle_latency(Leaves& leaves, const LatencyLevels& levels) {
  leaves.resolve("latency_cycles", leaves.questions());
  if (!levels.cycles->miss) {
    leaves.leave_open("latency_cycles", model::EvidenceStatus::ambiguous, levels.reason);
  }
}

}  // namespace gpuinfer::infer
