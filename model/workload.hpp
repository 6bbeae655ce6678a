// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What many threads do at once, and how long they take: experiments that no sequence of single loads stands for.
namespace gpuinfer::model {

inline constexpr std::uint32_t warp_lanes = 32;
inline constexpr std::uint32_t most_block_threads = 1024;

// One warp loads from shared memory again and again, each lane always from the same place, each load with its address
// from the one before (Mei & Chu 2014, section 4.1). A run is so many loads; its cycles are those of one of them.
struct SharedLoads {
  static constexpr std::uint32_t loads_of_run = 64;
  static constexpr std::uint32_t shared_bytes = 32U << 10U;

  std::uint32_t element_bytes = 4;  // 4, 8 or 16
  // Where each lane loads: multiples of element_bytes, within shared_bytes.
  std::array<std::uint32_t, warp_lanes> lane_offsets{};
  std::uint32_t runs = 1;

  bool operator==(const SharedLoads&) const = default;
};

// Lane i at i * stride_bytes.
[[nodiscard]] SharedLoads strided(std::uint32_t stride_bytes, std::uint32_t element_bytes, std::uint32_t runs);

// The threads of one block each load 4 bytes several times, without waiting in between, and then wait for all of it
// (Lashgar, Salehi, Baniasadi 2015, listing 1). A run's cycles are those from the first thread's start to the last
// one's end.
struct ConcurrentLoads {
  static constexpr std::uint32_t most_loads = 8;

  std::uint32_t threads = warp_lanes;  // 1 to most_block_threads
  std::uint32_t loads_per_thread = 1;  // 1 to most_loads
  // So many neighbours load from one 128-byte line, a power of two up to warp_lanes; lines of different neighbours, and
  // of different loads, differ.
  std::uint32_t threads_per_line = 1;
  bool from_l2 = true;  // the lines were brought to L2 before; otherwise they were evicted from it
  std::uint32_t runs = 1;

  bool operator==(const ConcurrentLoads&) const = default;
};

enum class StreamPath : std::uint8_t { global_ca, global_cg, texture, shared, constant };
[[nodiscard]] std::string_view to_string(StreamPath path);
[[nodiscard]] std::optional<StreamPath> stream_path_from(std::string_view name);

// What is done with each element: loaded; loaded and stored elsewhere; two of them exchanged; stored.
enum class StreamWork : std::uint8_t { load, copy, swap, store };
[[nodiscard]] std::string_view to_string(StreamWork work);
[[nodiscard]] std::optional<StreamWork> stream_work_from(std::string_view name);

// Blocks of threads go through a dataset, neighbours side by side, each block from a place of its own on, and from its
// end back to its begin, until each thread has moved elements_per_thread (Konstantinidis & Cotronis 2016, section III).
// Where blocks have parts of their own, no two of them ask for the same line.
// Shared memory and constants are worked on in place: a thread swaps, copies or stores elements of its own, and all
// lanes of a warp load the same constant. Stores never wait, however many elements are in flight. A run has the cycles
// of the SM that took longest and the seconds of all together.
struct Stream {
  StreamPath path = StreamPath::global_ca;
  StreamWork work = StreamWork::load;
  std::uint32_t element_bits = 32;       // 32, 64 or 128
  std::uint32_t elements_in_flight = 1;  // a thread asks for so many before it waits: 1, 2, 4 or 8
  std::uint64_t dataset_bytes = 0;       // a power of two, or all parts together; 0 for shared and constant
  std::uint64_t part_bytes = 0;          // that each block keeps to, a power of two; 0: all of the dataset
  std::uint32_t block_threads = 256;     // a multiple of warp_lanes up to most_block_threads
  std::uint32_t blocks = 1;
  std::uint32_t elements_per_thread = 1;  // a multiple of elements_in_flight; pairs of elements, where they are swapped
  bool drops_l2 = false;                  // before each run, which leaves nothing of the dataset there
  bool is_counted = false;                // in runs of their own, where the device can count
  std::uint32_t runs = 1;

  bool operator==(const Stream&) const = default;
};

// How often each element is loaded or stored.
[[nodiscard]] std::uint64_t accesses_of_element(const Stream& stream);

// Loaded and stored by one run.
[[nodiscard]] std::uint64_t bytes_moved(const Stream& stream);

// Kernels of the benchmarks FDTD-2D, GEMM, 3MM, SYRK and SYR2K (Konstantinidis & Cotronis 2016, section V).
enum class KernelName : std::uint8_t {
  fdtd_step1,
  fdtd_step2,
  fdtd_step3,
  gemm,
  mm3_kernel1,
  mm3_kernel2,
  mm3_kernel3,
  syrk,
  syr2k
};
inline constexpr std::array kernel_names{KernelName::fdtd_step1,  KernelName::fdtd_step2,  KernelName::fdtd_step3,
                                         KernelName::gemm,        KernelName::mm3_kernel1, KernelName::mm3_kernel2,
                                         KernelName::mm3_kernel3, KernelName::syrk,        KernelName::syr2k};
[[nodiscard]] std::string_view to_string(KernelName name);
// `mm3`, as older recordings have it, is the first of three.
[[nodiscard]] std::optional<KernelName> kernel_name_from(std::string_view name);

// How matrices that a kernel only loads are loaded: ld.global, or texture fetches of 1 or 4 elements.
enum class KernelVariant : std::uint8_t { plain, texture_scalar, texture_vector };
inline constexpr std::array kernel_variants{KernelVariant::plain, KernelVariant::texture_scalar,
                                            KernelVariant::texture_vector};
[[nodiscard]] std::string_view to_string(KernelVariant variant);
[[nodiscard]] std::optional<KernelVariant> kernel_variant_from(std::string_view name);

[[nodiscard]] constexpr bool is_fdtd(KernelName kernel) {
  return kernel == KernelName::fdtd_step1 || kernel == KernelName::fdtd_step2 || kernel == KernelName::fdtd_step3;
}

[[nodiscard]] constexpr bool is_mm3(KernelName kernel) {
  return kernel == KernelName::mm3_kernel1 || kernel == KernelName::mm3_kernel2 || kernel == KernelName::mm3_kernel3;
}

// What a vector fetch brings, and how many neighbouring results a thread has.
inline constexpr std::uint32_t vector_elements = 4;
[[nodiscard]] constexpr std::uint32_t results_of_thread(KernelName kernel, KernelVariant variant) {
  return variant == KernelVariant::texture_vector && kernel != KernelName::syrk && kernel != KernelName::syr2k
             ? vector_elements
             : 1;
}

[[nodiscard]] std::string name_of(KernelName kernel, KernelVariant variant);  // gemm.plain

// A kernel on square matrices of 4-byte elements, each run with nothing of them in any cache but what the kernels of
// 3MM before it left there; what it loads and stores is said in model/kernels.hpp. A run has the cycles of the SM that
// took longest and the seconds of all together.
struct KernelRun {
  static constexpr std::uint32_t smallest_size = 64;
  static constexpr std::uint32_t largest_size = 4096;
  static constexpr std::uint32_t element_bytes = 4;
  static constexpr std::uint32_t block_columns = warp_lanes;  // threads
  static constexpr std::uint32_t block_warps = 8;

  KernelName kernel = KernelName::fdtd_step1;
  KernelVariant variant = KernelVariant::plain;
  std::uint32_t size = smallest_size;  // rows, and columns: a power of two
  bool is_counted = false;             // in runs of their own, where the device can count
  std::uint32_t runs = 1;

  bool operator==(const KernelRun&) const = default;
};

// Of one matrix.
[[nodiscard]] std::uint64_t matrix_bytes(const KernelRun& run);
// Where matrices lie that it loads, or the kernels of 3MM before it.
[[nodiscard]] std::uint64_t loaded_room_bytes(const KernelRun& run);

// What blocks of one cluster do with the shared memory of one another, each block on an SM of its own.
enum class ExchangeWork : std::uint8_t {
  load,           // one lane, each load with its address from the one before; a run's cycles are those of one load
  atomic,         // the same of additions that return what was there
  hand_over,      // a word and the news of it go to and fro (st.async); those of one way
  signal,         // arrivals at a barrier of the other block go to and fro; those of one way
  copy,           // `bytes` and the news of them go to and fro by the copy engine; those of one way
  stream_load,    // all threads of a block load stream_bytes, 16 bytes a thread at a time; those of all of them
  stream_store,   // the same of stores, until the other block has all of them
  barrier,        // of all threads of the cluster; those of one
  block_barrier,  // of all threads of one block; those of one
};
inline constexpr std::array exchange_works{
    ExchangeWork::load,         ExchangeWork::atomic,  ExchangeWork::hand_over,
    ExchangeWork::signal,       ExchangeWork::copy,    ExchangeWork::stream_load,
    ExchangeWork::stream_store, ExchangeWork::barrier, ExchangeWork::block_barrier};
[[nodiscard]] std::string_view to_string(ExchangeWork work);
[[nodiscard]] std::optional<ExchangeWork> exchange_work_from(std::string_view name);

struct ClusterExchange {
  static constexpr std::uint32_t most_blocks = 64;
  static constexpr std::uint64_t stream_bytes = 1U << 21U;
  static constexpr std::uint32_t most_copied_bytes = 32U << 10U;

  ExchangeWork work = ExchangeWork::load;
  std::uint32_t blocks = 1;   // of the cluster
  std::uint32_t cluster = 0;  // which one, counted round as many as the device holds at once
  std::uint32_t from = 0;     // rank of the block that acts
  std::uint32_t to = 0;     // rank of the block whose shared memory it reaches; its own for none but loads and atomics
  bool by_all = false;      // streams: every block acts on the one as far from it; the run is that of the slowest
  std::uint32_t bytes = 0;  // of a copy, a multiple of 16; else 0
  std::uint32_t threads = 0;  // of a block at a barrier, a multiple of warp_lanes; else 0
  std::uint32_t runs = 1;

  bool operator==(const ClusterExchange&) const = default;
};

// How a block brings data from L2 to its shared memory: loads and stores of its threads; copies that threads issue and
// do not hold in registers (cp.async); the copy engine (cp.async.bulk).
enum class FetchEngine : std::uint8_t { loads, async, bulk };
inline constexpr std::array fetch_engines{FetchEngine::loads, FetchEngine::async, FetchEngine::bulk};
[[nodiscard]] std::string_view to_string(FetchEngine engine);
[[nodiscard]] std::optional<FetchEngine> fetch_engine_from(std::string_view name);

// A block fetches `bytes` that L2 holds; a run's cycles are those from the first request until all is there, on an
// average of the SMs where all of them do so at once.
struct BlockFetch {
  static constexpr std::uint32_t most_bytes = 64U << 10U;

  FetchEngine engine = FetchEngine::loads;
  std::uint32_t bytes = 16;  // a power of two from 16 to most_bytes
  bool by_all = false;       // SMs, each from a place of its own
  std::uint32_t runs = 1;

  bool operator==(const BlockFetch&) const = default;
};

using Workload = std::variant<SharedLoads, ConcurrentLoads, Stream, KernelRun, ClusterExchange, BlockFetch>;

// One sentence why nothing could carry this out (what is out of range), or none.
[[nodiscard]] std::optional<std::string> why_malformed(const Workload& workload);

// The target that a device offers if it carries out such workloads.
[[nodiscard]] std::string_view target_of(const Workload& workload);

// Loads by all threads in all runs, as far as budgets go.
[[nodiscard]] std::size_t loads_of(const Workload& workload);

// Those that a device of all workloads offers.
[[nodiscard]] std::span<const std::string_view> workload_targets();
[[nodiscard]] bool takes_workloads(std::string_view target);
// By texels, which have no addresses: where they lie is asked of the device besides (Answerer::places_of).
[[nodiscard]] bool takes_texels(std::string_view target);

// Whether its timing is in seconds as well.
[[nodiscard]] bool has_seconds(const Workload& workload);

// What a stream or a kernel moves through caches and memory while it runs.
struct CacheTraffic {
  std::uint64_t l1_sectors = 0;  // looked up by loads in the caches of the SMs, of 32 bytes
  std::uint64_t l2_load_bytes = 0;
  std::uint64_t l2_store_bytes = 0;
  std::uint64_t dram_load_bytes = 0;
  std::uint64_t dram_store_bytes = 0;

  bool operator==(const CacheTraffic&) const = default;
};

// What the device said: either one value for each run, or why there is none.
struct Timing {
  std::vector<double> cycles;   // of the SM's clock
  std::vector<double> seconds;  // of streams and kernels only
  // Of what was to be counted, by counters of the device, or why they could not be.
  std::optional<CacheTraffic> counted = {};
  std::string why_not_counted = {};
  std::optional<std::string> refusal = {};

  bool operator==(const Timing&) const = default;
};

}  // namespace gpuinfer::model
