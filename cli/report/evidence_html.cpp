// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/evidence_html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/leaf_table.hpp"
#include "cli/report/markup.hpp"
#include "model/description/evidence.hpp"

namespace gpuinfer::cli::report {

namespace {

std::string term(std::string_view name, std::string_view text) {
  return text.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(text));
}

std::string what_else(const model::LeafEvidence& evidence) {
  std::string terms = term("reason", evidence.reason) + term("would decide", evidence.decided_by);
  for (const model::FlowYaml& alternative : evidence.alternatives) {
    terms += term("or", alternative);
  }
  for (const auto& [name, detail] : details_in_words(evidence)) {
    terms += term(name, detail);
  }
  return terms.empty() ? "" : "<dl>" + terms + "</dl>";
}

std::string row_of(const std::string& leaf, const std::optional<std::string>& value,
                   const model::LeafEvidence& evidence) {
  const bool is_resolved = evidence.status == model::EvidenceStatus::resolved;
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td>{}</td><td><span class=\"badge {}\">{}</span></td><td>{}</td><td>{}</td>"
      "<td>{}</td></tr>\n",
      escaped(leaf), escaped(value.value_or(is_resolved ? "none" : "not known")), to_string(evidence.status),
      to_string(evidence.status), evidence.confidence ? escaped(confidence_text(*evidence.confidence)) : "",
      evidence.experiments > 0 ? grouped(evidence.experiments) : "", what_else(evidence));
}

std::string leaves_html(const model::DeviceDescription& profile, const std::string& section,
                        const model::CacheEvidence& evidence) {
  std::string rows;
  std::vector<std::string> written;
  for (const model::LeafValue& value : leaf_values(profile, section)) {
    const std::string leaf(value.leaf->name);
    const auto found = evidence.leaves.find(leaf);
    if (found != evidence.leaves.end() && !value.leaf->is_of_evidence_alone) {
      rows += row_of(leaf, value.text, found->second);
      written.push_back(leaf);
    }
  }
  for (const auto& [leaf, entry] : evidence.leaves) {
    if (std::find(written.begin(), written.end(), leaf) == written.end()) {
      rows += row_of(leaf, "see the profile", entry);
    }
  }
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Evidence of {0}\"><table class=\"evidence\">\n"
      "<caption>Evidence of {0}</caption>\n<thead><tr><th scope=\"col\">leaf</th><th scope=\"col\">value</th>"
      "<th scope=\"col\">status</th><th scope=\"col\">confidence</th><th scope=\"col\">experiments</th>"
      "<th scope=\"col\">what else is known, or missing</th></tr></thead>\n<tbody>\n{1}</tbody></table></div>\n",
      escaped(section), rows);
}

std::string prediction_html(const model::PredictionEvidence& prediction) {
  std::string text = "<p>Held-out validation: " + escaped(prediction_text(prediction));
  if (prediction.assuming) {
    text += ", assuming " + escaped(*prediction.assuming) + " (illustration only)";
  }
  return text + ".</p>\n";
}

std::string inquiries_html(const model::CacheEvidence& evidence, const std::string& section) {
  Table table{.head = {"", "asked", "why", "learned", "hypotheses", "questions", "accesses"}, .rows = {}};
  for (const model::Inquiry& inquiry : evidence.inquiries) {
    const auto count = [](const std::optional<std::size_t>& number) { return number ? grouped(*number) : "?"; };
    const bool is_counted = inquiry.hypotheses_before || inquiry.hypotheses_after;
    table.rows.push_back({std::to_string(table.rows.size() + 1), inquiry.asked, inquiry.why,
                          inquiry.learned.empty() ? "nothing, it was cut short" : inquiry.learned,
                          is_counted ? count(inquiry.hypotheses_before) + " to " + count(inquiry.hypotheses_after) : "",
                          grouped(inquiry.questions), grouped(inquiry.accesses)});
  }
  return table.rows.empty() ? ""
                            : "<details><summary>How it was found out: what was asked, why, and what that ruled out"
                              "</summary>\n" +
                                  html(table, "Inquiries of " + section) + "</details>\n";
}

}  // namespace

std::string evidence_html(const model::DeviceDescription& profile, const std::string& section) {
  const auto found = profile.evidence.find(section);
  if (found == profile.evidence.end()) {
    Table table{.head = {"leaf", "value"}, .rows = {}};
    for (const auto& [leaf, value] : known_values(profile, section)) {
      table.rows.push_back({leaf, value});
    }
    return html(table, "Description of " + section);
  }
  const model::CacheEvidence& evidence = found->second;
  return leaves_html(profile, section, evidence) + (evidence.prediction ? prediction_html(*evidence.prediction) : "") +
         inquiries_html(evidence, section);
}

}  // namespace gpuinfer::cli::report
