// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Copies between global and shared memory that leave L1 alone: by the bulk copy engine where there is one, else with
// the cache operators that bypass L1. One thread issues and waits. Addresses and sizes are multiples of 16 bytes.
namespace gpuinfer::probe::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

#if __CUDA_ARCH__ >= 900

class Transfer {
 public:
  // `barrier` is in shared memory.
  __device__ explicit Transfer(std::uint64_t& barrier) : barrier_(shared_address(&barrier)) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_) : "memory");
  }

  __device__ void fetch(void* shared, const void* global, std::uint32_t bytes) {
    order_with_bulk_copies();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier_)
                 : "memory");
    std::uint32_t arrived = 0;
    while (arrived == 0) {
      asm volatile(
          "{\n\t.reg .pred arrived;\n\t"
          "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%1], %2;\n\t"
          "selp.u32 %0, 1, 0, arrived;\n\t}"
          : "=r"(arrived)
          : "r"(barrier_), "r"(phase_)
          : "memory");
    }
    phase_ ^= 1U;
  }

  __device__ void store(void* global, const void* shared, std::uint32_t bytes) {
    order_with_bulk_copies();
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    // Until the shared memory has been read; to wait for the writes too would drop all lines of L1 (CCTL.IVALL).
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }

 private:
  __device__ static void order_with_bulk_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

  std::uint32_t barrier_;
  std::uint32_t phase_ = 0;
};

#else

class Transfer {
 public:
  __device__ explicit Transfer(std::uint64_t&) {}

  __device__ void fetch(void* shared, const void* global, std::uint32_t bytes) {
    const auto* from = static_cast<const uint4*>(global);
    auto* to = static_cast<uint4*>(shared);
#pragma unroll 1
    for (std::uint32_t i = 0; i < bytes / sizeof(uint4); ++i) {
#if __CUDA_ARCH__ >= 800
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + i)),
                   "l"(__cvta_generic_to_global(from + i))
                   : "memory");
#else
      to[i] = __ldcg(from + i);
#endif
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

  __device__ void store(void* global, const void* shared, std::uint32_t bytes) {
    const auto* from = static_cast<const uint4*>(shared);
    auto* to = static_cast<uint4*>(global);
#pragma unroll 1
    for (std::uint32_t i = 0; i < bytes / sizeof(uint4); ++i) {
      __stcg(to + i, from[i]);
    }
  }
};

#endif

}  // namespace gpuinfer::probe::cuda
