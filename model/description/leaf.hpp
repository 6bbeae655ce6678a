// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/description/schema.hpp"
#include "model/yaml_place.hpp"
#include "model/yaml_tree.hpp"

// A leaf of a description as one row: whatever reads, writes, compares or lists leaves goes through these rows.
namespace gpuinfer::model {

// What makes two values of a leaf the same.
enum class Sameness : std::uint8_t {
  equality,
  overlap,  // of intervals
  index,    // the same split of the addresses
  ways,     // of the same sets
  policy,   // the same victims
  peak,     // as far as its measurement and the repetition of that spread
  time,     // as far as two processes spread around a run and its repetition
  slope,    // of lines through what was timed: as far as the evidence says where it lies
  mean,     // of what one process timed: as far as its evidence and other processes spread
  counted,  // within a tenth where the hardware counted it
  given,    // nothing: it says where values come from, or follows from others
};

// What there is to know of a leaf, whatever it is a leaf of.
struct LeafFacts {
  std::string_view name = {};     // in files
  std::string_view meaning = {};  // one line
  std::string_view unit = {};
  bool is_needed = false;    // a file that lacks it is refused
  bool is_sparse = false;    // not written where it is the default
  bool is_found_out = true;  // evidence may speak of it
  bool is_of_evidence_alone = false;
  bool is_measured = false;     // its numbers spread from one measurement to the next
  bool has_free_names = false;  // a map of names of the device's own
  bool may_be_null = false;     // null is a value, too, and does not stand for none
  Sameness sameness = Sameness::equality;
  bool stands_for_all = false;               // of a map: where both have this part, the others are not compared
  bool is_carved = false;                    // of a cache: hangs on how much memory is set aside as shared memory
  std::vector<std::string_view> needs = {};  // leaves beside it without which it is refused
  schema::Object schema = {};                // of a value that is known
  std::vector<LeafFacts> parts = {};         // of a map, or of each map of a list
  std::string_view key = {};                 // of such a list: the part by which its maps are told apart
};

// A leaf of a `Part`, a struct that stands in a description. A row of a struct is a row of what derives from it, too.
template <class Part>
struct Leaf : LeafFacts {
  // Throws InputError for what is no such value. Not called where the file has none. Empty: only evidence has this
  // name.
  std::function<void(const Place&, Part&)> read;
  std::function<std::string(const Part&)> write;  // YAML on one line; null where it is not known
  std::function<bool(const Part&)> is_default;    // the value that it has where the file has none
  // For people; none where it is not known.
  std::function<std::optional<std::string>(const Part&)> text;

  explicit Leaf(LeafFacts facts) : LeafFacts(std::move(facts)) {}

  template <class Base>
  requires std::derived_from<Part, Base> Leaf(
      const Leaf<Base>& base)  // NOLINT(google-explicit-constructor): a row of the base is one
      : LeafFacts(base), read(base.read), write(base.write), is_default(base.is_default), text(base.text) {}

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
  [[nodiscard]] Leaf compared_by(Sameness kind) && {
    sameness = kind;
    return std::move(*this);
  }
  [[nodiscard]] Leaf carved() && {
    is_carved = true;
    return std::move(*this);
  }
  [[nodiscard]] Leaf beside(std::vector<std::string_view> others) && {
    needs = std::move(others);
    return std::move(*this);
  }
  [[nodiscard]] Leaf in_words(std::function<std::optional<std::string>(const Part&)> words) && {
    text = std::move(words);
    return std::move(*this);
  }

  // Whether a file has it.
  [[nodiscard]] bool is_written(const Part& part) const { return write && !(is_sparse && is_default(part)); }
};

template <class Part>
using Leaves = std::vector<Leaf<Part>>;

// The value of a leaf in one description.
struct LeafValue {
  const LeafFacts* leaf = nullptr;
  std::string yaml = "null";             // on one line
  std::optional<std::string> text = {};  // for people; none: not known
  bool is_written = false;
};

template <class Codec>
[[nodiscard]] LeafFacts facts_of(std::string_view name, const Codec& codec, std::string_view meaning) {
  LeafFacts facts = codec.facts();
  facts.name = name;
  facts.meaning = meaning;
  return facts;
}

// What the functions of a row do, behind one boundary for all members of a part: else each of hundreds of rows would
// have functions of its own to copy and destroy them.
template <class Part>
class LeafAccess {
 public:
  virtual ~LeafAccess() = default;
  LeafAccess(const LeafAccess&) = delete;
  LeafAccess& operator=(const LeafAccess&) = delete;

  virtual void read(const Place& place, Part& part) const = 0;
  [[nodiscard]] virtual std::string write(const Part& part) const = 0;
  [[nodiscard]] virtual bool is_default(const Part& part) const = 0;
  [[nodiscard]] virtual std::optional<std::string> text(const Part& part) const = 0;

 protected:
  LeafAccess() = default;
};

template <class Part, class Value, class Codec>
class MemberAccess final : public LeafAccess<Part> {
 public:
  MemberAccess(Value Part::*member, Codec codec) : member_(member), codec_(std::move(codec)) {}

  void read(const Place& place, Part& part) const override { part.*member_ = codec_.read(place); }
  [[nodiscard]] std::string write(const Part& part) const override { return codec_.write(part.*member_); }
  [[nodiscard]] bool is_default(const Part& part) const override { return part.*member_ == Part{}.*member_; }
  [[nodiscard]] std::optional<std::string> text(const Part& part) const override { return codec_.text(part.*member_); }

 private:
  Value Part::*member_;
  Codec codec_;
};

// Of a member that need not be known.
template <class Part, class Value, class Codec>
class MemberAccess<Part, std::optional<Value>, Codec> final : public LeafAccess<Part> {
 public:
  MemberAccess(std::optional<Value> Part::*member, Codec codec) : member_(member), codec_(std::move(codec)) {}

  void read(const Place& place, Part& part) const override { part.*member_ = codec_.read(place); }
  [[nodiscard]] std::string write(const Part& part) const override {
    return part.*member_ ? codec_.write(*(part.*member_)) : "null";
  }
  [[nodiscard]] bool is_default(const Part& part) const override { return !(part.*member_); }
  [[nodiscard]] std::optional<std::string> text(const Part& part) const override {
    return part.*member_ ? std::optional<std::string>(codec_.text(*(part.*member_))) : std::nullopt;
  }

 private:
  std::optional<Value> Part::*member_;
  Codec codec_;
};

template <class Part>
[[nodiscard]] Leaf<Part> leaf(LeafFacts facts, std::unique_ptr<const LeafAccess<Part>> of_member) {
  const std::shared_ptr<const LeafAccess<Part>> access = std::move(of_member);
  Leaf<Part> row(std::move(facts));
  row.read = [access](const Place& place, Part& part) { access->read(place, part); };
  row.write = [access](const Part& part) { return access->write(part); };
  row.is_default = [access](const Part& part) { return access->is_default(part); };
  row.text = [access](const Part& part) { return access->text(part); };
  return row;
}

// A row of a member. `codec` has read(Place) -> Value, write(Value) -> YAML on one line, text(Value) for people, and
// facts() of all such values; Value is that in the optional of a member that need not be known.
template <class Part, class Value, class Codec>
[[nodiscard]] Leaf<Part> leaf(std::string_view name, Value Part::*member, Codec codec, std::string_view meaning = {}) {
  LeafFacts facts = facts_of(name, codec, meaning);
  // As what all rows have in common at once: pointers of a type of its own for each row cost the compiler much.
  return leaf<Part>(std::move(facts), std::unique_ptr<const LeafAccess<Part>>(
                                          new MemberAccess<Part, Value, Codec>(member, std::move(codec))));
}

// A name that only evidence has.
template <class Part>
[[nodiscard]] Leaf<Part> leaf_of_evidence(std::string_view name, std::string_view meaning) {
  return Leaf<Part>(LeafFacts{.name = name, .meaning = meaning, .is_of_evidence_alone = true});
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
    const auto entry = each.is_needed ? place.need(each.name) : place.find(each.name);
    if (!entry) {
      continue;
    }
    for (const std::string_view other : each.needs) {
      if (!place.find(other)) {
        entry->fail("needs `" + std::string(other) + "` beside it; give that or remove it");
      }
    }
    each.read(*entry, part);
  }
}

// Name and value of those that are written.
template <class Part>
[[nodiscard]] std::vector<std::pair<std::string, std::string>> written_leaves(const Part& part,
                                                                              const Leaves<Part>& leaves) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Leaf<Part>& each : leaves) {
    if (each.is_written(part)) {
      entries.emplace_back(each.name, each.write(part));
    }
  }
  return entries;
}

// Of all rows; `leaves` outlives them.
template <class Part>
[[nodiscard]] std::vector<LeafValue> values_of(const Part& part, const Leaves<Part>& leaves) {
  std::vector<LeafValue> values;
  for (const Leaf<Part>& each : leaves) {
    LeafValue value{.leaf = &each};
    if (each.write) {
      value.is_written = each.is_written(part);
      value.yaml = each.write(part);
      value.text = each.is_sparse && !value.is_written ? std::nullopt : each.text(part);
    }
    values.push_back(std::move(value));
  }
  return values;
}

template <class Part>
[[nodiscard]] std::vector<LeafFacts> facts_of(const Leaves<Part>& leaves) {
  return {leaves.begin(), leaves.end()};
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

// A map of these leaves.
[[nodiscard]] schema::Object schema_of(const std::vector<LeafFacts>& leaves);

}  // namespace gpuinfer::model
