// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/inquiry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cli/explanation.hpp"
#include "cli/interrupt.hpp"
#include "cli/leaf_table.hpp"
#include "cli/progress_line.hpp"
#include "cli/targets.hpp"
#include "cli/warnings.hpp"
#include "infer/asking/disturbance.hpp"
#include "infer/cache/infer_cache.hpp"
#include "infer/code/infer_code.hpp"
#include "infer/laps/infer_first_level.hpp"
#include "infer/laps/infer_level.hpp"
#include "infer/latency/infer_latency.hpp"
#include "infer/texture/infer_texture.hpp"
#include "infer/threads/infer_bandwidth.hpp"
#include "infer/threads/infer_kernels.hpp"
#include "infer/threads/infer_outstanding.hpp"
#include "infer/threads/infer_shared_memory.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

// Puts what was found where it stands in a profile.
struct Storing {
  model::DeviceDescription* profile;
  const std::string* target;

  void operator()(infer::CacheFinding& found) const { profile->caches[*target] = std::move(found.cache); }
  void operator()(const infer::TextureFinding& found) const { profile->textures[*target] = found.texture; }
  void operator()(const infer::CodeFinding& found) const { profile->code[*target] = found.code; }
  void operator()(const infer::SharedMemoryFinding& found) const { profile->shared_memory = found.shared_memory; }
  void operator()(const infer::LatencyFinding& found) const {
    profile->memory_latency_cycles = found.memory_latency_cycles;
  }
  void operator()(const infer::OutstandingFinding& found) const { profile->outstanding = found.outstanding; }
  void operator()(const infer::BandwidthFinding& found) const { profile->bandwidth = found.bandwidth; }
  void operator()(const infer::KernelFinding& found) const { profile->kernels = found.kernels; }
};

infer::LatencyFinding infer_latency(model::Answerer& device, const std::string& target,
                                    const model::DeviceDescription& known, const infer::Settings& settings) {
  constexpr const char* path = "global";
  model::DeviceDescription with_path = known;
  if (device.facts().latency_path) {
    with_path.paths[path] = *device.facts().latency_path;
  }
  return infer::infer_latency(device, target, with_path, path, settings);
}

// Of a CPU.
infer::CacheFinding infer_by_laps(model::Answerer& device, const std::string& target, const infer::Settings& settings) {
  if (target == "dTLB") {
    return infer::infer_first_tlb(device, target, settings);
  }
  if (target == "L1D") {
    return infer::infer_first_cache(device, target, settings);
  }
  const std::size_t level = target == "L2" ? 1 : 2;
  return infer::infer_level(device, target, level, settings);
}

infer::Finding& finding_of(AnyFinding& found) {
  return std::visit([](infer::Finding& any) -> infer::Finding& { return any; }, found);
}

// Without what is resolved if something touched the answers: but for caches no fresh questions prove it.
template <class Found>
AnyFinding unless_disturbed(const model::Answerer& device, const std::string& target, Found found) {
  const std::optional<std::string> disturbance = infer::disturbance_of(device);
  if (!disturbance) {
    return found;
  }
  const std::string section(section_of(target));
  model::DeviceDescription measured;
  Storing{.profile = &measured, .target = &target}(found);
  const std::map<std::string, std::string> values = known_values(measured, section);
  Found open;
  static_cast<infer::Finding&>(open) = std::move(found);
  for (auto& [leaf, evidence] : open.evidence.leaves) {
    if (evidence.status == model::EvidenceStatus::resolved) {
      const auto value = values.find(leaf);
      evidence.status = model::EvidenceStatus::ambiguous;
      evidence.confidence.reset();
      evidence.reason = fmt::format("not proven: {}was measured, and meanwhile {}",
                                    value == values.end() ? "it " : value->second + " ", *disturbance);
    }
  }
  return open;
}

// What is found out with no access at all: that nothing is known, for this reason.
AnyFinding nothing_known(const std::string& target, const model::DeviceDescription& known, infer::Settings settings,
                         const FindOut& find_out, const std::string& failure) {
  settings.budget_accesses = 0;
  settings.stop_requested = [] { return true; };
  AnyFinding found = find_out(target, known, settings);
  infer::Finding& finding = finding_of(found);
  for (auto& [leaf, evidence] : finding.evidence.leaves) {
    evidence.reason = "the device failed: " + failure;
  }
  finding.warnings = {};
  finding.device_failure = failure;
  return found;
}

bool knows_something(const infer::Finding& finding) {
  return std::ranges::any_of(finding.evidence.leaves,
                             [](const auto& leaf) { return leaf.second.status != model::EvidenceStatus::unknown; });
}

}  // namespace

Plan plan_for(const std::vector<std::string>& asked, const model::DeviceFacts& facts) {
  Plan plan{.targets = {}, .asked = asked};
  const auto add = [&](const std::string& target) {
    if (std::ranges::find(plan.targets, target) == plan.targets.end()) {
      plan.targets.push_back(target);
    }
  };
  for (const std::string& target : asked) {
    for (const std::string& needed : model::needed_before(target, facts.latency_path)) {
      if (std::ranges::find(facts.targets, needed) != facts.targets.end()) {
        add(needed);
      }
    }
    add(target);
  }
  return plan;
}

FindOut asking(model::Answerer& device) {
  return [&device](const std::string& target, const model::DeviceDescription& known,
                   const infer::Settings& settings) -> AnyFinding {
    if (target == "Shared") {
      return unless_disturbed(device, target, infer::infer_shared_memory(device, target, settings));
    }
    if (target == "Outstanding") {
      return unless_disturbed(device, target, infer::infer_outstanding(device, target, settings));
    }
    if (target == "Latency") {
      return unless_disturbed(device, target, infer_latency(device, target, known, settings));
    }
    if (target == "Bandwidth") {
      return unless_disturbed(device, target, infer::infer_bandwidth(device, target, settings));
    }
    if (target == "Kernels") {
      return unless_disturbed(device, target, infer::infer_kernels(device, target, known, settings));
    }
    const model::BufferFacts& buffer = device.facts().buffer_of(target);
    if (buffer.raster) {
      return unless_disturbed(device, target, infer::infer_texture(device, target, settings));
    }
    if (buffer.piece_bytes) {
      return unless_disturbed(device, target, infer::infer_code(device, target, settings));
    }
    if (buffer.averages_laps) {
      return infer_by_laps(device, target, settings);
    }
    return infer::infer_cache(device, target, settings);
  };
}

Inquiry inquire(const model::DeviceFacts& facts, const Plan& plan, infer::Settings settings, bool quiet,
                const FindOut& find_out) {
  const InterruptWatch watch;
  const auto start = std::chrono::steady_clock::now();
  Inquiry inquiry;
  inquiry.profile.device = {.name = facts.name,
                            .source = facts.source,
                            .compute_capability = facts.compute_capability,
                            .sm_count = facts.sm_count,
                            .provenance = facts.provenance};
  ProgressLine line = ProgressLine::on_stderr(quiet);
  const std::optional<std::size_t> budget_accesses = settings.budget_accesses;
  bool something_is_known = false;
  std::optional<std::string> first_failure;
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    const std::string& target = plan.targets[i];
    if (budget_accesses) {
      settings.budget_accesses = *budget_accesses - std::min(*budget_accesses, inquiry.accesses);
    }
    settings.on_progress = [&](infer::Progress progress) {
      progress.done = (static_cast<double>(i) + progress.done) / static_cast<double>(plan.targets.size());
      progress.questions += inquiry.questions;
      progress.accesses += inquiry.accesses;
      line.update(
          plan.targets.size() == 1 ? target : fmt::format("target {} of {}, {}", i + 1, plan.targets.size(), target),
          progress);
    };
    AnyFinding found = [&] {
      try {
        return find_out(target, inquiry.profile, settings);
      } catch (const DeviceError& failure) {
        return nothing_known(target, inquiry.profile, settings, find_out, failure.what());
      }
    }();
    line.clear();
    infer::Finding& finding = finding_of(found);
    something_is_known = something_is_known || knows_something(finding);
    if (finding.device_failure && !first_failure) {
      first_failure = finding.device_failure;
    }
    inquiry.device_failed = first_failure.has_value();
    for (const std::string& warning : finding.warnings) {
      warn(fmt::format("{}: {}", target, warning));
    }
    if (finding.ended_early && !finding.device_failure) {
      warn(ended_early(target, finding));
    }
    if (std::ranges::find(plan.asked, target) != plan.asked.end()) {
      inquiry.all_resolved = inquiry.all_resolved && finding.all_resolved() && !finding.ended_early;
    }
    inquiry.questions += finding.questions;
    inquiry.accesses += finding.accesses;
    std::visit(Storing{.profile = &inquiry.profile, .target = &target}, found);
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
  for (const auto& [section, evidence] : inquiry.profile.evidence) {
    if (!verbosity.quiet) {
      std::cerr << '\n' << section << '\n' << leaf_table(inquiry.profile, section);
    }
    if (verbosity.explain) {
      std::cerr << '\n' << section << ": how it was found out\n" << explanation(evidence);
    }
  }
  if (!verbosity.quiet) {
    std::cerr << fmt::format("\ngpuinfer: {} accesses, {} questions, {:.2f} s\n", grouped(inquiry.accesses),
                             grouped(inquiry.questions), inquiry.time.count());
  }
  return inquiry.all_resolved ? ExitStatus::resolved : ExitStatus::unresolved;
}

}  // namespace gpuinfer::cli
