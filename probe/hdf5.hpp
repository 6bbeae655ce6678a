// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// The part of the HDF5 C API that a trace archive needs, with owners for its identifiers. Everything throws Failure.
namespace gpuinfer::probe::hdf5 {

// What HDF5 could not do, as the clause that follows "FILE: ".
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// HDF5 prints its error stack by default; while one of these lives it does not. Comes before any other use of HDF5:
// what a damaged file leaves behind in the library would make it complain when the program ends, too, so that it closes
// nothing then. Everything has been closed by its owner.
class Silence {
 public:
  Silence() {
    // HDF5 would look for filters that a file names, and load them as libraries.
    static const std::array once{H5dont_atexit(), H5PLset_loading_state(0)};
    static_cast<void>(once);
    H5Eget_auto2(H5E_DEFAULT, &print_, &stream_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Silence() { H5Eset_auto2(H5E_DEFAULT, print_, stream_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* stream_ = nullptr;
};

// Passes on what an HDF5 call returned unless that means failure; `what` is a clause for the message.
template <class Result>
Result checked(Result result, const std::string& what) {
  if (result < 0) {
    throw Failure(what);
  }
  return result;
}

inline void require(bool holds, const char* what) {
  if (!holds) {
    throw Failure(what);
  }
}

// Owns an identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close close, const std::string& what) : id_(checked(id, what)), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) {
      close_(id_);
    }
  }

  [[nodiscard]] hid_t get() const { return id_; }

  // For closing that may fail: a file is written to its end then.
  void finish(const std::string& what) { checked(close_(std::exchange(id_, H5I_INVALID_HID)), what); }

 private:
  hid_t id_;
  Close close_;
};

[[nodiscard]] Handle create_group(const Handle& parent, const std::string& name);
// Throws Failure also where `name` is a link to another place or another file, or a path.
[[nodiscard]] Handle open_group(const Handle& parent, const std::string& name);
[[nodiscard]] std::vector<std::string> link_names(const Handle& group);
[[nodiscard]] bool has_link(const Handle& group, const std::string& name);

void write_attribute(const Handle& at, const std::string& name, const std::string& value);
void write_attribute(const Handle& at, const std::string& name, std::uint64_t value);
void write_attribute(const Handle& at, const std::string& name, const std::vector<std::string>& values);
[[nodiscard]] std::vector<std::string> attribute_names(const Handle& at);
[[nodiscard]] bool has_attribute(const Handle& at, const std::string& name);
[[nodiscard]] std::string read_string_attribute(const Handle& at, const std::string& name);
[[nodiscard]] std::uint64_t read_integer_attribute(const Handle& at, const std::string& name);
[[nodiscard]] std::vector<std::string> read_strings_attribute(const Handle& at, const std::string& name);

// One-dimensional datasets, compressed and with checksums. Elements are converted between the type in memory and the
// one in the file.
void write_dataset(const Handle& group, const std::string& name, hid_t memory_type, hid_t file_type, const void* data,
                   std::size_t count);
void write_strings(const Handle& group, const std::string& name, const std::vector<std::string>& values);

// Room for as many elements as a dataset holds is only made after its length was found believable. Throws Failure also
// for what archives do not have and a damaged or a hostile file could use: data in other files, filters other than
// those of write_dataset(), chunks and datasets above input_limits.hpp, links.
class Dataset {
 public:
  Dataset(const Handle& group, const std::string& name);

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const Handle& type() const { return type_; }
  // Whether elements are stored as this type is.
  [[nodiscard]] bool stores(hid_t type) const { return H5Tequal(type_.get(), type) > 0; }
  // The length of its strings. Throws Failure where it holds none, or too many.
  [[nodiscard]] std::size_t text_bytes() const;
  // Throws Failure unless elements are numbers as processors have them, whose conversion cannot go wrong.
  void require_numbers() const;
  void read(hid_t memory_type, void* data) const;
  // Strings of text_bytes() each, padded with zeros.
  void read_texts(void* data) const;

 private:
  std::string name_;
  Handle dataset_;
  Handle type_;
  std::size_t count_ = 0;
};

template <class Element>
[[nodiscard]] std::vector<Element> read_dataset(const Handle& group, const std::string& name, hid_t memory_type) {
  const Dataset dataset(group, name);
  dataset.require_numbers();
  std::vector<Element> elements(dataset.count());
  dataset.read(memory_type, elements.data());
  return elements;
}

[[nodiscard]] std::vector<std::string> read_strings(const Handle& group, const std::string& name);

}  // namespace gpuinfer::probe::hdf5
