// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "probe/cuda/gpu_condition.hpp"
#include "probe/gpu_health.hpp"

namespace gpuinfer::probe::cuda {

// A GPU as the management library of its driver sees it (NVIDIA: NVML API Reference Guide). The library is looked for
// when the program runs and only read from: no header and no privilege is needed, and no setting changes.
class Nvml {
 public:
  static constexpr const char* library_name = "libnvidia-ml.so.1";

  // `library` is a path or a name that the loader knows, `pci_bus_id` like 0000:1b:00.0. None when there is no such
  // library, or it does not work, or knows no such GPU.
  [[nodiscard]] static std::optional<Nvml> find(const std::string& library, const std::string& pci_bus_id);

  // Of all GPUs, in the order of their numbers.
  [[nodiscard]] static DriverHealth survey(const std::string& library);

  Nvml(Nvml&&) = default;
  Nvml& operator=(Nvml&&) = delete;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // The number on the board, where it has one.
  [[nodiscard]] std::optional<std::string> serial() const;

  // Empty where the library has no such function, or the GPU or the user's rights do not allow it. Takes milliseconds.
  [[nodiscard]] GpuCondition condition() const;

 private:
  struct Close {
    void operator()(void* library) const;
  };
  using Library = std::unique_ptr<void, Close>;

  explicit Nvml(Library library) : loaded_(std::move(library)) {}

  // What the function of this name returns.
  template <class... Arguments>
  [[nodiscard]] int call(const char* function, Arguments... arguments) const;

  [[nodiscard]] GpuHealth health() const;
  [[nodiscard]] std::string error_text(int result) const;
  // Of a function that gives a mode as it is, and as it will be after a reset.
  [[nodiscard]] std::optional<bool> is_on(const char* function) const;
  [[nodiscard]] std::optional<std::string> compute_mode() const;
  [[nodiscard]] std::string pci_bus_id() const;
  [[nodiscard]] std::optional<std::uint32_t> clock_mhz(unsigned type) const;
  [[nodiscard]] std::optional<unsigned long long> clock_reasons() const;
  [[nodiscard]] std::optional<std::set<std::string>> slowdowns() const;
  [[nodiscard]] std::optional<std::set<std::string>> clock_limits() const;
  [[nodiscard]] std::optional<std::uint64_t> processes() const;
  [[nodiscard]] std::optional<std::uint64_t> other_processes() const;
  [[nodiscard]] std::optional<std::uint64_t> errors(unsigned type) const;
  [[nodiscard]] std::optional<std::uint64_t> replaced_rows() const;

  Library loaded_;
  void* device_ = nullptr;
};

}  // namespace gpuinfer::probe::cuda
