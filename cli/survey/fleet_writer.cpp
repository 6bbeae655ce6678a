// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/fleet_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "cli/document.hpp"
#include "cli/survey/fleet.hpp"
#include "model/description/tree.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::cli::survey {

namespace {

model::FlowYaml flow(const Document& node) {
  if (node.is_object()) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [key, value] : node.items()) {
      entries.emplace_back(model::to_yaml_scalar(key), flow(value));
    }
    return model::flow_map(entries);
  }
  if (node.is_array()) {
    std::vector<std::string> items;
    for (const Document& item : node) {
      items.push_back(flow(item));
    }
    return model::flow_list(items);
  }
  if (node.is_string()) {
    return model::to_yaml_scalar(node.get<std::string>());
  }
  return node.is_number_float() ? model::to_text(node.get<double>()) : model::json_text(node);
}

bool is_list_of_maps(const Document& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

// Sections one after the other, entries of lists as they come.
class FleetStream {
 public:
  FleetStream(std::ostream& out, Format format) : out_(&out), format_(format) { *out_ << (is_yaml() ? "" : "{\n"); }

  void value(const std::string& key, const Document& value) {
    begin(key);
    *out_ << (is_yaml() ? " " + flow(value) : " " + model::json_text(value)) << (is_yaml() ? "\n" : "");
  }

  void profile(const model::DeviceDescription& profile) {
    begin("profile");
    if (!is_yaml()) {
      *out_ << ' ' << model::to_json(profile);
      return;
    }
    *out_ << '\n';
    const std::string yaml = model::to_yaml(profile);
    for (std::size_t start = 0; start < yaml.size();) {
      const std::size_t end = std::min(yaml.find('\n', start), yaml.size());
      *out_ << "  " << std::string_view(yaml).substr(start, end - start) << '\n';
      start = end + 1;
    }
  }

  // What `write` hands to its argument.
  void list(const std::string& key, const std::function<void(const std::function<void(const Document&)>&)>& write) {
    begin(key);
    bool any = false;
    write([&](const Document& entry) {
      if (is_yaml()) {
        *out_ << (any ? "" : "\n");
        entry_in_yaml(entry);
      } else {
        *out_ << (any ? ",\n    " : " [\n    ") << model::json_text(entry);
      }
      any = true;
    });
    if (is_yaml()) {
      *out_ << (any ? "" : " []\n");
    } else {
      *out_ << (any ? "\n  ]" : " []");
    }
  }

  void end() { *out_ << (is_yaml() ? "" : "\n}\n"); }

 private:
  [[nodiscard]] bool is_yaml() const { return format_ == Format::yaml; }

  void begin(const std::string& key) {
    if (is_yaml()) {
      *out_ << key << ':';
    } else {
      *out_ << (is_first_ ? "  \"" : ",\n  \"") << key << "\":";
    }
    is_first_ = false;
  }

  // On one line, unless there are lists of maps in it.
  void entry_in_yaml(const Document& entry) {
    bool has_lists = false;
    for (const Document& value : entry) {
      has_lists = has_lists || is_list_of_maps(value);
    }
    if (!has_lists) {
      *out_ << "  - " << flow(entry) << '\n';
      return;
    }
    bool is_first = true;
    for (const auto& [key, value] : entry.items()) {
      *out_ << (is_first ? "  - " : "    ") << key << ':';
      is_first = false;
      if (!is_list_of_maps(value)) {
        *out_ << ' ' << flow(value) << '\n';
        continue;
      }
      *out_ << '\n';
      for (const Document& item : value) {
        *out_ << "      - " << flow(item) << '\n';
      }
    }
  }

  std::ostream* out_;
  Format format_;
  bool is_first_ = true;
};

Document document_of(const model::YamlNode& node) { return Document::parse(model::to_json(node)); }
Document document_of(const model::FlowYaml& value) { return document_of(model::parse_yaml(value, "value")); }

Document or_null(const std::optional<std::string>& text) { return text ? Document(*text) : Document(nullptr); }

Document identity_of(std::size_t id, const Task& task, const Identity* identity) {
  return {{"id", id},
          {"device", task.device},
          {"name", identity == nullptr ? Document(nullptr) : Document(identity->name)},
          {"host", identity == nullptr ? or_null(task.host) : Document(identity->host)},
          {"serial", identity == nullptr ? Document(nullptr) : or_null(identity->serial)},
          {"uuid", identity == nullptr ? or_null(task.uuid) : or_null(identity->uuid)},
          {"pci_bus_id", identity == nullptr ? Document(nullptr) : or_null(identity->pci_bus_id)}};
}

Document leaves_of(const std::vector<infer::LeafDifference>& differences, const model::YamlNode& tree) {
  Document leaves = Document::array();
  for (const infer::LeafDifference& difference : differences) {
    Document leaf{{"section", difference.section}, {"leaf", difference.leaf}};
    leaf["common"] = document_of(difference.first);
    leaf["here"] = document_of(difference.second);
    if (!difference.note.empty()) {
      leaf["note"] = difference.note;
    }
    if (const model::YamlNode* const evidence = model::find(tree, "evidence", difference.section, difference.leaf)) {
      leaf["evidence"] = document_of(*evidence);
    }
    if (const model::YamlNode* const prediction = model::find(tree, "evidence", difference.section, "prediction")) {
      leaf["prediction"] = document_of(*prediction);
    }
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

enum class Standing : std::uint8_t { failed, common, deviating, less_certain };

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::failed:
      return "failed";
    case Standing::common:
      return "common";
    case Standing::deviating:
      return "deviates";
    case Standing::less_certain:
      break;
  }
  return "less_certain";
}

class FleetWriter {
 public:
  FleetWriter(std::ostream& out, Format format, const Surveyed& surveyed, const Parts& parts, const Merge& merge)
      : stream_(out, format), surveyed_(&surveyed), parts_(&parts), merge_(&merge),
        standings_(surveyed.tasks.size(), Standing::failed) {}

  FleetCounts write() {
    judge_all();
    stream_.value("schema", fleet_schema);
    write_survey();
    if (common_) {
      stream_.profile(*common_);
    }
    Document measured = Document::object();
    for (const auto& [place, spread] : merge_->spreads()) {
      measured[place] = {
          {"median", spread.median}, {"tolerance", spread.tolerance}, {"least", spread.least}, {"most", spread.most}};
    }
    stream_.list("measured", [&](const auto& entry) {
      for (const auto& [place, spread] : measured.items()) {
        Document line{{"where", place}};
        line.update(spread);
        entry(line);
      }
    });
    write_deviating("deviations", Standing::deviating);
    write_deviating("less_certain", Standing::less_certain);
    stream_.list("failures", [&](const auto& entry) {
      for (std::size_t id = 0; id < standings_.size(); ++id) {
        if (standings_[id] == Standing::failed) {
          Document line = identity_of(id, surveyed_->tasks[id], nullptr);
          const auto why = surveyed_->failures.find(id);
          line["why"] = why == surveyed_->failures.end() ? "was not asked before the survey ended" : why->second;
          entry(line);
        }
      }
    });
    stream_.list("devices", [&](const auto& entry) {
      for (std::size_t id = 0; id < standings_.size(); ++id) {
        const auto part = part_of(id);
        Document line = identity_of(id, surveyed_->tasks[id], part ? &part->identity : nullptr);
        line["profile"] = to_string(standings_[id]);
        line["all_resolved"] = part ? Document(part->summary.all_resolved) : Document(nullptr);
        entry(line);
      }
    });
    stream_.end();
    return counts_;
  }

 private:
  [[nodiscard]] std::optional<Result> part_of(std::size_t id) const {
    return surveyed_->failures.contains(id) ? std::nullopt : parts_->find(surveyed_->tasks[id]);
  }

  [[nodiscard]] model::DeviceDescription profile_of(const Result& part) const {
    return model::parse_description(part.profile, parts_->place());
  }

  void judge_all() {
    counts_.asked = standings_.size();
    for (std::size_t id = 0; id < standings_.size() && merge_->distinct_count() > 0; ++id) {
      const auto part = part_of(id);
      if (part && merge_->is_common(part->summary)) {
        common_ = profile_of(*part);
        break;
      }
    }
    if (!common_ && merge_->distinct_count() > 0) {
      common_ = merge_->common_profile();
    }
    for (std::size_t id = 0; id < standings_.size(); ++id) {
      const auto part = part_of(id);
      if (!part) {
        ++counts_.failed;
        continue;
      }
      ++counts_.answered;
      counts_.all_resolved = counts_.all_resolved && part->summary.all_resolved;
      standings_[id] = standing_of(*part);
    }
    const auto count = [&](Standing standing) {
      return static_cast<std::size_t>(std::ranges::count(standings_, standing));
    };
    counts_.common = count(Standing::common);
    counts_.deviating = count(Standing::deviating);
    counts_.less_certain = count(Standing::less_certain);
  }

  [[nodiscard]] Standing standing_of(const Result& part) const {
    if (merge_->is_common(part.summary)) {
      return Standing::common;
    }
    const Deviation deviation = merge_->deviation_of(*common_, profile_of(part), part.summary);
    if (!deviation.differs.empty()) {
      return Standing::deviating;
    }
    return deviation.less_certain.empty() ? Standing::common : Standing::less_certain;
  }

  void write_survey() {
    Document survey = surveyed_->facts;
    survey["asked"] = counts_.asked;
    survey["answered"] = counts_.answered;
    survey["common"] = counts_.common;
    survey["deviating"] = counts_.deviating;
    survey["less_certain"] = counts_.less_certain;
    survey["failed"] = counts_.failed;
    survey["distinct_profiles"] = merge_->distinct_count();
    stream_.value("survey", survey);
    stream_.value("lost_ranks", surveyed_->lost_ranks);
  }

  void write_deviating(const std::string& key, Standing standing) {
    stream_.list(key, [&](const auto& entry) {
      for (std::size_t id = 0; id < standings_.size(); ++id) {
        if (standings_[id] != standing) {
          continue;
        }
        const auto part = part_of(id);
        if (!part) {
          throw Error(parts_->place() + ": lost a result while the fleet was written; survey again");
        }
        const Deviation deviation = merge_->deviation_of(*common_, profile_of(*part), part->summary);
        const model::YamlNode tree = model::parse_yaml(part->profile, "profile");
        Document line = identity_of(id, surveyed_->tasks[id], &part->identity);
        line["differs"] = leaves_of(deviation.differs, tree);
        line["less_certain"] = leaves_of(deviation.less_certain, tree);
        entry(line);
      }
    });
  }

  FleetStream stream_;
  const Surveyed* surveyed_;
  const Parts* parts_;
  const Merge* merge_;
  std::vector<Standing> standings_;  // by task
  std::optional<model::DeviceDescription> common_;
  FleetCounts counts_;
};

}  // namespace

FleetCounts write_fleet(std::ostream& out, Format format, const Surveyed& surveyed, const Parts& parts,
                        const Merge& merge) {
  return FleetWriter(out, format, surveyed, parts, merge).write();
}

}  // namespace gpuinfer::cli::survey
