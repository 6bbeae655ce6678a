// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iostream>

#include "cli/completion.hpp"
#include "cli/syntax.hpp"
#include "cli/verbs.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

namespace {

struct Shell {
  std::string_view name;
  std::string (*completion)(std::span<const Verb>);
};

constexpr std::array shells{Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                            Shell{"fish", fish_completion}};

}  // namespace

Syntax completion_syntax() {
  return {
      "completion bash|zsh|fish",
      "Writes to stdout what the shell needs to complete verbs, options, targets and devices. An installed gpuinfer "
      "has\nbrought it along.",
      {"gpuinfer completion zsh > ~/.zfunc/_gpuinfer                for a folder in fpath",
       "source <(gpuinfer completion bash)                          for this shell only",
       "gpuinfer completion fish > ~/.config/fish/completions/gpuinfer.fish"}};
}

ExitStatus verb_completion(Arguments arguments) {
  const auto parsed = completion_syntax().parse(arguments, 1, 1);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const std::string asked = parsed->operands().front();
  for (const Shell& shell : shells) {
    if (asked == shell.name) {
      std::cout << shell.completion(known_verbs());
      return ExitStatus::resolved;
    }
  }
  throw InputError("`" + asked + "` is not a supported shell; write bash, zsh or fish");
}

}  // namespace gpuinfer::cli
