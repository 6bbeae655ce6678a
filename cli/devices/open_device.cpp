// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/devices/open_device.hpp"

#include "cli/devices/kind.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"
#include "probe/faulty_device.hpp"
#include "probe/persistent_device.hpp"

namespace gpuinfer::cli {

namespace {

std::shared_ptr<probe::FaultSchedule> schedule_from(const std::string& faults) {
  try {
    return std::make_shared<probe::FaultSchedule>(faults);
  } catch (const InputError& error) {
    throw InputError(std::string("--device faulty: ") + error.what());
  }
}

void check_carveout(const DeviceRequest& request, const DeviceAddress& device) {
  if (request.carveout_kb && !device.kind->takes_carveout) {
    throw InputError(
        "--carveout: goes with " +
        either_of(device_kinds(), [](const DeviceKind& kind) { return kind.takes_carveout ? form_of(kind) : ""; }) +
        ", and " + to_text(device) + " is none; leave it out");
  }
}

}  // namespace

ChosenDevice chosen_device(const DeviceAddress& device, const std::vector<std::string>& targets) {
  if (device.kind->choose == nullptr) {
    return {.device = device};
  }
  ChosenDevice chosen = device.kind->choose(targets);
  if (!chosen.stands_in) {
    note(took_device(to_text(device), to_text(chosen.device)));
  }
  chosen.device.faults = device.faults;
  return chosen;
}

std::unique_ptr<model::Answerer> open_device(const DeviceRequest& request) {
  auto [device, stands_in] = chosen_device(request.device, request.targets);
  if (stands_in) {
    note(plays_recording(stands_in->name, to_text(device)));
  }
  check_carveout(request, device);
  std::shared_ptr<probe::FaultSchedule> schedule;
  if (const auto faults = std::exchange(device.faults, std::nullopt)) {
    schedule = schedule_from(*faults);
  }
  const auto open = [device = device, request, schedule] {
    auto opened = device.kind->open(device, request);
    return schedule ? probe::faulty(std::move(opened), schedule) : std::move(opened);
  };
  auto opened = open();
  switch (device.kind->after_failure) {
    case AfterFailure::open_again:
      return probe::persistent(std::move(opened), open, request.stop_waiting);
    case AfterFailure::ask_again:
      return probe::persistent(std::move(opened), {}, request.stop_waiting);
    case AfterFailure::give_up:
      break;
  }
  return schedule ? probe::persistent(std::move(opened), {}, request.stop_waiting) : std::move(opened);
}

}  // namespace gpuinfer::cli
