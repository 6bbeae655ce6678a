// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/served_by_level.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::rounded;
using model::Stream;

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

class ServedByLevel {
 public:
  explicit ServedByLevel(const Streams& streams) : streams_(&streams) {}

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
      std::ranges::move(served_shares(*streams_, streams), std::back_inserter(shares));
    }
    const auto first_of_memory = std::ranges::find_if(shares, [](const auto& each) { return each.dram >= nearly_all; });
    shares.erase(first_of_memory == shares.end() ? shares.end() : std::next(first_of_memory), shares.end());
    std::vector<Stream> between;
    for (std::size_t i = 1; i < shares.size(); ++i) {
      const auto& [bytes, of_l1, of_l2, of_memory] = shares[i - 1];
      if (std::abs(of_l1 - shares[i].l1) > nearly_same || std::abs(of_memory - shares[i].dram) > nearly_same) {
        between.push_back(stream_of(bytes / (blocks_of_sm * streams_->sms()), blocks_of_sm + 1));
      }
    }
    if (!between.empty()) {
      std::ranges::move(served_shares(*streams_, between), std::back_inserter(shares));
      std::ranges::sort(shares, {}, &model::ServedShares::dataset_bytes);
    }
    return shares;
  }

 private:
  static constexpr std::uint32_t element_bits = 32;
  static constexpr std::uint32_t block_threads = 256;
  static constexpr std::uint32_t blocks_of_sm = 2;

  [[nodiscard]] Stream stream_of(std::uint64_t part_bytes, std::uint32_t blocks) const {
    Stream stream = streams_->stream_of(memories::l1, 0);
    stream.element_bits = element_bits;
    stream.elements_in_flight = 1;
    stream.block_threads = block_threads;
    stream.blocks = blocks * streams_->sms();
    stream.part_bytes = part_bytes;
    stream.dataset_bytes = part_bytes * stream.blocks;
    return stream;
  }

  const Streams* streams_;
};

}  // namespace

void state_served(const Streams& streams, std::uint64_t largest_bytes, model::EvidenceDetails& details) {
  Asker& device = streams.device();
  device.inquire("the device's counters, while each block loads a part of its own from datasets of every size",
                 "what fits a level is served by it, and the rest by what is behind it");
  try {
    details.served_by_dataset = ServedByLevel(streams).shares_up_to(largest_bytes);
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

std::vector<Flow> served_by_l2(const Streams& streams, const std::vector<Flow>& by_size) {
  constexpr double nearly_all = 0.9;
  Asker& device = streams.device();
  device.inquire("the device's counters, by the size of the dataset",
                 "what goes no further than L2 is what L2 gives, however fast memory is");
  std::vector<Flow> served;
  try {
    std::vector<Stream> asked;
    std::ranges::transform(by_size, std::back_inserter(asked), &Flow::stream);
    const std::vector<model::ServedShares> shares = served_shares(streams, asked);
    for (std::size_t i = 0; i < by_size.size(); ++i) {
      if (shares[i].l2 >= nearly_all) {
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

}  // namespace gpuinfer::infer
