// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/picture_file.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "cli/report/cache_drawing.hpp"
#include "cli/report/machine_drawing.hpp"
#include "cli/report/set_map.hpp"
#include "cli/supposed_cache.hpp"
#include "model/errors.hpp"
#include "probe/process.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double gap = 28;

void add_below(Drawing& drawing, const Drawing& next) { drawing.add(next, 0, drawing.height() + gap); }

void add_below(Drawing& drawing, const std::optional<Figure>& figure) {
  if (figure) {
    drawing.text(0, drawing.height() + gap, figure->title + ". " + figure->note, small);
    drawing.add(*figure->drawing, 0, drawing.height() + 8);
  }
}

// A file that is there while this is.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& text) : path_(std::filesystem::temp_directory_path() / "gpuinfer-XXXXXX") {
    const int number = mkstemp(path_.data());
    if (number < 0) {
      throw Error(path_ + ": cannot be written, which a picture passes through; set TMPDIR to a folder with room");
    }
    close(number);
    std::ofstream(path_) << text;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// As one word of the shell.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char letter : text) {
    word += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return word + "'";
}

std::string converted(const std::string& svg, std::string_view options) {
  const ScratchFile file(svg);
  probe::Process converter("rsvg-convert " + std::string(options) + " " + quoted(file.path()));
  std::string bytes;
  std::string_view nothing;
  constexpr std::chrono::seconds longest{60};
  while (!converter.output_ended() && converter.exchange(nothing, bytes, longest)) {
  }
  if (bytes.empty()) {
    throw Error("rsvg-convert " + converter.how_it_ended() +
                "; install it (package librsvg2-bin), or name a file that ends in .svg");
  }
  return bytes;
}

}  // namespace

Drawing picture_of_profile(const model::DeviceDescription& profile, const std::vector<std::string>& targets,
                           bool is_whole) {
  Drawing parts;
  for (const std::string& target : targets) {
    if (const auto cache = profile.caches.find(target); cache != profile.caches.end()) {
      const auto evidence = profile.evidence.find(target);
      const SupposedCache likely =
          supposed(cache->second, evidence == profile.evidence.end() ? nullptr : &evidence->second);
      add_below(parts, cache_drawing(target, likely.cache));
      add_below(parts, set_map_figure(likely.cache));
      if (!likely.leaves.empty()) {
        parts.text(0, parts.height() + gap,
                   fmt::format("not proven, the only alternative of the evidence: {}", fmt::join(likely.leaves, ", ")),
                   small);
      }
    } else if (const auto texture = profile.textures.find(target); texture != profile.textures.end()) {
      add_below(parts, texel_figure(texture->second));
    }
  }
  Drawing drawing;
  drawing.text(0, 14, profile.device.name + " (" + profile.device.source + ")", bold);
  if (is_whole || parts.height() == 0) {
    add_below(drawing, machine_drawing(profile, levels_of(profile)));
  }
  if (parts.height() > 0) {
    drawing.add(parts, 0, drawing.height());
  }
  return drawing;
}

PictureFormat picture_format_of(const std::string& file) {
  if (file.ends_with(".svg")) {
    return PictureFormat::svg;
  }
  if (file.ends_with(".pdf")) {
    return PictureFormat::pdf;
  }
  if (file.ends_with(".png")) {
    return PictureFormat::png;
  }
  throw InputError("--output: a picture is SVG, PDF or PNG; name a file that ends in .svg, .pdf or .png");
}

std::string picture_file(const Drawing& drawing, const std::string& title, PictureFormat format) {
  const std::string svg = drawing.file(title);
  switch (format) {
    case PictureFormat::svg:
      return svg;
    case PictureFormat::pdf:
      return converted(svg, "--format=pdf");
    case PictureFormat::png:
      return converted(svg, "--format=png --zoom=2");
  }
  return svg;
}

}  // namespace gpuinfer::cli::report
