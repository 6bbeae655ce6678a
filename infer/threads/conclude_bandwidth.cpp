// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/threads/conclude_bandwidth.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

using model::EvidenceStatus;
using model::percent_text;
using model::rounded;

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

model::ElementBandwidth element_bandwidth(const Flow& flow) {
  return {.element_bits = flow.stream.element_bits,
          .bytes_per_second = rounded(flow.bytes_per_second),
          .elements_per_sm_clock = rounded(flow.elements_per_sm_clock)};
}

model::Bandwidth bandwidth_of(const std::vector<Flow>& flows) {
  model::Bandwidth found;
  found.best = element_bandwidth(best_of(flows));
  for (const std::uint32_t bits : element_sizes_bits) {
    if (const auto best = best_where(flows, [bits](const Flow& flow) { return flow.stream.element_bits == bits; })) {
      found.by_element_bits.push_back(element_bandwidth(*best));
    }
  }
  return found;
}

PeakVerdict ambiguous(std::string reason, std::vector<double> peaks) {
  PeakVerdict verdict{.leaf = {.status = EvidenceStatus::ambiguous, .reason = std::move(reason)}};
  std::ranges::transform(peaks, std::back_inserter(verdict.leaf.alternatives),
                         [](double peak) { return model::to_text(rounded(peak)); });
  return verdict;
}

}  // namespace

bool is_above_memory(double peak_bytes_per_second, double memory_bytes_per_second) {
  return peak_bytes_per_second > (1 + 3 * same_peak) * memory_bytes_per_second;
}

bool gives_the_peak_alone(double served_bytes_per_second, double peak_bytes_per_second) {
  return served_bytes_per_second >= (1 - 2 * same_peak) * peak_bytes_per_second;
}

std::string doubt_of_last_cache(bool is_seen_apart) {
  return is_seen_apart ? "" : "no size of the dataset gives more than memory does";
}

std::string doubt_of_memory(const Flow& of_half_the_dataset, const Flow& of_largest_dataset) {
  const bool is_level =
      std::abs(of_half_the_dataset.bytes_per_second / of_largest_dataset.bytes_per_second - 1) < 2 * same_peak;
  return is_level ? "" : "the two largest datasets differ: larger ones may do so, too";
}

std::string doubt_of_first_cache(double peak_bytes_per_second, double l2_bytes_per_second) {
  return peak_bytes_per_second > (1 + same_peak) * l2_bytes_per_second
             ? ""
             : "it is no faster than L2, so it is not known to be read at all";
}

PeakVerdict conclude_peak(const PeakSeen& seen) {
  if (!seen.doubt.empty()) {
    return {.leaf = {.status = EvidenceStatus::unknown, .reason = seen.doubt}};
  }
  const double best = best_of(seen.flows).bytes_per_second;
  const double again = seen.again.bytes_per_second;
  if (const double difference = std::abs(again / best - 1); difference > same_peak) {
    return ambiguous("two rounds of the same stream differ by " + percent_text(difference), {best, again});
  }
  if (const double gain = gain_of_more_outstanding(seen.flows); gain > 2 * same_peak) {
    return ambiguous("it still gives " + percent_text(gain) +
                         " more with twice as many outstanding elements, so this may not be the peak",
                     {best});
  }
  return {.leaf = LeafVerdict::resolved(), .bandwidth = bandwidth_of(seen.flows)};
}

}  // namespace gpuinfer::infer
