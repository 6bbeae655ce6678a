// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/kernels.hpp"

#include "probe/cuda/block_time.cuh"

// Loads and stores are volatile, so that there are as many as model/kernels.hpp says, in that order.
namespace gpuinfer::probe::cuda {
namespace {

using model::KernelName;
using model::KernelRun;
using model::KernelVariant;
using model::vector_elements;

constexpr std::uint32_t block_threads = KernelRun::block_columns * KernelRun::block_warps;

struct Device {
  KernelLaunch launch;
  std::uint32_t size = 0;
  float edge = 0;  // of fdtd_step1: 0, which the compiler does not know
};

__device__ __forceinline__ float load_element(const char* address) {
  float value = 0;
  asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(value) : "l"(address));
  return value;
}
__device__ __forceinline__ float4 load_elements(const char* address) {
  float4 value;
  asm volatile("ld.global.ca.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(address));
  return value;
}
__device__ __forceinline__ void store(char* address, float value) {
  asm volatile("st.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
__device__ __forceinline__ void store(char* address, float4 value) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(value.x), "f"(value.y), "f"(value.z),
               "f"(value.w)
               : "memory");
}

// Texels are unsigned words.
__device__ __forceinline__ float fetch_element(cudaTextureObject_t texture, std::uint32_t texel) {
  std::uint32_t word = 0;
  asm volatile("{\n\t.reg .b32 a, b, c;\n\ttex.1d.v4.u32.s32 {%0, a, b, c}, [%1, {%2}];\n\t}"
               : "=r"(word)
               : "l"(texture), "r"(texel));
  return __uint_as_float(word);
}
__device__ __forceinline__ float4 fetch_elements(cudaTextureObject_t texture, std::uint32_t texel) {
  uint4 words;
  asm volatile("tex.1d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(texture), "r"(texel));
  return {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)};
}

// An element of the matrices that are only loaded.
template <KernelVariant variant>
__device__ __forceinline__ float element(const Device& device, std::uint32_t matrix, std::uint32_t row,
                                         std::uint32_t column) {
  const std::uint32_t number = (matrix * device.size + row) * device.size + column;
  if constexpr (variant == KernelVariant::plain) {
    return load_element(device.launch.loaded + std::uint64_t{number} * sizeof(float));
  } else {
    return fetch_element(device.launch.texture, number);
  }
}

// Four neighbours of a row, from a column on that is a multiple of four.
__device__ __forceinline__ float4 elements(const Device& device, std::uint32_t matrix, std::uint32_t row,
                                           std::uint32_t column) {
  return fetch_elements(device.launch.texture, ((matrix * device.size + row) * device.size + column) / vector_elements);
}

__device__ __forceinline__ char* result_address(const Device& device, std::uint32_t row, std::uint32_t column) {
  return device.launch.updated + (std::uint64_t{row} * device.size + column) * sizeof(float);
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ __forceinline__ float4 operator-(float4 a, float4 b) { return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
__device__ __forceinline__ float4 operator*(float a, float4 b) { return {a * b.x, a * b.y, a * b.z, a * b.w}; }
__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// Of the first result of a thread.
struct Place {
  std::uint32_t row;
  std::uint32_t column;
};

__device__ __forceinline__ Place place_of_thread(std::uint32_t threads_of_row, std::uint32_t results) {
  const std::uint32_t blocks_of_row = (threads_of_row + KernelRun::block_columns - 1) / KernelRun::block_columns;
  const std::uint32_t thread =
      blockIdx.x % blocks_of_row * KernelRun::block_columns + threadIdx.x % KernelRun::block_columns;
  return {.row = blockIdx.x / blocks_of_row * KernelRun::block_warps + threadIdx.x / KernelRun::block_columns,
          .column = thread * results};
}

template <KernelName kernel, KernelVariant variant>
__device__ void step_fdtd(const Device& device, Place at) {
  const auto own = [&](std::uint32_t matrix, std::uint32_t row, std::uint32_t column) {
    return element<variant>(device, matrix, row, column);
  };
  char* const result = result_address(device, at.row, at.column);
  if constexpr (kernel == KernelName::fdtd_step1) {
    if (at.row == 0) {
      store(result, device.edge);
      return;
    }
    const float here = own(0, at.row, at.column);
    const float above = own(0, at.row - 1, at.column);
    store(result, load_element(result) - 0.5F * (here - above));
  } else if constexpr (kernel == KernelName::fdtd_step2) {
    if (at.column == 0) {
      return;
    }
    const float here = own(0, at.row, at.column);
    const float left = own(0, at.row, at.column - 1);
    store(result, load_element(result) - 0.5F * (here - left));
  } else {
    if (at.row == device.size - 1 || at.column == device.size - 1) {
      return;
    }
    const float right = own(0, at.row, at.column + 1);
    const float here = own(0, at.row, at.column);
    const float below = own(1, at.row + 1, at.column);
    const float other = own(1, at.row, at.column);
    store(result, load_element(result) - 0.7F * (right - here + below - other));
  }
}

template <KernelName kernel>
__device__ void step_fdtd_by_four(const Device& device, Place at) {
  char* const result = result_address(device, at.row, at.column);
  if constexpr (kernel == KernelName::fdtd_step1) {
    if (at.row == 0) {
      store(result, float4{device.edge, device.edge, device.edge, device.edge});
      return;
    }
    const float4 here = elements(device, 0, at.row, at.column);
    const float4 above = elements(device, 0, at.row - 1, at.column);
    store(result, load_elements(result) - 0.5F * (here - above));
  } else if constexpr (kernel == KernelName::fdtd_step2) {
    const float4 here = elements(device, 0, at.row, at.column);
    // Column 0 stays as it is.
    const float left = at.column == 0 ? here.x : elements(device, 0, at.row, at.column - vector_elements).w;
    store(result, load_elements(result) - 0.5F * (here - float4{left, here.x, here.y, here.z}));
  } else {
    if (at.row == device.size - 1) {
      return;
    }
    const bool is_last = at.column + vector_elements == device.size;
    float right = 0;
    if (!is_last) {
      right = elements(device, 0, at.row, at.column + vector_elements).x;
    }
    const float4 here = elements(device, 0, at.row, at.column);
    const float4 below = elements(device, 1, at.row + 1, at.column);
    const float4 other = elements(device, 1, at.row, at.column);
    float4 change = 0.7F * (float4{here.y, here.z, here.w, right} - here + below - other);
    if (is_last) {
      change.w = 0;
    }
    store(result, load_elements(result) - change);
  }
}

// The alpha and the beta of all products.
constexpr float of_sum = 1.5F;
constexpr float of_old = 1.25F;

template <KernelName kernel, KernelVariant variant>
__device__ void sum_products(const Device& device, Place at) {
  float sum = 0;
#pragma unroll 4
  for (std::uint32_t k = 0; k < device.size; ++k) {
    const float a = element<variant>(device, 0, at.row, k);
    if constexpr (kernel == KernelName::syrk) {
      sum += a * element<variant>(device, 0, at.column, k);
    } else if constexpr (kernel == KernelName::syr2k) {
      const float b_of_column = element<variant>(device, 1, at.column, k);
      const float b = element<variant>(device, 1, at.row, k);
      sum += a * b_of_column + b * element<variant>(device, 0, at.column, k);
    } else {
      sum += a * element<variant>(device, 1, k, at.column);
    }
  }
  char* const result = result_address(device, at.row, at.column);
  if constexpr (kernel == KernelName::mm3_kernel1) {
    store(result, sum);
  } else {
    store(result, of_old * load_element(result) + of_sum * sum);
  }
}

// Of four neighbouring results.
template <KernelName kernel>
__device__ void sum_products_by_four(const Device& device, Place at) {
  float4 sum{};
#pragma unroll 1
  for (std::uint32_t k = 0; k < device.size; k += vector_elements) {
    const float4 a = elements(device, 0, at.row, k);
    const float4 b0 = elements(device, 1, k, at.column);
    const float4 b1 = elements(device, 1, k + 1, at.column);
    const float4 b2 = elements(device, 1, k + 2, at.column);
    const float4 b3 = elements(device, 1, k + 3, at.column);
    sum = sum + a.x * b0 + a.y * b1 + a.z * b2 + a.w * b3;
  }
  char* const result = result_address(device, at.row, at.column);
  if constexpr (kernel == KernelName::mm3_kernel1) {
    store(result, sum);
  } else {
    store(result, of_old * load_elements(result) + of_sum * sum);
  }
}

// Of one result, four steps at a time.
template <KernelName kernel>
__device__ void sum_rows_by_four(const Device& device, Place at) {
  float sum = 0;
#pragma unroll 1
  for (std::uint32_t k = 0; k < device.size; k += vector_elements) {
    const float4 a = elements(device, 0, at.row, k);
    if constexpr (kernel == KernelName::syrk) {
      sum += dot(a, elements(device, 0, at.column, k));
    } else {
      const float4 b_of_column = elements(device, 1, at.column, k);
      const float4 b = elements(device, 1, at.row, k);
      sum += dot(a, b_of_column) + dot(b, elements(device, 0, at.column, k));
    }
  }
  char* const result = result_address(device, at.row, at.column);
  store(result, of_old * load_element(result) + of_sum * sum);
}

// As constants, since kernels cannot call functions of the host.
template <KernelName kernel>
constexpr bool runs_fdtd = model::is_fdtd(kernel);
template <KernelName kernel, KernelVariant variant>
constexpr std::uint32_t results_of = model::results_of_thread(kernel, variant);

template <KernelName kernel, KernelVariant variant>
__global__ void __launch_bounds__(block_threads) matrix_kernel(const Device device) {
  constexpr std::uint32_t results = results_of<kernel, variant>;
  const Place at = place_of_thread(device.size / results, results);
  BlockTime time(device.launch.times);
  if (at.column < device.size) {
    if constexpr (variant != KernelVariant::texture_vector) {
      if constexpr (runs_fdtd<kernel>) {
        step_fdtd<kernel, variant>(device, at);
      } else {
        sum_products<kernel, variant>(device, at);
      }
    } else if constexpr (runs_fdtd<kernel>) {
      step_fdtd_by_four<kernel>(device, at);
    } else if constexpr (results == 1) {
      sum_rows_by_four<kernel>(device, at);
    } else {
      sum_products_by_four<kernel>(device, at);
    }
  }
  time.end();
}

using MatrixKernel = void (*)(Device);

template <KernelName kernel>
MatrixKernel kernel_of(KernelVariant variant) {
  switch (variant) {
    case KernelVariant::plain:
      return matrix_kernel<kernel, KernelVariant::plain>;
    case KernelVariant::texture_scalar:
      return matrix_kernel<kernel, KernelVariant::texture_scalar>;
    case KernelVariant::texture_vector:
      break;
  }
  return matrix_kernel<kernel, KernelVariant::texture_vector>;
}

MatrixKernel kernel_of(const KernelRun& run) {
  switch (run.kernel) {
    case KernelName::fdtd_step1:
      return kernel_of<KernelName::fdtd_step1>(run.variant);
    case KernelName::fdtd_step2:
      return kernel_of<KernelName::fdtd_step2>(run.variant);
    case KernelName::fdtd_step3:
      return kernel_of<KernelName::fdtd_step3>(run.variant);
    case KernelName::gemm:
      return kernel_of<KernelName::gemm>(run.variant);
    case KernelName::mm3_kernel1:
    case KernelName::mm3_kernel2:
    case KernelName::mm3_kernel3:
      return kernel_of<KernelName::mm3_kernel1>(run.variant);  // of other matrices
    case KernelName::syrk:
      return kernel_of<KernelName::syrk>(run.variant);
    case KernelName::syr2k:
      break;
  }
  return kernel_of<KernelName::syr2k>(run.variant);
}

}  // namespace

std::uint32_t texel_bits_of(const KernelRun& run) {
  constexpr std::uint32_t element_bits = 8 * KernelRun::element_bytes;
  switch (run.variant) {
    case KernelVariant::plain:
      return 0;
    case KernelVariant::texture_scalar:
      return element_bits;
    case KernelVariant::texture_vector:
      break;
  }
  return vector_elements * element_bits;
}

cudaError_t run_kernel(const KernelRun& run, const KernelLaunch& launch) {
  const MatrixKernel kernel = kernel_of(run);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxL1);
  if (error != cudaSuccess) {
    return error;
  }
  const std::uint32_t threads_of_row = run.size / model::results_of_thread(run.kernel, run.variant);
  const std::uint32_t blocks =
      (threads_of_row + KernelRun::block_columns - 1) / KernelRun::block_columns * (run.size / KernelRun::block_warps);
  kernel<<<blocks, block_threads>>>({.launch = launch, .size = run.size});
  return cudaGetLastError();
}

}  // namespace gpuinfer::probe::cuda
