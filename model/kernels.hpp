// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/device_description.hpp"
#include "model/stream_simulator.hpp"
#include "model/workload.hpp"

// Kernels of real programs as the memory system sees them, with n x n matrices of 4-byte elements, row by row:
//   fdtd_step1  ey[i][j] -= (hz[i][j] - hz[i-1][j]) / 2, a constant in row 0
//   fdtd_step2  ex[i][j] -= (hz[i][j] - hz[i][j-1]) / 2, from column 1 on
//   fdtd_step3  hz[i][j] -= 0.7 (ex[i][j+1] - ex[i][j] + ey[i+1][j] - ey[i][j]), but for the last row and column
//   gemm        c[i][j] = beta c[i][j] + sum over k of alpha a[i][k] b[k][j]
//   mm3_kernel1, mm3_kernel2, mm3_kernel3
//               c[i][j] = sum over k of a[i][k] b[k][j], where a and b of the third are c of the first and the second
//   syrk        c[i][j] = beta c[i][j] + sum over k of alpha a[i][k] a[j][k]
//   syr2k       c[i][j] = beta c[i][j] + sum over k of alpha (a[i][k] b[j][k] + b[i][k] a[j][k])
// Blocks have 32 x 8 threads. A thread has one result, and sums in a register; it loads c when the sum is done. With
// texture_vector a fetch brings 4 neighbours of a row: threads of fdtd, gemm and mm3 then have 4 neighbouring results,
// and what runs along k is fetched for 4 of them at a time. What a kernel updates is never read as a texture.
namespace gpuinfer::model {

// What the lanes first_lane to end_lane - 1 of a warp load or store at once.
struct WarpAccess {
  std::uint64_t address = 0;        // of lane 0, whether it takes part or not
  std::uint64_t stride_bytes = 0;   // from one lane to the next
  std::uint32_t element_bytes = 4;  // 4 or 16; addresses are multiples of it
  std::uint32_t first_lane = 0;
  std::uint32_t end_lane = warp_lanes;
  bool is_texture = false;
  bool is_store = false;

  [[nodiscard]] std::uint64_t address_of(std::uint32_t lane) const { return address + lane * stride_bytes; }
  [[nodiscard]] std::uint64_t asked_bytes() const { return std::uint64_t{end_lane - first_lane} * element_bytes; }

  bool operator==(const WarpAccess&) const = default;
};

// Joins what lanes ask for.
class Coalescer {
 public:
  static constexpr std::uint64_t sector_bytes = 32;

  // The first bytes of the distinct sectors, ascending. Valid until the next call.
  [[nodiscard]] std::span<const std::uint64_t> sectors_of(const WarpAccess& access);

 private:
  std::array<std::uint64_t, warp_lanes> sectors_{};
};

// First bytes of the matrices that are only loaded, in the order of the formulas above, and of the one that is updated.
struct MatrixAddresses {
  std::array<std::uint64_t, 2> loaded{};
  std::uint64_t updated = 0;
};

// The loads and stores of each warp of a kernel, in the order in which it issues them.
class KernelProgram {
 public:
  // `run` is not malformed.
  KernelProgram(const KernelRun& run, const MatrixAddresses& matrices);

  // Blocks are numbered along rows of results.
  [[nodiscard]] std::uint32_t blocks() const { return blocks_x_ * blocks_y_; }
  // Of each warp.
  [[nodiscard]] std::uint32_t steps() const { return loop_steps_ + static_cast<std::uint32_t>(tail_.size()); }
  // None: no lane of this warp does anything in this step. Needs block < blocks(), warp < KernelRun::block_warps and
  // step < steps().
  [[nodiscard]] std::optional<WarpAccess> access(std::uint32_t block, std::uint32_t warp, std::uint32_t step) const;

  // By all lanes of all warps.
  struct AskedBytes {
    std::uint64_t plain = 0;  // loads
    std::uint64_t texture = 0;
    std::uint64_t stored = 0;
  };
  [[nodiscard]] AskedBytes asked_bytes() const;

  // Of the sectors that are loaded, stored, or any of both, each counted once.
  [[nodiscard]] std::uint64_t loaded_bytes() const;
  [[nodiscard]] std::uint64_t stored_bytes() const;
  [[nodiscard]] std::uint64_t touched_bytes() const;

 private:
  enum class Place : std::uint8_t { own, above, below, left, right, row_of_i, row_of_j, column_of_j };
  enum class Matrix : std::uint8_t { first, second, updated };
  struct Step {
    Matrix matrix = Matrix::first;
    Place place = Place::own;
    std::uint32_t k = 0;  // further on
    bool is_store = false;
  };

  void describe();
  [[nodiscard]] std::uint64_t address_of(Matrix matrix) const;

  KernelRun run_;
  MatrixAddresses matrices_;
  bool is_vector_ = false;
  std::uint32_t results_ = 1;   // of a thread
  std::uint32_t elements_ = 1;  // of a fetch
  std::uint32_t blocks_x_ = 1;
  std::uint32_t blocks_y_ = 1;
  std::uint32_t loop_steps_ = 0;
  std::vector<Step> loop_;
  std::vector<Step> tail_;
};

// What a run moves through each level.
struct KernelTraffic : CacheTraffic {
  KernelProgram::AskedBytes asked;    // elements times lanes, as bandwidths are counted
  bool passes_l1 = true;              // plain loads do
  std::vector<std::string> assuming;  // a clause each about caches that are not described to the end

  // By one of kernel_levels; levels that nothing passes through are left out. What is stored does not count for L1.
  [[nodiscard]] std::map<std::string, std::uint64_t> by_level() const;
};

// Played from empty caches. Plain loads go through L1D, or L1tex where there is none, if the device has a bandwidth of
// L1, and straight to L2 otherwise; fetches go through L1tex. These caches hold the most that is told of them:
// capacity, onset, or onset with a small carve-out. One with line, sectors, ways, index and replacement is played as
// described; of others, lines that were used last stay. Blocks are dealt out to the SMs in turn, in rounds of 8 to
// each, and their warps take turns access by access.
//
// L2 keeps what was used last. A kernel that touches no more than fits brings everything once from memory and writes
// nothing back while it runs. Otherwise the loads and stores of all SMs are played step by step, whether L1 has them or
// not, each access once a step. Stores are written back but for the share of what is touched that L2 holds at the end.
//
// Samples: of the SMs the first is played, and the others are like it. Rounds are played, there and in L2, for some
// million accesses, but two of them at least; those after that are like the last one.
//
// Calls at_times() every few milliseconds: what that throws ends the simulation. Throws InputError that names the leaf
// which is null and needed.
[[nodiscard]] KernelTraffic traffic_of(
    const DeviceDescription& device, const KernelRun& run, const std::function<void()>& at_times = [] {});

// The higher of load and copy peak of one of kernel_levels, in bytes per second; none where neither is known.
[[nodiscard]] std::optional<double> peak_of(const BandwidthDescription& bandwidth, const std::string& level);

// As long as the slowest level takes at its peak. Throws InputError like traffic_of(), and where a peak is null.
[[nodiscard]] StreamTime time_of(const DeviceDescription& device, const KernelRun& run);

}  // namespace gpuinfer::model
