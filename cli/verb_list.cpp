// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <vector>

#include "cli/data_files.hpp"
#include "cli/devices/kind.hpp"
#include "cli/formats/format.hpp"
#include "cli/formats/leaf_rows.hpp"
#include "cli/nearest_word.hpp"
#include "cli/profiles.hpp"
#include "cli/sequence_option.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"
#include "model/policy_classes.hpp"

namespace gpuinfer::cli {

Syntax list_syntax() {
  Syntax syntax(
      "list [devices | profiles | targets | policies | experiments | formats]",
      "Names, one in a line, as the options take them; of devices also what they are and which targets they offer, of "
      "profiles\nwhat they are of, how many of their leaves are known, and of which targets.",
      {"gpuinfer list devices                                       what --device can name here",
       "gpuinfer list profiles                                      published GPUs, and how much of each is known",
       "gpuinfer list policies --classes --ways 4                   which policies are the same thing",
       "gpuinfer list                                               everything"});
  syntax
      .flag("classes",
            "of policies: those with known parameters that are not random, and behave alike in a set that "
            "begins empty, in one line; the first lends its name")
      .value("ways", "N", "of that set (default 8, at most 128); up to 6, `alike` is exact");
  return syntax;
}

namespace {

constexpr std::uint32_t default_ways = 8;
constexpr std::uint32_t most_exact_ways = 6;  // each one more takes four times as long
constexpr std::uint32_t most_ways = 128;

void list_line(std::string_view name, std::string_view what) { std::cout << fmt::format("{:<28}  {}\n", name, what); }

void list_devices() {
  for (const DeviceKind& kind : device_kinds()) {
    for (const ListedDevice& device : kind.list == nullptr ? std::vector<ListedDevice>{} : kind.list()) {
      list_line(device.address, fmt::format("{:<45}  {}", device.what, fmt::join(device.targets, " ")));
    }
  }
}

// `name`: as users write it.
void list_profile(const std::string& name) {
  const model::DeviceDescription profile = read_profile(profile_file(name));
  std::vector<std::string> sections;
  std::size_t known = 0;
  std::size_t all = 0;
  for (const LeafRow& row : leaves_found_out(profile)) {
    if (std::ranges::find(sections, row.section) == sections.end()) {
      sections.push_back(row.section);
    }
    ++all;
    known += row.is_known ? 1U : 0U;
  }
  list_line(name, fmt::format("{:<45}  {:>3} of {:>3} leaves known  {}", profile.device.name, known, all,
                              fmt::join(sections, " ")));
}

void list_profiles() {
  for (const std::string& name : described_device_names(described_gpus)) {
    list_profile(name);
  }
  for (const std::filesystem::path& file : bundled_profiles()) {
    list_profile(file.string());
  }
}

void list_targets() {
  for (const Target& target : known_targets()) {
    list_line(target.name, target.what);
  }
}

void list_policies() {
  for (const std::string_view name : model::policy_names()) {
    std::cout << name << '\n';
  }
}

// Without end where that takes less than a second, and else as far as a second goes.
model::ComparisonLimits limits_at(std::uint32_t ways) {
  return {.pairs_of_states = std::size_t{1} << (ways <= most_exact_ways ? 20U : 11U)};
}

std::string class_line(const model::PolicyClass& alike) {
  std::string line;
  for (const model::Replacement& member : alike.members) {
    line += (line.empty() ? "" : " = ") + to_text(member);
  }
  if (alike.depth_accesses) {
    line += fmt::format("  (in {} accesses at least)", *alike.depth_accesses);
  }
  return line;
}

// Policies of which none was compared, because their parameters are not known beforehand.
std::string left_out(const std::vector<model::Replacement>& compared) {
  std::string names;
  for (const std::string_view name : model::policy_names()) {
    if (std::none_of(compared.begin(), compared.end(), [name](const auto& each) { return each.policy == name; })) {
      const bool by_chance =
          !model::is_deterministic({.policy = std::string(name), .parameters = {}, .equivalent = {}});
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, by_chance ? "chance" : "has to be measured");
    }
  }
  return names;
}

void list_policy_classes(std::uint32_t ways) {
  const std::vector<model::Replacement> policies = model::guessed_policies({ways});
  const std::vector<model::PolicyClass> classes = model::policy_classes(ways, policies, limits_at(ways));
  for (const model::PolicyClass& alike : classes) {
    std::cout << class_line(alike) << '\n';
  }
  const bool is_exact = std::none_of(classes.begin(), classes.end(),
                                     [](const model::PolicyClass& alike) { return alike.depth_accesses.has_value(); });
  note(fmt::format("{} policies are {} classes in a set of {} ways, {}; left out: {}", policies.size(), classes.size(),
                   ways, is_exact ? "exactly" : "alike as far as their lines say", left_out(policies)));
}

// None: names only.
std::optional<std::uint32_t> ways_of_classes(const Parsed& parsed) {
  const std::vector<std::string> asked = parsed.operands();
  const auto ways = parsed.count("ways");
  if (ways && !parsed.flag("classes")) {
    throw InputError("--ways: needs --classes; add that");
  }
  if (!parsed.flag("classes")) {
    return std::nullopt;
  }
  if (asked != std::vector<std::string>{"policies"}) {
    throw InputError("--classes: is of policies; write `gpuinfer list policies --classes`");
  }
  if (ways && (*ways == 0 || *ways > most_ways)) {
    throw InputError(fmt::format("--ways: must be from 1 to {}, and is {}", most_ways, *ways));
  }
  return static_cast<std::uint32_t>(ways.value_or(default_ways));
}

void list_experiments() {
  for (const SequenceForm& form : sequence_forms()) {
    list_line(form.form, form.what);
  }
}

void list_formats() {
  for (const ExportFormat& format : export_formats()) {
    list_line(format.name, format.what);
  }
}

struct List {
  std::string_view name;
  void (*print)();
};

constexpr std::array lists{List{"devices", list_devices},         List{"profiles", list_profiles},
                           List{"targets", list_targets},         List{"policies", list_policies},
                           List{"experiments", list_experiments}, List{"formats", list_formats}};

}  // namespace

ExitStatus verb_list(Arguments arguments) {
  const auto parsed = list_syntax().parse(arguments, 0, 1);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  if (const auto ways = ways_of_classes(*parsed)) {
    list_policy_classes(*ways);
    return ExitStatus::resolved;
  }
  const std::vector<std::string> asked = parsed->operands();
  bool found = false;
  for (const List& list : lists) {
    if (asked.empty()) {
      std::cout << list.name << ":\n";
    }
    if (asked.empty() || asked.front() == list.name) {
      list.print();
      found = true;
    }
  }
  if (!found) {
    std::vector<std::string> names;
    std::ranges::transform(lists, std::back_inserter(names), [](const List& list) { return std::string(list.name); });
    throw InputError(fmt::format("`{}` is not a list{}; lists are {}", asked.front(),
                                 did_you_mean(asked.front(), names), fmt::join(names, ", ")));
  }
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
