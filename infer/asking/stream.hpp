// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "infer/asking/settings.hpp"
#include "model/random_streams.hpp"

namespace gpuinfer::infer {

// What a run with these settings draws under that name; see model::RandomStreams.
template <class... Numbers>
[[nodiscard]] model::Random stream(const Settings& settings, std::string_view name, Numbers... numbers) {
  return model::RandomStreams(settings.seed).random(name, numbers...);
}

}  // namespace gpuinfer::infer
