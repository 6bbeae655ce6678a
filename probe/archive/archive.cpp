// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "model/errors.hpp"
#include "model/printable.hpp"
#include "probe/archive/read.hpp"
#include "probe/input_limits.hpp"
#include "probe/keep/answer_log.hpp"

namespace gpuinfer::probe {

Archive read_archive(const std::filesystem::path& file) {
  archive::Contents contents = archive::read_contents(file);
  Archive read{.facts = std::move(contents.facts),
               .traced_targets = std::move(contents.traced_targets),
               .timed = std::move(contents.timed),
               .timed_targets = {}};
  std::erase_if(read.timed, [](const TimedWorkload& each) { return each.timing.refusal.has_value(); });
  for (const TimedWorkload& each : read.timed) {
    const std::string target(target_of(each.workload));
    if (std::ranges::find(read.timed_targets, target) == read.timed_targets.end()) {
      read.timed_targets.push_back(target);
    }
  }
  return read;
}

namespace {

void show_traces(const std::filesystem::path& file, const archive::Launches& launches,
                 const std::function<void(const model::Trace&)>& visit) {
  model::Trace trace;
  for (const archive::Exchange& exchange : launches.exchanges()) {
    if (!exchange.refusal) {
      trace.name = file.string() + ":/" + launches.name_of(exchange);
      launches.copy_question(exchange, trace.question);
      exchange.latency_cycles.copy_to(trace.latency_cycles);
      trace.start_is_known = exchange.state != model::StartState::keep;
      visit(trace);
    }
  }
}

}  // namespace

void for_each_trace(const std::filesystem::path& file, const Wanted& wanted,
                    const std::function<void(const model::Trace&)>& visit) {
  show_traces(file, archive::read_launches(file, wanted), visit);
}

std::vector<model::Trace> archived_traces(const std::filesystem::path& file, const Wanted& wanted) {
  const archive::Launches launches = archive::read_launches(file, wanted);
  if (launches.asked_accesses() > most_archive_accesses) {
    throw InputError(printable(file.string()) +
                     ": more accesses were asked than are held at once; play it, with --device recorded:");
  }
  std::vector<model::Trace> traces;
  show_traces(file, launches, [&](const model::Trace& trace) { traces.push_back(trace); });
  return traces;
}

std::vector<std::string> recorded_targets(const std::filesystem::path& path) {
  return archive::read_contents(path).answered_targets;
}

model::DeviceFacts read_archive_facts(const std::filesystem::path& file) { return archive::read_facts(file); }

void append_archive(const std::filesystem::path& file, AnswerLog& log) {
  const archive::Contents contents = archive::read_contents(file);
  if (!contents.disturbances.empty()) {
    log.append_disturbances(contents.disturbances);
  }
  const archive::Launches launches = archive::read_launches(file, {});
  std::map<std::pair<Asked, std::string>, std::uint64_t> asked;  // of each target
  model::Question question;
  for (const archive::Exchange& exchange : launches.exchanges()) {
    launches.copy_question(exchange, question);
    log.append(asked[{Asked::question, question.target}]++, question, archive::Launches::answer_of(exchange));
  }
  for (const TimedWorkload& each : contents.timed) {
    log.append(asked[{Asked::workload, std::string(target_of(each.workload))}]++, each.workload, each.timing);
  }
  for (const auto& [target, of_target] : contents.places) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> places;
    for (const auto& [offset, place] : of_target) {
      offsets.push_back(offset);
      places.push_back(place);
    }
    log.append_places(target, offsets, places);
  }
}

}  // namespace gpuinfer::probe
