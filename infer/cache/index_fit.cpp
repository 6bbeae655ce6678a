// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/index_fit.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <unordered_map>

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

namespace {

using model::Address;
using model::IndexFunction;

// Set numbers of `index` -> names, when the function gives each line the set that was found; else nothing.
std::optional<std::vector<std::uint32_t>> matching_names(const IndexFunction& index,
                                                         const std::vector<AssignedLine>& lines, std::uint32_t sets) {
  if (model::sets(index) != sets) {
    return std::nullopt;
  }
  std::vector<std::optional<std::uint32_t>> name_of_set(sets);
  std::vector<bool> taken(sets);
  for (const AssignedLine& line : lines) {
    const std::uint32_t set = model::set_of(index, line.address);
    if (!name_of_set[set]) {
      if (taken[line.set]) {
        return std::nullopt;
      }
      name_of_set[set] = line.set;
      taken[line.set] = true;
    } else if (*name_of_set[set] != line.set) {
      return std::nullopt;
    }
  }
  std::vector<std::uint32_t> names;
  for (const auto& name : name_of_set) {
    if (!name) {
      return std::nullopt;
    }
    names.push_back(*name);
  }
  return names;
}

EchelonBasis differences(const std::vector<std::uint64_t>& address_numbers) {
  EchelonBasis basis;
  for (const std::uint64_t number : address_numbers) {
    basis.add(number ^ address_numbers.front());
  }
  return basis;
}

std::vector<std::uint64_t> address_numbers_of(const std::vector<AssignedLine>& lines) {
  std::vector<std::uint64_t> numbers;
  for (const AssignedLine& line : lines) {
    numbers.push_back(number_of(line.address));
  }
  return numbers;
}

// Differences of lines that share a set span the kernel of a GF(2)-affine index; its rows are what is orthogonal to
// them.
std::optional<IndexFunction> fit_linear(const std::vector<AssignedLine>& lines, const std::vector<unsigned>& bits,
                                        std::uint32_t sets) {
  if (!std::has_single_bit(sets)) {
    return std::nullopt;
  }
  const std::uint64_t exercised = mask_of(bits);
  EchelonBasis kernel;
  std::unordered_map<std::uint32_t, Address> first_of_set;
  for (const AssignedLine& line : lines) {
    const auto [first, is_first] = first_of_set.emplace(line.set, line.address);
    if (!is_first) {
      kernel.add((line.address ^ first->second) & exercised);
    }
  }
  const auto set_bits = static_cast<std::size_t>(std::countr_zero(sets));
  if (kernel.rank() + set_bits != bits.size()) {
    return std::nullopt;
  }
  return linear_index(kernel, bits);
}

// Length in lines of the runs of equal sets in the window; all inner runs of a modulo index have the length of its
// granule.
std::size_t shortest_inner_run(const std::vector<AssignedLine>& lines, std::size_t window_lines) {
  std::size_t shortest = window_lines;
  std::size_t run_begin = 0;
  for (std::size_t i = 1; i < window_lines; ++i) {
    if (lines[i].set != lines[i - 1].set) {
      if (run_begin > 0) {
        shortest = std::min(shortest, i - run_begin);
      }
      run_begin = i;
    }
  }
  return std::max<std::size_t>(1, shortest);
}

template <class Accept>
bool try_sums(const std::vector<AssignedLine>& lines, const std::vector<unsigned>& bits, std::uint32_t sets,
              const Accept& accept) {
  for (std::size_t width = 1; width <= 8 && width <= bits.size(); ++width) {
    for (std::size_t low = 0; low + width <= bits.size(); ++low) {
      for (std::size_t high = low + 1; high + width <= bits.size(); ++high) {
        model::SumIndex index{.fields = {}, .sets_count = sets};
        for (const std::size_t first : {low, high}) {
          const auto begin = bits.begin() + static_cast<std::ptrdiff_t>(first);
          index.fields.push_back({.bits = {begin, begin + static_cast<std::ptrdiff_t>(width)}});
        }
        // Most candidates are refuted by a few lines.
        std::unordered_map<std::uint32_t, std::uint32_t> name_of_set;
        const bool plausible = std::all_of(lines.begin(), lines.end(), [&](const AssignedLine& line) {
          return name_of_set.emplace(index.set_of(line.address), line.set).first->second == line.set;
        });
        if (plausible && accept(IndexFunction(index))) {
          return true;
        }
      }
    }
  }
  return false;
}

// What the lines of a window share: the coarsest granule at whose multiples alone the set changes.
struct Granules {
  std::uint64_t bytes = 0;
  std::uint64_t first = 0;               // number of the first one
  std::vector<std::uint32_t> sets = {};  // of each from there on
};

Granules granules_of(std::span<const AssignedLine> window, std::uint64_t line_bytes) {
  std::uint64_t lines = 0;
  for (std::size_t i = 1; i < window.size(); ++i) {
    if (window[i].set != window[i - 1].set) {
      lines = std::gcd(lines, window[i].address / line_bytes);
    }
  }
  Granules granules{.bytes = std::max<std::uint64_t>(1, lines) * line_bytes};
  granules.first = window.front().address / granules.bytes;
  for (const AssignedLine& line : window) {
    if (line.address / granules.bytes - granules.first == granules.sets.size()) {
      granules.sets.push_back(line.set);
    }
  }
  return granules;
}

template <class Accept>
bool try_repeating_tables(const Granules& granules, const Accept& accept) {
  for (std::size_t period = 1; period * 2 <= granules.sets.size(); ++period) {
    const bool repeats = std::equal(granules.sets.begin() + static_cast<std::ptrdiff_t>(period), granules.sets.end(),
                                    granules.sets.begin());
    if (!repeats) {
      continue;
    }
    model::TableIndex table{
        .granule_bytes = granules.bytes, .sets_of = std::vector<std::uint32_t>(period), .origin = 0, .range_bytes = {}};
    for (std::size_t i = 0; i < period; ++i) {
      table.sets_of[(granules.first + i) % period] = granules.sets[i];
    }
    if (accept(table)) {
      return true;
    }
  }
  return false;
}

}  // namespace

IndexFunction linear_index(const EchelonBasis& kernel, const std::vector<unsigned>& bits) {
  const std::vector<std::uint64_t> masks = kernel.orthogonal_complement(bits);
  if (std::all_of(masks.begin(), masks.end(), [](std::uint64_t mask) { return std::has_single_bit(mask); })) {
    model::BitsIndex index;
    for (const std::uint64_t mask : masks) {
      index.bits.push_back(static_cast<unsigned>(std::countr_zero(mask)));
    }
    return index;
  }
  return model::XorIndex{.row_masks = masks};
}

std::optional<IndexFit> fit_index(const std::vector<AssignedLine>& lines, std::size_t window_lines,
                                  std::uint64_t line_bytes, std::uint32_t sets) {
  IndexFit fit;
  fit.exercised_bits = exercised_bits(address_numbers_of(lines));
  const std::vector<unsigned>& bits = fit.exercised_bits;
  const auto accept = [&](const IndexFunction& index) {
    auto names = matching_names(index, lines, sets);
    if (names) {
      fit.index = index;
      fit.name_of_set = std::move(*names);
    }
    return names.has_value();
  };

  if (const auto linear = fit_linear(lines, bits, sets); linear && accept(*linear)) {
    return fit;
  }
  const std::size_t run_lines = shortest_inner_run(lines, window_lines);
  if (accept(model::ModuloIndex{.granule_bytes = run_lines * line_bytes, .sets_count = sets})) {
    return fit;
  }
  if (try_sums(lines, bits, sets, accept)) {
    return fit;
  }

  const Granules granules = granules_of(std::span(lines).first(window_lines), line_bytes);
  if (try_repeating_tables(granules, accept)) {
    return fit;
  }
  const std::vector<AssignedLine> window(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(window_lines));
  const std::uint64_t origin = granules.first * granules.bytes;
  const model::TableIndex table{.granule_bytes = granules.bytes,
                                .sets_of = granules.sets,
                                .origin = origin,
                                .range_bytes = window.back().address + line_bytes - Address{origin}};
  if (auto names = matching_names(table, window, sets)) {
    fit.index = table;
    fit.name_of_set = std::move(*names);
    fit.extrapolates = false;
    fit.exercised_bits = exercised_bits(address_numbers_of(window));
    return fit;
  }
  return std::nullopt;
}

std::vector<unsigned> exercised_bits(const std::vector<std::uint64_t>& address_numbers) {
  const EchelonBasis basis = differences(address_numbers);
  std::vector<unsigned> bits;
  for (const std::uint64_t row : basis.rows()) {
    bits.push_back(static_cast<unsigned>(std::countr_zero(row)));
  }
  std::sort(bits.begin(), bits.end());
  return bits;
}

bool same_partition(const IndexFunction& a, const IndexFunction& b, const std::vector<std::uint64_t>& address_numbers) {
  std::unordered_map<std::uint32_t, std::uint32_t> forth;
  std::unordered_map<std::uint32_t, std::uint32_t> back;
  return std::ranges::all_of(address_numbers, [&](std::uint64_t number) {
    const Address address{number};
    const std::uint32_t set_a = model::set_of(a, address);
    const std::uint32_t set_b = model::set_of(b, address);
    return forth.emplace(set_a, set_b).first->second == set_b && back.emplace(set_b, set_a).first->second == set_a;
  });
}

}  // namespace gpuinfer::infer
