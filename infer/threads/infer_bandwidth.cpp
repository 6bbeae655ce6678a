// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_bandwidth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/threads/conclude_bandwidth.hpp"
#include "infer/threads/copy_knee.hpp"
#include "infer/threads/one_sm.hpp"
#include "infer/threads/served_by_level.hpp"
#include "infer/threads/streams.hpp"
#include "model/bandwidth.hpp"
#include "model/number_text.hpp"
#include "model/provenance.hpp"
#include "model/workload.hpp"

namespace gpuinfer::infer {

namespace {

using model::rounded;
using model::Stream;
using model::StreamPath;
using model::StreamWork;

// Beyond this a larger dataset of a cache is none any more.
constexpr std::uint64_t largest_texture_bytes = 64ULL << 20U;

std::string gigabytes_text(double bytes_per_second) { return model::to_text(gigabytes(bytes_per_second)); }

// In the order in which they are asked for.
constexpr std::array asked_memories{&memories::l2_load,   &memories::dram_load,   &memories::l2_copy,
                                    &memories::dram_copy, &memories::l2_store,    &memories::dram_store,
                                    &memories::l1,        &memories::texture,     &memories::shared,
                                    &memories::constant,  &memories::shared_store};

model::BySize by_dataset(const std::vector<Flow>& flows) {
  model::BySize points;
  for (const Flow& flow : flows) {
    points.emplace_back(flow.stream.dataset_bytes, gigabytes(flow.bytes_per_second));
  }
  return points;
}

// The best of each shape.
model::ByName by_shape(const std::vector<Flow>& flows, std::uint32_t sms) {
  model::ByName points;
  for (const Shape& shape : shapes) {
    if (const auto best = best_where(flows, [&](const Flow& flow) {
          return flow.stream.block_threads == shape.block_threads && flow.stream.blocks == shape.blocks_of_sm * sms;
        })) {
      points.emplace_back(model::to_text(shape.blocks_of_sm) + " x " + model::to_text(shape.block_threads),
                          gigabytes(best->bytes_per_second));
    }
  }
  return points;
}

void describe(model::LeafEvidence& leaf, const Flow& best, const Flow& again, const std::vector<Flow>& flows,
              const std::vector<Flow>& by_size, std::uint32_t sms) {
  const Stream& stream = best.stream;
  leaf.details.clock_hz = rounded(best.clock_hz);
  leaf.details.spread = rounded(std::max(best.spread, again.spread), 2);
  leaf.details.asked_again_gb_per_second = gigabytes(again.bytes_per_second);
  leaf.details.stream = {.dataset_bytes = stream.dataset_bytes,
                         .work = std::string(to_string(stream.work)),
                         .elements_in_flight = stream.elements_in_flight,
                         .block_threads = stream.block_threads,
                         .blocks = stream.blocks};
  leaf.details.gb_per_second_by_shape = by_shape(flows, sms);
  leaf.details.gb_per_second_by_dataset = by_dataset(by_size);
}

// Where a stage asks, and what it writes.
struct Stage {
  const Streams& streams;
  Leaves& leaves;
  BandwidthFinding& finding;
  std::vector<std::pair<const Memory*, Flow>>& best;  // of the memories that are known to have answered
  std::optional<std::uint64_t> l2_bytes = {};         // what L2 holds, where that is known
};

// `doubt`: why the memory is not known to be the one that answered.
void settle(const Stage& stage, const Memory& memory, const std::vector<Flow>& flows, const std::vector<Flow>& by_size,
            const std::string& doubt) {
  const Flow best = best_of(flows);
  const Flow again = stage.streams.flow_of(best.stream);
  model::LeafEvidence& leaf = stage.leaves[memory.name];
  describe(leaf, best, again, flows, by_size, stage.streams.sms());
  stage.streams.device().learned(gigabytes_text(best.bytes_per_second) + " GB/s at most, " +
                                 gigabytes_text(again.bytes_per_second) + " when asked again");
  const PeakVerdict verdict = conclude_peak({.flows = flows, .again = again, .doubt = doubt});
  stage.leaves.settle(memory.name, verdict.leaf);
  stage.finding.bandwidth[memory.name] = verdict.bandwidth;
  leaf.details.one_sm_gb_per_second = gigabytes_of_one_sm(stage.streams, memory, best.stream);
  if (doubt.empty()) {
    stage.best.emplace_back(&memory, best);
  }
}

// After all peaks: whoever stops early has those.
void state_surfaces(const Stage& stage) {
  Asker& device = stage.streams.device();
  device.inquire("one block of 1 to 32 warps that ask for 1 to 8 elements a thread at once, from what loads wait for",
                 "what is under way over how long it takes is what comes (Little's law), up to a peak");
  std::size_t points = 0;
  for (const auto& [memory, best] : stage.best) {
    if (memory->work == StreamWork::load || memory->work == StreamWork::swap) {
      if (auto surface = one_sm_surface(stage.streams, *memory, best)) {
        points += surface->points.size();
        stage.leaves[memory->name].details.one_sm_surface = std::move(*surface);
      }
    }
  }
  device.learned(points == 0 ? "nothing: the device takes none of these streams"
                             : model::to_text(points) + " throughputs and latencies of one SM");
}

void begin(const Stage& stage, const Memory& memory) {
  stage.leaves.begin(memory.name, "its streams were not all asked for");
  const auto begun = std::ranges::find(asked_memories, &memory) - asked_memories.begin();
  stage.streams.device().report(memory.name, static_cast<double>(begun) / static_cast<double>(asked_memories.size()));
}

std::string_view words_of(StreamWork work) {
  switch (work) {
    case StreamWork::load:
      return "loads";
    case StreamWork::copy:
      return "copies";
    case StreamWork::swap:
      return "swaps";
    case StreamWork::store:
      break;
  }
  return "stores";
}

// Whether datasets that L2 serves alone, by the device's counters, give as much as that.
bool l2_alone_gives(const Stage& stage, const std::vector<Flow>& by_size, double bytes_per_second) {
  const std::vector<Flow> served = served_by_l2(stage.streams, by_size);
  stage.streams.device().inquire("the fastest of these streams once more", "a peak comes again");
  return !served.empty() && gives_the_peak_alone(best_of(served).bytes_per_second, bytes_per_second);
}

// Through L2 alone: the last cache while the dataset fits, then memory. Blocks keep to parts of their own: what
// several SMs ask for at a time may be fetched for all of them at once.
void find_of_memory(const Stage& stage, const Memory& cache, const Memory& memory, std::uint64_t largest_bytes) {
  begin(stage, cache);
  stage.streams.device().inquire(
      std::string(words_of(cache.work)) + " past L1 of datasets of every size, each block in a part of its own",
      "what fits L2 comes faster than what does not");
  std::vector<Flow> by_size;
  for (std::uint64_t bytes = smallest_dataset_bytes; bytes <= largest_bytes; bytes *= 2) {
    if (auto flow = stage.streams.best_in_parts(cache, bytes)) {
      by_size.push_back(*flow);
    }
  }
  if (by_size.size() < 2) {
    throw Undecided("the device has too little memory for streams");
  }
  const Flow& last = by_size.back();
  const Flow& before_last = by_size[by_size.size() - 2];
  const std::vector<Flow> of_cache =
      stage.streams.by_shape_in_parts(cache, largest_of_the_best(by_size).stream.dataset_bytes);
  const double most = best_of(of_cache).bytes_per_second;
  const bool is_seen_apart = is_above_memory(most, last.bytes_per_second) || l2_alone_gives(stage, by_size, most);
  settle(stage, cache, of_cache, by_size, doubt_of_last_cache(is_seen_apart));
  if (cache.work == StreamWork::load) {
    stage.leaves[cache.name].details.gb_per_second_by_dataset_of_all_blocks =
        by_dataset(stage.streams.sweep(cache, std::min(largest_bytes, largest_texture_bytes)));
  } else if (cache.work == StreamWork::copy) {
    find_copy_knee(stage.streams, largest_bytes, stage.l2_bytes, stage.leaves, stage.finding);
  }
  begin(stage, memory);
  stage.streams.device().inquire("the same from the largest dataset", "it does not fit any cache");
  settle(stage, memory, stage.streams.by_shape_in_parts(memory, largest_bytes), {}, doubt_of_memory(before_last, last));
}

// A first cache, which is one if it gives more than what is behind it.
void find_of_cache(const Stage& stage, const Memory& cache, std::uint64_t largest_bytes, const std::string& how) {
  begin(stage, cache);
  stage.streams.device().inquire(how + " from datasets of every size, and in blocks and elements of every shape",
                                 "what fits the cache comes faster than what does not");
  const std::vector<Flow> by_size =
      stage.streams.sweep(cache, std::min(largest_bytes, stage.streams.device().buffer().bytes));
  const std::vector<Flow> all = stage.streams.by_shape(best_of(by_size).stream);
  const auto& behind = stage.finding.bandwidth.at(memories::l2_load.name).best;
  const double behind_bytes_per_second = behind ? behind->bytes_per_second : by_size.back().bytes_per_second;
  settle(stage, cache, all, by_size, doubt_of_first_cache(best_of(all).bytes_per_second, behind_bytes_per_second));
}

void find_on_chip(const Stage& stage, const Memory& name, const std::vector<Memory>& ways, const std::string& how) {
  begin(stage, name);
  stage.streams.device().inquire(how + ", in blocks and elements of every shape", "it never leaves the SM");
  std::vector<Flow> all;
  for (const Memory& way : ways) {
    std::ranges::move(stage.streams.by_shape(stage.streams.stream_of(way, 0)), std::back_inserter(all));
  }
  settle(stage, name, all, {}, "");
}

// Recordings, and descriptions of devices, from before anybody asked know nothing of stores.
bool takes_stores_alone(model::Answerer& device) {
  const model::Workload store = Stream{.path = memories::l2_store.path,
                                       .work = memories::l2_store.work,
                                       .dataset_bytes = smallest_dataset_bytes,
                                       .block_threads = model::warp_lanes};
  return !device.time({&store, 1}).front().refusal;
}

// As it was found out, or as the device says.
std::optional<std::uint64_t> capacity_of_l2(const model::DeviceDescription& known, const model::DeviceFacts& facts) {
  const auto l2 = known.caches.find("L2");
  return l2 != known.caches.end() && l2->second.capacity_bytes
             ? l2->second.capacity_bytes
             : model::told<std::uint64_t>(facts.provenance, "L2", model::l2_fact);
}

void find_all(Asker& device, Leaves& leaves, BandwidthFinding& finding, const model::DeviceDescription& known,
              bool takes_stores) {
  const std::optional<std::uint32_t> sms = device.facts().sm_count;
  if (!sms) {
    leaves.give_up_rest("the device does not say how many SMs it has, so nobody knows how many blocks keep it busy");
    return;
  }
  const Streams streams(device, *sms);
  std::vector<std::pair<const Memory*, Flow>> best;
  const Stage stage{.streams = streams,
                    .leaves = leaves,
                    .finding = finding,
                    .best = best,
                    .l2_bytes = capacity_of_l2(known, device.facts())};
  const std::uint64_t largest_bytes = device.buffer().bytes;
  find_of_memory(stage, memories::l2_load, memories::dram_load, largest_bytes);
  find_of_memory(stage, memories::l2_copy, memories::dram_copy, largest_bytes);
  if (takes_stores) {
    find_of_memory(stage, memories::l2_store, memories::dram_store, largest_bytes);
  }
  find_of_cache(stage, memories::l1, largest_texture_bytes, "ld.global.ca");
  find_of_cache(stage, memories::texture, largest_texture_bytes, "texture fetches");
  find_on_chip(stage, memories::shared, {memories::shared, memories::shared_by_copies},
               "what threads swap and copy in shared memory");
  find_on_chip(stage, memories::constant, {memories::constant}, "one constant for all lanes of a warp");
  if (takes_stores) {
    find_on_chip(stage, memories::shared_store, {memories::shared_store}, "what threads store to shared memory");
  }
  state_surfaces(stage);
  state_served(streams, largest_bytes, leaves[memories::l1.name].details);
  device.report("done", 1.0);
}

}  // namespace

BandwidthFinding infer_bandwidth(model::Answerer& device, const std::string& target,
                                 const model::DeviceDescription& known, const Settings& settings) {
  Asker interrogator(device, target, settings);
  BandwidthFinding finding;
  const bool takes_stores = takes_stores_alone(device);
  std::vector<const char*> names{copy_knee};
  for (const Memory* memory : asked_memories) {
    if (takes_stores || memory->work != StreamWork::store) {
      names.push_back(memory->name);
      finding.bandwidth[memory->name];
    }
  }
  Leaves leaves(interrogator, finding, names);
  static_cast<void>(leaves.go_through([&] { find_all(interrogator, leaves, finding, known, takes_stores); }));
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
