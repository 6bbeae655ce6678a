// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/errors.hpp"

namespace gpuinfer::infer {

// What speaks against a store that a pointer sweeps, or what could not be found of it.
class NoSweptStore : public Error {
  using Error::Error;
};

}  // namespace gpuinfer::infer
