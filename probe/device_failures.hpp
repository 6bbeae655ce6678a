// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/errors.hpp"

// What kinds of DeviceError say about asking again. Of any other kind, the device is as good as gone.
namespace gpuinfer::probe {

// Nothing of the device was lost, and the same question may be answered when it is asked again.
class TransientError : public DeviceError {
  using DeviceError::DeviceError;
};

// The device had not answered yet when whoever asked wanted to wait no longer.
class WaitingEnded : public DeviceError {
  using DeviceError::DeviceError;
};

}  // namespace gpuinfer::probe
