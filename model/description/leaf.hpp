// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
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
  columns,  // of a table whose columns have numbers that begin anywhere, and parities that may all be flipped
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

// What a codec does, behind one boundary for whatever it is a codec of, which stands where the pointers say: hundreds
// of rows with functions of a type of their own would cost the compiler much.
class ValueAccess {
 public:
  virtual ~ValueAccess() = default;
  ValueAccess(const ValueAccess&) = delete;
  ValueAccess& operator=(const ValueAccess&) = delete;

  virtual void read(const Place& place, void* value) const = 0;
  [[nodiscard]] virtual std::string write(const void* value) const = 0;
  [[nodiscard]] virtual bool is_default(const void* value, const void* of_usual_part) const = 0;
  [[nodiscard]] virtual std::optional<std::string> text(const void* value) const = 0;
  [[nodiscard]] virtual LeafFacts facts() const = 0;

 protected:
  ValueAccess() = default;
};

template <class Value, class Codec>
class CodecAccess final : public ValueAccess {
 public:
  explicit CodecAccess(Codec codec) : codec_(std::move(codec)) {}

  void read(const Place& place, void* value) const override { *static_cast<Value*>(value) = codec_.read(place); }
  [[nodiscard]] std::string write(const void* value) const override { return codec_.write(of(value)); }
  [[nodiscard]] bool is_default(const void* value, const void* of_usual_part) const override {
    return of(value) == of(of_usual_part);
  }
  [[nodiscard]] std::optional<std::string> text(const void* value) const override { return codec_.text(of(value)); }
  [[nodiscard]] LeafFacts facts() const override { return codec_.facts(); }

 private:
  [[nodiscard]] static const Value& of(const void* value) { return *static_cast<const Value*>(value); }

  Codec codec_;
};

// Of what need not be known.
template <class Value, class Codec>
class CodecAccess<std::optional<Value>, Codec> final : public ValueAccess {
 public:
  explicit CodecAccess(Codec codec) : codec_(std::move(codec)) {}

  void read(const Place& place, void* value) const override {
    *static_cast<std::optional<Value>*>(value) = codec_.read(place);
  }
  [[nodiscard]] std::string write(const void* value) const override {
    return of(value) ? codec_.write(*of(value)) : "null";
  }
  [[nodiscard]] bool is_default(const void* value, const void* /*of_usual_part*/) const override { return !of(value); }
  [[nodiscard]] std::optional<std::string> text(const void* value) const override {
    return of(value) ? std::optional<std::string>(codec_.text(*of(value))) : std::nullopt;
  }
  [[nodiscard]] LeafFacts facts() const override { return codec_.facts(); }

 private:
  [[nodiscard]] static const std::optional<Value>& of(const void* value) {
    return *static_cast<const std::optional<Value>*>(value);
  }

  Codec codec_;
};

// What a `Part` is of which nothing is said.
template <class Part>
[[nodiscard]] const Part& usual_part() {
  static const Part part{};
  return part;
}

// A row of the member that lies so many bytes behind the begin of its part.
template <class Part>
[[nodiscard]] Leaf<Part> leaf(std::string_view name, std::string_view meaning, std::ptrdiff_t offset,
                              std::unique_ptr<const ValueAccess> of_member) {
  const std::shared_ptr<const ValueAccess> access = std::move(of_member);
  Leaf<Part> row(access->facts());
  row.name = name;
  row.meaning = meaning;
  const auto member = [offset](const Part& part) -> const void* {
    return reinterpret_cast<const std::byte*>(&part) + offset;
  };
  row.read = [access, offset](const Place& place, Part& part) {
    access->read(place, reinterpret_cast<std::byte*>(&part) + offset);
  };
  row.write = [access, member](const Part& part) { return access->write(member(part)); };
  row.is_default = [access, member](const Part& part) {
    return access->is_default(member(part), member(usual_part<Part>()));
  };
  row.text = [access, member](const Part& part) { return access->text(member(part)); };
  return row;
}

// A row of a member. `codec` has read(Place) -> Value, write(Value) -> YAML on one line, text(Value) for people, and
// facts() of all such values; Value is that in the optional of a member that need not be known.
template <class Part, class Value, class Codec>
[[nodiscard]] Leaf<Part> leaf(std::string_view name, Value Part::*member, Codec codec, std::string_view meaning = {}) {
  const Part& part = usual_part<Part>();
  const std::ptrdiff_t offset =
      reinterpret_cast<const std::byte*>(&(part.*member)) - reinterpret_cast<const std::byte*>(&part);
  return leaf<Part>(name, meaning, offset, std::make_unique<const CodecAccess<Value, Codec>>(std::move(codec)));
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
