// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// gpgpusim-device CONFIGURATION [TARGET]: the tag_array of GPGPU-Sim, which speaks the JSON lines of gpuinfer, so that
// gpuinfer finds out what a cache configuration really simulates. CONFIGURATION is what -gpgpu_cache:dl1 takes, with
// `gpuinfer:` and a profile before it where adapter.py was at work. Built by build.sh against a checkout.
#include <gpgpu-sim/gpu-cache.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// A request of which a tag array asks address and sectors alone, in place of the files that make whole ones.
void mem_access_t::init(gpgpu_context* context) {
  gpgpu_ctx = context;
  m_uid = 0;
}

mem_fetch::mem_fetch(const mem_access_t& access, const warp_inst_t*, unsigned long long, unsigned, unsigned, unsigned,
                     unsigned, const memory_config*, unsigned long long, mem_fetch*, mem_fetch*)
    : m_access(access) {}

mem_fetch::~mem_fetch() = default;

void shader_cache_access_log(int, int, int) {}

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t buffer_bytes = std::uint64_t{1} << 26U;
constexpr int hit_cycles = 30;
constexpr int miss_cycles = 300;
constexpr unsigned sectors_of_line = SECTOR_CHUNCK_SIZE;

class Device {
 public:
  explicit Device(std::string configuration) : configuration_(std::move(configuration)) {
    config_.m_unified_cache_size = 0;
    config_.l1_banks = 1;
    config_.l1_banks_byte_interleaving = sector_bytes_;
    config_.init(configuration_.data(), FuncCachePreferNone);
    renew();
  }

  // Throws std::invalid_argument for a state that it cannot give.
  Json answer(const Json& question) {
    const std::string state = question.at("state");
    if (state == "clean") {
      renew();
    } else if (state == "invalidated") {
      tags_->invalidate();
    } else if (state != "keep") {
      throw std::invalid_argument("the states are clean, invalidated and keep");
    }
    for (const std::uint64_t offset : question.at("warm")) {
      load(offset);
    }
    Json latency = Json::array();
    for (const std::uint64_t offset : question.at("record")) {
      latency.push_back(load(offset) ? hit_cycles : miss_cycles);
    }
    return {{"id", question.at("id")}, {"latency", std::move(latency)}};
  }

 private:
  void renew() {
    tags_ = std::make_unique<tag_array>(config_, 0, 0);
    time_ = 1;
  }

  // True where it hits. What misses is there at once.
  bool load(std::uint64_t address) {
    mem_access_sector_mask_t sectors;
    sectors.set(address / sector_bytes_ % sectors_of_line);
    mem_fetch request(mem_access_t(GLOBAL_ACC_R, address, sector_bytes_, false, active_mask_t(),
                                   mem_access_byte_mask_t(), sectors, nullptr),
                      nullptr, 0, 0, 0, 0, 0, nullptr, 0);
    const new_addr_type line = config_.block_addr(address);
    unsigned index = 0;
    if (tags_->access(line, ++time_, index, &request) == HIT) {
      return true;
    }
    tags_->fill(line, time_, &request, false);
    return false;
  }

  static constexpr unsigned sector_bytes_ = 32;
  std::string configuration_;
  l1d_cache_config config_;
  std::unique_ptr<tag_array> tags_;
  unsigned time_ = 0;
};

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 3) {
    std::cerr << "gpgpusim-device CONFIGURATION [TARGET]\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  Device device(words[1]);
  const std::string target = count > 2 ? words[2] : "L1tex";
  const std::string name = std::string("tag_array ") + words[1];
  std::cout << Json{{"gpuinfer", 1},
                    {"device", {{"name", name}}},
                    {"targets", {target}},
                    {"buffer_bytes", buffer_bytes},
                    {"address_of_buffer", 0}}
            << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json question = Json::parse(line);
      try {
        answer = device.answer(question);
      } catch (const std::exception& error) {
        answer = {{"id", question.at("id")}, {"error", error.what()}};
      }
    } catch (const Json::exception& error) {
      std::cerr << "gpgpusim-device: " << error.what() << '\n';
      return 1;
    }
    std::cout << answer << std::endl;
  }
  return 0;
}
