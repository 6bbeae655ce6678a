// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "cli/common_options.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "probe/exec.hpp"

namespace gpuinfer::cli {

Syntax serve_syntax() {
  Syntax syntax(
      "serve --device D",
      "Greets on stdout and answers questions from stdin, one JSON line each, until stdin ends: the other side "
      "of\n--device exec:COMMAND.",
      {"gpuinfer serve --device cuda:0",
       "gpuinfer --target L1tex --device \"exec:ssh node gpuinfer serve --device cuda:0\""});
  syntax.repeatable("target", target_value,
                    "what a CUDA device is to prepare for, which takes memory: L2TLB nearly all; may be repeated "
                    "(default: whatever the device offers)");
  add_device_options(syntax);
  return syntax;
}

ExitStatus verb_serve(Arguments arguments) {
  const auto parsed = serve_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  DeviceRequest request = device_request(*parsed);
  const std::vector<std::string> asked = spelled_targets(parsed->list("target"));
  if (!stands_for_all(asked)) {
    request.targets = asked;
  }
  const auto device = open_device(request);
  if (!asked.empty()) {
    static_cast<void>(offered_targets(asked, *device));
  }
  probe::serve(*device, std::cin, std::cout);
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
