// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "model/description/section.hpp"
#include "model/device_description.hpp"

// Evidence of all sections, which is read after them.
namespace gpuinfer::model {

// `names`: the leaves that it may speak of, of a `of_what`; any, where there are none. Throws InputError.
[[nodiscard]] CacheEvidence evidence_from(const Place& place, std::string_view of_what, Names names);
[[nodiscard]] std::string evidence_block(const CacheEvidence& evidence);

// What some entries have besides, in groups.
[[nodiscard]] const Leaves<EvidenceDetails>& evidence_detail_leaves();

// The keys of an entry.
[[nodiscard]] std::vector<LeafFacts> evidence_facts();

// Name and value, for people, of what evidence has besides status, alternatives and reasons.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> details_in_words(const LeafEvidence& evidence);

// The same in the JSON Schema, and what it refers to.
[[nodiscard]] schema::Object evidence_schema(std::vector<std::string_view> names);
[[nodiscard]] std::vector<std::pair<std::string_view, schema::Object>> evidence_definitions();

// The key `evidence`, behind these sections.
template <class Description>
[[nodiscard]] Section<Description> evidence_section(const Sections<Description>& sections) {
  Section<Description> section;
  section.key = "evidence";
  section.meaning = "of profiles: why values are what they are, by the names above";
  section.facts = evidence_facts();
  schema::Object single;
  std::vector<std::string_view> named;
  for (const Section<Description>& of : sections) {
    if (of.is_found_out() && of.is_named) {
      named.insert(named.end(), of.leaves.begin(), of.leaves.end());
    } else if (of.is_found_out()) {
      single.emplace_back(of.key, schema::text(evidence_schema(of.leaves)));
    }
  }
  std::ranges::sort(named);
  named.erase(std::unique(named.begin(), named.end()), named.end());
  section.schema = {{"type", "object"},
                    {"properties", schema::text(single)},
                    {"additionalProperties", schema::text(evidence_schema(named))}};
  section.read = [sections](const Place& place, Description& description) {
    for (const auto& [name, entry] : place.entries()) {
      const Section<Description>* const of = section_with(sections, description, name);
      if (of == nullptr) {
        entry.fail("is not a cache of this description; describe it under `caches` or remove its evidence");
      }
      description.evidence.emplace(name, evidence_from(entry, of->of_what, of->leaves));
    }
  };
  section.keep_only = [](Description&, const std::function<bool(std::string_view)>&) {};
  section.write = [](const Description& description) {
    std::string text = description.evidence.empty() ? "" : "evidence:\n";
    for (const auto& [name, evidence] : description.evidence) {
      const std::string block = evidence_block(evidence);
      text += "  " + to_yaml_scalar(name) + (block.empty() ? ": {}\n" : ":\n" + block);
    }
    return text;
  };
  return section;
}

}  // namespace gpuinfer::model
