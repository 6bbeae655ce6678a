// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/devices/checks.hpp"
#include "cli/devices/open_device.hpp"

// The kinds of devices. All that the program does otherwise for one kind than for another is in its row.
namespace gpuinfer::cli {

// A device that `gpuinfer list devices` shows.
struct ListedDevice {
  std::string address;
  std::string what;
  std::vector<std::string> targets;  // that it offers
  bool is_gpu = true;                // of a kind with gpus(): false where something else plays one
};

// A GPU of this host under the address that this process knows it by.
struct OwnGpu {
  std::string address;
  std::string id;  // the same for every process
};

enum class AfterFailure { give_up, ask_again, open_again };

// What completions of shells put behind the colon.
enum class Completion { nothing, zero, files, descriptions };

struct DeviceKind {
  std::string_view name;
  std::string_view rest = {};  // what stands behind the colon, in help; empty: no colon
  std::string_view what = {};  // for help; empty: the name says it
  Completion completion = Completion::nothing;

  // One of the two. `choose`: the name stands for a device of another kind.
  ChosenDevice (*choose)(const std::vector<std::string>& targets) = nullptr;
  // As open_device(). The device has no faults.
  std::unique_ptr<model::Answerer> (*open)(const DeviceAddress& device, const DeviceRequest& request) = nullptr;

  // Those of this machine, or that come with the program. None: they cannot be listed.
  std::vector<ListedDevice> (*list)() = nullptr;
  // Of a GPU: those of this machine, without a context on any.
  std::vector<OwnGpu> (*gpus)() = nullptr;
  // What keeps the device from answering. `rest`: of the address; none: looks at all devices of the kind. Null: to open
  // it says that.
  void (*examine)(Examination& found, const std::optional<std::string>& rest) = nullptr;
  // Targets that a process can ask of one device of the kind only, as several disturb each other.
  std::vector<std::string> (*exclusive_targets)() = nullptr;

  AfterFailure after_failure = AfterFailure::give_up;
  bool is_of_a_host = false;    // each host of a survey has its own
  bool answers_repeat = false;  // opened again with the same seed, it answers the same questions in the same way
  bool is_seeded = false;       // several of them with one seed are the same device
  bool takes_carveout = false;
};

[[nodiscard]] std::span<const DeviceKind> device_kinds();

// Of a kind with gpus(): what stands for all of them in a survey.
inline constexpr std::string_view every_gpu = "all";

// "virtual:NAME-or-FILE"
[[nodiscard]] std::string form_of(const DeviceKind& kind);

// "a, b or c" of the texts of all kinds that are not empty.
template <class Text>
[[nodiscard]] std::string either_of(std::span<const DeviceKind> kinds, Text text_of) {
  std::string all;
  std::string last;
  for (const DeviceKind& kind : kinds) {
    if (std::string text = text_of(kind); !text.empty()) {
      all += last.empty() ? "" : (all.empty() ? "" : ", ") + last;
      last = std::move(text);
    }
  }
  return all + (all.empty() ? "" : " or ") + last;
}

}  // namespace gpuinfer::cli
