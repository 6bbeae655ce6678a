// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ios>
#include <iostream>
#include <new>
#include <string_view>
#include <vector>

#include "cli/nearest_word.hpp"
#include "cli/verbs.hpp"
#include "model/errors.hpp"
#include "model/printable.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array verbs{
    Verb{"run", "find out how a cache is built and write a device profile", run_syntax, verb_run},
    Verb{"probe", "play one access sequence on a device and keep the latencies", probe_syntax, verb_probe},
    Verb{"infer", "the same as run, from recordings only", infer_syntax, verb_infer},
    Verb{"validate", "compare a profile with recordings, access by access", validate_syntax, verb_validate},
    Verb{"simulate", "hits and misses of a sequence on a described cache, as CSV", simulate_syntax, verb_simulate},
    Verb{"list", "devices, targets, policies, experiments, formats", list_syntax, verb_list},
    Verb{"show", "a picture of the caches in a profile", show_syntax, verb_show},
    Verb{"report", "a page with the figures of a profile and of recordings", report_syntax, verb_report},
    Verb{"export", "a profile in the form of another program", export_syntax, verb_export},
    Verb{"diff", "what two profiles say differently", diff_syntax, verb_diff},
    Verb{"merge", "one profile of several of one device", merge_syntax, verb_merge},
    Verb{"survey", "ask all devices of a fleet and say which deviate", survey_syntax, verb_survey},
    Verb{"doctor", "what works on this machine, what does not, and what to do about it", doctor_syntax, verb_doctor},
    Verb{"serve", "answer questions of another process about a device", serve_syntax, verb_serve},
    Verb{"completion", "what a shell needs to complete commands of gpuinfer", completion_syntax, verb_completion},
    Verb{"man", "the manual page", man_syntax, verb_man},
};

std::string verb_names() {
  std::string names;
  for (const Verb& verb : verbs) {
    names += (names.empty() ? "" : ", ") + std::string(verb.name);
  }
  return names;
}

void print_help(std::ostream& out) {
  out << "gpuinfer --target L1tex                                  find out how the L1 of the first GPU is built\n"
         "gpuinfer --target L1tex --device virtual:gtx780          the same on a published GPU\n"
         "gpuinfer show profile.yaml                               draw what was found\n\n"
         "gpuinfer VERB ...; without a verb it is `run`:\n";
  for (const Verb& verb : verbs) {
    out << fmt::format("  {:<10} {}\n", verb.name, verb.what);
  }
  out << "\n`gpuinfer help VERB` and `gpuinfer VERB --help` tell more; `gpuinfer version` names the version.\n"
         "Exit status: 0 all resolved; 1 failure, or what was compared differs; 2 bad command line or input file;\n"
         "3 finished, but something is ambiguous or unknown; 4 no usable device.\n";
}

const Verb& verb_named(const std::string& name) {
  const auto* verb = std::find_if(verbs.begin(), verbs.end(), [&](const Verb& known) { return known.name == name; });
  if (verb == verbs.end()) {
    std::vector<std::string> names{"help", "version"};
    for (const Verb& known : verbs) {
      names.emplace_back(known.name);
    }
    throw InputError("`" + name + "` is not a verb" + did_you_mean(name, names) + "; verbs are " + verb_names());
  }
  return *verb;
}

// Of the program, or of the verb that is named.
ExitStatus help(Arguments arguments) {
  if (arguments.empty()) {
    print_help(std::cout);
    return ExitStatus::resolved;
  }
  const std::vector<std::string> of_verb{"--help"};
  return verb_named(arguments.front()).function(of_verb);
}

ExitStatus dispatch(Arguments arguments) {
  if (arguments.empty()) {
    throw InputError("nothing is asked for; name a target, as in `gpuinfer --target L1tex`, or see `gpuinfer --help`");
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h") {
    print_help(std::cout);
    return ExitStatus::resolved;
  }
  if (first == "help") {
    return help(arguments.subspan(1));
  }
  if (first == "--version" || first == "version") {
    std::cout << program_version() << '\n';
    return ExitStatus::resolved;
  }
  if (first.starts_with('-')) {
    return verb_run(arguments);
  }
  return verb_named(first).function(arguments.subspan(1));
}

ExitStatus fail(ExitStatus status, const std::exception& error) {
  std::cerr << "gpuinfer: " << printable(error.what()) << '\n';
  return status;
}

}  // namespace

std::span<const Verb> known_verbs() { return verbs; }

std::string program_version() { return "gpuinfer " GPUINFER_VERSION; }

ExitStatus run_program(Arguments arguments) {
  try {
    return dispatch(arguments);
  } catch (const InputError& error) {
    return fail(ExitStatus::bad_input, error);
  } catch (const DeviceUnavailable& error) {
    return fail(ExitStatus::no_device, error);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(ExitStatus::bad_input,
                Error(error.path1().string() + ": cannot be used (" + error.code().message() + "); name another file"));
  } catch (const std::ios_base::failure& error) {
    return fail(ExitStatus::bad_input, Error("a file could not be read to its end (" + error.code().message() +
                                             "); look for a failing disk, or name another file"));
  } catch (const std::bad_alloc&) {
    return fail(ExitStatus::failure, Error("there is not enough memory; ask for less, or on a larger machine"));
  } catch (const std::exception& error) {
    return fail(ExitStatus::failure, error);
  }
}

}  // namespace gpuinfer::cli
