// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "model/errors.hpp"
#include "model/printable.hpp"
#include "model/sha256.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/first_try.hpp"
#include "probe/hdf5.hpp"
#include "probe/input_limits.hpp"
#include "probe/keep/answer_log.hpp"
#include "probe/latency.hpp"
#include "probe/output_file.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace {

constexpr std::string_view schema = "gpuinfer-trace/2";
// Its rows of `question` have columns of their own (EarlierRow), and no sequence stands for several questions.
constexpr std::string_view earlier_schema = "gpuinfer-trace/1";
constexpr std::string_view launch_prefix = "launch_";
constexpr std::string_view timings_prefix = "timings_";
constexpr std::string_view places_prefix = "places_";
constexpr const char* own_buffers_group = "own_buffers";
constexpr const char* heeded_attribute = "heeded_circumstances";
constexpr const char* latency_path_attribute = "latency_path";
constexpr const char* disturbances_attribute = "disturbances";
constexpr const char* no_circumstances = "{}";

// Accesses of an archive, counted from its first group on.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

// A row of the dataset `question`.
struct QuestionRow {
  std::uint64_t launch = 0;
  Range warm;
  Range record;
  std::uint64_t latency_begin = 0;
};

// The same, of archives of the earlier schema. What is recorded follows the warm-up, and accesses count from the first
// one of the group.
struct EarlierRow {
  std::uint64_t launch = 0;
  std::uint64_t warm_begin = 0;
  std::uint64_t record_begin = 0;
  std::uint64_t record_end = 0;
  std::uint64_t latency_begin = 0;
};

// A row of whole numbers, all of 64 bits.
hdf5::Handle row_type(std::initializer_list<const char*> columns) {
  hdf5::Handle type(H5Tcreate(H5T_COMPOUND, columns.size() * sizeof(std::uint64_t)), H5Tclose, "no memory for a type");
  std::size_t position = 0;
  for (const char* column : columns) {
    hdf5::checked(H5Tinsert(type.get(), column, position, H5T_NATIVE_UINT64), "no memory for a type");
    position += sizeof(std::uint64_t);
  }
  return type;
}

hdf5::Handle question_type() {
  static_assert(sizeof(QuestionRow) == 6 * sizeof(std::uint64_t));
  return row_type({"launch", "warm_begin", "warm_end", "record_begin", "record_end", "latency_begin"});
}

hdf5::Handle earlier_question_type() {
  static_assert(sizeof(EarlierRow) == 5 * sizeof(std::uint64_t));
  return row_type({"launch", "warm_begin", "record_begin", "record_end", "latency_begin"});
}

// Of sequences that are equal the first is written, and stands for the others.
class WrittenSequences {
 public:
  // Where the archive has this one; where it has not, the sequence is appended to `offsets`, those of the last group.
  Range place(const model::AccessSequence& sequence, std::vector<std::uint64_t>& offsets) {
    const Range next{.begin = accesses_, .end = accesses_ + sequence.size()};
    const auto [place, is_new] = places_.try_emplace(model::sha256(std::as_bytes(std::span(sequence))), next);
    if (is_new) {
      offsets.insert(offsets.end(), sequence.begin(), sequence.end());
      accesses_ = next.end;
    }
    return place->second;
  }

 private:
  std::map<std::array<std::uint8_t, 32>, Range> places_;  // by digest
  std::uint64_t accesses_ = 0;
};

// The datasets of one group.
struct LaunchGroup {
  std::vector<QuestionRow> questions;
  std::vector<std::string> targets;
  std::vector<std::string> states;
  std::vector<std::uint64_t> offsets;
  std::vector<float> latency_cycles;
  std::vector<std::uint64_t> refused;
  std::vector<std::string> refusals;
  std::vector<std::string> circumstances;  // as JSON

  void append(std::uint64_t launch, const model::Question& question, const model::Answer& answer,
              WrittenSequences& sequences) {
    if (answer.refusal) {
      refused.push_back(questions.size());
      refusals.push_back(*answer.refusal);
    }
    const Range warm = sequences.place(question.warm, offsets);
    const Range record = sequences.place(question.record, offsets);
    questions.push_back({.launch = launch, .warm = warm, .record = record, .latency_begin = latency_cycles.size()});
    targets.push_back(question.target);
    states.emplace_back(to_string(question.state));
    circumstances.push_back(wire::to_json(question.circumstances).dump());
    latency_cycles.insert(latency_cycles.end(), answer.latency_cycles.begin(), answer.latency_cycles.end());
  }
};

// In the order in which they stand in the dataset `counted`.
constexpr std::array counts{&model::CacheTraffic::l1_sectors, &model::CacheTraffic::l2_load_bytes,
                            &model::CacheTraffic::l2_store_bytes, &model::CacheTraffic::dram_load_bytes,
                            &model::CacheTraffic::dram_store_bytes};

// The datasets of one group.
struct TimingsGroup {
  std::vector<std::string> workloads;  // as JSON
  std::vector<std::uint64_t> run_begins;
  std::vector<double> cycles;
  std::vector<double> seconds;
  std::vector<std::uint64_t> refused;
  std::vector<std::string> refusals;
  std::vector<std::uint64_t> counted_workloads;
  std::vector<std::uint64_t> counted;
  std::vector<std::string> not_counted;

  void append(const model::Workload& workload, const model::Timing& timing) {
    if (timing.refusal) {
      refused.push_back(workloads.size());
      refusals.push_back(*timing.refusal);
    }
    if (timing.counted) {
      counted_workloads.push_back(workloads.size());
      for (const auto count : counts) {
        counted.push_back((*timing.counted).*count);
      }
    }
    workloads.push_back(wire::to_json(workload).dump());
    not_counted.push_back(timing.why_not_counted);
    run_begins.push_back(cycles.size());
    cycles.insert(cycles.end(), timing.cycles.begin(), timing.cycles.end());
    seconds.insert(seconds.end(), timing.seconds.begin(), timing.seconds.end());
    seconds.resize(cycles.size());
  }
};

// Numbers go to the file in the narrowest type that holds them all; readers convert.
hid_t offset_type_for(const std::vector<std::uint64_t>& offsets) {
  const bool narrow = std::all_of(offsets.begin(), offsets.end(),
                                  [](auto offset) { return offset <= std::numeric_limits<std::uint32_t>::max(); });
  return narrow ? H5T_STD_U32LE : H5T_STD_U64LE;
}

hid_t latency_type_for(const std::vector<float>& latency_cycles) {
  const bool narrow = std::all_of(latency_cycles.begin(), latency_cycles.end(), [](float cycles) {
    return cycles == std::floor(cycles) && cycles <= std::numeric_limits<std::uint16_t>::max();
  });
  return narrow ? H5T_STD_U16LE : H5T_IEEE_F32LE;
}

template <class Element>
void write_dataset(const hdf5::Handle& group, const std::string& name, hid_t memory_type, hid_t file_type,
                   const std::vector<Element>& elements) {
  hdf5::write_dataset(group, name, memory_type, file_type, elements.data(), elements.size());
}

hdf5::Handle create_numbered_group(const hdf5::Handle& file, std::string_view prefix, std::uint64_t launch) {
  const std::string number = std::to_string(launch);
  constexpr std::size_t digits = 6;
  const std::string padding(digits - std::min(digits, number.size()), '0');
  return hdf5::create_group(file, std::string(prefix) + padding + number);
}

void write(const hdf5::Handle& file, const LaunchGroup& launches) {
  const hdf5::Handle group = create_numbered_group(file, launch_prefix, launches.questions.front().launch);
  const hdf5::Handle row = question_type();
  write_dataset(group, "question", row.get(), row.get(), launches.questions);
  hdf5::write_strings(group, "target", launches.targets);
  hdf5::write_strings(group, "state", launches.states);
  write_dataset(group, "offset", H5T_NATIVE_UINT64, offset_type_for(launches.offsets), launches.offsets);
  write_dataset(group, "latency_cycles", H5T_NATIVE_FLOAT, latency_type_for(launches.latency_cycles),
                launches.latency_cycles);
  if (std::ranges::any_of(launches.circumstances, [](const std::string& text) { return text != no_circumstances; })) {
    hdf5::write_strings(group, "circumstances", launches.circumstances);
  }
  if (!launches.refused.empty()) {
    write_dataset(group, "refused", H5T_NATIVE_UINT64, H5T_STD_U32LE, launches.refused);
    hdf5::write_strings(group, "refusal", launches.refusals);
  }
}

void write(const hdf5::Handle& file, const TimingsGroup& timings, std::uint64_t launch) {
  const hdf5::Handle group = create_numbered_group(file, timings_prefix, launch);
  hdf5::write_strings(group, "workload", timings.workloads);
  write_dataset(group, "run_begin", H5T_NATIVE_UINT64, H5T_STD_U32LE, timings.run_begins);
  write_dataset(group, "cycles", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, timings.cycles);
  write_dataset(group, "seconds", H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, timings.seconds);
  if (!timings.refused.empty()) {
    write_dataset(group, "refused", H5T_NATIVE_UINT64, H5T_STD_U32LE, timings.refused);
    hdf5::write_strings(group, "refusal", timings.refusals);
  }
  if (!timings.counted.empty()) {
    write_dataset(group, "counted_workload", H5T_NATIVE_UINT64, H5T_STD_U32LE, timings.counted_workloads);
    write_dataset(group, "counted", H5T_NATIVE_UINT64, H5T_STD_U64LE, timings.counted);
  }
  if (std::ranges::any_of(timings.not_counted, [](const std::string& reason) { return !reason.empty(); })) {
    hdf5::write_strings(group, "not_counted", timings.not_counted);
  }
}

void require(bool holds, const char* what) {
  if (!holds) {
    throw hdf5::Failure(what);
  }
}

// An exchange whose sequences stand in the accesses of the archive.
struct Exchange {
  std::string name;
  std::string target;
  model::StartState state = model::StartState::clean;
  Range warm;
  Range record;
  model::Circumstances circumstances;
  model::Answer answer;
};

// What was asked, of all targets or of one.
struct Launches {
  std::vector<Exchange> exchanges;
  std::uint64_t accesses = 0;  // of all of them together
  // Of the groups in which sequences of these stand, by the first access of the group.
  std::map<std::uint64_t, std::vector<std::uint64_t>> offsets;

  [[nodiscard]] std::span<const std::uint64_t> sequence(Range range) const {
    if (range.size() == 0) {
      return {};
    }
    const auto& [first, of_group] = *std::prev(offsets.upper_bound(range.begin));
    return std::span(of_group).subspan(range.begin - first, range.size());
  }

  [[nodiscard]] model::Question question_of(const Exchange& exchange) const {
    const std::span<const std::uint64_t> warm = sequence(exchange.warm);
    const std::span<const std::uint64_t> record = sequence(exchange.record);
    return {.target = exchange.target,
            .state = exchange.state,
            .warm = {warm.begin(), warm.end()},
            .record = {record.begin(), record.end()},
            .circumstances = exchange.circumstances};
  }
};

// The dataset `question`, as a vector of what its rows are in memory.
template <class Row>
std::vector<Row> read_rows(const hdf5::Handle& group, const hdf5::Handle& row) {
  const hdf5::Dataset dataset(group, "question");
  // HDF5 would convert from any other table, but trusts what a damaged one says of its columns.
  require(H5Tequal(dataset.type().get(), row.get()) > 0, "dataset question is not the table it should be");
  std::vector<Row> rows(dataset.count());
  dataset.read(row.get(), rows.data());
  return rows;
}

// `first_access`: of the group, among those of the archive.
std::vector<QuestionRow> read_questions(const hdf5::Handle& group, bool is_earlier, std::uint64_t first_access) {
  if (!is_earlier) {
    return read_rows<QuestionRow>(group, question_type());
  }
  std::vector<QuestionRow> questions;
  for (const EarlierRow& row : read_rows<EarlierRow>(group, earlier_question_type())) {
    const std::uint64_t between = first_access + row.record_begin;
    questions.push_back({.launch = row.launch,
                         .warm = {.begin = first_access + row.warm_begin, .end = between},
                         .record = {.begin = between, .end = first_access + row.record_end},
                         .latency_begin = row.latency_begin});
  }
  return questions;
}

template <class Element>
std::vector<Element> slice(const std::vector<Element>& elements, std::uint64_t begin, std::uint64_t end) {
  return {elements.begin() + static_cast<std::ptrdiff_t>(begin), elements.begin() + static_cast<std::ptrdiff_t>(end)};
}

model::Circumstances parse_circumstances(const std::string& text) {
  constexpr const char* damage = "dataset circumstances holds something else";
  try {
    return wire::parse_circumstances(wire::parse_object(text));
  } catch (const InputError&) {
    throw hdf5::Failure(damage);
  }
}

model::Workload parse_workload(const std::string& text) {
  constexpr const char* damage = "dataset workload holds something else";
  try {
    return wire::parse_workload(wire::parse_object(text));
  } catch (const InputError&) {
    throw hdf5::Failure(damage);
  }
}

// Takes a group that somebody may have tampered with apart.
void read_timings(const hdf5::Handle& file, const std::string& name, std::vector<TimedWorkload>& timed) {
  const hdf5::Handle group = hdf5::open_group(file, name);
  TimingsGroup timings{.workloads = hdf5::read_strings(group, "workload"),
                       .run_begins = hdf5::read_dataset<std::uint64_t>(group, "run_begin", H5T_NATIVE_UINT64),
                       .cycles = hdf5::read_dataset<double>(group, "cycles", H5T_NATIVE_DOUBLE),
                       .seconds = hdf5::read_dataset<double>(group, "seconds", H5T_NATIVE_DOUBLE),
                       .refused = {},
                       .refusals = {},
                       .counted_workloads = {},
                       .counted = {},
                       .not_counted = {}};
  timings.not_counted = hdf5::has_link(group, "not_counted") ? hdf5::read_strings(group, "not_counted")
                                                             : std::vector<std::string>(timings.workloads.size());
  if (hdf5::has_link(group, "counted")) {
    timings.counted_workloads = hdf5::read_dataset<std::uint64_t>(group, "counted_workload", H5T_NATIVE_UINT64);
    timings.counted = hdf5::read_dataset<std::uint64_t>(group, "counted", H5T_NATIVE_UINT64);
  }
  if (hdf5::has_link(group, "refused")) {
    timings.refused = hdf5::read_dataset<std::uint64_t>(group, "refused", H5T_NATIVE_UINT64);
    timings.refusals = hdf5::read_strings(group, "refusal");
  }
  require(timings.run_begins.size() == timings.workloads.size() && timings.seconds.size() == timings.cycles.size() &&
              timings.refused.size() == timings.refusals.size() &&
              timings.not_counted.size() == timings.workloads.size() &&
              timings.counted.size() == timings.counted_workloads.size() * counts.size(),
          "datasets that belong together differ in length");
  require(std::ranges::all_of(timings.cycles, is_latency) && std::ranges::all_of(timings.seconds, is_latency),
          "dataset cycles or seconds holds a negative or infinite time");
  std::size_t refusal = 0;
  std::size_t counted = 0;
  std::uint64_t run = 0;
  for (std::size_t i = 0; i < timings.workloads.size(); ++i) {
    TimedWorkload each{.workload = parse_workload(timings.workloads[i]), .timing = {}};
    each.timing.why_not_counted = timings.not_counted[i];
    require(timings.run_begins[i] == run, "dataset run_begin does not fit the runs");
    if (refusal < timings.refused.size() && timings.refused[refusal] == i) {
      each.timing.refusal = timings.refusals[refusal++];
    } else {
      const std::uint64_t end = run + std::visit([](const auto& any) { return any.runs; }, each.workload);
      require(end <= timings.cycles.size(), "dataset cycles is too short");
      each.timing.cycles = slice(timings.cycles, run, end);
      if (has_seconds(each.workload)) {
        each.timing.seconds = slice(timings.seconds, run, end);
      }
      run = end;
    }
    if (counted < timings.counted_workloads.size() && timings.counted_workloads[counted] == i) {
      each.timing.counted.emplace();
      for (std::size_t k = 0; k < counts.size(); ++k) {
        (*each.timing.counted).*counts[k] = timings.counted[counted * counts.size() + k];
      }
      ++counted;
    }
    timed.push_back(std::move(each));
  }
  require(
      run == timings.cycles.size() && refusal == timings.refused.size() && counted == timings.counted_workloads.size(),
      "dataset workload does not cover what the other datasets hold");
}

void read_places(const hdf5::Handle& file, const std::string& name, PlacesByTarget& places) {
  const hdf5::Handle group = hdf5::open_group(file, name);
  const auto offsets = hdf5::read_dataset<std::uint64_t>(group, "offset", H5T_NATIVE_UINT64);
  const auto of_offsets = hdf5::read_dataset<std::uint64_t>(group, "place", H5T_NATIVE_UINT64);
  require(offsets.size() == of_offsets.size(), "datasets that belong together differ in length");
  require(offsets.size() <= most_places, "dataset place holds more places than are read");
  auto& of_target = places[hdf5::read_string_attribute(group, "target")];
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    of_target.emplace(offsets[i], of_offsets[i]);
  }
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &utc)};
}

void write(const hdf5::Handle& place, const model::BufferFacts& buffer) {
  hdf5::write_attribute(place, "buffer_bytes", buffer.bytes);
  hdf5::write_attribute(place, "address_of_buffer", buffer.address);
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
  if (buffer.averages_laps) {
    hdf5::write_attribute(place, "averages_laps", std::uint64_t{1});
  }
}

model::BufferFacts read_buffer(const hdf5::Handle& place) {
  model::BufferFacts buffer{.bytes = hdf5::read_integer_attribute(place, "buffer_bytes"),
                            .address = hdf5::read_integer_attribute(place, "address_of_buffer")};
  if (hdf5::has_attribute(place, "texel_bytes")) {
    buffer.raster = model::Raster{.texel_bytes = hdf5::read_integer_attribute(place, "texel_bytes"),
                                  .width = hdf5::read_integer_attribute(place, "raster_width"),
                                  .height = hdf5::read_integer_attribute(place, "raster_height")};
    require(model::fills(*buffer.raster, buffer.bytes), "the raster of a texture is not as large as its buffer");
  }
  if (hdf5::has_attribute(place, "nearer_bytes")) {
    buffer.nearer_bytes = hdf5::read_integer_attribute(place, "nearer_bytes");
  }
  if (hdf5::has_attribute(place, "piece_bytes")) {
    buffer.piece_bytes = hdf5::read_integer_attribute(place, "piece_bytes");
    require(*buffer.piece_bytes != 0, "the pieces of code have no bytes");
  }
  buffer.averages_laps =
      hdf5::has_attribute(place, "averages_laps") && hdf5::read_integer_attribute(place, "averages_laps") != 0;
  return buffer;
}

void write(const hdf5::Handle& file, const model::DeviceFacts& facts) {
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
    hdf5::write_attribute(file, heeded_attribute, heeded.dump());
  }
  if (facts.latency_path) {
    hdf5::write_attribute(file, latency_path_attribute, wire::to_json(*facts.latency_path).dump());
  }
  write(file, facts.buffer);
  if (!facts.own_buffers.empty()) {
    const hdf5::Handle buffers = hdf5::create_group(file, own_buffers_group);
    for (const auto& [target, buffer] : facts.own_buffers) {
      write(hdf5::create_group(buffers, target), buffer);
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
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) {
    return {{.kind = model::Disturbance::Kind::other, .sentence = std::move(text)}};
  }
  try {
    return list.get<std::vector<model::Disturbance>>();
  } catch (const nlohmann::json::exception&) {
    throw hdf5::Failure("attribute disturbances holds something else");
  }
}

bool is_of(std::string_view schema_name, const hdf5::Handle& file) {
  return hdf5::has_attribute(file, "schema") && hdf5::read_string_attribute(file, "schema") == schema_name;
}

model::DeviceFacts read_facts(const hdf5::Handle& file) {
  require(is_of(schema, file) || is_of(earlier_schema, file),
          "the schema is neither gpuinfer-trace/2 nor gpuinfer-trace/1");
  model::DeviceFacts facts;
  facts.name = hdf5::read_string_attribute(file, "device_name");
  facts.source = hdf5::read_string_attribute(file, "source");
  if (hdf5::has_attribute(file, "compute_capability")) {
    facts.compute_capability = hdf5::read_string_attribute(file, "compute_capability");
  }
  if (hdf5::has_attribute(file, "sm_count")) {
    const std::uint64_t sm_count = hdf5::read_integer_attribute(file, "sm_count");
    require(sm_count <= std::numeric_limits<unsigned>::max(), "attribute sm_count is no count");
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

// Numbers have six digits or more: longer names come later.
std::vector<std::string> numbered_groups(std::vector<std::string> names, std::string_view prefix) {
  std::erase_if(names, [prefix](const std::string& name) { return !name.starts_with(prefix); });
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), std::string_view(a)) < std::pair(b.size(), std::string_view(b));
  });
  return names;
}

// HDF5 trusts much of what a file says of itself, so a copy of the process goes first. A megabyte takes some hundredths
// of a second.
template <class Read>
void check_that_hdf5_survives(const std::filesystem::path& path, Read&& read) {
#ifndef GPUINFER_READS_ARCHIVES_AT_ONCE
  constexpr std::uintmax_t bytes_in_a_second = 1U << 20U;
  const std::chrono::seconds longest(10 + std::filesystem::file_size(path) / bytes_in_a_second);
  if (const auto death = how_first_try_dies(std::forward<Read>(read), longest)) {
    throw InputError(path.string() + ": is damaged so that HDF5 " + *death + "; record it again");
  }
#else
  static_cast<void>(path);
  static_cast<void>(read);
#endif
}

// What `read` makes of the open file. Throws InputError for a file that is no archive.
template <class Read>
auto read_file(const std::filesystem::path& path, Read&& read) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InputError(path.string() + ": there is no such file; name a trace archive");
  }
  const hdf5::Silence silence;
  const auto read_opened = [&] {
    return read(
        hdf5::Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "this is no whole HDF5 file"));
  };
  check_that_hdf5_survives(path, [&] { static_cast<void>(read_opened()); });
  try {
    return read_opened();
  } catch (const hdf5::Failure& failure) {
    throw InputError(printable(path.string() + ": " + failure.what() + "; record it again"));
  }
}

// Takes groups that somebody may have tampered with apart again.
class LaunchReader {
 public:
  // `target`: alone; none: all.
  LaunchReader(const hdf5::Handle& file, const model::DeviceFacts& facts, std::optional<std::string> target)
      : file_(&file), facts_(&facts), target_(std::move(target)), is_earlier_(is_of(earlier_schema, file)),
        groups_(numbered_groups(hdf5::link_names(file), launch_prefix)) {
    for (const std::string& name : groups_) {
      first_accesses_.push_back(first_accesses_.back() + hdf5::Dataset(hdf5::open_group(file, name), "offset").count());
      require(first_accesses_.back() <= most_archive_accesses, "there are more accesses than are read of one archive");
    }
  }

  Launches read() && {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const hdf5::Handle group = hdf5::open_group(*file_, groups_[i]);
      std::vector<std::string> targets = hdf5::read_strings(group, "target");
      if (!target_ || std::ranges::find(targets, *target_) != targets.end()) {
        unpack(groups_[i], read_group(group, std::move(targets), first_accesses_[i]));
      }
    }
    return std::move(found_);
  }

 private:
  // All but the offsets.
  [[nodiscard]] LaunchGroup read_group(const hdf5::Handle& group, std::vector<std::string> targets,
                                       std::uint64_t first_access) const {
    LaunchGroup launches;
    launches.questions = read_questions(group, is_earlier_, first_access);
    launches.targets = std::move(targets);
    launches.states = hdf5::read_strings(group, "state");
    launches.latency_cycles = hdf5::read_dataset<float>(group, "latency_cycles", H5T_NATIVE_FLOAT);
    launches.circumstances = hdf5::has_link(group, "circumstances")
                                 ? hdf5::read_strings(group, "circumstances")
                                 : std::vector<std::string>(launches.questions.size(), no_circumstances);
    if (hdf5::has_link(group, "refused")) {
      launches.refused = hdf5::read_dataset<std::uint64_t>(group, "refused", H5T_NATIVE_UINT64);
      launches.refusals = hdf5::read_strings(group, "refusal");
    }
    return launches;
  }

  void unpack(const std::string& name, const LaunchGroup& launches) {
    const std::size_t count = launches.questions.size();
    require(launches.targets.size() == count && launches.states.size() == count &&
                launches.circumstances.size() == count && launches.refused.size() == launches.refusals.size(),
            "datasets that belong together differ in length");
    require(std::all_of(launches.latency_cycles.begin(), launches.latency_cycles.end(), is_latency),
            "dataset latency_cycles holds a negative or infinite latency");
    require(found_.exchanges.size() + count <= most_traces, "there are more questions than are read of one archive");

    std::uint64_t latency = 0;
    std::size_t refusal = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const QuestionRow& row = launches.questions[i];
      require(row.latency_begin == latency, "dataset question does not fit the latencies");
      require(row.record.begin <= row.record.end, "dataset question does not fit the accesses");
      model::Answer answer;
      if (refusal < launches.refused.size() && launches.refused[refusal] == i) {
        answer.refusal = launches.refusals[refusal++];
      } else {
        const std::uint64_t left = launches.latency_cycles.size() - latency;
        require(row.record.size() <= left, "dataset latency_cycles is too short");
        answer.latency_cycles = slice(launches.latency_cycles, latency, latency + row.record.size());
        latency += row.record.size();
      }
      if (target_ && launches.targets[i] != *target_) {
        continue;
      }
      const auto state = model::start_state_from(launches.states[i]);
      require(state.has_value(), "dataset state names no state");
      for (const Range& range : {row.warm, row.record}) {
        check(range, facts_->buffer_of(launches.targets[i]).bytes);
      }
      found_.exchanges.push_back({.name = name + "/" + std::to_string(i),
                                  .target = launches.targets[i],
                                  .state = *state,
                                  .warm = row.warm,
                                  .record = row.record,
                                  .circumstances = parse_circumstances(launches.circumstances[i]),
                                  .answer = std::move(answer)});
    }
    require(latency == launches.latency_cycles.size() && refusal == launches.refused.size(),
            "dataset question does not cover what the other datasets hold");
  }

  // Reads the group in which the sequence stands, unless that was read.
  void check(const Range& range, std::uint64_t buffer_bytes) {
    if (range.begin == range.end) {
      return;
    }
    const auto after = std::ranges::upper_bound(first_accesses_, range.begin);
    require(range.begin < range.end && after != first_accesses_.end() && range.end <= *after,
            "dataset question does not fit the accesses");
    const auto group = static_cast<std::size_t>(after - first_accesses_.begin()) - 1;
    if (!found_.offsets.contains(first_accesses_[group])) {
      found_.offsets.emplace(
          first_accesses_[group],
          hdf5::read_dataset<std::uint64_t>(hdf5::open_group(*file_, groups_[group]), "offset", H5T_NATIVE_UINT64));
    }
    found_.accesses += range.size();
    require(found_.accesses <= most_asked_accesses, "more accesses were asked than are read of one archive");
    const auto [largest, is_new] = largest_offsets_.try_emplace({range.begin, range.end});
    if (is_new) {
      largest->second = std::ranges::max(found_.sequence(range));
    }
    require(largest->second < buffer_bytes, "dataset offset leaves the buffer");
  }

  const hdf5::Handle* file_;
  const model::DeviceFacts* facts_;
  std::optional<std::string> target_;
  bool is_earlier_;
  std::vector<std::string> groups_;
  std::vector<std::uint64_t> first_accesses_{0};  // of each group, and where the last one ends
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> largest_offsets_;  // of sequences, by their ranges
  Launches found_;
};

// All but the questions.
struct Contents {
  model::DeviceFacts facts;
  std::vector<model::Disturbance> disturbances;
  std::vector<TimedWorkload> timed;
  PlacesByTarget places;
};

Contents read_contents(const hdf5::Handle& file) {
  Contents contents{.facts = read_facts(file), .disturbances = read_disturbances(file), .timed = {}, .places = {}};
  const std::vector<std::string> names = hdf5::link_names(file);
  for (const std::string& group : numbered_groups(names, timings_prefix)) {
    read_timings(file, group, contents.timed);
    require(contents.timed.size() <= most_traces, "there are more workloads than are read of one archive");
  }
  for (const std::string& group : numbered_groups(names, places_prefix)) {
    read_places(file, group, contents.places);
  }
  return contents;
}

std::pair<Contents, Launches> read_all(const std::filesystem::path& path) {
  return read_file(path, [](const hdf5::Handle& file) {
    Contents contents = read_contents(file);
    Launches launches = LaunchReader(file, contents.facts, std::nullopt).read();
    return std::pair(std::move(contents), std::move(launches));
  });
}

// Of the targets in `facts` those of which a question or a workload was answered.
std::vector<std::string> answered_targets(const hdf5::Handle& file, const Contents& contents) {
  std::set<std::string, std::less<>> answered;
  for (const std::string& name : numbered_groups(hdf5::link_names(file), launch_prefix)) {
    const hdf5::Handle group = hdf5::open_group(file, name);
    const std::vector<std::string> targets = hdf5::read_strings(group, "target");
    std::vector<bool> refused(targets.size());
    if (hdf5::has_link(group, "refused")) {
      for (const std::uint64_t at : hdf5::read_dataset<std::uint64_t>(group, "refused", H5T_NATIVE_UINT64)) {
        require(at < targets.size(), "dataset refused names questions that are not there");
        refused[at] = true;
      }
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (!refused[i]) {
        answered.insert(targets[i]);
      }
    }
  }
  for (const TimedWorkload& each : contents.timed) {
    if (!each.timing.refusal) {
      answered.emplace(target_of(each.workload));
    }
  }
  std::vector<std::string> targets = contents.facts.targets;
  std::erase_if(targets, [&](const std::string& target) { return !answered.contains(target); });
  return targets;
}

class Hdf5Writer final : public ArchiveWriter {
 public:
  Hdf5Writer(const std::filesystem::path& path, const model::DeviceFacts& facts)
      : path_(path), output_(path), file_(created()) {
    guarded([&] { write(*file_, facts); });
  }

  ~Hdf5Writer() override {
    const hdf5::Silence silence;
    file_.reset();
  }

  void append(std::span<const model::Question> questions, std::span<const model::Answer> answers) override {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      pending_.append(launch_, questions[i], answers[i], sequences_);
    }
    ++launch_;
    // A group costs some kilobytes whatever it holds.
    constexpr std::size_t group_numbers = 1U << 20U;
    if (pending_.offsets.size() + pending_.latency_cycles.size() >= group_numbers) {
      write_pending();
    }
  }

  void append(std::span<const model::Workload> workloads, std::span<const model::Timing> timings) override {
    for (std::size_t i = 0; i < workloads.size(); ++i) {
      pending_timings_.append(workloads[i], timings[i]);
    }
    ++launch_;
    constexpr std::size_t group_workloads = 1U << 14U;
    if (pending_timings_.workloads.size() >= group_workloads) {
      write_pending();
    }
  }

  void append(const std::string& target, std::span<const std::uint64_t> offsets,
              std::span<const std::uint64_t> places) override {
    guarded([&] {
      const hdf5::Handle group = create_numbered_group(*file_, places_prefix, launch_);
      hdf5::write_attribute(group, "target", target);
      hdf5::write_dataset(group, "offset", H5T_NATIVE_UINT64, H5T_STD_U64LE, offsets.data(), offsets.size());
      hdf5::write_dataset(group, "place", H5T_NATIVE_UINT64, H5T_STD_U64LE, places.data(), places.size());
    });
    ++launch_;
  }

  void add_disturbances(const std::vector<model::Disturbance>& disturbances) override {
    add_provenance(disturbances_attribute, nlohmann::json(disturbances).dump());
  }

  void add_provenance(const std::string& name, const std::string& value) override {
    guarded([&] { hdf5::write_attribute(hdf5::open_group(*file_, "provenance"), name, value); });
  }

  void close() override {
    write_pending();
    guarded([this] {
      hdf5::checked(H5Fflush(file_->get(), H5F_SCOPE_GLOBAL), "the archive cannot be written to its end");
      file_->finish("the archive cannot be closed");
    });
    file_.reset();
    output_.publish();
  }

 private:
  template <class Failed>
  [[nodiscard]] Failed cannot_write(const hdf5::Failure& failure) const {
    return Failed(path_.string() + ": " + failure.what() + "; make room or name another file");
  }

  [[nodiscard]] hdf5::Handle created() const {
    const hdf5::Silence silence;
    try {
      const hdf5::Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "no memory for an archive");
      // The form of 1.10 has checksums over all that is not data, and small groups.
      hdf5::checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5 is older than 1.10");
      // The default driver resolves links, and a file without a name has nothing but a link in /proc.
      hdf5::checked(H5Pset_fapl_stdio(access.get()), "HDF5 lacks its driver for files of the C library");
      return {H5Fcreate(output_.working_name().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
              "the archive cannot be begun"};
    } catch (const hdf5::Failure& failure) {
      throw cannot_write<InputError>(failure);
    }
  }

  template <class Work>
  void guarded(Work work) const {
    const hdf5::Silence silence;
    try {
      work();
    } catch (const hdf5::Failure& failure) {
      throw cannot_write<Error>(failure);
    }
  }

  void write_pending() {
    if (!pending_.questions.empty()) {
      guarded([this] { write(*file_, pending_); });
      pending_ = {};
    }
    if (!pending_timings_.workloads.empty()) {
      guarded([this] { write(*file_, pending_timings_, launch_); });
      pending_timings_ = {};
    }
  }

  std::filesystem::path path_;
  OutputFile output_;
  std::optional<hdf5::Handle> file_;  // none: closed
  WrittenSequences sequences_;
  LaunchGroup pending_;
  TimingsGroup pending_timings_;
  std::uint64_t launch_ = 0;
};

// A question, wherever its sequences stand.
struct QuestionView {
  std::string_view target;
  model::StartState state = model::StartState::clean;
  std::span<const std::uint64_t> warm;
  std::span<const std::uint64_t> record;
  const model::Circumstances* circumstances = nullptr;

  bool operator==(const QuestionView& other) const {
    return target == other.target && state == other.state && *circumstances == *other.circumstances &&
           std::ranges::equal(warm, other.warm) && std::ranges::equal(record, other.record);
  }
};

QuestionView view_of(const model::Question& question) {
  return {.target = question.target,
          .state = question.state,
          .warm = question.warm,
          .record = question.record,
          .circumstances = &question.circumstances};
}

struct HashOfQuestion {
  std::size_t operator()(const QuestionView& question) const {
    std::uint64_t hash = std::hash<std::string_view>{}(question.target) + static_cast<std::uint64_t>(question.state);
    for (const std::span<const std::uint64_t> sequence : {question.warm, question.record}) {
      hash = mixed(hash, sequence.size());
      for (const std::uint64_t offset : sequence) {
        hash = mixed(hash, offset);
      }
    }
    return hash;
  }

  static std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 32U);
  }
};

// What was asked of a target is read when it is asked again: the archive of a whole GPU holds much else.
class ArchivedDevice final : public RecordedDevice {
 public:
  ArchivedDevice(std::filesystem::path path, const std::string& source)
      : path_(std::move(path)), contents_(read_file(path_, [](const hdf5::Handle& file) {
          Contents contents = read_contents(file);
          contents.facts.targets = answered_targets(file, contents);
          return contents;
        })) {
    for (const TimedWorkload& each : contents_.timed) {
      timings_[wire::to_json(each.workload).dump()].recorded.push_back(&each.timing);
    }
    contents_.facts.source = source;
  }

  const model::DeviceFacts& facts() const override { return contents_.facts; }

  bool holds(const model::Question& question) override { return recorded(question.target).contains(view_of(question)); }
  bool holds(const model::Workload& workload) const override {
    return timings_.contains(wire::to_json(workload).dump());
  }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    answers.reserve(questions.size());
    for (const model::Question& question : questions) {
      answers.push_back(answer(question));
    }
    return answers;
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    std::vector<model::Timing> timings(workloads.size());
    std::transform(workloads.begin(), workloads.end(), timings.begin(),
                   [this](const model::Workload& workload) { return timing(workload); });
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    return kept_places(contents_.places, target, offsets);
  }

  std::vector<model::Disturbance> disturbances() const override { return contents_.disturbances; }

 private:
  // To one question, in the order in which it was asked.
  template <class Reply>
  struct Replies {
    std::vector<const Reply*> recorded;
    std::size_t next = 0;

    Reply take() {
      const Reply& chosen = *recorded[next];
      next = std::min(next + 1, recorded.size() - 1);
      return chosen;
    }
  };

  using Answers = std::unordered_map<QuestionView, Replies<model::Answer>, HashOfQuestion>;
  struct Recorded {
    Launches launches;
    Answers answers;
  };

  Answers& recorded(const std::string& target) {
    const auto known = recorded_.find(target);
    if (known != recorded_.end()) {
      return known->second.answers;
    }
    Recorded& found = recorded_[target];
    found.launches =
        read_file(path_, [&](const hdf5::Handle& file) { return LaunchReader(file, contents_.facts, target).read(); });
    for (const Exchange& exchange : found.launches.exchanges) {
      const QuestionView question{.target = exchange.target,
                                  .state = exchange.state,
                                  .warm = found.launches.sequence(exchange.warm),
                                  .record = found.launches.sequence(exchange.record),
                                  .circumstances = &exchange.circumstances};
      found.answers[question].recorded.push_back(&exchange.answer);
    }
    return found.answers;
  }

  model::Answer answer(const model::Question& question) {
    Answers& answers = recorded(question.target);
    const auto found = answers.find(view_of(question));
    if (found == answers.end()) {
      return {.latency_cycles = {},
              .refusal = contents_.facts.source +
                         " does not hold this question; record it with `gpuinfer probe` on the device itself"};
    }
    return found->second.take();
  }

  model::Timing timing(const model::Workload& workload) {
    const auto found = timings_.find(wire::to_json(workload).dump());
    if (found == timings_.end()) {
      return {.cycles = {},
              .seconds = {},
              .refusal = contents_.facts.source +
                         " does not hold this workload; record the target again with `gpuinfer run --record`"};
    }
    return found->second.take();
  }

  std::filesystem::path path_;
  Contents contents_;
  std::map<std::string, Recorded> recorded_;                         // by target
  std::unordered_map<std::string, Replies<model::Timing>> timings_;  // by workload, as JSON
};

}  // namespace

Archive read_archive(const std::filesystem::path& file) {
  auto [contents, launches] = read_all(file);
  if (launches.accesses > most_archive_accesses) {
    throw InputError(printable(file.string()) +
                     ": more accesses were asked than are held at once; play it, with --device recorded:");
  }
  Archive archive{
      .facts = std::move(contents.facts), .traces = {}, .timed = std::move(contents.timed), .timed_targets = {}};
  std::erase_if(archive.timed, [](const TimedWorkload& each) { return each.timing.refusal.has_value(); });
  for (const TimedWorkload& each : archive.timed) {
    const std::string target(target_of(each.workload));
    if (std::ranges::find(archive.timed_targets, target) == archive.timed_targets.end()) {
      archive.timed_targets.push_back(target);
    }
  }
  for (Exchange& exchange : launches.exchanges) {
    if (!exchange.answer.refusal) {
      archive.traces.push_back({.name = file.string() + ":/" + exchange.name,
                                .question = launches.question_of(exchange),
                                .latency_cycles = std::move(exchange.answer.latency_cycles),
                                .start_is_known = exchange.state != model::StartState::keep});
    }
  }
  return archive;
}

std::vector<std::string> recorded_targets(const std::filesystem::path& path) {
  return read_file(path, [](const hdf5::Handle& file) { return answered_targets(file, read_contents(file)); });
}

model::DeviceFacts read_archive_facts(const std::filesystem::path& file) { return read_file(file, read_facts); }

void append_archive(const std::filesystem::path& file, AnswerLog& log) {
  const auto [contents, launches] = read_all(file);
  if (!contents.disturbances.empty()) {
    log.append_disturbances(contents.disturbances);
  }
  std::map<std::pair<Asked, std::string>, std::uint64_t> asked;  // of each target
  for (const Exchange& exchange : launches.exchanges) {
    log.append(asked[{Asked::question, exchange.target}]++, launches.question_of(exchange), exchange.answer);
  }
  for (const TimedWorkload& each : contents.timed) {
    log.append(asked[{Asked::workload, std::string(target_of(each.workload))}]++, each.workload, each.timing);
  }
  for (const auto& [target, of_target] : contents.places) {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> places;
    for (const auto& [offset, place] : of_target) {
      offsets.push_back(offset);
      places.push_back(place);
    }
    log.append_places(target, offsets, places);
  }
}

std::unique_ptr<ArchiveWriter> create_archive(const std::filesystem::path& file, const model::DeviceFacts& facts) {
  return std::make_unique<Hdf5Writer>(file, facts);
}

std::unique_ptr<RecordedDevice> open_recording(const std::filesystem::path& file, const std::string& source) {
  return std::make_unique<ArchivedDevice>(file, source);
}

}  // namespace gpuinfer::probe
