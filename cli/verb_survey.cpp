// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/common_options.hpp"
#include "cli/devices/kind.hpp"
#include "cli/interrupt.hpp"
#include "cli/leaf_table.hpp"
#include "cli/output.hpp"
#include "cli/printable_streams.hpp"
#include "cli/program.hpp"
#include "cli/survey/coordinator.hpp"
#include "cli/survey/fleet_writer.hpp"
#include "cli/survey/team.hpp"
#include "cli/survey/worker.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "model/description/words.hpp"
#include "model/errors.hpp"
#include "probe/line_reader.hpp"
#include "probe/output_file.hpp"

namespace gpuinfer::cli {

namespace {

constexpr double default_device_timeout_s = 1800;
constexpr double default_rank_timeout_s = 30;

std::string forms_in_fleet() {
  return either_of(device_kinds(), [](const DeviceKind& kind) { return kind.choose == nullptr ? form_of(kind) : ""; });
}

}  // namespace

Syntax survey_syntax() {
  const std::string what = "what is asked, may be repeated: " + forms_in_fleet() +
                           "; those of a host are asked on every host, and N may be `all` (default: every GPU of every "
                           "host)";
  Syntax syntax(
      "survey --target T [--device D ...] [-o fleet.yaml]",
      "Asks all devices of a fleet, each by a process of its own, and says what they have in common and which deviate "
      "in what.\nUnder mpirun the ranks share the devices, and no GPU is asked by two of them. Results are kept in "
      "FLEET.parts as they\ncome. A device that fails or hangs, and a rank that is lost, are named, and the rest goes "
      "on; the exit status is 1 then.",
      {"gpuinfer survey --target L1tex -o fleet.yaml                all GPUs of this host",
       "gpuinfer survey --target L1tex --devices names.txt -o fleet.yaml --resume",
       "mpirun --enable-recovery -np 8 gpuinfer survey --target L1tex -o fleet.yaml",
       "gpuinfer diff fleet.yaml                                    which devices deviate",
       "gpuinfer show fleet.yaml@17                                 what device 17 has"});
  syntax
      .repeatable("target", target_value,
                  "the load path, needed, see `gpuinfer list targets`; may be repeated; `all`: what a device offers")
      .repeatable("device", device_value, what.c_str())
      .value("devices", ValueName("FILE", ValueKind::read_files),
             "the same, one on each line; what follows a # is a comment (default: none)")
      .value("carveout", "KB", "as for `run` (default: the least that a device can)")
      .value("sms", "some|all", "as for `run` (default some)")
      .value("seed", "N", "random seed (default 1); of virtual devices each one has the next")
      .value("budget", "ACCESSES", "for each device, as for `run` (default: no limit)")
      .value("timeout", "S", "for each device, as for `run` (default: no limit)")
      .value("device-timeout", "S", "a device that gives no result in so many seconds has failed (default 1800)")
      .value("rank-timeout", "S", "a rank that says nothing for so many seconds is lost (default 30)")
      .value("jobs", "N",
             "devices that a rank asks at a time (default: all of its GPUs, and of others its share of the cores)")
      .flag("resume", "go on with the survey that left FLEET.parts: what answered is not asked again")
      .flag("keep-parts", "leave FLEET.parts, with the profile of each device, when the survey is complete");
  add_output_options(syntax);
  syntax.flag("quiet", "no progress and no summary on stderr");
  return syntax;
}

namespace {

using survey::Coordinator;
using survey::Team;
using survey::Worker;

DeviceAddress device_of_fleet(const std::string& text, const std::string& where) {
  auto device = device_from(text);
  if (!device || device->faults || device->kind->choose != nullptr) {
    throw InputError(where + ": `" + text + "` is not a device of a fleet; write " + forms_in_fleet());
  }
  return *std::move(device);
}

std::vector<DeviceAddress> devices_in(const std::string& file) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file)) {
    throw InputError("--devices: " + file + " cannot be read; name a file with a device on each line");
  }
  constexpr std::size_t most_device_bytes = 1U << 16U;
  constexpr std::size_t most_devices = 1U << 20U;
  std::vector<DeviceAddress> devices;
  std::string line;
  probe::LineRead how{};
  for (std::size_t number = 1; (how = probe::read_line(stream, line, most_device_bytes)) != probe::LineRead::none;
       ++number) {
    if (how == probe::LineRead::too_long || devices.size() == most_devices) {
      throw InputError(fmt::format("{}:{}: is longer than {} bytes, or device {} of a list; write fewer", file, number,
                                   most_device_bytes, most_devices + 1));
    }
    // A command may have a # in it, so that a comment begins the line or follows a blank.
    const std::size_t comment = line.starts_with('#') ? 0 : std::min(line.find(" #"), line.size());
    line.resize(comment);
    const std::size_t end = line.find_last_not_of(" \t\r");
    if (end == std::string::npos) {
      continue;
    }
    line.resize(end + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    devices.push_back(device_of_fleet(line, file + ":" + std::to_string(number)));
  }
  if (devices.empty()) {
    throw InputError("--devices: " + file + " names no device; write one on each line");
  }
  return devices;
}

std::chrono::duration<double> limit(const Parsed& parsed, const std::string& option, double otherwise) {
  return std::chrono::duration<double>(parsed.seconds(option).value_or(otherwise));
}

survey::Request survey_request(const Parsed& parsed) {
  survey::Request request;
  for (const std::string& device : parsed.list("device")) {
    request.devices.push_back(device_of_fleet(device, "--device"));
  }
  if (const auto file = parsed.text("devices")) {
    const std::vector<DeviceAddress> more = devices_in(*file);
    request.devices.insert(request.devices.end(), more.begin(), more.end());
  }
  if (request.devices.empty()) {
    for (const DeviceKind& kind : device_kinds()) {
      if (kind.gpus != nullptr) {
        request.devices.push_back({.kind = &kind, .rest = std::string(every_gpu)});
      }
    }
  }
  const std::vector<std::string> targets = spelled_targets(parsed.list("target"));
  if (targets.empty()) {
    throw InputError("--target: is missing; name one, such as L1tex, or see `gpuinfer list targets`");
  }
  for (const std::string& target : targets) {
    request.arguments.push_back("--target=" + target);
  }
  for (const char* count : {"carveout", "budget"}) {
    if (const auto value = parsed.count(count)) {
      request.arguments.push_back(fmt::format("--{}={}", count, *value));
    }
  }
  if (const auto seconds = parsed.seconds("timeout")) {
    request.arguments.push_back(fmt::format("--timeout={}", *seconds));
  }
  const std::string sms = parsed.text("sms").value_or("some");
  if (sms != "some" && sms != "all") {
    throw InputError("--sms: `" + sms + "` is not known; write some or all");
  }
  request.arguments.push_back("--sms=" + sms);
  request.seed = parsed.count("seed");
  request.jobs = parsed.count("jobs");
  if (request.jobs == std::size_t{0}) {
    throw InputError("--jobs: is 0, and a rank asks at least one device at a time; write 1 or more");
  }
  request.device_timeout = limit(parsed, "device-timeout", default_device_timeout_s);
  request.rank_timeout = limit(parsed, "rank-timeout", default_rank_timeout_s);
  request.quiet = parsed.flag("quiet");
  return request;
}

// What all devices were asked, in the fleet description.
survey::SurveyFacts facts_of(const survey::Request& request) {
  return {{"program", program_version()},
          {"arguments", model::words::joined(request.arguments, " ")},
          {"seed", std::to_string(seed_or_default(request.seed))}};
}

// What a survey must have in common with the one it goes on with.
survey::SurveyFacts all_facts_of(const survey::Request& request) {
  survey::SurveyFacts facts = facts_of(request);
  boost::crc_32_type checksum;
  for (const DeviceAddress& address : request.devices) {
    const std::string device = to_text(address);
    checksum.process_bytes(device.c_str(), device.size() + 1);
  }
  facts["devices"] = fmt::format("{} with checksum {:08x}", request.devices.size(), checksum.checksum());
  return facts;
}

// Until something is said, but not long: letters of other ranks make no noise.
void wait_for(const Worker& worker) {
  constexpr int wait_ms = 2;
  std::vector<pollfd> files;
  worker.add_to(files);
  poll(files.data(), files.size(), wait_ms);
}

class Progress {
 public:
  explicit Progress(bool quiet) : is_shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const Coordinator& coordinator) {
    constexpr std::chrono::milliseconds between{200};
    const auto now = std::chrono::steady_clock::now();
    if (is_shown_ && now - shown_ >= between) {
      steer(std::cerr, back_to_empty_line);
      std::cerr << fmt::format("{} of {} devices, {} failed", coordinator.answered(), coordinator.tasks().size(),
                               coordinator.failures().size())
                << std::flush;
      shown_ = now;
    }
  }

  void clear() const {
    if (is_shown_) {
      steer(std::cerr, back_to_empty_line);
      std::cerr << std::flush;
    }
  }

 private:
  bool is_shown_;
  std::chrono::steady_clock::time_point shown_;
};

// How a rank takes part in the end of all.
enum class Parting { leaves, ends_all, was_ended };

struct SurveyEnd {
  ExitStatus status = ExitStatus::resolved;
  Parting parting = Parting::leaves;
};

// Of every rank but the first. The first one that ends by itself has mpirun kill all others at once, so after a signal
// and after the word to wait for the end, the first rank is given time to write.
SurveyEnd follow(const survey::Request& request, Team& team) {
  Worker worker(request, team);
  InterruptWatch::will_conclude_in_a_second();
  const SurveyEnd was_ended{.status = ExitStatus::failure, .parting = Parting::was_ended};
  bool is_signalled = false;
  while (worker.stop() != Worker::Stop::to_take_leave) {
    if (InterruptWatch::stop_requested() && !is_signalled) {
      if (worker.stop() == Worker::Stop::to_wait_for_the_end) {
        return was_ended;
      }
      is_signalled = true;
      worker.drop();
    }
    while (const auto letter = team.receive()) {
      worker.take(letter->text);
    }
    worker.work();
    if (worker.is_alone() && worker.stop() == Worker::Stop::to_wait_for_the_end) {
      return was_ended;
    }
    if (worker.is_alone()) {
      warn(
          fmt::format("rank 0 said nothing for {} s (--rank-timeout), so all ranks end; FLEET.parts holds what was "
                      "answered, and the same command with --resume asks only for the rest",
                      request.rank_timeout.count()));
      return {.status = ExitStatus::failure, .parting = Parting::ends_all};
    }
    wait_for(worker);
  }
  return {};
}

void coordinate(Coordinator& coordinator, Worker& worker, Team& team, Progress& progress) {
  while (!coordinator.is_done()) {
    while (const auto letter = team.receive()) {
      const bool is_order = letter->from == team.rank() && survey::kind_of(letter->text) == "order";
      if (is_order) {
        worker.take(letter->text);
      } else {
        coordinator.take(*letter);
      }
    }
    worker.work();
    coordinator.work();
    progress.update(coordinator);
    if (InterruptWatch::stop_requested()) {
      coordinator.interrupt();
    }
    wait_for(worker);
  }
}

std::string amount(std::size_t bytes) {
  constexpr double mega = 1e6;
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / mega);
}

void tell_summary(const survey::FleetCounts& counts, const Coordinator& coordinator, const Team& team,
                  std::chrono::duration<double> time) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr std::size_t kilo = 1024;
  std::cerr << fmt::format("\ngpuinfer: {} of {} devices answered: {} alike, {} deviate, {} know more or less",
                           grouped(counts.answered), grouped(counts.asked), grouped(counts.common),
                           grouped(counts.deviating), grouped(counts.less_certain));
  std::cerr << fmt::format("; {:.2f} s", time.count());
  if (coordinator.resumed() > 0) {
    std::cerr << fmt::format("; {} were not asked again", grouped(coordinator.resumed()));
  }
  // What one rank alone has nothing of.
  if (team.size() > 1) {
    std::cerr << fmt::format(
        "; {} ranks on {} host{}; {} came from other ranks, {} went to them; rank 0 took {} of memory", team.size(),
        coordinator.hosts(), coordinator.hosts() == 1 ? "" : "s", amount(coordinator.received_bytes()),
        amount(coordinator.sent_bytes()), amount(static_cast<std::size_t>(usage.ru_maxrss) * kilo));
  }
  std::cerr << '\n';
}

ExitStatus status_of(const survey::FleetCounts& counts, bool lost_ranks, bool interrupted) {
  if (interrupted) {
    return ExitStatus::unresolved;
  }
  if (counts.failed > 0 || lost_ranks) {
    return ExitStatus::failure;
  }
  return counts.all_resolved ? ExitStatus::resolved : ExitStatus::unresolved;
}

SurveyEnd lead(const Parsed& parsed, const survey::Request& request, Team& team) {
  const auto start = std::chrono::steady_clock::now();
  const Format format = format_from(parsed.text("format"));
  const bool resume = parsed.flag("resume");
  const auto fleet = parsed.text("output");
  for (const char* flag : {"resume", "keep-parts"}) {
    if (parsed.flag(flag) && !fleet) {
      throw InputError(std::string("--") + flag + ": goes with -o, whose name the kept results have; name the fleet");
    }
  }
  Output output(fleet);
  InterruptWatch::will_conclude();
  // Nobody can go on with a fleet that is written to a pipe or a device.
  survey::Parts parts(fleet && probe::destination_of(*fleet).is_regular ? fleet : std::nullopt, resume,
                      all_facts_of(request));
  Progress progress(request.quiet);
  Coordinator coordinator(request, team, parts, [&](const std::string& sentence) {
    progress.clear();
    warn(sentence);
  });
  {
    Worker worker(request, team);
    coordinate(coordinator, worker, team, progress);
  }
  const bool all_are_there = coordinator.lost_ranks().empty() && !InterruptWatch::stop_requested();
  coordinator.stop(all_are_there);
  progress.clear();
  coordinator.merge().settle();
  survey::Surveyed surveyed{
      .facts = facts_of(request), .tasks = coordinator.tasks(), .failures = coordinator.failures(), .lost_ranks = {}};
  for (const auto& [rank, why] : coordinator.lost_ranks()) {
    surveyed.lost_ranks.push_back(why);
  }
  const survey::FleetCounts counts = survey::write_fleet(output.stream(), format, surveyed, parts, coordinator.merge());
  output.finish();
  const bool is_complete = counts.failed == 0;
  if (is_complete && !parsed.flag("keep-parts")) {
    parts.remove();
  }
  if (!request.quiet) {
    tell_summary(counts, coordinator, team, std::chrono::steady_clock::now() - start);
  }
  if (!is_complete && parts.are_on_disk()) {
    note(parts.place() + " holds what was answered; the same command with --resume asks only for the rest");
  }
  return {.status = status_of(counts, !coordinator.lost_ranks().empty(), InterruptWatch::stop_requested()),
          .parting = all_are_there ? Parting::leaves : Parting::ends_all};
}

}  // namespace

ExitStatus verb_survey(Arguments arguments) {
  const std::unique_ptr<Team> team = survey::is_started_by_mpi() ? survey::team_of_mpi() : survey::alone();
  const bool is_first = team->rank() == 0;
  bool has_begun = false;
  try {
    const auto parsed = survey_syntax().parse(arguments, 0, 0);
    if (!parsed) {
      team->leave();
      return ExitStatus::resolved;
    }
    const survey::Request request = survey_request(*parsed);
    has_begun = true;
    const SurveyEnd ended = is_first ? lead(*parsed, request, *team) : follow(request, *team);
    if (ended.parting == Parting::leaves) {
      team->leave();
    } else if (ended.parting == Parting::ends_all) {
      team->end_all(static_cast<int>(ended.status));
    }
    return ended.status;
  } catch (const Error& error) {
    // All ranks have the same command line; one of them says what is wrong with it.
    if (!has_begun) {
      team->leave();
      if (!is_first) {
        return ExitStatus::bad_input;
      }
      throw;
    }
    const bool before_all =
        dynamic_cast<const InputError*>(&error) != nullptr || dynamic_cast<const DeviceUnavailable*>(&error) != nullptr;
    if (is_first && !before_all) {
      note(error.what());  // which is not told later
      team->end_all(static_cast<int>(ExitStatus::failure));
      return ExitStatus::failure;
    }
    for (int rank = 1; is_first && rank < team->size(); ++rank) {
      team->send(rank, survey::letter_of_kind("stop"));
    }
    team->leave();
    throw;
  }
}

}  // namespace gpuinfer::cli
