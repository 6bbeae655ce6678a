// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

// Every error message is one sentence: what is wrong, where (file:line or key), what to do about it.
namespace gpuinfer {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The command line or a file that the user named is wrong (exit status 2).
class InputError : public Error {
  using Error::Error;
};

// What is wrong is one leaf of a description: the sentence begins with its name.
class LeafError : public InputError {
 public:
  LeafError(std::string leaf, std::string sentence)
      : InputError(leaf + ": " + sentence), leaf_(std::move(leaf)), sentence_(std::move(sentence)) {}

  [[nodiscard]] const std::string& leaf() const { return leaf_; }
  [[nodiscard]] const std::string& sentence() const { return sentence_; }  // without the name

 private:
  std::string leaf_;
  std::string sentence_;
};

// No device answers to the name, or the device has gone (exit status 4).
class DeviceUnavailable : public Error {
  using Error::Error;
};

// The device is there and refused or failed a question; what was learned before remains valid.
class DeviceError : public Error {
  using Error::Error;
};

}  // namespace gpuinfer
