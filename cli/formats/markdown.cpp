// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "cli/formats/leaf_rows.hpp"
#include "cli/leaf_table.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::size_t longest_value = 200;

// Markdown may hold HTML, and links, in which `](` stands before the address.
std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char letter : on_one_line(text)) {
    switch (letter) {
      case '|':
        escaped += "\\|";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '(':
        escaped += escaped.ends_with(']') ? "\\(" : "(";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

// Writes one row after another, a table for each section.
class MarkdownWriter {
 public:
  MarkdownWriter(const model::DeviceDescription& profile, const model::Sections<model::DeviceDescription>& all)
      : profile_(profile), all_(all) {
    exported_.text = "# " + markdown_cell(profile.device.name) + '\n';
  }

  void add(const LeafRow& row) {
    if (row.section != section_) {
      begin(row.section);
    }
    exported_.text += fmt::format("| {} | {} | {} | {} |\n", markdown_cell(row.leaf), markdown_cell(value_of(row)),
                                  row.status, row.confidence);
  }

  Exported take() { return std::move(exported_); }

 private:
  void begin(const std::string& section) {
    section_ = section;
    const auto found = profile_.evidence.find(section);
    evidence_ = found == profile_.evidence.end() ? nullptr : &found->second;
    words_ = known_values(profile_, section, all_);
    const auto cache = profile_.caches.find(section);
    if (cache != profile_.caches.end() && cache->second.index) {
      words_["index"] = model::to_flow_yaml(*cache->second.index);
    }
    exported_.text +=
        fmt::format("\n## {}\n\n| leaf | value | status | confidence |\n|---|---|---|---|\n", markdown_cell(section));
  }

  std::string shortened(const std::string& leaf, const std::string& value) {
    if (value.size() <= longest_value) {
      return value;
    }
    exported_.losses.push_back({.where = section_ + '.' + leaf,
                                .what = fmt::format("{} characters became the first {}", value.size(), longest_value)});
    return value.substr(0, longest_value) + " ...";
  }

  // In the words of `show`, where it has some for the leaf.
  std::string value_of(const LeafRow& row) {
    if (const auto in_words = words_.find(row.leaf); in_words != words_.end()) {
      return shortened(row.leaf, in_words->second);
    }
    const bool has_entry = evidence_ != nullptr && evidence_->leaves.contains(row.leaf);
    if (has_entry && row.status != "resolved") {
      return open_question(row.leaf, evidence_->leaves.at(row.leaf));
    }
    if (row.value.empty()) {
      return has_entry ? "none" : "not known";
    }
    return shortened(row.leaf, row.value);
  }

  std::string open_question(const std::string& leaf, const model::LeafEvidence& evidence) {
    std::string text = "not known";
    std::string_view lead = "; alternatives: ";
    for (const model::FlowYaml& alternative : evidence.alternatives) {
      text += std::string(lead) + shortened(leaf, alternative);
      lead = " or ";
    }
    return evidence.reason.empty() ? text : text + "; " + evidence.reason;
  }

  const model::DeviceDescription& profile_;
  const model::Sections<model::DeviceDescription>& all_;
  std::string section_;
  const model::CacheEvidence* evidence_ = nullptr;
  std::map<std::string, std::string> words_;
  Exported exported_;
};

}  // namespace

Exported export_markdown(const model::DeviceDescription& profile,
                         const model::Sections<model::DeviceDescription>& all) {
  MarkdownWriter writer(profile, all);
  for (const LeafRow& row : leaf_rows(profile, all)) {
    writer.add(row);
  }
  return writer.take();
}

}  // namespace gpuinfer::cli
