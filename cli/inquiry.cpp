// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/inquiry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cli/explanation.hpp"
#include "cli/interrupt.hpp"
#include "cli/leaf_table.hpp"
#include "cli/progress_line.hpp"
#include "cli/warnings.hpp"
#include "infer/infer_cache.hpp"
#include "infer/infer_code.hpp"
#include "infer/infer_texture.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

FindOut asking(model::Answerer& device) {
  return [&device](const std::string& target, const infer::Settings& settings) -> AnyFinding {
    const model::BufferFacts& buffer = device.facts().buffer_of(target);
    if (buffer.raster) {
      return infer::infer_texture(device, target, settings);
    }
    if (buffer.piece_bytes) {
      return infer::infer_code(device, target, settings);
    }
    return infer::infer_cache(device, target, settings);
  };
}

Inquiry inquire(const model::DeviceFacts& facts, std::span<const std::string> targets, infer::Settings settings,
                bool quiet, const FindOut& find_out) {
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
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string& target = targets[i];
    if (budget_accesses) {
      settings.budget_accesses = *budget_accesses - std::min(*budget_accesses, inquiry.accesses);
    }
    settings.on_progress = [&](infer::Progress progress) {
      progress.done = (static_cast<double>(i) + progress.done) / static_cast<double>(targets.size());
      progress.questions += inquiry.questions;
      progress.accesses += inquiry.accesses;
      line.update(target, progress);
    };
    AnyFinding found = find_out(target, settings);
    line.clear();
    infer::Finding& finding = std::visit([](infer::Finding& any) -> infer::Finding& { return any; }, found);
    for (const std::string& warning : finding.warnings) {
      warn(fmt::format("{}: {}", target, warning));
    }
    if (finding.ended_early) {
      warn(ended_early(target, finding));
    }
    inquiry.all_resolved = inquiry.all_resolved && finding.all_resolved() && !finding.ended_early;
    inquiry.questions += finding.questions;
    inquiry.accesses += finding.accesses;
    if (auto* cache = std::get_if<infer::CacheFinding>(&found)) {
      inquiry.profile.caches[target] = std::move(cache->cache);
    } else if (const auto* texture = std::get_if<infer::TextureFinding>(&found)) {
      inquiry.profile.textures[target] = texture->texture;
    } else {
      inquiry.profile.code[target] = std::get<infer::CodeFinding>(found).code;
    }
    inquiry.profile.evidence[target] = std::move(finding.evidence);
  }
  inquiry.time = std::chrono::steady_clock::now() - start;
  return inquiry;
}

ExitStatus conclude(const Inquiry& inquiry, Output& output, Format format, Verbosity verbosity) {
  output.stream() << (format == Format::json ? model::to_json(inquiry.profile) : model::to_yaml(inquiry.profile));
  output.finish();
  for (const auto& [target, evidence] : inquiry.profile.evidence) {
    if (!verbosity.quiet) {
      std::cerr << '\n' << target << '\n' << leaf_table(inquiry.profile, target);
    }
    if (verbosity.explain) {
      std::cerr << '\n' << target << ": how it was found out\n" << explanation(evidence);
    }
  }
  if (!verbosity.quiet) {
    std::cerr << fmt::format("\ngpuinfer: {} accesses, {} questions, {:.2f} s\n", grouped(inquiry.accesses),
                             grouped(inquiry.questions), inquiry.time.count());
  }
  return inquiry.all_resolved ? ExitStatus::resolved : ExitStatus::unresolved;
}

}  // namespace gpuinfer::cli
