// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/answerer.hpp"
#include "probe/cuda.hpp"
#include "probe/cuda/play.hpp"
#include "probe/cuda/visible_array.hpp"

namespace gpuinfer::probe::cuda {

inline constexpr std::size_t word_bytes = sizeof(std::uint32_t);

// 13000 -> "13.0", as CUDA counts versions.
[[nodiscard]] std::string version_text(int version);

// Memory of this process that the GPU reads and writes in place, so that no copy commands come between launches.
class HostMemory {
 public:
  // What was there is lost.
  [[nodiscard]] cudaError_t reserve(std::size_t bytes);
  [[nodiscard]] void* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const { cudaFreeHost(memory); }
  };

  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

// A linear texture over as much of [memory, memory + bytes) as one may have.
class LinearTexture {
 public:
  LinearTexture() = default;
  LinearTexture(const LinearTexture&) = delete;
  LinearTexture& operator=(const LinearTexture&) = delete;
  ~LinearTexture();

  // Once; with texels of so many words, 1, 2 or 4.
  [[nodiscard]] cudaError_t make(const void* memory, std::uint64_t bytes, std::uint32_t words);

  // None: it does not reach so far.
  [[nodiscard]] std::optional<cudaTextureObject_t> over(std::uint64_t bytes) const {
    return bytes <= bytes_ ? texture_ : std::nullopt;
  }

 private:
  std::uint64_t bytes_ = 0;
  std::optional<cudaTextureObject_t> texture_;
};

// A buffer of zeros on the GPU, and a linear texture of it where it is small enough for one.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(allocation_); }

  // Takes bytes + alignment_bytes (a power of two) of memory.
  [[nodiscard]] cudaError_t allocate(std::uint64_t bytes, std::uint64_t alignment_bytes);
  // With zeros, which leaves it in L2 as far as it fits.
  [[nodiscard]] cudaError_t clear();
  [[nodiscard]] cudaError_t make_texture();

  [[nodiscard]] const void* memory() const { return memory_; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::optional<cudaTextureObject_t> texture() const { return texture_.over(bytes_); }

 private:
  void* allocation_ = nullptr;
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  LinearTexture texture_;
};

// A two-dimensional texture of zeros on the GPU, laid out as the driver likes it: raster_width x raster_height words,
// in memory that can be looked at where the driver allows that.
class RasterTexture {
 public:
  RasterTexture() = default;
  RasterTexture(const RasterTexture&) = delete;
  RasterTexture& operator=(const RasterTexture&) = delete;
  ~RasterTexture();

  [[nodiscard]] cudaError_t allocate();
  [[nodiscard]] std::optional<cudaTextureObject_t> texture() const { return texture_; }

  // As those of VisibleArray; empty where that is not to be had.
  [[nodiscard]] std::vector<std::uint32_t> places_in_words();

 private:
  std::unique_ptr<VisibleArray> visible_;
  cudaArray_t array_ = nullptr;  // null where there is a visible one
  std::optional<cudaTextureObject_t> texture_;
};

// Where the offsets of questions lead.
struct Reach {
  std::uint64_t address = 0;  // of global memory; none for constants and arrays
  std::uint64_t bytes = 0;
  std::optional<cudaTextureObject_t> texture = {};
};

[[nodiscard]] Reach reach_of(const Buffer& buffer);
[[nodiscard]] Reach reach_of(const RasterTexture& raster);

// How questions are played.
struct Manner {
  Paths paths;
  Reach reach;
  std::optional<std::uint32_t> carveout_kb = {};      // one of Gpu::carveouts_kb(); none: that of the options
  std::optional<std::uint64_t> set_aside_bytes = {};  // none: as before anybody asked
  bool new_l1 = false;                                // set up L1 just before
  bool drop_l1_lines = false;
};

struct Played {
  std::uint32_t sm = 0;
  std::vector<float> latency_cycles;  // of the recorded accesses
};

// A GPU that plays questions, whatever their targets say, along the load path it is told. Throws DeviceError.
class Gpu {
 public:
  explicit Gpu(CudaOptions options);

  // Throws DeviceError that it could not do `what`, unless there is no error; TransientError where it may be able to
  // later. `advice` is for errors that failure_advice() does not know.
  void check(cudaError_t error, const std::string& what, const std::string& advice = "check it with nvidia-smi") const;

  [[nodiscard]] std::size_t sm_count() const { return sm_count_; }
  // All but the buffers and targets.
  [[nodiscard]] model::DeviceFacts facts() const;

  // None when it does not say.
  [[nodiscard]] std::optional<std::string> pci_bus_id() const;
  [[nodiscard]] std::uint64_t l2_bytes() const;
  [[nodiscard]] std::uint64_t free_bytes() const;
  // That a block may have.
  [[nodiscard]] std::uint64_t largest_shared_bytes() const { return largest_shared_bytes_; }
  // Whether loads may say when L2 is to evict their line.
  [[nodiscard]] bool takes_hints() const;
  // None: L2 sets nothing aside.
  [[nodiscard]] std::optional<std::uint64_t> largest_set_aside_bytes() const;
  void allocate(Buffer& buffer, std::uint64_t bytes, std::uint64_t alignment_bytes) const;
  void clear(Buffer& buffer) const;
  void make_texture(Buffer& buffer) const;
  void allocate(RasterTexture& raster) const;

  // What can be set aside as shared memory, ascending.
  [[nodiscard]] std::vector<std::uint32_t> carveouts_kb() const;

  // Each question on an SM of its own, at most sm_count(). Either all of them name theirs or none does.
  [[nodiscard]] std::vector<Played> play_apart(const Manner& manner, std::span<const model::Question> questions);

  // None when no block got to this SM alone.
  [[nodiscard]] std::optional<Played> play_on(std::uint32_t sm, const Manner& manner, const model::Question& question);

  // Drives everything else out of L2.
  void stream_through_l2();

  // Empties all TLBs: some milliseconds.
  void drop_translations() const;

 private:
  [[nodiscard]] int attribute(cudaDeviceAttr which) const;

  void find_carveouts();
  // Plays the questions at these seats.
  void launch(const Manner& manner, std::span<const model::Question> questions, std::span<const std::uint32_t> at,
              bool seats_of_sms);
  void pack(const Manner& manner, std::span<const model::Question> questions, std::span<const std::uint32_t> at);
  [[nodiscard]] Played played(std::uint32_t sm, const Seat& seat, const model::Question& question) const;
  [[nodiscard]] int carveout_percent(const Manner& manner) const;
  // Of L2, for this process.
  void set_aside(std::optional<std::uint64_t> bytes);
  // Lines that hints had evicted last are as any other from then on.
  void unprotect_lines();

  [[nodiscard]] std::span<Seat> seats() const { return {static_cast<Seat*>(host_.get()), sm_count_}; }
  [[nodiscard]] std::span<Place> places() const {
    return {reinterpret_cast<Place*>(seats().data() + sm_count_), sm_count_};
  }
  [[nodiscard]] std::uint32_t* accesses() const {
    return reinterpret_cast<std::uint32_t*>(places().data() + sm_count_);
  }

  CudaOptions options_;
  std::size_t sm_count_ = 0;
  bool has_protected_lines_ = false;
  // What L2 sets aside now, and set aside before anybody asked for something else.
  std::optional<std::size_t> set_aside_bytes_;
  std::optional<std::size_t> usual_set_aside_bytes_;
  std::size_t largest_shared_bytes_ = 0;
  std::size_t shared_bytes_ = 0;
  std::map<std::uint32_t, int> percent_of_carveout_kb_;
  Buffer streamed_;
  HostMemory host_;
};

}  // namespace gpuinfer::probe::cuda
