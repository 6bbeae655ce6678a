// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/play_bank.hpp"

#include "probe/cuda/timing.cuh"
#include "probe/cuda/transfer.cuh"
#include "probe/cuda/waiting.cuh"

namespace gpuinfer::probe::cuda {
namespace {

constexpr std::uint32_t bank_words = constant_bytes / sizeof(std::uint32_t);

__constant__ std::uint32_t constants[bank_words];

// One block on the SM that is asked for stays; those on others leave room there until it has come.
__device__ bool take_seat(const BankLaunch& launch) {
  Turns& turns = *launch.turns;
  const std::uint32_t mine = 1U << launch.bank;
  if (sm_number() != launch.sm) {
    static_cast<void>(wait_for(turns.failed, turns.taken, [mine](std::uint32_t taken) { return (taken & mine) != 0; }));
    return false;
  }
  if ((atomicOr(&turns.taken, mine) & mine) != 0) {
    return false;
  }
  constexpr std::uint32_t all = (1U << banks) - 1;
  if (!wait_for(turns.failed, turns.taken, [](std::uint32_t taken) { return taken == all; })) {
    return false;
  }
  let_pass(settling_ns);
  return true;
}

// Parameters of a kernel are constants: where they are read in the loop, their line takes room in the caches that are
// asked about. What was loaded from shared memory stays in registers.
template <class T>
__device__ T by_way_of_shared_memory(T parameter) {
  __shared__ volatile T place;
  place = parameter;
  return place;
}

template <class T>
__device__ T* by_way_of_shared_memory(T* parameter) {
  // What comes from there may point anywhere, as far as the compiler knows.
  return static_cast<T*>(__cvta_global_to_generic(by_way_of_shared_memory(__cvta_generic_to_global(parameter))));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(1) play_bank(const BankLaunch parameters) {
  __shared__ std::uint64_t barrier;
  __shared__ alignas(16) std::uint32_t chunk[bank_chunk_accesses];

  if (!take_seat(parameters)) {
    return;
  }
  const BankLaunch launch{.turns = by_way_of_shared_memory(parameters.turns),
                          .accesses = by_way_of_shared_memory(parameters.accesses),
                          .latency_cycles = by_way_of_shared_memory(parameters.latency_cycles),
                          .count = by_way_of_shared_memory(parameters.count),
                          .bank = by_way_of_shared_memory(parameters.bank),
                          .sm = parameters.sm};
  Transfer transfer(barrier);
  volatile std::uint32_t& next = launch.turns->next;
  const std::uint64_t begin = __cvta_generic_to_constant(constants);
  std::uint32_t value = 0;
  bool has_turn = false;
  // Nobody leaves before the last access: the code to leave by takes room in the caches that are asked about.
  const std::uint32_t last = launch.count - 1;
  for (std::uint32_t first = 0; first < launch.count; first += bank_chunk_accesses) {
    const std::uint32_t count = min(launch.count - first, bank_chunk_accesses);
    transfer.fetch(chunk, launch.accesses + first,
                   (count + accesses_alignment - 1) / accesses_alignment * accesses_alignment * sizeof(std::uint32_t));
#pragma unroll 1
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t turn = first + i;
      const bool is_mine = chunk[i] / bank_words == launch.bank;
      if (!is_mine && turn != last) {
        continue;
      }
      if (!has_turn && !wait_for(launch.turns->failed, next, [turn](std::uint32_t now) { return now >= turn; })) {
        return;
      }
      if (!is_mine) {
        return;
      }
      const std::uint64_t place = begin + sizeof(std::uint32_t) * std::uint64_t{chunk[i] % bank_words + value};
      if (place >= begin + constant_bytes) {
        __trap();  // the bank is all zeros, which only it knows; see play_list
      }
      const std::uint32_t start = clock_cycles();
      value = load_constant(place);
      store_to_shared(&chunk[i], value);
      const std::uint32_t stop = clock_cycles();
      launch.latency_cycles[turn] = stop - start;
      has_turn = i + 1 < count && chunk[i + 1] / bank_words == launch.bank;
      if (!has_turn) {
        next = turn + 1;
      }
    }
  }
}

}  // namespace gpuinfer::probe::cuda
