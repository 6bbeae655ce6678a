// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/address.hpp"
#include "model/device_description.hpp"
#include "model/disturbance.hpp"
#include "model/trace.hpp"
#include "model/workload.hpp"

namespace gpuinfer::model {

// A two-dimensional texture, in texels. An offset names the texel (x, y) as if they lay row by row, whatever the true
// layout is: texel_bytes * (x + width * y).
struct Raster {
  std::uint64_t texel_bytes = 4;
  std::uint64_t width = 0;
  std::uint64_t height = 0;

  bool operator==(const Raster&) const = default;
};

// Whether a buffer of so many bytes holds just these texels, at least one.
[[nodiscard]] bool fills(const Raster& raster, std::uint64_t bytes);

// Where loads go.
struct BufferFacts {
  std::uint64_t bytes = 0;            // offsets lie in [0, bytes), 4-byte loads
  Address address = {};               // the address of a load is `address` + its offset
  std::optional<Raster> raster = {};  // of a two-dimensional texture, which has no addresses
  // A level in front of the one that is asked about holds no more than so many contiguous bytes, and its lines are not
  // shorter than a 64th of that. None: the one that is asked about is the first.
  std::optional<std::uint64_t> nearer_bytes = {};
  // Offsets stand for pieces of straight-line code of so many bytes: an access runs the piece, and takes as long.
  std::optional<std::uint64_t> piece_bytes = {};
  // From the start `keep` it is asked what a load takes on average: the recorded part is a lap, each place once,
  // which goes on for as long as the device needs, and each of its accesses gets the average of all. The warm-up is
  // laps of the same places in the same order. Questions that are not so are refused; so are other starts, unless the
  // device can time single loads as well.
  bool averages_laps = false;
  bool one_unit = false;  // it is always asked of the same unit, and questions name none

  bool operator==(const BufferFacts&) const = default;
};

// What a device says of itself before the first question.
struct DeviceFacts {
  std::string name;    // as its driver has it
  std::string source;  // what --device named: "cuda:0", "virtual:gtx780", ...
  std::optional<std::string> compute_capability;
  std::optional<unsigned> sm_count;
  std::vector<std::string> targets;  // the load paths that can be asked
  BufferFacts buffer;
  std::map<std::string, BufferFacts> own_buffers;  // of targets whose loads do not go to `buffer`
  // Which Circumstances questions may have. Targets of one list may warm up for each other.
  std::vector<std::string> warm_targets;
  std::vector<std::uint32_t> shared_memories_kb;
  bool chooses_unit = false;
  std::vector<std::string> warm_unit_targets = {};  // whose warm-up other units may load
  std::vector<std::string> contended_targets = {};  // that are asked for contended pairs too
  std::vector<std::string> stored_targets = {};     // whose accesses may be stores
  std::vector<std::string> hinted_targets = {};     // whose loads may carry hints
  // The most that may be set aside for lines that are evicted last; none: that cannot be chosen.
  std::optional<std::uint64_t> largest_set_aside_bytes = {};
  // What loads of the target Latency look up, where there is one; the caches and TLBs are targets themselves.
  std::optional<PathDescription> latency_path = {};
  // Anything worth keeping with a recording: driver, clocks, carve-out, how a clean state is reached.
  std::map<std::string, std::string> provenance;

  [[nodiscard]] const BufferFacts& buffer_of(const std::string& target) const {
    const auto own = own_buffers.find(target);
    return own == own_buffers.end() ? buffer : own->second;
  }
};

// Why a device with these facts cannot heed the circumstances of a question; none: it can.
[[nodiscard]] std::optional<std::string> refusal_of(const DeviceFacts& facts, const Question& question);

enum class PieceState {
  discarded,  // it is to be asked again, now
  disturbed,  // something disturbs the device still
  settled,    // the device cannot tell, or cannot take back what it answered
};

// Whoever can answer questions: a GPU, a simulator, a recording, another process. The life cycle is: construct
// (throws DeviceUnavailable), read facts(), ask() any number of times.
class Answerer {
 public:
  virtual ~Answerer() = default;

  [[nodiscard]] virtual const DeviceFacts& facts() const = 0;

  // One answer for each question, in the order of the questions; questions are carried out in that order as far as
  // `keep` and `invalidated` can tell. Throws DeviceError when the device fails (not when it refuses a question).
  [[nodiscard]] virtual std::vector<Answer> ask(std::span<const Question> questions) = 0;

  // One timing for each workload, in the order of the workloads. Whoever knows sequences only refuses them all. Throws
  // DeviceError when the device fails.
  [[nodiscard]] virtual std::vector<Timing> time(std::span<const Workload> workloads);

  // Where in memory that lies which these offsets of the target's buffer name, in bytes from the first of it on: one
  // place for each offset, as the memory itself was seen to hold it. None: the device cannot tell.
  [[nodiscard]] virtual std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                                            std::span<const std::uint64_t> offsets);

  // What happened to the device while it answered. May take milliseconds. Whoever answers through another device passes
  // on what happened to that.
  [[nodiscard]] virtual std::vector<Disturbance> disturbances() const { return {}; }

  // What is asked from here on is one piece, which can be asked again as a whole where something disturbed it.
  virtual void begin_piece() {}

  // Discards the piece if nothing disturbs the device now: answers to it do not count, and disturbances() holds but one
  // of kind asked_again for it. May take as long as the device needs to see its clocks, some tenths of a second.
  [[nodiscard]] virtual PieceState discard_piece() { return PieceState::settled; }

 protected:
  Answerer() = default;
  Answerer(const Answerer&) = default;
  Answerer& operator=(const Answerer&) = default;
};

}  // namespace gpuinfer::model
