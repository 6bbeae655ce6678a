// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.hpp"

// Its headers are larger than everything else that a verb includes.
namespace boost::program_options {
class options_description;
class variables_map;
}  // namespace boost::program_options

namespace gpuinfer::cli {

// Whole numbers as people write them. `what` begins the sentence of the InputError: an option or a file:line.
[[nodiscard]] std::uint64_t parse_count(std::string_view text, std::string_view what);
// The same with K, M, G behind it for powers of 1024: "24K" is 24576.
[[nodiscard]] std::uint64_t parse_bytes(std::string_view text, std::string_view what);
// Such numbers with commas between them.
[[nodiscard]] std::vector<std::uint64_t> parse_byte_list(std::string_view text, std::string_view what);

// The command line of a verb, taken apart. Values are checked when they are asked for; all throw InputError.
class Parsed {
 public:
  explicit Parsed(const boost::program_options::variables_map& values);

  [[nodiscard]] bool flag(const std::string& option) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& option) const;
  [[nodiscard]] std::vector<std::string> list(const std::string& option) const;
  [[nodiscard]] std::optional<std::uint64_t> count(const std::string& option) const;
  [[nodiscard]] std::optional<std::uint64_t> bytes(const std::string& option) const;
  [[nodiscard]] std::optional<double> seconds(const std::string& option) const;
  [[nodiscard]] std::vector<std::string> operands() const;

 private:
  std::shared_ptr<const boost::program_options::variables_map> values_;
};

// What a verb takes, from which both its parser and its --help come.
class Syntax {
 public:
  // `usage` after "gpuinfer ", the verb first; `text` says what it does.
  Syntax(std::string usage, std::string text, std::vector<std::string> examples);

  // `name` is "long" or "long,s".
  Syntax& flag(const char* name, const char* help);
  Syntax& value(const char* name, const char* value_name, const char* help);
  Syntax& repeatable(const char* name, const char* value_name, const char* help);

  // No value when --help was asked for and printed. Throws InputError; operands (words without an option) must be at
  // least `fewest` and at most `most`.
  [[nodiscard]] std::optional<Parsed> parse(Arguments arguments, std::size_t fewest, std::size_t most) const;

 private:
  void print_help() const;
  [[nodiscard]] std::string see_help() const;

  std::string usage_;
  std::string text_;
  std::vector<std::string> examples_;
  std::shared_ptr<boost::program_options::options_description> options_;
};

}  // namespace gpuinfer::cli
