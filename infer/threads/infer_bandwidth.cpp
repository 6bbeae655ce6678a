// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/infer_bandwidth.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "model/bandwidth.hpp"
#include "model/number_text.hpp"
#include "model/provenance.hpp"
#include "model/workload.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::percent_text;
using model::rounded;
using model::Stream;
using model::StreamPath;
using model::StreamWork;

constexpr double bits_of_byte = 8;
constexpr std::array<std::uint32_t, 3> element_sizes_bits{32, 64, 128};
constexpr std::array<std::uint32_t, 4> all_in_flight{1, 2, 4, 8};

// Blocks of so many threads, so many of them for each SM.
struct Shape {
  std::uint32_t block_threads;
  std::uint32_t blocks_of_sm;
};
constexpr std::array<Shape, 5> shapes{{{256, 8}, {512, 4}, {1024, 2}, {1024, 1}, {256, 2}}};
constexpr Shape usual_shape = shapes[2];

// Beyond this a larger dataset of a cache is none any more.
constexpr std::uint64_t smallest_dataset_bytes = 4096;
constexpr std::uint64_t largest_texture_bytes = 64ULL << 20U;

constexpr double same_peak = 0.05;  // what two measurements of one peak may differ by

// What came out of a stream in the best of its runs.
struct Flow {
  Stream stream;
  double bytes_per_second = 0;
  double elements_per_sm_clock = 0;
  double clock_hz = 0;
  double spread = 0;  // of its runs: (fastest - slowest) / fastest

  [[nodiscard]] double outstanding_bytes() const {
    return double{1} * stream.blocks * stream.block_threads * stream.elements_in_flight * stream.element_bits /
           bits_of_byte;
  }
};

bool is_slower(const Flow& a, const Flow& b) { return a.bytes_per_second < b.bytes_per_second; }

// Of those that give as much, to one per cent, the one with the smallest elements.
const Flow& best_of(const std::vector<Flow>& flows) {
  constexpr double as_much = 0.99;
  const double most = std::ranges::max_element(flows, is_slower)->bytes_per_second;
  const auto bits_of = [most](const Flow& flow) {
    return std::pair(flow.bytes_per_second < as_much * most ? 1 : 0, flow.stream.element_bits);
  };
  return *std::ranges::min_element(flows, [&](const Flow& a, const Flow& b) {
    return bits_of(a) != bits_of(b) ? bits_of(a) < bits_of(b) : is_slower(b, a);
  });
}

// None: there is no such flow.
template <class Condition>
std::optional<Flow> best_where(const std::vector<Flow>& flows, Condition condition) {
  std::vector<Flow> chosen;
  std::ranges::copy_if(flows, std::back_inserter(chosen), condition);
  return chosen.empty() ? std::nullopt : std::optional(best_of(chosen));
}

model::ElementBandwidth element_bandwidth(const Flow& flow) {
  return {.element_bits = flow.stream.element_bits,
          .bytes_per_second = rounded(flow.bytes_per_second),
          .elements_per_sm_clock = rounded(flow.elements_per_sm_clock)};
}

double gigabytes(double bytes_per_second) { return rounded(bytes_per_second / 1e9); }
std::string gigabytes_text(double bytes_per_second) { return model::to_text(gigabytes(bytes_per_second)); }

// `name` is one of model::bandwidth_names.
struct Memory {
  const char* name;
  StreamPath path;
  StreamWork work;
  bool is_beyond_caches = false;
};
constexpr Memory l1{"L1", StreamPath::global_ca, StreamWork::load};
constexpr Memory texture{"texture", StreamPath::texture, StreamWork::load};
constexpr Memory shared{"shared", StreamPath::shared, StreamWork::swap};
constexpr Memory shared_by_copies{"shared", StreamPath::shared, StreamWork::copy};
constexpr Memory shared_store{"shared_store", StreamPath::shared, StreamWork::store};
constexpr Memory constant{"constant", StreamPath::constant, StreamWork::load};
constexpr Memory l2_load{"L2_load", StreamPath::global_cg, StreamWork::load};
constexpr Memory l2_copy{"L2_copy", StreamPath::global_cg, StreamWork::copy};
constexpr Memory l2_store{"L2_store", StreamPath::global_cg, StreamWork::store};
constexpr Memory dram_load{"DRAM_load", StreamPath::global_cg, StreamWork::load, true};
constexpr Memory dram_copy{"DRAM_copy", StreamPath::global_cg, StreamWork::copy, true};
constexpr Memory dram_store{"DRAM_store", StreamPath::global_cg, StreamWork::store, true};

// In the order in which they are asked for.
constexpr std::array memories{&l2_load, &dram_load, &l2_copy, &dram_copy, &l2_store,    &dram_store,
                              &l1,      &texture,   &shared,  &constant,  &shared_store};

// Asks for streams, with blocks for so many SMs.
class Streams {
 public:
  Streams(Asker& device, std::uint32_t sms) : device_(&device), sms_(sms) {}

  [[nodiscard]] Asker& device() const { return *device_; }
  [[nodiscard]] std::uint32_t sms() const { return sms_; }

  [[nodiscard]] Stream stream_of(const Memory& memory, std::uint64_t dataset_bytes) const {
    return {.path = memory.path,
            .work = memory.work,
            .element_bits = 128,
            .elements_in_flight = 4,
            .dataset_bytes = dataset_bytes,
            .block_threads = usual_shape.block_threads,
            .blocks = usual_shape.blocks_of_sm * sms_};
  }

  // Ascending by size; two at least.
  [[nodiscard]] std::vector<Flow> sweep(const Memory& memory, std::uint64_t largest_bytes) const {
    std::vector<Flow> flows;
    for (std::uint64_t bytes = smallest_dataset_bytes; bytes <= std::max(largest_bytes, 2 * smallest_dataset_bytes);
         bytes *= 2) {
      flows.push_back(flow_of(stream_of(memory, bytes)));
    }
    return flows;
  }

  // Of a few streams with little or much outstanding.
  [[nodiscard]] std::optional<Flow> best_in_parts(const Memory& memory, std::uint64_t most_bytes) const {
    std::optional<Flow> best;
    for (const std::uint32_t in_flight : {1U, 8U}) {
      for (const Shape& shape : {shapes[3], shapes[4]}) {
        Stream stream = stream_of(memory, 0);
        stream.elements_in_flight = in_flight;
        stream.block_threads = shape.block_threads;
        stream.blocks = shape.blocks_of_sm * sms_;
        if (const auto fitting = in_parts(stream, most_bytes)) {
          const Flow flow = flow_of(*fitting);
          if (!best || is_slower(*best, flow)) {
            best = flow;
          }
        }
      }
    }
    return best;
  }

  [[nodiscard]] std::vector<Flow> by_shape_in_parts(const Memory& memory, std::uint64_t most_bytes) const {
    return by_shape(stream_of(memory, 0), [most_bytes](const Stream& stream) { return in_parts(stream, most_bytes); });
  }

  [[nodiscard]] std::vector<Flow> by_shape(const Stream& stream) const {
    return by_shape(stream, [](const Stream& each) {
      const std::uint64_t warp_bytes =
          std::uint64_t{each.element_bits} / 8 * each.elements_in_flight * model::warp_lanes;
      return each.dataset_bytes == 0 || each.dataset_bytes >= warp_bytes ? std::optional(each) : std::nullopt;
    });
  }

  // Some shapes are too large for a device.
  [[nodiscard]] std::optional<Flow> flow_if_answered(const Stream& stream) const {
    try {
      return flow_of(stream);
    } catch (const QuestionRefused&) {
      return std::nullopt;
    }
  }

  // As long as it takes for begin and end not to matter.
  [[nodiscard]] Flow flow_of(Stream stream) const {
    constexpr double long_enough_seconds = 7e-4;
    constexpr double most_elements = 1U << 26U;
    constexpr std::uint32_t first_rounds = 16;
    constexpr std::uint32_t runs = 3;
    double elements = first_rounds * stream.elements_in_flight;
    // All of the dataset, at least once.
    const double threads = static_cast<double>(stream.blocks) * stream.block_threads;
    elements =
        std::max(elements, static_cast<double>(stream.dataset_bytes) * bits_of_byte / (threads * stream.element_bits));
    for (int pilot = 0; pilot < 2; ++pilot) {
      stream.elements_per_thread = whole_rounds(elements, stream);
      const double seconds = std::max(time_of(stream).seconds.front(), 1e-7);
      if (seconds >= long_enough_seconds) {
        break;
      }
      elements = std::min(most_elements, stream.elements_per_thread * long_enough_seconds / seconds);
    }
    stream.elements_per_thread = whole_rounds(elements, stream);
    stream.runs = runs;
    const model::Timing timing = time_of(stream);
    const auto fastest = std::ranges::min_element(timing.seconds);
    const double seconds = *fastest;
    const double cycles = timing.cycles[static_cast<std::size_t>(fastest - timing.seconds.begin())];
    const auto bytes = static_cast<double>(bytes_moved(stream));
    return {
        .stream = stream,
        .bytes_per_second = bytes / seconds,
        .elements_per_sm_clock = bytes * bits_of_byte / (stream.element_bits * cycles * std::min(sms_, stream.blocks)),
        .clock_hz = cycles / seconds,
        .spread = 1 - seconds / std::ranges::max(timing.seconds)};
  }

  [[nodiscard]] model::Timing time_of(const Stream& stream) const {
    const model::Workload workload = stream;
    model::Timing timing = device_->time({&workload, 1}).front();
    if (std::ranges::any_of(timing.seconds, [](double seconds) { return seconds <= 0; })) {
      throw Undecided("a stream took no time at all");
    }
    return timing;
  }

 private:
  // The stream with parts that make up so many bytes at most, or none where a block has more than that outstanding.
  static std::optional<Stream> in_parts(Stream stream, std::uint64_t most_bytes) {
    stream.part_bytes = std::bit_floor(most_bytes / stream.blocks);
    stream.dataset_bytes = stream.part_bytes * stream.blocks;
    const std::uint64_t block_bytes =
        std::uint64_t{stream.block_threads} * stream.elements_in_flight * stream.element_bits / 8;
    return stream.part_bytes >= block_bytes ? std::optional(stream) : std::nullopt;
  }

  // The stream in all shapes, with all sizes of elements and numbers of them outstanding.
  template <class Fit>
  [[nodiscard]] std::vector<Flow> by_shape(Stream stream, Fit fit) const {
    std::vector<Flow> flows;
    for (const Shape& shape : shapes) {
      stream.block_threads = shape.block_threads;
      stream.blocks = shape.blocks_of_sm * sms_;
      for (const std::uint32_t bits : element_sizes_bits) {
        stream.element_bits = bits;
        for (const std::uint32_t in_flight : all_in_flight) {
          stream.elements_in_flight = in_flight;
          const std::optional<Stream> fitting = fit(stream);
          if (auto flow = fitting ? flow_if_answered(*fitting) : std::nullopt) {
            flows.push_back(*flow);
          }
        }
      }
    }
    if (flows.empty()) {
      throw Undecided("the device carries out none of the streams");
    }
    return flows;
  }

  static std::uint32_t whole_rounds(double elements, const Stream& stream) {
    const double rounds = std::max(1.0, std::ceil(elements / stream.elements_in_flight));
    return static_cast<std::uint32_t>(rounds) * stream.elements_in_flight;
  }

  Asker* device_;
  std::uint32_t sms_;
};

// Of what the longer of two runs moves more than the shorter one: the first pass does not count.
model::ServedShares share_of_levels(const Stream& shorter, const model::CacheTraffic& few, const Stream& longer,
                                    const model::CacheTraffic& many) {
  using model::CacheTraffic;
  constexpr int digits = 3;
  const double moved = static_cast<double>(bytes_moved(longer)) - static_cast<double>(bytes_moved(shorter));
  const auto share_of = [&](std::uint64_t CacheTraffic::*loaded, std::uint64_t CacheTraffic::*stored) {
    const auto sum = [&](const CacheTraffic& traffic) {
      return static_cast<double>(traffic.*loaded) + static_cast<double>(traffic.*stored);
    };
    return std::clamp((sum(many) - sum(few)) / moved, 0.0, 1.0);
  };
  const double past_l1 = share_of(&CacheTraffic::l2_load_bytes, &CacheTraffic::l2_store_bytes);
  const double past_l2 = std::min(past_l1, share_of(&CacheTraffic::dram_load_bytes, &CacheTraffic::dram_store_bytes));
  return {.dataset_bytes = longer.dataset_bytes,
          .l1 = rounded(1 - past_l1, digits),
          .l2 = rounded(past_l1 - past_l2, digits),
          .dram = rounded(past_l2, digits)};
}

// By the device's counters, of streams of which each block keeps to a part of its own. They are asked for at once, as
// beginning to count takes long. Throws Undecided where the device counts nothing.
std::vector<model::ServedShares> served_shares(const Streams& streams, const std::vector<Stream>& asked) {
  constexpr std::uint64_t enough_bytes = 64U << 20U;  // for what else is under way not to matter
  constexpr std::uint64_t times_as_long = 3;
  std::vector<Stream> runs;  // a shorter and a longer one of each
  for (Stream stream : asked) {
    stream.is_counted = true;
    const std::uint64_t passes = std::max<std::uint64_t>(2, enough_bytes / stream.dataset_bytes);
    const std::uint64_t elements_of_pass =
        stream.part_bytes / (std::uint64_t{stream.block_threads} * stream.element_bits / 8);
    for (const std::uint64_t count : {passes, times_as_long * passes}) {
      stream.elements_per_thread = static_cast<std::uint32_t>(count * elements_of_pass);
      runs.push_back(stream);
    }
  }
  const std::vector<model::Timing> timings =
      streams.device().time(std::vector<model::Workload>(runs.begin(), runs.end()));
  std::vector<model::ServedShares> shares;
  for (std::size_t i = 0; i < runs.size(); i += 2) {
    for (const model::Timing& timing : {timings[i], timings[i + 1]}) {
      if (!timing.counted) {
        throw Undecided(timing.why_not_counted.empty() ? "the device has no counters" : timing.why_not_counted);
      }
    }
    shares.push_back(share_of_levels(runs[i], *timings[i].counted, runs[i + 1], *timings[i + 1].counted));
  }
  return shares;
}

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

// What comes of the most that may be outstanding, over what comes of half of that at most.
double gain_of_more_outstanding(const std::vector<Flow>& flows) {
  const auto outstanding = [](const Flow& flow) { return flow.outstanding_bytes(); };
  const double most = std::ranges::max(flows, {}, outstanding).outstanding_bytes();
  double best = 0;
  double best_of_half = 0;
  for (const Flow& flow : flows) {
    best = std::max(best, flow.bytes_per_second);
    if (flow.outstanding_bytes() <= most / 2) {
      best_of_half = std::max(best_of_half, flow.bytes_per_second);
    }
  }
  return best_of_half > 0 ? best / best_of_half - 1 : 0;
}

// Where most may be outstanding.
const Flow& largest_of_the_best(const std::vector<Flow>& by_size) {
  const double enough = (1 - same_peak) * best_of(by_size).bytes_per_second;
  return *std::find_if(by_size.rbegin(), by_size.rend(),
                       [enough](const Flow& flow) { return flow.bytes_per_second >= enough; });
}

// Where a stage asks, and what it writes.
struct Stage {
  const Streams& streams;
  Leaves& leaves;
  BandwidthFinding& finding;
  std::vector<std::pair<const Memory*, Flow>>& best;  // of the memories that are known to have answered
  std::optional<std::uint64_t> l2_bytes = {};         // what L2 holds, where that is known
};

// More than any cache holds, as far as there is memory.
std::uint64_t largest_of_one_block(const Asker& device) {
  constexpr std::uint64_t beyond_any_cache_bytes = 256U << 20U;
  return std::min(beyond_any_cache_bytes, std::bit_floor(device.buffer().bytes));
}

// What one SM draws while the others rest: as much outstanding as a block can have.
void state_one_sm(const Stage& stage, const Memory& memory, const Stream& of_all_sms) {
  Stream stream = of_all_sms;
  stream.blocks = 1;
  if (memory.is_beyond_caches) {
    stream.part_bytes = largest_of_one_block(stage.streams.device());
    stream.drops_l2 = true;
  }
  if (stream.part_bytes != 0) {
    stream.dataset_bytes = stream.part_bytes;
  }
  for (const std::uint32_t threads : {model::most_block_threads, of_all_sms.block_threads}) {
    stream.block_threads = threads;
    if (const auto flow = stage.streams.flow_if_answered(stream)) {
      stage.leaves[memory.name].details.one_sm_gb_per_second = gigabytes(flow->bytes_per_second);
      return;
    }
  }
}

// By warps of a block and elements that a thread asks for at once: what the block draws, and how long a thread waits
// until it has all of them (Mei & Chu 2017, section 6.1).
class Surface {
 public:
  // Of one block that loads as the best stream of all SMs did, at its clock.
  Surface(const Streams& streams, const Memory& memory, const Flow& best)
      : streams_(&streams), is_beyond_caches_(memory.is_beyond_caches), of_all_sms_(best.stream),
        clock_hz_(best.clock_hz) {
    if (memory.path == StreamPath::shared) {
      of_all_sms_.work = StreamWork::copy;  // as the authors do
    }
  }

  // Of the smallest elements that the device takes; none where it refuses all.
  [[nodiscard]] std::optional<model::OneSmSurface> measure() const {
    for (const std::uint32_t bits : element_sizes_bits) {
      model::OneSmSurface surface{.work = std::string(to_string(of_all_sms_.work)), .element_bits = bits, .points = {}};
      for (const std::uint32_t warps : warps_of_block) {
        for (const std::uint32_t elements : all_in_flight) {
          if (const auto point = point_of(stream_of(bits, warps, elements))) {
            surface.points.push_back(*point);
          } else if (surface.points.empty()) {
            break;
          }
        }
        if (surface.points.empty()) {
          break;  // elements of this size are refused
        }
      }
      if (!surface.points.empty()) {
        return surface;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::array<std::uint32_t, 6> warps_of_block{1, 2, 4, 8, 16, 32};

  [[nodiscard]] Stream stream_of(std::uint32_t bits, std::uint32_t warps, std::uint32_t elements) const {
    Stream stream = of_all_sms_;
    stream.element_bits = bits;
    stream.elements_in_flight = elements;
    stream.block_threads = warps * model::warp_lanes;
    stream.blocks = 1;
    stream.drops_l2 = is_beyond_caches_;
    if (stream.dataset_bytes != 0) {
      // No more than all warps need to load lines of their own: a block held more of it before.
      const std::uint64_t most_bytes =
          std::uint64_t{warps_of_block.back()} * model::warp_lanes * all_in_flight.back() * bits / 8;
      const std::uint64_t bytes = stream.part_bytes != 0 ? stream.part_bytes : stream.dataset_bytes;
      stream.dataset_bytes =
          is_beyond_caches_ ? largest_of_one_block(streams_->device()) : std::min(std::bit_floor(bytes), most_bytes);
      stream.part_bytes = stream.part_bytes != 0 ? stream.dataset_bytes : 0;
    }
    return stream;
  }

  // By runs of two lengths: what it takes to begin and to end, and to bring the data at first, does not count.
  [[nodiscard]] std::optional<model::SurfacePoint> point_of(const Stream& stream) const {
    constexpr std::uint64_t fewest_rounds = 256;
    constexpr std::uint64_t times_as_long = 3;
    const std::uint64_t round_bytes =
        std::uint64_t{stream.block_threads} * stream.elements_in_flight * stream.element_bits / 8;
    const std::uint64_t rounds =
        is_beyond_caches_ ? fewest_rounds : std::max(fewest_rounds, stream.dataset_bytes / round_bytes);
    const auto few = cycles_of(stream, rounds);
    const auto many = cycles_of(stream, times_as_long * rounds);
    if (!few || !many || *many <= *few) {
      return std::nullopt;
    }
    const double cycles = (*many - *few) / static_cast<double>((times_as_long - 1) * rounds);
    const auto bytes = static_cast<double>(round_bytes * accesses_of_element(stream));
    return model::SurfacePoint{.warps = stream.block_threads / model::warp_lanes,
                               .elements = stream.elements_in_flight,
                               .gb_per_second = gigabytes(bytes / cycles * clock_hz_),
                               .cycles = rounded(cycles)};
  }

  // Of the fastest run; none where the device refuses.
  [[nodiscard]] std::optional<double> cycles_of(Stream stream, std::uint64_t rounds) const {
    constexpr std::uint32_t runs = 3;
    stream.elements_per_thread = static_cast<std::uint32_t>(rounds) * stream.elements_in_flight;
    stream.runs = runs;
    const model::Workload workload = stream;
    try {
      return std::ranges::min(streams_->device().time({&workload, 1}).front().cycles);
    } catch (const QuestionRefused&) {
      return std::nullopt;
    }
  }

  const Streams* streams_;
  bool is_beyond_caches_;
  Stream of_all_sms_;
  double clock_hz_;
};

// `doubt`: why the memory is not known to be the one that answered.
void settle(const Stage& stage, const Memory& memory, const std::vector<Flow>& flows, const std::vector<Flow>& by_size,
            const std::string& doubt) {
  const Flow best = best_of(flows);
  const Flow again = stage.streams.flow_of(best.stream);
  model::LeafEvidence& leaf = stage.leaves[memory.name];
  describe(leaf, best, again, flows, by_size, stage.streams.sms());
  const double gain = gain_of_more_outstanding(flows);
  const double difference = std::abs(again.bytes_per_second / best.bytes_per_second - 1);
  stage.streams.device().learned(gigabytes_text(best.bytes_per_second) + " GB/s at most, " +
                                 gigabytes_text(again.bytes_per_second) + " when asked again");
  if (!doubt.empty()) {
    stage.leaves.leave_open(memory.name, EvidenceStatus::unknown, doubt);
  } else if (difference > same_peak) {
    stage.leaves.leave_open(memory.name, EvidenceStatus::ambiguous,
                            "two rounds of the same stream differ by " + percent_text(difference));
    leaf.alternatives = {model::to_text(rounded(best.bytes_per_second)),
                         model::to_text(rounded(again.bytes_per_second))};
  } else if (gain > 2 * same_peak) {
    stage.leaves.leave_open(memory.name, EvidenceStatus::ambiguous,
                            "it still gives " + percent_text(gain) +
                                " more with twice as many outstanding elements, so this may not be the peak");
    leaf.alternatives = {model::to_text(rounded(best.bytes_per_second))};
  } else {
    model::Bandwidth& found = stage.finding.bandwidth[memory.name];
    found.best = element_bandwidth(best);
    for (const std::uint32_t bits : element_sizes_bits) {
      if (const auto best_of_size =
              best_where(flows, [bits](const Flow& flow) { return flow.stream.element_bits == bits; })) {
        found.by_element_bits.push_back(element_bandwidth(*best_of_size));
      }
    }
    stage.leaves.resolve(memory.name);
  }
  state_one_sm(stage, memory, best.stream);
  if (doubt.empty()) {
    stage.best.emplace_back(&memory, best);
  }
}

// Which share of the loaded bytes L1, L2 and memory serve, by the size of a dataset of which each block keeps to a part
// of its own (Konstantinidis & Cotronis 2016, figure 6), as far as the device counts.
class ServedByLevel {
 public:
  explicit ServedByLevel(const Stage& stage) : stage_(&stage) {}

  void state(std::uint64_t largest_bytes) const {
    Asker& device = stage_->streams.device();
    model::EvidenceDetails& details = stage_->leaves[l1.name].details;
    device.inquire("the device's counters, while each block loads a part of its own from datasets of every size",
                   "what fits a level is served by it, and the rest by what is behind it");
    try {
      details.served_by_dataset = shares_up_to(largest_bytes);
      device.learned(details.served_by_dataset.empty()
                         ? "the device has too little memory for such datasets"
                         : "shares of datasets of up to " +
                               model::to_text(details.served_by_dataset.back().dataset_bytes) + " bytes");
    } catch (const QuestionRefused& refused) {
      device.learned(std::string("refused: ") + refused.what());
    } catch (const Undecided& none) {
      details.not_counted.emplace_back(none.what());
      device.learned(none.what());
    }
  }

 private:
  static constexpr std::uint32_t element_bits = 32;
  static constexpr std::uint32_t block_threads = 256;
  static constexpr std::uint32_t blocks_of_sm = 2;

  // Until memory serves nearly all. Each twice the one before it, and half as much again between two that differ: parts
  // are powers of two.
  [[nodiscard]] std::vector<model::ServedShares> shares_up_to(std::uint64_t largest_bytes) const {
    constexpr std::size_t at_once = 4;
    constexpr double nearly_all = 0.95;
    constexpr double nearly_same = 0.01;
    std::vector<model::ServedShares> shares;
    std::uint64_t part_bytes = std::uint64_t{block_threads} * element_bits / 8;
    while (shares.empty() || shares.back().dram < nearly_all) {
      std::vector<Stream> streams;
      for (; streams.size() < at_once && stream_of(part_bytes, blocks_of_sm).dataset_bytes <= largest_bytes;
           part_bytes *= 2) {
        streams.push_back(stream_of(part_bytes, blocks_of_sm));
      }
      if (streams.empty()) {
        break;
      }
      std::ranges::move(served_shares(stage_->streams, streams), std::back_inserter(shares));
    }
    const auto first_of_memory = std::ranges::find_if(shares, [](const auto& each) { return each.dram >= nearly_all; });
    shares.erase(first_of_memory == shares.end() ? shares.end() : std::next(first_of_memory), shares.end());
    std::vector<Stream> between;
    for (std::size_t i = 1; i < shares.size(); ++i) {
      const auto& [bytes, of_l1, of_l2, of_memory] = shares[i - 1];
      if (std::abs(of_l1 - shares[i].l1) > nearly_same || std::abs(of_memory - shares[i].dram) > nearly_same) {
        between.push_back(stream_of(bytes / (blocks_of_sm * stage_->streams.sms()), blocks_of_sm + 1));
      }
    }
    if (!between.empty()) {
      std::ranges::move(served_shares(stage_->streams, between), std::back_inserter(shares));
      std::ranges::sort(shares, {}, &model::ServedShares::dataset_bytes);
    }
    return shares;
  }

  [[nodiscard]] Stream stream_of(std::uint64_t part_bytes, std::uint32_t blocks) const {
    Stream stream = stage_->streams.stream_of(l1, 0);
    stream.element_bits = element_bits;
    stream.elements_in_flight = 1;
    stream.block_threads = block_threads;
    stream.blocks = blocks * stage_->streams.sms();
    stream.part_bytes = part_bytes;
    stream.dataset_bytes = part_bytes * stream.blocks;
    return stream;
  }

  const Stage* stage_;
};

// After all peaks: whoever stops early has those.
void state_surfaces(const Stage& stage) {
  Asker& device = stage.streams.device();
  device.inquire("one block of 1 to 32 warps that ask for 1 to 8 elements a thread at once, from what loads wait for",
                 "what is under way over how long it takes is what comes (Little's law), up to a peak");
  std::size_t points = 0;
  for (const auto& [memory, best] : stage.best) {
    if (memory->work == StreamWork::load || memory->work == StreamWork::swap) {
      if (auto surface = Surface(stage.streams, *memory, best).measure()) {
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
  const auto begun = std::ranges::find(memories, &memory) - memories.begin();
  stage.streams.device().report(memory.name, static_cast<double>(begun) / static_cast<double>(memories.size()));
}

// What it helps that a dataset is in L2, by its size: (bytes, seconds), ascending.
using Savings = std::vector<std::pair<double, double>>;

// The squares that a ramp which ends at `full_bytes` leaves over.
double squares_left_by_ramp(const Savings& savings, double full_bytes) {
  const auto count = static_cast<double>(savings.size());
  double mean_x = 0;
  double mean_y = 0;
  for (const auto& [bytes, seconds] : savings) {
    mean_x += std::min(bytes, full_bytes) / count;
    mean_y += seconds / count;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (const auto& [bytes, seconds] : savings) {
    const double x = std::min(bytes, full_bytes) - mean_x;
    const double y = seconds - mean_y;
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  return xx > 0 && xy > 0 ? std::max(0.0, yy - xy * xy / xx) : yy;
}

// Between which sizes what L2 saves stops growing: all at which a ramp may end by an F test, with a step on either
// side. None where no ramp with a level end explains it.
std::optional<model::BytePair> end_of_ramp(const Savings& savings) {
  constexpr double parameters = 3;
  constexpr double unlikely_ratio = 10;    // of F, with one degree of freedom: 1 in 200
  constexpr double least_explained = 0.9;  // of the squares
  std::vector<double> left;
  for (const auto& [bytes, seconds] : savings) {
    left.push_back(squares_left_by_ramp(savings, bytes));
  }
  const double all = squares_left_by_ramp(savings, savings.front().first);
  const double clock_step_squares = 1e-16 * static_cast<double>(savings.size());  // of 10 ns
  const double least = std::ranges::min(left);
  const double most =
      (least + clock_step_squares) * (1 + unlikely_ratio / (static_cast<double>(savings.size()) - parameters));
  if (least > (1 - least_explained) * all || left.back() <= most) {
    return std::nullopt;
  }
  const auto may_end = [most](double squares) { return squares <= most; };
  const auto first = static_cast<std::size_t>(std::ranges::find_if(left, may_end) - left.begin());
  const auto last =
      left.size() - 1 - static_cast<std::size_t>(std::find_if(left.rbegin(), left.rend(), may_end) - left.rbegin());
  return model::BytePair{static_cast<std::uint64_t>(savings[first == 0 ? 0 : first - 1].first),
                         static_cast<std::uint64_t>(savings[std::min(last + 1, savings.size() - 1)].first)};
}

constexpr const char* copy_knee = "copy_knee_bytes";

// Each thread copies one element, with the dataset in L2 as far as it fits, or with nothing of it (Lashgar, Salehi,
// Baniasadi 2015, section 3.3): what that saves grows until L2 is full.
class L2Saving {
 public:
  L2Saving(const Stage& stage, const Memory& cache) : stage_(&stage), cache_(&cache) {}

  void state(std::uint64_t largest_bytes) const {
    stage_->leaves.begin(copy_knee, "its copies were not all asked for");
    Asker& device = stage_->streams.device();
    device.inquire("copies of one element by each thread, in L2 or driven out of it before",
                   "what L2 saves grows with the dataset until L2 is full");
    try {
      device.learned(settle(doublings(largest_bytes)));
    } catch (const QuestionRefused& refused) {
      device.learned(leave_open(std::string("the device refused a question: ") + refused.what()));
    }
  }

 private:
  static constexpr std::uint32_t element_bits = 64;

  [[nodiscard]] double seconds_saved(std::uint64_t bytes, std::uint64_t part_bytes) const {
    constexpr std::uint32_t runs = 5;
    Stream stream = stage_->streams.stream_of(*cache_, bytes);
    stream.element_bits = element_bits;
    stream.elements_in_flight = 1;
    stream.part_bytes = part_bytes;
    stream.blocks = static_cast<std::uint32_t>(bytes * 8 / stream.element_bits / stream.block_threads);
    stream.elements_per_thread = 1;
    stream.runs = runs;
    const double in_l2 = std::ranges::min(stage_->streams.time_of(stream).seconds);
    stream.drops_l2 = true;
    return std::ranges::min(stage_->streams.time_of(stream).seconds) - in_l2;
  }

  [[nodiscard]] Savings doublings(std::uint64_t largest_bytes) const {
    constexpr std::uint64_t smallest_bytes = 64U << 10U;
    constexpr std::uint64_t most_bytes = 512U << 20U;
    Savings savings;
    model::BySize& saved = stage_->leaves[copy_knee].details.microseconds_saved_by_l2_by_bytes;
    for (std::uint64_t bytes = smallest_bytes; bytes <= std::min(largest_bytes, most_bytes); bytes *= 2) {
      savings.emplace_back(bytes, seconds_saved(bytes, 0));
      saved.emplace_back(bytes, microseconds(savings.back().second));
    }
    return savings;
  }

  // From half of `before`, the largest doubling before those that gain no more, to well past them.
  [[nodiscard]] Savings steps(std::uint64_t before, std::uint64_t largest_bytes) const {
    constexpr std::uint64_t most_steps = 32;
    const std::uint64_t part_bytes = usual_shape.block_threads * (element_bits / 8);
    const std::uint64_t end = std::min(8 * before, largest_bytes);
    const std::uint64_t step = std::max(part_bytes, (end - before / 2) / most_steps / part_bytes * part_bytes);
    Savings savings;
    for (std::uint64_t bytes = before / 2; bytes <= end; bytes += step) {
      savings.emplace_back(bytes, seconds_saved(bytes, part_bytes));
    }
    return savings;
  }

  // Asks in finer steps where doublings show that it stops growing, and once more. Returns what was learned.
  [[nodiscard]] std::string settle(const Savings& doublings) const {
    constexpr double nearly = 0.9;
    if (doublings.size() < 3) {
      return leave_open("the device has too little memory for copies");
    }
    const double most = std::ranges::max(doublings, {}, &Savings::value_type::second).second;
    if (most <= 0) {
      return leave_open("L2 saves copies nothing" + costs(doublings));
    }
    const auto level =
        std::ranges::find_if(doublings, [most](const auto& each) { return each.second >= nearly * most; });
    if (level == doublings.begin()) {
      return leave_open("what L2 saves copies does not grow" + costs(doublings));
    }
    if (std::next(level) == doublings.end()) {
      return leave_open("what L2 saves copies still grows at the largest dataset" + costs(doublings));
    }
    const auto before = static_cast<std::uint64_t>(std::prev(level)->first);
    const auto largest_bytes = static_cast<std::uint64_t>(doublings.back().first);
    const auto first = end_of_ramp(steps(before, largest_bytes));
    if (!first) {
      return leave_open(
          "what L2 saves copies does not grow and then stay: something else changes between runs, such as what has to "
          "be "
          "written back" +
          costs(doublings));
    }
    const auto again = end_of_ramp(steps(before, largest_bytes));
    if (!again || (*again)[0] > (*first)[1] || (*first)[0] > (*again)[1]) {
      const std::string text = leave_open(again ? "two rounds of the same copies stop gaining at other sizes"
                                                : "a second round of the same copies does not grow and then stay",
                                          EvidenceStatus::ambiguous);
      stage_->leaves[copy_knee].alternatives.push_back(interval_text(*first));
      if (again) {
        stage_->leaves[copy_knee].alternatives.push_back(interval_text(*again));
      }
      return text;
    }
    return resolve({std::min((*first)[0], (*again)[0]), std::max((*first)[1], (*again)[1])}) + costs(doublings);
  }

  [[nodiscard]] std::string resolve(const model::BytePair& knee) const {
    const model::RealInterval bytes{static_cast<double>(knee[0]), static_cast<double>(knee[1])};
    stage_->finding.bandwidth.copy_knee_bytes = bytes;
    std::string text =
        "it stops growing between " + model::to_text(knee[0]) + " and " + model::to_text(knee[1]) + " bytes";
    if (const auto l2_bytes = stage_->l2_bytes) {
      const auto capacity = static_cast<double>(*l2_bytes);
      const bool is_half = bytes[0] <= capacity / 2 && capacity / 2 <= bytes[1];
      stage_->leaves[copy_knee].details.of_l2 = {.capacity_bytes = *l2_bytes,
                                                 .share = {rounded(bytes[0] / capacity), rounded(bytes[1] / capacity)},
                                                 .is_half = is_half};
      text += (is_half ? ", and half of L2, which holds " : ", which contradicts an L2 that holds ") +
              model::to_text(*l2_bytes) + (is_half ? ", is there" : "");
    }
    stage_->leaves.resolve(copy_knee);
    return text;
  }

  [[nodiscard]] std::string leave_open(const std::string& reason,
                                       EvidenceStatus status = EvidenceStatus::unknown) const {
    stage_->leaves.leave_open(copy_knee, status, reason);
    return reason;
  }

  // What is worse with the dataset in L2; empty: nothing.
  [[nodiscard]] static std::string costs(const Savings& savings) {
    const auto first = std::ranges::find_if(savings, [](const auto& each) { return microseconds(each.second) < 0; });
    if (first == savings.end()) {
      return "";
    }
    const double most = -std::ranges::min(savings, {}, &Savings::value_type::second).second;
    return "; it costs up to " + model::to_text(microseconds(most)) + " microseconds, at " +
           model::to_text(static_cast<std::uint64_t>(first->first)) + " bytes first";
  }

  [[nodiscard]] static double microseconds(double seconds) { return std::round(seconds * 1e8) / 1e2; }
  [[nodiscard]] static std::string interval_text(const model::BytePair& bytes) {
    return "[" + model::to_text(bytes[0]) + ", " + model::to_text(bytes[1]) + "]";
  }

  const Stage* stage_;
  const Memory* cache_;
};

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

// Those of these flows that go on to memory with half of their bytes at most, by the device's counters, so that memory
// does not bound them; none where it counts nothing.
std::vector<Flow> served_by_l2(const Streams& streams, const std::vector<Flow>& by_size) {
  constexpr double half = 0.5;
  Asker& device = streams.device();
  device.inquire("the device's counters, by the size of the dataset",
                 "what goes no further than L2 is what L2 gives, however fast memory is");
  std::vector<Flow> served;
  try {
    std::vector<Stream> asked;
    std::ranges::transform(by_size, std::back_inserter(asked), &Flow::stream);
    const std::vector<model::ServedShares> shares = served_shares(streams, asked);
    for (std::size_t i = 0; i < by_size.size(); ++i) {
      if (shares[i].l2 >= half) {
        served.push_back(by_size[i]);
      }
    }
    device.learned(served.empty() ? "memory serves all sizes"
                                  : "L2 serves datasets of up to " +
                                        model::to_text(served.back().stream.dataset_bytes) + " bytes");
  } catch (const QuestionRefused& refused) {
    device.learned(std::string("refused: ") + refused.what());
  } catch (const Undecided& none) {
    device.learned(none.what());
  }
  return served;
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
  std::vector<Flow> of_cache =
      stage.streams.by_shape_in_parts(cache, largest_of_the_best(by_size).stream.dataset_bytes);
  bool is_cache = best_of(of_cache).bytes_per_second > (1 + 3 * same_peak) * last.bytes_per_second;
  if (!is_cache) {
    if (const std::vector<Flow> served = served_by_l2(stage.streams, by_size); !served.empty()) {
      of_cache = stage.streams.by_shape_in_parts(cache, largest_of_the_best(served).stream.dataset_bytes);
      is_cache = true;
    }
  }
  settle(stage, cache, of_cache, by_size, is_cache ? "" : "no size of the dataset gives more than memory does");
  if (cache.work == StreamWork::load) {
    stage.leaves[cache.name].details.gb_per_second_by_dataset_of_all_blocks =
        by_dataset(stage.streams.sweep(cache, std::min(largest_bytes, largest_texture_bytes)));
  } else if (cache.work == StreamWork::copy) {
    L2Saving(stage, cache).state(largest_bytes);
  }
  begin(stage, memory);
  stage.streams.device().inquire("the same from the largest dataset", "it does not fit any cache");
  const bool is_level = std::abs(before_last.bytes_per_second / last.bytes_per_second - 1) < 2 * same_peak;
  settle(stage, memory, stage.streams.by_shape_in_parts(memory, largest_bytes), {},
         is_level ? "" : "the two largest datasets differ: larger ones may do so, too");
}

// A first cache, which is one if it gives more than what is behind it.
void find_of_cache(const Stage& stage, const Memory& cache, std::uint64_t largest_bytes, const std::string& how) {
  begin(stage, cache);
  stage.streams.device().inquire(how + " from datasets of every size, and in blocks and elements of every shape",
                                 "what fits the cache comes faster than what does not");
  const std::vector<Flow> by_size =
      stage.streams.sweep(cache, std::min(largest_bytes, stage.streams.device().buffer().bytes));
  const std::vector<Flow> all = stage.streams.by_shape(best_of(by_size).stream);
  const auto& behind = stage.finding.bandwidth.at(l2_load.name).best;
  const double behind_bytes_per_second = behind ? behind->bytes_per_second : by_size.back().bytes_per_second;
  settle(stage, cache, all, by_size,
         best_of(all).bytes_per_second > (1 + same_peak) * behind_bytes_per_second
             ? ""
             : "it is no faster than L2, so it is not known to be read at all");
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
  const model::Workload store = Stream{.path = l2_store.path,
                                       .work = l2_store.work,
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
  find_of_memory(stage, l2_load, dram_load, largest_bytes);
  find_of_memory(stage, l2_copy, dram_copy, largest_bytes);
  if (takes_stores) {
    find_of_memory(stage, l2_store, dram_store, largest_bytes);
  }
  find_of_cache(stage, l1, largest_texture_bytes, "ld.global.ca");
  find_of_cache(stage, texture, largest_texture_bytes, "texture fetches");
  find_on_chip(stage, shared, {shared, shared_by_copies}, "what threads swap and copy in shared memory");
  find_on_chip(stage, constant, {constant}, "one constant for all lanes of a warp");
  if (takes_stores) {
    find_on_chip(stage, shared_store, {shared_store}, "what threads store to shared memory");
  }
  state_surfaces(stage);
  ServedByLevel(stage).state(largest_bytes);
  device.report("done", 1.0);
}

}  // namespace

BandwidthFinding infer_bandwidth(model::Answerer& device, const std::string& target,
                                 const model::DeviceDescription& known, const Settings& settings) {
  Asker interrogator(device, target, settings);
  BandwidthFinding finding;
  const bool takes_stores = takes_stores_alone(device);
  std::vector<const char*> names{copy_knee};
  for (const Memory* memory : memories) {
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
