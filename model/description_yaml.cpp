// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description_yaml.hpp"

#include <fstream>

#include "model/description/sections.hpp"
#include "model/description/values.hpp"
#include "model/errors.hpp"
#include "model/yaml_limits.hpp"

namespace gpuinfer::model {

namespace {

constexpr std::string_view schema_family = "gpuinfer/";
constexpr std::uint64_t schema_version = 1;

void check_schema(const Place& root) {
  const auto schema = root.find("schema");
  if (!schema) {
    root.fail("schema: is missing; begin the file with `schema: gpuinfer/1`");
  }
  const std::string text = schema->text();
  const auto version =
      text.starts_with(schema_family) ? number_from<std::uint64_t>(text.substr(schema_family.size())) : std::nullopt;
  if (!version || *version == 0) {
    schema->fail("`" + text + "` is not a schema that this program knows; write gpuinfer/1");
  }
  if (*version > schema_version) {
    schema->fail(text + " is newer than this program, which reads gpuinfer/1; use a newer gpuinfer");
  }
}

}  // namespace

DeviceDescription parse_description(std::string_view yaml, const std::string& file) {
  const YamlNode tree = parse_yaml(yaml, file);
  const Place root(tree, file);
  static_cast<void>(root.entries());
  check_schema(root);
  return read_sections(root, sections());
}

DeviceDescription read_description(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored)) {
    throw InputError(file.string() + ": cannot be read; check its name and permissions");
  }
  // One byte more than is taken, so that the parser sees that there is more.
  std::string yaml(most_description_bytes + 1, '\0');
  stream.read(yaml.data(), static_cast<std::streamsize>(yaml.size()));
  yaml.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) {
    throw InputError(file.string() + ": cannot be read to its end; look for a failing disk, or name another file");
  }
  return parse_description(yaml, file.string());
}

std::string to_yaml(const DeviceDescription& description) { return write_sections(description, sections()); }

std::string to_json(const DeviceDescription& description) {
  return to_json(parse_yaml(to_yaml(description), "description"));
}

FlowYaml to_flow_yaml(const IndexFunction& index) { return flow_map(codec::index_entries(index)); }

FlowYaml to_flow_yaml(const Replacement& replacement) { return codec::replacement_text(replacement); }

FlowYaml to_flow_yaml(const std::vector<std::string>& names) { return codec::List<codec::Text>{}.write(names); }

FlowYaml to_flow_yaml(const TexelBlock& block) { return codec::texel_block().write(block); }

FlowYaml to_flow_yaml(const std::vector<CodeLevel>& levels) { return codec::code_levels().write(levels); }

FlowYaml to_flow_yaml(const std::vector<std::uint32_t>& ways) { return codec::Ways{}.write(ways); }

}  // namespace gpuinfer::model
