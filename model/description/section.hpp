// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
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
  std::string_view key;
  std::string_view meaning = {};  // one line
  bool is_named = false;          // names stand below the key, each with leaves of its own; else the leaves themselves
  std::string_view target = {};   // of a section without names: which target finds it out
  // What its evidence is of, in messages. Empty: nothing of it is found out, since it is of the device itself, or of
  // the program that reads.
  std::string_view of_what = {};
  std::vector<LeafFacts> facts = {};          // of its leaves
  std::vector<std::string_view> leaves = {};  // what its evidence may speak of
  schema::Object schema = {};
  std::function<void(const Place&, Description&)> read;
  std::function<std::string(const Description&)> write;  // lines of YAML; empty: the key is left out
  // What a description has: the names below the key, or the key.
  std::function<std::vector<std::string>(const Description&)> names;
  // The leaves below such a name.
  std::function<std::vector<LeafValue>(const Description&, std::string_view name)> values;
  // Takes away all names, or the key, for which the function does not hold.
  std::function<void(Description&, const std::function<bool(std::string_view)>&)> keep_only;

  Section() = default;
  template <class Base>
  requires std::derived_from<Description, Base> Section(
      const Section<Base>& base)  // NOLINT(google-explicit-constructor): a row of the base is one
      : key(base.key), meaning(base.meaning), is_named(base.is_named), target(base.target), of_what(base.of_what),
        facts(base.facts), leaves(base.leaves), schema(base.schema), read(base.read), write(base.write),
        names(base.names), values(base.values), keep_only(base.keep_only) {}

  [[nodiscard]] bool is_found_out() const { return !of_what.empty(); }
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

// Parts under names of their own, of which nothing is found out where `of_what` is empty; `check` may look at what was
// read before.
template <class Description, class Part>
[[nodiscard]] Section<Description> named_section(
    std::string_view key, std::string_view of_what, std::string_view meaning,
    std::map<std::string, Part> Description::*member, Leaves<Part> leaves,
    std::type_identity_t<std::function<void(const Place&, const Part&, const Description&)>> check = {},
    WhenEmpty when_empty = WhenEmpty::left_out) {
  Section<Description> section;
  section.key = key;
  section.meaning = meaning;
  section.is_named = true;
  section.of_what = of_what;
  section.facts = facts_of(leaves);
  section.leaves = found_out(leaves);
  const schema::Object one = schema_of(section.facts);
  section.schema = {
      {"type", "object"},
      {"additionalProperties", schema::text(when_empty == WhenEmpty::written ? schema::or_null(one) : one)}};
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
  const auto rows = std::make_shared<const Leaves<Part>>(std::move(leaves));
  section.values = [member, rows](const Description& description, std::string_view name) {
    const auto found = (description.*member).find(std::string(name));
    return found == (description.*member).end() ? std::vector<LeafValue>{} : values_of(found->second, *rows);
  };
  section.keep_only = [member](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    std::erase_if(description.*member, [&](const auto& entry) { return !is_kept(entry.first); });
  };
  return section;
}

// One part on one line, of which nothing is found out where `target` is empty.
template <class Description, class Part>
[[nodiscard]] Section<Description> single_section(std::string_view key, std::string_view target,
                                                  std::string_view of_what, std::string_view meaning,
                                                  std::optional<Part> Description::*member, codec::Map<Part> map) {
  Section<Description> section;
  section.key = key;
  section.meaning = meaning;
  section.target = target;
  section.of_what = of_what;
  section.facts = facts_of(map.leaves);
  section.leaves = found_out(map.leaves);
  section.schema = schema_of(section.facts);
  const auto rows = std::make_shared<const codec::Map<Part>>(std::move(map));
  section.read = [=](const Place& place, Description& description) { description.*member = rows->read(place); };
  section.write = [=](const Description& description) {
    return description.*member ? std::string(key) + ": " + rows->write(*(description.*member)) + "\n" : "";
  };
  section.names = [=](const Description& description) {
    return description.*member ? std::vector{std::string(key)} : std::vector<std::string>{};
  };
  section.values = [=](const Description& description, std::string_view /*name*/) {
    return values_of((description.*member).value_or(Part{}), rows->leaves);
  };
  section.keep_only = [=](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    if (!is_kept(key)) {
      (description.*member).reset();
    }
  };
  return section;
}

// One value under each of some names, which are its leaves; `beside`: leaves of the whole `Table`, a map by these
// names.
template <class Description, class Table, class Codec>
[[nodiscard]] Section<Description> table_section(std::string_view key, std::string_view target,
                                                 std::string_view of_what, std::string_view meaning,
                                                 Table Description::*member, std::vector<std::string_view> names,
                                                 Codec codec, Leaves<Table> beside = {}) {
  Section<Description> section;
  section.key = key;
  section.meaning = meaning;
  section.target = target;
  section.of_what = of_what;
  for (const std::string_view name : names) {
    section.facts.push_back(facts_of(name, codec, {}));
  }
  const auto rows = std::make_shared<const std::vector<LeafFacts>>(section.facts);
  const auto others = std::make_shared<const Leaves<Table>>(std::move(beside));
  std::ranges::copy(*others, std::back_inserter(section.facts));
  for (const LeafFacts& each : section.facts) {
    section.leaves.push_back(each.name);
  }
  section.schema = {{"type", "object"},
                    {"propertyNames", schema::text({{"enum", schema::word_list(section.leaves)}})},
                    {"additionalProperties", schema::text(codec.facts().schema)}};
  if (!others->empty()) {
    const schema::Object of_others = schema_of(facts_of(*others));
    section.schema.push_back(*std::ranges::find(of_others, "properties", &schema::Object::value_type::first));
  }
  section.read = [=, allowed = section.leaves](const Place& place, Description& description) {
    place.allow(allowed);
    for (const auto& [name, value] : place.entries()) {
      const auto other = std::ranges::find(*others, name, &Leaf<Table>::name);
      if (other != others->end() && !value.is_null()) {
        other->read(value, description.*member);
      } else if (other == others->end()) {
        (description.*member).emplace(name, codec.read(value));
      }
    }
  };
  section.write = [=](const Description& description) {
    std::string text;
    for (const auto& [name, value] : description.*member) {
      text += "  " + to_yaml_scalar(name) + ": " + codec.write(value) + "\n";
    }
    for (const auto& [name, value] : written_leaves(description.*member, *others)) {
      text += "  " + name + ": " + value + "\n";
    }
    return text.empty() ? "" : std::string(key) + ":\n" + text;
  };
  section.names = [=](const Description& description) {
    return description.*member == Table{} ? std::vector<std::string>{} : std::vector{std::string(key)};
  };
  section.values = [=](const Description& description, std::string_view /*name*/) {
    std::vector<LeafValue> values;
    for (const LeafFacts& row : *rows) {
      LeafValue value{.leaf = &row};
      const auto found = (description.*member).find(std::string(row.name));
      if (found != (description.*member).end()) {
        value = {
            .leaf = &row, .yaml = codec.write(found->second), .text = codec.text(found->second), .is_written = true};
      }
      values.push_back(std::move(value));
    }
    std::ranges::move(values_of(description.*member, *others), std::back_inserter(values));
    return values;
  };
  section.keep_only = [=](Description& description, const std::function<bool(std::string_view)>& is_kept) {
    if (!is_kept(key)) {
      description.*member = {};
    }
  };
  return section;
}

// The section in which `name` stands, a name below a key or a single key; null: none.
template <class Description>
[[nodiscard]] const Section<Description>* section_with(const Sections<Description>& sections,
                                                       const Description& description, std::string_view name) {
  const auto found = std::ranges::find_if(sections, [&](const Section<Description>& section) {
    if (!section.is_found_out() || !section.is_named) {
      return section.is_found_out() && section.key == name;
    }
    const std::vector<std::string> names = section.names(description);
    return std::ranges::find(names, name) != names.end();
  });
  return found == sections.end() ? nullptr : &*found;
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
