// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// kernels KERNEL N [SHARED_BYTES]: the kernels of kernel_trace.py on a GPU, so that its counters can be held against a
// simulation of their trace:
//   nvcc -arch=native kernels.cu -o kernels
//   ncu --metrics
//   l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum
//       kernels gemm 256 27648
// A block has SHARED_BYTES of shared memory, and the SM sets aside what its resident blocks have together. Prints where
// the matrices lie, for kernel_trace.py --at, because the caches hash addresses.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr unsigned block_columns = 32;
constexpr unsigned block_rows = 8;
constexpr unsigned block_threads = block_columns * block_rows;
constexpr unsigned registers = 32;  // so that 2048 threads fit an SM
constexpr unsigned matrices = 3;

using Kernel = void (*)(float*, unsigned);

void check(cudaError_t error) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "kernels: %s\n", cudaGetErrorString(error));
    std::exit(1);
  }
}

// Volatile, so that there are as many loads as the formulas say, in that order.
__device__ float load(const float* address) {
  float value;
  asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(value) : "l"(address));
  return value;
}

// c[i][j] += sum over k of a[i][k] b[k][j]
__global__ void __maxnreg__(registers) gemm(float* a, unsigned n) {
  const float* const b = a + std::size_t{n} * n;
  float* const c = a + 2 * std::size_t{n} * n;
  const std::size_t i = blockIdx.y * block_rows + threadIdx.y;
  const std::size_t j = blockIdx.x * block_columns + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (unsigned k = 0; k < n; ++k) {
    const float left = load(a + i * n + k);
    sum += left * load(b + std::size_t{k} * n + j);
  }
  c[i * n + j] = load(c + i * n + j) + sum;
}

// b[i][j] = the mean of a[i][j] and its four neighbours
__global__ void __maxnreg__(registers) stencil(float* a, unsigned n) {
  float* const b = a + std::size_t{n} * n;
  const std::size_t i = blockIdx.y * block_rows + threadIdx.y;
  const std::size_t j = blockIdx.x * block_columns + threadIdx.x;
  if (i == 0 || i == n - 1 || j == 0 || j == n - 1) {
    return;
  }
  const float* const at = a + i * n + j;
  const float own = load(at);
  const float above = load(at - n);
  const float below = load(at + n);
  const float left = load(at - 1);
  const float right = load(at + 1);
  b[i * n + j] = 0.2F * (own + above + below + left + right);
}

// Of the shared memory of an SM, in percent.
int percent_set_aside(int shared_bytes) {
  int threads_of_sm = 0;
  int bytes_of_sm = 0;
  int reserved_bytes = 0;  // by the driver, of each block
  check(cudaDeviceGetAttribute(&threads_of_sm, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
  check(cudaDeviceGetAttribute(&bytes_of_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
  check(cudaDeviceGetAttribute(&reserved_bytes, cudaDevAttrReservedSharedMemoryPerBlock, 0));
  const std::int64_t bytes =
      std::int64_t{threads_of_sm / static_cast<int>(block_threads)} * (shared_bytes + reserved_bytes);
  return static_cast<int>(std::min<std::int64_t>(100, 100 * bytes / bytes_of_sm));  // the driver rounds up
}

void run(Kernel kernel, float* at, unsigned n, int shared_bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent_set_aside(shared_bytes)));
  kernel<<<dim3(n / block_columns, n / block_rows), dim3(block_columns, block_rows), shared_bytes>>>(at, n);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
}

}  // namespace

int main(int words, char** word) {
  const std::string_view name = words < 3 ? "" : word[1];
  const Kernel kernel = name == "gemm" ? gemm : name == "stencil" ? stencil : nullptr;
  const unsigned n = words < 3 ? 0 : static_cast<unsigned>(std::strtoul(word[2], nullptr, 10));
  if (kernel == nullptr || n == 0 || n % block_columns != 0) {
    std::fprintf(stderr, "kernels gemm|stencil N [SHARED_BYTES], N a multiple of %u\n", block_columns);
    return 2;
  }
  float* at = nullptr;
  check(cudaMalloc(&at, matrices * std::size_t{n} * n * sizeof(float)));
  check(cudaMemset(at, 0, matrices * std::size_t{n} * n * sizeof(float)));
  run(kernel, at, n, words < 4 ? 0 : std::atoi(word[3]));
  std::printf("matrices at %p\n", static_cast<void*>(at));
}
