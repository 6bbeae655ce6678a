// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive/unpacked.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

namespace gpuinfer::probe::archive {

namespace {

// Where a piece begins that follows `end`. In large pages it is faulted in hundreds of times faster.
constexpr std::size_t large_page_bytes = std::size_t{1} << 21U;
std::size_t begin_after(std::size_t end, std::size_t bytes) {
  const std::size_t page =
      bytes < large_page_bytes ? static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : large_page_bytes;
  return (end + page - 1) / page * page;
}

bool has_bytes(int file, std::size_t bytes) {
  struct stat facts {};
  return file >= 0 && fstat(file, &facts) == 0 && static_cast<std::size_t>(facts.st_size) >= bytes;
}

}  // namespace

Unpacked::Unpacked() : file_(memfd_create("unpacked", MFD_CLOEXEC)) {}

Unpacked::~Unpacked() {
  for (const std::span<std::byte> each : maps_) {
    munmap(each.data(), each.size());
  }
  if (file_ >= 0) {
    close(file_);
  }
}

const void* Unpacked::next_bytes(std::size_t bytes, const std::function<void(void*)>& read) {
  if (bytes == 0) {
    return nullptr;
  }
  const std::size_t begin = begin_after(end_, bytes);
  end_ = begin + bytes;
  const bool is_there = !is_copy_ && has_bytes(file_, end_);
  const bool is_kept = is_copy_ && file_ >= 0 && ftruncate(file_, static_cast<off_t>(end_)) == 0;
  void* const piece = is_there || is_kept
                          ? mmap(nullptr, bytes, is_there ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                                 static_cast<off_t>(begin))
                          : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (piece == MAP_FAILED) {
    throw std::bad_alloc();
  }
  maps_.emplace_back(static_cast<std::byte*>(piece), bytes);
  madvise(piece, bytes, MADV_HUGEPAGE);
  if (!is_there) {
    try {
      read(piece);
    } catch (...) {
      if (is_kept) {
        static_cast<void>(!ftruncate(file_, static_cast<off_t>(begin)));  // the process itself finds out, too
      }
      throw;
    }
  }
  return piece;
}

}  // namespace gpuinfer::probe::archive
