// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/yaml_place.hpp"

#include <algorithm>
#include <numeric>

#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/printable.hpp"

namespace gpuinfer::model {

namespace {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

bool contains(Names names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

std::string nearest(std::string_view name, Names names) {
  return std::string(*std::min_element(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(name, a) < edit_distance(name, b);
  }));
}

Place::Place(const YamlEntry& entry, const Place& parent)
    : node_(&entry.value), key_((parent.key_.empty() ? "" : parent.key_ + ".") + entry.key.text), file_(parent.file_),
      line_(entry.key.line) {}

void Place::fail(const std::string& what) const {
  throw InputError(printable(*file_ + ":" + std::to_string(line_) + ": " + (key_.empty() ? "" : key_ + ": ") + what));
}

std::vector<std::pair<std::string, Place>> Place::entries() const {
  if (node_->kind != YamlNode::Kind::map) {
    fail("must be a map; write `{key: value}`");
  }
  std::vector<std::pair<std::string, Place>> places;
  for (const YamlEntry& entry : node_->entries) {
    places.emplace_back(entry.key.text, Place(entry, *this));
  }
  return places;
}

void Place::allow(Names names) const {
  for (const auto& [name, place] : entries()) {
    if (!contains(names, name)) {
      place.fail("is not a known key here; write `" + nearest(name, names) + "` or remove it");
    }
  }
}

std::optional<Place> Place::find(std::string_view name) const {
  for (const YamlEntry& entry : node_->entries) {
    if (entry.key.text == name && entry.value.kind != YamlNode::Kind::null) {
      return Place(entry, *this);
    }
  }
  return std::nullopt;
}

Place Place::need(std::string_view name) const {
  const std::optional<Place> place = find(name);
  if (!place) {
    fail("lacks `" + std::string(name) + "`; give it");
  }
  return *place;
}

std::vector<Place> Place::items() const {
  if (node_->kind != YamlNode::Kind::list) {
    fail("must be a list; write `[value, value]`");
  }
  std::vector<Place> places(node_->items.size(), *this);
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].node_ = &node_->items[i];
    places[i].line_ = node_->items[i].line;
  }
  return places;
}

std::uint64_t Place::whole(std::uint64_t least, std::uint64_t most) const {
  const auto number = node_->kind == YamlNode::Kind::plain ? number_from<std::uint64_t>(node_->text) : std::nullopt;
  if (!number || *number < least || *number > most) {
    fail("is " + to_flow_yaml(*node_) + ", not a whole number from " + to_text(least) + " to " + to_text(most) +
         "; correct it");
  }
  return *number;
}

double Place::real(double least, double most) const {
  const auto number = node_->kind == YamlNode::Kind::plain ? number_from<double>(node_->text) : std::nullopt;
  if (!number || !(*number >= least && *number <= most)) {
    fail("is " + to_flow_yaml(*node_) + ", not a number from " + to_text(least) + " to " + to_text(most) +
         "; correct it");
  }
  return *number;
}

std::string Place::text() const {
  if (node_->kind != YamlNode::Kind::plain && node_->kind != YamlNode::Kind::quoted) {
    fail("must be text; write a word or a quoted string");
  }
  return node_->text;
}

std::optional<std::uint64_t> Place::find_whole(std::string_view name, std::uint64_t least, std::uint64_t most) const {
  const auto value = find(name);
  return value ? std::optional(value->whole(least, most)) : std::nullopt;
}

std::optional<double> Place::find_real(std::string_view name, double least, double most) const {
  const auto value = find(name);
  return value ? std::optional(value->real(least, most)) : std::nullopt;
}

std::optional<std::string> Place::find_text(std::string_view name) const {
  const auto value = find(name);
  return value ? std::optional(value->text()) : std::nullopt;
}

}  // namespace gpuinfer::model
