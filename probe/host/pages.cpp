// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host/pages.hpp"

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "model/errors.hpp"

namespace gpuinfer::probe::host {

namespace {

void* map(std::size_t bytes, int flags) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

// Whether all of it lies in pages that the kernel put together, as /proc/self/smaps has it.
bool is_put_together(const std::uint8_t* data, std::size_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string name;
    std::size_t kilobytes = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= address && address < end;
    } else if (words.clear(), words.seekg(0),
               inside && words >> name >> std::dec >> kilobytes && name == "AnonHugePages:") {
      return kilobytes * 1024 >= bytes;
    }
  }
  return false;
}

}  // namespace

std::string to_string(PageKind kind) {
  switch (kind) {
    case PageKind::huge:
      return "2 MB, reserved";
    case PageKind::transparent_huge:
      return "2 MB, put together by the kernel";
    case PageKind::small:
      break;
  }
  return "4 KB";
}

Pages::Pages(std::size_t bytes, bool try_huge)
    : mapped_(try_huge ? map(bytes, MAP_HUGETLB) : nullptr), mapped_bytes_(bytes) {
  if (mapped_ != nullptr) {
    data_ = static_cast<std::uint8_t*>(mapped_);
    std::memset(data_, 0, bytes);
    return;
  }
  mapped_bytes_ = bytes + huge_bytes;
  mapped_ = map(mapped_bytes_, 0);
  if (mapped_ == nullptr) {
    throw DeviceUnavailable("host: " + std::to_string(mapped_bytes_ >> 20U) +
                            " MB of memory were refused; free some memory");
  }
  void* aligned = mapped_;
  std::size_t room = mapped_bytes_;
  data_ = static_cast<std::uint8_t*>(std::align(huge_bytes, bytes, aligned, room));
  madvise(data_, bytes, try_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(data_, 0, bytes);
  kind_ = try_huge && is_put_together(data_, bytes) ? PageKind::transparent_huge : PageKind::small;
}

}  // namespace gpuinfer::probe::host
