// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/answerer.hpp"

namespace gpuinfer::probe {

struct CudaOptions {
  int device = 0;
  // What an SM sets aside as shared memory of the memory that is its L1 too; the GPU takes the next of
  // facts().shared_memories_kb. None: the least.
  std::optional<std::uint32_t> carveout_kb = {};
  std::uint64_t buffer_bytes = 64ULL << 20U;
  // Whether the provenance has the UUID and the serial number in clear as well.
  bool identify = false;
  std::uint64_t seed = 1;  // of the choice of lines that stand for pages
  // Those that will be asked; none: all. Some take much of the memory of the GPU.
  std::vector<std::string> targets = {};
};

// What a CUDA device offers when it has the memory; empty when the program was built without CUDA.
[[nodiscard]] std::vector<std::string> cuda_targets();

// Those that time address translation: what one GPU of a process unmaps drops the translations of all.
[[nodiscard]] std::vector<std::string> cuda_translation_targets();

// Names of the CUDA devices; empty without a driver or a GPU.
[[nodiscard]] std::vector<std::string> cuda_device_names();

// A GPU under the number that this process knows it by.
struct CudaIdentity {
  int number = 0;
  std::string id;  // gpu::gpu_id()
};

// Of all CUDA devices, as cuda_device_names(). Makes no context on any.
[[nodiscard]] std::vector<CudaIdentity> cuda_identities();

// The fine-grained probe (Mei & Chu 2014, listing 4) on a real GPU. Targets: L1tex (ld.global.ca), ReadOnly
// (ld.global.nc), Texture (tex1Dfetch; on most GPUs the same cache), ConstL1 (ld.const, indexed, in a bank of 64 KB),
// L2 (ld.global.cg, which passes L1 by), L1TLB and L2TLB (the same; an offset stands for a line of its page of 2 MB,
// see cuda/page_lines.hpp). A state that was tried on this GPU and not reached is refused, as is an offset outside the
// buffer or no multiple of 4. Clean questions to an SM's own caches that follow one another go out together, one for
// each SM; the others one by one, to the SM that they name or that answered last, or always to the same. Throws
// DeviceUnavailable when there is no such GPU, no driver, no room for the buffer, or the program was built without
// CUDA, and InputError when it has no such carve-out.
[[nodiscard]] std::unique_ptr<model::Answerer> open_cuda(const CudaOptions& options);

}  // namespace gpuinfer::probe
