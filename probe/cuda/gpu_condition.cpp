// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/gpu_condition.hpp"

#include <algorithm>
#include <utility>

#include "model/description/words.hpp"

namespace gpuinfer::probe::cuda {

using model::Disturbance;

namespace {

template <class Number>
struct Course {
  Number first = 0;
  Number least = 0;
  Number most = 0;
};

// None when it was never known.
template <class Number>
std::optional<Course<Number>> course_of(std::span<const GpuCondition> seen,
                                        std::optional<Number> GpuCondition::*quantity) {
  std::optional<Course<Number>> course;
  for (const GpuCondition& condition : seen) {
    if (const std::optional<Number>& value = condition.*quantity) {
      if (!course) {
        course = {*value, *value, *value};
      }
      course->least = std::min(course->least, *value);
      course->most = std::max(course->most, *value);
    }
  }
  return course;
}

void add_clock(std::vector<Disturbance>& all, const std::string& clock,
               const std::optional<Course<std::uint32_t>>& course) {
  if (!course) {
    return;
  }
  const auto [first_mhz, least_mhz, most_mhz] = *course;
  const double tolerated_mhz = clock_tolerance * first_mhz;
  std::string change;
  if (first_mhz - least_mhz > tolerated_mhz) {
    change = " down to " + std::to_string(least_mhz) + " MHz";
  }
  if (most_mhz - first_mhz > tolerated_mhz) {
    change += (change.empty() ? " up to " : " and up to ") + std::to_string(most_mhz) + " MHz";
  }
  if (!change.empty()) {
    constexpr int tolerated_per_cent = static_cast<int>(100 * clock_tolerance);
    all.push_back(
        {Disturbance::Kind::clocks, "the " + clock + " clock went from " + std::to_string(first_mhz) + " MHz" + change +
                                        ", and at most " + std::to_string(tolerated_per_cent) +
                                        " % are expected; measure again when the GPU is cool and has no other work"});
  }
}

void add_rise(std::vector<Disturbance>& all, const std::string& what,
              const std::optional<Course<std::uint64_t>>& course, const std::string& detail) {
  if (course && course->most > course->first) {
    all.push_back({Disturbance::Kind::memory_errors,
                   what + " rose from " + std::to_string(course->first) + " to " + std::to_string(course->most) +
                       ", and no rise is expected; measure again, and look at `nvidia-smi -q -d " + detail +
                       "` if it goes on"});
  }
}

}  // namespace

std::map<std::string, std::string> provenance_of(const GpuCondition& condition) {
  std::map<std::string, std::string> provenance;
  std::set<std::string> watched;
  const auto note = [&](const char* name, const auto& quantity) {
    if (quantity) {
      watched.insert(name);
    }
  };
  if (condition.sm_clock_mhz) {
    provenance["sm_clock_mhz"] = std::to_string(*condition.sm_clock_mhz);
  }
  if (condition.memory_clock_mhz) {
    provenance["memory_clock_mhz"] = std::to_string(*condition.memory_clock_mhz);
  }
  note("sm_clock", condition.sm_clock_mhz);
  note("memory_clock", condition.memory_clock_mhz);
  note("slowdowns", condition.slowdowns);
  note("other_processes", condition.other_processes);
  note("corrected_errors", condition.corrected_errors);
  note("uncorrected_errors", condition.uncorrected_errors);
  note("replaced_rows", condition.replaced_rows);
  provenance["watched"] = watched.empty() ? "nothing" : model::words::joined(watched);
  return provenance;
}

std::vector<Disturbance> disturbances(std::span<const GpuCondition> seen) {
  std::vector<Disturbance> all;
  add_clock(all, "SM", course_of(seen, &GpuCondition::sm_clock_mhz));
  add_clock(all, "memory", course_of(seen, &GpuCondition::memory_clock_mhz));

  std::set<std::string> slowdowns;
  for (const GpuCondition& condition : seen) {
    if (condition.slowdowns) {
      slowdowns.insert(condition.slowdowns->begin(), condition.slowdowns->end());
    }
  }
  if (!slowdowns.empty()) {
    all.push_back({Disturbance::Kind::clocks, "the GPU held its clocks down (" + model::words::joined(slowdowns) +
                                                  "), and nothing of that kind is expected; see to its cooling and "
                                                  "power, then measure again"});
  }

  if (const auto others = course_of(seen, &GpuCondition::other_processes); others && others->most > 0) {
    all.push_back({Disturbance::Kind::other_processes,
                   (others->most == 1 ? "another process" : std::to_string(others->most) + " other processes") +
                       " had a compute context on the GPU, and none is expected; measure again when "
                       "`nvidia-smi` lists no other"});
  }

  add_rise(all, "corrected memory errors of the GPU", course_of(seen, &GpuCondition::corrected_errors), "ECC");
  add_rise(all, "uncorrected memory errors of the GPU", course_of(seen, &GpuCondition::uncorrected_errors), "ECC");
  add_rise(all, "replaced rows in the memory of the GPU", course_of(seen, &GpuCondition::replaced_rows),
           "ROW_REMAPPER,PAGE_RETIREMENT");
  return all;
}

GpuCondition ConditionWatch::begin(const std::function<void()>& work) {
  if (!look_) {
    return {};
  }
  seen_ = {look_when_steady(work)};
  return seen_.front();
}

GpuCondition ConditionWatch::look_when_steady(const std::function<void()>& work) const {
  const auto look_at_work = [&] {
    work();
    return look_();
  };
  constexpr int most_looks = 20;
  GpuCondition condition = look_at_work();
  for (int looks = 1; looks < most_looks; ++looks) {
    const auto before_mhz = condition.sm_clock_mhz;
    condition = look_at_work();
    if (condition.sm_clock_mhz == before_mhz) {
      break;
    }
  }
  return condition;
}

void ConditionWatch::look_if_due() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  has_worked_ = true;
  if (!look_ || start < due_) {
    return;
  }
  GpuCondition condition = look_();
  if (seen_.empty() || seen_.back() != condition) {
    seen_.push_back(std::move(condition));
  }
  const auto end = Clock::now();
  constexpr std::chrono::milliseconds least_pause(250);
  due_ = end + std::max<Clock::duration>(least_pause, 100 * (end - start));
}

void ConditionWatch::begin_piece() {
  if (has_worked_ && !seen_.empty()) {
    seen_before_.insert(seen_before_.end(), seen_.begin(), seen_.end());
    seen_.erase(seen_.begin(), seen_.end() - 1);
  }
  has_worked_ = false;
}

model::PieceState ConditionWatch::discard_piece(const std::function<void()>& work) {
  // What touched earlier pieces stays so, and what this one finds cannot be held against a device that was calm.
  if (!look_ || !cuda::disturbances(seen_before_).empty()) {
    return model::PieceState::settled;
  }
  std::vector<GpuCondition> calm = seen_before_;
  calm.push_back(look_when_steady(work));
  if (!cuda::disturbances(calm).empty()) {
    return model::PieceState::disturbed;
  }
  seen_ = {calm.back()};
  has_worked_ = false;
  has_discarded_ = true;
  return model::PieceState::discarded;
}

std::vector<Disturbance> ConditionWatch::disturbances() const {
  if (!look_) {
    return {};
  }
  std::vector<GpuCondition> seen = seen_before_;
  seen.insert(seen.end(), seen_.begin(), seen_.end());
  GpuCondition now = look_();
  now.sm_clock_mhz.reset();
  now.memory_clock_mhz.reset();
  now.slowdowns.reset();
  seen.push_back(std::move(now));
  std::vector<Disturbance> all = cuda::disturbances(seen);
  if (has_discarded_) {
    all.push_back({Disturbance::Kind::asked_again,
                   "another process used the GPU, or its clocks changed, and what that touched was asked again"});
  }
  return all;
}

}  // namespace gpuinfer::probe::cuda
