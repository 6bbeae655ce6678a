// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cli/leaf_table.hpp"
#include "cli/paper_figures.hpp"
#include "cli/published_points.hpp"
#include "cli/report/chart_drawing.hpp"
#include "cli/report/evidence_html.hpp"
#include "cli/report/figure.hpp"
#include "cli/report/key_figures.hpp"
#include "cli/report/machine_drawing.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/overview_figures.hpp"
#include "cli/report/page.hpp"
#include "cli/report/paper_charts.hpp"
#include "cli/report/policy_figures.hpp"
#include "cli/report/set_map.hpp"
#include "cli/report/slice_map.hpp"
#include "cli/report/state_graph.hpp"
#include "cli/report/thread_figures.hpp"
#include "cli/report/trace_figures.hpp"
#include "cli/simulate_figure.hpp"
#include "model/cache_simulator.hpp"
#include "model/description_yaml.hpp"
#include "model/random.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::cli::report {
namespace {

using Points = std::vector<std::array<double, 2>>;

// Two sets, by bit 5, of two lines of 32 bytes each.
model::CacheDescription small_cache() {
  model::CacheDescription cache;
  cache.capacity_bytes = 128;
  cache.line_bytes = 32;
  cache.sector_bytes = 32;
  cache.ways = {2, 2};
  cache.index = model::BitsIndex{{5}};
  cache.replacement = model::Replacement{.policy = "lru", .parameters = {}, .equivalent = {}};
  cache.latency_cycles = {.hit = 30, .miss = 200};
  return cache;
}

model::Trace chase(std::uint64_t array_bytes, std::uint64_t stride_bytes, std::vector<float> latency_cycles) {
  model::Trace trace;
  trace.name = "chase";
  trace.question = {.target = "L1tex",
                    .state = model::StartState::clean,
                    .warm = model::cyclic(array_bytes, stride_bytes, array_bytes / stride_bytes),
                    .record = model::cyclic(array_bytes, stride_bytes, latency_cycles.size())};
  trace.latency_cycles = std::move(latency_cycles);
  return trace;
}

Traces traces_of(const std::vector<model::Trace>& traces) {
  Traces all;
  for (const model::Trace& trace : traces) {
    all.add(trace);
  }
  return all;
}

const Series& series_named(const Figure& figure, const std::string& name) {
  const auto& series = figure.chart->series;
  const auto found = std::find_if(series.begin(), series.end(), [&](const Series& each) { return each.name == name; });
  EXPECT_NE(found, series.end()) << name;
  return *found;
}

TEST(Markup, TextOfFilesCannotEndATag) {
  EXPECT_EQ(escaped("</script><b a='x' b=\"y\">&"), "&lt;/script&gt;&lt;b a=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
}

TEST(Markup, WhatXmlCannotHoldIsReplaced) {
  EXPECT_EQ(escaped("a\x01z\tb"), "a\xEF\xBF\xBDz\tb");
  EXPECT_EQ(escaped("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(escaped("K\xC3\xBChler"), "K\xC3\xBChler");
}

TEST(Markup, NumbersAreGroupedAndShort) {
  EXPECT_EQ(number_text(1234567), "1,234,567");
  EXPECT_EQ(number_text(23.047), "23.047");
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(-2), "-2");
}

TEST(Chart, ItsTableHasARowForEachX) {
  Chart chart{.x = {.title = "x"}, .y = {.title = "cycles"}};
  chart.series = {{.name = "a", .shape = Series::Shape::line, .role = Role::other, .points = {{1, 10}, {3, 30}}},
                  {.name = "b", .shape = Series::Shape::line, .role = Role::other, .points = {{3, 33.5}}}};
  const Table table = table_of(chart);
  EXPECT_EQ(table.head, (std::vector<std::string>{"x", "a, cycles", "b, cycles"}));
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"1", "10", ""}, {"3", "30", "33.5"}}));
}

TEST(Chase, IsRecognisedAnywhereInALap) {
  const auto found = chase_of({64, 96, 32, 64, 96, 32});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 32U);
  EXPECT_EQ(found->stride_bytes, 32U);
  EXPECT_EQ(found->places, 3U);
  EXPECT_EQ(chase_of({96, 32, 64})->places, 3U);
  EXPECT_FALSE(chase_of({}));
  EXPECT_FALSE(chase_of({5}));
  EXPECT_FALSE(chase_of({5, 5}));
  EXPECT_FALSE(chase_of({96, 32}));
  EXPECT_FALSE(chase_of({0, 32, 96}));
  EXPECT_FALSE(chase_of({0, 32, 64, 32}));
  EXPECT_FALSE(chase_of({0, 32, 64, 0, 32, 0})) << "a lap that ends early";
}

TEST(Chase, IsWarmedWhereEveryPlaceWasLoadedBefore) {
  model::Trace trace = chase(160, 32, {30, 30, 30, 30, 30});
  const auto is_warmed_by = [&](const model::AccessSequence& warm) {
    trace.question.warm = warm;
    return warmed_chase(trace).has_value();
  };
  EXPECT_TRUE(is_warmed_by({0, 32, 64, 96, 128}));
  EXPECT_TRUE(is_warmed_by({128, 96, 64, 32, 0}));
  EXPECT_TRUE(is_warmed_by({64, 96, 128, 160, 192, 4, 0, 0, 32}));
  EXPECT_FALSE(is_warmed_by({0, 32, 64, 96}));
  EXPECT_FALSE(is_warmed_by({0, 32, 64, 96, 96, 160}));
  EXPECT_FALSE(is_warmed_by({4, 36, 68, 100, 132}));
  EXPECT_FALSE(is_warmed_by({}));
}

// With LRU a set that holds fewer lines than come in turn hits none of them: 5 lines are 3 and 2 in the two sets, 6 are
// 3 and 3.
TEST(MissCurve, OfASmallLruCacheIsAsCountedByHand) {
  const MissCurve curve = simulated_misses(small_cache(), 32, {96, 128, 160, 192}, {.before = 10, .counted = 2});
  EXPECT_EQ(curve.points, (Points{{96, 0}, {128, 0}, {160, 60}, {192, 100}}));
}

TEST(MissCurve, NeedsACompleteDescription) {
  model::CacheDescription cache = small_cache();
  cache.replacement.reset();
  EXPECT_ANY_THROW((void)simulated_misses(cache, 32, {128}, {.before = 10, .counted = 2}));
  const model::Trace trace = chase(160, 32, {30, 200, 30, 200, 30});
  const auto figure = miss_curve_figure(cache, traces_of({trace}), cache.latency_cycles);
  EXPECT_FALSE(figure) << "one array is no curve";
}

TEST(MissCurve, IsSimulatedStepByStepWhereMissesBegin) {
  const auto figure = miss_curve_figure(small_cache(), {}, {});
  ASSERT_TRUE(figure);
  const Points& points = series_named(*figure, "simulated").points;
  for (const std::array<double, 2>& expected : Points{{128, 0}, {160, 60}, {192, 100}}) {
    EXPECT_NE(std::find(points.begin(), points.end(), expected), points.end()) << expected[0];
  }
}

TEST(MissCurve, OfACacheThatIsTooLargeIsNotSimulated) {
  model::CacheDescription cache = small_cache();
  cache.capacity_bytes = std::uint64_t{1} << 40U;
  EXPECT_FALSE(miss_curve_figure(cache, {}, {}));
}

// Where hits and misses overlap, shares of misses would be shares of misreadings.
TEST(MissCurve, LeavesOutWhatDoesNotTellMisses) {
  const std::vector<model::Trace> traces{chase(128, 32, {110, 115, 115, 110}),
                                         chase(160, 32, {115, 110, 115, 110, 110}),
                                         chase(192, 32, std::vector<float>(12, 115))};
  const Traces all = traces_of(traces);
  const auto figure = miss_curve_figure(small_cache(), all, {.hit = 105, .miss = 125});
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->chart->series.size(), 1U);
  EXPECT_NE(figure->note.find("is left out"), std::string::npos) << figure->note;
}

TEST(MissCurve, IsMeasuredWhereChasesWereWarmed) {
  model::Trace cold = chase(224, 32, std::vector<float>(7, 200));
  cold.question.warm.clear();
  const std::vector<model::Trace> traces{chase(128, 32, {30, 31, 29, 30}), chase(160, 32, {200, 30, 30, 30, 201}),
                                         chase(192, 32, std::vector<float>(12, 200)), cold, chase(128, 64, {30, 30})};
  const Traces all = traces_of(traces);
  const auto curve = measured_misses(all, small_cache().latency_cycles);
  ASSERT_TRUE(curve);
  EXPECT_EQ(curve->stride_bytes, 32U);
  EXPECT_EQ(curve->points, (Points{{128, 0}, {160, 40}, {192, 100}}));
}

TEST(MissCurve, BeginsALittleBelowTheKnee) {
  std::vector<model::Trace> traces;
  for (const std::uint64_t lines : std::initializer_list<std::uint64_t>{2, 4, 8, 16, 32, 64}) {
    traces.push_back(chase(lines * 32, 32, std::vector<float>(lines, lines < 64 ? 30 : 200)));
  }
  model::CacheDescription cache = small_cache();
  cache.capacity_bytes.reset();
  const auto figure = miss_curve_figure(cache, traces_of(traces), cache.latency_cycles);
  ASSERT_TRUE(figure);
  EXPECT_EQ(series_named(*figure, "measured").points, (Points{{256, 0}, {512, 0}, {1024, 0}, {2048, 100}}));
  EXPECT_NE(figure->note.find("arrays measured: 6, of which 2 smaller ones, all without a miss, are left out"),
            std::string::npos)
      << figure->note;
}

// A policy that takes laps to settle misses otherwise in its first ones.
TEST(MissCurve, IsSimulatedInTheLapsThatWereRecorded) {
  model::CacheDescription cache = small_cache();
  cache.replacement->policy = "plru";
  cache.ways = {4, 4};
  cache.capacity_bytes = 256;
  for (const std::size_t before : {1U, 2U, 5U}) {
    SCOPED_TRACE(before);
    const auto simulator = model::CacheSimulator::make(cache, 1);
    std::vector<model::Trace> traces;
    for (const std::uint64_t lines : std::initializer_list<std::uint64_t>{8, 9, 10, 11}) {
      model::Trace trace = chase(lines * 32, 32, std::vector<float>(lines));
      trace.question.warm = model::cyclic(lines * 32, 32, before * lines);
      const std::vector<model::Outcome> outcomes = outcomes_of(*simulator, trace.question, {});
      std::ranges::transform(outcomes, trace.latency_cycles.begin(),
                             [](model::Outcome outcome) { return is_miss(outcome) ? 200.0F : 30.0F; });
      traces.push_back(std::move(trace));
    }
    const auto figure = miss_curve_figure(cache, traces_of(traces), cache.latency_cycles);
    ASSERT_TRUE(figure);
    const Points& simulated = series_named(*figure, "simulated").points;
    for (const std::array<double, 2>& point : series_named(*figure, "measured").points) {
      EXPECT_NE(std::find(simulated.begin(), simulated.end(), point), simulated.end()) << point[0];
    }
  }
}

TEST(MissCurve, ShowsAllWhereNothingMisses) {
  std::vector<model::Trace> traces;
  for (const std::uint64_t lines : std::initializer_list<std::uint64_t>{2, 4, 8, 16, 32, 64}) {
    traces.push_back(chase(lines * 32, 32, std::vector<float>(lines, 30)));
  }
  model::CacheDescription cache = small_cache();
  cache.capacity_bytes.reset();
  const auto figure = miss_curve_figure(cache, traces_of(traces), cache.latency_cycles);
  ASSERT_TRUE(figure);
  EXPECT_EQ(series_named(*figure, "measured").points.size(), 6U);
  EXPECT_EQ(figure->note.find("left out"), std::string::npos) << figure->note;
}

// Five lines are 0, 2, 4 in one set of two and 1, 3 in the other; of six and more none stays.
TEST(MissPattern, HasAMarkForEachRunOfMisses) {
  const auto figure = miss_pattern_figure(small_cache());
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->table.rows.at(0), (std::vector<std::string>{"128", "4", "0", ""}));
  EXPECT_EQ(figure->table.rows.at(1), (std::vector<std::string>{"160", "5", "3", "0 2 4"}));
  EXPECT_EQ(figure->table.rows.at(2), (std::vector<std::string>{"192", "6", "6", "0 1 2 3 4 5"}));
  const std::string svg = figure->drawing->svg("");
  const std::size_t begin = svg.find("<path d=");
  const std::string marks = svg.substr(begin, svg.find("/>", begin) - begin);
  EXPECT_EQ(std::ranges::count(marks, 'M'), 3 + 15) << "three of five lines, and one for each of the other rows";
  EXPECT_NE(svg.find(">160 B<"), std::string::npos);
}

TEST(Latency, TheHistogramSaysWhatCountsAsAHit) {
  std::vector<float> latencies(200, 30);
  latencies.insert(latencies.end(), 200, 200);
  const auto note_of = [&](const std::vector<float>& cycles, const model::LatencyCycles& guide) {
    return latency_histogram(traces_of({chase(1024, 32, cycles)}), guide)->note;
  };
  EXPECT_NE(note_of(latencies, {.hit = 30, .miss = 200}).find("A hit takes up to 115 cycles"), std::string::npos);
  EXPECT_NE(note_of(latencies, {.hit = 30, .miss = {}}).find("hits (median 30 cycles) from misses (200)"),
            std::string::npos);
  const std::vector<float> of_one_level(400, 30);
  EXPECT_NE(note_of(of_one_level, {.hit = 30, .miss = {}}).find("One level shows, with a median of 30 cycles"),
            std::string::npos);
}

TEST(Latency, TheHistogramCountsEachLoadOnce) {
  std::vector<float> latencies(6000, 30);
  for (std::size_t i = 0; i < latencies.size(); i += 4) {
    latencies[i] = 200;
  }
  latencies[1] = 5000;  // no level
  const model::Trace trace = chase(1024, 32, latencies);
  const auto figure = latency_histogram(traces_of({trace}), small_cache().latency_cycles);
  ASSERT_TRUE(figure);
  EXPECT_NE(figure->note.find("all 6,000 loads in 1 recorded sequences, 2 cycles a bin; loads beyond the axis: 1."),
            std::string::npos)
      << figure->note;
  EXPECT_EQ(figure->table.rows.front(), (std::vector<std::string>{"30", "4,499", "0", "0"}));
  EXPECT_EQ(figure->table.rows.back(), (std::vector<std::string>{"200", "0", "1,500", "0"}));
  // Shares of its kind: all hits in the first bin, all misses in the last one.
  EXPECT_EQ(series_named(*figure, "4,499 hits").points.front(), (std::array<double, 2>{30, 100}));
  const Points& misses = series_named(*figure, "1,500 misses").points;
  EXPECT_EQ(misses.at(misses.size() - 2), (std::array<double, 2>{200, 100}));
  EXPECT_FALSE(latency_histogram({}, {}));
}

TEST(SetMap, ListsTheLinesOfEachSet) {
  model::CacheDescription cache = small_cache();
  cache.ways = {3, 1};
  const auto array = placed_array(cache, 100);
  ASSERT_TRUE(array);
  EXPECT_TRUE(array->is_whole);
  EXPECT_EQ(array->set_of, (std::vector<std::uint32_t>{0, 1, 0, 1}));
  const auto figure = set_map_figure(cache);
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->table.rows,
            (std::vector<std::vector<std::string>>{{"0", "3", "2", "0 2"}, {"1", "1", "2", "1 3"}}));
  EXPECT_FALSE(placed_array(cache, 3)->is_whole);
  cache.index.reset();
  EXPECT_FALSE(placed_array(cache, 100));
}

// What fits is what was found to fit, not what there are tags for.
TEST(SetMap, CountsTheLinesThatFit) {
  model::CacheDescription cache = small_cache();
  cache.onset_bytes = 96;
  EXPECT_EQ(placed_array(cache, 100)->set_of.size(), 3U);
  EXPECT_NE(set_map_figure(cache)->note.find("All 3 lines"), std::string::npos) << set_map_figure(cache)->note;
}

TEST(SetMap, LinesPerSetAndSetsPerStrideAreCountedByTheIndex) {
  model::CacheDescription cache = small_cache();
  cache.onset_bytes = 96;
  const auto lines = lines_per_set_figure(cache);  // lines 0 and 2 in set 0, line 1 in set 1
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->chart->categories, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(series_named(*lines, "sets").points, (Points{{0, 0}, {1, 1}, {2, 1}, {3, 0}}));
  const auto strides = stride_figure(cache);
  ASSERT_TRUE(strides);
  const Points& points = series_named(*strides, "sets").points;
  EXPECT_EQ(points.at(0), (std::array<double, 2>{32, 2}));
  EXPECT_EQ(points.at(1), (std::array<double, 2>{64, 1}));
  EXPECT_EQ(points.back(), (std::array<double, 2>{67108864, 1}));
}

// A B C D, then A and C again, then new lines: LRU evicts B, D, A, C and begins anew.
TEST(Eviction, OfLruIsAsPlayedByHand) {
  model::CacheDescription cache = small_cache();
  cache.ways = {4};
  const auto figure = eviction_figure(cache);
  ASSERT_TRUE(figure);
  std::string hits;
  std::string left;
  for (const std::vector<std::string>& row : figure->table.rows) {
    hits += row.at(2) == "hit" ? row.at(1) : "";
    left += row.at(4);
  }
  EXPECT_EQ(hits, "AC");
  EXPECT_EQ(left, "BDACEF");
  cache.ways = {16};
  EXPECT_EQ(eviction_figure(cache)->table.rows.back().at(1), "h") << "the 34th line";
  cache.ways = {4};
  EXPECT_NE(figure->note.find("4 ways"), std::string::npos);
  EXPECT_NE(figure->note.find("6 new lines"), std::string::npos);
  cache.replacement = model::Replacement{.policy = "random", .parameters = {}, .equivalent = {}};
  EXPECT_FALSE(eviction_figure(cache));
}

model::Replacement policy(const std::string& name, std::map<std::string, model::PolicyParameter> parameters = {}) {
  return {.policy = name, .parameters = std::move(parameters), .equivalent = {}};
}

TEST(States, OfFifoAreTheWaysInTurn) {
  const auto states = full_set_states(policy("fifo"), 3, 10);
  ASSERT_TRUE(states);
  ASSERT_EQ(states->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(states->at(i).victim, i);
    EXPECT_EQ(states->at(i).after_miss, (i + 1) % 3);
    EXPECT_EQ(states->at(i).after_hit, std::vector<std::size_t>(3, i));
  }
  EXPECT_FALSE(full_set_states(policy("fifo"), 3, 2));
}

// A walk by the states is one of the set, and all states of LRU are the orders of its ways.
TEST(States, GoWhereTheSetGoes) {
  const std::map<std::string, model::PolicyParameter> machine{
      {"hits", std::vector<std::vector<double>>{{1, 0, 0}, {2, 1, 0}, {0, 0, 2}}},
      {"victims", std::vector<double>{2, 0, 1}},
      {"misses", std::vector<double>{1, 2, 0}}};
  const std::vector<std::pair<model::Replacement, std::size_t>> policies{
      {policy("lru"), 6}, {policy("plru"), 8}, {policy("automaton", machine), 3}};
  for (const auto& [replacement, count] : policies) {
    SCOPED_TRACE(replacement.policy);
    const std::uint32_t ways = replacement.policy == "plru" ? 4 : 3;
    const auto states = full_set_states(replacement, ways, 100);
    ASSERT_TRUE(states);
    EXPECT_EQ(states->size(), count);
    model::SetMachine set(replacement, ways);
    while (set.filled() < ways) {
      set.miss();
    }
    model::Random random(7);
    std::size_t state = 0;
    for (int step = 0; step < 1000; ++step) {
      const auto input = static_cast<std::uint32_t>(random.below(ways + 1));
      if (input == ways) {
        ASSERT_EQ(set.miss(), states->at(state).victim);
        state = states->at(state).after_miss;
      } else {
        set.hit(input);
        state = states->at(state).after_hit.at(input);
      }
    }
  }
}

TEST(States, AreDrawnWithAnArrowForEachStep) {
  model::CacheDescription cache = small_cache();
  cache.replacement = policy("plru");
  cache.ways = {4, 4};
  const auto figure = state_figure(cache);
  ASSERT_TRUE(figure && figure->drawing);
  EXPECT_EQ(figure->table.rows.size(), 8U);
  std::set<std::pair<std::string, std::string>> steps;
  for (const std::vector<std::string>& row : figure->table.rows) {
    for (std::size_t column = 2; column < row.size(); ++column) {
      if (row[column] != row[0]) {
        steps.insert({row[0], row[column]});
      }
    }
  }
  const std::string svg = figure->drawing->svg("");
  std::size_t paths = 0;
  for (std::size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1)) {
    ++paths;
  }
  EXPECT_EQ(paths, 2 * steps.size()) << "a line and a tip for each";
  EXPECT_NE(figure->note.find("plru with 4 ways as a machine of 8 states"), std::string::npos) << figure->note;
  cache.replacement = policy("automaton", {{"hits", std::vector<std::vector<double>>(100, {0, 1, 2, 3})},
                                           {"victims", std::vector<double>(100)},
                                           {"misses", std::vector<double>(100)}});
  EXPECT_LT(eviction_figure(cache)->note.size(), 250U) << "a caption names a policy, but not its tables";
  cache.replacement = policy("lru");
  const auto listed = state_figure(cache);
  ASSERT_TRUE(listed);
  EXPECT_FALSE(listed->drawing) << "24 states";
  EXPECT_EQ(listed->table.rows.size(), 24U);
  cache.replacement = policy("random");
  EXPECT_FALSE(state_figure(cache));
}

TEST(Victims, HaveTheSharesOfThePolicy) {
  model::CacheDescription cache = small_cache();
  EXPECT_FALSE(victim_figure(cache));
  cache.ways = {4, 4};
  cache.replacement = model::Replacement{.policy = "weighted_random",
                                         .parameters = {{"victim_weights", std::vector<double>{1, 3, 1, 1}}},
                                         .equivalent = {}};
  const auto figure = victim_figure(cache);
  ASSERT_TRUE(figure);
  const Points& points = series_named(*figure, "share").points;
  ASSERT_EQ(points.size(), 4U);
  EXPECT_NEAR(points[0][1], 100.0 / 6, 1e-9);
  EXPECT_NEAR(points[1][1], 50, 1e-9);
}

// As the same loads on a simulator that is asked anew, from the start, for each line after each load.
TEST(Store, TheEvictedLinesAreThoseOfTheSimulator) {
  model::CacheDescription cache = small_cache();
  cache.ways = std::vector<std::uint32_t>(8, 2);
  cache.index = model::BitsIndex{{5, 6, 7}};
  cache.replacement = model::Replacement{.policy = "resetting_slru", .parameters = {}, .equivalent = {}};
  cache.store_lines = 8;
  cache.sweep = model::Sweep{.banks = 2, .lines_on_hit = 1, .lines_on_replacement = 1, .lines_on_fill = 2};
  const auto figure = store_figure(cache);
  ASSERT_TRUE(figure);
  EXPECT_NE(figure->note.find("2 banks, each with 8 tags for a store of 4 lines"), std::string::npos) << figure->note;
  ASSERT_FALSE(figure->table.rows.empty());
  // As many lines are there at the end as came and did not go.
  const std::size_t accesses = 8 + 140;
  EXPECT_NE(figure->note.find("148 loads"), std::string::npos) << figure->note;
  const std::size_t at = figure->note.find("which evict ") + 12;
  const std::size_t gone = std::stoul(figure->note.substr(at));
  EXPECT_LE(accesses - gone, 8U);
  EXPECT_GE(accesses - gone, 1U);
}

TEST(Levels, OneCacheOfTwoPathsIsOneLevel) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  profile.caches["ReadOnly"] = small_cache();
  EXPECT_EQ(levels_of(profile).size(), 2U);
  profile.caches["L1tex"].shared_with = {"ReadOnly"};
  profile.caches["ReadOnly"].shared_with = {"L1tex"};
  const std::vector<Level> levels = levels_of(profile);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[1].name, "Next level");
  EXPECT_EQ(levels[0].name, "L1tex, ReadOnly");
  EXPECT_EQ(key_figures(levels).rows.at(0),
            (std::vector<std::string>{"L1tex, ReadOnly", "128 B", "32 B", "2 x 2", "lru", "30", "", "", ""}));
}

TEST(Levels, HaveMemoryWhereSomethingIsKnownOfIt) {
  model::DeviceDescription profile;
  profile.caches["L2"] = small_cache();
  const std::vector<Level> levels = levels_of(profile);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[1].name, "Memory");
  EXPECT_EQ(levels[1].hit_cycles, small_cache().latency_cycles.miss);
}

TEST(Levels, HaveMemoryBehindTheOutermostCache) {
  model::DeviceDescription profile;
  profile.caches["L2"] = small_cache();
  profile.caches["L3"] = small_cache();
  profile.caches["L3"].latency_cycles = {.hit = 200, .miss = 500};
  EXPECT_EQ(levels_of(profile).at(2).hit_cycles, 500);
}

TEST(Levels, MemoryHasTheLatencyOfThePatternWhereMissesDoNotTell) {
  model::DeviceDescription profile;
  profile.caches["L2"].latency_cycles.hit = 282;
  profile.memory_latency_cycles = model::PatternLatencyCycles{285, 294, {}, 662, 1492, {}};
  EXPECT_EQ(levels_of(profile).back().name, "Memory");
  EXPECT_EQ(levels_of(profile).back().hit_cycles, 662);
  profile.caches["L2"].latency_cycles.miss = 700;
  EXPECT_EQ(levels_of(profile).back().hit_cycles, 700);
}

TEST(Levels, OfOneCacheAloneSayWhatAMissCosts) {
  model::DeviceDescription profile;
  profile.caches["L1D"] = small_cache();
  const std::vector<Level> levels = levels_of(profile);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[1].name, "Next level");
  EXPECT_EQ(levels[1].hit_cycles, 200);
  // Of two caches, their misses may end in different ones.
  profile.caches["L1tex"] = small_cache();
  EXPECT_EQ(levels_of(profile).size(), 2U);
  EXPECT_EQ(levels_of(profile).back().name, "L1D");
}

TEST(Levels, HaveTheSizeThatADriverTellsAsANumber) {
  model::DeviceDescription profile;
  profile.caches["L2"].latency_cycles.hit = 200;
  EXPECT_EQ(levels_of(profile).at(0).size, "");
  profile.device.provenance["l2_bytes"] = "62914560";
  EXPECT_EQ(levels_of(profile).at(0).size, "60 MiB by its driver");
  profile.device.provenance["L2.l2_bytes"] = "not known";
  EXPECT_EQ(levels_of(profile).at(0).size, "");
}

TEST(Levels, SayOnlyWhatIsNotVerified) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  auto& leaves = profile.evidence["L1tex"].leaves;
  leaves["ways"].status = model::EvidenceStatus::resolved;
  EXPECT_TRUE(levels_of(profile)[0].unverified.empty());
  leaves["index"].status = model::EvidenceStatus::unknown;
  leaves["replacement"].status = model::EvidenceStatus::ambiguous;
  EXPECT_EQ(words(levels_of(profile)[0].unverified), "ambiguous: policy; unknown: index");
}

// What the caption says of areas.
TEST(Machine, AreasGrowWithTheLogarithmOfTheCapacity) {
  EXPECT_DOUBLE_EQ(area_of(4096) / area_of(512), 4.0);
  EXPECT_DOUBLE_EQ(area_of(std::uint64_t{64} << 20U) - area_of(std::uint64_t{32} << 20U), area_of(1024) - area_of(512));
}

TEST(Machine, HasTheNumbersOfTheProfile) {
  model::DeviceDescription profile;
  profile.device.sm_count = 17;
  profile.caches["L1tex"] = small_cache();
  profile.caches["L2"] = small_cache();
  profile.caches["L2"].latency_cycles = {.hit = 211, .miss = 433};
  profile.bandwidth["L2_load"].best =
      model::ElementBandwidth{.element_bits = 32, .bytes_per_second = 7e12, .elements_per_sm_clock = 9};
  const std::string svg = machine_drawing(profile, levels_of(profile)).svg("");
  for (const char* const text :
       {">one of 17 SMs<", ">30 cycles<", ">211 cycles<", ">433 cycles<", ">36 B/clk per SM<", ">7,000 GB/s<"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find(">?<"), std::string::npos) << "nothing is marked";
  profile.evidence["L2"].leaves["index"].status = model::EvidenceStatus::unknown;
  EXPECT_NE(machine_drawing(profile, levels_of(profile)).svg("").find(">?<"), std::string::npos);
}

TEST(Machine, HasTheHalvesOfAnL2WithTheirSlices) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  model::CacheDescription& l2 = profile.caches["L2"];
  l2 = small_cache();
  l2.capacity_bytes = std::uint64_t{64} << 20U;
  l2.partitions =
      model::Partitions{.index = model::XorIndex{.row_masks = {1U << 12U}, .constant = 0}, .far_cycles = 170};
  const auto slices_drawn = [&] {
    const std::string svg = machine_drawing(profile, levels_of(profile)).svg("");
    EXPECT_NE(svg.find(">+170 cycles<"), std::string::npos);
    std::size_t count = 0;
    for (std::size_t at = svg.find(">19 slices<"); at != std::string::npos; at = svg.find(">19 slices<", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(slices_drawn(), 0U);
  l2.slices = 38;
  EXPECT_EQ(slices_drawn(), 2U);
}

TEST(Machine, NamesTheUnitOfWaysOnce) {
  model::DeviceDescription profile;
  profile.caches["L1TLB"] = small_cache();
  const auto svg = [&] { return machine_drawing(profile, levels_of(profile)).svg(""); };
  EXPECT_NE(svg().find(">2 x 2 ways, lru<"), std::string::npos);
  profile.caches["L1TLB"].ways = {3, 1};
  EXPECT_NE(svg().find(">2 sets of 3, 1 ways, lru<"), std::string::npos);
}

TEST(Footprint, StepsAreTheHitLatenciesOfTheLevels) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  profile.caches["L1tex"].onset_bytes = 4096;
  profile.caches["L2"] = small_cache();
  profile.caches["L2"].capacity_bytes = 65536;
  profile.caches["L2"].latency_cycles = {.hit = 200, .miss = 400};
  EXPECT_EQ(footprint_steps(profile), (Points{{1024, 30}, {4096, 200}, {65536, 400}, {262144, 400}}));
  Recording recording;
  recording.traces = {chase(64, 32, {30, 32}), chase(128, 32, {100, 300, 100, 300}), chase(8192, 4096, {1, 1})};
  Measurements measurements;
  measurements.add(recording, {"L1tex"});
  const auto figure = footprint_figure({{.name = "x", .profile = &profile}}, measurements);
  ASSERT_TRUE(figure);
  EXPECT_EQ(series_named(*figure, "L1tex, measured").points, (Points{{64, 31}, {128, 200}}));
  const model::DeviceDescription other;
  const auto both = footprint_figure({{.name = "x", .profile = &profile}, {.name = "y", .profile = &other}}, {});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->chart->series.at(0).name, "x");
  EXPECT_EQ(both->chart->series.at(1).name, "y (not known)");
  EXPECT_FALSE(footprint_figure({{.name = "y", .profile = &other}, {.name = "z", .profile = &other}}, {}));
}

TEST(Footprint, BehindTheLastLevelAMissTakesItsLatency) {
  model::DeviceDescription profile;
  profile.caches["L1D"] = small_cache();
  profile.caches["L1D"].onset_bytes = 4096;
  EXPECT_EQ(footprint_steps(profile), (Points{{1024, 30}, {4096, 200}, {16384, 200}}));
}

TEST(Footprint, LoadsTakeTheDataCacheApartFromTheTexturePath) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  profile.caches["L1D"] = small_cache();
  profile.caches["L1D"].latency_cycles.hit = 20;
  EXPECT_EQ(footprint_steps(profile).at(0), (std::array<double, 2>{1024, 20}));
  profile.caches["ReadOnly"] = small_cache();
  profile.caches["L1D"].shared_with = {"ReadOnly"};
  profile.caches["ReadOnly"].shared_with = {"L1D"};
  EXPECT_EQ(footprint_steps(profile).at(0), (std::array<double, 2>{1024, 20}));
}

TEST(SmMap, HasEachSmInItsGroup) {
  const auto figure = sm_map_figure("SMs that share one", {{model::ComputeUnit{0}, model::ComputeUnit{2}},
                                                           {model::ComputeUnit{1}, model::ComputeUnit{3}}});
  ASSERT_TRUE(figure);
  EXPECT_NE(figure->note.find("2 groups"), std::string::npos);
  EXPECT_EQ(figure->table.rows.at(1), (std::vector<std::string>{"1", "1 3", "2"}));
  EXPECT_FALSE(sm_map_figure("", {}));
}

TEST(SliceMap, HasTheCyclesOfEachGroupNextToTheOneMostLikeIt) {
  model::CacheDescription cache;
  EXPECT_FALSE(slice_map_figure(cache));
  const auto sm = [](std::uint32_t number) { return model::ComputeUnits{model::ComputeUnit{number}}; };
  cache.slice_distances = {.sms = {sm(0), sm(1), sm(2)},
                           .cycles = {{250, 300, 260}, {450, 500, 460}, {252, 300, 262}},
                           .mean_cycles = {270, 470, 271}};
  const auto figure = slice_map_figure(cache);
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->table.rows.at(1), (std::vector<std::string>{"1", "1", "470", "450 500 460"}));
  EXPECT_NE(figure->note.find("in each of 3 slices"), std::string::npos);
  EXPECT_NE(figure->note.find("270 to 470 cycles"), std::string::npos);
  const std::string svg = figure->drawing->svg("");
  EXPECT_LT(svg.find("group 0"), svg.find("group 2"));
  EXPECT_LT(svg.find("group 2"), svg.find("group 1"));
  // Nine cells of twelve shades; the legend says where each ends.
  const std::regex cell("M[0-9.]+ ");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), cell), std::sregex_iterator()), 9);
  EXPECT_NE(svg.find("to 500"), std::string::npos);
}

// Each value lies where the axis says: the pixels of the path, read back by the numbers for pages.
TEST(DrawnChart, ALongLegendTakesNothingFromTheChart) {
  Chart chart{.x = {.title = "x"}, .y = {.title = "y"}};
  chart.series.assign(2, {.name = "short", .points = {{0, 0}, {1, 1}}});
  const double height = draw(chart).drawing.height();
  chart.series.assign(5, {.name = "a name that fills a row of the legend by itself", .points = {{0, 0}, {1, 1}}});
  EXPECT_EQ(draw(chart).drawing.height(), height + 4 * 20);
}

TEST(DrawnChart, PointsLieWhereTheAxesSay) {
  const Chart chart{.x = {.title = "array, bytes", .scale = Scale::log2, .unit = AxisUnit::bytes},
                    .y = {.title = "cycles"},
                    .series = {{.name = "a",
                                .shape = Series::Shape::points,
                                .role = Role::other,
                                .points = {{1024, 0}, {2048, 50}, {4096, 100}}}}};
  const DrawnChart drawn = draw(chart);
  std::string scale;
  double from = 0;
  double to = 0;
  double left = 0;
  double right = 0;
  std::istringstream(drawn.x_places) >> scale >> from >> to >> left >> right;
  EXPECT_EQ(scale, "log2");
  EXPECT_EQ(from, 1024);
  EXPECT_EQ(to, 4096);
  const std::string svg = drawn.drawing.svg("");
  const std::size_t d = svg.find("d=\"M") + 4;
  std::array<std::array<double, 2>, 3> places{};
  ASSERT_EQ(std::sscanf(svg.c_str() + d, "%lf %lfh0M%lf %lfh0M%lf %lfh0", &places[0][0], &places[0][1], &places[1][0],
                        &places[1][1], &places[2][0], &places[2][1]),
            6);
  EXPECT_NEAR(places[0][0], left, 0.1);
  EXPECT_NEAR(places[1][0], (left + right) / 2, 0.1);
  EXPECT_NEAR(places[2][0], right, 0.1);
  EXPECT_NEAR(places[0][1] - places[1][1], places[1][1] - places[2][1], 0.2);
}

// What converters of SVG know, and no style sheet.
TEST(Drawing, NeedsNoStyleSheet) {
  Drawing drawing;
  drawing.box(0, 0, 10, 10, {.fill = Colour::fill, .stroke = Colour::edge});
  drawing.text(5, 5, "<a>", bold);
  const std::string file = drawing.file("title");
  EXPECT_EQ(file.find("<style"), std::string::npos);
  EXPECT_EQ(file.find("var("), std::string::npos);
  EXPECT_NE(file.find("fill=\"#eef1f4\" stroke=\"#c9d0d6\""), std::string::npos) << file;
  EXPECT_NE(file.find("viewBox=\"-16 -16 "), std::string::npos) << "white paper around it";
}

// 32 banks of 4 bytes: a stride of 2 words puts two rows on a bank, one of 32 words all 32; odd ones do not conflict.
TEST(SharedMemory, CyclesByStrideAreThoseOfTheConflict) {
  const model::SharedMemoryDescription shared{
      .banks = 32,
      .bank_width_bytes = 4,
      .row_bytes = 128,
      .latency_cycles = {.broadcast = 20, .two_way = 22, .per_way = 2, .by_degree = {}}};
  const std::vector<probe::TimedWorkload> timed{
      {.workload = model::strided(8, 4, 3), .timing = {.cycles = {22, 23, 99}, .seconds = {}}}};
  const std::vector<Figure> figures = shared_memory_figures(shared, timed);
  ASSERT_EQ(figures.size(), 2U);
  const Points& described = series_named(figures[0], "by the description").points;
  EXPECT_EQ(described.at(0), (std::array<double, 2>{1, 20}));
  EXPECT_EQ(described.at(1), (std::array<double, 2>{2, 22}));
  EXPECT_EQ(described.at(2), (std::array<double, 2>{3, 20}));
  EXPECT_EQ(described.at(31), (std::array<double, 2>{32, 82}));
  EXPECT_EQ(series_named(figures[0], "measured").points, (Points{{2, 23}}));
  EXPECT_EQ(series_named(figures[1], "measured").points, (Points{{2, 23}}));
}

TEST(Bandwidth, OfASizeTheBestShapeCounts) {
  model::Stream stream;
  stream.blocks = 2;
  std::vector<probe::TimedWorkload> timed;
  for (const std::uint64_t kilobytes : {4U, 8U, 16U}) {
    for (const double seconds : {1e-6, 2e-6}) {
      stream.dataset_bytes = kilobytes << 10U;
      timed.push_back({.workload = stream, .timing = {.cycles = {1}, .seconds = {seconds}}});
    }
  }
  const std::vector<Figure> figures = bandwidth_figures({}, {}, timed);
  ASSERT_EQ(figures.size(), 1U);
  // 2 blocks of 256 threads load 4 bytes each in a microsecond.
  EXPECT_EQ(series_named(figures[0], "global_ca load, one element by each thread").points,
            (Points{{4096, 2.048}, {8192, 2.048}, {16384, 2.048}}));
}

// One SM draws a hundredth of what all do: a line from the one to the other would be a fall that nobody measured.
TEST(Bandwidth, OneSmIsACurveOfItsOwn) {
  std::vector<probe::TimedWorkload> timed;
  for (const std::uint32_t blocks : {1U, 132U}) {
    for (const std::uint64_t kilobytes : {4U, 8U, 16U}) {
      model::Stream stream;
      stream.blocks = blocks;
      stream.elements_per_thread = 2;
      stream.dataset_bytes = kilobytes << 10U;
      timed.push_back({.workload = stream, .timing = {.cycles = {1}, .seconds = {1e-6}}});
    }
  }
  const std::vector<Figure> figures = bandwidth_figures({}, {}, timed);
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "global_ca load, one SM").points.size(), 3U);
  EXPECT_EQ(series_named(figures[0], "global_ca load").points.size(), 3U);
}

TEST(Bandwidth, SurfacesAreLinesByWarpsForEachNumberOfElements) {
  model::CacheEvidence evidence;
  evidence.leaves["L1"].details.one_sm_surface =
      model::OneSmSurface{.work = "load",
                          .element_bits = 32,
                          .points = {{.warps = 1, .elements = 1, .gb_per_second = 3.8, .cycles = 67},
                                     {.warps = 1, .elements = 2, .gb_per_second = 7, .cycles = 72},
                                     {.warps = 2, .elements = 1, .gb_per_second = 7.5, .cycles = 68}}};
  const std::vector<Figure> figures = bandwidth_figures({}, evidence, {});
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(series_named(figures[0], "1 element each").points, (Points{{1, 3.8}, {2, 7.5}}));
  EXPECT_EQ(series_named(figures[0], "2 elements each").points, (Points{{1, 7}}));
  EXPECT_EQ(series_named(figures[1], "1 element each").points, (Points{{1, 67}, {2, 68}}));
  EXPECT_EQ(series_named(figures[1], "2 elements each").points, (Points{{1, 72}}));
}

TEST(Bandwidth, ServedSharesAreALineForEachLevel) {
  model::CacheEvidence evidence;
  evidence.leaves["L1"].details.served_by_dataset = {{.dataset_bytes = 4096, .l1 = 1},
                                                     {.dataset_bytes = 8192, .l1 = 0.25, .l2 = 0.5, .dram = 0.25}};
  const std::vector<Figure> figures = bandwidth_figures({}, evidence, {});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "L1").points, (Points{{4096, 100}, {8192, 25}}));
  EXPECT_EQ(series_named(figures[0], "L2").points, (Points{{4096, 0}, {8192, 50}}));
  EXPECT_EQ(series_named(figures[0], "memory").points, (Points{{4096, 0}, {8192, 25}}));
}

TEST(Bandwidth, ComesFromTheEvidenceWhereNothingIsRecorded) {
  model::CacheEvidence evidence;
  EXPECT_TRUE(bandwidth_figures({}, evidence, {}).empty());
  evidence.leaves["L1"].details.gb_per_second_by_dataset = {{4096, 718}, {8192, 717.5}};
  const std::vector<Figure> figures = bandwidth_figures({}, evidence, {});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "L1").points, (Points{{4096, 718}, {8192, 717.5}}));
}

bool has(const Points& points, const std::array<double, 2>& point) {
  return std::ranges::find(points, point) != points.end();
}

// What `simulate --figure` writes, and the points that the paper prints.
TEST(PaperCharts, HoldTheRowsOfTheirFigures) {
  for (const std::string name : {"gtx480", "gtx560ti", "k20"}) {
    const auto profile = model::read_description("configs/devices/" + name + ".yaml");
    const std::vector<Figure> charts = paper_charts(profile);
    const std::set<std::string> published = figures_published_of(profile.device.name);
    ASSERT_EQ(charts.size(), published.size()) << name;
    for (const Figure& chart : charts) {
      const std::string figure_name = chart.title.substr(0, chart.title.find(": "));
      ASSERT_TRUE(published.contains(figure_name)) << figure_name;
      const auto* figure = std::ranges::find(paper_figures, figure_name, &PaperFigure::name);
      ASSERT_NE(figure, paper_figures.end()) << figure_name;
      const auto rows = rows_of(*figure, profile, name, 1);
      ASSERT_TRUE(rows) << figure_name;
      std::map<std::string, Points> drawn;
      for (const Series& series : chart.chart->series) {
        drawn[series.name] = series.points;
      }
      for (const FigureRow& row : rows->rows()) {
        if (!row.x) {
          EXPECT_NE(chart.note.find(row.published), std::string::npos) << chart.note;
          continue;
        }
        const auto x = static_cast<double>(*row.x);
        if (!row.published.empty()) {
          EXPECT_TRUE(has(drawn.at("published"), {x, std::stod(row.published)})) << figure_name;
        }
        std::string words = row.series;
        std::ranges::replace(words, '_', ' ');
        if (row.y && drawn.contains(words)) {
          EXPECT_TRUE(has(drawn.at(words), {x, *row.y})) << figure_name << ' ' << x;
        }
      }
    }
  }
  model::DeviceDescription unknown;
  unknown.device.name = "A GPU of no paper";
  EXPECT_TRUE(paper_charts(unknown).empty());
}

TEST(Ladder, HasTheBestOfEachMemoryTheFastestFirst) {
  model::DeviceDescription profile;
  profile.bandwidth["L2_load"].best =
      model::ElementBandwidth{.element_bits = 32, .bytes_per_second = 5e12, .elements_per_sm_clock = 1};
  profile.bandwidth["shared"].best =
      model::ElementBandwidth{.element_bits = 32, .bytes_per_second = 9e12, .elements_per_sm_clock = 1};
  const auto figure = bandwidth_ladder({{.name = "x", .profile = &profile}});
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->chart->categories, (std::vector<std::string>{"shared", "L2 load"}));
  EXPECT_EQ(series_named(*figure, "x").points, (Points{{0, 9000}, {1, 5000}}));
  const model::DeviceDescription other;
  const auto both = bandwidth_ladder({{.name = "x", .profile = &profile}, {.name = "y", .profile = &other}});
  ASSERT_TRUE(both);
  EXPECT_TRUE(series_named(*both, "y (not known)").points.empty());
}

TEST(Carveouts, AreThoseOfTheProfile) {
  model::CacheDescription cache = small_cache();
  EXPECT_FALSE(carveout_figure(cache));
  cache.carveouts = {{.carveout_kb = 8, .onset_bytes = 2048, .resident_bytes = {}, .ways = {}},
                     {.carveout_kb = 16, .onset_bytes = {}, .resident_bytes = {{1024, 3072}}, .ways = {}}};
  const auto figure = carveout_figure(cache);
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->chart->categories, (std::vector<std::string>{"8", "16"}));
  EXPECT_EQ(series_named(*figure, "largest conflict-free footprint").points, (Points{{0, 2}}));
  EXPECT_EQ(series_named(*figure, "present under random loads").points, (Points{{1, 2}}));
}

TEST(Code, IsTitledByWhatItsLengthCounts) {
  const model::CodeDescription code{
      .piece_bytes = 64,
      .levels = std::vector<model::CodeLevel>{{.fits_bytes = 2048, .cycles = 23}, {.fits_bytes = {}, .cycles = 86}}};
  const auto constants = code_figure("ConstImmediate", code, {});
  ASSERT_TRUE(constants);
  EXPECT_EQ(constants->chart->x.title, "constants, bytes");
  EXPECT_EQ(series_named(*constants, "levels").points, (Points{{0, 23}, {2048, 86}, {3072, 86}}));
  EXPECT_EQ(code_figure("Instruction", code, {})->chart->x.title, "length of the code, bytes");
}

TEST(Texels, AreTheBlocksOfTheDescription) {
  model::TextureDescription texture;
  EXPECT_FALSE(texel_figure(texture));
  texture.sector_texels = model::TexelBlock{.width = 4, .height = 2};
  texture.line_texels = model::TexelBlock{.width = 8, .height = 4};
  const auto figure = texel_figure(texture);
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->table.rows, (std::vector<std::vector<std::string>>{{"sector", "4 x 2"}, {"line", "8 x 4"}}));
}

TEST(Fleet, CountsWhatDeviates) {
  survey::Fleet fleet;
  survey::FleetMember member;
  member.id = "0";
  member.device = "a";
  fleet.members.push_back(member);
  member.id = "1";
  member.differs.push_back(
      {.section = "L1tex", .leaf = "ways", .common = "[4]", .here = "[3]", .note = "", .evidence = {}});
  fleet.members.push_back(member);
  const std::string page = fleet_page(fleet, {});
  EXPECT_NE(page.find("2 devices"), std::string::npos);
  EXPECT_NE(page.find("1 deviations"), std::string::npos);
  EXPECT_NE(page.find("<td>L1tex.ways<td>[4]<td>[3]"), std::string::npos);
}

TEST(Comparison, ListsWhatDiffersFromTheFirst) {
  model::DeviceDescription one;
  one.device.name = "One";
  one.caches["L1tex"] = small_cache();
  model::DeviceDescription two = one;
  two.device.name = "Two";
  two.caches["L1tex"].line_bytes = 64;
  one.caches["L2"] = small_cache();
  one.shared_memory.emplace().banks = 32;
  const std::string page = comparison_page({{.name = "One", .profile = &one}, {.name = "Two", .profile = &two}});
  EXPECT_NE(page.find("<td>L1tex.line_bytes<td>32<td>64<td>differs"), std::string::npos);
  EXPECT_NE(page.find("<p>Of One alone, not of Two: L2, shared_memory.</p>"), std::string::npos);
  EXPECT_EQ(page.find("Of Two alone"), std::string::npos);
}

TEST(Kernels, StandUnderTheLevelThatHoldsThemBack) {
  const model::KernelResults kernels{
      {"gemm.plain", {.size = 256, .seconds = 0.002, .level_bytes = {}, .dominant = "L1", .share = 0.5}},
      {"syrk.plain", {.size = 256, .seconds = 0.004, .level_bytes = {}, .dominant = "L2", .share = 0.25}},
      {"mm3_kernel1.plain", {.size = 256, .seconds = 0, .level_bytes = {}, .dominant = "", .share = 0}}};
  const std::vector<Figure> figures = kernel_figures(kernels);
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].chart->categories, (std::vector<std::string>{"gemm.plain", "syrk.plain"}));
  EXPECT_EQ(series_named(figures[0], "L2").points, (Points{{1, 25}}));
  EXPECT_EQ(figures[0].table.rows.at(0), (std::vector<std::string>{"gemm.plain", "256", "2", "L1", "50.0 %"}));
}

TEST(Patterns, ThatAreNotKnownAreSaidNotToBe) {
  model::CacheEvidence evidence;
  evidence.leaves["P6"].status = model::EvidenceStatus::resolved;
  const std::vector<Figure> figures = pattern_figures({230, 236, std::nullopt, 371, 734, std::nullopt}, evidence);
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "latency").points.size(), 4U);
  EXPECT_EQ(figures[0].table.rows.at(5).back(), "does not occur");
  EXPECT_NE(figures[0].note.find("Does not occur: P6."), std::string::npos) << figures[0].note;
  EXPECT_EQ(figures[0].table.rows.at(2).back(), "not known");
  EXPECT_NE(figures[0].note.find("P4: data miss, first TLB hit"), std::string::npos) << figures[0].note;
  EXPECT_EQ(figures[0].note.find("P3:"), std::string::npos) << figures[0].note;
  EXPECT_NE(figures[0].note.find("Not known: P3."), std::string::npos) << figures[0].note;
  EXPECT_TRUE(pattern_figures({}, {}).empty());
}

TEST(Page, HoldsTextOfTheProfileAsTextOnly) {
  model::DeviceDescription profile;
  profile.device.name = "</title></script><script>alert(1)</script>";
  profile.device.source = "{{TITLE}} \" onload='x'";
  profile.device.provenance["</td><script>"] = "<img src=http://example.com/x>";
  profile.caches["L1tex"] = small_cache();
  model::LeafEvidence& leaf = profile.evidence["L1tex"].leaves["replacement"];
  leaf.reason = "<script>reason</script>";
  leaf.details.others["<i>"] = "]]><b>";
  model::Inquiry inquiry;
  inquiry.asked = "<script>";
  inquiry.learned = "</table>";
  profile.evidence["L1tex"].inquiries.push_back(inquiry);
  const std::string page = page_of(profile, "<script>.yaml", {"L1tex"}, {});
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 1U) << "what pages add to their drawings";
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("{{TITLE}} &quot; onload="), std::string::npos);
}

TEST(Evidence, SaysHowRareADepartureMustBeToBeOverlooked) {
  model::DeviceDescription profile;
  profile.caches["L1tex"] = small_cache();
  model::LeafEvidence& index = profile.evidence["L1tex"].leaves["index"];
  index.bound = {.departures_below = 0.0005, .at = 0.99};
  const std::string said = "departures in 0.05 % of the loads or more are excluded at 0.99";
  EXPECT_NE(evidence_html(profile, "L1tex").find("<dt>bound</dt><dd>" + said + "</dd>"), std::string::npos);
  EXPECT_NE(leaf_table(profile, "L1tex", 100, Ink(false)).find("bound: " + said), std::string::npos);
  index.bound.reset();
  EXPECT_EQ(evidence_html(profile, "L1tex").find("bound"), std::string::npos);
}

}  // namespace
}  // namespace gpuinfer::cli::report
