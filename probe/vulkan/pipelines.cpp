// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/pipelines.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "model/description/words.hpp"
#include "probe/gpu/gpu_id.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

// The clock of a shader came with it, and so did all that the probe needs besides.
constexpr std::uint32_t version = VK_API_VERSION_1_2;

vk::raii::Instance make_instance(const vk::raii::Context& context) {
  const vk::ApplicationInfo application{.pApplicationName = "gpuinfer", .apiVersion = version};
  return {context, vk::InstanceCreateInfo{.pApplicationInfo = &application}};
}

vk::raii::Context opened_library(const std::string& source) {
  try {
    return {};
  } catch (const std::exception&) {
    throw DeviceUnavailable(source +
                            " cannot be asked without libvulkan.so.1; install the Vulkan loader (Debian: "
                            "libvulkan1) and the driver of the GPU");
  }
}

vk::raii::Instance opened_instance(const std::string& source, const vk::raii::Context& context) {
  try {
    return make_instance(context);
  } catch (const vk::SystemError& error) {
    throw DeviceUnavailable(source + " is not there, since Vulkan finds no driver (" + error.what() +
                            "); install that of the GPU (Debian: mesa-vulkan-drivers), or name its file in "
                            "VK_DRIVER_FILES");
  }
}

vk::raii::PhysicalDevice found_device(const std::string& source, const vk::raii::Instance& instance,
                                      std::uint32_t number) {
  std::vector<vk::raii::PhysicalDevice> devices;
  try {
    devices = vk::raii::PhysicalDevices(instance);
  } catch (const vk::SystemError& error) {
    throw DeviceUnavailable(source + " is not there, since a driver of Vulkan does not show its devices (" +
                            error.what() + "); try a newer one");
  }
  if (number >= devices.size()) {
    throw DeviceUnavailable(source + " is not there, since Vulkan shows " + std::to_string(devices.size()) +
                            " device(s), counted from 0; take one of those");
  }
  const VulkanDevice device = described(devices[number]);
  if (!device.missing.empty()) {
    throw DeviceUnavailable(source + " (" + device.name + ") lacks " + model::words::joined(device.missing, " and ") +
                            ", without which single loads cannot be timed; try a newer driver");
  }
  return std::move(devices[number]);
}

}  // namespace

Features::Features(const vk::raii::PhysicalDevice& device) {
  const auto extensions = device.enumerateDeviceExtensionProperties();
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(extensions, [name](const vk::ExtensionProperties& each) {
      return std::string_view(each.extensionName) == name;
    });
  };
  known.pNext = &of_version;
  if (has(VK_KHR_SHADER_CLOCK_EXTENSION_NAME)) {
    of_version.pNext = &clock;
  }
  if (has(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    clock.pNext = &units;
  }
  (*device).getFeatures2(&known, *device.getDispatcher());
}

std::vector<std::string> Features::missing() const {
  std::vector<std::string> names;
  for (const auto& [is_there, name] :
       {std::pair(clock.shaderSubgroupClock, "shaderSubgroupClock"),
        std::pair(of_version.bufferDeviceAddress, "bufferDeviceAddress"),
        std::pair(known.features.shaderInt64, "shaderInt64"),
        std::pair(known.features.shaderUniformBufferArrayDynamicIndexing, "shaderUniformBufferArrayDynamicIndexing"),
        std::pair(of_version.scalarBlockLayout, "scalarBlockLayout")}) {
    if (is_there == VK_FALSE) {
      names.emplace_back(name);
    }
  }
  return names;
}

Properties::Properties(const vk::raii::PhysicalDevice& device) {
  known.pNext = &driver;
  driver.pNext = &id;
  id.pNext = &subgroup;
  subgroup.pNext = &units;  // stays as it is where the extension is not known
  (*device).getProperties2(&known, *device.getDispatcher());
}

bool Properties::is_gpu() const {
  const auto type = known.properties.deviceType;
  return type == vk::PhysicalDeviceType::eDiscreteGpu || type == vk::PhysicalDeviceType::eIntegratedGpu ||
         type == vk::PhysicalDeviceType::eVirtualGpu;
}

VulkanDevice described(const vk::raii::PhysicalDevice& device) {
  const vk::PhysicalDeviceProperties properties = device.getProperties();
  VulkanDevice found{.name = properties.deviceName.data(), .driver = {}, .id = {}, .missing = {}};
  if (properties.apiVersion < version) {
    found.missing = {"Vulkan 1.2"};
    return found;
  }
  const Properties all(device);
  found.driver = std::string(all.driver.driverName.data()) + " " + all.driver.driverInfo.data();
  found.id = gpu::gpu_id(gpu::uuid_text(std::as_bytes(std::span<const std::uint8_t, VK_UUID_SIZE>(all.id.deviceUUID))));
  found.is_gpu = all.is_gpu();
  found.missing = Features(device).missing();
  return found;
}

Pipelines::Pipelines(std::uint32_t number)
    : source_("vulkan:" + std::to_string(number)), context_(opened_library(source_)),
      instance_(opened_instance(source_, context_)), physical_(found_device(source_, instance_, number)),
      properties_(physical_), features_(physical_) {
  if (features_.units.shaderSMBuiltins != VK_FALSE) {
    units_ = properties_.units.shaderSMCount;
  }
  choose_sizes();
  doing(source_, "be opened", [this] {
    make_device();
    make_pipelines();
  });
}

void Pipelines::choose_sizes() {
  constexpr std::uint32_t spared_bytes = 1024;
  constexpr std::uint32_t granule_accesses = 64;
  const vk::PhysicalDeviceLimits& limits = properties_.known.properties.limits;
  const auto accesses_in = [](std::uint32_t bytes) {
    return bytes / static_cast<std::uint32_t>(word_bytes) / granule_accesses * granule_accesses;
  };
  window_accesses_ = accesses_in(std::min(limits.maxUniformBufferRange, 64U << 10U));
  constexpr std::uint32_t largest_constants = 64U << 10U;
  constant_bytes_ = std::bit_floor(std::min(limits.maxUniformBufferRange, largest_constants));
  Shape largest{.chunk_accesses = accesses_in(std::min(limits.maxComputeSharedMemorySize - spared_bytes, 47U << 10U))};
  if (units_) {
    const std::uint32_t unit_invocations = properties_.units.shaderWarpsPerSM * properties_.subgroup.subgroupSize;
    largest.invocations = std::min(unit_invocations / most_of_unit, limits.maxComputeWorkGroupInvocations);
    for (std::uint32_t accesses = std::bit_ceil(largest.invocations); accesses < largest.chunk_accesses;
         accesses *= 2) {
      shapes_.push_back({.invocations = largest.invocations, .chunk_accesses = accesses});
    }
  }
  shapes_.push_back(largest);
}

void Pipelines::make_device() {
  // A queue for computing alone lets shaders set the size of L1 by their shared memory on GPUs of NVIDIA.
  const auto families = physical_.getQueueFamilyProperties();
  const auto computes = [](const vk::QueueFamilyProperties& family) {
    return static_cast<bool>(family.queueFlags & vk::QueueFlagBits::eCompute);
  };
  auto family = std::ranges::find_if(families, [&](const vk::QueueFamilyProperties& each) {
    return computes(each) && !(each.queueFlags & vk::QueueFlagBits::eGraphics);
  });
  if (family == families.end()) {
    family = std::ranges::find_if(families, computes);
  }
  if (family == families.end()) {
    throw DeviceError(source_ + " has no queue that computes; take another device");
  }
  queue_family_ = static_cast<std::uint32_t>(family - families.begin());

  vk::PhysicalDeviceShaderSMBuiltinsFeaturesNV units{.shaderSMBuiltins = VK_TRUE};
  vk::PhysicalDeviceShaderClockFeaturesKHR clock{.pNext = units_ ? &units : nullptr, .shaderSubgroupClock = VK_TRUE};
  vk::PhysicalDeviceVulkan12Features of_version{
      .pNext = &clock, .scalarBlockLayout = VK_TRUE, .bufferDeviceAddress = VK_TRUE};
  const vk::PhysicalDeviceFeatures2 features{
      .pNext = &of_version, .features = {.shaderUniformBufferArrayDynamicIndexing = VK_TRUE, .shaderInt64 = VK_TRUE}};
  std::vector<const char*> extensions{VK_KHR_SHADER_CLOCK_EXTENSION_NAME};
  if (units_) {
    extensions.push_back(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
  }
  constexpr float priority = 1;
  const vk::DeviceQueueCreateInfo queue{
      .queueFamilyIndex = queue_family_, .queueCount = 1, .pQueuePriorities = &priority};
  device_ = physical_.createDevice({.pNext = &features,
                                    .queueCreateInfoCount = 1,
                                    .pQueueCreateInfos = &queue,
                                    .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
                                    .ppEnabledExtensionNames = extensions.data()});
}

vk::raii::Pipeline Pipelines::pipeline(std::span<const std::uint32_t> code, const Key& key) const {
  const vk::raii::ShaderModule shader =
      device_.createShaderModule({.codeSize = code.size_bytes(), .pCode = code.data()});
  const std::array<std::uint32_t, 8> constants{key.shape.invocations,
                                               key.shape.chunk_accesses,
                                               window_accesses_,
                                               units_.value_or(1),
                                               static_cast<std::uint32_t>(constant_bytes_ / word_bytes),
                                               static_cast<std::uint32_t>(key.path),
                                               key.nothing ? VK_TRUE : VK_FALSE,
                                               static_cast<std::uint32_t>(key.warm)};
  std::array<vk::SpecializationMapEntry, constants.size()> entries;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    entries[i] = vk::SpecializationMapEntry{
        .constantID = i, .offset = i * static_cast<std::uint32_t>(word_bytes), .size = word_bytes};
  }
  const vk::SpecializationInfo specialization{.mapEntryCount = static_cast<std::uint32_t>(entries.size()),
                                              .pMapEntries = entries.data(),
                                              .dataSize = sizeof(constants),
                                              .pData = constants.data()};
  return device_.createComputePipeline(cache_, {.stage = {.stage = vk::ShaderStageFlagBits::eCompute,
                                                          .module = *shader,
                                                          .pName = "main",
                                                          .pSpecializationInfo = &specialization},
                                                .layout = *layout_});
}

void Pipelines::make_pipelines() {
  const auto binding = [](std::uint32_t number, vk::DescriptorType type, std::uint32_t count) {
    return vk::DescriptorSetLayoutBinding{.binding = number,
                                          .descriptorType = type,
                                          .descriptorCount = count,
                                          .stageFlags = vk::ShaderStageFlagBits::eCompute};
  };
  const std::array bindings{
      binding(0, vk::DescriptorType::eUniformBuffer, windows), binding(1, vk::DescriptorType::eUniformBuffer, 1),
      binding(2, vk::DescriptorType::eUniformTexelBuffer, 1), binding(3, vk::DescriptorType::eUniformBuffer, 1),
      binding(4, vk::DescriptorType::eSampledImage, 1)};
  set_layout_ = device_.createDescriptorSetLayout(
      {.bindingCount = static_cast<std::uint32_t>(bindings.size()), .pBindings = bindings.data()});
  const vk::PushConstantRange launch{
      .stageFlags = vk::ShaderStageFlagBits::eCompute, .offset = 0, .size = sizeof(Launch)};
  layout_ = device_.createPipelineLayout(
      {.setLayoutCount = 1, .pSetLayouts = &*set_layout_, .pushConstantRangeCount = 1, .pPushConstantRanges = &launch});
  cache_ = device_.createPipelineCache({});
  read_clock_ = pipeline(clock_shader(), {});
  contend_ = pipeline(contend_shader(), {});
  set_aside_ = pipeline(set_aside_shader(), {});
  stream_ = pipeline(stream_shader(), {});
}

std::uint32_t Pipelines::memory_type(std::uint32_t types, vk::MemoryPropertyFlags wanted) const {
  const vk::PhysicalDeviceMemoryProperties memories = physical_.getMemoryProperties();
  for (const vk::MemoryPropertyFlags flags :
       {wanted, wanted & ~vk::MemoryPropertyFlags(vk::MemoryPropertyFlagBits::eHostCached)}) {
    for (std::uint32_t type = 0; type < memories.memoryTypeCount; ++type) {
      if ((types >> type & 1U) != 0 && (memories.memoryTypes[type].propertyFlags & flags) == flags) {
        return type;
      }
    }
  }
  throw DeviceError(source_ + " has no memory of the kind that is needed; take another device");
}

const vk::raii::Pipeline& Pipelines::load_shared(std::uint32_t element_words, bool nothing) {
  const std::pair key(element_words, nothing);
  auto made = shared_loads_.find(key);
  if (made == shared_loads_.end()) {
    made = shared_loads_.emplace(key, pipeline(load_shared_shader(element_words), {.nothing = nothing, .shape = {}}))
               .first;
  }
  return made->second;
}

const vk::raii::Pipeline& Pipelines::play(const Key& key) {
  auto made = plays_.find(key);
  if (made == plays_.end()) {
    made = plays_.emplace(key, pipeline(play_shader(units_.has_value()), key)).first;
  }
  return made->second;
}

}  // namespace gpuinfer::probe::vulkan

namespace gpuinfer::probe {

VulkanHealth vulkan_health() {
  VulkanHealth health{.is_built_in = true, .trouble = std::nullopt, .devices = {}};
  try {
    const vk::raii::Context context;
    const vk::raii::Instance instance = vulkan::make_instance(context);
    for (const vk::raii::PhysicalDevice& device : vk::raii::PhysicalDevices(instance)) {
      health.devices.push_back(vulkan::described(device));
    }
    if (health.devices.empty()) {
      health.trouble = "no driver shows a device";
    }
  } catch (const vk::SystemError& error) {
    health.trouble = "no driver is found (" + std::string(error.what()) + ")";
  } catch (const std::exception&) {
    health.trouble = "libvulkan.so.1 is not found";
  }
  return health;
}

}  // namespace gpuinfer::probe
