// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/threads/conclude_kernel.hpp"
#include "model/bandwidth.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/kernels.hpp"
#include "model/number_text.hpp"
#include "model/provenance.hpp"
#include "model/workload.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::KernelName;
using model::KernelRun;
using model::KernelTraffic;
using model::percent_text;
using model::rounded;

// One kernel in one variant, with the name of its leaf.
struct KernelRow {
  std::string name;
  KernelRun run;
};

// Large enough to last longer than it takes to begin.
std::uint32_t usual_size(KernelName kernel) { return is_fdtd(kernel) ? KernelRun::largest_size : 1024; }

std::vector<KernelRow> all_rows() {
  constexpr std::uint32_t runs = 5;
  std::vector<KernelRow> rows;
  for (const KernelName kernel : model::kernel_names) {
    for (const model::KernelVariant variant : model::kernel_variants) {
      rows.push_back({.name = name_of(kernel, variant),
                      .run = {.kernel = kernel, .variant = variant, .size = usual_size(kernel), .runs = runs}});
    }
  }
  return rows;
}

std::vector<const char*> row_names(const std::vector<KernelRow>& rows) {
  std::vector<const char*> names(rows.size());
  std::ranges::transform(rows, names.begin(), [](const KernelRow& row) { return row.name.c_str(); });
  return names;
}

// The device with caches that hold so many times as much.
model::DeviceDescription with_caches_times(const model::DeviceDescription& device, double times) {
  model::DeviceDescription other = device;
  const auto scale = [times](std::optional<std::uint64_t>& bytes) {
    if (bytes) {
      bytes = static_cast<std::uint64_t>(static_cast<double>(*bytes) * times);
    }
  };
  const auto scale_interval = [times](std::optional<std::array<double, 2>>& bytes) {
    if (bytes) {
      std::ranges::transform(*bytes, bytes->begin(), [times](double each) { return each * times; });
    }
  };
  for (auto& [name, cache] : other.caches) {
    scale(cache.capacity_bytes);
    scale(cache.onset_bytes);
    scale_interval(cache.resident_bytes);
    for (model::Carveout& carveout : cache.carveouts) {
      scale(carveout.onset_bytes);
    }
    if (cache.partitions) {
      scale_interval(cache.partitions->resident_bytes);
    }
  }
  return other;
}

// Who asks, what is known of the device, and what is written.
struct Asked {
  Asker& device;
  const model::DeviceDescription& known;
  model::DeviceDescription half;   // with caches that hold half as much
  model::DeviceDescription twice;  // with caches that hold twice as much
  Leaves& leaves;
  KernelFinding& finding;
};

// Throws Undecided where the caches are not known, and AskingEnded: a large kernel takes seconds.
KernelTraffic traffic_of(const model::DeviceDescription& device, const Asked& asked, const KernelRow& row) {
  try {
    return model::traffic_of(device, row.run, [&asked] { asked.device.check_limits(0); });
  } catch (const InputError& missing) {
    throw Undecided(std::string("what reaches L2 and memory cannot be counted: ") + missing.what() +
                    ", or ask for the caches, too, and before it");
  }
}

void check_peaks(const Asked& asked, const KernelTraffic& traffic) {
  for (const auto& [level, bytes] : traffic.by_level()) {
    if (bytes > 0 && model::peak_of(asked.known.bandwidth, level).value_or(0) <= 0) {
      throw Undecided("no bandwidth of " + level + " is known, through which it moves " + model::to_text(bytes) +
                      " bytes");
    }
  }
}

model::Timing time_of(const Asked& asked, const KernelRun& run) {
  const model::Workload workload = run;
  model::Timing timing = asked.device.time({&workload, 1}).front();
  if (timing.seconds.empty() || std::ranges::any_of(timing.seconds, [](double seconds) { return seconds <= 0; })) {
    throw Undecided("it took no time at all");
  }
  return timing;
}

LevelShares shares_of(const Asked& asked, const KernelTraffic& traffic, double seconds) {
  LevelShares shares;
  for (const auto& [level, bytes] : traffic.by_level()) {
    shares[level] = static_cast<double>(bytes) / seconds / model::peak_of(asked.known.bandwidth, level).value_or(1);
  }
  return shares;
}

void describe(model::LeafEvidence& leaf, const KernelTraffic& traffic, const LevelShares& shares,
              const model::Timing& timing, const model::Timing& again) {
  constexpr int digits = 3;
  model::EvidenceDetails& details = leaf.details;
  for (const auto& [level, share] : shares) {
    details.shares.emplace_back(level, rounded(share, digits));
  }
  for (const auto& [level, moved] : traffic.by_level()) {
    details.bytes.emplace_back(level, static_cast<double>(moved));
  }
  const auto [fastest, slowest] = std::ranges::minmax(timing.seconds);
  details.seconds = rounded(fastest);
  details.seconds_again = rounded(std::ranges::min(again.seconds));
  details.spread = rounded(1 - fastest / slowest, 2);
  details.l1_sectors = traffic.l1_sectors;
  details.stored_bytes = {.l2 = traffic.l2_store_bytes, .dram = traffic.dram_store_bytes};
  details.assuming = traffic.assuming;
}

// How well the simulator stands for the device.
model::ByName ratios_of(const model::CacheTraffic& simulated, const model::CacheTraffic& counted) {
  model::ByName ratios;
  const auto compare = [&ratios](const char* what, std::uint64_t by_device, std::uint64_t by_simulator) {
    if (by_device > 0) {
      constexpr int digits = 3;
      ratios.emplace_back(what, rounded(static_cast<double>(by_simulator) / static_cast<double>(by_device), digits));
    }
  };
  compare("DRAM_loads", counted.dram_load_bytes, simulated.dram_load_bytes);
  compare("DRAM_stores", counted.dram_store_bytes, simulated.dram_store_bytes);
  compare("L2_loads", counted.l2_load_bytes, simulated.l2_load_bytes);
  compare("L2_stores", counted.l2_store_bytes, simulated.l2_store_bytes);
  compare("l1_sectors", counted.l1_sectors, simulated.l1_sectors);
  return ratios;
}

// What the device counted, and what lanes asked for. None: it cannot count.
std::optional<KernelTraffic> counted(const Asked& asked, const KernelRow& row, const KernelTraffic& simulated) {
  KernelRun counted = row.run;
  counted.is_counted = true;
  counted.runs = 1;
  const model::Timing timing = time_of(asked, counted);
  model::LeafEvidence& leaf = asked.leaves[row.name];
  if (!timing.counted) {
    leaf.details.not_counted.emplace_back(timing.why_not_counted.empty() ? "the device has no counters"
                                                                         : timing.why_not_counted);
    return std::nullopt;
  }
  leaf.details.simulated_over_counted = ratios_of(simulated, *timing.counted);
  KernelTraffic traffic = simulated;
  static_cast<model::CacheTraffic&>(traffic) = *timing.counted;
  traffic.assuming.clear();
  return traffic;
}

// `again`: seconds of a second round.
void settle(const Asked& asked, const KernelRow& row, const KernelTraffic& traffic, const LevelShares& shares,
            double seconds, double again) {
  KernelSeen seen{.kernel = row.name, .shares = shares, .seconds = seconds, .seconds_again = again};
  for (const auto& [level, share] : shares) {
    seen.peaks_bytes_per_second[level] = model::peak_of(asked.known.bandwidth, level).value_or(0);
  }
  model::LeafEvidence& leaf = asked.leaves[row.name];
  leaf.alternatives = {dominant_text(shares)};
  if (!traffic.assuming.empty()) {
    for (const model::DeviceDescription* other : {&asked.half, &asked.twice}) {
      seen.otherwise.push_back(shares_of(asked, traffic_of(*other, asked, row), seconds));
    }
  }
  const KernelVerdict verdict = conclude_kernel(seen);
  auto& warnings = asked.finding.warnings;
  warnings.insert(warnings.end(), verdict.warnings.begin(), verdict.warnings.end());
  asked.leaves.settle(row.name, verdict.row);
  leaf.alternatives = verdict.row.alternatives;
  leaf.decided_by = verdict.decided_by;
  if (verdict.row.status == EvidenceStatus::resolved) {
    const std::string dominant = dominant_of(shares);
    asked.finding.kernels[row.name] = {.size = row.run.size,
                                       .seconds = rounded(seconds),
                                       .level_bytes = traffic.by_level(),
                                       .dominant = dominant,
                                       .share = rounded(shares.at(dominant))};
  }
}

void find(const Asked& asked, KernelRow row) {
  while (loaded_room_bytes(row.run) > asked.device.buffer().bytes && row.run.size > KernelRun::smallest_size) {
    row.run.size /= 2;
  }
  const KernelTraffic simulated = traffic_of(asked.known, asked, row);
  check_peaks(asked, simulated);
  asked.device.inquire(
      row.name + " on matrices of " + model::to_text(row.run.size) + " x " + model::to_text(row.run.size) + " elements",
      "the level that is closest to its peak is what it waits for");
  const model::Timing timing = time_of(asked, row.run);
  const model::Timing again = time_of(asked, row.run);
  const KernelTraffic traffic = counted(asked, row, simulated).value_or(simulated);
  const double seconds = std::ranges::min(timing.seconds);
  const LevelShares shares = shares_of(asked, traffic, seconds);
  const std::string dominant = dominant_of(shares);
  asked.device.learned(dominant + " at " + percent_text(shares.at(dominant)) + " of its peak, " +
                       model::to_text(rounded(seconds)) + " s");
  describe(asked.leaves[row.name], traffic, shares, timing, again);
  settle(asked, row, traffic, shares, seconds, std::ranges::min(again.seconds));
}

void find_all(const Asked& asked, const std::vector<KernelRow>& rows) {
  if (asked.known.bandwidth.empty()) {
    asked.leaves.give_up_rest("no bandwidth is known to hold it against; ask for Bandwidth, too, and before it");
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& name = rows[i].name;
    asked.leaves.begin(name, "it was not asked for");
    asked.device.report(name, static_cast<double>(i) / static_cast<double>(rows.size()));
    try {
      find(asked, rows[i]);
    } catch (const QuestionRefused& refused) {
      asked.leaves.leave_open(name, EvidenceStatus::unknown, refused.reason());
    } catch (const Undecided& undecided) {
      asked.leaves.leave_open(name, EvidenceStatus::unknown, undecided.what());
    }
  }
  asked.device.report("done", 1.0);
}

// What the driver says, where nothing was found out about L2 or the number of SMs.
model::DeviceDescription with_facts(model::DeviceDescription known, const model::DeviceFacts& facts) {
  if (!known.device.sm_count) {
    known.device.sm_count = facts.sm_count;
  }
  const auto bytes = model::told<std::uint64_t>(facts.provenance, "L2", model::l2_fact);
  if (bytes && !known.caches.contains("L2")) {
    known.caches["L2"].capacity_bytes = bytes;
  }
  return known;
}

}  // namespace

KernelFinding infer_kernels(model::Answerer& device, const std::string& target, const model::DeviceDescription& known,
                            const Settings& settings) {
  Asker interrogator(device, target, settings);
  const model::DeviceDescription with_all = with_facts(known, interrogator.facts());
  const std::vector<KernelRow> rows = all_rows();
  KernelFinding finding;
  Leaves leaves(interrogator, finding, row_names(rows));
  const Asked asked{.device = interrogator,
                    .known = with_all,
                    .half = with_caches_times(with_all, 0.5),
                    .twice = with_caches_times(with_all, 2),
                    .leaves = leaves,
                    .finding = finding};
  static_cast<void>(leaves.go_through([&] { find_all(asked, rows); }));
  leaves.close();
  return finding;
}

}  // namespace gpuinfer::infer
