// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "probe/vulkan/pipelines.hpp"

namespace gpuinfer::probe::vulkan {

// A two-dimensional image of raster_width x raster_height words, laid out as the driver likes it, whose memory is a
// buffer as well, so that one can see how. Functions record commands; barriers between them are the caller's.
class RasterImage {
 public:
  explicit RasterImage(const Pipelines& made);

  [[nodiscard]] vk::ImageView view() const { return *view_; }
  // Of its memory.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Fills it with zeros; the first of all commands.
  void clear(const vk::raii::CommandBuffer& commands) const;
  // Fills it from a buffer, row by row.
  void fill(const vk::raii::CommandBuffer& commands, vk::Buffer words) const;
  // Copies its memory to a buffer, as it is.
  void copy_memory(const vk::raii::CommandBuffer& commands, vk::Buffer words) const;

 private:
  vk::raii::Image image_ = nullptr;
  vk::raii::Buffer buffer_ = nullptr;
  std::uint64_t bytes_ = 0;
  vk::raii::DeviceMemory memory_ = nullptr;
  vk::raii::ImageView view_ = nullptr;
};

}  // namespace gpuinfer::probe::vulkan
