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

// What stands where an option or a usage names a value.
enum class ValueKind : std::uint8_t { other, targets, devices, descriptions, sequences, read_files, written_files };

// How the help calls a value: FILE, or, of words, yaml|json.
struct ValueName {
  std::string_view text;
  ValueKind kind = ValueKind::other;

  // NOLINTNEXTLINE(google-explicit-constructor): most values are of no kind
  constexpr ValueName(const char* name, ValueKind of_kind = ValueKind::other) : text(name), kind(of_kind) {}
};

inline constexpr ValueName target_value{"T", ValueKind::targets};
inline constexpr ValueName device_value{"D", ValueKind::devices};
inline constexpr ValueName sequence_value{"SEQ", ValueKind::sequences};
inline constexpr ValueName written_file{"FILE", ValueKind::written_files};

struct Option {
  std::string name;            // without dashes
  std::optional<char> letter;  // of the short form
  std::string value_name;      // empty: a flag; `yaml|json`: one of these words
  ValueKind value_kind = ValueKind::other;
  bool is_repeatable = false;
  std::string help;
};

// `yaml|json` -> yaml, json; nothing for a name that stands for a value, such as FILE.
[[nodiscard]] std::vector<std::string> choices(std::string_view value_name);

// What a verb takes, from which its parser, its --help, the man page and the completions of shells come.
class Syntax {
 public:
  // `usage` after "gpuinfer ", the verb first, then its operands, then options; `text` says what it does.
  Syntax(std::string usage, std::string text, std::vector<std::string> examples);

  // `name` is "long" or "long,s". The help of a value says its unit and what it is when it is left out, or `needed`.
  Syntax& flag(const char* name, const char* help);
  Syntax& value(const char* name, const ValueName& value, const char* help);
  Syntax& repeatable(const char* name, const ValueName& value, const char* help);
  // What the operands are, as none of the verbs gives a meaning of its own to each place.
  Syntax& operands(ValueKind kind);

  // No value when --help was asked for and printed. Throws InputError; operands (words without an option) must be at
  // least `fewest` and at most `most`.
  [[nodiscard]] std::optional<Parsed> parse(Arguments arguments, std::size_t fewest, std::size_t most) const;

  [[nodiscard]] const std::string& usage() const { return usage_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& examples() const { return examples_; }
  [[nodiscard]] const std::vector<Option>& options() const { return options_; }

  // What the usage names besides options, such as PROFILE or, of several words, `devices|targets`.
  [[nodiscard]] std::vector<std::string> operand_names() const;
  [[nodiscard]] ValueKind operand_kind() const { return operand_kind_; }

 private:
  Syntax& add(std::string_view name, const ValueName& value, bool is_repeatable, const char* help);
  void print_help() const;
  void check_files(const Parsed& parsed) const;
  [[nodiscard]] std::string see_help() const;

  std::string usage_;
  std::string text_;
  std::vector<std::string> examples_;
  std::vector<Option> options_;
  ValueKind operand_kind_ = ValueKind::other;
};

}  // namespace gpuinfer::cli
