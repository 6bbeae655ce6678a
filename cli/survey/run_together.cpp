// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/run_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <mutex>

#include "cli/common_options.hpp"
#include "cli/devices/kind.hpp"
#include "cli/disturbances.hpp"
#include "cli/inquiry.hpp"
#include "cli/parallel.hpp"
#include "cli/program.hpp"
#include "cli/survey/fleet_writer.hpp"
#include "cli/survey/team.hpp"
#include "cli/targets.hpp"
#include "cli/warnings.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::survey {

namespace {

void check_undisturbed(const DeviceKind& kind, std::span<const DeviceRequest> requests,
                       const std::vector<std::string>& targets) {
  if (kind.exclusive_targets == nullptr ||
      std::ranges::count(requests, &kind, [](const DeviceRequest& each) { return each.device.kind; }) < 2) {
    return;
  }
  const std::vector<std::string> exclusive = kind.exclusive_targets();
  if (const auto found = std::ranges::find_first_of(targets, exclusive); found != targets.end()) {
    throw InputError(
        "--target: " + *found + " cannot be asked of several devices " + form_of(kind) +
        " by one process, as they disturb each other; take `gpuinfer survey`, which has a process for each");
  }
}

Result asked_of(const DeviceRequest& request, std::span<const DeviceRequest> all, const std::vector<std::string>& asked,
                const std::optional<std::uint64_t>& seed, infer::Settings settings) {
  const std::unique_ptr<model::Answerer> device = open_device(request);
  const std::vector<std::string> targets = offered_targets(asked, *device);
  check_undisturbed(*request.device.kind, all, targets);
  settings.seed = inference_seed(seed, device->facts());
  const model::DeviceFacts facts = facts_of_inquiry(device->facts(), settings.seed);
  Inquiry inquiry = inquire(*device, facts, targets, settings, true);
  inquiry.profile.device.provenance.merge(tell_disturbances(*device, nullptr));
  return result_of(std::move(inquiry.profile), name_of_host());
}

}  // namespace

ExitStatus run_together(std::span<const DeviceRequest> requests, const std::vector<std::string>& asked,
                        const std::optional<std::uint64_t>& seed, const infer::Settings& settings, Output& output,
                        Format format, bool quiet) {
  const auto start = std::chrono::steady_clock::now();
  Surveyed surveyed{.facts = {{"program", program_version()},
                              {"arguments", fmt::format("{}", fmt::join(asked, " "))},
                              {"seed", std::to_string(requests.front().seed)}},
                    .tasks = {},
                    .failures = {},
                    .lost_ranks = {}};
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    tasks.push_back({.key = fmt::format("{:06}", i), .device = to_text(requests[i].device)});
  }
  surveyed.tasks = tasks;
  Parts parts(std::nullopt, false, {});
  std::mutex mutex;
  for_each_index(requests.size(), requests.size(), [&](std::size_t i) {
    DeviceRequest request = requests[i];
    const bool is_seeded = request.device.kind->is_seeded;
    request.seed += is_seeded ? i : 0;
    try {
      const Result result = asked_of(request, requests, asked, is_seeded ? request.seed : seed, settings);
      parts.keep(tasks[i], result);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      warn(error.what());
      const std::lock_guard lock(mutex);
      surveyed.failures[i] = error.what();
    }
  });
  Merge merge;
  for (const Task& task : tasks) {
    if (const auto result = parts.find(task)) {
      merge.add(result->summary, [&] { return model::parse_description(result->profile, task.device); });
    }
  }
  merge.settle();
  const FleetCounts counts = write_fleet(output.stream(), format, surveyed, parts, merge);
  output.finish();
  if (!quiet) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    std::cerr << fmt::format(
        "\ngpuinfer: {} of {} devices answered: {} alike, {} deviate, {} know more or less; {:.2f} s\n",
        counts.answered, counts.asked, counts.common, counts.deviating, counts.less_certain, time.count());
  }
  if (counts.answered == 0) {
    return ExitStatus::no_device;
  }
  if (counts.failed > 0) {
    return ExitStatus::failure;
  }
  return counts.all_resolved ? ExitStatus::resolved : ExitStatus::unresolved;
}

}  // namespace gpuinfer::cli::survey
