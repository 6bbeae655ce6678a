// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>
#include <string>

#include "cli/formats/format.hpp"
#include "model/description/words.hpp"

namespace gpuinfer::cli {

namespace {

// With what LaTeX takes for commands made harmless.
std::string latex_cell(const std::string& text) {
  std::string escaped;
  for (const char letter : on_one_line(text)) {
    switch (letter) {
      case '\\':
        escaped += "\\textbackslash{}";
        break;
      case '~':
      case '^':
        escaped += fmt::format("\\{}{{}}", letter);
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        escaped += '\\';
        [[fallthrough]];
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string or_unknown(const std::optional<std::string>& text) { return text ? latex_cell(*text) : "--"; }

std::optional<std::string> bytes_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? std::optional(model::words::bytes(*bytes)) : std::nullopt;
}

std::optional<std::string> cycles_cell(const std::optional<double>& cycles) {
  return cycles ? std::optional(fmt::format("{}", *cycles)) : std::nullopt;
}

}  // namespace

// One table of key figures, a row for each cache, for a paper: the reader of a paper looks the rest up elsewhere.
Exported export_latex(const model::DeviceDescription& profile) {
  Exported exported{.text = fmt::format("% {}\n\\begin{{tabular}}{{lrrllrr}}\n"
                                        "cache & size & line & sets and ways & policy & hit & miss \\\\\n\\hline\n",
                                        on_one_line(profile.device.name)),
                    .losses = {}};
  for (const auto& [target, cache] : profile.caches) {
    const auto ways = cache.ways ? std::optional(model::words::ways(*cache.ways)) : std::nullopt;
    const auto policy = cache.replacement ? std::optional(to_text(*cache.replacement)) : std::nullopt;
    exported.text += fmt::format(
        "{} & {} & {} & {} & {} & {} & {} \\\\\n", latex_cell(target), or_unknown(bytes_text(cache.capacity_bytes)),
        or_unknown(bytes_text(cache.line_bytes)), or_unknown(ways), or_unknown(policy),
        or_unknown(cycles_cell(cache.latency_cycles.hit)), or_unknown(cycles_cell(cache.latency_cycles.miss)));
  }
  exported.text += "\\end{tabular}\n";
  exported.losses.push_back({.where = "caches", .what = "key figures only: neither index functions nor evidence"});
  return exported;
}

}  // namespace gpuinfer::cli
