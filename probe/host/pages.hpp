// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpuinfer::probe::host {

enum class PageKind { huge, transparent_huge, small };

[[nodiscard]] std::string to_string(PageKind kind);

// Memory of the process, zero, present, and given back at the end.
class Pages {
 public:
  static constexpr std::size_t huge_bytes = 2U << 20U;
  static constexpr std::size_t small_bytes = 4096;

  // Begins with a huge page, where there are any: reserved ones, else those that the kernel puts together; `bytes` is a
  // multiple of huge_bytes. Throws DeviceUnavailable.
  Pages(std::size_t bytes, bool try_huge);
  ~Pages() { munmap(mapped_, mapped_bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Pages(Pages&&) = delete;
  Pages& operator=(Pages&&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] PageKind kind() const { return kind_; }

 private:
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uint8_t* data_ = nullptr;
  PageKind kind_ = PageKind::huge;
};

}  // namespace gpuinfer::probe::host
