// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "model/answerer.hpp"
#include "model/device_description.hpp"

namespace gpuinfer::probe {

// A description as a device: its caches are simulated, its latencies are reported with its noise. Each cache is a
// target of its own; the target `Latency` is the path `global`, where there is one, with caches of its own. `source` is
// what --device named. Same seed, same questions: same answers, whatever other targets are asked in between. Targets
// are the caches that have everything a simulation needs; a question for another one is refused with the leaf that is
// null, and one that leaves the buffer or is not aligned to 4 bytes is refused as well, as is one for `Latency` with an
// access that the path has no latency for. A misread on the path takes data in a cache for data in memory or the other
// way round. `buffer`: where loads of targets without a buffer of their own go; none: at address 0, and large enough to
// overflow every cache. Throws InputError when nothing can be simulated, with what the first of the `asked` lacks.
[[nodiscard]] std::unique_ptr<model::Answerer> open_virtual(const model::DeviceDescription& description,
                                                            const std::string& source, std::uint64_t seed,
                                                            const std::optional<model::BufferFacts>& buffer = {},
                                                            std::span<const std::string> asked = {});

}  // namespace gpuinfer::probe
