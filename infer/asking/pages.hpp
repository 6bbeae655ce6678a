// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpuinfer::infer {

// Of the pages that GPUs map large buffers with: inside one, virtual address bits are physical ones. Smaller pages only
// leave less to be found.
inline constexpr std::uint64_t mapped_page_bytes = 2ULL << 20U;

}  // namespace gpuinfer::infer
