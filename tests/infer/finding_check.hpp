// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "infer/cache/index_fit.hpp"
#include "infer/cache/infer_cache.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::infer {

inline model::EvidenceStatus status_of(const CacheFinding& finding, const std::string& leaf) {
  const auto entry = finding.evidence.leaves.find(leaf);
  return entry == finding.evidence.leaves.end() ? model::EvidenceStatus::unknown : entry->second.status;
}

inline bool is_resolved(const CacheFinding& finding, const std::string& leaf) {
  return status_of(finding, leaf) == model::EvidenceStatus::resolved;
}

// All that a finding says, for messages and for comparing two of them byte by byte.
inline std::string text_of(const CacheFinding& finding) {
  model::DeviceDescription profile;
  profile.device.name = "tested";
  profile.device.source = "test";
  profile.caches["L1tex"] = finding.cache;
  profile.evidence["L1tex"] = finding.evidence;
  std::string text = model::to_yaml(profile);
  for (const Warning& warning : finding.warnings) {
    text += "# " + to_text(warning) + "\n";
  }
  return text + "# " + std::to_string(finding.questions) + " questions, " + std::to_string(finding.accesses) +
         " accesses\n";
}

// Both place these addresses alike, in sets of the same size.
inline bool same_sets(const model::CacheDescription& a, const model::CacheDescription& b,
                      const std::vector<std::uint64_t>& addresses) {
  if (!same_partition(*a.index, *b.index, addresses)) {
    return false;
  }
  return std::all_of(addresses.begin(), addresses.end(), [&](std::uint64_t number) {
    const model::Address address{number};
    return (*a.ways)[model::set_of(*a.index, address)] == (*b.ways)[model::set_of(*b.index, address)];
  });
}

// Weights are estimates, and only their proportions mean anything.
inline void expect_same_shares(const model::Replacement& found, const model::Replacement& expected) {
  const auto shares = [](const model::Replacement& policy) {
    std::vector<double> weights = std::get<std::vector<double>>(policy.parameters.at("victim_weights"));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) {
      weight /= sum;
    }
    return weights;
  };
  const std::vector<double> found_shares = shares(found);
  const std::vector<double> expected_shares = shares(expected);
  ASSERT_EQ(found_shares.size(), expected_shares.size());
  for (std::size_t way = 0; way < found_shares.size(); ++way) {
    EXPECT_NEAR(found_shares[way], expected_shares[way], 0.03) << "way " << way;
  }
}

// Every resolved leaf is true, and every other one is null. A leaf that `truth` lacks has no true value, so it must not
// be resolved. Addresses of an index that goes only so far are compared as far as it goes.
inline void expect_nothing_wrong(const CacheFinding& finding, const model::CacheDescription& truth,
                                 model::Address first_address, std::uint64_t range_bytes) {
  SCOPED_TRACE(text_of(finding));
  const model::CacheDescription& cache = finding.cache;
  const auto expect_number = [&](const char* leaf, const auto& found, const auto& expected) {
    EXPECT_EQ(found.has_value(), is_resolved(finding, leaf)) << leaf;
    EXPECT_TRUE(!found || found == expected) << leaf << " is wrong";
  };
  expect_number("capacity_bytes", cache.capacity_bytes, truth.capacity_bytes);
  expect_number("onset_bytes", cache.onset_bytes, truth.onset_bytes);
  expect_number("line_bytes", cache.line_bytes, truth.line_bytes);
  expect_number("sector_bytes", cache.sector_bytes, truth.sector_bytes);

  EXPECT_EQ(cache.ways.has_value(), is_resolved(finding, "ways"));
  EXPECT_EQ(cache.index.has_value(), is_resolved(finding, "index"));
  if (cache.ways && !cache.index) {
    ASSERT_TRUE(truth.ways.has_value()) << "ways";
    std::vector<std::uint32_t> found = *cache.ways;
    std::vector<std::uint32_t> expected = *truth.ways;
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected) << "ways";
  }
  if (cache.index) {
    ASSERT_TRUE(truth.index.has_value() && truth.ways.has_value() && cache.ways.has_value()) << "index";
    EXPECT_EQ(cache.ways->size(), truth.ways->size());
    std::vector<std::uint64_t> addresses;
    constexpr std::uint64_t most_addresses = 20000;
    const std::uint64_t stride = std::max<std::uint64_t>(4, range_bytes / most_addresses / 4 * 4);
    for (std::uint64_t offset = 0; offset < range_bytes; offset += stride) {
      for (const model::Address address : {first_address + offset, first_address + offset / stride * 4}) {
        if (model::covers(*cache.index, address) && model::covers(*truth.index, address)) {
          addresses.push_back(number_of(address));
        }
      }
    }
    EXPECT_TRUE(same_sets(cache, truth, addresses)) << "index or ways are wrong";
  }

  EXPECT_EQ(cache.replacement.has_value(), is_resolved(finding, "replacement"));
  if (cache.replacement) {
    ASSERT_TRUE(truth.replacement.has_value()) << "replacement";
    EXPECT_EQ(cache.replacement->policy, truth.replacement->policy);
    if (cache.replacement->policy == "weighted_random" && truth.replacement->policy == "weighted_random") {
      expect_same_shares(*cache.replacement, *truth.replacement);
    } else {
      EXPECT_EQ(cache.replacement->parameters, truth.replacement->parameters);
    }
  }

  EXPECT_EQ(cache.latency_cycles.hit.has_value(), is_resolved(finding, "latency_cycles"));
  for (const auto& [found, expected] : {std::pair(cache.latency_cycles.hit, truth.latency_cycles.hit),
                                        std::pair(cache.latency_cycles.miss, truth.latency_cycles.miss)}) {
    if (found) {
      ASSERT_TRUE(expected.has_value()) << "latency_cycles";
      EXPECT_NEAR(*found, *expected, 3) << "latency_cycles";
    }
  }
}

}  // namespace gpuinfer::infer
