// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/workload.hpp"

#include <algorithm>
#include <bit>

namespace gpuinfer::model {

namespace {

constexpr std::array<std::string_view, 5> path_names{"global_ca", "global_cg", "texture", "shared", "constant"};
constexpr std::array<std::string_view, std::variant_size_v<Workload>> targets{"Shared",  "Outstanding", "Bandwidth",
                                                                              "Kernels", "Cluster",     "Fetch"};
constexpr std::string_view texel_target = "Texture2D";
constexpr std::array<std::string_view, 4> work_names{"load", "copy", "swap", "store"};
constexpr std::array<std::string_view, kernel_names.size()> kernel_words{
    "fdtd_step1", "fdtd_step2", "fdtd_step3", "gemm", "mm3_kernel1", "mm3_kernel2", "mm3_kernel3", "syrk", "syr2k"};
constexpr std::array<std::string_view, kernel_variants.size()> variant_words{"plain", "texture_scalar",
                                                                             "texture_vector"};

constexpr std::array<std::string_view, exchange_works.size()> exchange_words{
    "load", "atomic", "hand_over", "signal", "copy", "stream_load", "stream_store", "barrier", "block_barrier"};
constexpr std::array<std::string_view, fetch_engines.size()> engine_words{"loads", "async", "bulk"};

template <class Word, std::size_t count>
std::optional<Word> word_from(const std::array<std::string_view, count>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Word>(found - names.begin()));
}

std::optional<std::string> why_malformed_runs(std::uint32_t runs) {
  constexpr std::uint32_t most_runs = 4096;
  return runs >= 1 && runs <= most_runs ? std::nullopt
                                        : std::optional<std::string>("runs is not in 1 to 4096; ask for fewer");
}

std::optional<std::string> why_malformed_alone(const SharedLoads& loads) {
  if (loads.element_bytes != 4 && loads.element_bytes != 8 && loads.element_bytes != 16) {
    return "element_bytes is not 4, 8 or 16; ask for one of them";
  }
  const bool fits = std::ranges::all_of(loads.lane_offsets, [&loads](std::uint32_t offset) {
    return offset % loads.element_bytes == 0 && offset + loads.element_bytes <= SharedLoads::shared_bytes;
  });
  return fits ? std::nullopt
              : std::optional<std::string>("lane_offsets has one that is no multiple of element_bytes within " +
                                           std::to_string(SharedLoads::shared_bytes) + " bytes; keep to those");
}

std::optional<std::string> why_malformed_alone(const ConcurrentLoads& loads) {
  if (loads.threads < 1 || loads.threads > most_block_threads) {
    return "threads is not in 1 to 1024; ask for fewer";
  }
  if (loads.loads_per_thread < 1 || loads.loads_per_thread > ConcurrentLoads::most_loads) {
    return "loads_per_thread is not in 1 to 8; ask for fewer";
  }
  if (!std::has_single_bit(loads.threads_per_line) || loads.threads_per_line > warp_lanes) {
    return "threads_per_line is no power of two up to 32; ask for one";
  }
  return std::nullopt;
}

bool can_work(StreamPath path, StreamWork work) {
  switch (path) {
    case StreamPath::shared:
      return work != StreamWork::load;
    case StreamPath::constant:
      return work == StreamWork::load;
    case StreamPath::texture:
      return work == StreamWork::load || work == StreamWork::copy;
    case StreamPath::global_ca:
    case StreamPath::global_cg:
      break;
  }
  return work != StreamWork::swap;
}

std::optional<std::string> why_malformed_alone(const Stream& stream) {
  constexpr std::uint64_t most_dataset_bytes = std::uint64_t{1} << 40U;
  constexpr std::uint32_t most_blocks = 1U << 24U;
  constexpr std::uint32_t most_elements = 1U << 28U;
  const bool on_chip = stream.path == StreamPath::shared || stream.path == StreamPath::constant;
  if (stream.element_bits != 32 && stream.element_bits != 64 && stream.element_bits != 128) {
    return "element_bits is not 32, 64 or 128; ask for one of them";
  }
  if (!std::has_single_bit(stream.elements_in_flight) || stream.elements_in_flight > 8) {
    return "elements_in_flight is not 1, 2, 4 or 8; ask for one of them";
  }
  if (stream.block_threads == 0 || stream.block_threads % warp_lanes != 0 ||
      stream.block_threads > most_block_threads || stream.blocks == 0 || stream.blocks > most_blocks) {
    return "block_threads is no multiple of 32 up to 1024, or blocks is not in 1 to 16777216; ask for other blocks";
  }
  if (stream.elements_per_thread == 0 || stream.elements_per_thread % stream.elements_in_flight != 0 ||
      stream.elements_per_thread > most_elements) {
    return "elements_per_thread is no multiple of elements_in_flight up to 268435456; ask for one";
  }
  if (!can_work(stream.path, stream.work)) {
    return "shared memory is swapped, copied or stored to, constants are loaded, textures loaded or copied, and what "
           "is "
           "global is loaded, copied or stored to; ask for that";
  }
  if (on_chip) {
    return stream.dataset_bytes == 0 && stream.part_bytes == 0
               ? std::nullopt
               : std::optional<std::string>("dataset_bytes is not 0 where nothing global is loaded; ask for that");
  }
  // That a block goes round in.
  const std::uint64_t round_bytes = stream.part_bytes == 0 ? stream.dataset_bytes : stream.part_bytes;
  if (!std::has_single_bit(round_bytes) || round_bytes > most_dataset_bytes ||
      round_bytes < std::uint64_t{stream.element_bits} / 8 * stream.elements_in_flight * warp_lanes) {
    return "the dataset of a block is no power of two from what a warp has outstanding to a terabyte; ask for one";
  }
  if (stream.part_bytes != 0 && stream.dataset_bytes != stream.part_bytes * stream.blocks) {
    return "dataset_bytes is not that of all parts together; ask for that";
  }
  return std::nullopt;
}

std::optional<std::string> why_malformed_alone(const KernelRun& run) {
  return std::has_single_bit(run.size) && run.size >= KernelRun::smallest_size && run.size <= KernelRun::largest_size
             ? std::nullopt
             : std::optional<std::string>("size is no power of two from 64 to 4096; ask for one");
}

bool is_barrier(ExchangeWork work) { return work == ExchangeWork::barrier || work == ExchangeWork::block_barrier; }
bool is_stream(ExchangeWork work) { return work == ExchangeWork::stream_load || work == ExchangeWork::stream_store; }

std::optional<std::string> why_malformed_alone(const ClusterExchange& exchange) {
  if (exchange.blocks < 1 || exchange.blocks > ClusterExchange::most_blocks || exchange.from >= exchange.blocks ||
      exchange.to >= exchange.blocks) {
    return "blocks is not in 1 to " + std::to_string(ClusterExchange::most_blocks) +
           ", or from or to is no rank of the cluster; ask for ranks from 0 to blocks - 1";
  }
  const bool may_be_alone =
      is_barrier(exchange.work) || exchange.work == ExchangeWork::load || exchange.work == ExchangeWork::atomic;
  if (exchange.from == exchange.to && !may_be_alone) {
    return "from and to are the same block, which only loads, atomics and barriers are asked of; name two";
  }
  if (exchange.by_all && !is_stream(exchange.work)) {
    return "by_all is asked of streams only; ask for one";
  }
  if (exchange.work == ExchangeWork::copy
          ? exchange.bytes < 16 || exchange.bytes % 16 != 0 || exchange.bytes > ClusterExchange::most_copied_bytes
          : exchange.bytes != 0) {
    return "bytes is not a multiple of 16 up to " + std::to_string(ClusterExchange::most_copied_bytes) +
           " of a copy, or not 0 of anything else; ask for that";
  }
  if (is_barrier(exchange.work)
          ? exchange.threads < 1 || exchange.threads % warp_lanes != 0 || exchange.threads > most_block_threads
          : exchange.threads != 0) {
    return "threads is not a multiple of 32 up to 1024 of a barrier, or not 0 of anything else; ask for that";
  }
  if (exchange.work == ExchangeWork::block_barrier && exchange.blocks != 1) {
    return "a barrier of one block is asked of a cluster of several; ask for one block";
  }
  return std::nullopt;
}

std::optional<std::string> why_malformed_alone(const BlockFetch& fetch) {
  return std::has_single_bit(fetch.bytes) && fetch.bytes >= 16 && fetch.bytes <= BlockFetch::most_bytes
             ? std::nullopt
             : std::optional<std::string>("bytes is no power of two from 16 to " +
                                          std::to_string(BlockFetch::most_bytes) + "; ask for one");
}

// By one thread with one result, of `size` steps.
std::size_t loads_of_result(const KernelRun& run) {
  switch (run.kernel) {
    case KernelName::fdtd_step1:
    case KernelName::fdtd_step2:
      return 3;
    case KernelName::fdtd_step3:
      return 5;
    case KernelName::gemm:
    case KernelName::syrk:
      return std::size_t{2} * run.size + 1;
    case KernelName::mm3_kernel1:
    case KernelName::mm3_kernel2:
    case KernelName::mm3_kernel3:
      return std::size_t{2} * run.size;
    case KernelName::syr2k:
      break;
  }
  return std::size_t{4} * run.size + 1;
}

}  // namespace

SharedLoads strided(std::uint32_t stride_bytes, std::uint32_t element_bytes, std::uint32_t runs) {
  SharedLoads loads{.element_bytes = element_bytes, .runs = runs};
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
    loads.lane_offsets[lane] = lane * stride_bytes;
  }
  return loads;
}

std::string_view to_string(StreamPath path) { return path_names.at(static_cast<std::size_t>(path)); }
std::optional<StreamPath> stream_path_from(std::string_view name) { return word_from<StreamPath>(path_names, name); }
std::string_view to_string(StreamWork work) { return work_names.at(static_cast<std::size_t>(work)); }
std::optional<StreamWork> stream_work_from(std::string_view name) { return word_from<StreamWork>(work_names, name); }

std::string_view to_string(KernelName name) { return kernel_words.at(static_cast<std::size_t>(name)); }
std::optional<KernelName> kernel_name_from(std::string_view name) {
  return name == "mm3" ? std::optional(KernelName::mm3_kernel1) : word_from<KernelName>(kernel_words, name);
}
std::string_view to_string(KernelVariant variant) { return variant_words.at(static_cast<std::size_t>(variant)); }
std::optional<KernelVariant> kernel_variant_from(std::string_view name) {
  return word_from<KernelVariant>(variant_words, name);
}

std::string_view to_string(ExchangeWork work) { return exchange_words.at(static_cast<std::size_t>(work)); }
std::optional<ExchangeWork> exchange_work_from(std::string_view name) {
  return word_from<ExchangeWork>(exchange_words, name);
}
std::string_view to_string(FetchEngine engine) { return engine_words.at(static_cast<std::size_t>(engine)); }
std::optional<FetchEngine> fetch_engine_from(std::string_view name) {
  return word_from<FetchEngine>(engine_words, name);
}

std::string name_of(KernelName kernel, KernelVariant variant) {
  return std::string(to_string(kernel)) + "." + std::string(to_string(variant));
}

std::uint64_t matrix_bytes(const KernelRun& run) {
  return std::uint64_t{run.size} * run.size * KernelRun::element_bytes;
}

std::uint64_t loaded_room_bytes(const KernelRun& run) {
  const std::uint64_t matrices = run.kernel == KernelName::mm3_kernel3   ? 6
                                 : run.kernel == KernelName::mm3_kernel2 ? 4
                                                                         : 2;
  return matrices * matrix_bytes(run);
}

std::uint64_t accesses_of_element(const Stream& stream) {
  constexpr std::uint64_t of_swap = 4;  // two elements
  return stream.work == StreamWork::copy ? 2 : stream.work == StreamWork::swap ? of_swap : 1;
}

std::uint64_t bytes_moved(const Stream& stream) {
  return accesses_of_element(stream) * stream.element_bits / 8 * stream.elements_per_thread * stream.block_threads *
         stream.blocks;
}

std::optional<std::string> why_malformed(const Workload& workload) {
  return std::visit(
      [](const auto& each) {
        auto reason = why_malformed_runs(each.runs);
        return reason ? reason : why_malformed_alone(each);
      },
      workload);
}

std::string_view target_of(const Workload& workload) { return targets.at(workload.index()); }

std::span<const std::string_view> workload_targets() { return targets; }

bool takes_workloads(std::string_view target) { return std::ranges::find(targets, target) != targets.end(); }

bool takes_texels(std::string_view target) { return target == texel_target; }

bool has_seconds(const Workload& workload) {
  return std::holds_alternative<Stream>(workload) || std::holds_alternative<KernelRun>(workload);
}

std::size_t loads_of(const Workload& workload) {
  struct Count {
    std::size_t operator()(const SharedLoads& loads) const {
      return std::size_t{loads.runs} * warp_lanes * SharedLoads::loads_of_run;
    }
    std::size_t operator()(const ConcurrentLoads& loads) const {
      return std::size_t{loads.runs} * loads.threads * loads.loads_per_thread;
    }
    std::size_t operator()(const Stream& stream) const {
      return std::size_t{stream.runs} * stream.elements_per_thread * stream.block_threads * stream.blocks;
    }
    std::size_t operator()(const KernelRun& run) const {
      return std::size_t{run.runs} * run.size * run.size * loads_of_result(run);
    }
    std::size_t operator()(const ClusterExchange& exchange) const {
      constexpr std::size_t of_chain = 64;
      constexpr std::size_t of_element = 16;
      return std::size_t{exchange.runs} * (is_stream(exchange.work) ? ClusterExchange::stream_bytes / of_element *
                                                                          (exchange.by_all ? exchange.blocks : 1)
                                                                    : of_chain);
    }
    std::size_t operator()(const BlockFetch& fetch) const { return std::size_t{fetch.runs} * fetch.bytes / 16; }
  };
  return std::visit(Count{}, workload);
}

}  // namespace gpuinfer::model
