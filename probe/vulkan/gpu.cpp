// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/gpu.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "probe/gpu/question_words.hpp"
#include "probe/gpu/texel_places.hpp"
#include "probe/vulkan/pipelines.hpp"
#include "probe/vulkan/raster_image.hpp"

namespace gpuinfer::probe::vulkan {
namespace {

// The list of one unit.
struct Seat {
  std::uint32_t first = 0;
  std::uint32_t accesses = 0;
  std::uint32_t warm = 0;
};

// Where a workgroup ran, written by it.
struct Place {
  std::uint32_t unit = 0;
  std::uint32_t played = 0;
};

// Memory with what it holds.
struct Memory {
  vk::raii::DeviceMemory memory = nullptr;
  vk::raii::Buffer buffer = nullptr;
  std::uint64_t address = 0;
  void* seen = nullptr;  // by this process, where it can see it
};

}  // namespace

class Gpu::Device {
 public:
  explicit Device(const VulkanOptions& options);

  [[nodiscard]] model::DeviceFacts facts() const;
  [[nodiscard]] Memory allocate(std::uint64_t bytes, vk::MemoryPropertyFlags wanted) const;
  [[nodiscard]] Reach reach(LoadPath path) const;
  [[nodiscard]] Reach zeros(std::uint64_t bytes);
  [[nodiscard]] std::vector<Played> play(const Manner& manner, std::span<const model::Question> questions,
                                         std::span<const std::uint32_t> units);
  [[nodiscard]] std::vector<float> contend(const Reach& reach, std::span<const std::uint64_t> offsets);
  void stream_through(const Reach& reach);
  [[nodiscard]] std::vector<std::uint32_t> places_of_texels();
  [[nodiscard]] std::vector<std::vector<std::uint64_t>> load_shared(std::span<const model::SharedLoads> batch,
                                                                    bool nothing);

  [[nodiscard]] bool is_gpu() const { return made_.properties().is_gpu(); }
  [[nodiscard]] std::optional<std::uint32_t> units() const { return made_.units(); }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return made_.shapes(); }
  [[nodiscard]] std::uint64_t most_accesses() const { return std::uint64_t{windows} * made_.window_accesses(); }
  [[nodiscard]] std::uint64_t memory_bytes() const;
  [[nodiscard]] std::uint64_t shared_bytes() const {
    return made_.properties().known.properties.limits.maxComputeSharedMemorySize;
  }
  [[nodiscard]] const Clock& clock() const { return clock_; }

 private:
  void make_queue();
  void make_lists();
  void make_descriptors();
  [[nodiscard]] std::uint32_t groups() const { return made_.units().value_or(1); }
  // Records what `record` says and waits for it.
  template <class Record>
  void submit(const std::string& what, Record record);
  // Whoever comes later sees all that was written, and nothing older.
  void barrier() const;
  void dispatch(const vk::raii::Pipeline& pipeline, const Launch& launch, std::uint32_t groups) const;
  std::uint64_t pack(std::span<const model::Question> questions, std::span<const std::uint32_t> units);
  [[nodiscard]] Clock read_clock();

  [[nodiscard]] std::span<Seat> seats() const { return {static_cast<Seat*>(upload_.seen), groups()}; }
  [[nodiscard]] std::uint32_t* list() const {
    return static_cast<std::uint32_t*>(upload_.seen) + header_bytes_ / word_bytes;
  }
  [[nodiscard]] std::span<const Place> places() const { return {static_cast<const Place*>(download_.seen), groups()}; }
  [[nodiscard]] const std::uint32_t* latencies() const {
    return static_cast<const std::uint32_t*>(download_.seen) + header_bytes_ / word_bytes;
  }

  Pipelines made_;
  std::uint64_t header_bytes_ = 0;

  vk::raii::Queue queue_ = nullptr;
  vk::raii::CommandPool command_pool_ = nullptr;
  vk::raii::CommandBuffer commands_ = nullptr;
  vk::raii::Fence done_ = nullptr;

  Memory upload_;    // of this process: seats and lists
  Memory lists_;     // the same on the device
  Memory results_;   // on the device: places and latencies
  Memory download_;  // the same, of this process
  vk::raii::DescriptorPool descriptor_pool_ = nullptr;
  vk::raii::DescriptorSet descriptors_ = nullptr;
  std::vector<Memory> zeros_;
  Reach buffer_;
  Reach constants_;
  std::uint64_t texel_bytes_ = 0;
  vk::raii::BufferView texels_ = nullptr;
  std::optional<RasterImage> raster_;
  Clock clock_;
};

Gpu::Device::Device(const VulkanOptions& options) : made_(options.device) {
  doing(made_.source(), "be opened", [this] {
    make_queue();
    make_lists();
  });
  constants_ = zeros(made_.constant_bytes());
  buffer_ = zeros(options.buffer_bytes);
  doing(made_.source(), "be opened", [this] {
    raster_.emplace(made_);
    make_descriptors();
  });
  submit("clear a texture", [this] {
    raster_->clear(commands_);
    barrier();
  });
  clock_ = read_clock();
}

void Gpu::Device::make_queue() {
  const vk::raii::Device& device = made_.device();
  queue_ = device.getQueue(made_.queue_family(), 0);
  command_pool_ = device.createCommandPool(
      {.flags = vk::CommandPoolCreateFlagBits::eResetCommandBuffer, .queueFamilyIndex = made_.queue_family()});
  commands_ = std::move(vk::raii::CommandBuffers(
      device, {.commandPool = *command_pool_, .level = vk::CommandBufferLevel::ePrimary, .commandBufferCount = 1})[0]);
  done_ = device.createFence({});
}

Memory Gpu::Device::allocate(std::uint64_t bytes, vk::MemoryPropertyFlags wanted) const {
  using Usage = vk::BufferUsageFlagBits;
  Memory made;
  made.buffer =
      made_.device().createBuffer({.size = bytes,
                                   .usage = Usage::eUniformBuffer | Usage::eUniformTexelBuffer | Usage::eStorageBuffer |
                                            Usage::eTransferSrc | Usage::eTransferDst | Usage::eShaderDeviceAddress});
  const vk::MemoryRequirements needs = made.buffer.getMemoryRequirements();
  // Of its own memory: drivers lay out what may be shared in smaller pages, whose translations caches do not hold.
  const vk::MemoryDedicatedAllocateInfo dedicated{.buffer = *made.buffer};
  const vk::MemoryAllocateFlagsInfo with_address{.pNext = &dedicated,
                                                 .flags = vk::MemoryAllocateFlagBits::eDeviceAddress};
  made.memory = made_.device().allocateMemory({.pNext = &with_address,
                                               .allocationSize = needs.size,
                                               .memoryTypeIndex = made_.memory_type(needs.memoryTypeBits, wanted)});
  made.buffer.bindMemory(*made.memory, 0);
  made.address = made_.device().getBufferAddress({.buffer = *made.buffer});
  if (wanted & vk::MemoryPropertyFlagBits::eHostVisible) {
    made.seen = made.memory.mapMemory(0, VK_WHOLE_SIZE);
  }
  return made;
}

void Gpu::Device::make_lists() {
  using Flag = vk::MemoryPropertyFlagBits;
  constexpr std::uint64_t alignment_bytes = 4096;  // of uniform buffers, at most 256
  header_bytes_ = (groups() * sizeof(Seat) + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  const std::uint64_t bytes = header_bytes_ + most_accesses() * word_bytes;
  upload_ = allocate(bytes, Flag::eHostVisible | Flag::eHostCoherent);
  download_ = allocate(bytes, Flag::eHostVisible | Flag::eHostCoherent | Flag::eHostCached);
  lists_ = allocate(bytes, Flag::eDeviceLocal);
  results_ = allocate(bytes, Flag::eDeviceLocal);
}

void Gpu::Device::make_descriptors() {
  const vk::Buffer buffer = *zeros_.back().buffer;
  texel_bytes_ =
      std::min(buffer_.bytes, made_.properties().known.properties.limits.maxTexelBufferElements * word_bytes);
  texels_ = made_.device().createBufferView({.buffer = buffer,
                                             .format = vk::Format::eR32Uint,
                                             .offset = buffer_.address - zeros_.back().address,
                                             .range = texel_bytes_});
  const std::array sizes{
      vk::DescriptorPoolSize{.type = vk::DescriptorType::eUniformBuffer, .descriptorCount = windows + 2},
      vk::DescriptorPoolSize{.type = vk::DescriptorType::eUniformTexelBuffer, .descriptorCount = 1},
      vk::DescriptorPoolSize{.type = vk::DescriptorType::eSampledImage, .descriptorCount = 1}};
  descriptor_pool_ = made_.device().createDescriptorPool({.flags = vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet,
                                                          .maxSets = 1,
                                                          .poolSizeCount = static_cast<std::uint32_t>(sizes.size()),
                                                          .pPoolSizes = sizes.data()});
  descriptors_ = std::move(vk::raii::DescriptorSets(
      made_.device(),
      {.descriptorPool = *descriptor_pool_, .descriptorSetCount = 1, .pSetLayouts = &*made_.set_layout()})[0]);
  const std::uint64_t window_bytes = made_.window_accesses() * word_bytes;
  std::vector<vk::DescriptorBufferInfo> lists;
  for (std::uint64_t window = 0; window < windows; ++window) {
    lists.push_back({.buffer = *lists_.buffer, .offset = header_bytes_ + window * window_bytes, .range = window_bytes});
  }
  const vk::DescriptorBufferInfo seats{.buffer = *lists_.buffer, .offset = 0, .range = groups() * sizeof(Seat)};
  const Memory& constants = zeros_.front();
  const vk::DescriptorBufferInfo bank{
      .buffer = *constants.buffer, .offset = constants_.address - constants.address, .range = constants_.bytes};
  const vk::DescriptorImageInfo raster{.imageView = raster_->view(), .imageLayout = vk::ImageLayout::eGeneral};
  made_.device().updateDescriptorSets({vk::WriteDescriptorSet{.dstSet = *descriptors_,
                                                              .dstBinding = 0,
                                                              .descriptorCount = windows,
                                                              .descriptorType = vk::DescriptorType::eUniformBuffer,
                                                              .pBufferInfo = lists.data()},
                                       vk::WriteDescriptorSet{.dstSet = *descriptors_,
                                                              .dstBinding = 1,
                                                              .descriptorCount = 1,
                                                              .descriptorType = vk::DescriptorType::eUniformBuffer,
                                                              .pBufferInfo = &bank},
                                       vk::WriteDescriptorSet{.dstSet = *descriptors_,
                                                              .dstBinding = 2,
                                                              .descriptorCount = 1,
                                                              .descriptorType = vk::DescriptorType::eUniformTexelBuffer,
                                                              .pTexelBufferView = &*texels_},
                                       vk::WriteDescriptorSet{.dstSet = *descriptors_,
                                                              .dstBinding = 3,
                                                              .descriptorCount = 1,
                                                              .descriptorType = vk::DescriptorType::eUniformBuffer,
                                                              .pBufferInfo = &seats},
                                       vk::WriteDescriptorSet{.dstSet = *descriptors_,
                                                              .dstBinding = 4,
                                                              .descriptorCount = 1,
                                                              .descriptorType = vk::DescriptorType::eSampledImage,
                                                              .pImageInfo = &raster}},
                                      nullptr);
}

Reach Gpu::Device::reach(LoadPath path) const {
  switch (path) {
    case LoadPath::constant:
      return {.bytes = constants_.bytes};
    case LoadPath::texel:
      return {.address = buffer_.address, .bytes = texel_bytes_};
    case LoadPath::texel_2d:
      return {.bytes = std::uint64_t{raster_width} * raster_height * word_bytes};
    case LoadPath::global:
    case LoadPath::past_l1:
      break;
  }
  return buffer_;
}

template <class Record>
void Gpu::Device::submit(const std::string& what, Record record) {
  doing(made_.source(), what, [&] {
    commands_.reset();
    commands_.begin({.flags = vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
    record();
    commands_.end();
    made_.device().resetFences(*done_);
    queue_.submit(vk::SubmitInfo{.commandBufferCount = 1, .pCommandBuffers = &*commands_}, *done_);
    constexpr std::uint64_t patience_ns = 30'000'000'000;
    if (made_.device().waitForFences(*done_, VK_TRUE, patience_ns) != vk::Result::eSuccess) {
      throw DeviceError(made_.source() + " did not " + what + " in 30 s; end what keeps the GPU busy");
    }
  });
}

void Gpu::Device::barrier() const {
  constexpr auto everything = vk::AccessFlagBits::eMemoryRead | vk::AccessFlagBits::eMemoryWrite;
  commands_.pipelineBarrier(
      vk::PipelineStageFlagBits::eAllCommands,
      vk::PipelineStageFlagBits::eAllCommands | vk::PipelineStageFlagBits::eHost, {},
      vk::MemoryBarrier{.srcAccessMask = vk::AccessFlagBits::eMemoryWrite, .dstAccessMask = everything}, nullptr,
      nullptr);
}

void Gpu::Device::dispatch(const vk::raii::Pipeline& pipeline, const Launch& launch, std::uint32_t groups) const {
  commands_.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline);
  commands_.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *made_.layout(), 0, *descriptors_, nullptr);
  commands_.pushConstants<Launch>(*made_.layout(), vk::ShaderStageFlagBits::eCompute, 0, launch);
  commands_.dispatch(groups, 1, 1);
}

Reach Gpu::Device::zeros(std::uint64_t bytes) {
  Memory memory = doing(made_.source(), "make a buffer of " + std::to_string(bytes) + " bytes",
                        [&] { return allocate(2 * bytes, vk::MemoryPropertyFlagBits::eDeviceLocal); });
  const Reach reach{.address = (memory.address + bytes - 1) / bytes * bytes, .bytes = bytes};
  submit("clear a buffer", [&] {
    commands_.fillBuffer(*memory.buffer, 0, VK_WHOLE_SIZE, 0);
    barrier();
  });
  zeros_.push_back(std::move(memory));
  return reach;
}

std::uint64_t Gpu::Device::memory_bytes() const {
  const vk::PhysicalDeviceMemoryProperties memories = made_.physical().getMemoryProperties();
  std::uint64_t bytes = 0;
  for (std::uint32_t heap = 0; heap < memories.memoryHeapCount; ++heap) {
    if (memories.memoryHeaps[heap].flags & vk::MemoryHeapFlagBits::eDeviceLocal) {
      bytes = std::max<std::uint64_t>(bytes, memories.memoryHeaps[heap].size);
    }
  }
  return bytes;
}

Clock Gpu::Device::read_clock() {
  // By stores that wait for each other, at 100 cycles or more each, 2^20 cycles pass.
  constexpr std::uint32_t readings = 1U << 15U;
  const std::uint32_t count = std::min(readings, static_cast<std::uint32_t>(most_accesses()));
  submit("read its clock", [&] {
    dispatch(made_.read_clock(), {.latencies = results_.address + header_bytes_, .words = count}, 1);
    barrier();
    commands_.copyBuffer(*results_.buffer, *download_.buffer,
                         vk::BufferCopy{.srcOffset = 0, .dstOffset = 0, .size = header_bytes_ + count * word_bytes});
    barrier();
  });
  return clock_of({latencies(), count});
}

// Returns how many words of the lists are used.
std::uint64_t Gpu::Device::pack(std::span<const model::Question> questions, std::span<const std::uint32_t> units) {
  std::ranges::fill(seats(), Seat{});
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::uint64_t accesses = questions[i].warm.size() + questions[i].record.size();
    seats()[units[i]] = {.first = static_cast<std::uint32_t>(first),
                         .accesses = static_cast<std::uint32_t>(accesses),
                         .warm = static_cast<std::uint32_t>(questions[i].warm.size())};
    probe::gpu::write_words(questions[i], list() + first);
    first += accesses;
  }
  return first;
}

std::vector<Played> Gpu::Device::play(const Manner& manner, std::span<const model::Question> questions,
                                      std::span<const std::uint32_t> units) {
  std::uint32_t longest = 1;
  for (const model::Question& question : questions) {
    longest = std::max(longest, static_cast<std::uint32_t>(question.warm.size() + question.record.size()));
  }
  const vk::BufferCopy used{
      .srcOffset = 0, .dstOffset = 0, .size = header_bytes_ + pack(questions, units) * word_bytes};
  const vk::raii::Pipeline& pipeline = doing(made_.source(), "be told to play", [&]() -> const vk::raii::Pipeline& {
    return made_.play({.path = manner.path, .warm = manner.warm, .nothing = manner.nothing, .shape = manner.shape});
  });
  submit("play accesses", [&] {
    commands_.copyBuffer(*upload_.buffer, *lists_.buffer, used);
    commands_.fillBuffer(*results_.buffer, 0, used.size, 0);
    barrier();
    if (manner.new_l1) {
      dispatch(made_.set_aside(), {}, groups());
      barrier();
    }
    Launch launch{.begin = manner.reach.address,
                  .list = lists_.address + header_bytes_,
                  .places = results_.address,
                  .latencies = results_.address + header_bytes_,
                  .end = manner.reach.address + manner.reach.bytes,
                  .words = static_cast<std::uint32_t>(manner.reach.bytes / word_bytes),
                  .to = made_.properties().is_gpu() ? longest : std::min(longest, made_.window_accesses())};
    // Drivers that let a CPU play end loops after 65,535 turns, and a barrier is nothing to its caches.
    for (; launch.from < longest; launch.from = std::exchange(launch.to, launch.to + made_.window_accesses())) {
      dispatch(pipeline, launch, groups());
      barrier();
    }
    commands_.copyBuffer(*results_.buffer, *download_.buffer, used);
    barrier();
  });
  std::vector<Played> all;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Seat& seat = seats()[units[i]];
    Played& played = all.emplace_back();
    played.was_alone = std::ranges::count(places(), units[i], &Place::unit) == 1;
    const auto place = std::ranges::find(places(), units[i], &Place::unit);
    played.accesses = place == places().end() ? 0 : place->played;
    const std::span recorded(latencies() + seat.first + seat.warm, questions[i].record.size());
    std::ranges::transform(recorded, std::back_inserter(played.latency_cycles),
                           [this](std::uint32_t ticks) { return static_cast<float>(clock_.ticks(ticks)); });
  }
  return all;
}

std::vector<float> Gpu::Device::contend(const Reach& reach, std::span<const std::uint64_t> offsets) {
  constexpr std::size_t most_offsets = 2048;  // of a launch, as contend.comp has them
  std::vector<float> times;
  while (times.size() < offsets.size()) {
    const auto part = offsets.subspan(times.size(), std::min(most_offsets, offsets.size() - times.size()));
    std::ranges::transform(part, list(),
                           [](std::uint64_t offset) { return static_cast<std::uint32_t>(offset / word_bytes); });
    const vk::BufferCopy used{.srcOffset = 0, .dstOffset = 0, .size = header_bytes_ + part.size() * word_bytes};
    submit("contend for places", [&] {
      commands_.copyBuffer(*upload_.buffer, *lists_.buffer, used);
      commands_.fillBuffer(*results_.buffer, 0, used.size, 0);
      barrier();
      dispatch(made_.contend(),
               {.begin = reach.address,
                .list = lists_.address + header_bytes_,
                .places = results_.address,
                .latencies = results_.address + header_bytes_,
                .words = static_cast<std::uint32_t>(part.size())},
               groups());
      barrier();
      commands_.copyBuffer(*results_.buffer, *download_.buffer, used);
      barrier();
    });
    for (std::size_t pair = 0; pair < part.size() / 2; ++pair) {
      times.insert(times.end(), 2, static_cast<float>(latencies()[pair] / groups()));
    }
  }
  return times;
}

void Gpu::Device::stream_through(const Reach& reach) {
  constexpr std::uint32_t groups = 4096;
  submit("read a stream", [&] {
    // Twice, since a line may stay that is not the oldest.
    for (int time = 0; time < 2; ++time) {
      dispatch(made_.stream(),
               {.begin = reach.address,
                .latencies = results_.address,
                .words = static_cast<std::uint32_t>(reach.bytes / word_bytes)},
               groups);
      barrier();
    }
  });
}

std::vector<std::uint32_t> Gpu::Device::places_of_texels() {
  using Flag = vk::MemoryPropertyFlagBits;
  constexpr std::uint32_t texels = raster_width * raster_height;
  Memory numbers;
  Memory memory;
  doing(made_.source(), "make room for a texture", [&] {
    numbers = allocate(texels * word_bytes, Flag::eHostVisible | Flag::eHostCoherent);
    memory = allocate(raster_->bytes(), Flag::eHostVisible | Flag::eHostCoherent | Flag::eHostCached);
  });
  const std::span texel_numbers(static_cast<std::uint32_t*>(numbers.seen), texels);
  std::iota(texel_numbers.begin(), texel_numbers.end(), 1U);
  submit("lay out a texture", [&] {
    raster_->fill(commands_, *numbers.buffer);
    barrier();
    raster_->copy_memory(commands_, *memory.buffer);
    barrier();
    raster_->clear(commands_);
    barrier();
  });
  return gpu::places_of_numbers({static_cast<const std::uint32_t*>(memory.seen), raster_->bytes() / word_bytes},
                                texels);
}

std::vector<std::vector<std::uint64_t>> Gpu::Device::load_shared(std::span<const model::SharedLoads> batch,
                                                                 bool nothing) {
  std::uint32_t* seat = list();
  std::uint32_t runs = 0;
  for (const model::SharedLoads& loads : batch) {
    seat = std::ranges::copy(loads.lane_offsets, seat).out;
    *seat++ = loads.runs;
    *seat++ = runs;
    runs += loads.runs;
  }
  const std::uint64_t list_bytes = static_cast<std::uint64_t>(seat - list()) * word_bytes;
  const vk::raii::Pipeline& pipeline =
      doing(made_.source(), "be told to load from shared memory", [&]() -> const vk::raii::Pipeline& {
        return made_.load_shared(batch.front().element_bytes / word_bytes, nothing);
      });
  submit("load from shared memory", [&] {
    commands_.copyBuffer(*upload_.buffer, *lists_.buffer,
                         vk::BufferCopy{.srcOffset = header_bytes_, .dstOffset = header_bytes_, .size = list_bytes});
    barrier();
    dispatch(pipeline, {.list = lists_.address + header_bytes_, .latencies = results_.address + header_bytes_},
             static_cast<std::uint32_t>(batch.size()));
    barrier();
    commands_.copyBuffer(
        *results_.buffer, *download_.buffer,
        vk::BufferCopy{.srcOffset = header_bytes_, .dstOffset = header_bytes_, .size = runs * word_bytes});
    barrier();
  });
  std::vector<std::vector<std::uint64_t>> ticks;
  const std::uint32_t* next = latencies();
  for (const model::SharedLoads& loads : batch) {
    std::transform(next, next + loads.runs, std::back_inserter(ticks.emplace_back()),
                   [this](std::uint32_t read) { return clock_.ticks(read); });
    next += loads.runs;
  }
  return ticks;
}

model::DeviceFacts Gpu::Device::facts() const {
  const VulkanDevice device = described(made_.physical());
  model::DeviceFacts facts;
  facts.name = device.name + (device.is_gpu ? "" : ", a CPU and no GPU");
  facts.source = made_.source();
  facts.sm_count = made_.units();
  facts.chooses_unit = made_.units().has_value();
  facts.provenance = {
      {"gpu_id", device.id},
      {"vulkan_driver", device.driver},
      {"vulkan_device_type", vk::to_string(made_.properties().known.properties.deviceType)},
      {"clock_bits", std::to_string(clock_.bits)},
      {"clock_step_ticks", std::to_string(clock_.step_ticks)},
      {"place", made_.units() ? "the shader knows its SM" : "one workgroup, on a unit that is not known"},
      {"list_transfer",
       "through uniform buffers, of ConstL1 by loads past L1; latencies by atomics, when registers or shared memory "
       "are full of them"},
  };
  return facts;
}

Gpu::Gpu(const VulkanOptions& options) : device_(std::make_unique<Device>(options)) {}
Gpu::~Gpu() = default;
model::DeviceFacts Gpu::facts() const { return device_->facts(); }
bool Gpu::is_gpu() const { return device_->is_gpu(); }
std::optional<std::uint32_t> Gpu::units() const { return device_->units(); }
std::uint64_t Gpu::most_accesses() const { return device_->most_accesses(); }
const std::vector<Shape>& Gpu::shapes() const { return device_->shapes(); }
std::uint64_t Gpu::memory_bytes() const { return device_->memory_bytes(); }
const Clock& Gpu::clock() const { return device_->clock(); }
Reach Gpu::reach(LoadPath path) const { return device_->reach(path); }
Reach Gpu::allocate(std::uint64_t bytes) { return device_->zeros(bytes); }
std::vector<Played> Gpu::play(const Manner& manner, std::span<const model::Question> questions,
                              std::span<const std::uint32_t> units) {
  return device_->play(manner, questions, units);
}
std::vector<float> Gpu::contend(const Reach& reach, std::span<const std::uint64_t> offsets) {
  return device_->contend(reach, offsets);
}
void Gpu::stream_through(const Reach& reach) { device_->stream_through(reach); }
std::vector<std::uint32_t> Gpu::places_of_texels() { return device_->places_of_texels(); }
std::vector<std::vector<std::uint64_t>> Gpu::load_shared(std::span<const model::SharedLoads> batch, bool nothing) {
  return device_->load_shared(batch, nothing);
}
std::uint64_t Gpu::shared_bytes() const { return device_->shared_bytes(); }

}  // namespace gpuinfer::probe::vulkan
