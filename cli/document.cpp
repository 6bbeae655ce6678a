// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/document.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "model/json_text.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

namespace {

// Only between quotes can escapes stand.
void emit_text(YAML::Emitter& out, const std::string& text) {
  if (printable(text) != text) {
    out << YAML::DoubleQuoted;
  }
  out << text;
}

void emit(YAML::Emitter& out, const Document& node) {
  const bool flat = std::none_of(node.begin(), node.end(), [](const Document& child) { return child.is_structured(); });
  if (node.is_object()) {
    if (flat) {
      out << YAML::Flow;
    }
    out << YAML::BeginMap;
    for (const auto& [key, value] : node.items()) {
      out << YAML::Key;
      emit_text(out, key);
      out << YAML::Value;
      emit(out, value);
    }
    out << YAML::EndMap;
  } else if (node.is_array()) {
    if (flat) {
      out << YAML::Flow;
    }
    out << YAML::BeginSeq;
    for (const Document& value : node) {
      emit(out, value);
    }
    out << YAML::EndSeq;
  } else if (node.is_string()) {
    emit_text(out, node.get<std::string>());
  } else if (node.is_null()) {
    out << YAML::Null;
  } else {
    out << model::json_text(node);
  }
}

}  // namespace

std::string to_text(const Document& document, Format format) {
  if (format == Format::json) {
    return with_escapes(model::json_text(document, {.indent = 2, .replaces_bytes = true})) + '\n';
  }
  YAML::Emitter out;
  emit(out, document);
  return with_escapes(out.c_str()) + '\n';
}

}  // namespace gpuinfer::cli
