// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_path.hpp"

#include <fmt/format.h>

#include <iterator>

#include "cli/described.hpp"
#include "model/errors.hpp"
#include "model/hierarchy.hpp"

namespace gpuinfer::cli {

namespace {

// Empty where the cache that had the data lies in one piece, and for memory.
std::string_view partition_name(const model::DeviceDescription& device, const model::PathDescription& path,
                                const model::AccessClass& access) {
  if (!access.cache || !device.caches.at(path.caches.at(*access.cache)).partitions) {
    return "";
  }
  return access.far ? "far" : "near";
}

std::string rows(const model::DeviceDescription& device, const std::string& path_name,
                 const std::vector<model::Question>& questions, model::Address address, std::uint64_t seed) {
  const model::PathDescription& path = device.paths.at(path_name);
  const model::PathLatencies latencies(device, path_name);
  model::HierarchySimulator simulator(device, path_name, seed);
  std::string csv = "access,offset,data,translation,window_switch,pattern,latency_cycles,source,partition\n";
  std::size_t access = 0;
  for (const model::Question& question : questions) {
    const std::vector<model::AccessClass> classes = model::classes_of(simulator, question, address);
    for (std::size_t i = 0; i < classes.size(); ++i, ++access) {
      const model::ClassLatency latency = latencies.of(classes[i]);
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{}\n", access, question.record[i],
                     model::data_name(path, classes[i]), model::translation_name(path, classes[i]),
                     classes[i].translation == model::Translation::walk_with_switch ? 1 : 0,
                     latency.pattern ? model::to_string(*latency.pattern) : "", latency.cycles,
                     latency.derived ? "derived" : "published", partition_name(device, path, classes[i]));
    }
  }
  return csv;
}

}  // namespace

void write_path_rows(std::ostream& out, const model::DeviceDescription& device, const std::string& file,
                     const std::string& path, const std::vector<model::Question>& questions, model::Address address,
                     std::uint64_t seed) {
  static_cast<void>(described(device.paths, path, "--path", file));
  try {
    out << rows(device, path, questions, address, seed);
  } catch (const InputError& error) {
    throw InputError(file + ": " + error.what());
  }
}

}  // namespace gpuinfer::cli
