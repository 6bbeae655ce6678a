// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "model/description/sections.hpp"
#include "model/yaml_tree.hpp"

// A description as the tree of its file, whose values may be changed, with what the rows say of them.
namespace gpuinfer::model {

// The value under this key; null: none is there.
template <class Node>
[[nodiscard]] auto find(Node& map, std::string_view key) -> decltype(&map.entries.front().value) {
  const auto found = std::ranges::find_if(map.entries, [&](const YamlEntry& entry) { return entry.key.text == key; });
  return found == map.entries.end() ? nullptr : &found->value;
}

// The same below that, and so on.
template <class Node, class... Keys>
requires(sizeof...(Keys) > 0) [[nodiscard]] auto find(Node& map, std::string_view key, const Keys&... further)
    -> decltype(&map.entries.front().value) {
  auto* const found = find(map, key);
  return found == nullptr ? nullptr : find(*found, further...);
}

// The row of that name; null: none.
[[nodiscard]] inline const LeafFacts* find(const std::vector<LeafFacts>& leaves, std::string_view name) {
  const auto found = std::ranges::find(leaves, name, &LeafFacts::name);
  return found == leaves.end() ? nullptr : &*found;
}

// Calls visit(section, name, node) for each part of which something is found out: the name of a part below a key, or
// the key of a section without names.
template <class Tree, class Visit>
void for_each_part(Tree& root, const Sections<DeviceDescription>& all, Visit&& visit) {
  for (const Section<DeviceDescription>& section : all) {
    auto* const node = section.is_found_out() ? find(root, section.key) : nullptr;
    if (node == nullptr) {
      continue;
    }
    if (!section.is_named) {
      visit(section, section.key, *node);
      continue;
    }
    for (auto& entry : node->entries) {
      visit(section, std::string_view(entry.key.text), entry.value);
    }
  }
}

}  // namespace gpuinfer::model
