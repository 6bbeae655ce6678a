// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gpuinfer::probe::cuda {

// A two-dimensional array of 4-byte texels, zeros, whose memory is mapped a second time, by addresses, so that one can
// see how the driver lays it out (CUDA driver API: virtual memory management, external resource interoperability).
class VisibleArray {
 public:
  // Null where the driver or the operating system does not map memory both ways.
  [[nodiscard]] static std::unique_ptr<VisibleArray> make(std::uint32_t width, std::uint32_t height);

  VisibleArray(const VisibleArray&) = delete;
  VisibleArray& operator=(const VisibleArray&) = delete;
  ~VisibleArray();

  [[nodiscard]] cudaArray_t get() const { return array_; }

  // Where each texel lies, row by row, in words from the begin of the memory. Empty where not every texel is found. The
  // array holds zeros again afterwards, of which L2 may have any.
  [[nodiscard]] std::vector<std::uint32_t> places_in_words();

 private:
  VisibleArray(std::uint32_t width, std::uint32_t height) : width_(width), height_(height) {}

  [[nodiscard]] bool map();
  [[nodiscard]] bool map_by_addresses(const CUmemAllocationProp& properties);
  [[nodiscard]] bool map_as_array();
  [[nodiscard]] bool fill(const std::vector<std::uint32_t>& words);
  [[nodiscard]] std::size_t texels() const { return std::size_t{width_} * height_; }

  std::uint32_t width_;
  std::uint32_t height_;
  std::size_t bytes_ = 0;
  CUmemGenericAllocationHandle memory_ = 0;  // 0: none
  CUdeviceptr address_ = 0;                  // 0: none
  bool is_mapped_ = false;
  cudaExternalMemory_t shared_ = nullptr;
  cudaMipmappedArray_t levels_ = nullptr;
  cudaArray_t array_ = nullptr;  // of levels_
};

}  // namespace gpuinfer::probe::cuda
