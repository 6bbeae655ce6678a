// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/inquiry.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/explanation.hpp"
#include "cli/leaf_table.hpp"
#include "cli/progress_line.hpp"
#include "cli/targets.hpp"
#include "cli/warnings.hpp"
#include "infer/asking/disturbance.hpp"
#include "infer/studies.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

// The target by its study. Without what is resolved if something touched the answers, unless fresh questions prove it.
infer::Finding study_once(model::Answerer& device, const std::string& target, const infer::Settings& settings,
                          model::DeviceDescription& profile) {
  const infer::Study& study = infer::study_of(target, device.facts());
  model::DeviceDescription measured = profile;
  infer::Finding finding = study.run(device, target, settings, measured);
  const std::optional<std::string> disturbance = infer::disturbance_of(device);
  if (study.proves_itself || !disturbance) {
    profile = std::move(measured);
    return finding;
  }
  const std::map<std::string, std::string> values = known_values(measured, std::string(section_of(target)));
  study.leave_open(profile, target, measured);
  for (auto& [leaf, evidence] : finding.evidence.leaves) {
    if (evidence.status == model::EvidenceStatus::resolved) {
      const auto value = values.find(leaf);
      evidence.status = model::EvidenceStatus::ambiguous;
      evidence.confidence.reset();
      evidence.reason = fmt::format("not proven: {}was measured, and meanwhile {}",
                                    value == values.end() ? "it " : value->second + " ", *disturbance);
    }
  }
  return finding;
}

// Waits until nothing disturbs the device any longer, so that what was asked can be asked again. False: it cannot be.
bool is_discarded(model::Answerer& device, const infer::Settings& settings) {
  constexpr std::chrono::milliseconds between_looks(200);
  constexpr std::chrono::seconds most_waiting(30);
  const auto end = std::chrono::steady_clock::now() + most_waiting;
  while (!settings.stop_requested() && !infer::is_past(settings.deadline) && !infer::is_past(end)) {
    const model::PieceState state = device.discard_piece();
    if (state != model::PieceState::disturbed) {
      return state == model::PieceState::discarded;
    }
    settings.on_progress({.finding = "waits until nothing disturbs the device"});
    std::this_thread::sleep_for(between_looks);
  }
  return false;
}

// The same once more, as long as the device is disturbed meanwhile and calms down.
infer::Finding study(model::Answerer& device, const std::string& target, const infer::Settings& settings,
                     model::DeviceDescription& profile) {
  constexpr unsigned most_attempts = 10;
  for (unsigned attempt = 1;; ++attempt) {
    model::DeviceDescription studied = profile;
    device.begin_piece();
    infer::Finding finding = study_once(device, target, settings, studied);
    const bool is_final = attempt == most_attempts || finding.ended_early || !infer::disturbance_of(device);
    if (is_final || !is_discarded(device, settings)) {
      profile = std::move(studied);
      return finding;
    }
  }
}

// What is found out with no access at all: that nothing is known, for this reason.
infer::Finding nothing_known(const std::string& target, model::DeviceDescription& profile, infer::Settings settings,
                             const FindOut& find_out, const std::string& failure) {
  settings.budget_accesses = 0;
  settings.stop_requested = [] { return true; };
  infer::Finding finding = find_out(target, settings, profile);
  for (auto& [leaf, evidence] : finding.evidence.leaves) {
    evidence.reason = "the device failed: " + failure;
  }
  finding.warnings = {};
  finding.device_failure = failure;
  return finding;
}

bool knows_something(const infer::Finding& finding) {
  return std::ranges::any_of(finding.evidence.leaves,
                             [](const auto& leaf) { return leaf.second.status != model::EvidenceStatus::unknown; });
}

// With what has to be known before, as far as the device offers it.
Plan plan_for(const std::vector<std::string>& asked, const model::DeviceFacts& facts) {
  Plan plan{.targets = {}, .asked = asked};
  const auto add = [&](const std::string& target) {
    if (std::ranges::find(plan.targets, target) == plan.targets.end()) {
      plan.targets.push_back(target);
    }
  };
  for (const std::string& target : asked) {
    for (const std::string& needed : infer::needed_before(target, facts.latency_path)) {
      if (std::ranges::find(facts.targets, needed) != facts.targets.end()) {
        add(needed);
      }
    }
    add(target);
  }
  return plan;
}

// How much of the time each target takes.
class Shares {
 public:
  Shares(const Plan& plan, const model::DeviceFacts& facts) : done_{0} {
    constexpr std::uint64_t large_bytes = 128ULL << 20U;  // more than a first level needs
    constexpr double effort_of_large = 8;
    for (const std::string& target : plan.targets) {
      const bool is_large = plan.pace == Pace::by_reach && facts.buffer_of(target).bytes >= large_bytes;
      done_.push_back(done_.back() + (is_large ? effort_of_large : 1));
    }
  }

  // Of all targets, when this share of one is done.
  [[nodiscard]] double done(std::size_t target, double share) const {
    return std::lerp(done_[target], done_[target + 1], share) / done_.back();
  }

 private:
  std::vector<double> done_;  // efforts before each target, and of all
};

}  // namespace

Inquiry inquire(model::Answerer& device, const model::DeviceFacts& facts, const std::vector<std::string>& targets,
                const infer::Settings& settings, bool quiet, Pace pace) {
  Plan plan = plan_for(targets, facts);
  plan.pace = pace;
  return inquire(facts, plan, settings, quiet,
                 [&](const std::string& target, const infer::Settings& limited, model::DeviceDescription& profile) {
                   return study(device, target, limited, profile);
                 });
}

Inquiry inquire(const model::DeviceFacts& facts, const Plan& plan, infer::Settings settings, bool quiet,
                const FindOut& find_out) {
  const auto start = std::chrono::steady_clock::now();
  Inquiry inquiry;
  inquiry.profile.device = {.name = facts.name,
                            .source = facts.source,
                            .compute_capability = facts.compute_capability,
                            .sm_count = facts.sm_count,
                            .provenance = facts.provenance};
  ProgressLine line = ProgressLine::on_stderr(quiet);
  const std::optional<std::size_t> budget_accesses = settings.budget_accesses;
  const Shares shares(plan, facts);
  bool something_is_known = false;
  std::optional<std::string> first_failure;
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    const std::string& target = plan.targets[i];
    if (budget_accesses) {
      settings.budget_accesses = *budget_accesses - std::min(*budget_accesses, inquiry.accesses);
    }
    settings.on_progress = [&](infer::Progress progress) {
      progress.done = shares.done(i, progress.done);
      progress.questions += inquiry.questions;
      progress.accesses += inquiry.accesses;
      line.update(
          plan.targets.size() == 1 ? target : fmt::format("target {} of {}, {}", i + 1, plan.targets.size(), target),
          progress);
    };
    infer::Finding finding = [&] {
      try {
        return find_out(target, settings, inquiry.profile);
      } catch (const DeviceError& failure) {
        return nothing_known(target, inquiry.profile, settings, find_out, failure.what());
      }
    }();
    line.clear();
    something_is_known = something_is_known || knows_something(finding);
    if (finding.device_failure && !first_failure) {
      first_failure = finding.device_failure;
    }
    inquiry.device_failed = first_failure.has_value();
    for (const infer::Warning& warning : finding.warnings) {
      warn(fmt::format("{}: {}", target, to_text(warning)));
    }
    if (finding.ended_early && !finding.device_failure) {
      warn(ended_early(target, finding));
      inquiry.ended_early = true;
    }
    if (std::ranges::find(plan.asked, target) != plan.asked.end()) {
      inquiry.all_resolved = inquiry.all_resolved && finding.all_resolved() && !finding.ended_early;
    }
    inquiry.questions += finding.questions;
    inquiry.accesses += finding.accesses;
    inquiry.profile.evidence[std::string(section_of(target))] = std::move(finding.evidence);
  }
  if (first_failure && !something_is_known) {
    throw DeviceError(*first_failure);
  }
  inquiry.time = std::chrono::steady_clock::now() - start;
  return inquiry;
}

ExitStatus conclude(const Inquiry& inquiry, Output& output, Format format, Verbosity verbosity) {
  output.stream() << (format == Format::json ? model::to_json(inquiry.profile) : model::to_yaml(inquiry.profile));
  output.finish();
  const std::size_t columns = columns_of(STDERR_FILENO);
  for (const auto& [section, evidence] : inquiry.profile.evidence) {
    if (!verbosity.quiet) {
      std::cerr << '\n' << section << '\n' << leaf_table(inquiry.profile, section, columns);
    }
    if (verbosity.explain) {
      std::cerr << '\n' << section << ": how it was found out\n" << explanation(evidence, columns);
    }
  }
  if (!verbosity.quiet) {
    std::cerr << fmt::format("\ngpuinfer: {} accesses, {} questions, {:.2f} s\n", grouped(inquiry.accesses),
                             grouped(inquiry.questions), inquiry.time.count());
  }
  return inquiry.all_resolved ? ExitStatus::resolved : ExitStatus::unresolved;
}

}  // namespace gpuinfer::cli
