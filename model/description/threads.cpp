// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/threads.hpp"

#include <cmath>

#include "model/workload.hpp"

namespace gpuinfer::model {

namespace {

using codec::Count;
using codec::Cycles;
using codec::Map;
using codec::Real;
using codec::Unit;

constexpr std::uint64_t most_banks = 1024;
constexpr std::uint64_t most_row_bytes = 1U << 16U;
constexpr std::uint64_t most_outstanding = 1U << 20U;
constexpr double most_bytes_per_second = 1e18;
constexpr std::uint64_t most_element_bits = 1024;
constexpr double most_seconds = 1e6;
constexpr double most_share = 1e3;

std::string shared_latency_text(const SharedMemoryLatency& latency) {
  std::vector<std::string> texts;
  if (latency.broadcast) {
    texts.push_back(words::together({words::rounded(*latency.broadcast, 5), " cycles without conflict"}));
  }
  if (latency.per_way) {
    texts.push_back(words::together({words::rounded(*latency.per_way, 4), " more for each further way"}));
  }
  for (const DegreeLatency& each : latency.by_degree) {
    texts.push_back(words::together({to_text(each.degree), "-way ", words::rounded(each.cycles, 5)}));
  }
  return words::joined(texts);
}

Map<SharedMemoryLatency> shared_memory_latency() {
  const Map<DegreeLatency> by_degree{
      .leaves = {leaf("degree", &DegreeLatency::degree, Count{.least = 1, .most = most_banks},
                      "how many rows of one bank are loaded at once")
                     .needed(),
                 leaf("cycles", &DegreeLatency::cycles, Cycles{}, "of such loads").needed()},
      .key = "degree"};
  return {
      .leaves = {leaf("broadcast", &SharedMemoryLatency::broadcast, Cycles{}, "all lanes load the same word"),
                 leaf("two_way", &SharedMemoryLatency::two_way, Cycles{}, "two rows of one bank"),
                 leaf("per_way", &SharedMemoryLatency::per_way, Cycles{}, "more for each further row")
                     .sparse()
                     .compared_by(Sameness::slope),
                 leaf("by_degree", &SharedMemoryLatency::by_degree, codec::List<Map<DegreeLatency>>{.item = by_degree},
                      "where one number for each further row does not do, in ascending order")
                     .sparse()},
      .check =
          [](const Place& place, const SharedMemoryLatency& latency) {
            for (std::size_t i = 1; i < latency.by_degree.size(); ++i) {
              if (latency.by_degree[i].degree <= latency.by_degree[i - 1].degree) {
                place.need("by_degree")
                    .items()[i]
                    .fail("does not have a larger degree than the one before; put degrees in ascending order");
              }
            }
          },
      .words = shared_latency_text};
}

void check_rows(const Place& place, const SharedMemoryDescription& shared_memory) {
  if (shared_memory.banks && shared_memory.bank_width_bytes && shared_memory.row_bytes &&
      *shared_memory.row_bytes % (std::uint64_t{*shared_memory.banks} * *shared_memory.bank_width_bytes) != 0) {
    place.need("row_bytes").fail("is not a multiple of banks * bank_width_bytes; every bank has a part of each row");
  }
}

Map<OutstandingTiming> outstanding_timing() {
  Map<OutstandingTiming> timing;
  for (const auto& [name, member] : outstanding_timing_members) {
    timing.leaves.push_back(leaf(name, member, Cycles{}, "of virtual devices"));
  }
  return timing;
}

Map<ElementBandwidth> element_bandwidth() {
  return {.leaves = {leaf("bytes_per_second", &ElementBandwidth::bytes_per_second,
                          Real<Unit::bytes_per_second>{.most = most_bytes_per_second},
                          "by all SMs, loads and stores together")
                         .needed(),
                     leaf("elements_per_sm_clock", &ElementBandwidth::elements_per_sm_clock,
                          Real<>{.most = most_bytes_per_second}, "the same by SM and clock that was in force"),
                     leaf("element_bits", &ElementBandwidth::element_bits, Count{.least = 1, .most = most_element_bits},
                          "of what one lane takes at a time")
                         .needed()},
          .words =
              [](const ElementBandwidth& bandwidth) {
                constexpr double giga = 1e9;
                const auto gigabytes = static_cast<std::uint64_t>(std::llround(bandwidth.bytes_per_second / giga));
                return words::together({words::grouped(gigabytes), " GB/s, ",
                                        words::rounded(bandwidth.elements_per_sm_clock, 4), " elements of ",
                                        to_text(bandwidth.element_bits), " bits per SM and clock"});
              },
          .key = "element_bits"};
}

// What is best stands beside what holds for each size of elements.
struct BestAndOthers {
  Map<ElementBandwidth> best = element_bandwidth();
  codec::List<Map<ElementBandwidth>> others{.item = best};

  [[nodiscard]] Bandwidth read(const Place& place) const {
    place.allow({"bytes_per_second", "elements_per_sm_clock", "element_bits", "by_element_bits"});
    Bandwidth bandwidth;
    if (place.find("bytes_per_second")) {
      bandwidth.best.emplace();
      for (const Leaf<ElementBandwidth>& each : best.leaves) {
        if (const auto entry = each.is_needed ? place.need(each.name) : place.find(each.name)) {
          each.read(*entry, *bandwidth.best);
        }
      }
    }
    if (const auto list = place.find("by_element_bits")) {
      bandwidth.by_element_bits = others.read(*list);
    }
    return bandwidth;
  }
  [[nodiscard]] std::string write(const Bandwidth& bandwidth) const {
    auto entries = bandwidth.best ? written_leaves(*bandwidth.best, best.leaves)
                                  : std::vector<std::pair<std::string, std::string>>{{"bytes_per_second", "null"}};
    if (!bandwidth.by_element_bits.empty()) {
      entries.emplace_back("by_element_bits", others.write(bandwidth.by_element_bits));
    }
    return flow_map(entries);
  }
  [[nodiscard]] std::optional<std::string> text(const Bandwidth& bandwidth) const {
    return bandwidth.best ? std::optional(best.text(*bandwidth.best)) : std::nullopt;
  }
  // Without a best one its other leaves need not be there.
  [[nodiscard]] LeafFacts facts() const {
    LeafFacts facts = best.facts();
    for (LeafFacts& part : facts.parts) {
      part.is_needed = false;
      if (part.name == "bytes_per_second") {
        part.needs = {"element_bits"};
        part.sameness = Sameness::peak;
        part.stands_for_all = true;
      }
    }
    facts.parts.push_back(facts_of("by_element_bits", others,
                                   "the same by size of elements; where any are listed, others are not known"));
    facts.schema = schema_of(facts.parts);
    facts.key = {};
    return facts;
  }
};

codec::List<codec::Words<std::string>> bandwidth_name_list() {
  codec::Words<std::string> words{.words = {}, .refusal = "is not a bandwidth"};
  for (const std::string_view name : bandwidth_names) {
    words.words.emplace_back(name, name);
  }
  return {.item = words};
}

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
  [[nodiscard]] static std::string text(const std::map<std::string, std::uint64_t>& bytes) { return write(bytes); }
  [[nodiscard]] static LeafFacts facts() {
    LeafFacts facts{.unit = to_string(Unit::bytes), .is_measured = true, .sameness = Sameness::counted};
    for (const std::string_view level : kernel_levels) {
      facts.parts.push_back(codec::Bytes{.most = codec::max_count}.facts());
      facts.parts.back().name = level;
    }
    facts.schema = schema_of(facts.parts);
    return facts;
  }
};

codec::Words<std::string> level_name() {
  codec::Words<std::string> names;
  for (const std::string_view level : kernel_levels) {
    names.words.emplace_back(level, level);
  }
  return names;
}

// Of a result that was timed.
std::string kernel_text(const KernelResult& result) {
  constexpr double giga = 1e9;
  constexpr double milliseconds_of_second = 1e3;
  const auto moved = static_cast<double>(result.level_bytes.at(result.dominant));
  const auto peak = static_cast<std::uint64_t>(std::llround(moved / result.seconds / result.share / giga));
  return words::together({result.dominant, " ", percent_text(result.share), " of ", words::grouped(peak), " GB/s, ",
                          words::rounded(result.seconds * milliseconds_of_second, 3), " ms"});
}

Map<KernelResult> kernel_result() {
  return {
      .leaves = {leaf("size", &KernelResult::size,
                      Count{.least = KernelRun::smallest_size, .most = KernelRun::largest_size},
                      "rows and columns of its matrices")
                     .needed(),
                 leaf("seconds", &KernelResult::seconds, Real<Unit::seconds>{.most = most_seconds}, "of the best run")
                     .needed()
                     .compared_by(Sameness::time),
                 leaf("level_bytes", &KernelResult::level_bytes, LevelBytes{},
                      "what moves through each level, counted by the hardware where it can be, else simulated")
                     .needed(),
                 leaf("dominant", &KernelResult::dominant, level_name(),
                      "the level with the largest share of its measured peak")
                     .needed(),
                 // It follows from the other leaves and from those of other sections.
                 leaf("share", &KernelResult::share, Real<>{.most = most_share},
                      "that share; above 1.05 a peak is wrong, and is told")
                     .needed()
                     .compared_by(Sameness::given)},
      .check =
          [](const Place& place, const KernelResult& result) {
            if (!result.level_bytes.contains(result.dominant)) {
              place.need("dominant").fail("`" + result.dominant + "` is none of its `level_bytes`; write one of them");
            }
          },
      .words =
          [](const KernelResult& result) {
            return result.seconds > 0 && result.share > 0 ? kernel_text(result) : "not timed";
          }};
}

}  // namespace

const Leaves<SharedMemoryDescription>& shared_memory_leaves() {
  using Shared = SharedMemoryDescription;
  static const Leaves<Shared> leaves{
      leaf("banks", &Shared::banks, Count{.least = 1, .most = most_banks},
           "lanes of a warp that load from one bank conflict, unless from one row of it"),
      leaf("bank_width_bytes", &Shared::bank_width_bytes, codec::Bytes32{.least = 1, .most = most_row_bytes},
           "consecutive bytes in one bank"),
      leaf("row_bytes", &Shared::row_bytes, codec::Bytes32{.least = 1, .most = most_row_bytes},
           "the aligned block inside which lanes do not conflict; a multiple of banks x bank_width_bytes"),
      leaf("latency_cycles", &Shared::latency_cycles, shared_memory_latency(), "by the degree of the conflict")
          .in_words([](const Shared& shared) -> std::optional<std::string> {
            const std::string text = shared_latency_text(shared.latency_cycles);
            return text.empty() ? std::nullopt : std::optional(text);
          }),
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
                                         .refusal = "is not a kind of table"},
           "what keeps track of outstanding loads: mshr, an entry for each line; prt, one for each load of a warp"),
      leaf("entries", &Outstanding::entries, count, "of that table, in each SM"),
      leaf("merges", &Outstanding::merges, count, "requests per entry, the first included")
          .in_words([](const Outstanding& of) -> std::optional<std::string> {
            if (of.merges) {
              return words::grouped(*of.merges);
            }
            return of.merges_at_least
                       ? std::optional(words::together({"at least ", words::grouped(*of.merges_at_least)}))
                       : std::nullopt;
          }),
      leaf("merges_at_least", &Outstanding::merges_at_least, count, "the same where no limit was seen")
          .sparse()
          .given(),
      leaf("loads_per_warp", &Outstanding::loads_per_warp, count,
           "outstanding loads of one warp before the scoreboard stops it"),
      leaf("timing", &Outstanding::timing, outstanding_timing(), "of virtual devices: what each step takes")
          .sparse()
          .given(),
  };
  return leaves;
}

Section<DeviceDescription> shared_memory_section() {
  return single_section("shared_memory", "Shared", "shared memory",
                        "banks of the memory that the threads of a block share", &DeviceDescription::shared_memory,
                        Map<SharedMemoryDescription>{.leaves = shared_memory_leaves(), .check = check_rows});
}

Section<DeviceDescription> outstanding_section() {
  return single_section("outstanding", "Outstanding", "table of outstanding requests",
                        "outstanding loads of an SM, in the terms of Lashgar et al.", &DeviceDescription::outstanding,
                        Map<OutstandingDescription>{.leaves = outstanding_leaves()});
}

Section<DeviceDescription> bandwidth_section() {
  using Bandwidths = BandwidthDescription;
  return table_section(
      "bandwidth", "Bandwidth", "bandwidth", "the most that comes out of each memory", &DeviceDescription::bandwidth,
      std::vector<std::string_view>(bandwidth_names.begin(), bandwidth_names.end()), BestAndOthers{},
      Leaves<Bandwidths>{leaf("copy_knee_bytes", &Bandwidths::copy_knee_bytes, codec::Interval{},
                              "of copies of one element by each thread: between which sizes of the dataset what L2 "
                              "saves stops growing; half of L2, as a copy needs room for what it loads and for what it "
                              "stores (Lashgar et al. 2015, section 3.3)")
                             .sparse()
                             .in_words([](const Bandwidths& bandwidths) {
                               return bandwidths.copy_knee_bytes
                                          ? std::optional(words::bytes(*bandwidths.copy_knee_bytes))
                                          : std::nullopt;
                             }),
                         leaf("assumed", &Bandwidths::assumed, bandwidth_name_list(),
                              "of virtual devices: bandwidths that no source gives")
                             .sparse()
                             .given()
                             .compared_by(Sameness::given)});
}

Section<DeviceDescription> kernels_section() {
  return table_section("kernels", "Kernels", "kernel",
                       "the kernels of Konstantinidis & Cotronis against the measured bandwidths",
                       &DeviceDescription::kernels, kernel_result_names(), kernel_result());
}

}  // namespace gpuinfer::model
