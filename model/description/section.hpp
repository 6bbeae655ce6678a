// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/description/codec.hpp"
#include "model/description/leaf.hpp"

// The keys of a description as rows: whatever goes through a description goes through these.
namespace gpuinfer::model {

template <class Description>
struct Section {
  enum class Kind {
    plain,   // of the device or of the program that reads: nothing is found out of it
    named,   // names stand below the key, a target each, with leaves of their own
    single,  // leaves stand below the key
  };

  std::string_view key;
  Kind kind = Kind::plain;
  std::string_view target;   // of a single section: which target finds it out
  std::string_view of_what;  // what its evidence is of, in messages
  // What its evidence may speak of. The rows of a table that grows by names of its own (bandwidths) are these.
  std::vector<std::string_view> leaves;
  std::function<void(const Place&, Description&)> read;
  std::function<std::string(const Description&)> write;  // lines of YAML; empty: the key is left out
  // What a profile has: the names below the key, or the key.
  std::function<std::vector<std::string>(const Description&)> names;
  // Takes away all names, or the key, for which the function does not hold.
  std::function<void(Description&, const std::function<bool(std::string_view)>&)> keep_only;

  Section() = default;
  template <class Base>
  requires std::derived_from<Description, Base> Section(
      const Section<Base>& base)  // NOLINT(google-explicit-constructor): a row of the base is one
      : key(base.key), kind(static_cast<Kind>(base.kind)), target(base.target), of_what(base.of_what),
        leaves(base.leaves), read(base.read), write(base.write), names(base.names), keep_only(base.keep_only) {}
};

template <class Description>
using Sections = std::vector<Section<Description>>;

// `key:` and below it each part in a block under its name; what is empty keeps its place as `{}`.
template <class Parts, class Entries>
[[nodiscard]] std::string named_block(std::string_view key, const Parts& parts, Entries&& entries_of) {
  std::string text = std::string(key) + (parts.empty() ? ": {}\n" : ":\n");
  for (const auto& [name, part] : parts) {
    text += "  " + to_yaml_scalar(name) + ":\n";
    for (const auto& [leaf_name, value] : entries_of(part)) {
      text += "    " + leaf_name + ": " + value + "\n";
    }
  }
  return text;
}

// Whether the key of a section without any part is left out. One that is written has parts of which nothing is known.
enum class WhenEmpty { left_out, written };

// Parts under names of their own; `check` may look at what was read before.
template <class Description, class Part>
[[nodiscard]] Section<Description> named_section(
    std::string_view key, std::string_view of_what, std::map<std::string, Part> Description::*member,
    Leaves<Part> leaves,
    std::type_identity_t<std::function<void(const Place&, const Part&, const Description&)>> check = {},
    WhenEmpty when_empty = WhenEmpty::left_out) {
  Section<Description> section;
  section.key = key;
  section.kind = of_what.empty() ? Section<Description>::Kind::plain : Section<Description>::Kind::named;
  section.of_what = of_what;
  section.leaves = found_out(leaves);
  section.read = [=](const Place& place, Description& description) {
    for (const auto& [name, entry] : place.entries()) {
      Part part{};
      if (!(entry.is_null() && when_empty == WhenEmpty::written)) {
        read_leaves(entry, part, leaves);
        if (check) {
          check(entry, part, description);
        }
      }
      (description.*member).emplace(name, std::move(part));
    }
  };
  section.write = [=](const Description& description) {
    const auto& parts = description.*member;
    return parts.empty() && when_empty == WhenEmpty::left_out
               ? ""
               : named_block(key, parts, [&](const Part& part) { return written_leaves(part, leaves); });
  };
  section.names = [member](const Description& description) {
    std::vector<std::string> names;
    for (const auto& [name, part] : description.*member) {
      names.push_back(name);
    }
    return names;
  };
  section.keep_only = [member](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    std::erase_if(description.*member, [&](const auto& entry) { return !is_kept(entry.first); });
  };
  return section;
}

// One part on one line.
template <class Description, class Part, class Codec>
[[nodiscard]] Section<Description> single_section(std::string_view key, std::string_view target,
                                                  std::string_view of_what, std::optional<Part> Description::*member,
                                                  std::vector<std::string_view> leaves, Codec codec) {
  Section<Description> section;
  section.key = key;
  section.kind = target.empty() ? Section<Description>::Kind::plain : Section<Description>::Kind::single;
  section.target = target;
  section.of_what = of_what;
  section.leaves = std::move(leaves);
  section.read = [=](const Place& place, Description& description) { description.*member = codec.read(place); };
  section.write = [=](const Description& description) {
    return description.*member ? std::string(key) + ": " + codec.write(*(description.*member)) + "\n" : "";
  };
  section.names = [=](const Description& description) {
    return description.*member ? std::vector{std::string(key)} : std::vector<std::string>{};
  };
  section.keep_only = [=](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    if (!is_kept(key)) {
      (description.*member).reset();
    }
  };
  return section;
}

// One value under each of some names, which are its leaves.
template <class Description, class Value, class Codec>
[[nodiscard]] Section<Description> table_section(std::string_view key, std::string_view target,
                                                 std::string_view of_what,
                                                 std::map<std::string, Value> Description::*member,
                                                 std::vector<std::string_view> names, Codec codec) {
  Section<Description> section;
  section.key = key;
  section.kind = Section<Description>::Kind::single;
  section.target = target;
  section.of_what = of_what;
  section.leaves = names;
  section.read = [=](const Place& place, Description& description) {
    place.allow(names);
    for (const auto& [name, value] : place.entries()) {
      (description.*member).emplace(name, codec.read(value));
    }
  };
  section.write = [=](const Description& description) {
    std::string text = (description.*member).empty() ? "" : std::string(key) + ":\n";
    for (const auto& [name, value] : description.*member) {
      text += "  " + to_yaml_scalar(name) + ": " + codec.write(value) + "\n";
    }
    return text;
  };
  section.names = [=](const Description& description) {
    return (description.*member).empty() ? std::vector<std::string>{} : std::vector{std::string(key)};
  };
  section.keep_only = [=](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    if (!is_kept(key)) {
      (description.*member).clear();
    }
  };
  return section;
}

// The section in which `name` stands, a name below a key or a single key; null: none.
template <class Description>
[[nodiscard]] const Section<Description>* section_with(const Sections<Description>& sections,
                                                       const Description& description, std::string_view name) {
  using Kind = typename Section<Description>::Kind;
  for (const Section<Description>& section : sections) {
    if (section.kind == Kind::plain) {
      continue;
    }
    const std::vector<std::string> names = section.names(description);
    if (section.kind == Kind::single ? section.key == name : std::ranges::find(names, name) != names.end()) {
      return &section;
    }
  }
  return nullptr;
}

// All keys of a map but `schema`, which the caller has checked. Sections are read in the order of the rows.
template <class Description>
[[nodiscard]] Description read_sections(const Place& root, const Sections<Description>& sections) {
  std::vector<std::string_view> keys{"schema"};
  for (const Section<Description>& section : sections) {
    keys.push_back(section.key);
  }
  root.allow(keys);
  Description description;
  for (const Section<Description>& section : sections) {
    if (const auto entry = root.find(section.key)) {
      section.read(*entry, description);
    }
  }
  return description;
}

template <class Description>
[[nodiscard]] std::string write_sections(const Description& description, const Sections<Description>& sections) {
  std::string yaml = "schema: gpuinfer/1\n";
  for (const Section<Description>& section : sections) {
    yaml += section.write(description);
  }
  return yaml;
}

}  // namespace gpuinfer::model
