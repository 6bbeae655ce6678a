// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/formats/accelsim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "cli/file_text.hpp"
#include "cli/formats/device_facts.hpp"
#include "cli/formats/gpgpusim_options.hpp"
#include "cli/leaf_table.hpp"
#include "cli/output.hpp"
#include "model/errors.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::cli {

namespace {

// A line of a configuration, or the lines of one whose value stands in quotes.
struct BaseLine {
  std::string text;
  std::string name;   // of an option, with its dash; empty: a comment, or nothing
  std::string value;  // without quotes and blanks around it
};

std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\"";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

bool ends_in_quotes(const std::string& text) { return std::ranges::count(text, '"') % 2 != 0; }

std::vector<BaseLine> lines_of(const std::string& text) {
  std::vector<BaseLine> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    for (std::string more; line.starts_with('-') && ends_in_quotes(line) && std::getline(stream, more);) {
      line += '\n' + more;
    }
    BaseLine& entry = lines.emplace_back(BaseLine{.text = line, .name = {}, .value = {}});
    if (line.starts_with('-')) {
      const std::string told = line.substr(0, line.find('#'));
      const std::size_t blank = std::min(told.find_first_of(" \t"), told.size());
      entry.name = told.substr(0, blank);
      entry.value = trimmed(told.substr(blank));
    }
  }
  return lines;
}

using OptionValues = std::map<std::string, std::string>;

OptionValues values_of(const std::vector<BaseLine>& lines) {
  OptionValues values;
  for (const BaseLine& line : lines) {
    if (!line.name.empty()) {
      values[line.name] = line.value;
    }
  }
  return values;
}

std::string value_of(const OptionValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(trimmed(part));
  }
  return parts;
}

// Core, network, L2 and memory, in MHz.
std::optional<std::array<double, 4>> clocks_of(const OptionValues& values) {
  const std::vector<std::string> texts = split(value_of(values, "-gpgpu_clock_domains"), ':');
  std::array<double, 4> clocks{};
  if (texts.size() != clocks.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const auto clock = model::number_from<double>(texts[i]);
    if (!clock || *clock <= 0) {
      return std::nullopt;
    }
    clocks[i] = *clock;
  }
  return clocks;
}

// Those of the profile; a clock that was as fast as that of the SMs still is.
std::optional<std::array<double, 4>> new_clocks(const model::DeviceDescription& profile, const OptionValues& values) {
  auto clocks = clocks_of(values);
  const auto sm_mhz = told_number(profile, "sm_clock_mhz");
  const auto memory_mhz = told_number(profile, "memory_clock_mhz");
  if (!clocks || (!sm_mhz && !memory_mhz)) {
    return clocks;
  }
  if (sm_mhz) {
    const double before = clocks->front();
    std::ranges::replace(*clocks, before, static_cast<double>(*sm_mhz));
  }
  if (memory_mhz) {
    clocks->back() = static_cast<double>(*memory_mhz);
  }
  return clocks;
}

// What a read of a closed row takes besides -dram_latency, in cycles of an SM: chases in Accel-Sim 1.3 take tRCD, tCL
// and so many cycles of the memory.
std::optional<GpgpusimBase::DramCycles> dram_cycles(const OptionValues& values,
                                                    const std::optional<std::array<double, 4>>& clocks) {
  constexpr double other_memory_cycles = 5;
  constexpr double memory_cycles_of_further_sector = 2;
  if (!clocks || value_of(values, "-gpgpu_simple_dram_model") == "1") {
    return std::nullopt;
  }
  double cycles = other_memory_cycles;
  unsigned found = 0;
  for (const std::string& timing : split(value_of(values, "-gpgpu_dram_timing_opt"), ':')) {
    if (timing.starts_with("RCD=") || timing.starts_with("CL=")) {
      const auto number = model::number_from<unsigned>(timing.substr(timing.find('=') + 1));
      cycles += number.value_or(0);
      found += number ? 1U : 0U;
    }
  }
  if (found != 2) {
    return std::nullopt;
  }
  const double sm_cycles = clocks->front() / clocks->back();
  return GpgpusimBase::DramCycles{.sector = cycles * sm_cycles,
                                  .further_sector = memory_cycles_of_further_sector * sm_cycles};
}

GpgpusimBase base_of(const OptionValues& values, const std::optional<std::array<double, 4>>& clocks,
                     unsigned simulator) {
  GpgpusimBase base;
  base.is_whole = true;
  const auto channels = model::number_from<std::uint64_t>(value_of(values, "-gpgpu_n_mem"));
  const auto parts = model::number_from<std::uint64_t>(value_of(values, "-gpgpu_n_sub_partition_per_mchannel"));
  if (channels && parts && *channels > 0 && *parts > 0) {
    base.parts = *channels * *parts;
    base.parts_of_channel = *parts;
  }
  // Accel-Sim 2 deals channels out to the parts of a chip. Accel-Sim 1 divides by any number of them, unless the
  // mapping names the bits that choose one.
  const std::string mapping = value_of(values, "-gpgpu_mem_addr_mapping");
  base.takes_any_channels = simulator == 1 && (mapping.empty() || mapping.starts_with("dramid@"));
  if (!values.empty()) {
    const std::string indexing = value_of(values, "-gpgpu_memory_partition_indexing");
    base.partition_indexing = model::number_from<std::uint64_t>(indexing).value_or(0);
  }
  for (const auto& [name, value] : values) {
    if (name.find("cache:") != std::string::npos) {
      if (const auto cache = gpgpusim_cache_from(value)) {
        base.caches.emplace(name, *cache);
      }
    }
  }
  base.dram_cycles = dram_cycles(values, clocks);
  return base;
}

std::string clock_text(double clock) { return fmt::format("{:g}", clock); }

// Which SMs are near to which half of the L2: where a base of Accel-Sim 2 has two ways to say it, the better one.
void add_nearness(const model::Partitions& partitions, const OptionValues& values,
                  std::vector<GpgpusimOption>& options) {
  const std::string option = "-gpgpu_chiplet_interleave";
  if (partitions.sms.size() != 2 || !values.contains(option)) {
    options.back().losses.push_back({.where = "caches.L2.partitions.sms",
                                     .what = "which SMs are near to which has an option for halves alone, " + option +
                                             ", which the base has to have"});
    return;
  }
  constexpr std::size_t sms_of_tpc = 2;
  const std::size_t sms = partitions.sms[0].size() + partitions.sms[1].size();
  // SMs on the side that the profile has them on; either half may be the simulator's first.
  const auto alike = [&](const auto& half_of) {
    std::size_t same = 0;
    for (std::size_t half = 0; half < 2; ++half) {
      same += static_cast<std::size_t>(std::ranges::count_if(
          partitions.sms[half], [&](model::ComputeUnit sm) { return half_of(number_of(sm)) == half; }));
    }
    return std::max(same, sms - same);
  };
  const std::size_t in_order = alike([&](std::size_t sm) { return sm < sms / 2 ? 0U : 1U; });
  const std::size_t in_turn = alike([](std::size_t sm) { return sm / sms_of_tpc % 2; });
  options.push_back({.name = option,
                     .value = in_turn > in_order ? "1" : "0",
                     .what = "1: pairs of SMs take turns between the halves, 0: the first half of them is near to one",
                     .losses = {}});
  if (std::max(in_order, in_turn) < sms) {
    options.back().losses.push_back(
        {.where = "caches.L2.partitions.sms",
         .what = fmt::format("{} of {} SMs are near to the half that they are near to in the GPU",
                             std::max(in_order, in_turn), sms)});
  }
  options.back().losses.push_back(
      {.where = "caches.L2.partitions.far_cycles",
       .what = "left to -inter_chiplet_queue_latency of the base; what a far hit then takes was not measured"});
}

// Options that the fragment leaves to its base.
std::vector<GpgpusimOption> options_of_device(const model::DeviceDescription& profile, const OptionValues& values,
                                              unsigned simulator) {
  std::vector<GpgpusimOption> options;
  const auto add = [&](std::string name, std::string value, std::string what, std::vector<ExportLoss> losses = {}) {
    options.push_back({.name = std::move(name), .value = std::move(value), .what = std::move(what), .losses = losses});
  };
  if (profile.device.sm_count) {
    add("-gpgpu_n_clusters", std::to_string(*profile.device.sm_count), "SMs");
    add("-gpgpu_n_cores_per_cluster", "1", "each SM has a port to the network of its own");
  }
  const auto before = clocks_of(values);
  const auto clocks = new_clocks(profile, values);
  if (clocks && clocks != before) {
    add("-gpgpu_clock_domains",
        fmt::format("{}:{}:{}:{}", clock_text((*clocks)[0]), clock_text((*clocks)[1]), clock_text((*clocks)[2]),
                    clock_text((*clocks)[3])),
        "SMs and memory, MHz; network and L2 as fast as SMs where the base has them so");
  }
  if (const auto capability = compute_capability(profile)) {
    add("-gpgpu_compute_capability_major", std::to_string(capability->major), "compute capability");
    add("-gpgpu_compute_capability_minor", std::to_string(capability->minor), "compute capability");
  }
  if (const SmLimits* const limits = sm_limits(profile)) {
    const std::string what = "of compute capability " + *profile.device.compute_capability;
    add("-gpgpu_shader_core_pipeline", fmt::format("{}:{}", limits->max_threads, warp_threads), "threads " + what);
    add("-gpgpu_shader_cta", std::to_string(limits->max_blocks), "blocks " + what);
    add("-gpgpu_shader_registers", std::to_string(limits->registers), "registers " + what);
    add("-gpgpu_registers_per_block", std::to_string(std::min(limits->registers, max_registers_per_block)),
        "registers " + what);
    add("-gpgpu_num_sched_per_core", std::to_string(limits->schedulers), "warp schedulers " + what);
    // Schedulers with units of their own are as many as the first width says (shader.cc, create_front_pipeline).
    const std::string sub_cores = "-gpgpu_sub_core_model";
    const auto width =
        model::number_from<unsigned>(split(value_of(values, "-gpgpu_pipeline_widths") + ',', ',').front());
    if (value_of(values, sub_cores) == "1" && width && *width != limits->schedulers) {
      add(sub_cores, "0", "the schedulers have all units in common",
          {{.where = sub_cores,
            .what = fmt::format("the pipelines of the base are for {} schedulers, and these are {}", *width,
                                limits->schedulers)}});
    }
  }
  const auto l2 = profile.caches.find("L2");
  if (simulator > 1 && l2 != profile.caches.end() && l2->second.partitions && !l2->second.partitions->sms.empty()) {
    add("-gpgpu_n_chiplet_partition", std::to_string(l2->second.partitions->sms.size()), "parts of the L2");
    add_nearness(*l2->second.partitions, values, options);
  }
  return options;
}

std::string why_kept(const std::string& name) {
  constexpr std::array reasons{std::pair{"opcode", "latencies of instructions are not measured"},
                               std::pair{"specialized_unit", "latencies of instructions are not measured"},
                               std::pair{"dram", "the memory behind L2 is not taken apart"},
                               std::pair{"mem_addr", "the memory behind L2 is not taken apart"},
                               std::pair{"icnt", "the network is not taken apart"},
                               std::pair{"network", "the network is not taken apart"},
                               std::pair{"inter_", "the network is not taken apart"},
                               std::pair{"scheduler", "warp scheduling is not measured"},
                               std::pair{"operand", "registers are not measured"},
                               std::pair{"reg_", "registers are not measured"},
                               std::pair{"stat", "what the simulation prints"},
                               std::pair{"visualizer", "what the simulation prints"},
                               std::pair{"power", "power is not measured"},
                               std::pair{"cache", "nothing is known that would change it"}};
  const auto* const found =
      std::ranges::find_if(reasons, [&](const auto& reason) { return name.find(reason.first) != std::string::npos; });
  return found == reasons.end() ? "not measured" : found->second;
}

std::string kept(const BaseLine& line) { return line.text + "  # kept: " + why_kept(line.name) + '\n'; }

std::string comment(const std::string& text) { return wrapped(on_one_line(text), "# "); }

class Configuration {
 public:
  Configuration(const model::DeviceDescription& profile, const std::optional<AccelsimBase>& base)
      : profile_(profile), base_(base) {
    if (base_) {
      lines_ = lines_of(base_->gpgpusim_config);
    }
  }

  AccelsimConfiguration write() {
    const OptionValues values = values_of(lines_);
    const unsigned simulator = base_ ? base_->simulator : 1;
    const GpgpusimBase simulated = base_of(values, new_clocks(profile_, values), simulator);
    options_ = options_of_device(profile_, values, simulator);
    GpgpusimOptions known = gpgpusim_options(profile_, simulated);
    for (GpgpusimOption& option : known.options) {
      if (option.is_known) {
        options_.push_back(std::move(option));
      }
    }
    write_head();
    write_lines();
    write_added();
    write_left_out(known.losses);
    return {.gpgpusim_config = std::move(exported_), .trace_config = trace_config()};
  }

 private:
  void write_head() {
    exported_.text = comment(profile_.device.name + " (" + profile_.device.source + ") for Accel-Sim " +
                             (base_ && base_->simulator > 1 ? "2" : "1") + ".x, by gpuinfer") +
                     comment(base_ ? "Over a base configuration: each line of it is kept or replaced, and says why."
                                   : "What is known. All else needs a base configuration, see --base.");
    if (!base_) {
      exported_.losses.push_back(
          {.where = "--base", .what = "not given; options of which nothing is known are lacking"});
    } else if (base_->simulator > 1) {
      exported_.losses.push_back(
          {.where = "latencies", .what = "what the simulator adds is as in Accel-Sim 1.3, which was measured"});
    }
  }

  void write_option(const GpgpusimOption& option, const std::optional<std::string>& before) {
    const std::string what =
        before ? (*before == option.value ? "As before" : "Was " + *before) + ": " + option.what : option.what;
    exported_.text += comment(what);
    for (const ExportLoss& loss : option.losses) {
      exported_.text += wrapped(on_one_line(to_text(loss)), "#   ");
      exported_.losses.push_back(loss);
    }
    exported_.text += fmt::format("{} {}\n", option.name, option.value);
  }

  void write_lines() {
    for (const BaseLine& line : lines_) {
      const auto option = std::ranges::find(options_, line.name, &GpgpusimOption::name);
      if (line.name.empty()) {
        exported_.text += line.text + '\n';
      } else if (option == options_.end()) {
        exported_.text += kept(line);
      } else {
        write_option(*option, line.value);
        option->losses.clear();  // told once
      }
    }
  }

  void write_added() {
    const OptionValues values = values_of(lines_);
    bool first = true;
    for (const GpgpusimOption& option : options_) {
      if (!values.contains(option.name)) {
        exported_.text += first ? "\n# Added\n" : "";
        first = false;
        write_option(option, std::nullopt);
      }
    }
  }

  void write_left_out(const std::vector<ExportLoss>& losses) {
    if (!losses.empty()) {
      exported_.text += "\n# Known, without an option:\n";
    }
    for (const ExportLoss& loss : losses) {
      exported_.text += wrapped(on_one_line(to_text(loss)), "#   ");
      exported_.losses.push_back(loss);
    }
  }

  [[nodiscard]] std::optional<std::string> trace_config() const {
    if (!base_ || !base_->trace_config) {
      return std::nullopt;
    }
    std::string text;
    for (const BaseLine& line : lines_of(*base_->trace_config)) {
      text += line.name.empty() ? line.text + '\n' : kept(line);
    }
    return text;
  }

  const model::DeviceDescription& profile_;
  const std::optional<AccelsimBase>& base_;
  std::vector<BaseLine> lines_;
  std::vector<GpgpusimOption> options_;
  Exported exported_;
};

}  // namespace

AccelsimConfiguration accelsim_configuration(const model::DeviceDescription& profile,
                                             const std::optional<AccelsimBase>& base) {
  return Configuration(profile, base).write();
}

AccelsimBase read_accelsim_base(const std::string& folder, unsigned simulator) {
  auto config = file_text(std::filesystem::path(folder) / "gpgpusim.config");
  if (!config) {
    throw InputError("--base " + folder + ": has no gpgpusim.config; name a folder with the configuration of a GPU");
  }
  return {.gpgpusim_config = std::move(*config),
          .trace_config = file_text(std::filesystem::path(folder) / "trace.config"),
          .simulator = simulator};
}

void write_accelsim(const AccelsimConfiguration& configuration, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) {
    throw InputError("-o " + folder + ": the folder cannot be made; check its name and permissions");
  }
  const auto write = [&](const char* name, const std::string& text) {
    Output output((std::filesystem::path(folder) / name).string());
    output.stream() << text;
    output.finish();
  };
  write("gpgpusim.config", configuration.gpgpusim_config.text);
  if (configuration.trace_config) {
    write("trace.config", *configuration.trace_config);
  }
}

Exported export_accelsim(const model::DeviceDescription& profile) {
  return accelsim_configuration(profile, std::nullopt).gpgpusim_config;
}

}  // namespace gpuinfer::cli
