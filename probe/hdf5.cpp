// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/hdf5.hpp"

#include <algorithm>
#include <array>

#include "probe/input_limits.hpp"

namespace gpuinfer::probe::hdf5 {

namespace {

// Strings of one fixed length, padded with zeros: unlike those of variable length they are compressed.
Handle string_type(std::size_t length) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "no memory for a string type");
  checked(H5Tset_size(type.get(), std::max<std::size_t>(length, 1)), "a string is too long");
  checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), "strings cannot be UTF-8");
  checked(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "strings cannot be padded");
  return type;
}

struct PaddedStrings {
  std::size_t length = 1;
  std::string bytes;

  explicit PaddedStrings(const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      length = std::max(length, value.size());
    }
    for (const std::string& value : values) {
      bytes.append(value).append(length - value.size(), '\0');
    }
  }
};

std::vector<std::string> split(const std::string& bytes, std::size_t length) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin < bytes.size(); begin += length) {
    const std::string padded = bytes.substr(begin, length);
    values.push_back(padded.substr(0, padded.find('\0')));
  }
  return values;
}

// Never 0, which only a damaged file has.
std::size_t element_bytes(const Handle& type, const std::string& name) {
  const std::size_t bytes = H5Tget_size(type.get());
  if (bytes == 0) {
    throw Failure(name + " has elements without bytes");
  }
  return bytes;
}

// The length of the strings of a type that was read.
std::size_t string_length(const Handle& type, const std::string& name) {
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0) {
    throw Failure(name + " does not hold strings of a fixed length");
  }
  return element_bytes(type, name);
}

Handle one_dimension(std::size_t count) {
  const hsize_t length = count;
  return {H5Screate_simple(1, &length, nullptr), H5Sclose, "no memory for a dataspace"};
}

std::size_t count_of(const Handle& space, const std::string& name) {
  if (H5Sis_simple(space.get()) <= 0 || H5Sget_simple_extent_ndims(space.get()) != 1) {
    throw Failure(name + " does not have one dimension");
  }
  return static_cast<std::size_t>(checked(H5Sget_simple_extent_npoints(space.get()), name + " has no length"));
}

void write_attribute(const Handle& at, const std::string& name, const Handle& type, const Handle& space,
                     const void* data) {
  const std::string what = "attribute " + name + " cannot be written";
  const Handle attribute(H5Acreate2(at.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, what);
  checked(H5Awrite(attribute.get(), type.get(), data), what);
}

// Whether it is one of the types that processors have: HDF5 converts from any other as its description says, and that
// may be damaged.
bool is_plain_number(const Handle& type) {
  const std::array plain{H5T_STD_U8LE,  H5T_STD_U16LE, H5T_STD_U32LE,  H5T_STD_U64LE,  H5T_STD_I8LE,   H5T_STD_I16LE,
                         H5T_STD_I32LE, H5T_STD_I64LE, H5T_STD_U16BE,  H5T_STD_U32BE,  H5T_STD_U64BE,  H5T_STD_I16BE,
                         H5T_STD_I32BE, H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_IEEE_F64BE};
  return std::ranges::any_of(plain, [&](hid_t each) { return H5Tequal(type.get(), each) > 0; });
}

// `name`, where it is the very thing in this group.
const char* own(const Handle& group, const std::string& name, const std::string& what) {
  H5L_info_t info{};
  if (name.find('/') != std::string::npos) {
    throw Failure(what + " has a path for a name");
  }
  checked(H5Lget_info(group.get(), name.c_str(), &info, H5P_DEFAULT), what + " is missing");
  if (info.type != H5L_TYPE_HARD) {
    throw Failure(what + " is a link to another place, and those are not followed");
  }
  return name.c_str();
}

// What lies elsewhere is not read, nor what was packed in ways that no archive is.
void check_storage(const Handle& dataset, const Handle& type, const std::string& name) {
  const Handle properties(H5Dget_create_plist(dataset.get()), H5Pclose, name + " cannot be read");
  if (checked(H5Pget_external_count(properties.get()), name + " cannot be read") != 0 ||
      H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    throw Failure(name + " has its data in another file, and those are not opened");
  }
  if (H5Pget_layout(properties.get()) == H5D_CHUNKED) {
    hsize_t chunk = 0;
    if (H5Pget_chunk(properties.get(), 1, &chunk) != 1) {
      throw Failure(name + " does not have one dimension");
    }
    if (chunk > most_chunk_bytes / element_bytes(type, name)) {
      throw Failure(name + " is stored in chunks of more than " + std::to_string(most_chunk_bytes) + " bytes");
    }
  }
  const int filters = checked(H5Pget_nfilters(properties.get()), name + " cannot be read");
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32) {
      throw Failure(name + " is packed by a filter other than deflate, shuffle and fletcher32");
    }
  }
}

Handle scalar() { return {H5Screate(H5S_SCALAR), H5Sclose, "no memory for a dataspace"}; }

Handle open_attribute(const Handle& at, const std::string& name) {
  return {H5Aopen(at.get(), name.c_str(), H5P_DEFAULT), H5Aclose, "attribute " + name + " is missing"};
}

std::vector<std::string> read_padded_attribute(const Handle& at, const std::string& name, std::size_t& rank) {
  const Handle attribute = open_attribute(at, name);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose, "attribute " + name + " has no type");
  const Handle space(H5Aget_space(attribute.get()), H5Sclose, "attribute " + name + " has no extent");
  rank = static_cast<std::size_t>(checked(H5Sget_simple_extent_ndims(space.get()), "attribute " + name + " is odd"));
  const auto count = static_cast<std::size_t>(
      checked(H5Sget_simple_extent_npoints(space.get()), "attribute " + name + " has no length"));
  const std::size_t length = string_length(type, "attribute " + name);
  constexpr std::size_t most_bytes = 1U << 24U;
  if (count > most_bytes / length) {
    throw Failure("attribute " + name + " is longer than any that is written");
  }
  std::string bytes(count * length, '\0');
  const Handle memory_type = string_type(length);
  checked(H5Aread(attribute.get(), memory_type.get(), bytes.data()), "attribute " + name + " cannot be read");
  return split(bytes, length);
}

}  // namespace

Handle create_group(const Handle& parent, const std::string& name) {
  return {H5Gcreate2(parent.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
          "group " + name + " cannot be written"};
}

Handle open_group(const Handle& parent, const std::string& name) {
  const std::string what = "group " + name;
  return {H5Gopen2(parent.get(), own(parent, name, what), H5P_DEFAULT), H5Gclose, what + " is missing"};
}

std::vector<std::string> link_names(const Handle& group) {
  std::vector<std::string> names;
  const auto add = [](hid_t /*group*/, const char* name, const H5L_info_t* /*info*/, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  // To look up one name after another by its place would begin at the first one each time.
  checked(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "a group cannot be listed");
  return names;
}

bool has_link(const Handle& group, const std::string& name) {
  return checked(H5Lexists(group.get(), name.c_str(), H5P_DEFAULT), "a group cannot be listed") > 0;
}

void write_attribute(const Handle& at, const std::string& name, const std::string& value) {
  write_attribute(at, name, string_type(value.size()), scalar(), PaddedStrings({value}).bytes.data());
}

void write_attribute(const Handle& at, const std::string& name, std::uint64_t value) {
  const Handle type(H5Tcopy(H5T_NATIVE_UINT64), H5Tclose, "no memory for a type");
  write_attribute(at, name, type, scalar(), &value);
}

void write_attribute(const Handle& at, const std::string& name, const std::vector<std::string>& values) {
  const PaddedStrings padded(values);
  write_attribute(at, name, string_type(padded.length), one_dimension(values.size()), padded.bytes.data());
}

std::vector<std::string> attribute_names(const Handle& at) {
  const int count = checked(H5Aget_num_attrs(at.get()), "attributes cannot be listed");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < static_cast<hsize_t>(count); ++i) {
    const auto name_by = [&](char* name, std::size_t size) {
      return checked(H5Aget_name_by_idx(at.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name, size, H5P_DEFAULT),
                     "attributes cannot be listed");
    };
    std::string name(static_cast<std::size_t>(name_by(nullptr, 0)), '\0');
    name_by(name.data(), name.size() + 1);
    names.push_back(std::move(name));
  }
  return names;
}

bool has_attribute(const Handle& at, const std::string& name) {
  return checked(H5Aexists(at.get(), name.c_str()), "attributes cannot be listed") > 0;
}

std::string read_string_attribute(const Handle& at, const std::string& name) {
  std::size_t rank = 0;
  const std::vector<std::string> values = read_padded_attribute(at, name, rank);
  if (rank != 0 || values.size() != 1) {
    throw Failure("attribute " + name + " is not one string");
  }
  return values.front();
}

std::vector<std::string> read_strings_attribute(const Handle& at, const std::string& name) {
  std::size_t rank = 0;
  std::vector<std::string> values = read_padded_attribute(at, name, rank);
  if (rank != 1) {
    throw Failure("attribute " + name + " is not a list of strings");
  }
  return values;
}

std::uint64_t read_integer_attribute(const Handle& at, const std::string& name) {
  const Handle attribute = open_attribute(at, name);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose, "attribute " + name + " has no type");
  const Handle space(H5Aget_space(attribute.get()), H5Sclose, "attribute " + name + " has no extent");
  if (!is_plain_number(type) || H5Tget_class(type.get()) != H5T_INTEGER ||
      H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw Failure("attribute " + name + " is not one whole number");
  }
  std::uint64_t value = 0;
  checked(H5Aread(attribute.get(), H5T_NATIVE_UINT64, &value), "attribute " + name + " cannot be read");
  return value;
}

void write_dataset(const Handle& group, const std::string& name, hid_t memory_type, hid_t file_type, const void* data,
                   std::size_t count) {
  const std::string what = "dataset " + name + " cannot be written";
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  checked(H5Pset_obj_track_times(properties.get(), false), what);
  if (count > 0) {
    constexpr std::size_t largest_chunk = 1U << 17U;
    constexpr unsigned deflate_level = 7;
    constexpr std::size_t largest_chunk_bytes = 1U << 24U;
    const hsize_t chunk =
        std::clamp<std::size_t>(largest_chunk_bytes / H5Tget_size(file_type), 1, std::min(count, largest_chunk));
    checked(H5Pset_chunk(properties.get(), 1, &chunk), what);
    checked(H5Pset_shuffle(properties.get()), what);
    checked(H5Pset_deflate(properties.get(), deflate_level), what);
    // HDF5 does not check what comes out of a damaged chunk, so damage has to be seen before.
    checked(H5Pset_fletcher32(properties.get()), what);
  }
  const Handle space = one_dimension(count);
  const Handle dataset(
      H5Dcreate2(group.get(), name.c_str(), file_type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
      H5Dclose, what);
  checked(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), what);
}

void write_strings(const Handle& group, const std::string& name, const std::vector<std::string>& values) {
  const PaddedStrings padded(values);
  const Handle type = string_type(padded.length);
  write_dataset(group, name, type.get(), type.get(), padded.bytes.data(), values.size());
}

Dataset::Dataset(const Handle& group, const std::string& name)
    : name_("dataset " + name),
      dataset_(H5Dopen2(group.get(), own(group, name, name_), H5P_DEFAULT), H5Dclose, name_ + " is missing"),
      type_(H5Dget_type(dataset_.get()), H5Tclose, name_ + " has no type") {
  check_storage(dataset_, type_, name_);
  const Handle space(H5Dget_space(dataset_.get()), H5Sclose, name_ + " has no extent");
  count_ = count_of(space, name_);
  // Deflate cannot shrink anything further than this.
  constexpr std::uint64_t largest_ratio = 1100;
  if (count_ > H5Dget_storage_size(dataset_.get()) * largest_ratio / element_bytes(type_, name_)) {
    throw Failure(name_ + " is longer than what is stored of it");
  }
  // In memory numbers may be wider.
  if (count_ > most_dataset_bytes / std::max(H5Tget_size(type_.get()), sizeof(std::uint64_t))) {
    throw Failure(name_ + " has " + std::to_string(count_) + " elements, more than " +
                  std::to_string(most_dataset_bytes) + " bytes hold");
  }
}

void Dataset::require_numbers() const {
  if (!is_plain_number(type_)) {
    throw Failure(name_ + " does not hold numbers");
  }
}

void Dataset::read(hid_t memory_type, void* data) const {
  checked(H5Dread(dataset_.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
          name_ + " is damaged or of another type");
}

std::size_t Dataset::text_bytes() const {
  const std::size_t length = string_length(type_, name_);
  if (count_ > most_traces) {
    throw Failure(name_ + " has more than " + std::to_string(most_traces) + " texts");
  }
  return length;
}

void Dataset::read_texts(void* data) const { read(string_type(text_bytes()).get(), data); }

std::vector<std::string> read_strings(const Handle& group, const std::string& name) {
  const Dataset dataset(group, name);
  std::string bytes(dataset.count() * dataset.text_bytes(), '\0');
  dataset.read_texts(bytes.data());
  return split(bytes, dataset.text_bytes());
}

}  // namespace gpuinfer::probe::hdf5
