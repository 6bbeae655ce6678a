// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive/facts.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <string>
#include <utility>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "probe/archive/format.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe::archive {

namespace {

constexpr const char* own_buffers_group = "own_buffers";
constexpr const char* heeded_attribute = "heeded_circumstances";
constexpr const char* latency_path_attribute = "latency_path";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &utc)};
}

void write_buffer(const hdf5::Handle& place, const model::BufferFacts& buffer) {
  hdf5::write_attribute(place, "buffer_bytes", buffer.bytes);
  hdf5::write_attribute(place, "address_of_buffer", number_of(buffer.address));
  if (buffer.raster) {
    hdf5::write_attribute(place, "texel_bytes", buffer.raster->texel_bytes);
    hdf5::write_attribute(place, "raster_width", buffer.raster->width);
    hdf5::write_attribute(place, "raster_height", buffer.raster->height);
  }
  if (buffer.nearer_bytes) {
    hdf5::write_attribute(place, "nearer_bytes", *buffer.nearer_bytes);
  }
  if (buffer.piece_bytes) {
    hdf5::write_attribute(place, "piece_bytes", *buffer.piece_bytes);
  }
  if (buffer.one_unit) {
    hdf5::write_attribute(place, "one_sm", std::uint64_t{1});
  }
  if (buffer.averages_laps) {
    hdf5::write_attribute(place, "averages_laps", std::uint64_t{1});
  }
}

model::BufferFacts read_buffer(const hdf5::Handle& place) {
  model::BufferFacts buffer{.bytes = hdf5::read_integer_attribute(place, "buffer_bytes"),
                            .address = model::Address{hdf5::read_integer_attribute(place, "address_of_buffer")}};
  if (hdf5::has_attribute(place, "texel_bytes")) {
    buffer.raster = model::Raster{.texel_bytes = hdf5::read_integer_attribute(place, "texel_bytes"),
                                  .width = hdf5::read_integer_attribute(place, "raster_width"),
                                  .height = hdf5::read_integer_attribute(place, "raster_height")};
    hdf5::require(model::fills(*buffer.raster, buffer.bytes), "the raster of a texture is not as large as its buffer");
  }
  if (hdf5::has_attribute(place, "nearer_bytes")) {
    buffer.nearer_bytes = hdf5::read_integer_attribute(place, "nearer_bytes");
  }
  if (hdf5::has_attribute(place, "piece_bytes")) {
    buffer.piece_bytes = hdf5::read_integer_attribute(place, "piece_bytes");
    hdf5::require(*buffer.piece_bytes != 0, "the pieces of code have no bytes");
  }
  buffer.one_unit = hdf5::has_attribute(place, "one_sm") && hdf5::read_integer_attribute(place, "one_sm") != 0;
  buffer.averages_laps =
      hdf5::has_attribute(place, "averages_laps") && hdf5::read_integer_attribute(place, "averages_laps") != 0;
  return buffer;
}

bool is_of(std::string_view schema_name, const hdf5::Handle& file) {
  return hdf5::has_attribute(file, "schema") && hdf5::read_string_attribute(file, "schema") == schema_name;
}

}  // namespace

bool is_earlier(const hdf5::Handle& file) { return is_of(earlier_schema, file); }

void write_facts(const hdf5::Handle& file, const model::DeviceFacts& facts) {
  hdf5::write_attribute(file, "schema", std::string(schema));
  hdf5::write_attribute(file, "device_name", facts.name);
  hdf5::write_attribute(file, "source", facts.source);
  if (facts.compute_capability) {
    hdf5::write_attribute(file, "compute_capability", *facts.compute_capability);
  }
  if (facts.sm_count) {
    hdf5::write_attribute(file, "sm_count", std::uint64_t{*facts.sm_count});
  }
  hdf5::write_attribute(file, "targets", facts.targets);
  if (const nlohmann::json heeded = wire::heeded_by(facts); !heeded.empty()) {
    hdf5::write_attribute(file, heeded_attribute, model::json_text(heeded));
  }
  if (facts.latency_path) {
    hdf5::write_attribute(file, latency_path_attribute, model::json_text(wire::to_json(*facts.latency_path)));
  }
  write_buffer(file, facts.buffer);
  if (!facts.own_buffers.empty()) {
    const hdf5::Handle buffers = hdf5::create_group(file, own_buffers_group);
    for (const auto& [target, buffer] : facts.own_buffers) {
      write_buffer(hdf5::create_group(buffers, target), buffer);
    }
  }
  hdf5::write_attribute(file, "program_version", std::string(GPUINFER_VERSION));
  hdf5::write_attribute(file, "recorded_at", utc_now());
  const hdf5::Handle provenance = hdf5::create_group(file, "provenance");
  for (const auto& [name, value] : facts.provenance) {
    hdf5::write_attribute(provenance, name, value);
  }
}

// Archives of earlier versions have one text for all.
std::vector<model::Disturbance> read_disturbances(const hdf5::Handle& file) {
  const hdf5::Handle provenance = hdf5::open_group(file, "provenance");
  if (!hdf5::has_attribute(provenance, disturbances_attribute)) {
    return {};
  }
  std::string text = hdf5::read_string_attribute(provenance, disturbances_attribute);
  const auto list = model::parse_json(text);
  if (!list.is_array()) {
    return {{.kind = model::Disturbance::Kind::other, .sentence = std::move(text)}};
  }
  try {
    return list.get<std::vector<model::Disturbance>>();
  } catch (const nlohmann::json::exception&) {
    throw hdf5::Failure("attribute disturbances holds something else");
  }
}

model::DeviceFacts read_facts(const hdf5::Handle& file) {
  hdf5::require(is_of(schema, file) || is_of(earlier_schema, file),
                "the schema is neither gpuinfer-trace/2 nor gpuinfer-trace/1");
  model::DeviceFacts facts;
  facts.name = hdf5::read_string_attribute(file, "device_name");
  facts.source = hdf5::read_string_attribute(file, "source");
  if (hdf5::has_attribute(file, "compute_capability")) {
    facts.compute_capability = hdf5::read_string_attribute(file, "compute_capability");
  }
  if (hdf5::has_attribute(file, "sm_count")) {
    const std::uint64_t sm_count = hdf5::read_integer_attribute(file, "sm_count");
    hdf5::require(sm_count <= std::numeric_limits<unsigned>::max(), "attribute sm_count is no count");
    facts.sm_count = static_cast<unsigned>(sm_count);
  }
  facts.targets = hdf5::read_strings_attribute(file, "targets");
  if (hdf5::has_attribute(file, latency_path_attribute)) {
    constexpr const char* damage = "attribute latency_path holds something else";
    try {
      facts.latency_path =
          wire::parse_path(wire::parse_object(hdf5::read_string_attribute(file, latency_path_attribute)));
    } catch (const InputError&) {
      throw hdf5::Failure(damage);
    }
  }
  if (hdf5::has_attribute(file, heeded_attribute)) {
    constexpr const char* damage = "attribute heeded_circumstances holds something else";
    try {
      wire::read_heeded(wire::parse_object(hdf5::read_string_attribute(file, heeded_attribute)), facts);
    } catch (const InputError&) {
      throw hdf5::Failure(damage);
    }
  }
  facts.buffer = read_buffer(file);
  const std::vector<std::string> links = hdf5::link_names(file);
  if (std::find(links.begin(), links.end(), own_buffers_group) != links.end()) {
    const hdf5::Handle buffers = hdf5::open_group(file, own_buffers_group);
    for (const std::string& target : hdf5::link_names(buffers)) {
      facts.own_buffers[target] = read_buffer(hdf5::open_group(buffers, target));
    }
  }
  const hdf5::Handle provenance = hdf5::open_group(file, "provenance");
  for (const std::string& name : hdf5::attribute_names(provenance)) {
    facts.provenance[name] = name == disturbances_attribute ? text_of(read_disturbances(file))
                                                            : hdf5::read_string_attribute(provenance, name);
  }
  return facts;
}

}  // namespace gpuinfer::probe::archive
