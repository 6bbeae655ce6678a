// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/yaml_tree.hpp"

namespace gpuinfer::model {

using Names = std::span<const std::string_view>;

[[nodiscard]] bool contains(Names names, std::string_view name);

// The one of `names` (not empty) that takes the fewest edits to reach from `name`.
[[nodiscard]] std::string nearest(std::string_view name, Names names);

// A value in a YAML file and what it is called in messages. Whatever is read from it is checked: all members throw
// InputError "FILE:LINE: KEY: what is wrong; what to do". The tree and the file name outlive it.
class Place {
 public:
  Place(const YamlNode& root, const std::string& file) : node_(&root), file_(&file), line_(root.line) {}

  [[noreturn]] void fail(const std::string& what) const;

  [[nodiscard]] const YamlNode& node() const { return *node_; }
  [[nodiscard]] bool is_null() const { return node_->kind == YamlNode::Kind::null; }

  // Of a map: its entries; nothing when all keys are in `names`; one entry, none when it is missing or null; one entry
  // that must be there.
  [[nodiscard]] std::vector<std::pair<std::string, Place>> entries() const;
  void allow(Names names) const;
  void allow(std::initializer_list<std::string_view> names) const { allow(Names(names.begin(), names.size())); }
  [[nodiscard]] std::optional<Place> find(std::string_view name) const;
  [[nodiscard]] Place need(std::string_view name) const;

  // Of a list. Items go by the name of the list.
  [[nodiscard]] std::vector<Place> items() const;

  // Of a scalar, within [least, most].
  [[nodiscard]] std::uint64_t whole(std::uint64_t least, std::uint64_t most) const;
  [[nodiscard]] double real(double least, double most) const;
  [[nodiscard]] std::string text() const;

  // Of a list of whole numbers within [least, most], which fit Integer.
  template <class Integer>
  [[nodiscard]] std::vector<Integer> wholes(std::uint64_t least, std::uint64_t most) const {
    std::vector<Integer> numbers;
    for (const Place& item : items()) {
      numbers.push_back(static_cast<Integer>(item.whole(least, most)));
    }
    return numbers;
  }

  // Of an entry of a map; none when it is missing or null.
  [[nodiscard]] std::optional<std::uint64_t> find_whole(std::string_view name, std::uint64_t least,
                                                        std::uint64_t most) const;
  [[nodiscard]] std::optional<double> find_real(std::string_view name, double least, double most) const;
  [[nodiscard]] std::optional<std::string> find_text(std::string_view name) const;

 private:
  Place(const YamlEntry& entry, const Place& parent);

  const YamlNode* node_;
  std::string key_;
  const std::string* file_;
  std::size_t line_;
};

}  // namespace gpuinfer::model
