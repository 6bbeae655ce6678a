// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/workload.hpp"
#include "probe/hdf5.hpp"

// What writing and reading of archives share: names, rows and groups as probe/archive.hpp describes them.
namespace gpuinfer::probe::archive {

inline constexpr std::string_view schema = "gpuinfer-trace/2";
// Its rows of `question` have columns of their own (EarlierRow), and no sequence stands for several questions.
inline constexpr std::string_view earlier_schema = "gpuinfer-trace/1";
inline constexpr std::string_view launch_prefix = "launch_";
inline constexpr std::string_view timings_prefix = "timings_";
inline constexpr std::string_view places_prefix = "places_";
inline constexpr std::string_view no_circumstances = "{}";
inline constexpr const char* disturbances_attribute = "disturbances";

// Accesses of an archive, counted from its first group on.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// A row of the dataset `question`.
struct QuestionRow {
  std::uint64_t launch = 0;
  Range warm;
  Range record;
  std::uint64_t latency_begin = 0;
};

// The same, of archives of the earlier schema. What is recorded follows the warm-up, and accesses count from the first
// one of the group.
struct EarlierRow {
  std::uint64_t launch = 0;
  std::uint64_t warm_begin = 0;
  std::uint64_t record_begin = 0;
  std::uint64_t record_end = 0;
  std::uint64_t latency_begin = 0;
};

// A row of whole numbers, all of 64 bits.
inline hdf5::Handle row_type(std::initializer_list<const char*> columns) {
  hdf5::Handle type(H5Tcreate(H5T_COMPOUND, columns.size() * sizeof(std::uint64_t)), H5Tclose, "no memory for a type");
  std::size_t position = 0;
  for (const char* column : columns) {
    hdf5::checked(H5Tinsert(type.get(), column, position, H5T_NATIVE_UINT64), "no memory for a type");
    position += sizeof(std::uint64_t);
  }
  return type;
}

inline hdf5::Handle question_type() {
  static_assert(sizeof(QuestionRow) == 6 * sizeof(std::uint64_t));
  return row_type({"launch", "warm_begin", "warm_end", "record_begin", "record_end", "latency_begin"});
}

inline hdf5::Handle earlier_question_type() {
  static_assert(sizeof(EarlierRow) == 5 * sizeof(std::uint64_t));
  return row_type({"launch", "warm_begin", "record_begin", "record_end", "latency_begin"});
}

// In the order in which they stand in the dataset `counted`.
inline constexpr std::array counts{&model::CacheTraffic::l1_sectors, &model::CacheTraffic::l2_load_bytes,
                                   &model::CacheTraffic::l2_store_bytes, &model::CacheTraffic::dram_load_bytes,
                                   &model::CacheTraffic::dram_store_bytes};

// The datasets of a group of workloads.
struct TimingsGroup {
  std::vector<std::string> workloads;  // as JSON
  std::vector<std::uint64_t> run_begins;
  std::vector<double> cycles;
  std::vector<double> seconds;
  std::vector<std::uint64_t> refused;
  std::vector<std::string> refusals;
  std::vector<std::uint64_t> counted_workloads;
  std::vector<std::uint64_t> counted;
  std::vector<std::string> not_counted;
};

}  // namespace gpuinfer::probe::archive
