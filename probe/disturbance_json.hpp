// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "model/disturbance.hpp"

// A disturbance in JSON and CBOR: {"kind": "clocks", "sentence": "..."}, or the sentence alone, which is of kind other.
template <>
struct nlohmann::adl_serializer<gpuinfer::model::Disturbance> {
  using Disturbance = gpuinfer::model::Disturbance;

  static constexpr std::array<std::pair<std::string_view, Disturbance::Kind>, 4> kinds{
      {{"asked_again", Disturbance::Kind::asked_again},
       {"clocks", Disturbance::Kind::clocks},
       {"other_processes", Disturbance::Kind::other_processes},
       {"memory_errors", Disturbance::Kind::memory_errors}}};

  static void to_json(json& object, const Disturbance& disturbance) {
    object = disturbance.sentence;
    for (const auto& [name, kind] : kinds) {
      if (kind == disturbance.kind) {
        object = {{"kind", name}, {"sentence", disturbance.sentence}};
      }
    }
  }

  // Throws nlohmann::json::exception for what is none. A kind that is not known is other.
  static void from_json(const json& object, Disturbance& disturbance) {
    disturbance = {};
    if (object.is_string()) {
      object.get_to(disturbance.sentence);
      return;
    }
    object.at("sentence").get_to(disturbance.sentence);
    const auto& said = object.at("kind").get_ref<const std::string&>();
    for (const auto& [name, kind] : kinds) {
      disturbance.kind = said == name ? kind : disturbance.kind;
    }
  }
};
