// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// A row that nobody knew before is in everything that goes through rows. What would prove otherwise: a list of leaves
// or of sections beside the tables, which lacks the invented ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/formats/leaf_rows.hpp"
#include "cli/leaf_table.hpp"
#include "infer/comparing/description_difference.hpp"
#include "model/description/evidence.hpp"
#include "model/description/json_schema.hpp"
#include "model/errors.hpp"

namespace gpuinfer {
namespace {

using model::DeviceDescription;
using Sections = model::Sections<DeviceDescription>;

// The tables with the leaf `colour_bytes` of a cache and the section `weather` in them. Their values are kept where
// `victim_lines` and `noise` keep theirs, which are not in these tables.
Sections invented() {
  using model::NoiseDescription;
  Sections all;
  for (const auto& section : model::sections()) {
    if (section.key == "caches") {
      auto leaves = model::cache_leaves();
      std::erase_if(leaves, [](const auto& leaf) { return leaf.name == "victim_lines"; });
      leaves.push_back(leaf("colour_bytes", &model::CacheDescription::victim_lines,
                            model::codec::Bytes{.least = 1, .most = 4096}, "what is green"));
      all.push_back(named_section("caches", "cache", "by target", &DeviceDescription::caches, leaves));
    } else if (section.key == "noise") {
      all.push_back(single_section(
          "weather", "Weather", "weather", "of the machine room", &DeviceDescription::noise,
          model::codec::Map<NoiseDescription>{
              .leaves = {leaf("rain_cycles", &NoiseDescription::jitter_cycles, model::codec::Cycles{}, "of a drop")}}));
    } else if (section.key == "evidence") {
      all.push_back(model::evidence_section(all));
    } else {
      all.push_back(section);
    }
  }
  return all;
}

std::string file_with(const std::string& colour_bytes, const std::string& rain_cycles) {
  return "schema: gpuinfer/1\ndevice: {name: Test, source: test}\ncaches:\n  L1tex:\n    line_bytes: 128\n    "
         "colour_bytes: " +
         colour_bytes + "\nweather: {rain_cycles: " + rain_cycles +
         "}\nevidence:\n  L1tex:\n    colour_bytes: {status: resolved, confidence: 0.875}\n  weather:\n"
         "    rain_cycles: {status: resolved, confidence: 0.75}\n";
}

DeviceDescription read(const std::string& yaml, const Sections& all) {
  const model::YamlNode tree = model::parse_yaml(yaml, "invented");
  return read_sections(model::Place(tree, "invented"), all);
}

class InventedRows : public testing::Test {
 protected:
  const Sections all = invented();
  const DeviceDescription profile = read(file_with("64", "1.5"), all);
};

TEST_F(InventedRows, AreReadWithTheirLimits) {
  EXPECT_EQ(profile.caches.at("L1tex").victim_lines, 64U);
  EXPECT_EQ(profile.noise->jitter_cycles, 1.5);
  EXPECT_THROW(static_cast<void>(read(file_with("5000", "1.5"), all)), InputError);
  EXPECT_THROW(static_cast<void>(read(file_with("64", "1.5"), model::sections())), InputError);
}

TEST_F(InventedRows, AreWrittenAsTheyWereRead) {
  const std::string yaml = write_sections(profile, all);
  EXPECT_NE(yaml.find("    colour_bytes: 64\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("\nweather: {rain_cycles: 1.5}\n"), std::string::npos) << yaml;
  EXPECT_EQ(read(yaml, all), profile);
}

TEST_F(InventedRows, AreInTheSchema) {
  const auto schema = nlohmann::json::parse(model::json_schema(all));
  const auto& of_caches = schema["properties"]["caches"]["additionalProperties"]["properties"];
  EXPECT_EQ(of_caches["colour_bytes"]["maximum"], 4096);
  EXPECT_EQ(of_caches["colour_bytes"]["description"], "what is green");
  EXPECT_EQ(schema["properties"]["weather"]["properties"]["rain_cycles"]["minimum"], 0);
  const auto& of_evidence = schema["properties"]["evidence"];
  const auto& leaves = of_evidence["additionalProperties"]["propertyNames"]["enum"];
  EXPECT_NE(std::ranges::find(leaves, "colour_bytes"), leaves.end());
  EXPECT_EQ(of_evidence["properties"]["weather"]["propertyNames"]["enum"].front(), "rain_cycles");
  EXPECT_NE(model::leaf_tables(all).find("| `colour_bytes` | B | what is green |"), std::string::npos);
}

TEST_F(InventedRows, AreShown) {
  const std::string cache = cli::leaf_table(profile, "L1tex", 100, {}, all);
  EXPECT_NE(cache.find("colour_bytes      resolved   0.875     64 B"), std::string::npos) << cache;
  const std::string weather = cli::leaf_table(profile, "weather", 100, {}, all);
  EXPECT_NE(weather.find("rain_cycles       resolved   0.75      1.5 cycles"), std::string::npos) << weather;
}

TEST_F(InventedRows, AreCompared) {
  const auto found = infer::differences(profile, read(file_with("96", "3"), all), all);
  const auto note_of = [&](const std::string& section, const std::string& leaf) {
    const auto difference = std::ranges::find_if(
        found, [&](const infer::LeafDifference& each) { return each.section == section && each.leaf == leaf; });
    return difference == found.end() || difference->verdict != infer::Verdict::differs ? "" : difference->note;
  };
  EXPECT_EQ(note_of("L1tex", "colour_bytes"), "+32 (+50 %)");
  EXPECT_EQ(note_of("weather", "rain_cycles"), "+1.5 (+100 %)");
}

TEST_F(InventedRows, AreExported) {
  const std::string csv = cli::export_csv(profile, all).text;
  EXPECT_NE(csv.find("\nL1tex,colour_bytes,64,resolved,0.875\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nweather,rain_cycles,1.5,resolved,0.75\n"), std::string::npos) << csv;
  const std::string markdown = cli::export_markdown(profile, all).text;
  EXPECT_NE(markdown.find("| colour_bytes | 64 B | resolved | 0.875 |"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("## weather"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| rain_cycles | 1.5 cycles | resolved | 0.75 |"), std::string::npos) << markdown;
}

// Whatever a file may have is told of in one line.
TEST(Rows, AllHaveAMeaning) {
  const auto check = [](const auto& self, const std::string& where, const model::LeafFacts& leaf) -> void {
    const bool is_known_by_its_map =
        where.find("kernels") == 0 || where.find("bandwidth") == 0 || where.find("fetches") == 0;
    EXPECT_TRUE(!leaf.meaning.empty() || is_known_by_its_map || leaf.is_of_evidence_alone ||
                leaf.sameness == model::Sameness::policy)
        << where << "." << leaf.name;
    for (const model::LeafFacts& part :
         leaf.sameness == model::Sameness::policy ? std::vector<model::LeafFacts>{} : leaf.parts) {
      self(self, where + "." + std::string(leaf.name), part);
    }
  };
  for (const auto& section : model::sections()) {
    EXPECT_FALSE(section.meaning.empty()) << section.key;
    for (const model::LeafFacts& leaf : section.facts) {
      check(check, std::string(section.key), leaf);
    }
  }
}

}  // namespace
}  // namespace gpuinfer
