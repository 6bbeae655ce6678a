// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/outcome_word.hpp"
#include "model/miss_reason.hpp"

namespace gpuinfer::cli {

namespace {

char strip_character(model::Outcome outcome) {
  switch (outcome) {
    case model::Outcome::hit:
      return '.';
    case model::Outcome::sector_miss:
      return 's';
    case model::Outcome::line_miss:
      return 'M';
  }
  return '.';
}

}  // namespace

void write_explained_rows(std::ostream& out, const model::CacheDescription& cache, const Accesses& warm,
                          const Accesses& record, model::Address address, std::uint64_t seed) {
  const auto simulator = model::CacheSimulator::make(cache, seed);
  model::MissReasons reasons(cache);
  for (std::size_t i = 0; i < warm.offsets.size(); ++i) {
    const model::Address played = address + warm.offsets[i];
    reasons.next(played, simulator->step(played, warm.kinds[i]).outcome);
  }
  std::string csv = "access,offset,set,outcome,kind,reason,way,victim_address\n";
  for (std::size_t i = 0; i < record.offsets.size(); ++i) {
    const model::Address played = address + record.offsets[i];
    const model::AccessEvent event = simulator->step(played, record.kinds[i]);
    const model::MissReason reason = reasons.next(played, event.outcome);
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{}\n", i, record.offsets[i], event.set,
                   word_for(event.outcome), record.kinds[i] == model::AccessKind::store ? "store" : "load",
                   is_miss(event.outcome) ? to_string(reason) : "", event.way ? std::to_string(*event.way) : "",
                   event.victim_address ? std::to_string(number_of(*event.victim_address)) : "");
  }
  out << csv;
}

void write_strip(std::ostream& out, const std::vector<model::Outcome>& outcomes) {
  constexpr std::size_t width = 64;
  for (std::size_t first = 0; first < outcomes.size(); first += width) {
    std::string line;
    for (std::size_t i = first; i < std::min(first + width, outcomes.size()); ++i) {
      line += strip_character(outcomes[i]);
    }
    out << fmt::format("{:>10}  {}\n", first, line);
  }
}

}  // namespace gpuinfer::cli
