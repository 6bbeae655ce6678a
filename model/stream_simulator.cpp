// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/stream_simulator.hpp"

#include <algorithm>
#include <string>

#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

std::uint64_t capacity_of(const DeviceDescription& device, const std::string& cache) {
  const auto found = device.caches.find(cache);
  return found == device.caches.end() ? 0 : found->second.capacity_bytes.value_or(0);
}

bool holds(const DeviceDescription& device, const std::string& cache, std::uint64_t bytes) {
  const std::uint64_t capacity_bytes = capacity_of(device, cache);
  return capacity_bytes != 0 && capacity_bytes >= bytes;
}

// The share of a copy that L2 holds where it holds not all of it. Going round, nothing is found again; of a single pass
// as much as fits was there before, which is why what L2 saves stays where it is past its capacity (Lashgar, Salehi,
// Baniasadi 2015, section 3.3).
double share_in_l2(const DeviceDescription& device, const Stream& stream) {
  const std::uint64_t moved_bytes = bytes_moved(stream);
  const bool is_one_pass = moved_bytes <= 2 * stream.dataset_bytes;
  const bool has_l2 = device.bandwidth.contains("L2_copy") && device.bandwidth.at("L2_copy").best;
  return stream.work == StreamWork::copy && is_one_pass && has_l2 && !stream.drops_l2
             ? std::min(1.0, static_cast<double>(capacity_of(device, "L2")) / static_cast<double>(moved_bytes))
             : 0;
}

// What one SM loads: all of the dataset, or the parts of its blocks.
std::uint64_t bytes_of_sm(const DeviceDescription& device, const Stream& stream) {
  const std::uint64_t sms = std::min<std::uint64_t>(device.device.sm_count.value_or(1), stream.blocks);
  return stream.part_bytes == 0 ? stream.dataset_bytes : (stream.dataset_bytes + sms - 1) / sms;
}

// The memory that a stream comes out of.
std::string memory_of(const DeviceDescription& device, const Stream& stream) {
  switch (stream.path) {
    case StreamPath::shared:
      return stream.work == StreamWork::store ? "shared_store" : "shared";
    case StreamPath::constant:
      return "constant";
    case StreamPath::texture:
      if (device.bandwidth.contains("texture") && holds(device, "L1tex", bytes_of_sm(device, stream))) {
        return "texture";
      }
      break;
    case StreamPath::global_ca:
      // Where there is a data L1 apart from the texture path it is that one.
      if (device.bandwidth.contains("L1") && stream.work == StreamWork::load &&
          holds(device, device.caches.contains("L1D") ? "L1D" : "L1tex", bytes_of_sm(device, stream))) {
        return "L1";
      }
      break;
    case StreamPath::global_cg:
      break;
  }
  const std::uint64_t bytes = stream.work == StreamWork::copy ? 2 * stream.dataset_bytes : stream.dataset_bytes;
  return std::string(!stream.drops_l2 && holds(device, "L2", bytes) ? "L2" : "DRAM") + "_" +
         std::string(to_string(stream.work));
}

ElementBandwidth bandwidth_of(const DeviceDescription& device, const std::string& memory, std::uint32_t element_bits) {
  const auto found = device.bandwidth.find(memory);
  if (found == device.bandwidth.end() || !found->second.best) {
    throw InputError("bandwidth." + memory + " is null and a simulation needs it; give it a value");
  }
  const auto own = of_elements(found->second, element_bits);
  if (!own) {
    throw InputError("bandwidth." + memory + ".by_element_bits says nothing of " + std::to_string(element_bits) +
                     " bits; add them, or ask for elements that it lists");
  }
  return *own;
}

// From when a load is asked for until it is there, where nothing else is under way: as described, and where that is not
// known, about as on most GPUs.
double latency_of(const DeviceDescription& device, const std::string& memory) {
  constexpr double usual_of_sm = 30;
  constexpr double usual_beyond = 250;
  const auto of_cache = [&](const std::string& cache) -> std::optional<double> {
    const auto found = device.caches.find(cache);
    return found == device.caches.end() ? std::nullopt : found->second.latency_cycles.hit;
  };
  if (memory == "shared" || memory == "shared_store") {
    return (device.shared_memory ? device.shared_memory->latency_cycles.broadcast : std::nullopt).value_or(usual_of_sm);
  }
  if (memory == "constant") {
    return of_cache("ConstL1").value_or(usual_of_sm);
  }
  if (memory == "texture" || memory == "L1") {
    return of_cache(memory == "L1" && device.caches.contains("L1D") ? "L1D" : "L1tex").value_or(usual_of_sm);
  }
  const auto l2 = device.caches.find("L2");
  if (l2 == device.caches.end()) {
    return usual_beyond;
  }
  const LatencyCycles& cycles = l2->second.latency_cycles;
  return (memory.starts_with("L2") ? cycles.hit : cycles.miss).value_or(usual_beyond);
}

}  // namespace

StreamTime time_of(const DeviceDescription& device, const Stream& stream) {
  const std::string memory = memory_of(device, stream);
  const ElementBandwidth peak = bandwidth_of(device, memory, stream.element_bits);
  const double sm_count = device.device.sm_count.value_or(1);
  constexpr double bits_of_byte = 8;
  const double clock_hz =
      peak.elements_per_sm_clock > 0
          ? peak.bytes_per_second * bits_of_byte / (peak.elements_per_sm_clock * sm_count * peak.element_bits)
          : 1e9;
  constexpr double most_threads_of_sm = 2048;
  const double sms = std::min<double>(sm_count, stream.blocks);
  const double threads = std::min(static_cast<double>(stream.blocks) * stream.block_threads, sms * most_threads_of_sm);
  // Loaded and stored in a round.
  const double round_bytes = threads * stream.elements_in_flight * stream.element_bits / bits_of_byte *
                             static_cast<double>(accesses_of_element(stream));
  // An SM draws on its own memory alone, and on what all share as far as its outstanding loads go.
  const bool is_own =
      memory == "L1" || memory == "texture" || memory == "shared" || memory == "shared_store" || memory == "constant";
  double limit = is_own ? peak.bytes_per_second * sms / sm_count : peak.bytes_per_second;
  if (memory == "DRAM_copy") {
    if (const double share = share_in_l2(device, stream); share > 0) {
      limit = 1 / (share / bandwidth_of(device, "L2_copy", stream.element_bits).bytes_per_second + (1 - share) / limit);
    }
  }
  const double bytes_per_second = std::min(limit, round_bytes * clock_hz / latency_of(device, memory));
  const double seconds = static_cast<double>(bytes_moved(stream)) / bytes_per_second;
  return {.cycles = seconds * clock_hz, .seconds = seconds};
}

CacheTraffic traffic_of(const DeviceDescription& device, const Stream& stream) {
  constexpr std::uint64_t sector_bytes = 32;
  CacheTraffic traffic;
  if (stream.path == StreamPath::shared || stream.path == StreamPath::constant) {
    return traffic;
  }
  const std::uint64_t moved_bytes = bytes_moved(stream);
  const std::uint64_t stored_bytes = stream.work == StreamWork::load    ? 0
                                     : stream.work == StreamWork::store ? moved_bytes
                                                                        : moved_bytes / 2;
  const std::uint64_t loaded_bytes = moved_bytes - stored_bytes;
  traffic.l1_sectors = loaded_bytes / sector_bytes;
  const std::string memory = memory_of(device, stream);
  if (memory == "L1" || memory == "texture") {
    return traffic;
  }
  traffic.l2_load_bytes = loaded_bytes;
  traffic.l2_store_bytes = stored_bytes;
  if (memory.starts_with("DRAM")) {
    traffic.dram_load_bytes = loaded_bytes;
    traffic.dram_store_bytes = stored_bytes;
  }
  return traffic;
}

}  // namespace gpuinfer::model
