// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "model/json_text.hpp"
#include "probe/archive.hpp"
#include "probe/archive/read.hpp"
#include "probe/wire.hpp"

namespace gpuinfer::probe {

namespace archive {

namespace {

// A question that is looked for, or one that was recorded, with the hash of all of it.
struct AskedQuestion {
  std::string_view target;
  model::StartState state = model::StartState::clean;
  const model::Circumstances* circumstances = nullptr;
  Offsets warm;
  Offsets record;
  std::size_t hash = 0;
};

std::size_t mixed(std::size_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32U);
}

std::size_t hash_of(const Offsets& sequence) {
  return sequence.as_stored([](auto offsets) {
    std::size_t hash = offsets.size();
    for (const std::uint64_t offset : offsets) {
      hash = mixed(hash, offset);
    }
    return hash;
  });
}

bool are_equal(const Offsets& first, const Offsets& second) {
  return first.as_stored(
      [&](auto these) { return second.as_stored([&](auto those) { return std::ranges::equal(these, those); }); });
}

struct HashOfQuestion {
  std::size_t operator()(const AskedQuestion& question) const { return question.hash; }
};

struct SameQuestion {
  bool operator()(const AskedQuestion& first, const AskedQuestion& second) const {
    return first.hash == second.hash && first.target == second.target && first.state == second.state &&
           *first.circumstances == *second.circumstances && are_equal(first.warm, second.warm) &&
           are_equal(first.record, second.record);
  }
};

AskedQuestion hashed(AskedQuestion question, std::size_t hash_of_warm, std::size_t hash_of_record) {
  question.hash = mixed(mixed(std::hash<std::string_view>{}(question.target), hash_of_warm), hash_of_record) +
                  static_cast<std::size_t>(question.state);
  return question;
}

AskedQuestion asked(const model::Question& question) {
  const Offsets warm{std::span(question.warm)};
  const Offsets record{std::span(question.record)};
  return hashed({.target = question.target,
                 .state = question.state,
                 .circumstances = &question.circumstances,
                 .warm = warm,
                 .record = record},
                hash_of(warm), hash_of(record));
}

// To one question, or one workload, in the order in which it was asked.
template <class Reply>
struct Replies {
  std::vector<const Reply*> recorded;
  std::size_t next = 0;

  const Reply& take() {
    const Reply& chosen = *recorded[next];
    next = std::min(next + 1, recorded.size() - 1);
    return chosen;
  }
};

// The answers to what was asked of one target.
class RecordedAnswers {
 public:
  explicit RecordedAnswers(Launches launches) : launches_(std::move(launches)) {
    for (const Exchange& exchange : launches_.exchanges()) {
      const AskedQuestion question = hashed({.target = *exchange.target,
                                             .state = exchange.state,
                                             .circumstances = exchange.circumstances,
                                             .warm = launches_.sequence(exchange.warm),
                                             .record = launches_.sequence(exchange.record)},
                                            hash_of_range(exchange.warm), hash_of_range(exchange.record));
      answers_[question].recorded.push_back(&exchange);
    }
    hashes_.clear();
  }

  [[nodiscard]] bool hold(const model::Question& question) const { return answers_.contains(asked(question)); }

  // None: was not asked.
  [[nodiscard]] std::optional<model::Answer> take(const model::Question& question) {
    const auto found = answers_.find(asked(question));
    return found == answers_.end() ? std::nullopt : std::optional(Launches::answer_of(found->second.take()));
  }

 private:
  // Sequences that many questions share are hashed once.
  std::size_t hash_of_range(Range range) {
    const auto [known, is_new] = hashes_.try_emplace({range.begin, range.end});
    if (is_new) {
      known->second = hash_of(launches_.sequence(range));
    }
    return known->second;
  }

  Launches launches_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> hashes_;  // of sequences, while answers are sorted in
  std::unordered_map<AskedQuestion, Replies<Exchange>, HashOfQuestion, SameQuestion> answers_;
};

// What was asked of a target is read when it is asked again: the archive of a whole GPU holds much else.
class ArchivedDevice final : public RecordedDevice {
 public:
  ArchivedDevice(std::filesystem::path path, const std::string& source)
      : path_(std::move(path)), contents_(read_contents(path_)) {
    contents_.facts.targets = contents_.answered_targets;
    for (const TimedWorkload& each : contents_.timed) {
      timings_[model::json_text(wire::to_json(each.workload))].recorded.push_back(&each.timing);
    }
    contents_.facts.source = source;
  }

  const model::DeviceFacts& facts() const override { return contents_.facts; }

  bool holds(const model::Question& question) override { return recorded(question.target).hold(question); }
  bool holds(const model::Workload& workload) const override {
    return timings_.contains(model::json_text(wire::to_json(workload)));
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
  RecordedAnswers& recorded(const std::string& target) {
    const auto known = recorded_.find(target);
    return known != recorded_.end()
               ? known->second
               : recorded_
                     .try_emplace(target, read_launches(path_, [&](std::string_view asked,
                                                                   const auto& /*any*/) { return asked == target; }))
                     .first->second;
  }

  model::Answer answer(const model::Question& question) {
    if (auto answer = recorded(question.target).take(question)) {
      return *std::move(answer);
    }
    return {.latency_cycles = {},
            .refusal = contents_.facts.source +
                       " does not hold this question; record it with `gpuinfer probe` on the device itself"};
  }

  model::Timing timing(const model::Workload& workload) {
    const auto found = timings_.find(model::json_text(wire::to_json(workload)));
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
  std::map<std::string, RecordedAnswers> recorded_;                  // by target
  std::unordered_map<std::string, Replies<model::Timing>> timings_;  // by workload, as JSON
};

}  // namespace

}  // namespace archive

std::unique_ptr<RecordedDevice> open_recording(const std::filesystem::path& file, const std::string& source) {
  return std::make_unique<archive::ArchivedDevice>(file, source);
}

}  // namespace gpuinfer::probe
