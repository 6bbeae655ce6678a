// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/cache_simulator.hpp"

#include <bit>
#include <string>

#include "model/errors.hpp"
#include "model/policies/table.hpp"

namespace gpuinfer::model {

namespace {

// Everything a run needs to know about a line, found once when the line is first seen: so no access pays for the index
// function, and none for the number of ways.
struct KnownLine {
  std::uint32_t set = 0;
  std::uint32_t slot = 0;
  bool resident = false;
};

// Line number -> position in a dense array. Lines are only ever added.
class LineTable {
 public:
  explicit LineTable(const IndexFunction& index, std::uint64_t line_bytes)
      : index_(&index), line_bytes_(line_bytes), buckets_(1024, vacant) {}

  std::uint32_t id_of(std::uint64_t line) {
    for (std::size_t bucket = hash(line);; bucket = (bucket + 1) & (buckets_.size() - 1)) {
      const std::uint32_t id = buckets_[bucket];
      if (id == vacant) {
        return add(line, bucket);
      }
      if (numbers_[id] == line) {
        return id;
      }
    }
  }

  KnownLine& operator[](std::uint32_t id) { return lines_[id]; }
  std::vector<KnownLine>& all() { return lines_; }

 private:
  static constexpr std::uint32_t vacant = ~std::uint32_t{0};

  [[nodiscard]] std::size_t hash(std::uint64_t line) const {
    return (line * 0x9e3779b97f4a7c15ULL) >> (64U - static_cast<unsigned>(std::countr_zero(buckets_.size())));
  }

  std::uint32_t add(std::uint64_t line, std::size_t bucket) {
    const std::uint64_t address = line * line_bytes_;
    if (!covers(*index_, address)) {
      throw InputError("index: address " + std::to_string(address) +
                       " lies outside range_bytes of the table; nothing is known there");
    }
    const auto id = static_cast<std::uint32_t>(lines_.size());
    lines_.push_back({.set = set_of(*index_, address)});
    numbers_.push_back(line);
    buckets_[bucket] = id;
    if (lines_.size() * 2 > buckets_.size()) {
      grow();
    }
    return id;
  }

  void grow() {
    buckets_.assign(buckets_.size() * 4, vacant);
    for (std::uint32_t id = 0; id < numbers_.size(); ++id) {
      std::size_t bucket = hash(numbers_[id]);
      while (buckets_[bucket] != vacant) {
        bucket = (bucket + 1) & (buckets_.size() - 1);
      }
      buckets_[bucket] = id;
    }
  }

  const IndexFunction* index_;
  std::uint64_t line_bytes_;
  std::vector<std::uint32_t> buckets_;
  std::vector<KnownLine> lines_;
  std::vector<std::uint64_t> numbers_;
};

template <class Policy>
class SimulatorOf final : public CacheSimulator {
 public:
  SimulatorOf(const CacheDescription& cache, std::uint64_t seed)
      : line_bytes_(*cache.line_bytes), sector_bytes_(*cache.sector_bytes), prefetch_lines_(cache.prefetch_lines),
        index_(*cache.index), layout_(*cache.ways), random_(seed), policy_(layout_, *cache.replacement, random_),
        lines_(index_, line_bytes_), occupant_(layout_.slots()), sectors_(layout_.slots()), filled_(layout_.sets()) {}

  void put_into(StartState state) override {
    if (state == StartState::keep) {
      return;
    }
    for (KnownLine& line : lines_.all()) {
      line.resident = false;
    }
    filled_.assign(filled_.size(), 0);
    if (state == StartState::clean) {
      policy_.reset();
    }
  }

  void play(std::span<const std::uint64_t> addresses, std::span<Outcome> outcomes) override {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const Outcome outcome = access(addresses[i]);
      if (!outcomes.empty()) {
        outcomes[i] = outcome;
      }
    }
  }

 private:
  Outcome access(std::uint64_t address) {
    const std::uint64_t line = address / line_bytes_;
    const std::uint64_t sector = std::uint64_t{1} << ((address % line_bytes_) / sector_bytes_);
    const Outcome outcome = touch(line, sector);
    if (outcome == Outcome::line_miss) {
      for (unsigned ahead = 1; ahead <= prefetch_lines_; ++ahead) {
        touch(line + ahead, sector);
      }
    }
    return outcome;
  }

  Outcome touch(std::uint64_t line_number, std::uint64_t sector) {
    const std::uint32_t id = lines_.id_of(line_number);
    KnownLine& line = lines_[id];
    if (line.resident) {
      policy_.hit(line.set, line.slot);
      const bool present = (sectors_[line.slot] & sector) != 0;
      sectors_[line.slot] |= sector;
      return present ? Outcome::hit : Outcome::sector_miss;
    }
    line.slot = place(line.set);
    line.resident = true;
    occupant_[line.slot] = id;
    sectors_[line.slot] = sector;
    policy_.fill(line.set, line.slot);
    return Outcome::line_miss;
  }

  std::uint32_t place(std::uint32_t set) {
    if (filled_[set] < layout_.ways(set)) {
      return layout_.first_slot[set] + filled_[set]++;
    }
    const std::uint32_t slot = policy_.victim(set);
    lines_[occupant_[slot]].resident = false;
    return slot;
  }

  std::uint64_t line_bytes_;
  std::uint64_t sector_bytes_;
  unsigned prefetch_lines_;
  IndexFunction index_;
  SetLayout layout_;
  Random random_;
  Policy policy_;
  LineTable lines_;
  std::vector<std::uint32_t> occupant_;  // by slot: id of the line in it
  std::vector<std::uint64_t> sectors_;   // by slot: which sectors of the line are there
  std::vector<std::uint32_t> filled_;    // by set: ways in use, the lowest ones
};

void require(bool known, const char* leaf) {
  if (!known) {
    throw InputError(std::string(leaf) + ": is null, and a simulation needs it; give it a value");
  }
}

}  // namespace

std::unique_ptr<CacheSimulator> CacheSimulator::make(const CacheDescription& cache, std::uint64_t seed) {
  require(cache.line_bytes.has_value(), "line_bytes");
  require(cache.sector_bytes.has_value(), "sector_bytes");
  require(cache.ways.has_value(), "ways");
  require(cache.index.has_value(), "index");
  require(cache.replacement.has_value(), "replacement");
  if (cache.store_lines) {
    throw InputError(
        "store_lines: a store with room for fewer lines than there are tags cannot be simulated; remove it");
  }
  check(*cache.replacement, *cache.ways);
  std::unique_ptr<CacheSimulator> simulator;
  for_each_policy([&]<class Policy>() {
    if (Policy::name == cache.replacement->policy) {
      simulator = std::make_unique<SimulatorOf<Policy>>(cache, seed);
    }
  });
  return simulator;
}

std::vector<Outcome> outcomes_of(CacheSimulator& cache, const Question& question, std::uint64_t address_of_buffer) {
  const auto addresses = [&](const AccessSequence& offsets) {
    AccessSequence shifted = offsets;
    for (std::uint64_t& offset : shifted) {
      offset += address_of_buffer;
    }
    return shifted;
  };
  std::vector<Outcome> outcomes(question.record.size());
  cache.put_into(question.state);
  cache.play(addresses(question.warm), {});
  cache.play(addresses(question.record), outcomes);
  return outcomes;
}

}  // namespace gpuinfer::model
