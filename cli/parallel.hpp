// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace gpuinfer::cli {

// Calls work(i) for each i below `count`, on at most `jobs` threads (none given: one for each core). The first
// exception comes out when all have ended.
void for_each_index(std::size_t count, std::optional<std::size_t> jobs, const std::function<void(std::size_t)>& work);

}  // namespace gpuinfer::cli
