// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define VULKAN_HPP_NO_STRUCT_CONSTRUCTORS
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vulkan/vulkan_raii.hpp>

#include "model/errors.hpp"
#include "probe/device_failures.hpp"
#include "probe/vulkan.hpp"
#include "probe/vulkan/shaders.hpp"
#include "probe/vulkan/shape.hpp"

namespace gpuinfer::probe::vulkan {

// Uniform buffers that hold the lists of a launch, as play.comp counts them: no device binds fewer.
inline constexpr std::uint32_t windows = 8;

// What the shaders are told, in their order.
struct Launch {
  std::uint64_t begin = 0;
  std::uint64_t list = 0;
  std::uint64_t places = 0;
  std::uint64_t latencies = 0;
  std::uint64_t end = 0;
  std::uint32_t words = 0;
  std::uint32_t zero = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// What the program asks of each device, one chained to the other as far as the device knows them.
struct Features {
  explicit Features(const vk::raii::PhysicalDevice& device);
  Features(const Features&) = delete;
  Features& operator=(const Features&) = delete;

  [[nodiscard]] std::vector<std::string> missing() const;

  vk::PhysicalDeviceFeatures2 known;
  vk::PhysicalDeviceVulkan12Features of_version;
  vk::PhysicalDeviceShaderClockFeaturesKHR clock;
  vk::PhysicalDeviceShaderSMBuiltinsFeaturesNV units;
};

// What each device says of itself.
struct Properties {
  explicit Properties(const vk::raii::PhysicalDevice& device);
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;

  [[nodiscard]] bool is_gpu() const;

  vk::PhysicalDeviceProperties2 known;
  vk::PhysicalDeviceDriverProperties driver;
  vk::PhysicalDeviceIDProperties id;
  vk::PhysicalDeviceSubgroupProperties subgroup;
  vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV units;
};

// As vulkan_health() has it.
[[nodiscard]] VulkanDevice described(const vk::raii::PhysicalDevice& device);

// A call of Vulkan; its errors come as a sentence, in a DeviceError.
template <class Call>
decltype(auto) doing(const std::string& source, const std::string& what, Call call) {
  try {
    return call();
  } catch (const vk::DeviceLostError&) {
    throw DeviceError(source + " was lost when it was to " + what +
                      "; look into the kernel log, and end what keeps the GPU busy");
  } catch (const vk::OutOfDeviceMemoryError&) {
    throw TransientError(source + " has too little memory free to " + what + "; end what else uses it");
  } catch (const vk::SystemError& error) {
    throw DeviceError(source + " could not " + what + " (" + error.what() + "); see `gpuinfer doctor`");
  }
}

// A device with the shaders for it, and nothing carried out yet.
class Pipelines {
 public:
  // Throws DeviceUnavailable, DeviceError.
  explicit Pipelines(std::uint32_t number);

  // A shader that plays.
  struct Key {
    LoadPath path = LoadPath::global;
    LoadPath warm = LoadPath::global;  // of the warm-up
    bool nothing = false;              // all is timed but the load
    Shape shape;

    auto operator<=>(const Key&) const = default;
  };

  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const vk::raii::PhysicalDevice& physical() const { return physical_; }
  [[nodiscard]] const vk::raii::Device& device() const { return device_; }
  [[nodiscard]] const Properties& properties() const { return properties_; }
  [[nodiscard]] std::uint32_t queue_family() const { return queue_family_; }
  // That shaders can tell apart.
  [[nodiscard]] std::optional<std::uint32_t> units() const { return units_; }
  // As Gpu has them.
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }
  // Of the lists, in one of the uniform buffers that hold them.
  [[nodiscard]] std::uint32_t window_accesses() const { return window_accesses_; }
  [[nodiscard]] std::uint64_t constant_bytes() const { return constant_bytes_; }

  // The first type among `types`, a bit for each, with these properties; but memory that is to be cached may not be.
  // Throws DeviceError where there is none.
  [[nodiscard]] std::uint32_t memory_type(std::uint32_t types, vk::MemoryPropertyFlags wanted) const;

  [[nodiscard]] const vk::raii::DescriptorSetLayout& set_layout() const { return set_layout_; }
  [[nodiscard]] const vk::raii::PipelineLayout& layout() const { return layout_; }
  // Compiled when it is asked for.
  [[nodiscard]] const vk::raii::Pipeline& play(const Key& key);
  [[nodiscard]] const vk::raii::Pipeline& load_shared(std::uint32_t element_words, bool nothing);
  // What the driver keeps of all that was compiled, in a form of its own.
  [[nodiscard]] std::vector<std::uint8_t> compiled() const { return cache_.getData(); }
  [[nodiscard]] const vk::raii::Pipeline& read_clock() const { return read_clock_; }
  [[nodiscard]] const vk::raii::Pipeline& contend() const { return contend_; }
  [[nodiscard]] const vk::raii::Pipeline& set_aside() const { return set_aside_; }
  [[nodiscard]] const vk::raii::Pipeline& stream() const { return stream_; }

 private:
  void choose_sizes();
  void make_device();
  void make_pipelines();
  [[nodiscard]] vk::raii::Pipeline pipeline(std::span<const std::uint32_t> code, const Key& key) const;

  std::string source_;
  vk::raii::Context context_;
  vk::raii::Instance instance_;
  vk::raii::PhysicalDevice physical_;
  Properties properties_;
  Features features_;
  std::optional<std::uint32_t> units_;
  std::vector<Shape> shapes_;
  std::uint32_t window_accesses_ = 0;
  std::uint64_t constant_bytes_ = 0;
  std::uint32_t queue_family_ = 0;
  vk::raii::Device device_ = nullptr;
  vk::raii::DescriptorSetLayout set_layout_ = nullptr;
  vk::raii::PipelineLayout layout_ = nullptr;
  vk::raii::PipelineCache cache_ = nullptr;
  std::map<Key, vk::raii::Pipeline> plays_;
  std::map<std::pair<std::uint32_t, bool>, vk::raii::Pipeline> shared_loads_;
  vk::raii::Pipeline read_clock_ = nullptr;
  vk::raii::Pipeline contend_ = nullptr;
  vk::raii::Pipeline set_aside_ = nullptr;
  vk::raii::Pipeline stream_ = nullptr;
};

}  // namespace gpuinfer::probe::vulkan
