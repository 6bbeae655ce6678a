// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/common_options.hpp"

#include <limits>

#include "cli/devices/kind.hpp"
#include "cli/interrupt.hpp"
#include "cli/program.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

constexpr const char* seed_key = "inference_seed";
constexpr const char* program_key = "program";

std::optional<std::uint32_t> carveout_kb(const Parsed& parsed) {
  const auto carveout_kb = parsed.count("carveout");
  if (carveout_kb > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("--carveout: " + std::to_string(*carveout_kb) + " KB is more than there is; see `list devices`");
  }
  return carveout_kb;
}

}  // namespace

void add_device_options(Syntax& syntax, Devices devices) {
  const std::string what =
      "what is asked: " +
      either_of(device_kinds(),
                [](const DeviceKind& kind) {
                  return form_of(kind) + (kind.what.empty() ? "" : " (" + std::string(kind.what) + ")");
                }) +
      ", each also as faulty:FAULTS:DEVICE (see docs/faults.md)";
  if (devices == Devices::several) {
    const std::string repeatable =
        what + "; may be repeated: several devices are queried in parallel, and a fleet file is written";
    syntax.repeatable("device", device_value, repeatable.c_str());
  } else {
    syntax.value("device", device_value, what.c_str());
  }
  syntax
      .value(
          "carveout", "KB",
          "kilobytes that each SM of a GPU sets aside as shared memory, of the memory that is its L1 too (default: the "
          "least over CUDA, the most over Vulkan)")
      .flag("identify",
            "keep the UUID and the serial number of a CUDA device in clear (default: a hash of the UUID alone)")
      .value("patience", "S",
             "how many seconds a process behind exec: may say nothing before it counts as hung (default 60)")
      .value("seed", "N", "random seed (default 1); the output of a virtual device is reproducible");
}

namespace {

DeviceRequest request_for(const Parsed& parsed, const std::string& device) {
  DeviceRequest request{.device = parse_device(device),
                        .seed = seed_or_default(parsed.count("seed")),
                        .carveout_kb = carveout_kb(parsed)};
  request.identify = parsed.flag("identify");
  request.stop_waiting = InterruptWatch::stop_requested;
  request.patience_seconds = parsed.seconds("patience").value_or(request.patience_seconds);
  return request;
}

}  // namespace

std::vector<DeviceRequest> device_requests(const Parsed& parsed) {
  std::vector<DeviceRequest> requests;
  for (const std::string& device : parsed.list("device")) {
    requests.push_back(request_for(parsed, device));
  }
  if (requests.empty()) {
    requests.push_back(request_for(parsed, "auto"));
  }
  return requests;
}

DeviceRequest device_request(const Parsed& parsed) {
  return request_for(parsed, parsed.text("device").value_or("auto"));
}

void add_limit_options(Syntax& syntax) {
  syntax.value("budget", "ACCESSES", "stop asking after so many accesses and report what is known (default: no limit)")
      .value("timeout", "S", "stop asking after so many seconds and report what is known (default: no limit)")
      .value("jobs", "N",
             "maximum number of threads (default: all cores; 1 with --mpi); the result does not depend on it");
}

infer::Settings limits(const Parsed& parsed) {
  // A number that is none is a mistake where one thread does all, too.
  static_cast<void>(parsed.count("jobs"));
  infer::Settings settings;
  settings.budget_accesses = parsed.count("budget");
  if (const auto seconds = parsed.seconds("timeout")) {
    settings.deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(*seconds));
    // Who waits for a device in vain has time to say so.
    constexpr double for_a_sentence_s = 0.5;
    InterruptWatch::end_after(std::chrono::duration<double>(*seconds + for_a_sentence_s));
  }
  settings.stop_requested = InterruptWatch::stop_requested;
  return settings;
}

std::function<bool()> waiting_ends(const infer::Settings& settings) {
  return [settings] { return settings.stop_requested() || infer::is_past(settings.deadline); };
}

void add_output_options(Syntax& syntax) {
  syntax.value("output,o", written_file, "write there (default: to stdout)")
      .value("format", "yaml|json", "how it is written (default yaml)");
}

std::uint64_t seed_or_default(const std::optional<std::uint64_t>& seed) { return seed.value_or(1); }

std::uint64_t inference_seed(const std::optional<std::uint64_t>& given, const model::DeviceFacts& facts) {
  const auto recorded = facts.provenance.find(seed_key);
  if (recorded == facts.provenance.end()) {
    return seed_or_default(given);
  }
  const std::uint64_t seed = parse_count(recorded->second, facts.source + ": " + seed_key);
  if (given && *given != seed) {
    warn(seed_differs(*given, seed));
  }
  return given.value_or(seed);
}

model::DeviceFacts facts_of_inquiry(model::DeviceFacts facts, std::uint64_t seed) {
  facts.provenance[seed_key] = std::to_string(seed);
  facts.provenance[program_key] = program_version();
  return facts;
}

bool is_of_inquiry(const model::DeviceFacts& facts) { return facts.provenance.contains(seed_key); }

}  // namespace gpuinfer::cli
