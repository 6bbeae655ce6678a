// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan/raster_image.hpp"

#include <algorithm>

namespace gpuinfer::probe::vulkan {
namespace {

constexpr vk::ImageSubresourceRange whole{
    .aspectMask = vk::ImageAspectFlagBits::eColor, .levelCount = 1, .layerCount = 1};

}  // namespace

RasterImage::RasterImage(const Pipelines& made)
    : image_(made.device().createImage(
          {.flags = vk::ImageCreateFlagBits::eAlias,
           .imageType = vk::ImageType::e2D,
           .format = vk::Format::eR32Uint,
           .extent = {.width = raster_width, .height = raster_height, .depth = 1},
           .mipLevels = 1,
           .arrayLayers = 1,
           .usage = vk::ImageUsageFlagBits::eSampled | vk::ImageUsageFlagBits::eTransferDst})) {
  const vk::MemoryRequirements image_needs = image_.getMemoryRequirements();
  buffer_ = made.device().createBuffer({.size = image_needs.size, .usage = vk::BufferUsageFlagBits::eTransferSrc});
  const vk::MemoryRequirements needs = buffer_.getMemoryRequirements();
  bytes_ = image_needs.size;
  memory_ = made.device().allocateMemory(
      {.allocationSize = std::max(needs.size, bytes_),
       .memoryTypeIndex = made.memory_type(image_needs.memoryTypeBits & needs.memoryTypeBits,
                                           vk::MemoryPropertyFlagBits::eDeviceLocal)});
  image_.bindMemory(*memory_, 0);
  buffer_.bindMemory(*memory_, 0);
  view_ = made.device().createImageView({.image = *image_,
                                         .viewType = vk::ImageViewType::e2D,
                                         .format = vk::Format::eR32Uint,
                                         .subresourceRange = whole});
}

void RasterImage::clear(const vk::raii::CommandBuffer& commands) const {
  commands.pipelineBarrier(vk::PipelineStageFlagBits::eAllCommands, vk::PipelineStageFlagBits::eAllCommands, {},
                           nullptr, nullptr,
                           vk::ImageMemoryBarrier{.dstAccessMask = vk::AccessFlagBits::eMemoryWrite,
                                                  .oldLayout = vk::ImageLayout::eUndefined,
                                                  .newLayout = vk::ImageLayout::eGeneral,
                                                  .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                                  .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                                  .image = *image_,
                                                  .subresourceRange = whole});
  commands.clearColorImage(*image_, vk::ImageLayout::eGeneral, vk::ClearColorValue{}, whole);
}

void RasterImage::fill(const vk::raii::CommandBuffer& commands, vk::Buffer words) const {
  commands.copyBufferToImage(
      words, *image_, vk::ImageLayout::eGeneral,
      vk::BufferImageCopy{.imageSubresource = {.aspectMask = vk::ImageAspectFlagBits::eColor, .layerCount = 1},
                          .imageExtent = {.width = raster_width, .height = raster_height, .depth = 1}});
}

void RasterImage::copy_memory(const vk::raii::CommandBuffer& commands, vk::Buffer words) const {
  commands.copyBuffer(*buffer_, words, vk::BufferCopy{.srcOffset = 0, .dstOffset = 0, .size = bytes_});
}

}  // namespace gpuinfer::probe::vulkan
