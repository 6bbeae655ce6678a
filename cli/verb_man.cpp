// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "cli/man_page.hpp"
#include "cli/program.hpp"
#include "cli/syntax.hpp"
#include "cli/verbs.hpp"

namespace gpuinfer::cli {

Syntax man_syntax() {
  return {"man",
          "Writes the manual page to stdout, for man. An installed gpuinfer has brought it along: `man gpuinfer`.",
          {"gpuinfer man | man -l -", "gpuinfer man > gpuinfer.1"}};
}

ExitStatus verb_man(Arguments arguments) {
  const auto parsed = man_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  std::cout << man_page(known_verbs(), program_version());
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
