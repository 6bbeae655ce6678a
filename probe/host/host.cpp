// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/host.hpp"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>

#include "model/access_sequence.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/random_streams.hpp"
#include "probe/host/amplification.hpp"
#include "probe/host/laps.hpp"
#include "probe/host/loads.hpp"
#include "probe/host/pages.hpp"
#include "probe/host/scattered_lines.hpp"

namespace gpuinfer::probe {

namespace {

using host::ScatteredLines;

constexpr std::string_view target_name = "L1D";

// So few pages that a first TLB holds them all, even where a hypervisor maps what looks like a huge page here in small
// pages. Each of them also has a hash of its own for predictors of ways, which know addresses by few bits (Lipp et al.,
// Take A Way, AsiaCCS 2020).
constexpr std::uint32_t buffer_bytes = ScatteredLines::pages * ScatteredLines::page_bytes;

// What is timed in laps: all targets, L1D besides single loads. The pages of dTLB are small ones.
struct LapTarget {
  std::string_view name;
  std::uint64_t buffer_bytes;
  bool huge_pages;
};
constexpr std::array lap_targets{LapTarget{target_name, buffer_bytes, true}, LapTarget{"L2", 16U << 20U, true},
                                 LapTarget{"L3", 128U << 20U, true}, LapTarget{"dTLB", 32U << 20U, false}};

// As many lines of each set as go through it before each play: more than any first level has ways.
constexpr std::uint32_t emptying_pages = 16;
static_assert((ScatteredLines::pages + emptying_pages) * std::uint64_t{ScatteredLines::page_bytes} <=
              host::Pages::huge_bytes);

// A play begins anywhere in so many ticks.
constexpr std::uint64_t dither_ticks = 8;

// Whoever disturbs does so for a millisecond or longer, which is as long as a group with the longest questions takes.
constexpr std::size_t plays_per_group = 8;
// How much longer nothing may take than it does when nobody disturbs, and how long is waited for that.
constexpr double quiet_tolerance = 0.015;
constexpr std::chrono::milliseconds patience{100};

// Of 32 KB, which another thread of the core may use as well.
constexpr std::size_t most_code_bytes = 16U << 10U;
constexpr std::size_t fewest_timed = 256;

// A question is code, which should not be much more than what the caches behind the first level hold.
constexpr std::size_t most_accesses = 1U << 16U;

// The thread stays on one CPU as long as it lives.
class Pinned {
 public:
  explicit Pinned(int cpu) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpu), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~Pinned() { sched_setaffinity(0, sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  Pinned(Pinned&&) = delete;
  Pinned& operator=(Pinned&&) = delete;

 private:
  cpu_set_t before_{};
};

std::string brand() {
  std::array<unsigned, 12> words{};
  for (std::size_t part = 0; part < 3; ++part) {
    unsigned* four = words.data() + 4 * part;
    if (__get_cpuid(0x80000002U + static_cast<unsigned>(part), four, four + 1, four + 2, four + 3) == 0) {
      return "x86-64 CPU";
    }
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  std::string name(text.data());
  name.erase(name.find_last_not_of(' ') + 1);
  return name.substr(std::min(name.find_first_not_of(' '), name.size()));
}

class HostDevice final : public model::Answerer {
 public:
  explicit HostDevice(const HostOptions& options)
      : huge_pages_(options.huge_pages), pages_(host::Pages::huge_bytes, options.huge_pages),
        cpu_(std::max(0, sched_getcpu())), random_(model::RandomStreams(options.seed).random("waits between laps")) {
    const Pinned pinned(cpu_);
    tick_cycles_ = host::tick_of(host::time_stamp);
    quiet_nothing_cycles_ = look_at_nothing();  // NOLINT(*-prefer-member-initializer): on that CPU, by that tick
    const double gap_cycles = look_at_gap();
    plays_ = host::plays_needed(tick_cycles_, std::max(1.0, gap_cycles));

    facts_.name = brand();
    facts_.source = "host";
    facts_.buffer = {.bytes = buffer_bytes, .address = {}};
    facts_.targets = host_targets();
    for (const LapTarget& target : lap_targets) {
      facts_.own_buffers[std::string(target.name)] = {.bytes = target.buffer_bytes, .averages_laps = true};
    }
    facts_.provenance["cpu"] = std::to_string(cpu_);
    facts_.provenance["pages"] = to_string(pages_.kind());
    facts_.provenance["addresses"] = "bits above 11 are not physical: they name pages, others for each line of a page";
    facts_.provenance["time_stamp_tick_cycles"] = model::whole_text(tick_cycles_);
    facts_.provenance["amplification"] =
        "each question played " + std::to_string(plays_) +
        " times at least, latencies averaged over the groups of plays that nobody disturbed";
    facts_.provenance["laps"] =
        "latencies of laps are averages, of several stretches the quickest; those of dTLB are in small pages, all "
        "others "
        "in pages of 2 MB where the system gives some";
    facts_.provenance["flooded"] =
        "other lines driven through the sets and flushed then; those of the question stay in the next level";
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    const Pinned pinned(cpu_);
    std::vector<model::Answer> answers;
    answers.reserve(questions.size());
    for (const model::Question& question : questions) {
      if (auto refusal = refusal_of(question)) {
        answers.push_back({.latency_cycles = {}, .refusal = std::move(refusal)});
      } else if (const LapTarget* target = lap_target(question)) {
        const auto cycles = static_cast<float>(laps_of(*target).cycles_of_load(question));
        answers.push_back({.latency_cycles = std::vector<float>(question.record.size(), cycles), .refusal = {}});
      } else {
        answers.push_back({.latency_cycles = latencies_of(question, plays_), .refusal = std::nullopt});
      }
    }
    return answers;
  }

 private:
  // None: it is asked what single loads take.
  static const LapTarget* lap_target(const model::Question& question) {
    const bool is_single = question.target == target_name && question.state != model::StartState::keep;
    const auto* const found = std::find_if(lap_targets.begin(), lap_targets.end(),
                                           [&](const auto& target) { return target.name == question.target; });
    return is_single || found == lap_targets.end() ? nullptr : found;
  }

  // Their memory is taken when it is first needed, and for one target at a time.
  host::Laps& laps_of(const LapTarget& target) {
    if (laps_target_ != &target) {
      laps_.reset();
      laps_ = std::make_unique<host::Laps>(std::max(target.buffer_bytes, std::uint64_t{host::Pages::huge_bytes}),
                                           target.huge_pages && huge_pages_);
      laps_target_ = &target;
    }
    return *laps_;
  }

  // What nothing takes while nobody disturbs, in one group of sixteen at least.
  double look_at_nothing() {
    constexpr std::size_t groups = 4096;
    const host::Loads loads({.emptied = {}, .emptying_pages = 1, .warm = {}, .record = {0}});
    const host::PlayForm form{.empty = host::Loads::empty_measurements, .accesses = 1};
    host::GroupedPlays grouped(form);
    std::vector<std::uint32_t> stamps(plays_per_group * form.stamps());
    while (grouped.groups() < groups) {
      play_group(loads, form, stamps);
      grouped.add(stamps);
    }
    return grouped.nothing_cycles(groups / 16);
  }

  // What lines take longer that were driven out than those that were loaded last.
  double look_at_gap() {
    constexpr std::size_t plays = 1024;
    constexpr std::size_t many = std::size_t{2} * ScatteredLines::pages;
    model::Question hits{.target = std::string(target_name), .warm = {0}, .record = model::AccessSequence(many, 0)};
    model::Question misses = hits;
    misses.warm = model::cold_pass(0, buffer_bytes, ScatteredLines::page_bytes);
    misses.record = model::repeated(misses.warm, many / ScatteredLines::pages);
    const auto middle = [&](const model::Question& question) {
      std::vector<float> latencies = latencies_of(question, plays);
      std::nth_element(latencies.begin(), latencies.begin() + many / 2, latencies.end());
      return static_cast<double>(latencies[many / 2]);
    };
    const double of_misses = middle(misses);
    return of_misses - middle(hits);
  }

  // In windows of the recorded accesses, each after all that comes before it, with so little code that the cache of
  // instructions holds it: what waits for instructions looks like a miss.
  std::vector<float> latencies_of(const model::Question& question, std::size_t plays) {
    const std::vector<std::uint32_t> sets = sets_of(question);
    host::Play window{
        .emptied = sets, .emptying_pages = emptying_pages, .warm = scattered(question.warm), .record = {}};
    const std::vector<std::uint32_t> record = scattered(question.record);
    std::vector<float> latencies;
    while (latencies.size() < record.size()) {
      const std::size_t code_bytes = host::Loads::code_bytes(window);
      const std::size_t room =
          code_bytes < most_code_bytes ? (most_code_bytes - code_bytes) / host::Loads::timed_bytes : 0;
      const auto first = record.begin() + static_cast<std::ptrdiff_t>(latencies.size());
      const auto last =
          first + std::min(record.end() - first, static_cast<std::ptrdiff_t>(std::max(room, fewest_timed)));
      window.record.assign(first, last);
      const std::vector<float> timed = latencies_of(window, plays);
      latencies.insert(latencies.end(), timed.begin(), timed.end());
      window.warm.insert(window.warm.end(), first, last);
      window.record.clear();
    }
    return latencies;
  }

  static std::vector<std::uint32_t> scattered(const model::AccessSequence& sequence) {
    std::vector<std::uint32_t> places(sequence.size());
    std::transform(sequence.begin(), sequence.end(), places.begin(), ScatteredLines::place_of);
    return places;
  }

  // A place in each of them, where lines begin that are loaded for nothing else.
  static std::vector<std::uint32_t> sets_of(const model::Question& question) {
    std::set<std::uint32_t> touched;
    for (const auto* sequence : {&question.warm, &question.record}) {
      for (const std::uint64_t offset : *sequence) {
        const auto in_page = static_cast<std::uint32_t>(offset % ScatteredLines::page_bytes);
        touched.insert(buffer_bytes + in_page / ScatteredLines::line_bytes * ScatteredLines::line_bytes);
      }
    }
    return {touched.begin(), touched.end()};
  }

  void play_group(const host::Loads& loads, const host::PlayForm& form, std::vector<std::uint32_t>& stamps) {
    for (std::size_t play = 0; play < plays_per_group; ++play) {
      loads.play(pages_.data(), stamps.data() + play * form.stamps(),
                 random_.below(1 + dither_ticks * static_cast<std::uint64_t>(tick_cycles_)));
    }
  }

  std::vector<float> latencies_of(const host::Play& window, std::size_t plays) {
    const host::Loads loads(window);
    const host::PlayForm form{.empty = host::Loads::empty_measurements, .accesses = window.record.size()};
    host::GroupedPlays grouped(form);
    const std::size_t wanted = (plays + plays_per_group - 1) / plays_per_group;
    std::vector<std::uint32_t> stamps(plays_per_group * form.stamps());
    const auto given_up = std::chrono::steady_clock::now() + patience;
    const double quiet_cycles = (1 + quiet_tolerance) * quiet_nothing_cycles_;
    while (grouped.groups() < wanted ||
           (grouped.groups_within(quiet_cycles) < wanted && std::chrono::steady_clock::now() < given_up)) {
      play_group(loads, form, stamps);
      grouped.add(stamps);
    }
    return grouped.latencies(wanted);
  }

  std::optional<std::string> refusal_of(const model::Question& question) const {
    if (const LapTarget* target = lap_target(question)) {
      auto refusal = model::refusal_of(facts_, question);
      return refusal ? refusal : host::why_no_lap(question, target->buffer_bytes);
    }
    if (question.target != target_name) {
      return "host has no cache " + question.target + " that it can ask about; ask for L1D, L2, L3 or dTLB";
    }
    if (question.state == model::StartState::clean) {
      return "host cannot put back what a cache remembers; ask for `flooded`";
    }
    if (question.state != model::StartState::flooded) {
      return "host plays each question many times from the same start; ask for `flooded`";
    }
    if (auto refusal = model::refusal_of(facts_, question)) {
      return refusal;
    }
    if (question.warm.size() + question.record.size() > most_accesses) {
      return "host plays at most " + std::to_string(most_accesses) + " accesses at a time; ask shorter questions";
    }
    for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (const std::uint64_t offset : *sequence) {
        if (offset % model::load_bytes != 0 || offset > buffer_bytes - model::load_bytes) {
          return "offset " + std::to_string(offset) + " is no 4-byte load inside the buffer of " +
                 std::to_string(buffer_bytes) + " bytes; ask for multiples of 4 below its end";
        }
      }
    }
    return std::nullopt;
  }

  bool huge_pages_;
  host::Pages pages_;
  std::unique_ptr<host::Laps> laps_;
  const LapTarget* laps_target_ = nullptr;
  int cpu_;
  double tick_cycles_ = 0;
  std::size_t plays_ = 0;
  double quiet_nothing_cycles_ = 0;  // while nobody disturbs
  model::Random random_;
  model::DeviceFacts facts_;
};

}  // namespace

std::optional<std::string> host_name() { return brand(); }

std::vector<std::string> host_targets() {
  std::vector<std::string> targets;
  for (const LapTarget& target : lap_targets) {
    targets.emplace_back(target.name);
  }
  return targets;
}

std::unique_ptr<model::Answerer> open_host(const HostOptions& options) { return std::make_unique<HostDevice>(options); }

}  // namespace gpuinfer::probe
