// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "model/description/codec.hpp"
#include "model/description/evidence.hpp"
#include "model/description/values.hpp"
#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

using codec::List;
using codec::Map;
using codec::Text;
using Details = EvidenceDetails;
using Number = codec::Whole<std::uint64_t>;

constexpr double most_number = 1e18;
constexpr Number count{.most = codec::max_count};
constexpr codec::Count small{};
constexpr codec::Real<> real{.least = -most_number, .most = most_number};

codec::Words<bool> truth() { return {.words = {{"true", true}, {"false", false}}}; }

// What is not known is null.
template <class Item>
struct OrNull {
  Item item;

  [[nodiscard]] auto read(const Place& place) const {
    return place.is_null() ? std::nullopt : std::optional(item.read(place));
  }
  template <class Value>
  [[nodiscard]] std::string write(const std::optional<Value>& value) const {
    return value ? item.write(*value) : "null";
  }
  template <class Value>
  [[nodiscard]] std::string text(const std::optional<Value>& value) const {
    return write(value);
  }
  [[nodiscard]] LeafFacts facts() const {
    return {.may_be_null = true, .schema = schema::or_null(item.facts().schema)};
  }
};

// A list of two.
template <class Item>
struct Two {
  Item item;

  [[nodiscard]] auto read(const Place& place) const {
    const auto values = List<Item>{.item = item, .most = 2}.read(place);
    if (values.size() != 2) {
      place.fail("does not have two numbers; write `[number, number]`");
    }
    return std::array{values[0], values[1]};
  }
  template <class Value>
  [[nodiscard]] std::string write(const std::array<Value, 2>& values) const {
    return flow_list({item.write(values[0]), item.write(values[1])});
  }
  template <class Value>
  [[nodiscard]] std::string text(const std::array<Value, 2>& values) const {
    return write(values);
  }
  [[nodiscard]] LeafFacts facts() const { return {.schema = schema::list(item.facts().schema, 2, 2)}; }
};

constexpr Two<codec::Real<>> interval{real};
constexpr Two<Number> two_counts{count};

// An interval, or a list where there are several.
struct OneOrMore {
  List<OrNull<Two<codec::Real<>>>> list{.item = {interval}};

  [[nodiscard]] std::vector<std::optional<RealInterval>> read(const Place& place) const {
    const std::vector<Place> items = place.items();
    const bool is_one = !items.empty() && items.front().node().kind == YamlNode::Kind::plain;
    return is_one ? std::vector{std::optional(interval.read(place))} : list.read(place);
  }
  [[nodiscard]] std::string write(const std::vector<std::optional<RealInterval>>& intervals) const {
    return intervals.size() == 1 ? list.item.write(intervals.front()) : list.write(intervals);
  }
  [[nodiscard]] std::string text(const std::vector<std::optional<RealInterval>>& intervals) const {
    return write(intervals);
  }
  [[nodiscard]] LeafFacts facts() const {
    return {.schema = schema::one_of({interval.facts().schema, list.facts().schema})};
  }
};

// `{KEY: number}`, with whole numbers or names as keys.
template <class Key>
struct Table {
  using Entries = std::vector<std::pair<Key, double>>;

  [[nodiscard]] static Entries read(const Place& place) {
    Entries entries;
    for (const auto& [name, entry] : place.entries()) {
      if constexpr (std::same_as<Key, std::string>) {
        entries.emplace_back(name, real.read(entry));
      } else if (const auto number = number_from<Key>(name)) {
        entries.emplace_back(*number, real.read(entry));
      } else {
        entry.fail("is not a whole number of bytes; correct it");
      }
    }
    return entries;
  }
  [[nodiscard]] static std::string write(const Entries& entries) {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& [key, value] : entries) {
      if constexpr (std::same_as<Key, std::string>) {
        texts.emplace_back(to_yaml_scalar(key), to_text(value));
      } else {
        texts.emplace_back(to_text(key), to_text(value));
      }
    }
    return flow_map(texts);
  }
  [[nodiscard]] static std::string text(const Entries& entries) { return write(entries); }
  [[nodiscard]] static LeafFacts facts() {
    schema::Object object{{"type", "object"}, {"additionalProperties", schema::text(real.facts().schema)}};
    if constexpr (!std::same_as<Key, std::string>) {
      object.emplace_back("propertyNames", "{pattern: \"^[0-9]+$\"}");
    }
    return {.schema = object};
  }
};

// `[[bytes, number], ..]`
struct Curve {
  [[nodiscard]] static BySize read(const Place& place) {
    BySize curve;
    for (const Place& item : place.items()) {
      const std::vector<Place> point = item.items();
      if (point.size() != 2) {
        item.fail("is not a point of a curve; write `[bytes, number]`");
      }
      curve.emplace_back(count.read(point[0]), real.read(point[1]));
    }
    return curve;
  }
  [[nodiscard]] static std::string write(const BySize& curve) {
    std::vector<std::string> points;
    for (const auto& [bytes, value] : curve) {
      points.push_back(flow_list({to_text(bytes), to_text(value)}));
    }
    return flow_list(points);
  }
  [[nodiscard]] static std::string text(const BySize& curve) { return write(curve); }
  [[nodiscard]] static LeafFacts facts() {
    const std::string point = flow_list({schema::text(count.facts().schema), schema::text(real.facts().schema)});
    return {.schema = schema::list({{"type", "array"}, {"prefixItems", point}, {"minItems", "2"}, {"maxItems", "2"}})};
  }
};

// `65 of 66`
struct Share {
  [[nodiscard]] static std::array<std::uint64_t, 2> read(const Place& place) {
    constexpr std::string_view between = " of ";
    const std::string text = place.text();
    const std::size_t middle = std::min(text.find(between), text.size());
    const auto part = number_from<std::uint64_t>(text.substr(0, middle));
    const auto whole = number_from<std::uint64_t>(text.substr(std::min(middle + between.size(), text.size())));
    if (!part || !whole) {
      place.fail("`" + text + "` is not a share; write `NUMBER of NUMBER`");
    }
    return {*part, *whole};
  }
  [[nodiscard]] static std::string write(const std::array<std::uint64_t, 2>& share) {
    return to_text(share[0]) + " of " + to_text(share[1]);
  }
  [[nodiscard]] static std::string text(const std::array<std::uint64_t, 2>& share) { return write(share); }
  [[nodiscard]] static LeafFacts facts() {
    return {.schema = {{"type", "string"}, {"pattern", "\"^[0-9]+ of [0-9]+$\""}}};
  }
};

// `{policy: NAME, PARAMETER: value, .., departs: [number, number]}`
struct Departing {
  [[nodiscard]] static DepartingPolicy read(const Place& place) {
    std::optional<Replacement> replacement;
    try {
      YamlNode policy = place.node();
      std::erase_if(policy.entries, [](const YamlEntry& entry) { return entry.key.text == "departs"; });
      replacement = codec::replacement_from(Place(policy, {}), std::nullopt);
    } catch (const InputError&) {
    }
    if (!replacement) {
      place.fail("is not a policy that departs; write `{policy: NAME, PARAMETER: value, departs: [number, number]}`");
    }
    return {.policy = *std::move(replacement), .departs = interval.read(place.need("departs"))};
  }
  [[nodiscard]] static std::string write(const DepartingPolicy& mostly) {
    std::string text = codec::replacement_text(mostly.policy);
    text.pop_back();
    return text + ", departs: " + interval.write(mostly.departs) + "}";
  }
  [[nodiscard]] static std::string text(const DepartingPolicy& mostly) { return write(mostly); }
  [[nodiscard]] static LeafFacts facts() { return {.schema = {{"type", "object"}, {"required", "[policy, departs]"}}}; }
};

Map<WideElements> wide_elements() {
  return {
      .leaves = {
          leaf("contiguous_cycles", &WideElements::contiguous_cycles, real, "what elements next to one another take")
              .needed(),
          leaf("contiguous_rows", &WideElements::contiguous_rows, small,
               "as how many rows that is; null if as no number of them"),
          leaf("more_cycles", &WideElements::more_cycles, real, "what all of that size take beyond the description")
              .needed(),
          leaf("as_described", &WideElements::as_described, Share{},
               "how many of the patterns that were tried do as described")
              .needed()}};
}

Map<KneeOfLoads> knee() {
  return {
      .leaves = {leaf("loads", &KneeOfLoads::loads, small, "loads of each thread").needed(),
                 leaf("threads_per_line", &KneeOfLoads::threads_per_line, small, "how many threads load the same line")
                     .needed(),
                 leaf("from_l2", &KneeOfLoads::from_l2, truth(), "whether the lines are in L2, or in memory").sparse(),
                 leaf("threads", &KneeOfLoads::threads, Two<codec::Count>{small},
                      "how many threads, before and after the jump")
                     .needed(),
                 leaf("cycles", &KneeOfLoads::cycles, interval, "what they take, before and after it").needed(),
                 leaf("variance", &KneeOfLoads::variance, real, "of three points around it").needed()}};
}

Map<KneeOfL2> of_l2() {
  return {.leaves = {leaf("capacity_bytes", &KneeOfL2::capacity_bytes, count, "what L2 holds").needed(),
                     leaf("share", &KneeOfL2::share, interval, "the knee over that").needed(),
                     leaf("is_half", &KneeOfL2::is_half, truth(),
                          "whether one half is among them, as it has to be; else one of the two is wrong")
                         .needed()}};
}

Map<OneLoadCycles> one_load_cycles() {
  return {.leaves = {leaf("from_l2", &OneLoadCycles::from_l2, real, "of a line in L2").needed(),
                     leaf("beyond_l2", &OneLoadCycles::beyond_l2, real, "of a line in memory").needed()}};
}

Map<StreamShape> stream_shape() {
  return {
      .leaves = {leaf("dataset_bytes", &StreamShape::dataset_bytes, count, "the size of the data").needed(),
                 leaf("work", &StreamShape::work, Text{}, "what is done with them").needed(),
                 leaf("elements_in_flight", &StreamShape::elements_in_flight, small, "outstanding elements of a thread")
                     .needed(),
                 leaf("block_threads", &StreamShape::block_threads, small, "threads of a block").needed(),
                 leaf("blocks", &StreamShape::blocks, small, "how many blocks").needed()}};
}

Map<SurfacePoint> surface_point() {
  return {
      .leaves = {leaf("warps", &SurfacePoint::warps, small, "of the block").needed(),
                 leaf("elements", &SurfacePoint::elements, small, "that a thread asks for before it waits").needed(),
                 leaf("gb_per_second", &SurfacePoint::gb_per_second, real, "what the SM draws").needed(),
                 leaf("cycles", &SurfacePoint::cycles, real, "until a thread has all of them").needed()}};
}

Map<OneSmSurface> one_sm_surface() {
  return {
      .leaves = {
          leaf("work", &OneSmSurface::work, Text{}, "what is done with the elements").needed(),
          leaf("element_bits", &OneSmSurface::element_bits, small, "their size").needed(),
          leaf("points", &OneSmSurface::points, List<Map<SurfacePoint>>{.item = surface_point()}, "by both").needed()}};
}

Map<ServedShares> served_shares() {
  return {
      .leaves = {leaf("dataset_bytes", &ServedShares::dataset_bytes, count, "of all blocks, each in a part of its own")
                     .needed(),
                 leaf("L1", &ServedShares::l1, real, "served by L1").needed(),
                 leaf("L2", &ServedShares::l2, real, "by L2").needed(),
                 leaf("DRAM", &ServedShares::dram, real, "by memory").needed()}};
}

Map<StoredBytes> stored_bytes() {
  return {.leaves = {leaf("L2", &StoredBytes::l2, count, "through L2").needed(),
                     leaf("DRAM", &StoredBytes::dram, count, "to memory").needed()}};
}

Leaves<Details> sparse(Leaves<Details> rows) {
  for (Leaf<Details>& row : rows) {
    row.is_sparse = true;
  }
  return rows;
}

}  // namespace

const Leaves<EvidenceDetails>& evidence_detail_leaves() {
  const List<Text> names{};
  const List<codec::Sm> sms{};
  static const Leaves<Details> leaves = sparse({
      leaf("deterministic", &Details::deterministic, OrNull<codec::Words<bool>>{truth()},
           "of a policy: whether the same accesses always have the same outcome; null if that cannot be told"),
      leaf("mostly", &Details::mostly, Departing{},
           "of a policy: the one that fills follow but for a share `departs`, which lies in that interval with 95 %"),
      leaf("policies_tried", &Details::policies_tried, count,
           "how many deterministic policies, parameters included, were held against the answers"),
      leaf("sequences_to_narrow", &Details::sequences_to_narrow, count,
           "how many sequences it took until one policy, or none, was left"),
      leaf("learned_states", &Details::learned_states, count,
           "of a policy outside the library that was learned as a machine: its states"),
      leaf("learned_conformance_extra_states", &Details::learned_conformance_extra_states, count,
           "how many states more another machine may have that would still have been told from the learned one"),
      leaf("learning_sequences", &Details::learning_sequences, count, "what the learning cost"),
      leaf("learning_accesses", &Details::learning_accesses, count, "what the learning cost"),
      leaf("conformance_extra_states", &Details::conformance_extra_states, count,
           "of a known policy: machines with so many states more than it would have shown"),
      leaf("equivalent_for_accesses", &Details::equivalent_for_accesses, count,
           "sequences of so many accesses do not tell those under `equivalent` apart; longer ones might, in sets of so "
           "many ways"),
      leaf("period", &Details::period, count, "of victims that a generator draws: after how many they repeat"),
      leaf("linear_complexity", &Details::linear_complexity, count,
           "of such victims: the length of the recurrence that predicts them"),
      leaf("periods_excluded_up_to", &Details::periods_excluded_up_to, count,
           "of random victims: how long a period would have shown"),
      leaf("one_in_interval_95_percent", &Details::one_in_interval_95_percent, OneOrMore{},
           "of a policy that tosses a coin for each new line: an interval that holds its `one_in` with 95 %"),
      leaf("victim_probability_intervals", &Details::victim_probability_intervals,
           List<Two<codec::Real<>>>{.item = interval},
           "of a random policy: intervals that hold the probabilities of all ways to be evicted with 99 %; ways are "
           "numbered in the order in which an empty set fills"),
      leaf("victim_probability_intervals_95_percent_each", &Details::victim_probability_intervals_95_percent_each,
           List<Two<codec::Real<>>>{.item = interval}, "the same, each interval by itself with 95 %"),
      leaf("victims_observed", &Details::victims_observed, count, "how many evictions those intervals are made from"),
      leaf("ways_of_the_set", &Details::ways_of_the_set, names,
           "of sequences over one set: with how many ways some policy explains them"),
      leaf("consecutive_fills_in_a_set", &Details::consecutive_fills_in_a_set, count,
           "what recordings show of the sets even where they do not decide the index, counted in fills of "
           "`sector_bytes`"),
      leaf("fills_that_overflow_one_set", &Details::fills_that_overflow_one_set, count, "the same"),
      leaf("fills_that_never_miss", &Details::fills_that_never_miss, count, "the same"),
      leaf("bytes_that_miss_together", &Details::bytes_that_miss_together, List<Two<Number>>{.item = two_counts},
           "of the recording in which the fewest lines miss, where these lie: `[first, last]` byte of each run; under "
           "most policies they share a set"),
      leaf("largest_array_without_miss_bytes", &Details::largest_array_without_miss_bytes, count,
           "beside `capacity_bytes`: what fits in recordings of arrays in equal steps, whatever the cache is like"),
      leaf("smallest_array_with_misses_bytes", &Details::smallest_array_with_misses_bytes, count,
           "the same of what does not fit"),
      leaf("sets", &Details::sets, count, "of an index that recordings leave open: how many sets explain them"),
      leaf("lines_assigned", &Details::lines_assigned, count, "how many lines are certain to be in one of those sets"),
      leaf("median_of_all", &Details::median_of_all, real, "of latencies that all belong to one level, in cycles"),
      leaf("interval_bytes", &Details::interval_bytes, two_counts,
           "of a capacity that averages tell: an array in which nearly every load hits, and one in which nearly none "
           "does"),
      leaf("apart", &Details::apart, names, "of `shared_with`: paths that do not find the lines"),
      leaf("parts", &Details::parts, count, "of `partitions`: how many parts, where their homes are not told"),
      leaf("asked", &Details::asked, count, "of `sms`: how many SMs were asked"),
      leaf("other_misses", &Details::other_misses, sms, "of `sms`: which have other misses than most"),
      leaf("other_latency", &Details::other_latency, sms, "of `sms`: which have another latency than most"),
      leaf(
          "fresh_pairs", &Details::fresh_pairs, count,
          "of `slice_index`: pairs of lines that took no part in finding it, of which it was said whether they share a "
          "slice"),
      leaf("fresh_pairs_together", &Details::fresh_pairs_together, count, "how many of them were said to"),
      leaf("fresh_pairs_wrong", &Details::fresh_pairs_wrong, count,
           "how many are otherwise than was said, by most of several readings"),
      leaf("blocks_asked", &Details::blocks_asked, count,
           "from how many blocks of `block_bytes` they are, of each of which it was found what it adds"),
      leaf("blocks_unlike", &Details::blocks_unlike, count,
           "how many of these add something else than the first one, so that what is contiguous is kept here or there "
           "by "
           "where its pages lie"),
      leaf("fresh_lines", &Details::fresh_lines, count,
           "of `slice_ways`: lines of the slice that took no part in finding its sets"),
      leaf("fresh_lines_in_one_set", &Details::fresh_lines_in_one_set, count,
           "how many of them lie in one of these sets and in no other"),
      leaf("fresh_evictions", &Details::fresh_evictions, count,
           "of `index`: lines of slices that took no part in finding it, of each of which it was said whether others "
           "evict it"),
      leaf("fresh_evictions_wrong", &Details::fresh_evictions_wrong, count,
           "how many of them are otherwise each of three times"),
      leaf("fresh_distances", &Details::fresh_distances, count,
           "of `slice_distances`: pairs of an SM and a slice that were timed again, on other lines"),
      leaf("fresh_distances_wrong", &Details::fresh_distances_wrong, count,
           "how many of them are off by more than 4 cycles"),
      leaf("fresh_set_loads", &Details::fresh_set_loads, count,
           "of `replacement`: random loads of lines of single sets, in sequences that took no part in finding it"),
      leaf("fresh_set_misses", &Details::fresh_set_misses, count, "how many of them missed"),
      leaf("fresh_set_loads_wrong", &Details::fresh_set_loads_wrong, count, "how many did what the policy does not"),
      leaf("fresh_set_loads_wrong_in_other_sets", &Details::fresh_set_loads_wrong_in_other_sets, count,
           "how many did what the policy does not if lines are dealt to these sets by chance"),
      leaf("fresh_sets", &Details::fresh_sets, count, "how many sets were loaded so"),
      leaf("fresh_loads", &Details::fresh_loads, count,
           "of `store` and `hints`: loads in sequences of loads and stores, or of loads with hints, that took no part "
           "in finding it; all went as it says but those that `fresh_loads_wrong` counts"),
      leaf("fresh_loads_wrong", &Details::fresh_loads_wrong, count,
           "how many did what a `store` with `cleaning`, or `hints`, does not; at most one in a thousand"),
      leaf("broadcast", &Details::broadcast, truth(),
           "of shared memory: whether a word that all lanes load costs nothing"),
      leaf("multicast", &Details::multicast, truth(), "whether a word that several lanes load costs nothing"),
      leaf("degree_by_stride", &Details::degree_by_stride, List<OrNull<codec::Count>>{.item = {small}},
           "the conflict of strides of 0 to 128 words, as timed"),
      leaf("elements_of_8_bytes", &Details::elements_of_8_bytes, wide_elements(),
           "what larger elements take: next to one another, and how many of the patterns that were tried take as long "
           "as the description says, but for `more_cycles` that all of that size take"),
      leaf("elements_of_16_bytes", &Details::elements_of_16_bytes, wide_elements(), "the same"),
      leaf("per_way", &Details::per_way, real, "of the latency of shared memory: the slope by least squares"),
      leaf("per_way_interval_95_percent", &Details::per_way_interval_95_percent, interval,
           "the interval of that slope"),
      leaf("residuals", &Details::residuals, interval, "how far fresh loads lay from what was predicted, in cycles"),
      leaf("class", &Details::access_class, Text{}, "of an access pattern: what it means on this path"),
      leaf("accesses", &Details::accesses, count, "how often it was met"),
      leaf("deviation", &Details::deviation, real, "its spread"),
      leaf("interval_95_percent", &Details::interval_95_percent, interval, "the interval of its median"),
      leaf("knees", &Details::knees, List<Map<KneeOfLoads>>{.item = knee()},
           "of outstanding loads: the numbers of threads between which the time jumps, with the variance of three "
           "points around it (Lashgar et al. 2015, section 3.2)"),
      leaf("one_load_cycles", &Details::one_load_cycles, one_load_cycles(), "what a load alone takes"),
      leaf("cycles_saved_by_l2_by_bytes", &Details::cycles_saved_by_l2_by_bytes, Table<std::uint64_t>{},
           "what it helps that lines are in L2, by how many there are"),
      leaf("lines_at_least", &Details::lines_at_least, count,
           "how many lines were surely outstanding at once where no limit was seen"),
      leaf("warp_loads_at_least", &Details::warp_loads_at_least, count, "the same of loads of warps"),
      leaf("loads_per_warp_at_least", &Details::loads_per_warp_at_least, count, "the same of loads of one warp"),
      leaf("cycles_by_rank", &Details::cycles_by_rank, List<List<codec::Real<>>>{.item = {.item = real}},
           "of loads between blocks of one cluster: by the rank that loads, and by the rank whose shared memory it is"),
      leaf("stream", &Details::stream, stream_shape(), "of a bandwidth: the best stream"),
      leaf("clock_hz", &Details::clock_hz, real, "the clock of the best stream"),
      leaf("spread", &Details::spread, real, "how far the runs of what was timed differ"),
      leaf("asked_again_gb_per_second", &Details::asked_again_gb_per_second, real, "what a fresh round gave"),
      leaf("one_sm_gb_per_second", &Details::one_sm_gb_per_second, real, "what one SM draws while the others rest"),
      leaf("one_sm_surface", &Details::one_sm_surface, one_sm_surface(),
           "what one block draws and how long a thread waits, by warps and by elements that a thread asks for at once "
           "(Mei & Chu 2017, section 6.1, of shared memory)"),
      leaf("served_by_dataset", &Details::served_by_dataset, List<Map<ServedShares>>{.item = served_shares()},
           "which share of the loaded bytes each level serves, by counters of the device (Konstantinidis & Cotronis "
           "2016, figure 6)"),
      leaf("gb_per_second_by_dataset", &Details::gb_per_second_by_dataset, Curve{},
           "`[bytes, GB/s]` by the size of the dataset"),
      leaf("gb_per_second_by_dataset_of_all_blocks", &Details::gb_per_second_by_dataset_of_all_blocks, Curve{},
           "the same where all blocks go through the same data, which may be fetched once for several SMs"),
      leaf("gb_per_second_by_shape", &Details::gb_per_second_by_shape, Table<std::string>{},
           "by blocks per SM x threads per block"),
      leaf("microseconds_saved_by_l2_by_bytes", &Details::microseconds_saved_by_l2_by_bytes, Table<std::uint64_t>{},
           "of copies: what it helps that the dataset is in L2, by its size; negative where it costs (Lashgar et al. "
           "2015, section 3.1)"),
      leaf("of_l2", &Details::of_l2, of_l2(), "of a knee of copies: what it is of L2, where its capacity is known"),
      leaf("seconds", &Details::seconds, real, "of a kernel: its best run"),
      leaf("seconds_again", &Details::seconds_again, real, "the same of a second round"),
      leaf("shares", &Details::shares, Table<std::string>{}, "the shares of all peaks"),
      leaf("bytes", &Details::bytes, Table<std::string>{},
           "what moves through the levels, counted by the hardware where it can be read and else by the caches of the "
           "simulator"),
      leaf("l1_sectors", &Details::l1_sectors, count, "what L1 has to look up"),
      leaf("stored_bytes", &Details::stored_bytes, stored_bytes(), "what is stored through the levels"),
      leaf("assuming", &Details::assuming, names, "what the simulator assumed of caches that are not known"),
      leaf("simulated_over_counted", &Details::simulated_over_counted, Table<std::string>{},
           "what the simulator says over what the hardware counted"),
      leaf("not_counted", &Details::not_counted, names, "why nothing could be counted"),
      leaf("source", &Details::source, Text{},
           "of what the recordings of others say: whose they are, which file, and which version of it"),
  });
  return leaves;
}

}  // namespace gpuinfer::model
