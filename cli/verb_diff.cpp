// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <set>

#include "cli/common_options.hpp"
#include "cli/document.hpp"
#include "cli/inquiry.hpp"
#include "cli/pieces.hpp"
#include "cli/profiles.hpp"
#include "cli/recordings.hpp"
#include "cli/survey/fleet.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "infer/comparing/description_difference.hpp"
#include "model/description/sections.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/yaml_tree.hpp"
#include "probe/archive.hpp"

namespace gpuinfer::cli {

Syntax diff_syntax() {
  Syntax syntax(
      "diff PROFILE [PROFILE...] [--target T] [--all]",
      "What two profiles say differently, a line for each leaf. Each is a file, the name of a published device, the "
      "recording\nof a run (HDF5), which is asked again, or FLEET@MEMBER, a device of a fleet by its id, serial or "
      "UUID. "
      "Of more than two, those of one device are taken as one, as `merge` does: they must be of two devices. "
      "Of a fleet alone:\nwhich devices deviate from the common profile, and in what. What means the same is the same: "
      "index functions that split "
      "the "
      "addresses alike,\npolicies that behave alike, intervals that overlap, timed values within the spread that the "
      "evidence has (without one:\nequal values). A leaf that only one of them knows is `less certain`. The exit "
      "status is "
      "1 when something differs;\nwhat is only less certain, and what is said of the devices, their noise and the "
      "provenance, does not count. The paths of virtual devices are not compared.",
      {"gpuinfer diff monday.yaml tuesday.yaml                      two runs on one GPU",
       "gpuinfer diff gtx780 gtx980 --target L1tex                  two published GPUs",
       "gpuinfer diff fleet.yaml                                    which devices of a fleet deviate",
       "gpuinfer diff fleet.yaml@3 fleet.yaml@17                    two of its devices",
       "gpuinfer diff gtx780 profile.yaml --format json             for scripts"});
  syntax.operands(ValueKind::descriptions);
  syntax.repeatable("target", target_value, "compare these only; may be repeated (default: all that either has)")
      .flag("all", "lines for what is the same, too");
  syntax.value("output,o", written_file, "write there (default: to stdout)")
      .value("format", "yaml|json", "all of it in this form, for scripts (default: a table)");
  return syntax;
}

namespace {

using infer::LeafDifference;
using infer::Verdict;

struct DeviceFact {
  std::string name;
  std::string first;  // empty: not there
  std::string second;
};

struct Differences {
  std::array<std::string, 2> files;
  std::vector<DeviceFact> device;  // that differ
  std::vector<LeafDifference> leaves;

  [[nodiscard]] std::size_t count(Verdict verdict) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(leaves, [verdict](const LeafDifference& leaf) { return leaf.verdict == verdict; }));
  }
};

// Of the run that made the recording.
model::DeviceDescription profile_of_recording(const std::string& file) {
  const auto device = probe::open_recording(file, "recorded:" + file);
  if (!is_of_inquiry(device->facts())) {
    throw InputError(file + ": is not a recording of a whole run; make a profile of it with `gpuinfer infer` first");
  }
  const std::vector<std::string> targets = offered_targets({{"all"}}, *device);
  infer::Settings settings;
  settings.seed = inference_seed(std::nullopt, device->facts());
  return inquire(*device, device->facts(), targets, settings, true).profile;
}

model::DeviceDescription profile_named(const std::string& name_or_file) {
  const std::string file = profile_file(name_or_file);
  return begins_as_hdf5(file) ? profile_of_recording(file) : read_profile(file);
}

struct Side {
  std::string files;
  model::DeviceDescription profile;
};

// Two profiles, also of one device; of more, those of each of the two devices that they are of.
std::array<Side, 2> sides_named(const std::vector<std::string>& names) {
  if (names.size() == 2) {
    return {Side{.files = names[0], .profile = profile_named(names[0])},
            Side{.files = names[1], .profile = profile_named(names[1])}};
  }
  std::vector<std::vector<infer::Piece>> devices;
  for (const std::string& name : names) {
    infer::Piece piece{.file = name, .description = profile_named(name)};
    const auto same = std::ranges::find_if(devices, [&](const std::vector<infer::Piece>& device) {
      return !infer::are_of_other_devices(device.front().description, piece.description);
    });
    (same == devices.end() ? devices.emplace_back() : *same).push_back(std::move(piece));
  }
  if (devices.size() != 2) {
    throw InputError(fmt::format(
        "of more than two profiles those of two devices are compared, and these are of {}; merge them first",
        devices.size()));
  }
  const auto side_of = [](const std::vector<infer::Piece>& device) {
    std::vector<std::string> files;
    for (const infer::Piece& piece : device) {
      files.push_back(piece.file);
    }
    return Side{.files = text_of_files(files), .profile = merged(device)};
  };
  return {side_of(devices[0]), side_of(devices[1])};
}

// What is said of the device and the program, by its rows.
std::map<std::string, std::string> facts_of(const model::DeviceDescription& profile) {
  std::map<std::string, std::string> facts;
  for (const auto& section : model::sections()) {
    if (section.is_found_out() || section.is_named || !section.values || section.names(profile).empty()) {
      continue;
    }
    const std::string prefix = section.key == "device" ? "" : std::string(section.key) + ".";
    for (const model::LeafValue& value : section.values(profile, section.key)) {
      const std::string name = prefix + std::string(value.leaf->name);
      const model::YamlNode node = model::parse_yaml(value.yaml, name);
      if (value.is_written && !value.leaf->has_free_names) {
        facts[name] = node.text;
      }
      for (const model::YamlEntry& entry : node.entries) {
        facts[name + "." + entry.key.text] = entry.value.text;
      }
    }
  }
  return facts;
}

std::vector<DeviceFact> different_facts(const model::DeviceDescription& first, const model::DeviceDescription& second) {
  auto a = facts_of(first);
  auto b = facts_of(second);
  std::map<std::string, std::string> names = a;
  names.insert(b.begin(), b.end());
  std::vector<DeviceFact> facts;
  for (const auto& [name, value] : names) {
    if (a[name] != b[name]) {
      facts.push_back({.name = name, .first = a[name], .second = b[name]});
    }
  }
  return facts;
}

std::vector<LeafDifference> of_targets(std::vector<LeafDifference> leaves, const std::vector<std::string>& asked) {
  if (asked.empty() || stands_for_all(asked)) {
    return leaves;
  }
  std::set<std::string> sections;
  for (const std::string& target : asked) {
    sections.emplace(section_of(target));
    const bool is_there =
        std::ranges::any_of(leaves, [&](const LeafDifference& leaf) { return leaf.section == section_of(target); });
    if (!is_there) {
      throw InputError("--target: " + target + " is in neither profile; leave it out to compare all that is");
    }
  }
  std::erase_if(leaves, [&](const LeafDifference& leaf) { return !sections.contains(leaf.section); });
  return leaves;
}

std::string cut(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}

// Rows of cells with as much room in each column as its widest cell takes.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string path_of(const LeafDifference& leaf) {
  return leaf.leaf.empty() ? leaf.section : leaf.section + "." + leaf.leaf;
}

std::string words_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::less_certain:
      return "less certain";
    case Verdict::open:
      return "not known";
    case Verdict::same:
    case Verdict::differs:
      break;
  }
  return std::string(to_string(verdict));
}

std::string table(const Differences& found, bool all) {
  constexpr std::size_t value_columns = 40;
  std::vector<std::vector<std::string>> rows;
  for (const LeafDifference& leaf : found.leaves) {
    const bool is_told = all || leaf.verdict == Verdict::differs || leaf.verdict == Verdict::less_certain;
    if (is_told) {
      const bool whole_section = leaf.leaf.empty();
      rows.push_back({path_of(leaf), words_of(leaf.verdict), whole_section ? "" : cut(leaf.first, value_columns),
                      whole_section ? "" : cut(leaf.second, value_columns), leaf.note});
    }
  }
  for (const DeviceFact& fact : found.device) {
    rows.push_back(
        {"device." + fact.name, "(not counted)", cut(fact.first, value_columns), cut(fact.second, value_columns)});
  }
  return aligned(rows) + fmt::format("{} differ, {} less certain, {} the same, {} known to neither\n",
                                     found.count(Verdict::differs), found.count(Verdict::less_certain),
                                     found.count(Verdict::same), found.count(Verdict::open));
}

Document value_of(const model::FlowYaml& value) {
  return Document::parse(model::to_json(model::parse_yaml(value, "value")));
}

Document document(const Differences& found, bool all) {
  Document document;
  document["first"] = found.files[0];
  document["second"] = found.files[1];
  for (const Verdict verdict : {Verdict::differs, Verdict::less_certain, Verdict::same, Verdict::open}) {
    document["counts"][std::string(to_string(verdict))] = found.count(verdict);
  }
  document["leaves"] = Document::array();
  for (const LeafDifference& leaf : found.leaves) {
    if (all || leaf.verdict == Verdict::differs || leaf.verdict == Verdict::less_certain) {
      Document entry;
      entry["section"] = leaf.section;
      entry["leaf"] = leaf.leaf.empty() ? Document(nullptr) : Document(leaf.leaf);
      entry["verdict"] = to_string(leaf.verdict);
      entry["first"] = value_of(leaf.first);
      entry["second"] = value_of(leaf.second);
      entry["note"] = leaf.note;
      document["leaves"].push_back(std::move(entry));
    }
  }
  document["device"] = Document::array();
  for (const DeviceFact& fact : found.device) {
    Document entry;
    entry["name"] = fact.name;
    entry["first"] = fact.first.empty() ? Document(nullptr) : Document(fact.first);
    entry["second"] = fact.second.empty() ? Document(nullptr) : Document(fact.second);
    document["device"].push_back(std::move(entry));
  }
  return document;
}

// One leaf that a device of a fleet has otherwise.
struct FleetRow {
  const survey::FleetMember* member;
  const survey::FleetLeaf* leaf;
  bool differs = false;  // else only one of them knows
};

survey::Fleet fleet_named(const std::string& file) {
  if (!survey::is_fleet(file)) {
    throw InputError(file + ": is no fleet, of which one alone could be compared; name two profiles");
  }
  return survey::read_fleet(file);
}

std::vector<FleetRow> rows_of(const survey::Fleet& fleet, const std::vector<std::string>& asked) {
  const bool all = asked.empty() || stands_for_all(asked);
  std::set<std::string_view> sections;
  for (const std::string& target : asked) {
    sections.insert(section_of(target));
  }
  std::vector<FleetRow> rows;
  for (const survey::FleetMember& member : fleet.members) {
    for (const bool differs : {true, false}) {
      for (const survey::FleetLeaf& leaf : differs ? member.differs : member.less_certain) {
        if (all || sections.contains(leaf.section)) {
          rows.push_back({.member = &member, .leaf = &leaf, .differs = differs});
        }
      }
    }
  }
  return rows;
}

std::size_t members_with(const std::vector<FleetRow>& rows, bool differs) {
  std::set<const survey::FleetMember*> members;
  for (const FleetRow& row : rows) {
    if (row.differs == differs) {
      members.insert(row.member);
    }
  }
  return members.size();
}

std::string table(const survey::Fleet& fleet, const std::vector<FleetRow>& rows) {
  constexpr std::size_t value_columns = 32;
  std::vector<std::vector<std::string>> cells;
  for (const FleetRow& row : rows) {
    const survey::FleetMember& member = *row.member;
    const std::string which = member.serial ? "serial " + *member.serial : member.uuid.value_or("");
    cells.push_back({member.id, member.device, member.host.value_or(""), which,
                     row.leaf->section + "." + row.leaf->leaf,
                     words_of(row.differs ? Verdict::differs : Verdict::less_certain),
                     cut(row.leaf->common, value_columns), cut(row.leaf->here, value_columns), row.leaf->note});
  }
  for (const survey::FleetMember& member : fleet.members) {
    if (member.failure) {
      cells.push_back({member.id, member.device, member.host.value_or(""), member.uuid.value_or(""), "(not counted)",
                       *member.failure});
    }
  }
  return aligned(cells) + fmt::format("{} of {} devices deviate, {} know more or less than the common profile\n",
                                      members_with(rows, true), fleet.members.size(), members_with(rows, false));
}

Document document(const survey::Fleet& fleet, const std::vector<FleetRow>& rows) {
  Document document{{"fleet", fleet.file},
                    {"devices", fleet.members.size()},
                    {"deviating", members_with(rows, true)},
                    {"leaves", Document::array()}};
  for (const FleetRow& row : rows) {
    document["leaves"].push_back({{"id", row.member->id},
                                  {"device", row.member->device},
                                  {"host", value_or_null(row.member->host)},
                                  {"serial", value_or_null(row.member->serial)},
                                  {"uuid", value_or_null(row.member->uuid)},
                                  {"section", row.leaf->section},
                                  {"leaf", row.leaf->leaf},
                                  {"verdict", to_string(row.differs ? Verdict::differs : Verdict::less_certain)},
                                  {"common", value_of(row.leaf->common)},
                                  {"here", value_of(row.leaf->here)},
                                  {"note", row.leaf->note}});
  }
  return document;
}

}  // namespace

ExitStatus verb_diff(Arguments arguments) {
  const auto parsed = diff_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Format format = format_from(parsed->text("format"));
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  const bool all = parsed->flag("all");
  Output output(parsed->text("output"));

  const std::vector<std::string> names = parsed->operands();
  if (names.size() == 1) {
    const survey::Fleet fleet = fleet_named(names.front());
    const std::vector<FleetRow> rows = rows_of(fleet, asked);
    output.stream() << (parsed->text("format") ? to_text(document(fleet, rows), format) : table(fleet, rows));
    output.finish();
    const bool deviates = std::ranges::any_of(rows, &FleetRow::differs);
    return deviates ? ExitStatus::failure : ExitStatus::resolved;
  }
  const std::array<Side, 2> sides = sides_named(names);
  const model::DeviceDescription& first = sides[0].profile;
  const model::DeviceDescription& second = sides[1].profile;
  const Differences found{.files = {sides[0].files, sides[1].files},
                          .device = different_facts(first, second),
                          .leaves = of_targets(infer::differences(first, second), asked)};

  output.stream() << (parsed->text("format") ? to_text(document(found, all), format) : table(found, all));
  output.finish();
  return found.count(Verdict::differs) > 0 ? ExitStatus::failure : ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
