// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

namespace gpuinfer::probe::archive {

// Memory for what a library unpacks. A copy of the process unpacks first (probe/first_try.hpp), and the process itself
// takes over what the copy got: both ask for the same pieces in the same order. What the copy did not get to, or had no
// room for, is unpacked again.
class Unpacked {
 public:
  Unpacked();
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  // In the copy, before the first piece.
  void keep_for_the_process() { is_copy_ = true; }

  // The next piece: so many elements, which `read` puts where it is told unless the copy did. Valid as long as this.
  // Throws std::bad_alloc, and what `read` throws.
  template <class Element>
  [[nodiscard]] std::span<const Element> next(std::size_t count, const std::function<void(void*)>& read) {
    static_assert(std::is_trivially_copyable_v<Element>);
    return {static_cast<const Element*>(next_bytes(count * sizeof(Element), read)), count};
  }

 private:
  const void* next_bytes(std::size_t bytes, const std::function<void(void*)>& read);

  int file_ = -1;  // in memory, shared with the copy
  bool is_copy_ = false;
  std::size_t end_ = 0;                     // in the file, of the last piece
  std::vector<std::span<std::byte>> maps_;  // of pieces, and what they occupy
};

}  // namespace gpuinfer::probe::archive
