// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0

// Every recording under data/ must still yield what is resolved in the profile beside it. What would prove it wrong: a
// leaf with another value, or one that is resolved in one of the two only.
//
// An inference that asks otherwise than the one that recorded gets the answers that are missing from the descriptions
// of the same GPU (described_answers.hpp). Above a share of 25 %, or where no description can answer, the target has
// to be recorded again, and is left out if tests/recordings/record_again.txt names it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "cli/common_options.hpp"
#include "cli/inquiry.hpp"
#include "cli/targets.hpp"
#include "infer/comparing/description_difference.hpp"
#include "infer/comparing/merged_description.hpp"
#include "model/description_yaml.hpp"
#include "tests/recordings/described_answers.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::test {
namespace {

constexpr double largest_described_share = 0.25;

// GPU/RECORDING TARGET
std::set<std::string> record_again() {
  std::set<std::string> lines;
  std::ifstream list("tests/recordings/record_again.txt");
  EXPECT_TRUE(list) << "the tests run in the root of the project";
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && !line.starts_with('#')) {
      lines.insert(line);
    }
  }
  return lines;
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// Those with a profile beside them; the others are predicted, access by access.
std::vector<fs::path> recordings() {
  std::vector<fs::path> found;
  for (const auto& gpu : fs::directory_iterator("data")) {
    const std::vector<fs::path> of_gpu = gpu.is_directory() ? files_in(gpu, ".h5") : std::vector<fs::path>{};
    std::ranges::copy_if(of_gpu, std::back_inserter(found),
                         [](fs::path file) { return fs::exists(file.replace_extension(".yaml")); });
  }
  std::ranges::sort(found);
  return found;
}

std::string name_of(const fs::path& recording, const std::string& target) {
  return (recording.parent_path().filename() / recording.filename()).string() + " " + target;
}

// What is proven of the GPU of a recording: by its profiles together, and by the description that users can name.
std::vector<model::DeviceDescription> proven_descriptions(const fs::path& recording) {
  const fs::path folder = recording.parent_path();
  std::vector<infer::Piece> pieces;
  for (const fs::path& file : files_in(folder, ".yaml")) {
    pieces.push_back({.file = file.string(), .description = model::read_description(file)});
  }
  std::vector<model::DeviceDescription> proven{infer::merge_pieces(pieces).description};
  if (const fs::path published = "configs/devices" / folder.filename().replace_extension(".yaml");
      fs::exists(published)) {
    proven.push_back(model::read_description(published));
  }
  return proven;
}

struct Played {
  std::vector<std::string> targets;
  model::DeviceDescription profile;
  std::map<std::string, Tally> tallies;
};

Played play(const fs::path& recording, std::vector<model::DeviceDescription> descriptions) {
  DescribedAnswers device(recording, std::move(descriptions));
  infer::Settings settings;
  settings.seed = cli::inference_seed({}, device.facts());
  const model::DeviceFacts facts = cli::facts_of_inquiry(device.facts(), settings.seed);
  cli::Inquiry inquiry = cli::inquire(device, facts, facts.targets, settings, true);
  return {.targets = facts.targets, .profile = std::move(inquiry.profile), .tallies = device.tallies()};
}

using Leaves = std::map<std::string, model::LeafEvidence>;

Leaves leaves_of(const model::DeviceDescription& profile, const std::string& section) {
  const auto evidence = profile.evidence.find(section);
  return evidence == profile.evidence.end() ? Leaves{} : evidence->second.leaves;
}

bool is_resolved(const Leaves& leaves, const std::string& leaf) {
  const auto found = leaves.find(leaf);
  return found != leaves.end() && found->second.status == model::EvidenceStatus::resolved;
}

void expect_same_leaves(const model::DeviceDescription& proven, const model::DeviceDescription& found,
                        const std::string& section) {
  const Leaves found_leaves = leaves_of(found, section);
  for (const auto& [leaf, evidence] : leaves_of(proven, section)) {
    const auto status = found_leaves.find(leaf);
    if (status == found_leaves.end()) {
      ADD_FAILURE() << section << "." << leaf << " is no longer found out";
    } else {
      EXPECT_EQ(to_string(status->second.status), to_string(evidence.status))
          << section << "." << leaf << ": " << status->second.reason;
    }
  }
  for (const infer::LeafDifference& each : infer::differences(proven, found)) {
    const bool is_lost = each.verdict == infer::Verdict::less_certain && each.second == "null";
    if (each.section == section && (each.verdict == infer::Verdict::differs || is_lost)) {
      ADD_FAILURE() << section << "." << each.leaf << " was " << each.first << " and is " << each.second;
    }
  }
}

class Recording : public testing::TestWithParam<fs::path> {};

TEST_P(Recording, YieldsWhatIsProven) {
  const fs::path& recording = GetParam();
  const auto proven = model::read_description(fs::path(recording).replace_extension(".yaml"));
  const std::set<std::string> left_out = record_again();
  const Played played = play(recording, proven_descriptions(recording));
  const bool all_recorded =
      std::ranges::all_of(played.tallies, [](const auto& tally) { return tally.second.described == 0; });
  // Without the answers of descriptions: what is resolved here, too, the recording itself proves.
  const model::DeviceDescription by_recording_alone = all_recorded ? played.profile : play(recording, {}).profile;
  for (const std::string& target : played.targets) {
    const std::string name = name_of(recording, target);
    const auto found = played.tallies.find(target);
    const Tally tally = found == played.tallies.end() ? Tally{} : found->second;
    std::cout << name << ": " << tally.described << " of " << tally.asked << " questions ("
              << 100 * tally.described_share() << " %) are not in the recording\n";
    const bool is_outdated = tally.unanswered || tally.described_share() > largest_described_share;
    EXPECT_EQ(is_outdated, left_out.contains(name))
        << name
        << (is_outdated ? ": record again, and until then name it in tests/recordings/record_again.txt; "
                        : ": is answered; take it off tests/recordings/record_again.txt")
        << tally.unanswered.value_or("");
    if (is_outdated) {
      continue;
    }
    const std::string section(cli::section_of(target));
    expect_same_leaves(proven, played.profile, section);
    for (const auto& [leaf, evidence] : leaves_of(played.profile, section)) {
      if (evidence.status == model::EvidenceStatus::resolved &&
          !is_resolved(leaves_of(by_recording_alone, section), leaf)) {
        std::cout << name << ": " << leaf << " is resolved by answers of the description, no evidence of the GPU\n";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bundled, Recording, testing::ValuesIn(recordings()), [](const auto& tested) {
  return tested.param.parent_path().filename().string() + "_" + tested.param.stem().string();
});

TEST(RecordAgain, NamesTargetsOfRecordings) {
  std::set<std::string> known;
  for (const fs::path& recording : recordings()) {
    for (const std::string& target : probe::recorded_targets(recording)) {
      known.insert(name_of(recording, target));
    }
  }
  EXPECT_FALSE(known.empty());
  for (const std::string& name : record_again()) {
    EXPECT_TRUE(known.contains(name)) << name << ": is in tests/recordings/record_again.txt and under data/ no more";
  }
}

}  // namespace
}  // namespace gpuinfer::test
