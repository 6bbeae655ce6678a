// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/circumstances/sm_groups.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "infer/asking/statistics.hpp"

namespace gpuinfer::infer {

namespace {

// Lines that the first SM of a group brings.
constexpr std::uint64_t lines_of_group = 16;

// Puts each SM in the group of which it finds what the first one has brought. `group_of(sm, groups)`: the number of
// that group, which is a new one where it finds nothing; none when it finds half, or what several groups have brought.
template <class GroupOf>
SmGroups grouped(std::size_t sm_count, GroupOf group_of) {
  SmGroups found;
  for (const model::ComputeUnit sm : model::all_units(sm_count)) {
    const std::optional<std::size_t> of_sm = group_of(sm, found.groups);
    if (!of_sm) {
      return {.groups = {},
              .reason = "SM " + std::to_string(number_of(sm)) + " finds only some of what others have brought"};
    }
    if (*of_sm == found.groups.size()) {
      found.groups.emplace_back();
    }
    found.groups[*of_sm].push_back(sm);
  }
  return found;
}

// What the first SMs of several groups load before, in the same question.
class SmGroupsInOneQuestion {
 public:
  SmGroupsInOneQuestion(Interrogator& device, std::uint64_t line_bytes)
      : device_(&device), line_bytes_(line_bytes), hit_cycles_(device.classifier().hit_median_cycles()),
        delay_cycles_(device.classifier().miss_median_cycles() - device.classifier().hit_median_cycles()) {}

  SmGroups find() {
    return grouped(*device_->facts().sm_count,
                   [this](model::ComputeUnit sm, const std::vector<model::ComputeUnits>& groups) {
                     model::ComputeUnits first_sms;
                     for (const model::ComputeUnits& group : groups) {
                       first_sms.push_back(group.front());
                     }
                     return group_of(sm, first_sms);
                   });
  }

 private:
  // The number of the one whose lines it finds, of all of them in ascending order; as many as there are: of none.
  std::optional<std::size_t> group_of(model::ComputeUnit sm, const model::ComputeUnits& first_sms) {
    const auto any = finds(sm, first_sms);
    if (!any) {
      return std::nullopt;
    }
    if (!*any) {
      return first_sms.size();
    }
    std::size_t begin = 0;
    std::size_t end = first_sms.size();
    while (end - begin > 1) {
      const std::size_t middle = begin + (end - begin) / 2;
      const auto in_first_half = finds(sm, {first_sms.begin() + static_cast<std::ptrdiff_t>(begin),
                                            first_sms.begin() + static_cast<std::ptrdiff_t>(middle)});
      if (!in_first_half) {
        return std::nullopt;
      }
      (*in_first_half ? end : begin) = middle;
    }
    const auto is_it = finds(sm, {first_sms[begin]});
    return is_it && *is_it ? std::optional(begin) : std::nullopt;
  }

  // Whether the SM finds lines that all of these have loaded as fast as its own, and not others; none: only some of
  // them, or neither as fast as its own nor as late as what nobody has loaded.
  std::optional<bool> finds(model::ComputeUnit sm, const model::ComputeUnits& warm_sms) {
    constexpr int tries = 3;
    constexpr double as_hits = 0.4;  // of a miss: SMs are not equally far from it
    constexpr double as_misses = 0.75;
    if (warm_sms.empty()) {
      return false;
    }
    const AccessSequence brought = model::cold_pass(0, lines_of_group * line_bytes_, line_bytes_);
    AccessSequence recorded = model::cold_pass(lines_of_group * line_bytes_, lines_of_group * line_bytes_, line_bytes_);
    recorded.insert(recorded.end(), brought.begin(), brought.end());
    model::Question question = device_->question_unflooded(brought, std::move(recorded));
    question.state = model::StartState::invalidated;
    question.circumstances.unit = sm;
    question.circumstances.warm_units = warm_sms;
    for (int i = 0; i < tries; ++i) {
      const std::vector<float> cycles = device_->latencies({&question, 1}).front();
      const auto others_end = cycles.begin() + static_cast<std::ptrdiff_t>(lines_of_group);
      const double of_others = delay_of({cycles.begin(), others_end});
      const double of_brought = delay_of({others_end, cycles.end()});
      const bool is_clear = of_brought < as_hits || of_brought > as_misses;
      if (of_others > as_misses && is_clear) {
        return of_brought < as_hits;
      }
    }
    return std::nullopt;
  }

  // From a hit to a miss.
  [[nodiscard]] double delay_of(const std::vector<double>& cycles) const {
    return (median(cycles) - hit_cycles_) / delay_cycles_;
  }

  Interrogator* device_;
  std::uint64_t line_bytes_;
  double hit_cycles_;
  double delay_cycles_;
};

class SmGroupSearch {
 public:
  SmGroupSearch(Interrogator& device, std::uint64_t line_bytes)
      : device_(&device), line_bytes_(line_bytes), ballast_lines_(2 * *device.buffer().nearer_bytes / line_bytes + 1),
        most_groups_((device.buffer().bytes / line_bytes - ballast_lines_) / lines_of_group) {}

  SmGroups find() {
    if (device_->starts_flooded()) {
      return {.groups = {}, .reason = "it cannot be emptied, so what other SMs brought cannot be told from the rest"};
    }
    return grouped(
        *device_->facts().sm_count,
        [this](model::ComputeUnit sm, const std::vector<model::ComputeUnits>& groups) { return group_of(sm, groups); });
  }

 private:
  // Lines that nobody has brought, so many that they drive all others out of the nearer level.
  [[nodiscard]] AccessSequence ballast() const {
    return model::cold_pass(0, ballast_lines_ * line_bytes_, line_bytes_);
  }

  [[nodiscard]] AccessSequence lines_of(std::size_t group) const {
    const std::uint64_t begin = (ballast_lines_ + group * lines_of_group) * line_bytes_;
    return model::cold_pass(begin, lines_of_group * line_bytes_, line_bytes_);
  }

  [[nodiscard]] model::Question on(model::ComputeUnit sm, model::StartState state, AccessSequence warm,
                                   AccessSequence record) const {
    model::Question question = device_->question_unflooded(std::move(warm), std::move(record));
    question.state = state;
    question.circumstances.unit = sm;
    return question;
  }

  // By how much longer the SM takes for what each group has brought than when it has just loaded it itself, and for the
  // ballast, which nobody has brought.
  struct Delays {
    double noise = 0;  // no smaller delay is one
    double of_ballast = 0;
    std::vector<double> of_groups;
  };

  Delays delays(model::ComputeUnit sm, const std::vector<model::ComputeUnits>& groups) {
    constexpr std::size_t laps = 6;  // until the data are as near as they come
    AccessSequence all = ballast();
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const AccessSequence lines = lines_of(group);
      all.insert(all.end(), lines.begin(), lines.end());
    }
    std::vector<model::Question> questions{
        on(sm, model::StartState::keep, model::repeated(all, laps), model::repeated(all, 2))};
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto state = group == 0 ? model::StartState::invalidated : model::StartState::keep;
      questions.push_back(on(groups[group].front(), state, {}, lines_of(group)));
    }
    questions.push_back(on(sm, model::StartState::keep, {}, all));
    const std::vector<std::vector<float>> answers = device_->latencies(questions);
    const std::vector<float>& own = answers.front();
    const auto delay = [&](std::size_t begin, std::size_t end) {
      std::vector<double> differences;
      for (std::size_t i = begin; i < end; ++i) {
        differences.push_back(answers.back()[i] - own[i]);
      }
      return median(std::move(differences));
    };
    std::vector<double> between_laps;
    for (std::size_t i = 0; i < all.size(); ++i) {
      between_laps.push_back(std::abs(own[all.size() + i] - own[i]));
    }
    // Six standard errors of the median of a group's lines, and the step of the clock.
    Delays found{.noise = 2 + 6 * 1.25 * median(std::move(between_laps)) / std::sqrt(lines_of_group),
                 .of_ballast = delay(0, ballast_lines_),
                 .of_groups = {}};
    for (std::size_t begin = ballast_lines_; begin < all.size(); begin += lines_of_group) {
      found.of_groups.push_back(delay(begin, begin + lines_of_group));
    }
    return found;
  }

  std::optional<std::size_t> group_of(model::ComputeUnit sm, const std::vector<model::ComputeUnits>& groups) {
    constexpr int tries = 3;
    if (groups.size() >= most_groups_) {
      return std::nullopt;
    }
    if (groups.empty()) {
      return 0;
    }
    for (int i = 0; i < tries; ++i) {
      const Delays found = delays(sm, groups);
      std::vector<std::size_t> finds_of;
      bool in_doubt = found.of_ballast < 2 * found.noise;
      for (std::size_t group = 0; group < groups.size(); ++group) {
        // What a level behind has is found sooner than what nobody has, but later than what this one has.
        const double delay = found.of_groups[group];
        if (delay < found.noise) {
          finds_of.push_back(group);
        }
        in_doubt = in_doubt || (delay >= found.noise && delay < 2 * found.noise);
      }
      if (!in_doubt && finds_of.size() <= 1) {
        return finds_of.empty() ? groups.size() : finds_of.front();
      }
    }
    return std::nullopt;
  }

  Interrogator* device_;
  std::uint64_t line_bytes_;
  std::uint64_t ballast_lines_;
  std::uint64_t most_groups_;
};

}  // namespace

SmGroups find_sm_groups(Interrogator& device, std::uint64_t line_bytes) {
  const bool is_in_one = device.is_among(device.facts().warm_unit_targets);
  return is_in_one ? SmGroupsInOneQuestion(device, line_bytes).find() : SmGroupSearch(device, line_bytes).find();
}

}  // namespace gpuinfer::infer
