// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/errors.hpp"
#include "probe/exec.hpp"
#include "probe/line_reader.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace {

using Clock = std::chrono::steady_clock;

// To look takes the device some time.
constexpr std::chrono::seconds between_disturbances{1};

std::vector<model::Answer> ask(model::Answerer& device, const std::vector<model::Question>& questions) {
  try {
    return device.ask(questions);
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& error) {
    return std::vector<model::Answer>(questions.size(), {.latency_cycles = {}, .refusal = error.what()});
  }
}

void answer(model::Answerer& device, const std::vector<wire::Asked>& batch, Clock::time_point& disturbances_due,
            std::ostream& out) {
  std::vector<model::Question> questions;
  for (const wire::Asked& asked : batch) {
    if (!asked.error) {
      questions.push_back(asked.question);
    }
  }
  const std::vector<model::Answer> answers = ask(device, questions);
  std::vector<model::Disturbance> disturbances;
  if (Clock::now() >= disturbances_due) {
    disturbances = device.disturbances();
    disturbances_due = Clock::now() + between_disturbances;
  }
  auto answer_to_question = answers.begin();
  for (const wire::Asked& asked : batch) {
    const model::Answer given =
        asked.error ? model::Answer{.latency_cycles = {}, .refusal = asked.error} : *answer_to_question++;
    out << wire::answer_line(asked.id, given, disturbances) << '\n' << std::flush;
    disturbances.clear();
  }
}

// The question of the next line; none: there are no more.
std::optional<wire::Asked> next_question(std::istream& in, std::string& line) {
  switch (read_line(in, line)) {
    case LineRead::whole:
      return wire::parse_question(line);
    case LineRead::too_long:
      in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      return wire::Asked{
          .id = {},
          .question = {},
          .error = "the line is longer than " + std::to_string(most_line_bytes) + " bytes; ask for less at a time"};
    case LineRead::none:
      break;
  }
  return std::nullopt;
}

}  // namespace

void serve(model::Answerer& device, std::istream& in, std::ostream& out) {
  out << wire::greeting_line(device.facts()) << '\n' << std::flush;
  constexpr std::size_t most_together = 256;
  std::string line;
  Clock::time_point disturbances_due;
  while (out) {
    std::vector<wire::Asked> batch;
    do {
      if (auto asked = next_question(in, line)) {
        batch.push_back(std::move(*asked));
      }
    } while (batch.size() < most_together && in.rdbuf()->in_avail() > 0);
    if (batch.empty()) {
      return;
    }
    answer(device, batch, disturbances_due, out);
  }
}

}  // namespace gpuinfer::probe
