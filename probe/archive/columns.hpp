// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "probe/archive/format.hpp"
#include "probe/archive/unpacked.hpp"
#include "probe/hdf5.hpp"

// Columns of an archive where they were unpacked, in memory of an Unpacked that outlives them.
namespace gpuinfer::probe::archive {

// Numbers as the archive stores them: narrow where that holds them all.
template <class Narrow, class Wide>
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(std::span<const Narrow> numbers) : numbers_(numbers) {}
  explicit Numbers(std::span<const Wide> numbers) : numbers_(numbers) {}

  // What `use` makes of the span of them, whichever it is.
  template <class Use>
  decltype(auto) as_stored(const Use& use) const {
    return std::visit(use, numbers_);
  }

  [[nodiscard]] std::size_t size() const {
    return as_stored([](auto numbers) { return numbers.size(); });
  }
  // `range` lies within.
  [[nodiscard]] Numbers slice(Range range) const {
    return as_stored([&](auto numbers) { return Numbers(numbers.subspan(range.begin, range.size())); });
  }
  // Leaves nothing else in `to`.
  void copy_to(std::vector<Wide>& to) const {
    to.resize(size());
    as_stored([&](auto numbers) { std::ranges::copy(numbers, to.begin()); });
  }
  [[nodiscard]] std::vector<Wide> copy() const {
    std::vector<Wide> wide;
    copy_to(wide);
    return wide;
  }

 private:
  std::variant<std::span<const Narrow>, std::span<const Wide>> numbers_;
};

using Offsets = Numbers<std::uint32_t, std::uint64_t>;
using Latencies = Numbers<std::uint16_t, float>;

inline Offsets read_offsets(const hdf5::Dataset& dataset, Unpacked& unpacked) {
  dataset.require_numbers();
  if (dataset.stores(H5T_STD_U32LE)) {
    return Offsets(
        unpacked.next<std::uint32_t>(dataset.count(), [&](void* to) { dataset.read(H5T_NATIVE_UINT32, to); }));
  }
  return Offsets(unpacked.next<std::uint64_t>(dataset.count(), [&](void* to) { dataset.read(H5T_NATIVE_UINT64, to); }));
}

inline Latencies read_latencies(const hdf5::Dataset& dataset, Unpacked& unpacked) {
  dataset.require_numbers();
  if (dataset.stores(H5T_STD_U16LE)) {
    return Latencies(
        unpacked.next<std::uint16_t>(dataset.count(), [&](void* to) { dataset.read(H5T_NATIVE_UINT16, to); }));
  }
  return Latencies(unpacked.next<float>(dataset.count(), [&](void* to) { dataset.read(H5T_NATIVE_FLOAT, to); }));
}

// Strings, each padded with zeros to the same length.
class Texts {
 public:
  Texts() = default;
  Texts(const hdf5::Dataset& dataset, Unpacked& unpacked)
      : length_(dataset.text_bytes()),
        bytes_(unpacked.next<char>(dataset.count() * length_, [&](void* to) { dataset.read_texts(to); })) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size() / length_; }
  [[nodiscard]] std::string_view operator[](std::size_t i) const {
    const std::string_view padded(bytes_.data() + i * length_, length_);
    return padded.substr(0, padded.find('\0'));
  }

 private:
  std::size_t length_ = 1;
  std::span<const char> bytes_;
};

}  // namespace gpuinfer::probe::archive
