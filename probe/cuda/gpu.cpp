// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/gpu.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "model/errors.hpp"
#include "probe/cuda/failure_advice.hpp"
#include "probe/device_failures.hpp"
#include "probe/gpu/gpu_id.hpp"

namespace gpuinfer::probe::cuda {
namespace {

bool all_on_different_sms(std::span<const Place> places) {
  std::set<std::uint32_t> sms;
  return std::ranges::all_of(places, [&sms](const Place& place) { return sms.insert(place.sm).second; });
}

std::string name_of_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

cudaError_t make_texture_object(const cudaResourceDesc& resource, std::optional<cudaTextureObject_t>& texture) {
  cudaTextureDesc reading{};
  reading.readMode = cudaReadModeElementType;
  reading.addressMode[0] = reading.addressMode[1] = cudaAddressModeBorder;  // zeros, which no memory holds
  cudaTextureObject_t object = 0;
  const cudaError_t error = cudaCreateTextureObject(&object, &resource, &reading, nullptr);
  if (error == cudaSuccess) {
    texture = object;
  }
  return error;
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

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

LinearTexture::~LinearTexture() {
  if (texture_) {
    cudaDestroyTextureObject(*texture_);
  }
}

cudaError_t LinearTexture::make(const void* memory, std::uint64_t bytes, std::uint32_t words) {
  constexpr int word_bits = 32;
  const auto bits_of = [words](std::uint32_t word) { return word < words ? word_bits : 0; };
  const cudaChannelFormatDesc texel =
      cudaCreateChannelDesc(bits_of(0), bits_of(1), bits_of(2), bits_of(3), cudaChannelFormatKindUnsigned);
  int device = 0;
  std::size_t most_texels = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetTexture1DLinearMaxWidth(&most_texels, &texel, device);
  }
  if (error != cudaSuccess) {
    return error;
  }
  bytes_ = std::min(bytes, most_texels * words * word_bytes);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = const_cast<void*>(memory);  // NOLINT(*-const-cast): a texture only reads
  resource.res.linear.desc = texel;
  resource.res.linear.sizeInBytes = bytes_;
  return make_texture_object(resource, texture_);
}

cudaError_t Buffer::allocate(std::uint64_t bytes, std::uint64_t alignment_bytes) {
  const cudaError_t error = cudaMalloc(&allocation_, bytes + alignment_bytes);
  if (error != cudaSuccess) {
    return error;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
  memory_ = static_cast<char*>(allocation_) + (alignment_bytes - address % alignment_bytes) % alignment_bytes;
  bytes_ = bytes;
  return clear();
}

cudaError_t Buffer::clear() { return cudaMemset(memory_, 0, bytes_); }

cudaError_t Buffer::make_texture() { return texture_.make(memory_, bytes_, 1); }

RasterTexture::~RasterTexture() {
  if (texture_) {
    cudaDestroyTextureObject(*texture_);
  }
  cudaFreeArray(array_);
}

cudaError_t RasterTexture::allocate() {
  const cudaChannelFormatDesc word = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  visible_ = VisibleArray::make(raster_width, raster_height);
  if (!visible_) {
    const std::vector<std::uint32_t> zeros(std::size_t{raster_width} * raster_height);
    constexpr std::size_t row_bytes = raster_width * word_bytes;
    cudaError_t error = cudaMallocArray(&array_, &word, raster_width, raster_height);
    if (error == cudaSuccess) {
      error =
          cudaMemcpy2DToArray(array_, 0, 0, zeros.data(), row_bytes, row_bytes, raster_height, cudaMemcpyHostToDevice);
    }
    if (error != cudaSuccess) {
      return error;
    }
  }
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = visible_ ? visible_->get() : array_;
  return make_texture_object(resource, texture_);
}

std::vector<std::uint32_t> RasterTexture::places_in_words() {
  return visible_ ? visible_->places_in_words() : std::vector<std::uint32_t>{};
}

Reach reach_of(const RasterTexture& raster) {
  return {.bytes = raster.texture() ? word_bytes * raster_width * raster_height : 0, .texture = raster.texture()};
}

Reach reach_of(const Buffer& buffer) {
  return {.address = buffer.address(), .bytes = buffer.bytes(), .texture = buffer.texture()};
}

void Gpu::check(cudaError_t error, const std::string& what, const std::string& advice) const {
  if (error == cudaSuccess) {
    return;
  }
  // Else the next launch would seem to fail with it.
  static_cast<void>(cudaGetLastError());
  const auto known = failure_advice(cudaGetErrorName(error));
  const std::string sentence = "cuda:" + std::to_string(options_.device) + " could not " + what + " (" +
                               cudaGetErrorString(error) + "); " + (known ? known->what_to_do : advice);
  if (known && known->is_transient) {
    throw TransientError(sentence);
  }
  throw DeviceError(sentence);
}

int Gpu::attribute(cudaDeviceAttr which) const {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, options_.device), "say what it has", "check it with nvidia-smi");
  return value;
}

Gpu::Gpu(CudaOptions options) : options_(std::move(options)) {
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
  check(read_shared_bytes({.path = LoadPath::global_ca, .warm = LoadPath::global_ca}, shared_bytes_), "load the probe",
        "build it for this GPU's architecture");
  find_carveouts();
  if (options_.carveout_kb > percent_of_carveout_kb_.rbegin()->first) {
    throw InputError("cuda:" + std::to_string(options_.device) + " cannot set aside " +
                     std::to_string(*options_.carveout_kb) + " KB as shared memory; ask for at most " +
                     std::to_string(percent_of_carveout_kb_.rbegin()->first));
  }
  options_.carveout_kb = percent_of_carveout_kb_.lower_bound(options_.carveout_kb.value_or(0))->first;
}

// The lowest percentage that gives each.
void Gpu::find_carveouts() {
  constexpr int all_percent = 100;
  for (int percent = 0; percent <= all_percent; ++percent) {
    std::uint32_t carveout_kb = 0;
    check(read_carveout_kb(percent, carveout_kb), "say what it sets aside as shared memory",
          "check it with nvidia-smi");
    percent_of_carveout_kb_.try_emplace(carveout_kb, percent);
  }
}

std::vector<std::uint32_t> Gpu::carveouts_kb() const {
  std::vector<std::uint32_t> carveouts;
  for (const auto& [carveout_kb, percent] : percent_of_carveout_kb_) {
    carveouts.push_back(carveout_kb);
  }
  return carveouts;
}

int Gpu::carveout_percent(const Manner& manner) const {
  return percent_of_carveout_kb_.at(manner.carveout_kb.value_or(*options_.carveout_kb));
}

std::optional<std::string> Gpu::pci_bus_id() const {
  std::array<char, 32> text{};
  if (cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), options_.device) != cudaSuccess) {
    return std::nullopt;
  }
  return text.data();
}

bool Gpu::takes_hints() const {
  constexpr int first_with_hints = 8;
  return attribute(cudaDevAttrComputeCapabilityMajor) >= first_with_hints;
}

std::optional<std::uint64_t> Gpu::largest_set_aside_bytes() const {
  const int bytes = attribute(cudaDevAttrMaxPersistingL2CacheSize);
  return bytes > 0 ? std::optional<std::uint64_t>(bytes) : std::nullopt;
}

void Gpu::unprotect_lines() {
  if (has_protected_lines_) {
    check(cudaCtxResetPersistingL2Cache(), "take back what was asked of lines in L2");
    has_protected_lines_ = false;
  }
}

void Gpu::set_aside(std::optional<std::uint64_t> bytes) {
  if (!bytes && !usual_set_aside_bytes_) {
    return;
  }
  if (!usual_set_aside_bytes_) {
    std::size_t usual = 0;
    check(cudaDeviceGetLimit(&usual, cudaLimitPersistingL2CacheSize), "read what L2 sets aside");
    usual_set_aside_bytes_ = set_aside_bytes_ = usual;
  }
  const std::size_t wanted = bytes ? static_cast<std::size_t>(*bytes) : *usual_set_aside_bytes_;
  if (set_aside_bytes_ != wanted) {
    check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, wanted), "set a part of L2 aside");
    set_aside_bytes_ = wanted;
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

void Gpu::clear(Buffer& buffer) const { check(buffer.clear(), "clear a buffer", "check it with nvidia-smi"); }

void Gpu::make_texture(Buffer& buffer) const {
  check(buffer.make_texture(), "make a texture of the buffer", "check it with nvidia-smi");
}

void Gpu::allocate(RasterTexture& raster) const {
  check(raster.allocate(), "make a texture of " + std::to_string(raster_width) + " x " + std::to_string(raster_height),
        "free memory on it");
}

model::DeviceFacts Gpu::facts() const {
  cudaDeviceProp properties{};
  int driver = 0;
  int runtime = 0;
  check(cudaGetDeviceProperties(&properties, options_.device), "say what it is", "check it with nvidia-smi");
  check(cudaDriverGetVersion(&driver), "name its driver", "check it with nvidia-smi");
  check(cudaRuntimeGetVersion(&runtime), "name its runtime", "check the installation of CUDA");
  std::size_t l2_fetch_bytes = 0;
  check(cudaDeviceGetLimit(&l2_fetch_bytes, cudaLimitMaxL2FetchGranularity), "say how much a miss of L2 fetches",
        "check it with nvidia-smi");

  model::DeviceFacts facts;
  facts.name = properties.name;
  facts.source = "cuda:" + std::to_string(options_.device);
  facts.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts.sm_count = static_cast<unsigned>(sm_count_);
  facts.shared_memories_kb = carveouts_kb();
  facts.chooses_unit = true;
  facts.provenance = {
      {"gpu_id", gpu::gpu_id(gpu::uuid_text(std::as_bytes(std::span(properties.uuid.bytes))))},
      {"host", name_of_host()},
      {"cuda_driver", version_text(driver)},
      {"cuda_runtime", version_text(runtime)},
      {"sm_clock_limit_khz", std::to_string(attribute(cudaDevAttrClockRate))},
      {"l2_bytes", std::to_string(properties.l2CacheSize)},
      {"l2_fetch_granularity_bytes", std::to_string(l2_fetch_bytes)},
      {"global_memory_bytes", std::to_string(properties.totalGlobalMem)},
      {"memory_bus_bits", std::to_string(properties.memoryBusWidth)},
      {"shared_bytes_per_sm", std::to_string(properties.sharedMemPerMultiprocessor)},
      {"shared_bytes_per_block", std::to_string(shared_bytes_ + properties.reservedSharedMemPerBlock)},
      {"carveout_kb_asked", std::to_string(*options_.carveout_kb)},
      {"clean_state", "a kernel with a far carve-out runs on every SM before each launch"},
      {"list_transfer", properties.major >= 9 ? "bulk copies between host memory and shared memory"
                                              : "loads and stores past L1, every " +
                                                    std::to_string(chunk_accesses(LoadPath::global_ca)) + " accesses"},
  };
  if (options_.identify) {
    facts.provenance["gpu_uuid"] = gpu::uuid_text(std::as_bytes(std::span(properties.uuid.bytes)));
  }
  if (auto id = pci_bus_id()) {
    facts.provenance["pci_bus_id"] = std::move(*id);
  }
  return facts;
}

std::vector<Played> Gpu::play_apart(const Manner& manner, std::span<const model::Question> questions) {
  constexpr int tries = 8;
  const bool seats_of_sms = questions.front().circumstances.unit.has_value();
  std::vector<std::uint32_t> at(questions.size());
  std::iota(at.begin(), at.end(), std::uint32_t{0});
  if (seats_of_sms) {
    std::ranges::transform(questions, at.begin(),
                           [](const auto& question) { return number_of(*question.circumstances.unit); });
  }
  for (int i = 0; i < tries; ++i) {
    launch(manner, questions, at, seats_of_sms);
    if (all_on_different_sms(places().first(seats_of_sms ? sm_count_ : questions.size()))) {
      std::vector<Played> all;
      for (std::size_t question = 0; question < questions.size(); ++question) {
        const std::uint32_t seat = at[question];
        all.push_back(played(seats_of_sms ? seat : places()[seat].sm, seats()[seat], questions[question]));
      }
      return all;
    }
  }
  throw TransientError("cuda:" + std::to_string(options_.device) + " put several questions on one SM " +
                       std::to_string(tries) + " times in a row; end what else runs on it");
}

std::optional<Played> Gpu::play_on(std::uint32_t sm, const Manner& manner, const model::Question& question) {
  launch(manner, {&question, 1}, {&sm, 1}, true);
  if (std::ranges::count(places(), sm, &Place::sm) != 1) {
    return std::nullopt;
  }
  return played(sm, seats()[sm], question);
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

// Unmapping memory of the host invalidates every translation there is.
void Gpu::drop_translations() const {
  constexpr std::size_t some_bytes = std::size_t{4} << 20U;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, some_bytes, cudaHostAllocMapped), "map memory of the host", "free memory");
  check(cudaFreeHost(memory), "unmap memory of the host", "check it with nvidia-smi");
}

void Gpu::launch(const Manner& manner, std::span<const model::Question> questions, std::span<const std::uint32_t> at,
                 bool seats_of_sms) {
  pack(manner, questions, at);
  set_aside(manner.set_aside_bytes);
  if (!manner.paths.hints) {
    unprotect_lines();
  }
  has_protected_lines_ = has_protected_lines_ || manner.paths.hints;
  const auto& reach = manner.reach;
  const Launch how{.seats = seats().data(),
                   .places = places().data(),
                   .accesses = accesses(),
                   .buffer_begin = reach.address,
                   .buffer_end = reach.address + reach.bytes,
                   .texture = reach.texture.value_or(0),
                   .buffer_words = reach.texture ? static_cast<std::uint32_t>(reach.bytes / word_bytes) : 0,
                   .seats_of_sms = seats_of_sms,
                   .invalidate = manner.drop_l1_lines};
  const auto sms = static_cast<std::uint32_t>(sm_count_);
  check(cudaSetDevice(options_.device), "be used");
  if (manner.new_l1) {
    check(flip_carveout(carveout_percent(manner), sms, largest_shared_bytes_), "switch its carve-out");
  }
  check(play(manner.paths, carveout_percent(manner), seats_of_sms ? sms : static_cast<std::uint32_t>(questions.size()),
             how),
        "start the probe");
  check(cudaDeviceSynchronize(), "finish the probe");
}

namespace {

std::uint32_t number_of_hint(model::AccessKind hint) {
  return hint == model::AccessKind::evict_first  ? first_hint
         : hint == model::AccessKind::evict_last ? last_hint
                                                 : unchanged_hint;
}

}  // namespace

// A warm-up through another path is repeated at its end until its length is what copies can move; what is loaded again
// right away changes nothing.
void Gpu::pack(const Manner& manner, std::span<const model::Question> questions, std::span<const std::uint32_t> at) {
  const bool one_path = manner.paths.warm == manner.paths.path;
  const auto warm_up_of = [&](const model::Question& question) {
    model::AccessSequence warm = question.warm;
    if (!one_path && !warm.empty()) {
      warm.resize(padded(warm.size()), warm.back());
    }
    return warm;
  };
  std::size_t total = 0;
  for (const auto& question : questions) {
    total += padded(question.warm.size()) + padded(question.record.size());
  }
  check(host_.reserve(sm_count_ * (sizeof(Seat) + sizeof(Place)) + total * word_bytes),
        "reach memory for the list of accesses", "ask shorter questions");

  const auto unit_of = [&](std::uint64_t offset) {
    return static_cast<std::uint32_t>(offset / unit_bytes(manner.paths.path));
  };
  std::ranges::fill(seats(), Seat{});
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const model::AccessSequence warm = warm_up_of(questions[i]);
    const auto count = static_cast<std::uint32_t>(warm.size() + questions[i].record.size());
    seats()[at[i]] = {
        .first = first, .accesses = count, .warm = one_path ? 0 : static_cast<std::uint32_t>(warm.size())};
    std::uint32_t* const list = std::ranges::transform(warm, accesses() + first, unit_of).out;
    std::ranges::transform(questions[i].record, list, unit_of);
    for (const std::uint32_t store : questions[i].circumstances.stores) {
      accesses()[first + store] |= store_flag;
    }
    for (const auto& [hint, numbers] : questions[i].circumstances.hints) {
      for (const std::uint32_t number : numbers) {
        accesses()[first + number] |= number_of_hint(hint) << hint_shift;
      }
    }
    first += static_cast<std::uint32_t>(padded(count));
  }
}

Played Gpu::played(std::uint32_t sm, const Seat& seat, const model::Question& question) const {
  const std::uint32_t* const end = accesses() + seat.first + seat.accesses;
  return {.sm = sm, .latency_cycles = {end - question.record.size(), end}};
}

}  // namespace gpuinfer::probe::cuda
