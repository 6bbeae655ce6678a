// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <vector>

#include "cli/data_files.hpp"
#include "cli/sequence_option.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "probe/cuda.hpp"

namespace gpuinfer::cli {

namespace {

Syntax syntax() {
  return {"list [devices | targets | policies | experiments]",
          "Names, one in a line, as the options take them.",
          {"gpuinfer list devices                                       what --device can name here",
           "gpuinfer list                                               everything"}};
}

void list_line(std::string_view name, std::string_view what) { std::cout << fmt::format("{:<28}  {}\n", name, what); }

void list_devices() {
  const std::vector<std::string> gpus = probe::cuda_device_names();
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    list_line(fmt::format("cuda:{}", i), gpus[i]);
  }
  for (const std::string& name : data_file_names("configs/devices", ".yaml")) {
    list_line("virtual:" + name, model::read_description(description_file(name)).device.name);
  }
  if (const auto recording = find_data_file("data/h200/L1tex.h5")) {
    list_line("recorded:" + recording->string(), "bundled recording");
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

void list_experiments() {
  for (const SequenceForm& form : sequence_forms()) {
    list_line(form.form, form.what);
  }
}

struct List {
  std::string_view name;
  void (*print)();
};

constexpr std::array lists{List{"devices", list_devices}, List{"targets", list_targets},
                           List{"policies", list_policies}, List{"experiments", list_experiments}};

}  // namespace

ExitStatus verb_list(Arguments arguments) {
  const auto parsed = syntax().parse(arguments, 0, 1);
  if (!parsed) {
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
    throw InputError("`" + asked.front() + "` is no list; lists are devices, targets, policies, experiments");
  }
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
