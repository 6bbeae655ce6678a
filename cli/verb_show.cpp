// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/explanation.hpp"
#include "cli/ink.hpp"
#include "cli/leaf_table.hpp"
#include "cli/output.hpp"
#include "cli/picture.hpp"
#include "cli/pieces.hpp"
#include "cli/report/picture_file.hpp"
#include "cli/supposed_cache.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax show_syntax() {
  Syntax syntax(
      "show PROFILE... [--target T] [--explain] [-o picture.svg]",
      "Draws the caches of a profile, as wide as the terminal is, or in 80 columns, and in colours where stdout is a "
      "terminal and NO_COLOR is not set.\nPROFILE is a file or the name of a published device; several are taken as "
      "one, as `merge` does.",
      {"gpuinfer show profile.yaml                                  all of its caches",
       "gpuinfer show gtx780 --target L1tex                         one cache of a published GPU",
       "gpuinfer show gtx780 --target L1tex -o picture.svg          the same as a vector picture (.svg, .pdf, .png)"});
  syntax.operands(ValueKind::descriptions);
  syntax.repeatable("target", target_value, "draw these only; may be repeated (default: all that is in the profile)");
  syntax.flag("explain", "tell how they were found out as well");
  syntax.value(
      "output,o", ValueName("FILE.svg", ValueKind::written_files),
      "draw them there, and the machine above all of them: .svg, or .pdf or .png by way of rsvg-convert (default: the "
      "picture in the terminal)");
  return syntax;
}

namespace {

std::string device_line(const model::DeviceDescription::Device& device) {
  std::string line = device.name + " (" + device.source + ")";
  if (device.compute_capability) {
    line += ", compute capability " + *device.compute_capability;
  }
  if (device.sm_count) {
    line += fmt::format(", {} SMs", *device.sm_count);
  }
  return line;
}

void show_cache(const std::string& target, const model::CacheDescription& cache, const model::CacheEvidence* evidence,
                std::size_t columns, const Ink& ink) {
  const SupposedCache likely = supposed(cache, evidence);
  std::cout << '\n' << picture_of(target, likely.cache, columns, ink);
  if (!likely.leaves.empty()) {
    std::cout << "\n  drawn with the only alternative where the evidence says ambiguous: not proven\n";
  }
}

// The target before this one whose loads find the lines of this one, and the other way round.
std::optional<std::string> drawn_before(const model::DeviceDescription& profile,
                                        const std::vector<std::string>& targets, const std::string& target) {
  const auto shares = [&](const std::string& one, const std::string& with) {
    const auto cache = profile.caches.find(one);
    return cache != profile.caches.end() && cache->second.shared_with &&
           std::ranges::find(*cache->second.shared_with, with) != cache->second.shared_with->end();
  };
  const auto here = std::ranges::find(targets, target);
  const auto found = std::find_if(
      targets.begin(), here, [&](const std::string& other) { return shares(other, target) && shares(target, other); });
  return found == here ? std::nullopt : std::optional(*found);
}

void show_texture(const std::string& target, const model::TextureDescription& texture) {
  std::cout << fmt::format("\n{}: {} x {} texels of {} B\n", target, texture.width, texture.height,
                           texture.texel_bytes);
}

void show_code(const std::string& target, const model::CodeDescription& code) {
  std::cout << fmt::format("\n{}: laps over straight-line code, timed in pieces of {} B\n", target,
                           grouped(code.piece_bytes));
  if (code.levels) {
    const double slowest = code.levels->back().cycles;
    for (const model::CodeLevel& level : *code.levels) {
      constexpr double columns = 40;
      const auto bar = static_cast<std::size_t>(std::lround(slowest > 0 ? columns * level.cycles / slowest : 0));
      std::cout << fmt::format("  {:>18}  {:>6} cycles  {}\n",
                               level.fits_bytes ? "up to " + model::words::bytes(*level.fits_bytes) : "longer",
                               level.cycles, std::string(bar, '='));
    }
  }
}

// Of each memory level the most that was reached.
void show_bandwidths(const model::DeviceDescription& profile) {
  constexpr double giga = 1e9;
  constexpr double bits_of_byte = 8;
  std::cout << fmt::format("  {:<12}  {:>8}  {:>8}  {}\n", "", "GB/s", "B/clk/SM", "elements of");
  for (const auto& [name, level] : profile.bandwidth) {
    if (level.best) {
      const model::ElementBandwidth& best = *level.best;
      std::cout << fmt::format("  {:<12}  {:>8}  {:>8.4g}  {} bits\n", name,
                               grouped(static_cast<std::uint64_t>(best.bytes_per_second / giga)),
                               best.elements_per_sm_clock * best.element_bits / bits_of_byte, best.element_bits);
    }
  }
}

}  // namespace

ExitStatus verb_show(Arguments arguments) {
  const auto parsed = show_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  if (parsed->text("output") && parsed->flag("explain")) {
    throw InputError("--explain: there is no room for it in a picture; leave it out, or leave out -o");
  }
  const std::vector<std::string> files = parsed->operands();
  const auto output_file = parsed->text("output");
  std::optional<report::PictureFormat> format;
  if (output_file) {
    format = report::picture_format_of(*output_file);
  }
  Output output(output_file);
  const model::DeviceDescription profile = read_merged(files);
  const std::vector<std::string> targets = described_targets(profile, text_of_files(files), asked);
  if (format) {
    output.stream() << report::picture_file(report::picture_of_profile(profile, targets, asked.empty()),
                                            profile.device.name, *format);
    output.finish();
    return ExitStatus::resolved;
  }

  const Ink ink = Ink::of_stdout();
  const std::size_t columns = columns_of(STDOUT_FILENO);
  std::cout << wrapped(device_line(profile.device), "", columns);
  for (const std::string& target : targets) {
    const std::string section(section_of(target));
    const auto found = profile.evidence.find(section);
    const model::CacheEvidence* const evidence = found == profile.evidence.end() ? nullptr : &found->second;
    if (const auto cache = profile.caches.find(target); cache != profile.caches.end()) {
      if (const auto same = drawn_before(profile, targets, target)) {
        std::cout << fmt::format("\n{}: the same cache as {}\n", target, *same);
        continue;
      }
      show_cache(target, cache->second, evidence, columns, ink);
    } else if (const auto texture = profile.textures.find(target); texture != profile.textures.end()) {
      show_texture(target, texture->second);
    } else if (const auto code = profile.code.find(target); code != profile.code.end()) {
      show_code(target, code->second);
    } else {
      std::cout << '\n' << target << ":\n" << (evidence == nullptr ? value_table(profile, section, columns) : "");
      if (evidence != nullptr && section == "bandwidth") {
        show_bandwidths(profile);
      }
    }
    if (evidence != nullptr) {
      std::cout << "\n  evidence\n" << leaf_table(profile, section, columns, ink);
    }
    if (evidence != nullptr && parsed->flag("explain")) {
      std::cout << "\n  how it was found out\n" << explanation(*evidence, columns);
    }
  }
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
