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

// The key `evidence`, behind these sections.
template <class Description>
[[nodiscard]] Section<Description> evidence_section(const Sections<Description>& sections) {
  Section<Description> section;
  section.key = "evidence";
  section.read = [sections](const Place& place, Description& description) {
    for (const auto& [name, entry] : place.entries()) {
      const Section<Description>* const of = section_with(sections, description, name);
      if (of == nullptr) {
        entry.fail("is no cache of this description; describe it under `caches` or remove its evidence");
      }
      description.evidence.emplace(name, evidence_from(entry, of->of_what, of->leaves));
    }
  };
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
