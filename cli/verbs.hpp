// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/exit_status.hpp"

// What a verb takes and what it does, in the file verb_NAME.cpp; `arguments` without the verb. They throw what
// model/errors.hpp lists.
namespace gpuinfer::cli {

class Syntax;

using Arguments = std::span<const std::string>;

struct Verb {
  std::string_view name;
  std::string_view what;  // in one line
  Syntax (*syntax)();
  ExitStatus (*function)(Arguments);
};

// In the order of --help. The man page and the completions of shells come from here.
[[nodiscard]] std::span<const Verb> known_verbs();

[[nodiscard]] Syntax run_syntax();
[[nodiscard]] ExitStatus verb_run(Arguments arguments);

[[nodiscard]] Syntax probe_syntax();
[[nodiscard]] ExitStatus verb_probe(Arguments arguments);

[[nodiscard]] Syntax infer_syntax();
[[nodiscard]] ExitStatus verb_infer(Arguments arguments);

[[nodiscard]] Syntax validate_syntax();
[[nodiscard]] ExitStatus verb_validate(Arguments arguments);

[[nodiscard]] Syntax simulate_syntax();
[[nodiscard]] ExitStatus verb_simulate(Arguments arguments);

[[nodiscard]] Syntax list_syntax();
[[nodiscard]] ExitStatus verb_list(Arguments arguments);

[[nodiscard]] Syntax show_syntax();
[[nodiscard]] ExitStatus verb_show(Arguments arguments);

[[nodiscard]] Syntax report_syntax();
[[nodiscard]] ExitStatus verb_report(Arguments arguments);

[[nodiscard]] Syntax export_syntax();
[[nodiscard]] ExitStatus verb_export(Arguments arguments);

[[nodiscard]] Syntax diff_syntax();
[[nodiscard]] ExitStatus verb_diff(Arguments arguments);

[[nodiscard]] Syntax merge_syntax();
[[nodiscard]] ExitStatus verb_merge(Arguments arguments);

[[nodiscard]] Syntax doctor_syntax();
[[nodiscard]] ExitStatus verb_doctor(Arguments arguments);

[[nodiscard]] Syntax survey_syntax();
[[nodiscard]] ExitStatus verb_survey(Arguments arguments);

[[nodiscard]] Syntax serve_syntax();
[[nodiscard]] ExitStatus verb_serve(Arguments arguments);

[[nodiscard]] Syntax completion_syntax();
[[nodiscard]] ExitStatus verb_completion(Arguments arguments);

[[nodiscard]] Syntax man_syntax();
[[nodiscard]] ExitStatus verb_man(Arguments arguments);

}  // namespace gpuinfer::cli
