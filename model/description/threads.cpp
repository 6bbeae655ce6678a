// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/threads.hpp"

#include "model/workload.hpp"

namespace gpuinfer::model {

namespace {

using codec::Count;
using codec::Map;
using codec::Real;

constexpr std::uint64_t most_banks = 1024;
constexpr std::uint64_t most_row_bytes = 1U << 16U;
constexpr std::uint64_t most_outstanding = 1U << 20U;
constexpr double most_bytes_per_second = 1e18;
constexpr std::uint64_t most_element_bits = 1024;
constexpr double most_seconds = 1e6;
constexpr double most_share = 1e3;

Map<SharedMemoryLatency> shared_memory_latency() {
  const Map<DegreeLatency> by_degree{
      .leaves = {leaf("degree", &DegreeLatency::degree, Count{.least = 1, .most = most_banks}).needed(),
                 leaf("cycles", &DegreeLatency::cycles, Real{}).needed()}};
  return {
      .leaves = {leaf("broadcast", &SharedMemoryLatency::broadcast, Real{}),
                 leaf("two_way", &SharedMemoryLatency::two_way, Real{}),
                 leaf("per_way", &SharedMemoryLatency::per_way, Real{}).sparse(),
                 leaf("by_degree", &SharedMemoryLatency::by_degree, codec::List<Map<DegreeLatency>>{.item = by_degree})
                     .sparse()},
      .check = [](const Place& place, const SharedMemoryLatency& latency) {
        for (std::size_t i = 1; i < latency.by_degree.size(); ++i) {
          if (latency.by_degree[i].degree <= latency.by_degree[i - 1].degree) {
            place.need("by_degree")
                .items()[i]
                .fail("does not have a larger degree than the one before; put degrees in ascending order");
          }
        }
      }};
}

void check_rows(const Place& place, const SharedMemoryDescription& shared_memory) {
  if (shared_memory.banks && shared_memory.bank_width_bytes && shared_memory.row_bytes &&
      *shared_memory.row_bytes % (std::uint64_t{*shared_memory.banks} * *shared_memory.bank_width_bytes) != 0) {
    place.need("row_bytes").fail("is no multiple of banks * bank_width_bytes; every bank has a part of each row");
  }
}

Map<OutstandingTiming> outstanding_timing() {
  Map<OutstandingTiming> timing;
  for (const auto& [name, member] : outstanding_timing_members) {
    timing.leaves.push_back(leaf(name, member, Real{}));
  }
  return timing;
}

Leaves<ElementBandwidth> element_bandwidth_leaves() {
  return {leaf("bytes_per_second", &ElementBandwidth::bytes_per_second, Real{.most = most_bytes_per_second}).needed(),
          leaf("elements_per_sm_clock", &ElementBandwidth::elements_per_sm_clock, Real{.most = most_bytes_per_second}),
          leaf("element_bits", &ElementBandwidth::element_bits, Count{.least = 1, .most = most_element_bits}).needed()};
}

// What is best stands beside what holds for each size of elements.
struct BestAndOthers {
  Leaves<ElementBandwidth> leaves = element_bandwidth_leaves();

  [[nodiscard]] Bandwidth read(const Place& place) const {
    place.allow({"bytes_per_second", "elements_per_sm_clock", "element_bits", "by_element_bits"});
    Bandwidth bandwidth;
    if (place.find("bytes_per_second")) {
      bandwidth.best.emplace();
      for (const Leaf<ElementBandwidth>& each : leaves) {
        if (const auto entry = each.is_needed ? place.need(each.name) : place.find(each.name)) {
          each.read(*entry, *bandwidth.best);
        }
      }
    }
    if (const auto others = place.find("by_element_bits")) {
      bandwidth.by_element_bits = codec::List<Map<ElementBandwidth>>{.item = {.leaves = leaves}}.read(*others);
    }
    return bandwidth;
  }
  [[nodiscard]] std::string write(const Bandwidth& bandwidth) const {
    auto entries = bandwidth.best ? written_leaves(*bandwidth.best, leaves)
                                  : std::vector<std::pair<std::string, std::string>>{{"bytes_per_second", "null"}};
    if (!bandwidth.by_element_bits.empty()) {
      entries.emplace_back("by_element_bits", codec::List<Map<ElementBandwidth>>{.item = {.leaves = leaves}}.write(
                                                  bandwidth.by_element_bits));
    }
    return flow_map(entries);
  }
};

// Of all kernels in all variants: gemm.plain.
const std::vector<std::string_view>& kernel_result_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const KernelName kernel : kernel_names) {
      for (const KernelVariant variant : kernel_variants) {
        all.push_back(name_of(kernel, variant));
      }
    }
    return all;
  }();
  static const std::vector<std::string_view> views(names.begin(), names.end());
  return views;
}

// Bytes of each level.
struct LevelBytes {
  [[nodiscard]] static std::map<std::string, std::uint64_t> read(const Place& place) {
    place.allow(kernel_levels);
    std::map<std::string, std::uint64_t> bytes;
    for (const auto& [level, entry] : place.entries()) {
      bytes.emplace(level, entry.whole(0, codec::max_count));
    }
    return bytes;
  }
  [[nodiscard]] static std::string write(const std::map<std::string, std::uint64_t>& bytes) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [level, moved] : bytes) {
      entries.emplace_back(level, to_text(moved));
    }
    return flow_map(entries);
  }
};

Map<KernelResult> kernel_result() {
  return {.leaves = {leaf("size", &KernelResult::size,
                          Count{.least = KernelRun::smallest_size, .most = KernelRun::largest_size})
                         .needed(),
                     leaf("seconds", &KernelResult::seconds, Real{.most = most_seconds}).needed(),
                     leaf("level_bytes", &KernelResult::level_bytes, LevelBytes{}).needed(),
                     leaf("dominant", &KernelResult::dominant, codec::Text{}).needed(),
                     leaf("share", &KernelResult::share, Real{.most = most_share}).needed()},
          .check = [](const Place& place, const KernelResult& result) {
            if (!result.level_bytes.contains(result.dominant)) {
              place.need("dominant").fail("`" + result.dominant + "` is none of its `level_bytes`; write one of them");
            }
          }};
}

}  // namespace

const Leaves<SharedMemoryDescription>& shared_memory_leaves() {
  using Shared = SharedMemoryDescription;
  static const Leaves<Shared> leaves{
      leaf("banks", &Shared::banks, Count{.least = 1, .most = most_banks}, "what lanes conflict in"),
      leaf("bank_width_bytes", &Shared::bank_width_bytes, Count{.least = 1, .most = most_row_bytes},
           "consecutive bytes in one bank"),
      leaf("row_bytes", &Shared::row_bytes, Count{.least = 1, .most = most_row_bytes},
           "the aligned block inside which lanes do not conflict"),
      leaf("latency_cycles", &Shared::latency_cycles, shared_memory_latency(), "by the degree of the conflict"),
  };
  return leaves;
}

const Leaves<OutstandingDescription>& outstanding_leaves() {
  using Outstanding = OutstandingDescription;
  const Count count{.least = 1, .most = most_outstanding};
  static const Leaves<Outstanding> leaves{
      leaf("kind", &Outstanding::kind,
           codec::Words<OutstandingKind>{.words = {{"mshr", OutstandingKind::mshr},
                                                   {"prt", OutstandingKind::prt},
                                                   {"no_limit_seen", OutstandingKind::no_limit_seen}},
                                         .refusal = "is no kind of table"},
           "what keeps track of outstanding loads"),
      leaf("entries", &Outstanding::entries, count, "of that table"),
      leaf("merges", &Outstanding::merges, count, "requests per entry, the first included"),
      leaf("merges_at_least", &Outstanding::merges_at_least, count, "where no limit was seen").sparse().given(),
      leaf("loads_per_warp", &Outstanding::loads_per_warp, count, "outstanding loads of one warp"),
      leaf("timing", &Outstanding::timing, outstanding_timing(), "of virtual devices: cycles of each step")
          .sparse()
          .given(),
  };
  return leaves;
}

Section<DeviceDescription> shared_memory_section() {
  return single_section("shared_memory", "Shared", "shared memory", &DeviceDescription::shared_memory,
                        found_out(shared_memory_leaves()),
                        Map<SharedMemoryDescription>{.leaves = shared_memory_leaves(), .check = check_rows});
}

Section<DeviceDescription> outstanding_section() {
  return single_section("outstanding", "Outstanding", "table of outstanding requests", &DeviceDescription::outstanding,
                        found_out(outstanding_leaves()), Map<OutstandingDescription>{.leaves = outstanding_leaves()});
}

Section<DeviceDescription> bandwidth_section() {
  return table_section("bandwidth", "Bandwidth", "bandwidth", &DeviceDescription::bandwidth,
                       std::vector<std::string_view>(bandwidth_names.begin(), bandwidth_names.end()), BestAndOthers{});
}

Section<DeviceDescription> kernels_section() {
  return table_section("kernels", "Kernels", "kernel", &DeviceDescription::kernels, kernel_result_names(),
                       kernel_result());
}

}  // namespace gpuinfer::model
