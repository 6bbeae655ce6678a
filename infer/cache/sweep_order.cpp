// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/sweep_order.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "infer/asking/gf2.hpp"

namespace gpuinfer::infer {

namespace {

constexpr const char* no_banks = "the lines that go together with a load are not told from the rest by their sets";
constexpr const char* no_order =
    "the sets from which lines go do not come in the order of any number that bits of the "
    "address make";

// The number that these rows make of a name.
std::uint32_t number_of(const std::vector<std::uint32_t>& rows, std::uint32_t set) {
  std::uint32_t number = 0;
  for (std::size_t bit = 0; bit < rows.size(); ++bit) {
    number |= parity(rows[bit] & set) << bit;
  }
  return number;
}

// When the pointer came by a set first.
struct Visit {
  std::uint32_t set = 0;
  std::size_t time = 0;
};

// The sets of one bank that were occupied when its first lines went; until then the pointer had not moved.
using Visits = std::vector<Visit>;

constexpr std::size_t not_visited = std::numeric_limits<std::size_t>::max();  // later than all that were

class OrderFit {
 public:
  OrderFit(const std::vector<StoreRun>& runs, unsigned set_bits, std::string& reason)
      : runs_(&runs), set_bits_(set_bits), reason_(&reason) {}

  std::optional<SweepOrder> find() {
    if (!find_banks() || !find_room() || !find_places()) {
      return std::nullopt;
    }
    return order_;
  }

 private:
  // What goes lies in the bank of the line that was loaded.
  bool find_banks() {
    constexpr std::size_t enough_that_add_nothing = 32;
    EchelonBasis same_bank;
    std::size_t added_nothing = 0;
    for (const StoreRun& run : *runs_) {
      for (const StoreRun::Load& load : run.loads) {
        if (load.is_clear && load.gone_by) {
          const bool is_new = same_bank.add(load.set ^ run.loads[*load.gone_by].set);
          added_nothing = is_new ? 0 : added_nothing + 1;
        }
      }
    }
    if (added_nothing < enough_that_add_nothing) {
      return false;
    }
    std::vector<unsigned> bits(set_bits_);
    std::iota(bits.begin(), bits.end(), 0U);
    for (const std::uint64_t mask : same_bank.orthogonal_complement(bits)) {
      order_.bank_rows.push_back(static_cast<std::uint32_t>(mask));
    }
    if (order_.bank_rows.size() == set_bits_) {
      *reason_ = no_banks;
      return false;
    }
    return true;
  }

  // Every bank holds as many lines as any other before the first of its lines go.
  bool find_room() {
    std::set<std::size_t> rooms;
    for (const StoreRun& run : *runs_) {
      std::map<std::uint32_t, std::size_t> first_time;
      for (const StoreRun::Load& load : run.loads) {
        if (load.is_clear && load.gone_by) {
          auto [entry, is_new] = first_time.try_emplace(order_.bank_of(load.set), *load.gone_by);
          entry->second = std::min(entry->second, *load.gone_by);
        }
      }
      for (const auto& [bank, time] : first_time) {
        rooms.insert(add_visits(run, bank, time));
      }
    }
    if (rooms.size() != 1) {
      *reason_ = "a bank does not lose its first lines when it holds as many as the others did";
      return false;
    }
    order_.lines_of_bank = static_cast<std::uint32_t>(*rooms.begin());
    return true;
  }

  // Returns how many lines lay in the bank by then.
  std::size_t add_visits(const StoreRun& run, std::uint32_t bank, std::size_t first_time) {
    std::size_t lines = 0;
    std::uint32_t at_once = 0;
    std::map<std::uint32_t, std::size_t> visited;
    for (std::size_t i = 0; i < first_time; ++i) {
      const StoreRun::Load& load = run.loads[i];
      if (order_.bank_of(load.set) == bank) {
        ++lines;
        at_once += load.is_clear && load.gone_by == first_time ? 1U : 0U;
        visited.try_emplace(load.set, not_visited);
      }
    }
    std::set<std::uint32_t> met;
    for (const StoreRun::Load& load : run.loads) {
      const auto entry = visited.find(load.set);
      if (!met.insert(load.set).second || entry == visited.end()) {
        continue;
      }
      if (load.is_clear) {
        entry->second = load.gone_by.value_or(not_visited);
      } else {
        visited.erase(entry);
      }
    }
    Visits visits;
    for (const auto& [set, time] : visited) {
      visits.push_back({.set = set, .time = time});
    }
    visits_.push_back(std::move(visits));
    order_.most_at_once = std::max(order_.most_at_once, at_once);
    return lines;
  }

  // Bit by bit from the top: within the sets that are alike in the bits above, those with 0 come before those with 1.
  bool find_places() {
    std::vector<std::uint32_t> from_the_top;
    std::uint32_t constant = 0;
    EchelonBasis known;
    for (const std::uint32_t row : order_.bank_rows) {
      known.add(row);
    }
    while (known.rank() < set_bits_) {
      std::optional<std::pair<std::uint32_t, std::uint32_t>> found;
      for (std::uint32_t row = 1; row < std::uint32_t{1} << set_bits_; ++row) {
        if (known.remainder(row) == 0) {
          continue;
        }
        for (const std::uint32_t inverted : {0U, 1U}) {
          if (!is_next(from_the_top, row, inverted)) {
            continue;
          }
          if (found) {
            return false;
          }
          found = {row, inverted};
        }
      }
      if (!found) {
        *reason_ = no_order;
        return false;
      }
      known.add(found->first);
      from_the_top.push_back(found->first);
      constant = constant << 1U | found->second;
    }
    order_.position_rows.assign(from_the_top.rbegin(), from_the_top.rend());
    order_.position_constant = constant;
    return true;
  }

  [[nodiscard]] bool is_next(const std::vector<std::uint32_t>& above, std::uint32_t row, std::uint32_t inverted) const {
    struct Cell {
      std::size_t last_with_0 = 0;
      std::size_t first_with_1 = not_visited;
    };
    std::vector<Cell> cells(std::size_t{1} << above.size());
    for (const Visits& visits : visits_) {
      std::ranges::fill(cells, Cell{});
      for (const auto& [set, time] : visits) {
        Cell& cell = cells[number_of(above, set)];
        if ((parity(row & set) ^ inverted) == 0) {
          cell.last_with_0 = std::max(cell.last_with_0, time);
        } else {
          cell.first_with_1 = std::min(cell.first_with_1, time);
        }
        if (cell.last_with_0 > cell.first_with_1) {
          return false;
        }
      }
    }
    return true;
  }

  const std::vector<StoreRun>* runs_;
  unsigned set_bits_;
  std::string* reason_;
  SweepOrder order_;
  std::vector<Visits> visits_;
};

}  // namespace

std::uint32_t SweepOrder::bank_of(std::uint32_t set) const { return number_of(bank_rows, set); }

std::optional<SweepOrder> fit_sweep_order(const std::vector<StoreRun>& runs, unsigned set_bits, std::string& reason) {
  reason.clear();
  return OrderFit(runs, set_bits, reason).find();
}

}  // namespace gpuinfer::infer
