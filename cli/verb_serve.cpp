// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "cli/common_options.hpp"
#include "cli/verbs.hpp"
#include "probe/exec.hpp"

namespace gpuinfer::cli {

namespace {

Syntax syntax() {
  Syntax syntax(
      "serve --device D",
      "Greets on stdout and answers questions from stdin, one JSON line each, until stdin ends: the other side "
      "of\n--device exec:COMMAND.",
      {"gpuinfer serve --device cuda:0",
       "gpuinfer --target L1tex --device \"exec:ssh node gpuinfer serve --device cuda:0\""});
  add_device_options(syntax);
  return syntax;
}

}  // namespace

ExitStatus verb_serve(Arguments arguments) {
  const auto parsed = syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const auto device = open_device(device_request(*parsed));
  probe::serve(*device, std::cin, std::cout);
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
