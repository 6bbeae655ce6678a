// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/leaf_table.hpp"
#include "cli/report/cache_drawing.hpp"
#include "cli/report/evidence_html.hpp"
#include "cli/report/figure.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/page.hpp"
#include "cli/report/thread_figures.hpp"
#include "cli/report/trace_figures.hpp"

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

const Series& series_named(const Figure& figure, const std::string& name) {
  const auto& series = figure.chart->series;
  const auto found = std::find_if(series.begin(), series.end(), [&](const Series& each) { return each.name == name; });
  EXPECT_NE(found, series.end()) << name;
  return *found;
}

TEST(Markup, TextOfFilesCannotEndAScriptOrATag) {
  EXPECT_EQ(escaped("</script><b a='x' b=\"y\">&"), "&lt;/script&gt;&lt;b a=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
  const Document document{{"name", "</script><!--"}};
  const std::string json = json_for_script(document);
  EXPECT_EQ(json.find('<'), std::string::npos) << json;
  EXPECT_EQ(Document::parse(json), document);
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

TEST(Thinning, ShowsNoMoreThanAskedForAndSaysSo) {
  for (const std::size_t count : {1U, 2000U, 2001U, 7500U, 17000U, 524288U}) {
    const std::size_t step = thinning_step(count, 2000);
    EXPECT_LE((count + step - 1) / step, 2000U) << count;
    EXPECT_EQ(step == 1, count <= 2000) << count;
    for (std::size_t factor = 2; factor < step; ++factor) {
      EXPECT_NE(step % factor, 0U) << count;
    }
  }
  EXPECT_EQ(thinning_text(800, 1, "loads"), "all 800 loads");
  EXPECT_EQ(thinning_text(5000, 3, "loads"), "every 3rd of 5,000 loads");
  EXPECT_EQ(thinning_text(24000, 13, "loads"), "every 13th of 24,000 loads");
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

// With LRU a set that holds fewer lines than come in turn hits none of them: 5 lines are 3 and 2 in the two sets, 6 are
// 3 and 3.
TEST(MissCurve, OfASmallLruCacheIsAsCountedByHand) {
  const MissCurve curve = simulated_misses(small_cache(), 32, {96, 128, 160, 192});
  EXPECT_EQ(curve.points, (Points{{96, 0}, {128, 0}, {160, 60}, {192, 100}}));
}

TEST(MissCurve, NeedsACompleteDescription) {
  model::CacheDescription cache = small_cache();
  cache.replacement.reset();
  EXPECT_ANY_THROW((void)simulated_misses(cache, 32, {128}));
  const model::Trace trace = chase(160, 32, {30, 200, 30, 200, 30});
  const auto figure = miss_curve_figure(cache, {&trace}, cache.latency_cycles);
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

TEST(MissCurve, IsMeasuredWhereChasesWereWarmed) {
  model::Trace cold = chase(224, 32, std::vector<float>(7, 200));
  cold.question.warm.clear();
  const std::vector<model::Trace> traces{chase(128, 32, {30, 31, 29, 30}), chase(160, 32, {200, 30, 30, 30, 201}),
                                         chase(192, 32, std::vector<float>(12, 200)), cold, chase(128, 64, {30, 30})};
  Traces all;
  for (const model::Trace& trace : traces) {
    all.push_back(&trace);
  }
  const auto curve = measured_misses(all, small_cache().latency_cycles);
  ASSERT_TRUE(curve);
  EXPECT_EQ(curve->stride_bytes, 32U);
  EXPECT_EQ(curve->points, (Points{{128, 0}, {160, 40}, {192, 100}}));
}

TEST(Latency, PointsAreToldApartAndThinned) {
  std::vector<float> latencies(6000, 30);
  for (std::size_t i = 0; i < latencies.size(); i += 4) {
    latencies[i] = 200;
  }
  latencies[1] = 5000;  // no level
  const model::Trace trace = chase(1024, 32, latencies);
  const auto figure = latency_figure({&trace}, small_cache().latency_cycles, Offsets::bytes);
  ASSERT_TRUE(figure);
  EXPECT_NE(figure->note.find("every 3rd of 6,000 loads"), std::string::npos) << figure->note;
  EXPECT_EQ(figure->chart->y.scale, Scale::log10);
  // Every third of a pattern of four shows all of it.
  EXPECT_EQ(series_named(*figure, "misses").points.size(), 500U);
  EXPECT_EQ(series_named(*figure, "hits").points.size(), 1500U);
  EXPECT_EQ(figure->table.rows.at(0).at(1), "4,499");
  EXPECT_EQ(figure->table.rows.at(2).at(1), "1,500");
  EXPECT_EQ(figure->table.rows.at(4).at(1), "1");
}

TEST(SetMap, ListsTheLinesOfEachSet) {
  model::CacheDescription cache = small_cache();
  cache.ways = {3, 1};
  const auto array = placed_array(cache, 100);
  ASSERT_TRUE(array);
  EXPECT_EQ(array->lines_in_all, 4U);
  EXPECT_EQ(array->set_of, (std::vector<std::uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(set_table(*array, *cache.ways, 2).rows,
            (std::vector<std::vector<std::string>>{{"0", "3", "0 2"}, {"1", "1", "1 3"}}));
  EXPECT_EQ(placed_array(cache, 3)->set_of.size(), 3U);
  cache.index.reset();
  EXPECT_FALSE(placed_array(cache, 100));
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
  EXPECT_EQ(series_named(figures[0], "global_ca load").points, (Points{{4096, 2.048}, {8192, 2.048}, {16384, 2.048}}));
}

TEST(Bandwidth, ComesFromTheEvidenceWhereNothingIsRecorded) {
  model::CacheEvidence evidence;
  EXPECT_TRUE(bandwidth_figures({}, evidence, {}).empty());
  evidence.leaves["L1"].details.gb_per_second_by_dataset = {{4096, 718}, {8192, 717.5}};
  const std::vector<Figure> figures = bandwidth_figures({}, evidence, {});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "L1").points, (Points{{4096, 718}, {8192, 717.5}}));
}

TEST(Kernels, StandUnderTheLevelThatHoldsThemBack) {
  const model::KernelResults kernels{
      {"gemm.plain", {.size = 256, .seconds = 0.002, .level_bytes = {}, .dominant = "L1", .share = 0.5}},
      {"syrk.plain", {.size = 256, .seconds = 0.004, .level_bytes = {}, .dominant = "L2", .share = 0.25}},
      {"mm3.plain", {.size = 256, .seconds = 0, .level_bytes = {}, .dominant = "", .share = 0}}};
  const std::vector<Figure> figures = kernel_figures(kernels);
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].chart->categories, (std::vector<std::string>{"gemm.plain", "syrk.plain"}));
  EXPECT_EQ(series_named(figures[0], "L2").points, (Points{{1, 25}}));
  EXPECT_EQ(figures[0].table.rows.at(0), (std::vector<std::string>{"gemm.plain", "256", "2", "L1", "50.0 %"}));
}

TEST(Patterns, ThatAreNotKnownAreSaidNotToBe) {
  const std::vector<Figure> figures = pattern_figures({230, 236, std::nullopt, 371, 734, 1000});
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(series_named(figures[0], "latency").points.size(), 5U);
  EXPECT_EQ(figures[0].table.rows.at(2).back(), "not known");
  EXPECT_TRUE(pattern_figures({}).empty());
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
  EXPECT_EQ(scripts, 3U) << "the data, Chart.js, and what draws";
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
  EXPECT_NE(leaf_table(profile, "L1tex", Ink(false)).find("bound: " + said), std::string::npos);
  index.bound.reset();
  EXPECT_EQ(evidence_html(profile, "L1tex").find("bound"), std::string::npos);
}

}  // namespace
}  // namespace gpuinfer::cli::report
