// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/sections.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "model/description/checks.hpp"
#include "model/description/evidence.hpp"
#include "model/description/threads.hpp"
#include "model/description/values.hpp"
#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

constexpr std::size_t max_path_caches = 2;  // the published access patterns know no more

struct TextMap {
  [[nodiscard]] static std::map<std::string, std::string> read(const Place& place) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, value] : place.entries()) {
      texts.emplace(name, value.text());
    }
    return texts;
  }
  [[nodiscard]] static std::string write(const std::map<std::string, std::string>& texts) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [name, text] : texts) {
      entries.emplace_back(to_yaml_scalar(name), to_yaml_scalar(text));
    }
    return flow_map(entries);
  }
  [[nodiscard]] static std::string text(const std::map<std::string, std::string>& texts) { return write(texts); }
  [[nodiscard]] static LeafFacts facts() {
    return {.has_free_names = true,
            .schema = {{"type", "object"}, {"additionalProperties", schema::text(schema::any_text())}}};
  }
};

using Device = DeviceDescription::Device;

// What devices say of themselves under this name, among the facts of their provenance, where it is such a value,
// written as it is written here.
template <class Codec>
Leaf<Device> told_leaf(std::string_view name, Codec codec, std::string_view meaning) {
  Leaf<Device> row(facts_of(name, codec, meaning));
  const auto told = [codec, key = std::string(name)](
                        const Device& device) -> std::optional<decltype(codec.read(std::declval<const Place&>()))> {
    const auto fact = device.provenance.find(key);
    if (fact == device.provenance.end()) {
      return std::nullopt;
    }
    const YamlNode node{.kind = YamlNode::Kind::plain, .line = 1, .text = fact->second, .items = {}, .entries = {}};
    try {
      const auto value = codec.read(Place(node, key));
      return codec.write(value) == fact->second ? std::optional(value) : std::nullopt;
    } catch (const InputError&) {
      return std::nullopt;  // a device in another process may say anything
    }
  };
  row.read = [codec, key = std::string(name)](const Place& place, Device& device) {
    device.provenance[key] = codec.write(codec.read(place));
  };
  row.write = [codec, told](const Device& device) {
    const auto value = told(device);
    return value ? codec.write(*value) : "null";
  };
  row.is_default = [told](const Device& device) { return !told(device); };
  row.text = [codec, told](const Device& device) {
    const auto value = told(device);
    return value ? std::optional(codec.text(*value)) : std::nullopt;
  };
  return row;
}

// Leaves of the device itself under one key.
Section<DeviceDescription> section_of_device(std::string_view key, std::string_view meaning, Leaves<Device> leaves,
                                             WhenEmpty when_empty) {
  Section<DeviceDescription> section;
  section.key = key;
  section.meaning = meaning;
  section.facts = facts_of(leaves);
  section.schema = schema_of(section.facts);
  const auto rows = std::make_shared<const Leaves<Device>>(std::move(leaves));
  const auto is_there = [rows, when_empty](const DeviceDescription& description) {
    return when_empty == WhenEmpty::written ||
           !std::ranges::all_of(*rows, [&](const Leaf<Device>& leaf) { return leaf.is_default(description.device); });
  };
  section.read = [rows](const Place& place, DeviceDescription& description) {
    read_leaves(place, description.device, *rows);
  };
  section.write = [rows, is_there, key = std::string(key)](const DeviceDescription& description) {
    return is_there(description) ? key + ": " + flow_map(written_leaves(description.device, *rows)) + "\n" : "";
  };
  section.names = [is_there, key = std::string(key)](const DeviceDescription& description) {
    return is_there(description) ? std::vector{key} : std::vector<std::string>{};
  };
  section.values = [rows](const DeviceDescription& description, std::string_view /*name*/) {
    return values_of(description.device, *rows);
  };
  section.keep_only = [](DeviceDescription&, const std::function<bool(std::string_view)>&) {};
  return section;
}

Section<DeviceDescription> device_section() {
  return section_of_device(
      "device", "the device itself",
      {
          leaf("name", &Device::name, codec::TextOrNull{}, "of the GPU or CPU"),
          leaf("source", &Device::source, codec::TextOrNull{}, "which device was asked, or who says so"),
          leaf("compute_capability", &Device::compute_capability, codec::Text{}, "of a GPU, as CUDA has it").sparse(),
          leaf("sm_count", &Device::sm_count, codec::Whole<unsigned>{.least = 1, .most = codec::max_lines},
               "how many SMs")
              .sparse(),
          leaf("provenance", &Device::provenance, TextMap{}, "what the device says of itself and of the run").sparse(),
          told_leaf("l2_fetch_granularity_bytes", codec::Bytes32{.least = 1, .most = codec::max_lines},
                    "of a GPU: the most that a miss of L2 fetches at once, as it was in force")
              .sparse(),
      },
      WhenEmpty::written);
}

// They stand among what the device says of itself, too, from where they are known.
Section<DeviceDescription> clocks_section() {
  constexpr codec::Whole<std::uint32_t, codec::Unit::megahertz> clock{.least = 1, .most = 1U << 20U};
  return section_of_device("clocks", "the clocks that latencies in cycles belong to",
                           {told_leaf("sm_clock_mhz", clock, "of the SMs when the questions began"),
                            told_leaf("memory_clock_mhz", clock, "of the memory at that time")},
                           WhenEmpty::left_out);
}

Leaves<PathDescription> path_leaves() {
  const codec::List<codec::Text> names{.item = {}, .most = max_path_caches};
  Leaf<PathDescription> caches =
      leaf("caches", &PathDescription::caches, names, "data caches in the order in which they are looked up").needed();
  caches.schema.emplace_back("minItems", "1");
  return {caches, leaf("tlbs", &PathDescription::tlbs, names, "TLBs in the order in which they are looked up"),
          leaf("translated_from", &PathDescription::translated_from, codec::Text{},
               "the first data cache that is looked up with a translated address; none: all are")
              .sparse(),
          leaf("page_window_bytes", &PathDescription::page_window_bytes,
               codec::Bytes{.least = 1, .most = codec::max_bytes}, "what the active page tables cover; with TLBs only"),
          leaf("memory_latency_cycles", &PathDescription::memory_latency_cycles, codec::pattern_latencies(),
               "of this path, where not as for the whole device")
              .sparse()};
}

void check_names(const Place& names, const DeviceDescription& description) {
  for (const Place& item : names.items()) {
    if (!description.caches.contains(item.text())) {
      item.fail("`" + item.text() + "` is not a cache of this description; describe it under `caches` or name another");
    }
  }
}

void check_path(const Place& place, const PathDescription& path, const DeviceDescription& description) {
  check_names(place.need("caches"), description);
  if (path.caches.empty()) {
    place.need("caches").fail("is empty; name a data cache");
  }
  if (const auto tlbs = place.find("tlbs")) {
    check_names(*tlbs, description);
  }
  std::set<std::string> names(path.caches.begin(), path.caches.end());
  names.insert(path.tlbs.begin(), path.tlbs.end());
  if (names.size() != path.caches.size() + path.tlbs.size()) {
    place.fail("names a cache twice; name each one once, in `caches` or in `tlbs`");
  }
  if (path.translated_from && std::ranges::find(path.caches, *path.translated_from) == path.caches.end()) {
    place.need("translated_from")
        .fail("`" + *path.translated_from + "` is none of the data caches of this path; name one of them");
  }
  if (path.page_window_bytes && path.tlbs.empty()) {
    place.need("page_window_bytes").fail("says when page tables are switched, but no TLB is there; name `tlbs`");
  }
}

Section<DeviceDescription> noise_section() {
  using Noise = NoiseDescription;
  const codec::Real<> probability{.most = 1};
  return single_section(
      "noise", "", "", "of virtual devices: how their answers spread", &DeviceDescription::noise,
      codec::Map<Noise>{
          .leaves = {leaf("jitter_cycles", &Noise::jitter_cycles, codec::Cycles{}, "standard deviation"),
                     leaf("outlier_probability", &Noise::outlier_probability, probability, "of each load"),
                     leaf("outlier_cycles", &Noise::outlier_cycles, codec::Cycles{}, "what an outlier takes longer"),
                     leaf("misread_probability", &Noise::misread_probability, probability,
                          "that a hit reads as a miss or a miss as a hit")}});
}

Sections<DeviceDescription> without_evidence() {
  using Description = DeviceDescription;
  return {
      device_section(),
      clocks_section(),
      named_section(
          "caches", "cache", "caches and TLBs, by target", &Description::caches, cache_leaves(),
          [](const Place& place, const CacheDescription& cache, const Description&) { check(place, cache); },
          WhenEmpty::written),
      named_section("paths", "", "caches and TLBs that an access passes, by name", &Description::paths, path_leaves(),
                    check_path),
      named_section("textures", "texture", "two-dimensional textures, by target", &Description::textures,
                    texture_leaves(),
                    [](const Place& place, const TextureDescription& texture, const Description& description) {
                      check(place, texture, description);
                    }),
      named_section("code", "code", "laps of one warp over straight-line code, by target", &Description::code,
                    code_leaves(),
                    [](const Place& place, const CodeDescription& code, const Description&) { check(place, code); }),
      shared_memory_section(),
      single_section("memory_latency_cycles", "Latency", "latency",
                     "the access patterns of Mei & Chu, by where data and translation are found",
                     &Description::memory_latency_cycles, codec::pattern_latencies()),
      outstanding_section(),
      bandwidth_section(),
      kernels_section(),
      cluster_section(),
      fetches_section(),
      noise_section(),
  };
}

}  // namespace

const Sections<DeviceDescription>& sections() {
  static const Sections<DeviceDescription> all = [] {
    Sections<DeviceDescription> found = without_evidence();
    found.push_back(evidence_section(found));
    return found;
  }();
  return all;
}

}  // namespace gpuinfer::model
