// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/visible_array.hpp"

#include <unistd.h>

#include <numeric>

#include "probe/cuda/driver.hpp"
#include "probe/gpu/texel_places.hpp"

namespace gpuinfer::probe::cuda {
namespace {

// Whether the driver has this function and it succeeds.
template <class Function, class... Arguments>
bool succeeds(const char* name, Arguments... arguments) {
  auto* const function = driver_function<Function>(name);
  return function != nullptr && function(arguments...) == CUDA_SUCCESS;
}

}  // namespace

std::unique_ptr<VisibleArray> VisibleArray::make(std::uint32_t width, std::uint32_t height) {
  std::unique_ptr<VisibleArray> array(new VisibleArray(width, height));
  if (!array->map()) {
    static_cast<void>(cudaGetLastError());  // it is no failure of what comes next
    array.reset();
  }
  return array;
}

VisibleArray::~VisibleArray() {
  if (levels_ != nullptr) {
    cudaFreeMipmappedArray(levels_);
  }
  if (shared_ != nullptr) {
    cudaDestroyExternalMemory(shared_);
  }
  if (is_mapped_) {
    static_cast<void>(succeeds<decltype(&cuMemUnmap)>("cuMemUnmap", address_, bytes_));
  }
  if (address_ != 0) {
    static_cast<void>(succeeds<decltype(&cuMemAddressFree)>("cuMemAddressFree", address_, bytes_));
  }
  if (memory_ != 0) {
    static_cast<void>(succeeds<decltype(&cuMemRelease)>("cuMemRelease", memory_));
  }
}

bool VisibleArray::map() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    return false;
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return map_by_addresses(properties) && map_as_array() && fill(std::vector<std::uint32_t>(texels()));
}

bool VisibleArray::map_by_addresses(const CUmemAllocationProp& properties) {
  std::size_t granularity = 0;
  if (!succeeds<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity", &granularity, &properties,
                                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) ||
      granularity == 0) {
    return false;
  }
  // Room for tiles that are padded.
  bytes_ = (2 * texels() * word_bytes + granularity - 1) / granularity * granularity;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!succeeds<decltype(&cuMemCreate)>("cuMemCreate", &memory_, bytes_, &properties, 0ULL) ||
      !succeeds<decltype(&cuMemAddressReserve)>("cuMemAddressReserve", &address_, bytes_, std::size_t{0},
                                                CUdeviceptr{0}, 0ULL)) {
    return false;
  }
  is_mapped_ = succeeds<decltype(&cuMemMap)>("cuMemMap", address_, bytes_, std::size_t{0}, memory_, 0ULL);
  return is_mapped_ && succeeds<decltype(&cuMemSetAccess)>("cuMemSetAccess", address_, bytes_, &access, std::size_t{1});
}

bool VisibleArray::map_as_array() {
  int file = -1;
  if (!succeeds<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle", &file, memory_,
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL)) {
    return false;
  }
  cudaExternalMemoryHandleDesc memory{};
  memory.type = cudaExternalMemoryHandleTypeOpaqueFd;
  memory.handle.fd = file;
  memory.size = bytes_;
  if (cudaImportExternalMemory(&shared_, &memory) != cudaSuccess) {
    close(file);  // otherwise it belongs to the driver
    return false;
  }
  cudaExternalMemoryMipmappedArrayDesc array{};
  array.formatDesc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  array.extent = {.width = width_, .height = height_, .depth = 0};
  array.numLevels = 1;
  return cudaExternalMemoryGetMappedMipmappedArray(&levels_, shared_, &array) == cudaSuccess &&
         cudaGetMipmappedArrayLevel(&array_, levels_, 0) == cudaSuccess;
}

bool VisibleArray::fill(const std::vector<std::uint32_t>& words) {
  const std::size_t row_bytes = width_ * word_bytes;
  return cudaMemcpy2DToArray(array_, 0, 0, words.data(), row_bytes, row_bytes, height_, cudaMemcpyHostToDevice) ==
             cudaSuccess &&
         cudaDeviceSynchronize() == cudaSuccess;
}

std::vector<std::uint32_t> VisibleArray::places_in_words() {
  auto* const begin = reinterpret_cast<void*>(address_);  // NOLINT(performance-no-int-to-ptr)
  std::vector<std::uint32_t> numbers(texels());
  std::iota(numbers.begin(), numbers.end(), 1U);
  std::vector<std::uint32_t> memory(bytes_ / word_bytes);
  const bool is_seen = cudaMemset(begin, 0, bytes_) == cudaSuccess && fill(numbers) &&
                       cudaMemcpy(memory.data(), begin, bytes_, cudaMemcpyDeviceToHost) == cudaSuccess &&
                       cudaMemset(begin, 0, bytes_) == cudaSuccess;
  if (!is_seen) {
    return {};
  }
  return gpu::places_of_numbers(memory, static_cast<std::uint32_t>(texels()));
}

}  // namespace gpuinfer::probe::cuda
