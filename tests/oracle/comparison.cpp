// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/comparison.hpp"

#include <algorithm>
#include <sstream>

#include "tests/oracle/naive_cache.hpp"

namespace gpuinfer::oracle {
namespace {

// Neither seed matters to policies without chance.
constexpr std::uint64_t simulator_seed = 1;
constexpr std::uint64_t oracle_seed = 2;

const char* name_of(model::Outcome outcome) {
  switch (outcome) {
    case model::Outcome::hit:
      return "hit";
    case model::Outcome::sector_miss:
      return "sector miss";
    case model::Outcome::line_miss:
      break;
  }
  return "line miss";
}

std::string to_text(const model::AccessEvent& event) {
  std::ostringstream text;
  text << name_of(event.outcome) << " in set " << event.set;
  if (event.way) {
    text << " way " << *event.way;
  }
  if (event.victim_address) {
    text << std::hex << " for " << (event.victim_is_dirty ? "dirty 0x" : "0x") << number_of(*event.victim_address);
  }
  return text.str();
}

model::AccessKind kind_of(const Step& step, std::size_t access) {
  return step.kinds.empty() ? model::AccessKind::load : step.kinds[access];
}

// Of as many fields as were asked for.
std::vector<model::AccessEvent> answers_of(model::CacheSimulator& simulator, const Step& step) {
  std::vector<model::AccessEvent> answers(step.addresses.size());
  if (step.answers == Answers::events) {
    for (std::size_t access = 0; access < answers.size(); ++access) {
      answers[access] = simulator.step(model::Address{step.addresses[access]}, kind_of(step, access));
    }
    return answers;
  }
  std::vector<model::Outcome> outcomes(step.answers == Answers::none ? 0 : answers.size());
  simulator.play(step.addresses, outcomes);
  for (std::size_t access = 0; access < outcomes.size(); ++access) {
    answers[access].outcome = outcomes[access];
  }
  return answers;
}

bool agree(Answers answers, const model::AccessEvent& simulator, const model::AccessEvent& oracle) {
  switch (answers) {
    case Answers::none:
      return true;
    case Answers::outcomes:
      return simulator.outcome == oracle.outcome;
    case Answers::events:
      break;
  }
  return simulator == oracle;
}

// Without what comes after the difference.
std::vector<Step> ended_at(std::vector<Step> steps, const Difference& difference) {
  steps.resize(difference.step + 1);
  steps.back().addresses.resize(difference.access + 1);
  if (!steps.back().kinds.empty()) {
    steps.back().kinds.resize(difference.access + 1);
  }
  return steps;
}

}  // namespace

std::optional<Difference> first_difference(const model::CacheDescription& of_simulator,
                                           const model::CacheDescription& of_oracle, const std::vector<Step>& steps) {
  const auto simulator = model::CacheSimulator::make(of_simulator, simulator_seed);
  NaiveCache oracle(of_oracle, oracle_seed);
  for (std::size_t number = 0; number < steps.size(); ++number) {
    const Step& step = steps[number];
    simulator->put_into(step.state);
    oracle.put_into(step.state);
    const auto answers = answers_of(*simulator, step);
    for (std::size_t access = 0; access < step.addresses.size(); ++access) {
      const model::AccessEvent expected = oracle.access(step.addresses[access], kind_of(step, access));
      if (!agree(step.answers, answers[access], expected)) {
        return Difference{.step = number, .access = access, .oracle = expected, .simulator = answers[access]};
      }
    }
  }
  return std::nullopt;
}

// Leaves out ever smaller stretches of every step for as long as a difference remains.
std::vector<Step> shortened(const model::CacheDescription& of_simulator, const model::CacheDescription& of_oracle,
                            std::vector<Step> steps) {
  const auto keep_if_it_differs = [&](const std::vector<Step>& fewer) {
    const auto difference = first_difference(of_simulator, of_oracle, fewer);
    if (difference) {
      steps = ended_at(fewer, *difference);
    }
    return difference.has_value();
  };
  if (!keep_if_it_differs(steps)) {
    return steps;
  }
  for (std::size_t number = 0; number < steps.size(); ++number) {
    for (std::size_t length = steps[number].addresses.size(); length > 0; length /= 2) {
      for (std::size_t first = 0; number < steps.size() && first < steps[number].addresses.size();) {
        std::vector<Step> fewer = steps;
        auto& addresses = fewer[number].addresses;
        const std::size_t end = std::min(first + length, addresses.size());
        addresses.erase(addresses.begin() + static_cast<std::ptrdiff_t>(first),
                        addresses.begin() + static_cast<std::ptrdiff_t>(end));
        if (auto& kinds = fewer[number].kinds; !kinds.empty()) {
          kinds.erase(kinds.begin() + static_cast<std::ptrdiff_t>(first),
                      kinds.begin() + static_cast<std::ptrdiff_t>(end));
        }
        first += keep_if_it_differs(fewer) ? 0 : length;
      }
    }
  }
  for (std::size_t number = 0; number < steps.size();) {
    std::vector<Step> fewer = steps;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(number));
    number += keep_if_it_differs(fewer) ? 0U : 1U;
  }
  return steps;
}

std::string to_text(const std::vector<Step>& steps, const Difference& difference) {
  std::ostringstream text;
  for (const Step& step : steps) {
    text << model::to_string(step.state) << std::hex;
    for (std::size_t access = 0; access < step.addresses.size(); ++access) {
      text << (kind_of(step, access) == model::AccessKind::store ? " store 0x" : " 0x") << step.addresses[access];
    }
    text << (step.answers == Answers::events ? " (events); " : "; ");
  }
  text << "the last access: oracle " << to_text(difference.oracle) << ", simulator " << to_text(difference.simulator);
  return text.str();
}

}  // namespace gpuinfer::oracle
