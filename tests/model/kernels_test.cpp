// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/errors.hpp"

namespace gpuinfer::model {
namespace {

constexpr std::uint64_t a_address = 1U << 20U;
constexpr std::uint64_t b_address = 2U << 20U;
constexpr std::uint64_t c_address = 3U << 20U;
constexpr MatrixAddresses matrices{.loaded = {a_address, b_address}, .updated = c_address};

struct Access {
  char matrix = 'a';
  std::uint64_t address = 0;
  std::uint32_t bytes = 4;
  bool is_store = false;

  bool operator==(const Access&) const = default;
  bool operator<(const Access& other) const {
    return std::tie(address, bytes, is_store) < std::tie(other.address, other.bytes, other.is_store);
  }
};

// One thread of a kernel, straight from the formulas. Vectors have w elements.
class Thread {
 public:
  Thread(const KernelRun& run, std::uint32_t i, std::uint32_t x) : n_(run.size) {
    const std::uint32_t w = run.variant == KernelVariant::texture_vector ? 4 : 1;
    const std::uint32_t j = x * w;  // of the first of several results
    const std::uint32_t last = run.size - 1;
    switch (run.kernel) {
      case KernelName::fdtd_step1:
        if (i > 0) {
          load('a', i, j, w);
          load('a', i - 1, j, w);
          load('c', i, j, w);
        }
        store(i, j, w);
        break;
      case KernelName::fdtd_step2:
        if (w == 1 && j == 0) {
          break;
        }
        load('a', i, j, w);
        if (j > 0) {
          load('a', i, j - w, w);
        }
        load('c', i, j, w);
        store(i, j, w);
        break;
      case KernelName::fdtd_step3:
        if (i == last || (w == 1 && j == last)) {
          break;
        }
        if (j + w < n_) {
          load('a', i, j + w, w);
        }
        load('a', i, j, w);
        load('b', i + 1, j, w);
        load('b', i, j, w);
        load('c', i, j, w);
        store(i, j, w);
        break;
      case KernelName::gemm:
      case KernelName::mm3_kernel1:
      case KernelName::mm3_kernel2:
      case KernelName::mm3_kernel3:
        for (std::uint32_t k = 0; k < n_; k += w) {
          load('a', i, k, w);
          for (std::uint32_t next = k; next < k + w; ++next) {
            load('b', next, j, w);
          }
        }
        if (run.kernel == KernelName::gemm) {
          load('c', i, j, w);
        }
        store(i, j, w);
        break;
      case KernelName::syrk:
      case KernelName::syr2k:
        // One result.
        for (std::uint32_t k = 0; k < n_; k += w) {
          load('a', i, k, w);
          if (run.kernel == KernelName::syr2k) {
            load('b', x, k, w);
            load('b', i, k, w);
          }
          load('a', x, k, w);
        }
        load('c', i, x, 1);
        store(i, x, 1);
        break;
    }
  }

  std::vector<Access> accesses;

 private:
  void load(char matrix, std::uint32_t row, std::uint32_t column, std::uint32_t w) {
    const std::uint64_t begin = matrix == 'a' ? a_address : matrix == 'b' ? b_address : c_address;
    accesses.push_back({.matrix = matrix, .address = begin + (row * n_ + column) * 4, .bytes = 4 * w});
  }
  void store(std::uint32_t row, std::uint32_t column, std::uint32_t w) {
    load('c', row, column, w);
    accesses.back().is_store = true;
  }

  std::uint64_t n_;
};

std::uint32_t threads_of_row(const KernelRun& run) {
  const bool one_result =
      run.variant != KernelVariant::texture_vector || run.kernel == KernelName::syrk || run.kernel == KernelName::syr2k;
  return one_result ? run.size : run.size / 4;
}

std::vector<KernelRun> all_kernels(std::uint32_t size) {
  std::vector<KernelRun> runs;
  for (const KernelName kernel : kernel_names) {
    for (const KernelVariant variant : kernel_variants) {
      runs.push_back({.kernel = kernel, .variant = variant, .size = size});
    }
  }
  return runs;
}

// All of 64 rows, where a row of results that four threads share is half a warp, and those that are over soon of 256,
// where it is two blocks.
std::vector<KernelRun> some_kernels() {
  std::vector<KernelRun> runs = all_kernels(64);
  for (const KernelRun& run : all_kernels(256)) {
    if (to_string(run.kernel).starts_with("fdtd")) {
      runs.push_back(run);
    }
  }
  return runs;
}

char matrix_at(std::uint64_t address) { return address >= c_address ? 'c' : address >= b_address ? 'b' : 'a'; }

TEST(KernelProgram, EachThreadDoesWhatTheFormulaSays) {
  for (const KernelRun& run : some_kernels()) {
    const std::uint32_t size = run.size;
    const KernelProgram program(run, matrices);
    const std::uint32_t threads = threads_of_row(run);
    const std::uint32_t blocks_of_row = std::max(1U, threads / 32);
    ASSERT_EQ(program.blocks(), blocks_of_row * size / 8) << name_of(run.kernel, run.variant);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Access>> by_thread;
    for (std::uint32_t block = 0; block < program.blocks(); ++block) {
      for (std::uint32_t warp = 0; warp < 8; ++warp) {
        for (std::uint32_t step = 0; step < program.steps(); ++step) {
          const auto access = program.access(block, warp, step);
          if (!access) {
            continue;
          }
          ASSERT_LT(access->first_lane, access->end_lane);
          ASSERT_LE(access->end_lane, 32U);
          for (std::uint32_t lane = access->first_lane; lane < access->end_lane; ++lane) {
            const std::uint64_t address = access->address_of(lane);
            by_thread[{block / blocks_of_row * 8 + warp, block % blocks_of_row * 32 + lane}].push_back(
                {.matrix = matrix_at(address),
                 .address = address,
                 .bytes = access->element_bytes,
                 .is_store = access->is_store});
            ASSERT_EQ(access->is_texture, run.variant != KernelVariant::plain && matrix_at(address) != 'c');
          }
        }
      }
    }
    for (std::uint32_t i = 0; i < size; ++i) {
      for (std::uint32_t x = 0; x < threads; ++x) {
        ASSERT_EQ((by_thread[{i, x}]), Thread(run, i, x).accesses)
            << name_of(run.kernel, run.variant) << " row " << i << " thread " << x;
      }
    }
    EXPECT_EQ(by_thread.size(), std::size_t{size} * threads) << name_of(run.kernel, run.variant);
  }
}

TEST(KernelProgram, CountsBytes) {
  for (const KernelRun& run : some_kernels()) {
    const std::uint32_t size = run.size;
    std::uint64_t plain = 0;
    std::uint64_t texture = 0;
    std::uint64_t stored = 0;
    std::set<std::uint64_t> loaded_sectors;
    std::set<std::uint64_t> stored_sectors;
    for (std::uint32_t i = 0; i < size; ++i) {
      for (std::uint32_t x = 0; x < threads_of_row(run); ++x) {
        for (const Access& access : Thread(run, i, x).accesses) {
          const bool fetches = run.variant != KernelVariant::plain && access.matrix != 'c';
          (access.is_store ? stored : fetches ? texture : plain) += access.bytes;
          (access.is_store ? stored_sectors : loaded_sectors).insert(access.address / 32);
        }
      }
    }
    const KernelProgram program(run, matrices);
    const std::string name = name_of(run.kernel, run.variant);
    EXPECT_EQ(program.asked_bytes().plain, plain) << name;
    EXPECT_EQ(program.asked_bytes().texture, texture) << name;
    EXPECT_EQ(program.asked_bytes().stored, stored) << name;
    EXPECT_EQ(program.loaded_bytes(), 32 * loaded_sectors.size()) << name;
    EXPECT_EQ(program.stored_bytes(), 32 * stored_sectors.size()) << name;
    loaded_sectors.merge(stored_sectors);
    EXPECT_EQ(program.touched_bytes(), 32 * loaded_sectors.size()) << name;
  }
}

TEST(Coalescer, JoinsWhatLanesShare) {
  Coalescer coalescer;
  const auto sectors = [&coalescer](const WarpAccess& access) {
    const auto found = coalescer.sectors_of(access);
    return std::vector<std::uint64_t>(found.begin(), found.end());
  };
  using Sectors = std::vector<std::uint64_t>;
  EXPECT_EQ(sectors({.address = 1000, .stride_bytes = 0}), Sectors{992});
  EXPECT_EQ(sectors({.address = 1024, .stride_bytes = 4}), (Sectors{1024, 1056, 1088, 1120}));
  EXPECT_EQ(sectors({.address = 1020, .stride_bytes = 4}), (Sectors{992, 1024, 1056, 1088, 1120}));
  EXPECT_EQ(sectors({.address = 1024, .stride_bytes = 8}).size(), 8U);
  EXPECT_EQ(sectors({.address = 1024, .stride_bytes = 32}).size(), 32U);
  EXPECT_EQ(sectors({.address = 1024, .stride_bytes = 4096}).size(), 32U);
  EXPECT_EQ(sectors({.address = 1024, .stride_bytes = 16, .element_bytes = 16}).size(), 16U);
  EXPECT_EQ(sectors({.address = 1020, .stride_bytes = 4, .first_lane = 1, .end_lane = 9}), Sectors{1024});
}

DeviceDescription device_with(std::uint64_t l1_bytes, std::uint64_t l2_bytes, unsigned sms) {
  DeviceDescription device;
  device.device.sm_count = sms;
  device.caches["L1tex"].capacity_bytes = l1_bytes;
  device.caches["L2"].capacity_bytes = l2_bytes;
  const auto set = [&device](const char* name, double bytes_per_second) {
    device.bandwidth[name].best = ElementBandwidth{.bytes_per_second = bytes_per_second};
  };
  set("L1", 1e12);
  set("texture", 1e12);
  set("L2_load", 2e11);
  set("L2_copy", 3e11);
  set("DRAM_load", 1e11);
  return device;
}

constexpr std::uint64_t plenty_bytes = 64U << 20U;

TEST(KernelTraffic, WhatFitsComesOnce) {
  for (const KernelRun& run : all_kernels(128)) {
    const KernelProgram program(run, matrices);
    const KernelTraffic traffic = traffic_of(device_with(plenty_bytes, plenty_bytes, 1), run);
    const std::string name = name_of(run.kernel, run.variant);
    EXPECT_EQ(traffic.l2_load_bytes, program.loaded_bytes()) << name;
    // The kernels before the third one of 3MM stored what it loads.
    EXPECT_EQ(traffic.dram_load_bytes, run.kernel == KernelName::mm3_kernel3 ? 0 : program.loaded_bytes()) << name;
    EXPECT_EQ(traffic.l2_store_bytes, program.stored_bytes()) << name;
    EXPECT_EQ(traffic.dram_store_bytes, 0U) << name;
  }
}

TEST(KernelTraffic, EverySmBringsItsOwn) {
  // Each of 16 SMs has one block of 32 columns and 8 rows: 8 rows of a, 32 columns of b, its part of c.
  const KernelRun run{.kernel = KernelName::gemm, .size = 64};
  const KernelTraffic traffic = traffic_of(device_with(plenty_bytes, plenty_bytes, 16), run);
  EXPECT_EQ(traffic.l2_load_bytes, 16U * (8 * 64 * 4 + 64 * 32 * 4 + 8 * 32 * 4));
  EXPECT_EQ(traffic.dram_load_bytes, 3U * 64 * 64 * 4);
  // In each step a warp has one sector of a and four of b, and four of c in the end.
  EXPECT_EQ(traffic.l1_sectors, 16U * 8 * (64 * 5 + 4));
}

// 128-byte lines with 32-byte sectors, the line that was used last at the front.
class NaiveLru {
 public:
  explicit NaiveLru(std::size_t lines) : most_(lines) {}

  bool load(std::uint64_t address) {
    const std::uint64_t line = address / 128;
    auto found = std::find_if(lines_.begin(), lines_.end(), [line](const Line& each) { return each.number == line; });
    if (found == lines_.end()) {
      lines_.push_front({.number = line, .sectors = {}});
      if (lines_.size() > most_) {
        lines_.pop_back();
      }
    } else {
      lines_.splice(lines_.begin(), lines_, found);
    }
    return !lines_.front().sectors.insert(address / 32).second;
  }

 private:
  struct Line {
    std::uint64_t number = 0;
    std::set<std::uint64_t> sectors;
  };
  std::size_t most_;
  std::list<Line> lines_;
};

// Of two SMs the first one has every other block; 8 of them fit at a time. All threads go one access at a time.
std::uint64_t naive_misses(const KernelRun& run, std::size_t lines) {
  NaiveLru cache(lines);
  const std::uint32_t threads = threads_of_row(run);
  const std::uint32_t blocks_of_row = std::max(1U, threads / 32);
  const std::uint32_t blocks = blocks_of_row * run.size / 8;
  std::uint64_t misses = 0;
  for (std::uint32_t first = 0; first < blocks; first += 16) {
    std::vector<std::vector<std::vector<Access>>> warps;  // by warp and lane
    for (std::uint32_t block = first; block < std::min(blocks, first + 16); block += 2) {
      for (std::uint32_t warp = 0; warp < 8; ++warp) {
        auto& lanes = warps.emplace_back();
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          lanes.push_back(Thread(run, block / blocks_of_row * 8 + warp, block % blocks_of_row * 32 + lane).accesses);
        }
      }
    }
    for (std::size_t step = 0; step < warps.front().front().size(); ++step) {
      for (const auto& lanes : warps) {
        std::set<std::uint64_t> sectors;
        for (const auto& accesses : lanes) {
          if (!accesses.at(step).is_store) {
            sectors.insert(accesses[step].address / 32 * 32);
          }
        }
        for (const std::uint64_t sector : sectors) {
          misses += cache.load(sector) ? 0U : 1U;
        }
      }
    }
  }
  return misses;
}

TEST(KernelTraffic, MissesAreThoseOfANaiveCache) {
  for (const KernelName kernel : {KernelName::gemm, KernelName::mm3_kernel1, KernelName::syrk, KernelName::syr2k}) {
    for (const std::size_t lines : {8U, 40U, 100U, 300U}) {
      const KernelRun run{.kernel = kernel, .size = 128};
      const KernelTraffic traffic = traffic_of(device_with(lines * 128, plenty_bytes, 2), run);
      const KernelProgram program(run, matrices);
      EXPECT_EQ(traffic.l2_load_bytes, std::max(program.loaded_bytes(), 2UL * 32 * naive_misses(run, lines)))
          << to_string(kernel) << ' ' << lines;
    }
  }
}

TEST(KernelTraffic, ADescribedCacheIsPlayedAsDescribed) {
  const KernelRun run{.kernel = KernelName::syrk, .size = 128};
  DeviceDescription device = device_with(100UL * 128, plenty_bytes, 2);
  const KernelTraffic assumed = traffic_of(device, run);
  EXPECT_EQ(assumed.assuming.size(), 1U);
  CacheDescription& l1 = device.caches["L1tex"];
  l1.line_bytes = 128;
  l1.sector_bytes = 32;
  l1.ways = {100};
  l1.index = BitsIndex{};
  l1.replacement.emplace().policy = "lru";
  const KernelTraffic described = traffic_of(device, run);
  EXPECT_TRUE(described.assuming.empty());
  EXPECT_EQ(described.l2_load_bytes, assumed.l2_load_bytes);
  l1.ways = {10};
  EXPECT_GT(traffic_of(device, run).l2_load_bytes, assumed.l2_load_bytes);
}

// Of the sectors that the third kernel of 3MM loads those that went to an L2 of any lines before it, all blocks side by
// side: what is in a plain LRU list of lines of 128 bytes.
std::uint64_t naive_third_kernel_dram_bytes(const KernelRun& run, std::size_t lines) {
  const std::uint64_t bytes = matrix_bytes(run);
  KernelRun first = run;
  first.kernel = KernelName::mm3_kernel1;
  KernelRun second = run;
  second.kernel = KernelName::mm3_kernel2;
  const std::array programs{KernelProgram(first, {.loaded = {3 * bytes, 4 * bytes}, .updated = 0}),
                            KernelProgram(second, {.loaded = {5 * bytes, 6 * bytes}, .updated = bytes}),
                            KernelProgram(run, {.loaded = {0, bytes}, .updated = 2 * bytes})};
  NaiveLru cache(lines);
  std::uint64_t loaded = 0;
  for (const KernelProgram& program : programs) {
    loaded = 0;
    for (std::uint32_t step = 0; step < program.steps(); ++step) {
      for (std::uint32_t block = 0; block < program.blocks(); ++block) {
        for (std::uint32_t warp = 0; warp < KernelRun::block_warps; ++warp) {
          const auto access = program.access(block, warp, step);
          std::set<std::uint64_t> sectors;
          for (std::uint32_t lane = access->first_lane; lane < access->end_lane; ++lane) {
            sectors.insert(access->address_of(lane) / 32 * 32);
          }
          for (const std::uint64_t sector : sectors) {
            loaded += !cache.load(sector) && !access->is_store ? 32U : 0U;
          }
        }
      }
    }
  }
  return loaded;
}

TEST(KernelTraffic, TheThirdKernelOf3MmFindsWhatTheOthersStored) {
  const KernelRun run{.kernel = KernelName::mm3_kernel3, .size = 64};
  const std::uint64_t matrix = matrix_bytes(run);
  KernelRun second = run;
  second.kernel = KernelName::mm3_kernel2;
  EXPECT_EQ(traffic_of(device_with(16 << 10, 6 * matrix, 4), run).dram_load_bytes, 0U);
  EXPECT_EQ(traffic_of(device_with(16 << 10, 6 * matrix, 4), second).dram_load_bytes, 2 * matrix);
  for (const std::uint64_t l2_bytes : {matrix, 3 * matrix, 4 * matrix, 5 * matrix}) {
    const KernelTraffic traffic = traffic_of(device_with(16 << 10, l2_bytes, 4), run);
    EXPECT_EQ(traffic.dram_load_bytes, naive_third_kernel_dram_bytes(run, l2_bytes / 128)) << l2_bytes;
    EXPECT_LE(traffic.dram_store_bytes, matrix) << l2_bytes;
  }
}

TEST(KernelTraffic, WhatDoesNotFitIsBroughtAgainAndWrittenBack) {
  const KernelRun fdtd{.kernel = KernelName::fdtd_step1, .size = 512};
  const KernelProgram program(fdtd, matrices);
  // A quarter of both matrices: rows are met again long before they go.
  const KernelTraffic streamed = traffic_of(device_with(16 << 10, 512 << 10, 4), fdtd);
  EXPECT_EQ(streamed.dram_load_bytes, program.loaded_bytes());
  EXPECT_EQ(streamed.dram_store_bytes, program.stored_bytes() * 3 / 4);
  // 8 rows of a and all of b for each row of blocks: b goes before it is met again.
  const KernelRun gemm{.kernel = KernelName::gemm, .size = 256};
  const std::uint64_t matrix = matrix_bytes(gemm);
  const KernelTraffic thrashed = traffic_of(device_with(4 << 10, 64 << 10, 1), gemm);
  EXPECT_EQ(thrashed.dram_load_bytes, matrix + 256 / 8 * matrix + matrix);
}

TEST(KernelTraffic, PlainLoadsPassByAnL1ThatDoesNotServeThem) {
  DeviceDescription device = device_with(plenty_bytes, plenty_bytes, 4);
  device.bandwidth.erase("L1");
  const KernelTraffic traffic = traffic_of(device, {.kernel = KernelName::syrk, .size = 128});
  EXPECT_EQ(traffic.l2_load_bytes, 32 * traffic.l1_sectors);
  EXPECT_FALSE(traffic.by_level().contains("L1"));
  EXPECT_TRUE(traffic.assuming.empty());
}

TEST(KernelTraffic, ShareOfOneSmStandsForAll) {
  // So many blocks that not all are played: what is left out is like the rest.
  const KernelRun run{.kernel = KernelName::syrk, .size = 512};
  const KernelTraffic traffic = traffic_of(device_with(1 << 10, plenty_bytes, 1), run);
  EXPECT_EQ(traffic.l1_sectors, 512ULL * 512 / 32 * (512 * 33 + 4));
}

TEST(KernelTraffic, NamesWhatIsMissing) {
  const auto message = [](const DeviceDescription& device) -> std::string {
    try {
      static_cast<void>(traffic_of(device, {.kernel = KernelName::gemm, .size = 64}));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  DeviceDescription device = device_with(1 << 14, 1 << 20, 4);
  EXPECT_EQ(message(device), "");
  device.caches.erase("L2");
  EXPECT_EQ(message(device), "caches.L2.capacity_bytes is null and a simulation needs it; give it a value");
  device.caches["L1tex"].capacity_bytes.reset();
  EXPECT_EQ(message(device), "caches.L1tex.capacity_bytes is null and a simulation needs it; give it a value");
  Carveout& carveout = device.caches["L1tex"].carveouts.emplace_back();
  carveout.carveout_kb = 8;
  carveout.onset_bytes = 1 << 14;
  device.caches["L2"].partitions.emplace().resident_bytes = std::array{1e6, 2e6};
  EXPECT_EQ(message(device), "");
  device.device.sm_count.reset();
  EXPECT_EQ(message(device), "device.sm_count is null and a simulation needs it; give it a value");
}

TEST(KernelTime, IsThatOfTheSlowestLevelAtTheHigherPeak) {
  DeviceDescription device = device_with(plenty_bytes, plenty_bytes, 1);
  EXPECT_EQ(peak_of(device.bandwidth, "L2"), 3e11);
  EXPECT_EQ(peak_of(device.bandwidth, "DRAM"), 1e11);
  EXPECT_FALSE(peak_of(device.bandwidth, "shared"));
  // 64 results: 2 loads for each of 64 steps and one of c.
  const KernelRun gemm{.kernel = KernelName::gemm, .size = 64};
  EXPECT_DOUBLE_EQ(time_of(device, gemm).seconds, 64.0 * 64 * (2 * 64 + 1) * 4 / 1e12);
  device.bandwidth["L2_load"].best->bytes_per_second = 1e8;
  EXPECT_DOUBLE_EQ(time_of(device, gemm).seconds, 64.0 * 64 * (2 * 64 + 1) * 4 / 1e12);
  device.bandwidth["L2_copy"].best->bytes_per_second = 1e8;
  EXPECT_DOUBLE_EQ(time_of(device, gemm).seconds, 4.0 * 64 * 64 * 4 / 1e8);
  device.bandwidth["L1"].best.reset();
  EXPECT_THROW(static_cast<void>(time_of(device, gemm)), InputError);
}

}  // namespace
}  // namespace gpuinfer::model
