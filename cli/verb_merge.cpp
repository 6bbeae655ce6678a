// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/common_options.hpp"
#include "cli/output.hpp"
#include "cli/pieces.hpp"
#include "cli/syntax.hpp"
#include "cli/verbs.hpp"
#include "model/description_yaml.hpp"

namespace gpuinfer::cli {

Syntax merge_syntax() {
  Syntax syntax(
      "merge PROFILE... [-o gpu.yaml]",
      "Makes one profile of several of one device: each value, with its evidence, is of the profile that "
      "knows it, and of the one\nthat has proven it where several do. What was found at two carve-outs is not "
      "put together, and provenance that\nsections do not share stands as SECTION.FACT. Profiles of two "
      "devices, and two values that contradict, are an error.",
      {"gpuinfer merge L1tex.yaml L2.yaml -o gpu.yaml               two runs on one GPU"});
  syntax.operands(ValueKind::descriptions);
  add_output_options(syntax);
  return syntax;
}

ExitStatus verb_merge(Arguments arguments) {
  const auto parsed = merge_syntax().parse(arguments, 1, std::string::npos);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Format format = format_from(parsed->text("format"));
  Output output(parsed->text("output"));
  const model::DeviceDescription profile = read_merged(parsed->operands());
  output.stream() << (format == Format::json ? model::to_json(profile) : model::to_yaml(profile));
  output.finish();
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
