// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace gpuinfer::probe {

// Does `work` in a copy of this process, which ends with it, so that what a library breaks there on a hostile file is
// not broken here. None: it came to its end, also by an exception. Else how the copy died, as the clause that follows
// "HDF5 ": "crashes on it (Segmentation fault)". `longest` is of the processor's time, since other programs may take
// most of it; by the clock the copy gets ten times as long. Throws DeviceUnavailable where there is no room for a copy.
[[nodiscard]] std::optional<std::string> how_first_try_dies(const std::function<void()>& work,
                                                            std::chrono::seconds longest);

}  // namespace gpuinfer::probe
