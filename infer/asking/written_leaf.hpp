// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include "model/description/sections.hpp"

namespace gpuinfer::infer {

// A value of a leaf of caches as it stands in a description, by the row of the leaf.
template <class Member, class Value>
[[nodiscard]] model::FlowYaml written_leaf(std::string_view leaf, Member model::CacheDescription::*member,
                                           const Value& value) {
  model::CacheDescription cache;
  cache.*member = value;
  return std::ranges::find(model::cache_leaves(), leaf, &model::Leaf<model::CacheDescription>::name)->write(cache);
}

}  // namespace gpuinfer::infer
