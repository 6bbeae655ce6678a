// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "probe/archive.hpp"
#include "probe/archive/facts.hpp"
#include "probe/archive/format.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/output_file.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace archive {

namespace {

// Two hashes of 64 bits that know nothing of each other: the same for two sequences that differ once in 10^38 times.
struct Digest {
  explicit Digest(std::span<const std::uint64_t> sequence)
      : of_bytes(std::hash<std::string_view>{}(std::string_view(
            reinterpret_cast<const char*>(sequence.data()), sequence.size_bytes()))),  // NOLINT: bytes may be read so
        of_numbers(sequence.size()) {
    for (const std::uint64_t offset : sequence) {
      constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;
      of_numbers = (std::rotl(of_numbers, 27) ^ offset) * golden;
    }
  }

  auto operator<=>(const Digest&) const = default;

  std::uint64_t of_bytes;
  std::uint64_t of_numbers;
};

// Of sequences that are equal the first is written, and stands for the others.
class WrittenSequences {
 public:
  // Where the archive has this one; where it has not, the sequence is appended to `offsets`, those of the last group.
  Range place(const model::AccessSequence& sequence, std::vector<std::uint64_t>& offsets) {
    const Range next{.begin = accesses_, .end = accesses_ + sequence.size()};
    const auto [place, is_new] = places_.try_emplace(Digest(sequence), next);
    if (is_new) {
      offsets.insert(offsets.end(), sequence.begin(), sequence.end());
      accesses_ = next.end;
    }
    return place->second;
  }

 private:
  std::map<Digest, Range> places_;
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
    circumstances.push_back(model::json_text(wire::to_json(question.circumstances)));
    latency_cycles.insert(latency_cycles.end(), answer.latency_cycles.begin(), answer.latency_cycles.end());
  }
};

void append(TimingsGroup& to, const model::Workload& workload, const model::Timing& timing) {
  if (timing.refusal) {
    to.refused.push_back(to.workloads.size());
    to.refusals.push_back(*timing.refusal);
  }
  if (timing.counted) {
    to.counted_workloads.push_back(to.workloads.size());
    for (const auto count : counts) {
      to.counted.push_back((*timing.counted).*count);
    }
  }
  to.workloads.push_back(model::json_text(wire::to_json(workload)));
  to.not_counted.push_back(timing.why_not_counted);
  to.run_begins.push_back(to.cycles.size());
  to.cycles.insert(to.cycles.end(), timing.cycles.begin(), timing.cycles.end());
  to.seconds.insert(to.seconds.end(), timing.seconds.begin(), timing.seconds.end());
  to.seconds.resize(to.cycles.size());
}

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

class Hdf5Writer final : public ArchiveWriter {
 public:
  Hdf5Writer(const std::filesystem::path& path, const model::DeviceFacts& facts)
      : path_(path), output_(path), file_(created()) {
    guarded([&] { write_facts(*file_, facts); });
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
      archive::append(pending_timings_, workloads[i], timings[i]);
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
    add_provenance(disturbances_attribute, model::json_text(nlohmann::json(disturbances)));
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

}  // namespace

}  // namespace archive

std::unique_ptr<ArchiveWriter> create_archive(const std::filesystem::path& file, const model::DeviceFacts& facts) {
  return std::make_unique<archive::Hdf5Writer>(file, facts);
}

}  // namespace gpuinfer::probe
