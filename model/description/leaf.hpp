// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/yaml_place.hpp"
#include "model/yaml_tree.hpp"

// A leaf of a description as one row: whatever reads, writes or lists leaves goes through these rows.
namespace gpuinfer::model {

// A leaf of a `Part`, a struct that stands in a description. A row of a struct is a row of what derives from it, too.
template <class Part>
struct Leaf {
  std::string_view name;     // in files
  std::string_view meaning;  // one line; empty for an entry of a leaf
  // Throws InputError for what is no such value. Not called where the file has none. Empty: only evidence has this
  // name.
  std::function<void(const Place&, Part&)> read;
  std::function<std::string(const Part&)> write;  // YAML on one line; null where it is not known
  std::function<bool(const Part&)> is_default;    // the value that it has where the file has none
  bool is_needed = false;                         // a file that lacks it is refused
  bool is_sparse = false;                         // not written where it is the default
  bool is_found_out = true;                       // evidence may speak of it

  Leaf(std::string_view own_name, std::string_view own_meaning) : name(own_name), meaning(own_meaning) {}

  template <class Base>
  requires std::derived_from<Part, Base> Leaf(
      const Leaf<Base>& base)  // NOLINT(google-explicit-constructor): a row of the base is one
      : name(base.name), meaning(base.meaning), read(base.read), write(base.write), is_default(base.is_default),
        is_needed(base.is_needed), is_sparse(base.is_sparse), is_found_out(base.is_found_out) {}

  [[nodiscard]] Leaf needed() && {
    is_needed = true;
    return std::move(*this);
  }
  [[nodiscard]] Leaf sparse() && {
    is_sparse = true;
    return std::move(*this);
  }
  [[nodiscard]] Leaf given() && {  // by whoever writes a description, not found out
    is_found_out = false;
    return std::move(*this);
  }
};

template <class Part>
using Leaves = std::vector<Leaf<Part>>;

// A row of a member. `codec` has read(Place) -> Value and write(Value) -> YAML on one line.
template <class Part, class Value, class Codec>
[[nodiscard]] Leaf<Part> leaf(std::string_view name, Value Part::*member, Codec codec, std::string_view meaning = {}) {
  Leaf<Part> row(name, meaning);
  row.read = [member, codec](const Place& place, Part& part) { part.*member = codec.read(place); };
  row.write = [member, codec](const Part& part) { return codec.write(part.*member); };
  row.is_default = [member](const Part& part) { return part.*member == Part{}.*member; };
  return row;
}

// The same of a member that need not be known.
template <class Part, class Value, class Codec>
[[nodiscard]] Leaf<Part> leaf(std::string_view name, std::optional<Value> Part::*member, Codec codec,
                              std::string_view meaning = {}) {
  Leaf<Part> row(name, meaning);
  row.read = [member, codec](const Place& place, Part& part) { part.*member = codec.read(place); };
  row.write = [member, codec](const Part& part) { return part.*member ? codec.write(*(part.*member)) : "null"; };
  row.is_default = [member](const Part& part) { return !(part.*member); };
  return row;
}

// A name that only evidence has.
template <class Part>
[[nodiscard]] Leaf<Part> leaf_of_evidence(std::string_view name, std::string_view meaning = {}) {
  return Leaf<Part>(name, meaning);
}

// Reads a map, and refuses what is no leaf of it.
template <class Part>
void read_leaves(const Place& place, Part& part, const Leaves<Part>& leaves) {
  std::vector<std::string_view> names;
  for (const Leaf<Part>& each : leaves) {
    if (each.read) {
      names.push_back(each.name);
    }
  }
  place.allow(names);
  for (const Leaf<Part>& each : leaves) {
    if (!each.read) {
      continue;
    }
    if (each.is_needed) {
      each.read(place.need(each.name), part);
    } else if (const auto entry = place.find(each.name)) {
      each.read(*entry, part);
    }
  }
}

// Name and value of those that are written.
template <class Part>
[[nodiscard]] std::vector<std::pair<std::string, std::string>> written_leaves(const Part& part,
                                                                              const Leaves<Part>& leaves) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Leaf<Part>& each : leaves) {
    if (each.write && !(each.is_sparse && each.is_default(part))) {
      entries.emplace_back(each.name, each.write(part));
    }
  }
  return entries;
}

// What evidence may speak of.
template <class Part>
[[nodiscard]] std::vector<std::string_view> found_out(const Leaves<Part>& leaves) {
  std::vector<std::string_view> names;
  for (const Leaf<Part>& each : leaves) {
    if (each.is_found_out) {
      names.push_back(each.name);
    }
  }
  return names;
}

}  // namespace gpuinfer::model
