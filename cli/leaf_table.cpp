// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/leaf_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "model/description/evidence.hpp"

namespace gpuinfer::cli {

LeafValues leaf_values(const model::DeviceDescription& profile, const std::string& section,
                       const model::Sections<model::DeviceDescription>& all) {
  const auto* const found = section_with(all, profile, section);
  return found == nullptr ? LeafValues{} : found->values(profile, section);
}

namespace {

constexpr std::size_t indent = 20;

std::string below(std::string_view text, std::size_t columns) {
  return wrapped(text, std::string(indent, ' '), columns);
}

// As many columns of one width as fit; each line after the indent.
std::string grid(std::span<const std::string> cells, std::size_t at, std::size_t columns) {
  std::size_t widest = 0;
  for (const std::string& cell : cells) {
    widest = std::max(widest, cell.size());
  }
  constexpr std::size_t gap = 3;
  const std::size_t in_row = std::max<std::size_t>(1, (columns - at + gap) / (widest + gap));
  std::string lines;
  for (std::size_t begin = 0; begin < cells.size(); begin += in_row) {
    std::string line(at, ' ');
    for (const std::string& cell : cells.subspan(begin, std::min(in_row, cells.size() - begin))) {
      line += fmt::format("{:<{}}", cell, widest + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines += line + '\n';
  }
  return lines;
}

// The parts of `text` between separators that stand in no brackets.
std::vector<std::string> parts_of(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    depth += letter == '[' || letter == '{' ? 1 : letter == ']' || letter == '}' ? -1 : 0;
    if (depth == 0 && text.substr(i).starts_with(separator)) {
      parts.emplace_back();
      i += separator.size() - 1;
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

// What many like parts make a table of, as far as they are short.
bool is_table(std::span<const std::string> parts, std::size_t room) {
  constexpr std::size_t least = 4;
  return parts.size() >= least &&
         std::ranges::all_of(parts, [&](const std::string& part) { return 2 * part.size() <= room; });
}

// A detail of evidence: a list or map that does not fit a line is a table, `[1024, 7]` in it `1024: 7`.
std::string detail_lines(std::string_view name, std::string_view detail, std::size_t columns) {
  const std::string line = fmt::format("{}: {}", name, detail);
  const bool is_list = detail.starts_with('[') || detail.starts_with('{');
  if (indent + line.size() <= columns || !is_list) {
    return below(line, columns);
  }
  std::vector<std::string> parts = parts_of(detail.substr(1, detail.size() - 2), ", ");
  constexpr std::size_t further = 2;
  if (!is_table(parts, columns - indent - further)) {
    return below(line, columns);
  }
  for (std::string& part : parts) {
    if (const auto pair = parts_of(part.substr(1, part.size() - 2), ", "); part.starts_with('[') && pair.size() == 2) {
      part = fmt::format("{}: {}", pair[0], pair[1]);
    }
  }
  return below(fmt::format("{}:", name), columns) + grid(parts, indent + further, columns);
}

// `text` in what `begun` leaves of its line and in lines below it, under its beginning where there is room.
std::string continued(const std::string& begun, std::size_t begun_letters, std::string_view text, std::size_t columns) {
  constexpr std::size_t least_room = 24;
  const std::size_t at = begun_letters + least_room <= columns ? begun_letters : indent;
  const std::vector<std::string> parts = parts_of(text, "; ");
  const std::string lines = at + text.size() > columns && is_table(parts, columns - at)
                                ? grid(parts, at, columns)
                                : wrapped(text, std::string(at, ' '), columns);
  return at == begun_letters ? begun + lines.substr(std::min(at, lines.size())) : begun + '\n' + lines;
}

// Of the column of names of these leaves.
std::size_t name_columns(const LeafValues& values) {
  std::size_t columns = 16;
  for (const model::LeafValue& value : values) {
    columns = std::max(columns, value.leaf->name.size());
  }
  return columns;
}

std::string leaf_lines(std::string_view leaf, std::size_t name_letters, const std::string& value,
                       const model::LeafEvidence& evidence, std::size_t columns, const Ink& ink) {
  const std::string confidence = evidence.confidence ? confidence_text(*evidence.confidence) : "";
  const std::string status = fmt::format("{:<9}", to_string(evidence.status));
  const auto begun = [&](const std::string& word) {
    return fmt::format("  {:<{}}  {}  {:<8}  ", leaf, name_letters, word, confidence);
  };
  std::string lines = continued(begun(ink.status(evidence.status, status)), begun(status).size(), value, columns);
  for (const auto& [name, detail] : details_in_words(evidence)) {
    lines += detail_lines(name, detail, columns);
  }
  constexpr std::size_t most_alternatives = 24;
  const std::size_t told = std::min(evidence.alternatives.size(), most_alternatives);
  for (std::size_t i = 0; i < told; ++i) {
    lines += below("or " + evidence.alternatives[i], columns);
  }
  if (told < evidence.alternatives.size()) {
    lines += below(fmt::format("or {} others, which the profile names", evidence.alternatives.size() - told), columns);
  }
  return lines;
}

std::string what_is_missing(const model::LeafEvidence& evidence, std::size_t columns) {
  return (evidence.reason.empty() ? "" : below(evidence.reason, columns)) +
         (evidence.decided_by.empty() ? "" : below("would decide: " + evidence.decided_by, columns));
}

std::string prediction_line(const model::PredictionEvidence& prediction, std::size_t columns) {
  const std::string begun = "  prediction        ";
  return continued(begun, begun.size(), prediction_text(prediction), columns);
}

std::string table_of(LeafValues values, const model::CacheEvidence& evidence, std::size_t columns, const Ink& ink) {
  std::erase_if(
      values, [&](const model::LeafValue& value) { return !evidence.leaves.contains(std::string(value.leaf->name)); });
  std::string table;
  const std::size_t name_letters = name_columns(values);
  std::string missing;  // of the leaves just written: neighbours often lack the same
  for (const model::LeafValue& value : values) {
    const model::LeafEvidence& found = evidence.leaves.at(std::string(value.leaf->name));
    if (const std::string own = what_is_missing(found, columns); own != missing) {
      table += missing;
      missing = own;
    }
    const bool is_resolved = found.status == model::EvidenceStatus::resolved;
    const char* const no_value = value.leaf->is_of_evidence_alone ? "see below" : is_resolved ? "none" : "not known";
    table += leaf_lines(value.leaf->name, name_letters, value.text.value_or(no_value), found, columns, ink);
  }
  table += missing;
  if (evidence.prediction) {
    table += prediction_line(*evidence.prediction, columns);
  }
  return table;
}

}  // namespace

std::string wrapped(std::string_view text, const std::string& indent, std::size_t columns) {
  const std::size_t room = columns - indent.size();
  std::string lines;
  std::string line;
  const auto end_line = [&] {
    lines += indent + line + '\n';
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.size() > room) {
      word.replace(room - 3, std::string::npos, "...");
    }
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      end_line();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) {
    end_line();
  }
  return lines;
}

std::string confidence_text(double confidence) {
  constexpr double most_told = 0.9999;
  return confidence > most_told ? fmt::format(">{}", most_told) : fmt::format("{:.4g}", confidence);
}

std::string prediction_text(const model::PredictionEvidence& prediction) {
  const std::string loads = grouped(prediction.accesses);
  std::string text = prediction.agreement
                         ? fmt::format("{} of {} held-out loads predicted",
                                       grouped(static_cast<std::uint64_t>(std::llround(
                                           *prediction.agreement * static_cast<double>(prediction.accesses)))),
                                       loads)
                         : loads + " held-out loads";
  text += fmt::format(" in {} random sequences", prediction.sequences);
  if (prediction.voted_agreement) {
    text += fmt::format(", voted {:.6g}", *prediction.voted_agreement);
  }
  if (prediction.p_value) {
    text += fmt::format(", p {:.3g}", *prediction.p_value);
  }
  if (prediction.outliers > 0) {
    text += fmt::format(", {} outliers left out", grouped(prediction.outliers));
  }
  return text;
}

std::string leaf_table(const model::DeviceDescription& profile, const std::string& section, std::size_t columns,
                       const Ink& ink, const model::Sections<model::DeviceDescription>& all) {
  return table_of(leaf_values(profile, section, all), profile.evidence.at(section), columns, ink);
}

std::map<std::string, std::string> known_values(const model::DeviceDescription& profile, const std::string& section,
                                                const model::Sections<model::DeviceDescription>& all) {
  std::map<std::string, std::string> values;
  for (const model::LeafValue& value : leaf_values(profile, section, all)) {
    if (value.text) {
      values.emplace(value.leaf->name, *value.text);
    }
  }
  return values;
}

std::string value_table(const model::DeviceDescription& profile, const std::string& section, std::size_t columns,
                        const model::Sections<model::DeviceDescription>& all) {
  std::string table;
  LeafValues values = leaf_values(profile, section, all);
  std::erase_if(values, [](const model::LeafValue& value) { return !value.is_written; });
  const std::size_t name_letters = name_columns(values);
  for (const model::LeafValue& value : values) {
    const std::string begun = fmt::format("  {:<{}}  ", value.leaf->name, name_letters);
    table += continued(begun, begun.size(), value.text.value_or("not known"), columns);
  }
  return table;
}

}  // namespace gpuinfer::cli
