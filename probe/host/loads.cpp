// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host/loads.hpp"

#include <sys/mman.h>
#include <x86intrin.h>

#include <bit>
#include <cstring>
#include <initializer_list>

#include "model/errors.hpp"

namespace gpuinfer::probe::host {

namespace {

constexpr std::uint32_t page_bytes = 4096;

// Arguments of a function as System V passes them: rdi the buffer, rsi the stamps, rdx the delay. r8 holds what the
// last load brought, which is zero.
class Code {
 public:
  // Through the pages in the order of a generator of full period, 5 x + 7: a stride would make a prefetcher go on, and
  // fill the set behind.
  void load_pages(std::uint32_t offset, std::uint32_t pages) {
    constexpr std::uint32_t laps = 2;
    put_first_page(laps * pages);
    put_any_page(pages);
    put({0x8b, 0x84, 0x0f});  // mov eax, [rdi + rcx + offset]
    put(offset);
    put_next_page(0xe7);
  }

  void flush_pages(std::uint32_t offset, std::uint32_t pages) {
    put_first_page(pages);
    put_any_page(pages);
    put({0x0f, 0xae, 0xbc, 0x0f});  // clflush [rdi + rcx + offset]
    put(offset);
    put_next_page(0xe6);
  }

  void finish() { put({0x0f, 0xae, 0xf0}); }  // mfence

  void wait() {
    put({0x45, 0x31, 0xc0});              // xor r8d, r8d
    put({0x48, 0x89, 0xd1});              // mov rcx, rdx
    put({0x48, 0xff, 0xc9, 0x79, 0xfb});  // dec rcx; jns back to it
    put({0x0f, 0xae, 0xe8});              // lfence
  }

  void load(std::uint32_t offset) {
    put({0x46, 0x8b, 0x84, 0x07});  // mov r8d, [rdi + r8 + offset]
    put(offset);
  }

  void stamp(std::size_t number) {
    put({0x0f, 0xae, 0xe8});  // lfence
    put({0x0f, 0x31});        // rdtsc
    put({0x0f, 0xc3, 0x86});  // movnti [rsi + 4 * number], eax
    put(static_cast<std::uint32_t>(sizeof(std::uint32_t) * number));
    put({0x0f, 0xae, 0xe8});  // lfence
  }

  // What nothing takes differs by where its instructions lie in lines.
  void align() {
    constexpr std::size_t line_bytes = 64;
    while (bytes_.size() % line_bytes != 0) {
      put({0x90});  // nop
    }
  }

  void end() {
    put({0x0f, 0xae, 0xf8});  // sfence
    put({0xc3});              // ret
  }

  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  void put_first_page(std::uint32_t times) {
    put({0x31, 0xc9});  // xor ecx, ecx
    put({0x41, 0xb9});  // mov r9d, times
    put(times);
  }
  void put_any_page(std::uint32_t pages) {
    put({0x8d, 0x8c, 0x89});  // lea ecx, [rcx + 4 * rcx + 7 * page_bytes]
    put(7 * page_bytes);
    put({0x81, 0xe1});  // and ecx, (pages - 1) * page_bytes
    put((pages - 1) * page_bytes);
  }
  void put_next_page(std::uint8_t back) {
    put({0x41, 0xff, 0xc9});  // dec r9d
    put({0x75, back});        // jnz
  }
  void put(std::initializer_list<std::uint8_t> bytes) { bytes_.insert(bytes_.end(), bytes); }
  void put(std::uint32_t number) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes_.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  }

  std::vector<std::uint8_t> bytes_;
};

}  // namespace

std::size_t Loads::code_bytes(const Play& play) {
  constexpr std::size_t emptying_bytes = 66;
  constexpr std::size_t load_bytes = 8;
  return emptying_bytes * play.emptied.size() + load_bytes * play.warm.size();
}

Loads::Loads(const Play& play) {
  Code code;
  // All flushes after all loads, so that what a prefetcher brings for the sake of these loads goes as well.
  for (const std::uint32_t offset : play.emptied) {
    code.load_pages(offset, play.emptying_pages);
  }
  code.finish();
  for (const std::uint32_t offset : play.emptied) {
    code.flush_pages(offset, play.emptying_pages);
  }
  code.finish();
  code.wait();
  for (const std::uint32_t offset : play.warm) {
    code.load(offset);
  }
  std::size_t stamps = 0;
  const auto measure_nothing = [&] {
    code.align();
    for (std::size_t i = 0; i < empty_measurements; ++i) {
      code.stamp(stamps++);
    }
  };
  measure_nothing();
  code.stamp(stamps++);
  for (const std::uint32_t offset : play.record) {
    code.load(offset);
    code.stamp(stamps++);
  }
  measure_nothing();
  code.end();

  mapped_bytes_ = code.bytes().size();
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_ == MAP_FAILED) {
    throw DeviceUnavailable("host: no memory is left for the code of a question; free some memory");
  }
  std::memcpy(mapped_, code.bytes().data(), mapped_bytes_);
  if (mprotect(mapped_, mapped_bytes_, PROT_READ | PROT_EXEC) != 0) {
    munmap(mapped_, mapped_bytes_);
    throw DeviceUnavailable(
        "host: this system does not let programs run code that they wrote; allow that, or ask "
        "another device");
  }
  run_ = std::bit_cast<Run>(mapped_);
}

Loads::~Loads() { munmap(mapped_, mapped_bytes_); }

std::uint64_t time_stamp() { return __rdtsc(); }

}  // namespace gpuinfer::probe::host
