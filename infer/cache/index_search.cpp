// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/index_search.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "infer/asking/gf2.hpp"
#include "infer/cache/granularity.hpp"
#include "infer/cache/index_fit.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::size_t most_sets = std::size_t{1} << 20U;

// Whether of the lines that were loaded when the set overflowed just its own are members, by their addresses.
template <class IsMember>
bool reproduces(const Interrogator& device, const ConflictClass& set, std::uint64_t line_bytes, std::size_t onset_lines,
                const IsMember& is_member) {
  if (!std::all_of(set.lines.begin(), set.lines.end(),
                   [&](std::uint64_t line) { return is_member(device.address_of(line)); })) {
    return false;
  }
  const model::Address start = device.address_of(aligned_start(device));
  std::size_t members = 0;
  for (std::size_t line = 0; line <= onset_lines && members <= set.lines.size(); ++line) {
    members += is_member(start + line * line_bytes) ? 1U : 0U;
  }
  return members == set.lines.size();
}

bool reproduces(const Interrogator& device, const ConflictClass& set, std::uint64_t line_bytes, std::size_t onset_lines,
                const model::IndexFunction& index) {
  const std::uint32_t number = model::set_of(index, device.address_of(set.lines.front()));
  return reproduces(device, set, line_bytes, onset_lines,
                    [&](model::Address address) { return model::set_of(index, address) == number; });
}

// Follows the kernel of a linear index through the bits of the address.
class LinearSearch {
 public:
  LinearSearch(Interrogator& device, Conflicts& conflicts, const ConflictClass& set, std::uint64_t line_bytes,
               std::size_t onset_lines)
      : device_(&device), conflicts_(&conflicts), set_(&set), line_bytes_(line_bytes), onset_lines_(onset_lines),
        home_(device.address_of(set.lines.front())), block_bytes_(free_block_bytes()),
        window_bytes_(std::min(block_bytes_, std::bit_ceil((onset_lines + 1) * line_bytes))) {}

  std::optional<model::IndexFunction> find() {
    for (const std::uint64_t line : set_->lines) {
      kernel_.add(device_->address_of(line) ^ home_);
    }
    for (std::uint64_t bit = line_bytes_; bit < window_bytes_; bit *= 2) {
      free_.add(kernel_.remainder(bit));
      known_.add(bit);
    }
    for (const std::uint64_t line : set_->lines) {
      known_.add(device_->address_of(line) ^ home_);
    }
    const auto shares_set = [this](model::Address address) { return kernel_.remainder(address ^ home_) == 0; };
    if (!complete_window() || !reproduces(*device_, *set_, line_bytes_, onset_lines_, shares_set) ||
        !add_directions(further_directions())) {
      return std::nullopt;
    }
    std::vector<unsigned> bits;
    for (const std::uint64_t row : known_.rows()) {
      bits.push_back(static_cast<unsigned>(std::countr_zero(row)));
    }
    std::sort(bits.begin(), bits.end());
    const std::uint64_t exercised = mask_of(bits);
    EchelonBasis kernel;
    for (const std::uint64_t row : kernel_.rows()) {
      kernel.add(row & exercised);
    }
    if (kernel.rank() + free_.rank() != bits.size() || kernel.rank() == bits.size()) {
      return kernel.rank() == bits.size() ? std::optional<model::IndexFunction>(model::BitsIndex{}) : std::nullopt;
    }
    return linear_index(kernel, bits);
  }

 private:
  // The largest aligned block around the first line that lies in the buffer as a whole: within it bits flip freely.
  [[nodiscard]] std::uint64_t free_block_bytes() const {
    const model::Address first = device_->address_of(0);
    const model::Address last = device_->address_of(device_->buffer().bytes);
    std::uint64_t block_bytes = line_bytes_;
    while (aligned_down(home_, 2 * block_bytes) >= first &&
           aligned_down(home_, 2 * block_bytes) + 2 * block_bytes <= last) {
      block_bytes *= 2;
    }
    return block_bytes;
  }

  // One difference for each set, the own one first: every set is met once by adding them to an address.
  [[nodiscard]] std::vector<std::uint64_t> differences_of_sets() const {
    std::vector<std::uint64_t> differences{0};
    for (const std::uint64_t row : free_.rows()) {
      const std::size_t before = differences.size();
      for (std::size_t i = 0; i < before; ++i) {
        differences.push_back(differences[i] ^ row);
      }
    }
    return differences;
  }

  // The differences are none of the kernel, so far as it is known; those that turn out to be are added, until none is.
  bool complete_window() {
    while (true) {
      if (free_.rank() > static_cast<std::size_t>(std::countr_zero(most_sets))) {
        return false;
      }
      std::vector<std::uint64_t> differences = differences_of_sets();
      differences.erase(differences.begin());
      const std::optional<std::vector<std::uint64_t>> in_kernel = conflicting(differences, 0);
      if (!in_kernel) {
        return false;
      }
      if (in_kernel->empty()) {
        return true;
      }
      for (const std::uint64_t difference : *in_kernel) {
        kernel_.add(difference);
      }
      EchelonBasis free;
      for (const std::uint64_t row : free_.rows()) {
        free.add(kernel_.remainder(row));
      }
      free_ = free;
    }
  }

  // Single bits beyond the window, and then whole blocks elsewhere in the buffer, where several bits differ at once.
  [[nodiscard]] std::vector<std::uint64_t> further_directions() const {
    std::vector<std::uint64_t> directions;
    for (std::uint64_t bit = window_bytes_; bit < block_bytes_; bit *= 2) {
      directions.push_back(bit);
    }
    const std::uint64_t home_block = home_ / block_bytes_;
    const std::uint64_t last_block = device_->address_of(device_->buffer().bytes - 1) / block_bytes_;
    for (std::uint64_t block = device_->address_of(0) / block_bytes_; block <= last_block; ++block) {
      if (block != home_block) {
        directions.push_back((block ^ home_block) * block_bytes_);
      }
    }
    return directions;
  }

  bool add_directions(std::vector<std::uint64_t> directions) {
    std::vector<std::uint64_t> tried_differences = differences_of_sets();
    // What is a sum of others tells nothing new.
    std::erase_if(directions, [this](std::uint64_t direction) { return !known_.add(direction); });
    while (!directions.empty()) {
      // So many directions together put as many lines into each set as it is sure to have room for.
      const std::size_t at_once = std::max<std::size_t>(1, set_->ways / 3);
      std::vector<std::uint64_t> independent;
      for (std::size_t next = 0; next < directions.size(); next += at_once) {
        std::vector<std::uint64_t> differences;
        const auto end = std::min(directions.size(), next + at_once);
        for (std::size_t d = next; d < end; ++d) {
          for (const std::uint64_t difference : tried_differences) {
            differences.push_back(directions[d] ^ difference);
          }
        }
        const std::optional<std::vector<std::uint64_t>> in_kernel = conflicting(differences, end - next);
        if (!in_kernel) {
          return false;
        }
        for (const std::uint64_t difference : *in_kernel) {
          kernel_.add(difference);
        }
        for (std::size_t d = next; d < end; ++d) {
          if (!in_span(directions[d])) {
            independent.push_back(directions[d]);
          }
        }
      }
      if (independent.empty()) {
        return true;
      }
      // The first of these leads to new sets; the others may lead to the same ones.
      tried_differences = differences_of_sets();
      for (std::uint64_t& difference : tried_differences) {
        difference ^= independent.front();
      }
      free_.add(kernel_.remainder(independent.front()));
      directions.assign(independent.begin() + 1, independent.end());
      if (differences_of_sets().size() > most_sets) {
        return false;
      }
    }
    return true;
  }

  // Whether the kernel and the known sets account for this direction.
  [[nodiscard]] bool in_span(std::uint64_t direction) const {
    EchelonBasis span = free_;
    for (const std::uint64_t row : kernel_.rows()) {
      span.add(row);
    }
    return span.remainder(direction) == 0;
  }

  // Those of the differences that lead from the home line to a line of the same set; as many as `expected` are taken on
  // trust. None at all when lines conflict
  // that the kernel, as far as it is known, puts into different sets, or when the buffer ends before.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> conflicting(const std::vector<std::uint64_t>& differences,
                                                                      std::size_t expected) {
    if (differences.empty()) {
      return std::vector<std::uint64_t>{};
    }
    Offsets tested = set_->lines;
    tested.resize(set_->ways + 1);
    std::vector<std::uint64_t> asked;
    for (const std::uint64_t difference : differences) {
      if (const auto placed = within_buffer(difference)) {
        asked.push_back(*placed);
        tested.push_back(*offset_of(home_ ^ *placed));
      }
    }
    const std::vector<bool> member = conflicts_->conflicting(tested, 1e-3);
    std::vector<std::uint64_t> found;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (member[set_->ways + 1 + i]) {
        found.push_back(asked[i]);
      }
    }
    if (found.size() <= expected) {
      return conflicts_->always_thrashes() ? found : with_overlooked(asked, std::move(found), expected);
    }
    // Lines that conflict with each other, but not with the set.
    constexpr std::size_t most_confirmed = 64;
    if (found.size() > most_confirmed) {
      return std::nullopt;
    }
    Offsets full(set_->lines.begin(), set_->lines.begin() + set_->ways);
    std::vector<std::uint64_t> confirmed;
    for (const std::uint64_t difference : found) {
      full.push_back(*offset_of(home_ ^ difference));
      if (conflicts_->overflow(full)) {
        confirmed.push_back(difference);
      }
      full.pop_back();
    }
    return confirmed.empty() ? std::nullopt : std::optional(confirmed);
  }

  // Where most lines stay, a new one of the set may hit in every lap; that the set overflows with it shows all the
  // same.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> with_overlooked(const std::vector<std::uint64_t>& asked,
                                                                          std::vector<std::uint64_t> found,
                                                                          std::size_t expected) {
    const Offsets full(set_->lines.begin(), set_->lines.begin() + set_->ways);
    const auto overflows_with = [&](std::span<const std::uint64_t> differences) {
      Offsets lines = full;
      for (const std::uint64_t difference : differences) {
        lines.push_back(*offset_of(home_ ^ difference));
      }
      return conflicts_->overflow(lines);
    };
    std::vector<std::uint64_t> rest = asked;
    std::erase_if(rest, [&](std::uint64_t difference) {
      return std::find(found.begin(), found.end(), difference) != found.end();
    });
    while (found.size() < expected && !rest.empty() && overflows_with(rest)) {
      std::span<const std::uint64_t> group(rest);
      while (group.size() > 1) {
        const std::size_t half = group.size() / 2;
        group = overflows_with(group.first(half)) ? group.first(half) : group.subspan(half);
      }
      const std::uint64_t overlooked = group.front();
      if (!overflows_with(group)) {
        return std::nullopt;
      }
      found.push_back(overlooked);
      std::erase(rest, overlooked);
    }
    return found;
  }

  // The difference, or another one to the same set, that does not lead out of the buffer.
  [[nodiscard]] std::optional<std::uint64_t> within_buffer(std::uint64_t difference) const {
    if (offset_of(home_ ^ difference)) {
      return difference;
    }
    for (const std::uint64_t first : kernel_.rows()) {
      for (const std::uint64_t second : kernel_.rows()) {
        const std::uint64_t other = difference ^ first ^ (first == second ? 0 : second);
        if (offset_of(home_ ^ other)) {
          return other;
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> offset_of(model::Address address) const {
    const model::Address first = device_->address_of(0);
    if (address < first || address - first + line_bytes_ > device_->buffer().bytes) {
      return std::nullopt;
    }
    return address - first;
  }

  Interrogator* device_;
  Conflicts* conflicts_;
  const ConflictClass* set_;
  std::uint64_t line_bytes_;
  std::size_t onset_lines_;
  model::Address home_;
  std::uint64_t block_bytes_;
  std::uint64_t window_bytes_;
  EchelonBasis kernel_;  // differences within a set
  EchelonBasis free_;    // differences between sets
  EchelonBasis known_;   // all differences that were looked at
};

}  // namespace

std::optional<model::IndexFunction> guess_linear(Interrogator& device, Conflicts& conflicts, const ConflictClass& set,
                                                 std::uint64_t line_bytes, std::size_t onset_lines) {
  if (!std::has_single_bit(line_bytes)) {
    return std::nullopt;
  }
  return LinearSearch(device, conflicts, set, line_bytes, onset_lines).find();
}

namespace {

constexpr std::size_t most_guesses = 16;

}  // namespace

std::vector<model::IndexFunction> guess_modulo(const Interrogator& device, const ConflictClass& set,
                                               std::uint64_t line_bytes, std::size_t onset_lines) {
  std::vector<std::uint64_t> members;  // line numbers
  for (const std::uint64_t offset : set.lines) {
    members.push_back(device.address_of(offset) / line_bytes);
  }
  std::sort(members.begin(), members.end());
  std::vector<model::IndexFunction> guesses;
  for (std::uint64_t granule = 1; granule <= onset_lines && guesses.size() < most_guesses; ++granule) {
    std::uint64_t apart = 0;
    for (std::size_t i = 1; i < members.size(); ++i) {
      const std::uint64_t distance = members[i] / granule - members[i - 1] / granule;
      apart = distance > 0 && (apart == 0 || distance < apart) ? distance : apart;
    }
    if (apart < 2) {
      continue;
    }
    const model::IndexFunction guess =
        model::ModuloIndex{.granule_bytes = granule * line_bytes, .sets_count = static_cast<std::uint32_t>(apart)};
    if (reproduces(device, set, line_bytes, onset_lines, guess)) {
      guesses.push_back(guess);
    }
  }
  return guesses;
}

std::vector<model::IndexFunction> guess_sum(const Interrogator& device, const ConflictClass& set,
                                            std::uint64_t line_bytes, std::size_t onset_lines) {
  if (!std::has_single_bit(line_bytes)) {
    return {};
  }
  constexpr unsigned widest = 8;
  const auto lowest = static_cast<unsigned>(std::countr_zero(line_bytes));
  const auto end = static_cast<unsigned>(std::bit_width(device.buffer().bytes - 1));
  std::vector<model::IndexFunction> guesses;
  const auto try_fields = [&](unsigned width, std::initializer_list<unsigned> firsts) {
    model::SumIndex index{.fields = {}, .sets_count = 0};
    for (const unsigned first : firsts) {
      model::BitsIndex field;
      for (unsigned bit = first; bit < first + width; ++bit) {
        field.bits.push_back(bit);
      }
      index.fields.push_back(std::move(field));
    }
    for (std::uint32_t sets = (1U << (width - 1)) + 1; sets <= 1U << width; ++sets) {
      index.sets_count = sets;
      if (guesses.size() < most_guesses &&
          reproduces(device, set, line_bytes, onset_lines, model::IndexFunction(index))) {
        guesses.emplace_back(index);
      }
    }
  };
  // A sum of single bits is their XOR.
  for (unsigned width = 2; width <= widest; ++width) {
    for (unsigned low = lowest; low + 2 * width <= end; ++low) {
      for (unsigned high = low + width; high + width <= end; ++high) {
        try_fields(width, {low, high});
      }
      if (low + 3 * width <= end) {
        try_fields(width, {low, low + width, low + 2 * width});
      }
    }
  }
  return guesses;
}

std::vector<unsigned> bits_of_buffer(const Interrogator& device, std::uint64_t line_bytes) {
  std::vector<std::uint64_t> numbers;
  const std::uint64_t lines = device.buffer().bytes / line_bytes;
  for (std::uint64_t step = 1; step < lines; step *= 2) {
    numbers.push_back(number_of(aligned_down(device.address_of(step * line_bytes), line_bytes)));
    numbers.push_back(number_of(aligned_down(device.address_of((lines - step) * line_bytes), line_bytes)));
  }
  numbers.push_back(number_of(aligned_down(device.address_of(0), line_bytes)));
  return exercised_bits(numbers);
}

}  // namespace gpuinfer::infer
