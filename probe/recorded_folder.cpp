// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/recorded_folder.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "model/errors.hpp"
#include "model/workload.hpp"
#include "probe/archive.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::probe {

namespace {

constexpr const char* seed_key = "inference_seed";

class RecordedFolder final : public model::Answerer {
 public:
  RecordedFolder(const fs::path& folder, const std::string& source) : source_(source) {
    for (const fs::path& file : recordings_in(folder)) {
      add(file);
    }
    if (recordings_.empty()) {
      throw InputError(folder.string() + ": holds no recording; name a folder with files such as L1tex.h5");
    }
    facts_.source = source;
    tell_provenance();
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    answers.reserve(questions.size());
    for (const model::Question& question : questions) {
      model::Answerer* const recording = recording_of(question.target);
      answers.push_back(recording == nullptr
                            ? model::Answer{.latency_cycles = {}, .refusal = holds_none(question.target)}
                            : recording->ask({&question, 1}).front());
    }
    return answers;
  }

  std::vector<model::Timing> time(std::span<const model::Workload> workloads) override {
    std::vector<model::Timing> timings;
    timings.reserve(workloads.size());
    for (const model::Workload& workload : workloads) {
      const std::string target(target_of(workload));
      model::Answerer* const recording = recording_of(target);
      timings.push_back(recording == nullptr ? model::Timing{.cycles = {}, .seconds = {}, .refusal = holds_none(target)}
                                             : recording->time({&workload, 1}).front());
    }
    return timings;
  }

  std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                      std::span<const std::uint64_t> offsets) override {
    model::Answerer* const recording = recording_of(target);
    return recording == nullptr ? std::nullopt : recording->places_of(target, offsets);
  }

  std::vector<model::Disturbance> disturbances() const override {
    std::vector<model::Disturbance> all;
    for (const Recording& each : recordings_) {
      if (each.device) {
        std::ranges::copy(each.device->disturbances(), std::back_inserter(all));
      }
    }
    return all;
  }

 private:
  struct Recording {
    fs::path file;
    std::map<std::string, std::string> provenance;
    std::unique_ptr<model::Answerer> device = {};
  };

  void add(const fs::path& file) {
    const model::DeviceFacts facts = read_archive_facts(file);
    if (recordings_.empty()) {
      facts_ = facts;
      facts_.targets.clear();
      facts_.own_buffers.clear();
      facts_.stored_targets.clear();
      facts_.hinted_targets.clear();
    } else if (facts.name != facts_.name || seed_of(facts) != seed_of(facts_)) {
      throw InputError(file.string() + ": is of " + facts.name + " with seed " + seed_of(facts) + ", and " +
                       recordings_.front().file.string() + " of " + facts_.name + " with seed " + seed_of(facts_) +
                       "; play them one by one");
    }
    for (const std::string& target : recorded_targets(file)) {
      if (recording_of_.emplace(target, recordings_.size()).second) {
        facts_.targets.push_back(target);
        facts_.own_buffers[target] = facts.buffer_of(target);
        if (std::ranges::find(facts.stored_targets, target) != facts.stored_targets.end()) {
          facts_.stored_targets.push_back(target);
        }
        if (std::ranges::find(facts.hinted_targets, target) != facts.hinted_targets.end()) {
          facts_.hinted_targets.push_back(target);
        }
      }
    }
    add_missing(facts.warm_targets, facts_.warm_targets);
    add_missing(facts.shared_memories_kb, facts_.shared_memories_kb);
    facts_.chooses_unit = facts_.chooses_unit || facts.chooses_unit;
    add_missing(facts.warm_unit_targets, facts_.warm_unit_targets);
    add_missing(facts.contended_targets, facts_.contended_targets);
    if (!facts_.largest_set_aside_bytes) {
      facts_.largest_set_aside_bytes = facts.largest_set_aside_bytes;
    }
    if (!facts_.latency_path) {
      facts_.latency_path = facts.latency_path;
    }
    recordings_.push_back({.file = file, .provenance = facts.provenance});
  }

  template <class Value>
  static void add_missing(const std::vector<Value>& further, std::vector<Value>& all) {
    std::ranges::copy_if(further, std::back_inserter(all),
                         [&](const Value& each) { return std::ranges::find(all, each) == all.end(); });
  }

  static std::string seed_of(const model::DeviceFacts& facts) {
    const auto seed = facts.provenance.find(seed_key);
    return seed == facts.provenance.end() ? "unknown" : seed->second;
  }

  void tell_provenance() {
    facts_.provenance.clear();
    for (const auto& [target, number] : recording_of_) {
      for (const auto& entry : recordings_[number].provenance) {
        const auto& key = entry.first;
        const auto& value = entry.second;
        const bool is_common = std::ranges::all_of(recordings_, [&](const Recording& each) {
          const auto found = each.provenance.find(key);
          return found != each.provenance.end() && found->second == value;
        });
        facts_.provenance[is_common ? key : target + "." + key] = value;
      }
    }
  }

  model::Answerer* recording_of(const std::string& target) {
    const auto found = recording_of_.find(target);
    if (found == recording_of_.end()) {
      return nullptr;
    }
    Recording& recording = recordings_[found->second];
    if (!recording.device) {
      recording.device = open_recording(recording.file, source_);
    }
    return recording.device.get();
  }

  [[nodiscard]] std::string holds_none(const std::string& target) const {
    return source_ + " has no recording of " + target;
  }

  std::string source_;
  model::DeviceFacts facts_;
  std::vector<Recording> recordings_;
  std::map<std::string, std::size_t> recording_of_;  // by target
};

}  // namespace

std::vector<fs::path> recordings_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") {
      files.push_back(entry.path());
    }
  }
  const fs::path name = fs::canonical(folder).filename();
  std::ranges::sort(files, {}, [&](const fs::path& file) { return std::pair(file.stem() != name, file); });
  return files;
}

std::unique_ptr<model::Answerer> open_recordings(const fs::path& folder, const std::string& source) {
  return std::make_unique<RecordedFolder>(folder, source);
}

}  // namespace gpuinfer::probe
