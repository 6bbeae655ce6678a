// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/gpu.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "model/errors.hpp"

namespace gpuinfer::probe::cuda {
namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint32_t);

std::size_t accesses_of(const model::Question& question) { return question.warm.size() + question.record.size(); }

std::size_t padded(std::size_t accesses) {
  return (accesses + accesses_alignment - 1) / accesses_alignment * accesses_alignment;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool all_on_different_sms(std::span<const Seat> seats) {
  std::set<std::uint32_t> sms;
  return std::ranges::all_of(seats, [&sms](const Seat& seat) { return sms.insert(seat.sm).second; });
}

}  // namespace

cudaError_t HostMemory::reserve(std::size_t bytes) {
  constexpr std::size_t smallest_bytes = std::size_t{8} << 20U;
  if (bytes <= bytes_) {
    return cudaSuccess;
  }
  memory_.reset();
  bytes_ = 0;
  const std::size_t reserved_bytes = std::max(bytes, smallest_bytes);
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, reserved_bytes, cudaHostAllocMapped);
  if (error == cudaSuccess) {
    memory_.reset(memory);
    bytes_ = reserved_bytes;
  }
  return error;
}

Buffer::~Buffer() {
  if (texture_) {
    cudaDestroyTextureObject(*texture_);
  }
  cudaFree(allocation_);
}

cudaError_t Buffer::allocate(std::uint64_t bytes, std::uint64_t alignment_bytes) {
  const cudaError_t error = cudaMalloc(&allocation_, bytes + alignment_bytes);
  if (error != cudaSuccess) {
    return error;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
  memory_ = static_cast<char*>(allocation_) + (alignment_bytes - address % alignment_bytes) % alignment_bytes;
  bytes_ = bytes;
  return cudaMemset(memory_, 0, bytes);
}

cudaError_t Buffer::make_texture() {
  int device = 0;
  std::size_t most_words = 0;
  const cudaChannelFormatDesc word = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetTexture1DLinearMaxWidth(&most_words, &word, device);
  }
  if (error != cudaSuccess || bytes_ / word_bytes > most_words) {
    return error;
  }
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory_;
  resource.res.linear.desc = word;
  resource.res.linear.sizeInBytes = bytes_;
  cudaTextureDesc reading{};
  reading.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  error = cudaCreateTextureObject(&texture, &resource, &reading, nullptr);
  if (error == cudaSuccess) {
    texture_ = texture;
  }
  return error;
}

Reach reach_of(const Buffer& buffer) {
  return {.address = buffer.address(), .bytes = buffer.bytes(), .texture = buffer.texture()};
}

void Gpu::check(cudaError_t error, const std::string& what, const std::string& advice) const {
  if (error != cudaSuccess) {
    throw DeviceError("cuda:" + std::to_string(options_.device) + " could not " + what + " (" +
                      cudaGetErrorString(error) + "); " + advice);
  }
}

int Gpu::attribute(cudaDeviceAttr which) const {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, options_.device), "say what it has", "check it with nvidia-smi");
  return value;
}

Gpu::Gpu(const CudaOptions& options) : options_(options) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "be found", "check the driver with nvidia-smi");
  if (options_.device < 0 || options_.device >= devices) {
    throw DeviceError("cuda:" + std::to_string(options_.device) + " is not there, since CUDA shows " +
                      std::to_string(devices) + " device(s), counted from 0; take one of those");
  }
  check(cudaSetDevice(options_.device), "be opened", "check that no other process keeps it for itself");
  sm_count_ = static_cast<std::size_t>(attribute(cudaDevAttrMultiProcessorCount));
  largest_shared_bytes_ = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));

  constexpr std::uint64_t largest_bytes = word_bytes << 32U;
  if (options_.buffer_bytes == 0 || options_.buffer_bytes % word_bytes != 0 || options_.buffer_bytes > largest_bytes) {
    throw DeviceError("cuda:" + std::to_string(options_.device) + " cannot have a buffer of " +
                      std::to_string(options_.buffer_bytes) + " bytes; ask for a multiple of 4, at most 16 GiB");
  }
  for (const LoadPath path : {LoadPath::global_ca, LoadPath::global_nc, LoadPath::global_cg, LoadPath::lines_cg,
                              LoadPath::texture, LoadPath::constant}) {
    check(prepare(path, options_.carveout_percent, shared_bytes_), "load the probe",
          "build it for this GPU's architecture and ask for a carve-out from 0 to 100");
  }
}

std::uint64_t Gpu::l2_bytes() const { return static_cast<std::uint64_t>(attribute(cudaDevAttrL2CacheSize)); }

std::uint64_t Gpu::free_bytes() const {
  std::size_t free = 0;
  std::size_t all = 0;
  check(cudaMemGetInfo(&free, &all), "say how much memory is free", "check it with nvidia-smi");
  return free;
}

void Gpu::allocate(Buffer& buffer, std::uint64_t bytes, std::uint64_t alignment_bytes) const {
  check(buffer.allocate(bytes, alignment_bytes), "make a buffer of " + std::to_string(bytes) + " bytes",
        "free memory on it or ask for a smaller buffer");
}

void Gpu::make_texture(Buffer& buffer) const {
  check(buffer.make_texture(), "make a texture of the buffer", "check it with nvidia-smi");
}

model::DeviceFacts Gpu::facts() const {
  cudaDeviceProp properties{};
  int driver = 0;
  int runtime = 0;
  check(cudaGetDeviceProperties(&properties, options_.device), "say what it is", "check it with nvidia-smi");
  check(cudaDriverGetVersion(&driver), "name its driver", "check it with nvidia-smi");
  check(cudaRuntimeGetVersion(&runtime), "name its runtime", "check the installation of CUDA");

  model::DeviceFacts facts;
  facts.name = properties.name;
  facts.source = "cuda:" + std::to_string(options_.device);
  facts.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts.sm_count = static_cast<unsigned>(sm_count_);
  facts.provenance = {
      {"cuda_driver", version_text(driver)},
      {"cuda_runtime", version_text(runtime)},
      {"sm_clock_limit_khz", std::to_string(attribute(cudaDevAttrClockRate))},
      {"l2_bytes", std::to_string(properties.l2CacheSize)},
      {"shared_bytes_per_sm", std::to_string(properties.sharedMemPerMultiprocessor)},
      {"shared_bytes_per_block", std::to_string(shared_bytes_ + properties.reservedSharedMemPerBlock)},
      {"carveout_percent_asked", std::to_string(options_.carveout_percent)},
      {"clean_state", "a kernel with a far carve-out runs on every SM before each launch"},
      {"list_transfer", properties.major >= 9 ? "bulk copies between host memory and shared memory"
                                              : "loads and stores past L1, every " +
                                                    std::to_string(chunk_accesses(LoadPath::global_ca)) + " accesses"},
  };
  return facts;
}

std::vector<Played> Gpu::play_apart(LoadPath path, const Reach& reach, bool new_l1,
                                    std::span<const model::Question> questions) {
  constexpr int tries = 8;
  const auto taken = [&] { return seats().first(questions.size()); };
  for (int i = 0; i < tries; ++i) {
    pack(path, questions);
    launch(path, reach, taken(), new_l1, {});
    if (all_on_different_sms(taken())) {
      std::vector<Played> all;
      for (std::size_t question = 0; question < questions.size(); ++question) {
        all.push_back(played(seats()[question], questions[question]));
      }
      return all;
    }
  }
  throw DeviceError("cuda:" + std::to_string(options_.device) + " put several questions on one SM " +
                    std::to_string(tries) + " times in a row; end what else runs on it");
}

std::optional<Played> Gpu::play_on(std::uint32_t sm, LoadPath path, const Reach& reach, const model::Question& question,
                                   bool drop_l1_lines) {
  pack(path, {&question, 1});
  std::ranges::fill(seats().subspan(1), seats().front());
  launch(path, reach, seats(), false, {.invalidate = drop_l1_lines, .only_one_sm = true, .sm = sm});
  if (std::ranges::count(seats(), sm, &Seat::sm) != 1) {
    return std::nullopt;
  }
  return played(*std::ranges::find(seats(), sm, &Seat::sm), question);
}

void Gpu::stream_through_l2() {
  // Several times what fits, and twice, since a line may stay that is not the oldest.
  if (streamed_.bytes() == 0) {
    allocate(streamed_, 4 * l2_bytes(), alignof(uint4));
  }
  for (int time = 0; time < 2; ++time) {
    check(stream_through(streamed_.memory(), streamed_.bytes(), static_cast<std::uint32_t>(sm_count_)),
          "read a stream through L2", "check it with nvidia-smi");
  }
}

void Gpu::pack(LoadPath path, std::span<const model::Question> questions) {
  std::size_t total = 0;
  for (const auto& question : questions) {
    total += padded(accesses_of(question));
  }
  check(host_.reserve(sm_count_ * sizeof(Seat) + total * word_bytes), "reach memory for the list of accesses",
        "ask shorter questions");

  const auto unit_of = [&](std::uint64_t offset) { return static_cast<std::uint32_t>(offset / unit_bytes(path)); };
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    seats()[i] = {.first = first, .accesses = static_cast<std::uint32_t>(accesses_of(questions[i]))};
    std::uint32_t* const list = std::ranges::transform(questions[i].warm, accesses() + first, unit_of).out;
    std::ranges::transform(questions[i].record, list, unit_of);
    first += static_cast<std::uint32_t>(padded(seats()[i].accesses));
  }
}

void Gpu::launch(LoadPath path, const Reach& reach, std::span<const Seat> taken, bool new_l1, Launch how) {
  const std::string advice = "check it with nvidia-smi";
  how.seats = seats().data();
  how.accesses = accesses();
  how.buffer_begin = reach.address;
  how.buffer_end = reach.address + reach.bytes;
  how.texture = reach.texture.value_or(0);
  how.buffer_words = reach.texture ? static_cast<std::uint32_t>(reach.bytes / word_bytes) : 0;

  check(cudaSetDevice(options_.device), "be used", advice);
  if (new_l1) {
    check(flip_carveout(options_.carveout_percent, static_cast<std::uint32_t>(sm_count_), largest_shared_bytes_),
          "switch its carve-out", advice);
  }
  check(play(path, static_cast<std::uint32_t>(taken.size()), how), "start the probe", advice);
  check(cudaDeviceSynchronize(), "finish the probe", advice);
}

Played Gpu::played(const Seat& seat, const model::Question& question) const {
  const std::span recorded(accesses() + seat.first + question.warm.size(), question.record.size());
  return {.sm = seat.sm, .latency_cycles = {recorded.begin(), recorded.end()}};
}

}  // namespace gpuinfer::probe::cuda
