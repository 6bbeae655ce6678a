// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// gpgpusim-device CONFIGURATION [TARGET], gpgpusim-device --l2 FILE [TARGET]: caches of GPGPU-Sim, which speak the JSON
// lines of gpuinfer, so that gpuinfer finds out what a configuration really simulates. CONFIGURATION is what
// -gpgpu_cache:dl1 takes, with `gpuinfer:` and a profile before it where adapter.py was at work; it gives one tag
// array. FILE is a gpgpusim.config; it gives the L2 of the whole GPU, all of whose slices get the addresses that the
// simulator sends there. Built by build.sh against a checkout.
#include <gpgpu-sim/addrdec.h>
#include <gpgpu-sim/gpu-cache.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
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

tr1_hash_map<new_addr_type, unsigned> address_random_interleaving;

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t buffer_bytes = std::uint64_t{1} << 26U;
constexpr int hit_cycles = 30;
constexpr int miss_cycles = 300;
constexpr unsigned sector_bytes = 32;
constexpr unsigned sectors_of_line = SECTOR_CHUNCK_SIZE;

// A load of a tag array: true where it hits. What misses is there at once.
bool load(tag_array& tags, const cache_config& config, std::uint64_t address, unsigned time) {
  mem_access_sector_mask_t sectors;
  sectors.set(address / sector_bytes % sectors_of_line);
  mem_fetch request(mem_access_t(GLOBAL_ACC_R, address, sector_bytes, false, active_mask_t(), mem_access_byte_mask_t(),
                                 sectors, nullptr),
                    nullptr, 0, 0, 0, 0, 0, nullptr, 0);
  const new_addr_type line = config.block_addr(address);
  unsigned index = 0;
  if (tags.access(line, time, index, &request) == HIT) {
    return true;
  }
  tags.fill(line, time, &request, false);
  return false;
}

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual std::string name() const = 0;

  // Throws std::invalid_argument for a state that it cannot give.
  Json answer(const Json& question) {
    const std::string state = question.at("state");
    if (state == "clean") {
      renew();
      time_ = 0;
    } else if (state == "invalidated") {
      invalidate();
    } else if (state != "keep") {
      throw std::invalid_argument("the states are clean, invalidated and keep");
    }
    for (const std::uint64_t offset : question.at("warm")) {
      load_at(offset, ++time_);
    }
    Json latency = Json::array();
    for (const std::uint64_t offset : question.at("record")) {
      latency.push_back(load_at(offset, ++time_) ? hit_cycles : miss_cycles);
    }
    return {{"id", question.at("id")}, {"latency", std::move(latency)}};
  }

 private:
  virtual void renew() = 0;
  virtual void invalidate() = 0;
  virtual bool load_at(std::uint64_t address, unsigned time) = 0;

  unsigned time_ = 0;
};

class OneTagArray final : public Device {
 public:
  explicit OneTagArray(std::string configuration) : configuration_(std::move(configuration)), text_(configuration_) {
    config_.m_unified_cache_size = 0;
    config_.l1_banks = 1;
    config_.l1_banks_byte_interleaving = sector_bytes;
    config_.init(text_.data(), FuncCachePreferNone);
    renew();
  }

  std::string name() const override { return "tag_array " + configuration_; }

 private:
  void renew() override { tags_ = std::make_unique<tag_array>(config_, 0, 0); }
  void invalidate() override { tags_->invalidate(); }
  bool load_at(std::uint64_t address, unsigned time) override { return load(*tags_, config_, address, time); }

  std::string configuration_;
  std::string text_;  // the parser's own
  l1d_cache_config config_;
  std::unique_ptr<tag_array> tags_;
};

class WholeL2 final : public Device {
 public:
  explicit WholeL2(const std::string& file) : file_(file) {
    unsigned channels = 0;
    unsigned slices_of_channel = 0;
    option_parser_t parser = option_parser_create();
    mapping_.addrdec_setoption(parser);
    option_parser_register(parser, "-gpgpu_n_mem", OPT_UINT32, &channels, "", "0");
    option_parser_register(parser, "-gpgpu_n_sub_partition_per_mchannel", OPT_UINT32, &slices_of_channel, "", "1");
    option_parser_register(parser, "-gpgpu_cache:dl2", OPT_CSTR, &config_.m_config_string, "", "none");
    const std::vector<std::string> words = words_of(file);
    std::vector<const char*> arguments{"gpgpusim-device"};
    for (const std::string& word : words) {
      arguments.push_back(word.c_str());
    }
    option_parser_cmdline(parser, static_cast<int>(arguments.size()), arguments.data());
    mapping_.init(channels, slices_of_channel);
    config_.init(&mapping_);
    slices_.resize(channels * slices_of_channel);
    if (slices_.empty() || config_.disabled()) {
      throw std::invalid_argument(file + ": has no L2");
    }
    renew();
  }

  std::string name() const override { return "L2 of " + file_; }

 private:
  // The options that say what an L2 is like, each followed by its value.
  static std::vector<std::string> words_of(const std::string& file) {
    std::ifstream stream(file);
    if (!stream) {
      throw std::invalid_argument(file + ": cannot be read");
    }
    std::vector<std::string> words;
    for (std::string line; std::getline(stream, line);) {
      std::istringstream told(line.substr(0, line.find('#')));
      std::string name;
      std::string value;
      if (told >> name >> value && (name == "-gpgpu_n_mem" || name == "-gpgpu_n_sub_partition_per_mchannel" ||
                                    name == "-gpgpu_cache:dl2" || name == "-gpgpu_mem_addr_mapping" ||
                                    name == "-gpgpu_mem_address_mask" || name == "-gpgpu_memory_partition_indexing")) {
        words.insert(words.end(), {name, value});
      }
    }
    return words;
  }

  void renew() override {
    for (std::unique_ptr<tag_array>& slice : slices_) {
      slice = std::make_unique<tag_array>(config_, -1, -1);
    }
  }

  void invalidate() override {
    for (const std::unique_ptr<tag_array>& slice : slices_) {
      slice->invalidate();
    }
  }

  bool load_at(std::uint64_t address, unsigned time) override {
    addrdec_t place{};
    mapping_.addrdec_tlx(address, &place);
    return load(*slices_.at(place.sub_partition), config_, address, time);
  }

  std::string file_;
  linear_to_raw_address_translation mapping_;
  l2_cache_config config_;
  std::vector<std::unique_ptr<tag_array>> slices_;
};

void answer_questions(Device& device, const std::string& target) {
  std::cout << Json{{"gpuinfer", 1},
                    {"device", {{"name", device.name()}}},
                    {"targets", {target}},
                    {"buffer_bytes", buffer_bytes},
                    {"address_of_buffer", 0}}
            << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const Json question = Json::parse(line);
    Json answer;
    try {
      answer = device.answer(question);
    } catch (const std::invalid_argument& error) {
      answer = {{"id", question.at("id")}, {"error", error.what()}};
    }
    std::cout << answer << std::endl;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const bool is_l2 = !words.empty() && words[0] == "--l2";
  const std::size_t named = is_l2 ? 1 : 0;
  if (words.size() <= named || words.size() > named + 2) {
    std::cerr << "gpgpusim-device CONFIGURATION [TARGET], or gpgpusim-device --l2 FILE [TARGET]\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  stdout = stderr;  // where the simulator prints; answers go through std::cout
  try {
    std::unique_ptr<Device> device;
    if (is_l2) {
      device = std::make_unique<WholeL2>(words[named]);
    } else {
      device = std::make_unique<OneTagArray>(words[named]);
    }
    answer_questions(*device, words.size() > named + 1 ? words[named + 1] : is_l2 ? "L2" : "L1tex");
  } catch (const std::exception& error) {
    std::cerr << "gpgpusim-device: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
