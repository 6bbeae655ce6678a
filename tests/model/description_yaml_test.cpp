// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description_yaml.hpp"
#include "model/description/evidence.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "model/errors.hpp"
#include "model/random.hpp"
#include "tests/model/configured_devices.hpp"

namespace gpuinfer::model {
namespace {

std::string refusal_of(const std::string& yaml) {
  try {
    static_cast<void>(parse_description(yaml, "d.yaml"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "read without complaint";
}

// Leaves of caches.L1tex, the first of them on line 4.
std::string with_leaves(const std::string& leaves) {
  std::string yaml = "schema: gpuinfer/1\ncaches:\n  L1tex:\n";
  std::size_t begin = 0;
  while (begin <= leaves.size()) {
    const std::size_t end = std::min(leaves.find('\n', begin), leaves.size());
    yaml += "    " + leaves.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return yaml;
}

CacheDescription cache_with(const std::string& leaves) {
  return parse_description(with_leaves(leaves), "d.yaml").caches.at("L1tex");
}

// Evidence with every detail that has a row, and one that has none.
EvidenceDetails every_detail() {
  EvidenceDetails details;
  details.deterministic = false;
  details.mostly = {.policy = {.policy = "lru", .parameters = {}, .equivalent = {}}, .departs = {0.001, 0.002}};
  details.one_in_interval_95_percent = {{{1.5, 2}}, {}};
  details.victim_probability_intervals = details.victim_probability_intervals_95_percent_each = {{0, 0.5}, {0.5, 1}};
  details.ways_of_the_set = {"4", "5 or more"};
  details.bytes_that_miss_together = {{0, 63}};
  details.interval_bytes = {1024, 2048};
  details.apart = {"L1D"};
  details.assuming = details.not_counted = {"a: b"};
  details.other_misses = details.other_latency = ComputeUnits{ComputeUnit{7}};
  details.broadcast = details.multicast = true;
  details.degree_by_stride = {1, {}, 2};
  details.elements_of_8_bytes = details.elements_of_16_bytes = {
      .contiguous_cycles = 26.5, .contiguous_rows = 2, .more_cycles = -1, .as_described = {65, 66}};
  details.per_way_interval_95_percent = details.residuals = details.interval_95_percent = {-0.5, 2};
  details.access_class = "data in L2, translation in L2TLB";
  details.source = "somebody's rows, L1.txt, version 1";
  details.knees = {{.loads = 1, .threads_per_line = 2, .from_l2 = false, .threads = {3, 4}, .cycles = {5, 6}}};
  details.one_load_cycles = {.from_l2 = 200, .beyond_l2 = 600};
  details.cycles_by_rank = {{45, 180}, {182.5, 45}};
  details.of_l2 = {.capacity_bytes = 786432, .share = {0.25, 0.75}, .is_half = true};
  details.stream = {.dataset_bytes = 4096, .work = "copy", .elements_in_flight = 8, .block_threads = 256, .blocks = 2};
  details.one_sm_surface = {
      .work = "copy",
      .element_bits = 32,
      .points = {{.warps = 1, .elements = 8, .gb_per_second = 4.25, .cycles = 190}, {.warps = 32, .elements = 8}}};
  details.served_by_dataset = {{.dataset_bytes = 4096, .l1 = 0.5, .l2 = 0.25, .dram = 0.25}, {.dataset_bytes = 8192}};
  details.gb_per_second_by_dataset = details.gb_per_second_by_dataset_of_all_blocks = {{8192, 717.5}, {4096, 718}};
  details.cycles_saved_by_l2_by_bytes = details.microseconds_saved_by_l2_by_bytes = {{8192, 1}, {4096, -0.5}};
  details.gb_per_second_by_shape = {{"8 x 256", 3965}, {"4 x 512", 3969}};
  details.shares = details.bytes = {{"L2", 0.5}};
  details.simulated_over_counted = {{"L2_loads", 1.01}};
  details.stored_bytes = {.l2 = 1, .dram = 2};
  for (auto* const number :
       {&details.median_of_all, &details.per_way, &details.deviation, &details.clock_hz, &details.spread,
        &details.asked_again_gb_per_second, &details.one_sm_gb_per_second, &details.seconds, &details.seconds_again}) {
    *number = 0.25;
  }
  for (auto* const count : {&details.policies_tried,
                            &details.sequences_to_narrow,
                            &details.learned_states,
                            &details.learned_conformance_extra_states,
                            &details.learning_sequences,
                            &details.learning_accesses,
                            &details.conformance_extra_states,
                            &details.equivalent_for_accesses,
                            &details.period,
                            &details.linear_complexity,
                            &details.periods_excluded_up_to,
                            &details.victims_observed,
                            &details.consecutive_fills_in_a_set,
                            &details.fills_that_overflow_one_set,
                            &details.fills_that_never_miss,
                            &details.largest_array_without_miss_bytes,
                            &details.smallest_array_with_misses_bytes,
                            &details.sets,
                            &details.lines_assigned,
                            &details.parts,
                            &details.asked,
                            &details.accesses,
                            &details.lines_at_least,
                            &details.warp_loads_at_least,
                            &details.loads_per_warp_at_least,
                            &details.l1_sectors,
                            &details.fresh_loads,
                            &details.fresh_loads_wrong,
                            &details.fresh_pairs,
                            &details.fresh_pairs_together,
                            &details.fresh_pairs_wrong,
                            &details.blocks_asked,
                            &details.blocks_unlike,
                            &details.fresh_lines,
                            &details.fresh_lines_in_one_set,
                            &details.fresh_evictions,
                            &details.fresh_evictions_wrong,
                            &details.fresh_distances,
                            &details.fresh_distances_wrong,
                            &details.fresh_set_loads,
                            &details.fresh_set_misses,
                            &details.fresh_set_loads_wrong,
                            &details.fresh_set_loads_wrong_in_other_sets,
                            &details.fresh_sets}) {
    *count = 3;
  }
  for (const Leaf<EvidenceDetails>& row : evidence_detail_leaves()) {
    EXPECT_TRUE(row.is_written(details)) << row.name;
  }
  details.others["p_value"] = "0.3";
  return details;
}

// A description with every key of the schema in use.
DeviceDescription everything() {
  DeviceDescription description;
  description.device = {.name = "Some GPU: \"fast\", 1st",
                        .source = "virtual:some.yaml",
                        .compute_capability = "3.5",
                        .sm_count = 12,
                        .provenance = {{"driver", "550.54"}, {"carve-out", "0 KB\tof 228"}}};
  CacheDescription& bits = description.caches["L1tex"];
  bits.capacity_bytes = 6400;
  bits.onset_bytes = 6000;
  bits.store_lines = 50;
  bits.line_bytes = 128;
  bits.sector_bytes = 32;
  bits.ways = {20, 20, 20, 4};
  bits.index = BitsIndex{{7, 8}};
  bits.exercised_bits = {5, 6, 7, 8, 63};
  bits.replacement = Replacement{.policy = "lru", .parameters = {}, .equivalent = {"fifo"}};
  bits.fill = {.prefetch_lines = 1, .fetch_bytes = 64};
  bits.store = Store{
      .allocate = true, .write = Write::through, .granule_bytes = {}, .fetches = {}, .touches = {}, .evicts = true};
  bits.latency_cycles = {.hit = 110, .miss = 220.5};
  bits.assumed = {"index", "latency_cycles.hit"};
  description.caches["ConstL1"].index =
      XorIndex{.row_masks = {std::uint64_t{1} << 7U | std::uint64_t{1} << 63U, 1U << 8U}, .constant = 3};
  description.caches["L1TLB"].index = ModuloIndex{.granule_bytes = 2097152, .sets_count = 1};
  description.caches["L2"].index = SumIndex{.fields = {{{7, 8}}, {{13, 14}}}, .sets_count = 3};
  description.caches["L2TLB"].index =
      TableIndex{.granule_bytes = 128, .sets_of = {3, 0, 1, 2}, .origin = 4096, .range_bytes = 512};
  description.caches["L3"].exercised_bits = {7};
  description.caches["ReadOnly"].replacement =
      Replacement{.policy = "weighted_random",
                  .parameters = {{"victim_weights", std::vector<double>{1, 0.1, 3}}},
                  .equivalent = {}};
  description.caches["L1D"].replacement =
      Replacement{.policy = "fermi",
                  .parameters = {{"favoured_way", std::int64_t{1}}, {"others", std::string("random")}},
                  .equivalent = {}};
  description.caches["dTLB"];
  description.shared_memory = SharedMemoryDescription{
      .banks = 32,
      .bank_width_bytes = 4,
      .row_bytes = 256,
      .latency_cycles = {.broadcast = 46.75,
                         .two_way = 66.125,
                         .per_way = 15.5,
                         .by_degree = {{.degree = 1, .cycles = 46.75}, {.degree = 4, .cycles = 96}}}};
  description.outstanding =
      OutstandingDescription{.kind = OutstandingKind::mshr,
                             .entries = 128,
                             .merges = {},
                             .merges_at_least = 8,
                             .loads_per_warp = 4,
                             .timing = OutstandingTiming{.latency = 400.5, .issue_per_request = 2}};
  description.bandwidth["L1"] = {
      .best = ElementBandwidth{.element_bits = 64, .bytes_per_second = 1.34e12, .elements_per_sm_clock = 15.9},
      .by_element_bits = {{.element_bits = 32, .bytes_per_second = 1e12, .elements_per_sm_clock = 16}}};
  description.bandwidth["DRAM_load"];
  description.bandwidth.copy_knee_bytes = {360448, 475136};
  description.bandwidth.assumed = {"L1"};
  description.kernels["gemm.plain"] = {.size = 1024,
                                       .seconds = 4.3e-4,
                                       .level_bytes = {{"L1", 8'594'128'896}, {"L2", 3'000'000}},
                                       .dominant = "L1",
                                       .share = 0.821};
  description.memory_latency_cycles = {230, 236.5, 289, 371, 734, {}};
  description.caches["L2"].partitions = Partitions{.index = BitsIndex{{12}},
                                                   .near = 1,
                                                   .far_cycles = 200.5,
                                                   .sms = {{ComputeUnit{0}, ComputeUnit{2}}, {ComputeUnit{1}}},
                                                   .keeps_copies = true,
                                                   .block_bytes = 2097152,
                                                   .resident_bytes = {{1048576, 1052000.5}}};
  description.caches["ReadOnly"].shared_with = {"L1tex", "Texture"};
  description.caches["Texture"].shared_with.emplace();
  description.caches["Texture"].carveouts = {
      {.carveout_kb = 8, .onset_bytes = 246784, .resident_bytes = {{243911, 246614.5}}, .ways = {{4, 5}}},
      {.carveout_kb = 228, .onset_bytes = {}, .resident_bytes = {}, .ways = {}}};
  description.paths["global"] = {.caches = {"L1D", "L2"},
                                 .tlbs = {"L1TLB", "L2TLB"},
                                 .translated_from = "L2",
                                 .page_window_bytes = 536870912,
                                 .memory_latency_cycles = PatternLatencyCycles{116, {}, 488, {}, {}, {}}};
  description.paths["texture"].caches = {"L1tex"};
  description.textures["Texture2D"] = {.texel_bytes = 4,
                                       .width = 100,
                                       .height = 7,
                                       .sector_texels = TexelBlock{.width = 4, .height = 2},
                                       .line_texels = TexelBlock{.width = 8, .height = 8},
                                       .levels = {{{.width = 4, .height = 2, .order = TileOrder::linear},
                                                   {.width = 2, .height = 4, .order = TileOrder::morton}}},
                                       .cache = "L1tex",
                                       .latency_cycles = {.hit = 96, .miss = 320}};
  description.textures["unknown"].width = 5;
  description.code["Instruction"] = {
      .piece_bytes = 1024, .levels = {{{.fits_bytes = 33792, .cycles = 77}, {.fits_bytes = {}, .cycles = 161}}}};
  description.code["unheard"].piece_bytes = 64;
  description.evidence["unheard"].leaves["levels"].reason = "not asked";
  description.evidence["unknown"].leaves["levels"].reason = "not asked";
  description.noise = {
      .jitter_cycles = 3, .outlier_probability = 0.001, .outlier_cycles = 400, .misread_probability = 1e-7};
  CacheEvidence& evidence = description.evidence["L1tex"];
  evidence.leaves["line_bytes"] = {.status = EvidenceStatus::resolved,
                                   .confidence = 0.9999,
                                   .experiments = 6,
                                   .alternatives = {},
                                   .reason = "",
                                   .decided_by = "",
                                   .bound = {},
                                   .details = every_detail()};
  evidence.leaves["replacement"] = {.status = EvidenceStatus::ambiguous,
                                    .confidence = {},
                                    .experiments = 0,
                                    .alternatives = {"{policy: lru}", "{policy: fifo}", "null", "32"},
                                    .reason = "no hit, so far: none",
                                    .decided_by = "W+1 chase",
                                    .bound = DepartureBound{.departures_below = 0.0005, .at = 0.99},
                                    .details = {}};
  evidence.prediction = PredictionEvidence{.agreement = 0.9998,
                                           .voted_agreement = 1,
                                           .p_value = 0.1,
                                           .accesses = 20000,
                                           .sequences = 5,
                                           .outliers = 11,
                                           .assuming = "{replacement: {policy: lru}}"};
  evidence.inquiries = {{.asked = "which lines, of {all}: \"these\", or those?",
                         .why = "",
                         .learned = "hits take 110 cycles, misses 220",
                         .questions = 3,
                         .accesses = 100,
                         .hypotheses_before = 345,
                         .hypotheses_after = 1},
                        {.asked = "cut short",
                         .why = "that",
                         .learned = "",
                         .questions = 0,
                         .accesses = 0,
                         .hypotheses_before = {},
                         .hypotheses_after = {}}};
  description.evidence["ReadOnly"].prediction = PredictionEvidence{.agreement = {},
                                                                   .voted_agreement = {},
                                                                   .p_value = 0.4,
                                                                   .accesses = 9,
                                                                   .sequences = 1,
                                                                   .outliers = 0,
                                                                   .assuming = {}};
  description.evidence["outstanding"].leaves["entries"] = {};
  description.evidence["kernels"].leaves["gemm.plain"] = {};
  description.evidence["L1D"];
  return description;
}

TEST(DescriptionYaml, DetailsOfEvidenceStandInTheOrderOfTheirNames) {
  DeviceDescription description;
  EvidenceDetails& details = description.evidence["L1tex"].leaves["replacement"].details;
  description.caches["L1tex"];
  details.deterministic.emplace();
  details.victim_probability_intervals = {{0.25, 0.5}};
  details.accesses = 9;
  details.one_in_interval_95_percent = {{{31.5, 33}}};
  details.others["a_finding_of_another_version"] = "[1]";
  const std::string yaml = to_yaml(description);
  EXPECT_NE(yaml.find("replacement: {status: unknown, a_finding_of_another_version: [1], accesses: 9, "
                      "deterministic: null, one_in_interval_95_percent: [31.5, 33], "
                      "victim_probability_intervals: [[0.25, 0.5]]}"),
            std::string::npos)
      << yaml;
  details.one_in_interval_95_percent = {{{31.5, 33}}, {}};
  EXPECT_NE(to_yaml(description).find("one_in_interval_95_percent: [[31.5, 33], null]"), std::string::npos);
  EXPECT_EQ(parse_description(to_yaml(description), "d.yaml"), description);
}

TEST(DescriptionYaml, RefusesADetailOfAnotherKind) {
  const auto refused = [](const std::string& detail) {
    try {
      static_cast<void>(
          parse_description("schema: gpuinfer/1\ndevice: {name: a, source: b}\ncaches: {L1: {}}\n"
                            "evidence: {L1: {ways: {status: unknown, " +
                                detail + "}}}\n",
                            "d.yaml"));
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused("deterministic: null, policies_tried: null, learned_states: 3"), "");
  for (const char* wrong :
       {"spread: wide", "gb_per_second_by_dataset: [[4096, 718], []]", "other_misses: [-1]", "deterministic: maybe",
        "microseconds_saved_by_l2_by_bytes: {all: 1}", "victim_probability_intervals: [[0.1]]",
        "elements_of_8_bytes: {contiguous_cycles: 1, more_cycles: 0, as_described: all}"}) {
    EXPECT_NE(refused(wrong).find(std::string(wrong).substr(0, std::string_view(wrong).find(':'))), std::string::npos)
        << wrong;
  }
}

TEST(DescriptionYaml, ConfiguredDevicesComeBackAsTheyAre) {
  std::size_t devices = 0;
  for (const auto& file : std::filesystem::directory_iterator(devices_folder())) {
    SCOPED_TRACE(file.path().string());
    const DeviceDescription description = read_description(file.path());
    EXPECT_FALSE(description.device.name.empty());
    const std::string yaml = to_yaml(description);
    EXPECT_EQ(parse_description(yaml, "again"), description);
    EXPECT_EQ(to_yaml(parse_description(yaml, "again")), yaml);
    ++devices;
  }
  EXPECT_GE(devices, 4U);
}

TEST(DescriptionYaml, WhatADeviceSaysInAnotherFormIsNoClock) {
  const DeviceDescription told =
      parse_description("schema: gpuinfer/1\ndevice: {provenance: {sm_clock_mhz: \"0209\"}}\n", "d.yaml");
  const std::string written = to_yaml(told);
  EXPECT_EQ(written.find("clocks"), std::string::npos);
  EXPECT_EQ(to_yaml(parse_description(written, "d.yaml")), written);
}

TEST(DescriptionYaml, EveryKeyComesBackAsItIs) {
  const std::string yaml = to_yaml(everything());
  EXPECT_EQ(parse_description(yaml, "d.yaml"), everything()) << yaml;
  EXPECT_EQ(to_yaml(parse_description(yaml, "d.yaml")), yaml);
}

TEST(DescriptionYaml, JsonIsReadLikeYaml) {
  const std::string json = to_json(everything());
  EXPECT_EQ(json.substr(0, 30), "{\n  \"schema\": \"gpuinfer/1\",\n  ");
  DeviceDescription from_json = parse_description(json, "d.json");
  // Text that is carried in flow form has its words in quotes now.
  from_json.evidence = everything().evidence;
  EXPECT_EQ(from_json, everything()) << json;
}

// YAML 1.1 has no numbers with an exponent and no point.
TEST(DescriptionYaml, WritesAPointBeforeAnExponent) {
  DeviceDescription description;
  description.noise = {
      .jitter_cycles = 1e9, .outlier_probability = 1e-7, .outlier_cycles = 0.5, .misread_probability = 1.5e-7};
  const std::string yaml = to_yaml(description);
  EXPECT_NE(yaml.find("noise: {jitter_cycles: 1.0e+09, outlier_probability: 1.0e-07, outlier_cycles: 0.5, "
                      "misread_probability: 1.5e-07}"),
            std::string::npos)
      << yaml;
  EXPECT_EQ(parse_description(yaml, "d.yaml"), description);
}

TEST(DescriptionYaml, WritesKeysInTheOrderOfTheSchema) {
  DeviceDescription description;
  description.device = {.name = "GeForce GTX 780",
                        .source = "virtual:gtx780",
                        .compute_capability = "3.5",
                        .sm_count = 12,
                        .provenance = {}};
  CacheDescription& cache = description.caches["L1tex"];
  cache.capacity_bytes = 12288;
  cache.line_bytes = 32;
  cache.sector_bytes = 32;
  cache.ways = {96, 96, 96, 96};
  cache.index = BitsIndex{{7, 8}};
  cache.exercised_bits = {5, 6, 7, 8};
  cache.replacement = Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  cache.latency_cycles = {.hit = 110, .miss = {}};
  description.evidence["L1tex"].leaves["line_bytes"] = {.status = EvidenceStatus::resolved,
                                                        .confidence = 0.9999,
                                                        .experiments = 6,
                                                        .alternatives = {},
                                                        .reason = "",
                                                        .decided_by = "",
                                                        .bound = {},
                                                        .details = {}};
  EXPECT_EQ(to_yaml(description), R"(schema: gpuinfer/1
device: {name: GeForce GTX 780, source: "virtual:gtx780", compute_capability: "3.5", sm_count: 12}
caches:
  L1tex:
    capacity_bytes: 12288
    line_bytes: 32
    sector_bytes: 32
    ways: [96, 96, 96, 96]
    index: {kind: bits, bits: [7, 8], exercised_bits: [5, 6, 7, 8]}
    replacement: {policy: lru}
    latency_cycles: {hit: 110, miss: null}
evidence:
  L1tex:
    line_bytes: {status: resolved, confidence: 0.9999, experiments: 6}
)");
}

TEST(DescriptionYaml, SingleLeavesHaveTheirFlowForm) {
  EXPECT_EQ(to_flow_yaml(IndexFunction(XorIndex{.row_masks = {0x9080, 0x2100}, .constant = 1})),
            "{kind: xor, rows: [[7, 12, 15], [8, 13]], constant: 1}");
  EXPECT_EQ(to_flow_yaml(IndexFunction(SumIndex{.fields = {{{7, 8}}, {{13}}}, .sets_count = 4})),
            "{kind: sum, fields: [[7, 8], [13]], sets: 4}");
  EXPECT_EQ(to_flow_yaml(IndexFunction(
                HashIndex{.row_masks = {0x180},
                          .constant = 1,
                          .terms = {{.modulo = 9, .shift = 20, .weights = {1, 2}, .row_masks = {0x200, 0x400}}}})),
            "{kind: hash, rows: [[7, 8]], constant: 1, terms: [{modulo: 9, shift: 20, weights: [1, 2], rows: [[9], "
            "[10]]}]}");
  EXPECT_EQ(to_flow_yaml(IndexFunction(QuotientIndex{.row_masks = {0x180},
                                                     .divisor = 3,
                                                     .shift = 20,
                                                     .digit_masks = {0x200},
                                                     .constant = 1,
                                                     .beside_masks = {},
                                                     .set = {.row_masks = {1}, .constant = 0, .terms = {}}})),
            "{kind: quotient, rows: [[7, 8]], divisor: 3, shift: 20, digits: [[9]], constant: 1, beside: [], set: "
            "{rows: [[0]], "
            "constant: 0, terms: []}}");
  EXPECT_EQ(to_flow_yaml(Replacement{.policy = "weighted_random",
                                     .parameters = {{"victim_weights", std::vector<double>{1, 0.25}}},
                                     .equivalent = {}}),
            "{policy: weighted_random, victim_weights: [1, 0.25]}");
  EXPECT_EQ(to_flow_yaml(std::vector<std::uint32_t>{17, 8}), "[17, 8]");
}

TEST(DescriptionYaml, NullAndAbsentBothMeanUnknown) {
  const CacheDescription cache = cache_with(
      "capacity_bytes: null\nways: ~\nindex: {kind: null}\nreplacement: {policy: null}\nfill: {prefetch_lines: null}\n"
      "latency_cycles: {hit: null}\nassumed: null");
  EXPECT_EQ(cache, CacheDescription{});
  EXPECT_EQ(parse_description("schema: gpuinfer/1\ndevice: null\ncaches: null\nnoise: null\nevidence: null", "d"),
            DeviceDescription{});
  EXPECT_EQ(cache_with("latency_cycles:"), CacheDescription{});
}

TEST(DescriptionYaml, SaysWhatIsWrongWithMemoriesAndTables) {
  const auto refusal = [](const std::string& yaml) -> std::string {
    try {
      static_cast<void>(parse_description("schema: gpuinfer/1\n" + yaml, "d.yaml"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("outstanding: {kind: mshrs}"),
            "d.yaml:2: outstanding.kind: `mshrs` is not a kind of table; write mshr, prt or no_limit_seen");
  EXPECT_EQ(
      refusal("shared_memory: {banks: 32, bank_width_bytes: 4, row_bytes: 64}"),
      "d.yaml:2: shared_memory.row_bytes: is not a multiple of banks * bank_width_bytes; every bank has a part of each "
      "row");
  EXPECT_NE(refusal("bandwidth: {L3: {bytes_per_second: 1, element_bits: 32}}"), "");
  EXPECT_NE(refusal("bandwidth: {L1: {bytes_per_second: 1}}"), "");
  const std::string result = "{size: 64, seconds: 1, level_bytes: {L2: 1}, share: 1, ";
  EXPECT_EQ(refusal("kernels: {gemm.plain: " + result + "dominant: L2}}"), "");
  EXPECT_NE(refusal("kernels: {gemm: " + result + "dominant: L2}}"), "");
  EXPECT_NE(refusal("kernels: {gemm.plain: " + result + "dominant: L1}}"), "");
  EXPECT_NE(refusal("evidence: {kernels: {gemm: {status: unknown}}}"), "");
  EXPECT_NE(refusal("shared_memory: {latency_cycles: {by_degree: [{degree: 2, cycles: 1}, {degree: 2, cycles: 3}]}}"),
            "");
  EXPECT_NE(refusal("evidence: {outstanding: {knees: {status: unknown}}}"), "");
}

TEST(DescriptionYaml, StoreMayBeSmallerThanTheTags) {
  EXPECT_EQ(cache_with("capacity_bytes: 320\nstore_lines: 10\nline_bytes: 32\nways: [8, 8]").store_lines, 10U);
  EXPECT_TRUE(refusal_of(with_leaves("capacity_bytes: 512\nstore_lines: 10\nline_bytes: 32\nways: [8, 8]"))
                  .starts_with("d.yaml:4: caches.L1tex.capacity_bytes: is 512, but store_lines x line_bytes is 320"));
  EXPECT_TRUE(
      refusal_of(with_leaves("store_lines: 17\nways: [8, 8]")).starts_with("d.yaml:4: caches.L1tex.store_lines: "));
}

TEST(DescriptionYaml, PolicyParametersMustFitTheWays) {
  const std::string refusal =
      refusal_of(with_leaves("replacement:\n  policy: weighted_random\n  victim_weights: [1, 2, 3]\nways: [2]"));
  EXPECT_TRUE(refusal.starts_with("d.yaml:6: caches.L1tex.replacement.victim_weights: has 3 entries")) << refusal;
}

struct BadInput {
  std::string text;
  std::string message_begins;
};

TEST(DescriptionYaml, ErrorsInLeavesNameLineAndKey) {
  const std::vector<BadInput> cases{
      {"line_byte: 32", "d.yaml:4: caches.L1tex.line_byte: is not a known key here; write `line_bytes`"},
      {"line_bytes: 32\nways: [4]\nline_bytes: 64", "d.yaml:6: caches.L1tex.line_bytes: stands twice;"},
      {"index: {kind: bits, bits: [7], bits: [8]}", "d.yaml:4: caches.L1tex.index.bits: stands twice;"},
      {"line_bytes: many", "d.yaml:4: caches.L1tex.line_bytes: is many, not a whole number"},
      {"line_bytes: \"32\"", "d.yaml:4: caches.L1tex.line_bytes: is \"32\", not a whole number"},
      {"line_bytes: [32]", "d.yaml:4: caches.L1tex.line_bytes: is [32], not a whole number"},
      {"line_bytes: -32", "d.yaml:4: caches.L1tex.line_bytes: is -32,"},
      {"line_bytes: 0", "d.yaml:4: caches.L1tex.line_bytes: is 0,"},
      {"line_bytes: 32.5", "d.yaml:4: caches.L1tex.line_bytes: is 32.5,"},
      {"line_bytes: 99999999999999999999999", "d.yaml:4: caches.L1tex.line_bytes: is 999"},
      {"latency_cycles: {hit: nan}", "d.yaml:4: caches.L1tex.latency_cycles.hit: is nan, not a number"},
      {"latency_cycles: {hit: .inf}", "d.yaml:4: caches.L1tex.latency_cycles.hit: is .inf, not a number"},
      {"latency_cycles:\n  hit: 1\n  miss: -1", "d.yaml:6: caches.L1tex.latency_cycles.miss: is -1,"},
      {"latency_cycles: 110", "d.yaml:4: caches.L1tex.latency_cycles: must be a map"},
      {"ways: []", "d.yaml:4: caches.L1tex.ways: is empty;"},
      {"ways:\n- 4\n- 0", "d.yaml:6: caches.L1tex.ways: is 0,"},
      {"ways: 4", "d.yaml:4: caches.L1tex.ways: must be a list"},
      {"ways: [67108864, 1]", "d.yaml:4: caches.L1tex.ways: adds up to 67108865 lines"},
      {"ways: [4, 4, 4]\nindex: {kind: bits, bits: [7, 8]}",
       "d.yaml:4: caches.L1tex.ways: has 3 entries, but the index makes 4 sets;"},
      {"index: {kind: xor, rows: [[7, 9]]}\nways: [4]", "d.yaml:5: caches.L1tex.ways: has 1 entries,"},
      {"index: {kind: modulo, granule_bytes: 64, sets: 7}\nways: [4]", "d.yaml:5: caches.L1tex.ways: has 1 entries,"},
      {"index: {kind: sum, fields: [[7], [9]], sets: 3}\nways: [4]", "d.yaml:5: caches.L1tex.ways: has 1 entries,"},
      {"set_asides: [{bytes: 4096, protected_ways: 2}, {bytes: 0, protected_ways: 1}]",
       "d.yaml:4: caches.L1tex.set_asides: does not have more bytes than the one before;"},
      {"ways: [4, 4]\nindex:\n  kind: table\n  granule_bytes: 128\n  sets_of: [0, 1, 2]",
       "d.yaml:8: caches.L1tex.index.sets_of: names set 2, but ways has 2 sets"},
      {"ways: [4, 4, 4]\nindex: {kind: table, granule_bytes: 128, sets_of: [0, 2]}",
       "d.yaml:5: caches.L1tex.index.sets_of: names 2 sets, but ways has 3;"},
      {"index: {kind: table, granule_bytes: 128, sets_of: []}", "d.yaml:4: caches.L1tex.index.sets_of: must have"},
      {"index: {kind: table, sets_of: [0]}", "d.yaml:4: caches.L1tex.index: lacks `granule_bytes`;"},
      {"index: {kind: table, granule_bytes: 0, sets_of: [0]}", "d.yaml:4: caches.L1tex.index.granule_bytes: is 0,"},
      {"index: {kind: bit, bits: [7]}", "d.yaml:4: caches.L1tex.index.kind: `bit` is not a known kind"},
      {"index: {bits: [7]}", "d.yaml:4: caches.L1tex.index.bits: is not a known key here;"},
      {"index: {kind: bits, rows: [[7]]}", "d.yaml:4: caches.L1tex.index.rows: is not a known key here;"},
      {"index: {kind: bits, bits: [64]}", "d.yaml:4: caches.L1tex.index.bits: is 64, not a whole number from 0 to 63"},
      {"index: {kind: bits, bits: [7, 7]}", "d.yaml:4: caches.L1tex.index.bits: names an address bit twice;"},
      {"index: {kind: xor, rows: [[64]]}", "d.yaml:4: caches.L1tex.index.rows: is 64,"},
      {"index: {kind: xor, rows: [[7]], constant: 2}", "d.yaml:4: caches.L1tex.index.constant: is 2,"},
      {"index: {kind: sum, fields: [[70]], sets: 2}", "d.yaml:4: caches.L1tex.index.fields: is 70,"},
      {"index: {kind: hash, rows: [[7]]}", "d.yaml:4: caches.L1tex.index: lacks `terms`;"},
      {"index: {kind: hash, rows: [[7]], constant: 2, terms: []}", "d.yaml:4: caches.L1tex.index.constant: is 2,"},
      {"index: {kind: hash, rows: [], terms: [{modulo: 3, shift: 7, weights: [1], rows: []}]}",
       "d.yaml:4: caches.L1tex.index.terms.weights: has 1 entries; give one for each of the 0 rows"},
      {"index: {kind: hash, rows: [], terms: [{modulo: 0, shift: 7, weights: [], rows: []}]}",
       "d.yaml:4: caches.L1tex.index.terms.modulo: is 0,"},
      {"index: {kind: hash, rows: [[7]], terms: [{modulo: 67108864, shift: 7, weights: [], rows: []}]}",
       "d.yaml:4: caches.L1tex.index.terms: makes more than 67108864 sets;"},
      {"ways: [4]\nindex: {kind: hash, rows: [[7]], terms: [{modulo: 3, shift: 8, weights: [], rows: []}]}",
       "d.yaml:4: caches.L1tex.ways: has 1 entries, but the index makes 6 sets;"},
      {"index: {kind: bits, bits: [7], exercised_bits: [64]}", "d.yaml:4: caches.L1tex.index.exercised_bits: is 64,"},
      {"line_bytes: 32\ncapacity_bytes: 12000\nways: [96, 96]",
       "d.yaml:5: caches.L1tex.capacity_bytes: is 12000, but the sum of ways x line_bytes is 6144;"},
      {"line_bytes: 128\nsector_bytes: 48", "d.yaml:5: caches.L1tex.sector_bytes: is 48, which does not divide"},
      {"line_bytes: 128\nsector_bytes: 1", "d.yaml:5: caches.L1tex.sector_bytes: makes more than 64 sectors"},
      {"replacement: {policy: lur}", "d.yaml:4: caches.L1tex.replacement.policy: `lur` is not known;"},
      {"replacement: {policy: lru, bits: 2}",
       "d.yaml:4: caches.L1tex.replacement.bits: is not a parameter of policy lru;"},
      {"replacement: {victim_weights: [1]}", "d.yaml:4: caches.L1tex.replacement.victim_weights: is not a known key"},
      {"replacement: {policy: lru, equivalent: [lif]}", "d.yaml:4: caches.L1tex.replacement.equivalent: `lif` is not"},
      {"replacement: {policy: weighted_random}", "d.yaml:4: caches.L1tex.replacement: victim_weights: is missing;"},
      {"fill: {prefetch: 1}", "d.yaml:4: caches.L1tex.fill.prefetch: is not a known key here; write `prefetch_on`"},
      {"assumed: [idex]", "d.yaml:4: caches.L1tex.assumed: `idex` is not a leaf of a cache; write `index`"},
  };
  for (const auto& [leaves, message_begins] : cases) {
    const std::string refusal = refusal_of(with_leaves(leaves));
    EXPECT_TRUE(refusal.starts_with(message_begins)) << leaves << "\n" << refusal;
    EXPECT_NE(refusal.find(';'), std::string::npos) << refusal;
  }
}

TEST(DescriptionYaml, ErrorsOfTheWholeNameLineAndKey) {
  const std::string head = "schema: gpuinfer/1\n";
  const std::vector<BadInput> cases{
      {"", "d.yaml:1: the file is empty;"},
      {"[1, 2]", "d.yaml:1: must be a map;"},
      {"device: {name: x}", "d.yaml:1: schema: is missing;"},
      {"# later\nschema: gpuinfer/2\nnew_key: 1", "d.yaml:2: schema: gpuinfer/2 is newer than this program"},
      {"schema: other/1", "d.yaml:1: schema: `other/1` is not a schema"},
      {"schema: gpuinfer/1x", "d.yaml:1: schema: `gpuinfer/1x` is not a schema"},
      {head + "cache: {}", "d.yaml:2: cache: is not a known key here; write `caches`"},
      {head + "caches: [1]", "d.yaml:2: caches: must be a map;"},
      {head + "caches: {L1tex: 5}", "d.yaml:2: caches.L1tex: must be a map;"},
      {head + "device: {name: [a]}", "d.yaml:2: device.name: must be text;"},
      {head + "device: {nam: a}", "d.yaml:2: device.nam: is not a known key here; write `name`"},
      {head + "device: {sm_count: 0}", "d.yaml:2: device.sm_count: is 0,"},
      {head + "device: {provenance: {driver: []}}", "d.yaml:2: device.provenance.driver: must be text;"},
      {head + "noise: {outlier_probability: 1.5}", "d.yaml:2: noise.outlier_probability: is 1.5,"},
      {head + "noise: {jitter: 1}", "d.yaml:2: noise.jitter: is not a known key here; write `jitter_cycles`"},
      {head + "outstanding: {kind: prt, kind: mshr}", "d.yaml:2: outstanding.kind: stands twice;"},
      {head + "memory_latency_cycles: {P7: 1}",
       "d.yaml:2: memory_latency_cycles.P7: is not a known key here; write `P1`"},
      {head + "memory_latency_cycles: {P1: -1}", "d.yaml:2: memory_latency_cycles.P1: is -1,"},
      {head + "caches: {L2: {partitions: {far_cycles: 200}}}", "d.yaml:2: caches.L2.partitions: lacks `index`;"},
      {head + "caches: {L2: {partitions: {index: {}, far_cycles: 2}}}",
       "d.yaml:2: caches.L2.partitions.index: lacks `kind`;"},
      {head + "caches: {L2: {partitions: {index: {kind: bits, bits: [7]}}}}",
       "d.yaml:2: caches.L2.partitions: lacks `far_cycles`;"},
      {head + "caches: {L2: {partitions: {index: {kind: bits, bits: [7], exercised_bits: [7]}, far_cycles: 2}}}",
       "d.yaml:2: caches.L2.partitions.index.exercised_bits: is told of the index of a cache"},
      {head + "caches: {L2: {partitions: {index: {kind: bits, bits: [7]}, far_cycles: 2, near: 2}}}",
       "d.yaml:2: caches.L2.partitions.near: is 2, not a whole number from 0 to 1;"},
      {head + "caches: {L2: {carveouts: [{onset_bytes: 4}]}}", "d.yaml:2: caches.L2.carveouts: lacks `carveout_kb`;"},
      {head + "caches: {L2: {carveouts: [{carveout_kb: 8, resident_bytes: [5, 4]}]}}",
       "d.yaml:2: caches.L2.carveouts.resident_bytes: is no interval;"},
      {head + "caches: {L2: {}}\npaths: {global: {tlbs: [L2]}}", "d.yaml:3: paths.global: lacks `caches`;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: []}}", "d.yaml:3: paths.global.caches: is empty;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L1]}}",
       "d.yaml:3: paths.global.caches: `L1` is not a cache of this description;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L2], tlbs: [L1TLB]}}",
       "d.yaml:3: paths.global.tlbs: `L1TLB` is not a cache of this description;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L2], tlbs: [L2]}}",
       "d.yaml:3: paths.global: names a cache twice;"},
      {head + "caches: {A: {}, B: {}, C: {}}\npaths: {global: {caches: [A, B, C]}}",
       "d.yaml:3: paths.global.caches: has 3 entries, where at most 2 fit;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L2], translated_from: L1}}",
       "d.yaml:3: paths.global.translated_from: `L1` is none of the data caches of this path;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L2], page_window_bytes: 4096}}",
       "d.yaml:3: paths.global.page_window_bytes: says when page tables are switched, but no TLB is there;"},
      {head + "caches: {L2: {}}\npaths: {global: {caches: [L2], memory_latency_cycles: {P1: fast}}}",
       "d.yaml:3: paths.global.memory_latency_cycles.P1: is fast,"},
      {head +
           "caches: {L2: {}}\ntextures: {T: {cache: L2, texel_bytes: 4, width: 8, height: 8, line_texels: {width: 4}}}",
       "d.yaml:3: textures.T.line_texels: lacks `height`;"},
      {head + "caches: {L2: {}}\ntextures: {T: {texel_bytes: 4, width: 8, height: 8}}\nevidence: {T: {line_texel: {}}}",
       "d.yaml:4: evidence.T.line_texel: is not a leaf of a texture; write `line_texels` or remove it"},
      {head + "caches: {L2: {}}\ntextures: {T: {texel_bytes: 4, width: 8, height: 8, cache: L1}}",
       "d.yaml:3: textures.T.cache: `L1` is not a cache of this description;"},
      {head + "caches: {L2: {}}\ntextures:\n  T: {cache: L2, texel_bytes: 4, width: 8, height: 8,\n    levels: "
              "[{width: 3, "
              "height: 4, order: morton}]}",
       "d.yaml:5: textures.T.levels: a tile of 3 x 4 has no Morton order"},
      {head + "caches: {L2: {}}\ntextures: {T: {cache: L2, texel_bytes: 4, width: 8, height: 8, levels: [{width: 4}]}}",
       "d.yaml:3: textures.T.levels: lacks `height`;"},
      {head + "caches: {L2: {}}\ntextures: {T: {cache: L2, texel_bytes: 400, width: 8, height: 8}}",
       "d.yaml:3: textures.T.texel_bytes: is 400, not a whole number from 1 to 64;"},
      {head + "code: {I: {levels: null}}", "d.yaml:2: code.I: lacks `piece_bytes`;"},
      {head + "code: {I: {piece_bytes: 8, levels: []}}", "d.yaml:2: code.I.levels: is empty;"},
      {head + "code: {I: {piece_bytes: 8, levels: [{fits_bytes: 8, cycles: 2}]}}",
       "d.yaml:2: code.I.levels: all levels but the last have `fits_bytes`"},
      {head +
           "code: {I: {piece_bytes: 8, levels: [{fits_bytes: 8, cycles: 2}, {fits_bytes: 8, cycles: 3}, {cycles: 4}]}}",
       "d.yaml:2: code.I.levels: fits no more than the level before it;"},
      {head + "code: {I: {piece_bytes: 8}}\nevidence: {I: {level: {}}}",
       "d.yaml:3: evidence.I.level: is not a leaf of a code; write `levels` or remove it"},
      {head + "evidence: {L1tex: {}}", "d.yaml:2: evidence.L1tex: is not a cache of this description;"},
      {head + "caches: {L2: {}}\nevidence: {L2: {line_byte: {}}}",
       "d.yaml:3: evidence.L2.line_byte: is not a leaf of a cache; write `line_bytes`"},
      {head + "caches: {L2: {}}\nevidence: {L2: {ways: {}}}", "d.yaml:3: evidence.L2.ways: lacks `status`;"},
      {head + "caches: {L2: {}}\nevidence: {L2: {ways: {status: sure}}}",
       "d.yaml:3: evidence.L2.ways.status: `sure` is not a status;"},
      {head + "caches: {L2: {}}\nevidence: {L2: {prediction: {agreement: 2}}}",
       "d.yaml:3: evidence.L2.prediction.agreement: is 2,"},
      {head + "device: {name: x\ncaches: {}\n", "d.yaml:3: this is not YAML ("},
      {head + "device: &a {name: x}", "d.yaml:2: anchors and aliases are not read;"},
      {head + "device: !!map {name: x}", "d.yaml:2: the tag tag:yaml.org,2002:map is not read;"},
      {head + "device: {name: \xff}", "d.yaml:2: holds bytes that are not UTF-8 text;"},
      {head + "\ndevice: {name: a\x04}", "d.yaml:3: holds bytes that are not UTF-8 text;"},
      {head + "device: " + std::string(100000, '['), "d.yaml:2: lists and maps are nested more than 64 deep;"},
      {head + "? [a]\n: 1", "d.yaml:2: a key must be a word;"},
      {head + "---\n" + head, "d.yaml:3: a second document begins;"},
  };
  for (const auto& [yaml, message_begins] : cases) {
    const std::string refusal = refusal_of(yaml);
    EXPECT_TRUE(refusal.starts_with(message_begins)) << yaml.substr(0, 200) << "\n" << refusal;
    EXPECT_NE(refusal.find(';'), std::string::npos) << refusal;
  }
}

TEST(DescriptionYaml, DamagedFilesAreRefusedOrReadNeverWorse) {
  const std::uint64_t seed = 31;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::string whole = to_yaml(everything());
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole.substr(0, random.below(2) == 0 ? whole.size() : random.below(whole.size()));
    for (std::uint64_t edits = random.below(4); edits > 0 && !damaged.empty(); --edits) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    }
    try {
      const DeviceDescription description = parse_description(damaged, "d.yaml");
      const std::string yaml = to_yaml(description);
      const DeviceDescription again = parse_description(yaml, "d.yaml");
      EXPECT_EQ(to_yaml(again), yaml);
      EXPECT_TRUE(again == description) << yaml;
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("d.yaml:")) << error.what();
    }
  }
}

TEST(DescriptionYaml, FilesThatCannotBeReadAreNamed) {
  for (const std::filesystem::path& file : {devices_folder() / "no_such_device.yaml", devices_folder()}) {
    try {
      static_cast<void>(read_description(file));
      FAIL() << file;
    } catch (const InputError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(file.string() + ": cannot be read;")) << error.what();
    }
  }
}

TEST(DescriptionYaml, WaysOfEqualSetsMayBeCounted) {
  const std::string begin = "schema: gpuinfer/1\ndevice: {name: one, source: test}\ncaches:\n  L1tex: {ways: ";
  EXPECT_EQ(parse_description(begin + "{sets: 3, each: 4}}\n", "d.yaml"),
            parse_description(begin + "[4, 4, 4]}\n", "d.yaml"));
  EXPECT_THROW(static_cast<void>(parse_description(begin + "{sets: 67108864, each: 4}}\n", "d.yaml")), InputError);
  EXPECT_THROW(static_cast<void>(parse_description(begin + "{sets: 3}}\n", "d.yaml")), InputError);
}

TEST(DescriptionYaml, ReadsTableOfAMillionGranules) {
  DeviceDescription description;
  TableIndex table{.granule_bytes = 128, .sets_of = {}, .origin = 0, .range_bytes = {}};
  for (std::uint32_t i = 0; i < 1000000; ++i) {
    table.sets_of.push_back(i * 2654435761U >> 22U);
  }
  description.caches["L2"].index = table;
  EXPECT_EQ(parse_description(to_yaml(description), "d.yaml"), description);
}

}  // namespace
}  // namespace gpuinfer::model
