// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <vector>

#include "cli/common_options.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: which verb in the first byte, then its arguments, one to a line. They are taken apart and each value is read
// as everything that a verb could read it as; nothing is opened and nothing is done.
namespace gpuinfer::fuzz {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  constexpr std::string_view ends("\n\0", 2);  // no argument of a process has a NUL in it
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(ends, begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void read_value(const cli::Parsed& parsed, const cli::Option& option) {
  if (option.value_name.empty()) {
    static_cast<void>(parsed.flag(option.name));
  } else if (option.is_repeatable) {
    done_or_refused([&] { static_cast<void>(cli::spelled_targets(parsed.list(option.name))); });
  } else {
    done_or_refused([&] { static_cast<void>(parsed.count(option.name)); });
    done_or_refused([&] { static_cast<void>(parsed.seconds(option.name)); });
    done_or_refused([&] { static_cast<void>(parsed.bytes(option.name)); });
    if (const auto text = parsed.text(option.name)) {
      done_or_refused([&] { static_cast<void>(cli::parse_byte_list(*text, "--" + option.name)); });
    }
  }
}

const cli::Option* find(const cli::Syntax& syntax, std::string_view option) {
  const auto& options = syntax.options();
  const auto found = std::ranges::find(options, option, &cli::Option::name);
  return found == options.end() ? nullptr : &*found;
}

void read(unsigned verb, std::string_view text) {
  // Building a syntax takes longer than parsing with it.
  static const std::vector<cli::Syntax> syntaxes = [] {
    std::cout.setstate(std::ios::failbit);  // --help prints
    std::vector<cli::Syntax> all;
    for (const cli::Verb& each : cli::known_verbs()) {
      all.push_back(each.syntax());
    }
    return all;
  }();
  const cli::Syntax& syntax = syntaxes[verb % syntaxes.size()];
  const std::vector<std::string> arguments = lines_of(text);
  const auto parsed = read_or_refused([&] { return syntax.parse(arguments, 0, arguments.size()); });
  if (!parsed || !*parsed) {
    return;
  }
  for (const cli::Option& option : syntax.options()) {
    read_value(**parsed, option);
  }
  require((*parsed)->operands().size() <= arguments.size(), "operands are arguments");
  const cli::Option* const device = find(syntax, "device");
  if (device != nullptr && find(syntax, "identify") != nullptr) {  // as every verb that asks a device has it
    done_or_refused([&] {
      if (device->is_repeatable) {
        static_cast<void>(cli::device_requests(**parsed));
      } else {
        static_cast<void>(cli::device_request(**parsed));
      }
    });
  }
  if (find(syntax, "budget") != nullptr) {
    done_or_refused([&] { static_cast<void>(cli::limits(**parsed)); });
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    gpuinfer::fuzz::read(data[0], gpuinfer::fuzz::text_of(data + 1, size - 1));
  }
  return 0;
}
