// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/inquiry.hpp"

#include <gtest/gtest.h>

#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"

namespace gpuinfer::cli {
namespace {

// A cache that somebody else uses as well for the first so many loads, which then all miss.
class Crowded final : public model::Answerer {
 public:
  explicit Crowded(std::size_t loads) : loads_left_(loads) {}

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers = device_->ask(questions);
    for (model::Answer& answer : answers) {
      for (float& cycles : answer.latency_cycles) {
        cycles = loads_left_ > 0 && ++loads_ % 7 == 0 ? 200 : cycles;
        loads_left_ -= loads_left_ > 0 ? 1U : 0U;
        is_touched_ = is_touched_ || loads_left_ > 0;
      }
    }
    return answers;
  }

  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override {
    return is_touched_ ? std::vector{model::Disturbance{.kind = model::Disturbance::Kind::other_processes,
                                                        .sentence = "it was crowded; wait"}}
                       : std::vector<model::Disturbance>{};
  }

  void begin_piece() override { ++pieces; }

  [[nodiscard]] model::PieceState discard_piece() override {
    ++looks;
    if (looks < looks_until_calm) {
      return model::PieceState::disturbed;
    }
    loads_left_ = 0;
    is_touched_ = false;
    return model::PieceState::discarded;
  }

  int pieces = 0;
  int looks = 0;
  int looks_until_calm = 2;

 private:
  std::unique_ptr<model::Answerer> device_ = probe::open_virtual(probe::small_device(), "small", 1);
  std::size_t loads_left_;
  std::size_t loads_ = 0;
  bool is_touched_ = false;
};

Inquiry inquire_of(Crowded& device, infer::Settings settings = {}) {
  return inquire(device, device.facts(), {"L1tex"}, settings, true);
}

TEST(Inquiry, AsksAPieceAgainThatWasTouched) {
  Crowded device(300);
  const Inquiry inquiry = inquire_of(device);
  EXPECT_EQ(device.pieces, 2);
  EXPECT_EQ(device.looks, 2);
  const model::CacheDescription& found = inquiry.profile.caches.at("L1tex");
  EXPECT_EQ(found.ways, probe::small_cache().ways);
  EXPECT_EQ(found.capacity_bytes, 1024U);
}

TEST(Inquiry, AsksAnUndisturbedDeviceOnce) {
  Crowded device(0);
  EXPECT_EQ(inquire_of(device).profile.caches.at("L1tex").capacity_bytes, 1024U);
  EXPECT_EQ(device.pieces, 1);
  EXPECT_EQ(device.looks, 0);
}

TEST(Inquiry, LeavesOpenWhatWasTouchedWhereNobodyWaits) {
  Crowded device(300);
  device.looks_until_calm = 1000;
  infer::Settings settings;
  settings.stop_requested = [&device] { return device.looks > 0; };
  const Inquiry inquiry = inquire_of(device, settings);
  EXPECT_EQ(device.pieces, 1);
  EXPECT_EQ(device.looks, 1);
  EXPECT_FALSE(inquiry.all_resolved);
  const model::LeafEvidence& latency = inquiry.profile.evidence.at("L1tex").leaves.at("latency_cycles");
  EXPECT_EQ(latency.status, model::EvidenceStatus::ambiguous);
  EXPECT_NE(latency.reason.find("it was crowded"), std::string::npos) << latency.reason;
}

}  // namespace
}  // namespace gpuinfer::cli
