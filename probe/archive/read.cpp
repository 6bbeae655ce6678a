// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/archive/read.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <variant>

#include "model/errors.hpp"
#include "model/printable.hpp"
#include "probe/archive/facts.hpp"
#include "probe/first_try.hpp"
#include "probe/input_limits.hpp"
#include "probe/latency.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe::archive {

namespace {

using hdf5::require;

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

// What `make` makes of what `read` gets from the open file. HDF5 is used by `read` alone, which therefore goes first in
// a copy of the process.
template <class Read, class Make>
auto read_file(const std::filesystem::path& path, const Read& read, const Make& make) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InputError(path.string() + ": there is no such file; name a trace archive");
  }
  const hdf5::Silence silence;
  const auto unpacked = std::make_shared<Unpacked>();
  const auto read_opened = [&] {
    return read(
        hdf5::Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "this is no whole HDF5 file"),
        unpacked);
  };
  const auto version = [&path] { return std::pair(last_write_time(path), file_size(path)); };
  const auto before = version();
  check_that_hdf5_survives(path, [&] {
    unpacked->keep_for_the_process();
    static_cast<void>(read_opened());
  });
  try {
    auto columns = read_opened();
    require(version() == before, "it changed while it was read");
    return make(std::move(columns));
  } catch (const hdf5::Failure& failure) {
    throw InputError(printable(path.string() + ": " + failure.what() + "; record it again"));
  }
}

template <class Element>
std::vector<Element> slice(const std::vector<Element>& elements, std::uint64_t begin, std::uint64_t end) {
  return {elements.begin() + static_cast<std::ptrdiff_t>(begin), elements.begin() + static_cast<std::ptrdiff_t>(end)};
}

model::Circumstances parse_circumstances(std::string_view text) {
  constexpr const char* damage = "dataset circumstances holds something else";
  try {
    return wire::parse_circumstances(wire::parse_object(std::string(text)));
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
TimingsGroup read_timings(const hdf5::Handle& file, const std::string& name) {
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
  return timings;
}

void append(const TimingsGroup& timings, std::vector<TimedWorkload>& timed) {
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

// All that HDF5 unpacks but the questions.
struct ContentsColumns {
  Contents contents;  // without what the timings say
  std::vector<TimingsGroup> timings;
};

// Targets in the order in which they were answered first.
std::vector<std::string> traced_targets(const hdf5::Handle& file, Unpacked& unpacked) {
  std::vector<std::string> traced;
  for (const std::string& name : numbered_groups(hdf5::link_names(file), launch_prefix)) {
    const hdf5::Handle group = hdf5::open_group(file, name);
    const Texts targets(hdf5::Dataset(group, "target"), unpacked);
    std::vector<bool> refused(targets.size());
    if (hdf5::has_link(group, "refused")) {
      for (const std::uint64_t at : hdf5::read_dataset<std::uint64_t>(group, "refused", H5T_NATIVE_UINT64)) {
        require(at < targets.size(), "dataset refused names questions that are not there");
        refused[at] = true;
      }
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      // Most are as the one before.
      const bool is_known = !traced.empty() && traced.back() == targets[i];
      if (!refused[i] && !is_known && std::ranges::find(traced, targets[i]) == traced.end()) {
        traced.emplace_back(targets[i]);
      }
    }
  }
  return traced;
}

ContentsColumns read_contents_columns(const hdf5::Handle& file, Unpacked& unpacked) {
  ContentsColumns columns{.contents = {.facts = read_facts(file),
                                       .disturbances = read_disturbances(file),
                                       .timed = {},
                                       .places = {},
                                       .answered_targets = {},
                                       .traced_targets = traced_targets(file, unpacked)},
                          .timings = {}};
  const std::vector<std::string> names = hdf5::link_names(file);
  for (const std::string& group : numbered_groups(names, timings_prefix)) {
    columns.timings.push_back(read_timings(file, group));
  }
  for (const std::string& group : numbered_groups(names, places_prefix)) {
    read_places(file, group, columns.contents.places);
  }
  return columns;
}

Contents contents_of(ContentsColumns columns) {
  Contents contents = std::move(columns.contents);
  for (const TimingsGroup& group : columns.timings) {
    append(group, contents.timed);
    require(contents.timed.size() <= most_traces, "there are more workloads than are read of one archive");
  }
  std::set<std::string, std::less<>> answered(contents.traced_targets.begin(), contents.traced_targets.end());
  for (const TimedWorkload& each : contents.timed) {
    if (!each.timing.refusal) {
      answered.emplace(target_of(each.workload));
    }
  }
  std::ranges::copy_if(contents.facts.targets, std::back_inserter(contents.answered_targets),
                       [&](const std::string& target) { return answered.contains(target); });
  return contents;
}

// The dataset `question`, as a vector of what its rows are in memory.
template <class Row>
std::vector<Row> read_rows(const hdf5::Handle& group, const hdf5::Handle& row, Unpacked& unpacked) {
  const hdf5::Dataset dataset(group, "question");
  // HDF5 would convert from any other table, but trusts what a damaged one says of its columns.
  require(dataset.stores(row.get()), "dataset question is not the table it should be");
  const std::span<const Row> rows = unpacked.next<Row>(dataset.count(), [&](void* to) { dataset.read(row.get(), to); });
  return {rows.begin(), rows.end()};
}

// `first_access`: of the group, among those of the archive.
std::vector<QuestionRow> read_questions(const hdf5::Handle& group, bool is_of_earlier_schema,
                                        std::uint64_t first_access, Unpacked& unpacked) {
  if (!is_of_earlier_schema) {
    return read_rows<QuestionRow>(group, question_type(), unpacked);
  }
  std::vector<QuestionRow> questions;
  for (const EarlierRow& row : read_rows<EarlierRow>(group, earlier_question_type(), unpacked)) {
    const std::uint64_t between = first_access + row.record_begin;
    questions.push_back({.launch = row.launch,
                         .warm = {.begin = first_access + row.warm_begin, .end = between},
                         .record = {.begin = between, .end = first_access + row.record_end},
                         .latency_begin = row.latency_begin});
  }
  return questions;
}

struct HashOfRange {
  std::size_t operator()(const Range& range) const {
    return static_cast<std::size_t>(range.begin * 0x9e3779b97f4a7c15ULL ^ range.end);
  }
};

}  // namespace

// The datasets of one group.
struct Launches::Group {
  std::string name;
  Texts targets;
  std::vector<const model::Circumstances*> wanted = {};  // of each question; none: it is not wanted
  std::vector<QuestionRow> questions = {};
  Texts states = {};
  Latencies latency_cycles = {};
  std::vector<std::uint64_t> refused = {};
  std::vector<std::string> refusals = {};
};

struct Launches::Columns {
  std::shared_ptr<Unpacked> unpacked;
  model::DeviceFacts facts;
  std::map<std::string, model::Circumstances, std::less<>> circumstances;  // by JSON
  std::vector<Group> groups;                                               // those in which wanted questions stand
  std::vector<std::uint64_t> first_accesses{0};  // of each group of the archive, and where the last one ends
  std::vector<std::optional<Offsets>> offsets;   // of each group of the archive, those that are needed

  const model::Circumstances& parsed(std::string_view json) {
    auto known = circumstances.find(json);
    if (known == circumstances.end()) {
      known = circumstances.emplace(json, parse_circumstances(json)).first;
    }
    return known->second;
  }

  // The number of the group in which the sequence stands, which is not empty.
  [[nodiscard]] std::size_t group_of(Range range) const {
    const auto after = std::ranges::upper_bound(first_accesses, range.begin);
    require(range.begin < range.end && after != first_accesses.end() && range.end <= *after,
            "dataset question does not fit the accesses");
    return static_cast<std::size_t>(after - first_accesses.begin()) - 1;
  }
};

namespace {

// Reads the group in which the sequence stands, unless that was read.
void read_sequence(const hdf5::Handle& file, const std::vector<std::string>& groups, Range range,
                   Launches::Columns& columns) {
  if (range.begin == range.end) {
    return;
  }
  const std::size_t group = columns.group_of(range);
  if (!columns.offsets[group]) {
    columns.offsets[group] =
        read_offsets(hdf5::Dataset(hdf5::open_group(file, groups[group]), "offset"), *columns.unpacked);
  }
}

// The circumstances of each question of the group that is wanted.
std::vector<const model::Circumstances*> wanted_of(const hdf5::Handle& group, const Texts& targets,
                                                   const Wanted& wanted, Launches::Columns& columns) {
  std::optional<Texts> circumstances;
  if (hdf5::has_link(group, "circumstances")) {
    circumstances.emplace(hdf5::Dataset(group, "circumstances"), *columns.unpacked);
    require(circumstances->size() == targets.size(), "datasets that belong together differ in length");
  }
  std::vector<const model::Circumstances*> chosen(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const model::Circumstances& asked = columns.parsed(circumstances ? (*circumstances)[i] : no_circumstances);
    chosen[i] = !wanted || wanted(targets[i], asked) ? &asked : nullptr;
  }
  return chosen;
}

// Loads of the group that have a latency, by its questions: a megabyte can be unpacked to gigabytes that none of them
// asked for.
std::uint64_t recorded_in(const Launches::Group& group) {
  std::uint64_t recorded = 0;
  for (std::size_t row = 0; row < group.questions.size(); ++row) {
    // In order, where they are right.
    recorded += std::ranges::binary_search(group.refused, row) ? 0 : group.questions[row].record.size();
  }
  return recorded;
}

// Where the accesses end that a group stores, by its questions: what earlier groups store is not stored again.
std::uint64_t end_in(const Launches::Group& group, std::uint64_t first_access) {
  std::uint64_t end = first_access;
  for (const QuestionRow& row : group.questions) {
    end = std::max({end, row.warm.end, row.record.end});
  }
  return end;
}

Launches::Columns read_columns(const hdf5::Handle& file, std::shared_ptr<Unpacked> unpacked, const Wanted& wanted) {
  const bool is_of_earlier_schema = is_earlier(file);
  const std::vector<std::string> names = numbered_groups(hdf5::link_names(file), launch_prefix);
  Launches::Columns columns{
      .unpacked = std::move(unpacked), .facts = read_facts(file), .circumstances = {}, .groups = {}, .offsets = {}};
  columns.offsets.resize(names.size());
  std::vector<std::uint64_t>& first_accesses = columns.first_accesses;
  for (const std::string& name : names) {
    first_accesses.push_back(first_accesses.back() + hdf5::Dataset(hdf5::open_group(file, name), "offset").count());
    require(first_accesses.back() <= most_archive_accesses, "there are more accesses than are read of one archive");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const hdf5::Handle group = hdf5::open_group(file, names[i]);
    Launches::Group read{.name = names[i], .targets = Texts(hdf5::Dataset(group, "target"), *columns.unpacked)};
    read.wanted = wanted_of(group, read.targets, wanted, columns);
    if (std::ranges::count(read.wanted, nullptr) == std::ssize(read.wanted)) {
      continue;
    }
    read.questions = read_questions(group, is_of_earlier_schema, first_accesses[i], *columns.unpacked);
    require(read.questions.size() == read.targets.size(), "datasets that belong together differ in length");
    read.states = Texts(hdf5::Dataset(group, "state"), *columns.unpacked);
    if (hdf5::has_link(group, "refused")) {
      read.refused = hdf5::read_dataset<std::uint64_t>(group, "refused", H5T_NATIVE_UINT64);
      read.refusals = hdf5::read_strings(group, "refusal");
    }
    const hdf5::Dataset latency_cycles(group, "latency_cycles");
    require(first_accesses[i + 1] <= end_in(read, first_accesses[i]), "dataset question does not fit the accesses");
    require(latency_cycles.count() <= recorded_in(read),
            "dataset question does not cover what the other datasets hold");
    read.latency_cycles = read_latencies(latency_cycles, *columns.unpacked);
    for (std::size_t row = 0; row < read.questions.size(); ++row) {
      if (read.wanted[row] != nullptr) {
        read_sequence(file, names, read.questions[row].warm, columns);
        read_sequence(file, names, read.questions[row].record, columns);
      }
    }
    columns.groups.push_back(std::move(read));
  }
  return columns;
}

}  // namespace

Launches::Launches(std::shared_ptr<const Columns> columns) : columns_(std::move(columns)) {
  std::unordered_map<Range, std::uint64_t, HashOfRange> largest_offsets;  // of sequences that are not empty
  const auto check = [&](Range range, std::uint64_t buffer_bytes) {
    if (range.size() == 0) {
      return;
    }
    asked_accesses_ += range.size();
    require(asked_accesses_ <= most_asked_accesses, "more accesses were asked than are read of one archive");
    const auto [largest, is_new] = largest_offsets.try_emplace(range);
    if (is_new) {
      largest->second =
          sequence(range).as_stored([](auto offsets) { return std::uint64_t{std::ranges::max(offsets)}; });
    }
    require(largest->second < buffer_bytes, "dataset offset leaves the buffer");
  };
  for (std::size_t group = 0; group < columns_->groups.size(); ++group) {
    const std::size_t first = exchanges_.size();
    take(group);
    for (std::size_t i = first; i < exchanges_.size(); ++i) {
      const std::uint64_t buffer_bytes = columns_->facts.buffer_of(*exchanges_[i].target).bytes;
      check(exchanges_[i].warm, buffer_bytes);
      check(exchanges_[i].record, buffer_bytes);
    }
  }
}

void Launches::take(std::size_t number) {
  const Group& group = columns_->groups[number];
  const std::size_t count = group.questions.size();
  require(group.questions.size() == group.targets.size() && group.states.size() == count &&
              group.refused.size() == group.refusals.size(),
          "datasets that belong together differ in length");
  require(group.latency_cycles.as_stored([](auto cycles) { return std::ranges::all_of(cycles, is_latency); }),
          "dataset latency_cycles holds a negative or infinite latency");
  require(exchanges_.size() + count <= most_traces, "there are more questions than are read of one archive");

  std::uint64_t latency = 0;
  std::size_t refusal = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const QuestionRow& row = group.questions[i];
    require(row.latency_begin == latency, "dataset question does not fit the latencies");
    require(row.record.begin <= row.record.end, "dataset question does not fit the accesses");
    Exchange exchange{.group = number, .row = i, .warm = row.warm, .record = row.record};
    if (refusal < group.refused.size() && group.refused[refusal] == i) {
      exchange.refusal = group.refusals[refusal++];
    } else {
      require(row.record.size() <= group.latency_cycles.size() - latency, "dataset latency_cycles is too short");
      exchange.latency_cycles = group.latency_cycles.slice({.begin = latency, .end = latency + row.record.size()});
      latency += row.record.size();
    }
    if (group.wanted[i] == nullptr) {
      continue;
    }
    const auto state = model::start_state_from(group.states[i]);
    require(state.has_value(), "dataset state names no state");
    exchange.state = *state;
    exchange.target = &*targets_.emplace(group.targets[i]).first;
    exchange.circumstances = group.wanted[i];
    exchanges_.push_back(std::move(exchange));
  }
  require(latency == group.latency_cycles.size() && refusal == group.refused.size(),
          "dataset question does not cover what the other datasets hold");
}

Offsets Launches::sequence(Range range) const {
  if (range.size() == 0) {
    return {};
  }
  const std::size_t group = columns_->group_of(range);
  const std::uint64_t first = columns_->first_accesses[group];
  return columns_->offsets[group]->slice({.begin = range.begin - first, .end = range.end - first});
}

std::string Launches::name_of(const Exchange& exchange) const {
  return columns_->groups[exchange.group].name + "/" + std::to_string(exchange.row);
}

void Launches::copy_question(const Exchange& exchange, model::Question& question) const {
  question.target = *exchange.target;
  question.state = exchange.state;
  sequence(exchange.warm).copy_to(question.warm);
  sequence(exchange.record).copy_to(question.record);
  question.circumstances = *exchange.circumstances;
}

model::Answer Launches::answer_of(const Exchange& exchange) {
  return {.latency_cycles = exchange.latency_cycles.copy(), .refusal = exchange.refusal};
}

Contents read_contents(const std::filesystem::path& path) {
  return read_file(
      path,
      [](const hdf5::Handle& file, const std::shared_ptr<Unpacked>& unpacked) {
        return read_contents_columns(file, *unpacked);
      },
      contents_of);
}

model::DeviceFacts read_facts(const std::filesystem::path& path) {
  return read_file(
      path, [](const hdf5::Handle& file, const auto& /*unpacked*/) { return read_facts(file); },
      [](model::DeviceFacts facts) { return facts; });
}

Launches read_launches(const std::filesystem::path& path, const Wanted& wanted) {
  return read_file(
      path,
      [&](const hdf5::Handle& file, const std::shared_ptr<Unpacked>& unpacked) {
        return std::make_shared<Launches::Columns>(read_columns(file, unpacked, wanted));
      },
      [&](const std::shared_ptr<const Launches::Columns>& columns) { return Launches(columns); });
}

}  // namespace gpuinfer::probe::archive
