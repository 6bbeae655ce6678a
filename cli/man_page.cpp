// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/man_page.hpp"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "cli/syntax.hpp"

namespace gpuinfer::cli {

namespace {

// `text` so that troff prints it as it stands: one line, or lines of their own.
std::string escaped(std::string_view text) {
  std::string troff;
  for (const char letter : text) {
    switch (letter) {
      case '\\':
        troff += "\\e";
        break;
      case '-':
        troff += "\\-";
        break;
      case '`':
        troff += "\\(ga";
        break;
      case '\'':
        troff += "\\(aq";
        break;
      case '~':
        troff += "\\(ti";
        break;
      case '^':
        troff += "\\(ha";
        break;
      default:
        troff += letter;
    }
  }
  return troff.starts_with('.') ? "\\&" + troff : troff;
}

// Line by line; the lines that are indented stay lines of their own.
std::string paragraph(const std::string& text) {
  std::string troff;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) {
      continue;
    }
    troff += (begin > 0 ? ".br\n" : "") + escaped(line.substr(begin)) + "\n";
  }
  return troff;
}

std::string option_entry(const Option& option) {
  std::string names;
  if (option.letter) {
    names = fmt::format(R"(\fB\-{}\fR, )", *option.letter);
  }
  names += "\\fB" + escaped("--" + option.name) + "\\fR";
  if (!option.value_name.empty()) {
    names += " \\fI" + escaped(option.value_name) + "\\fR";
  }
  return ".TP\n" + names + "\n" + paragraph(option.help);
}

std::string verb_section(const Verb& verb) {
  const Syntax syntax = verb.syntax();
  std::string section =
      fmt::format(".SS {}\n\\fBgpuinfer\\fR {}\n.PP\n{}", verb.name, escaped(syntax.usage()), paragraph(syntax.text()));
  for (const Option& option : syntax.options()) {
    section += option_entry(option);
  }
  section += ".PP\n.nf\n";
  for (const std::string& example : syntax.examples()) {
    section += escaped(example) + "\n";
  }
  return section + ".fi\n";
}

}  // namespace

std::string man_page(std::span<const Verb> verbs, const std::string& version) {
  std::string page = fmt::format(
      ".TH GPUINFER 1 \"\" \"{}\" \"User Commands\"\n"
      ".SH NAME\ngpuinfer \\- find out by experiments how the caches of a GPU are built\n"
      ".SH SYNOPSIS\n.B gpuinfer\n[\\fIVERB\\fR] [\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\n"
      "gpuinfer times single loads and concludes from them how large a cache is, its lines, sectors, sets, index\n"
      "function, replacement policy and latencies. It reports how each value was verified. Data goes to stdout or to "
      "the\n"
      "file of \\fB\\-o\\fR, all else to stderr. Without a verb it is \\fBrun\\fR.\n"
      ".SH VERBS\n",
      escaped(version));
  for (const Verb& verb : verbs) {
    page += verb_section(verb);
  }
  return page +
         ".SH \"EXIT STATUS\"\n"
         ".TP\n0\nall that was asked for is resolved\n"
         ".TP\n1\nfailure, or what was compared differs\n"
         ".TP\n2\nthe command line or an input file is wrong\n"
         ".TP\n3\nfinished, but something is ambiguous or unknown, or will not work\n"
         ".TP\n4\nno usable device\n"
         ".SH ENVIRONMENT\n"
         ".TP\n\\fBGPUINFER_DATA\\fR\n"
         "the folder below which published devices (configs/devices) and bundled recordings (data) are looked for "
         "first\n";
}

}  // namespace gpuinfer::cli
