// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/syntax.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <sstream>

#include "cli/nearest_word.hpp"
#include "cli/parts_between.hpp"
#include "cli/written_files.hpp"
#include "model/errors.hpp"

namespace po = boost::program_options;

namespace gpuinfer::cli {

namespace {

constexpr const char* operand_key = "operand";

template <class Number>
std::optional<Number> whole_text_as(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

// As what(), which puts names in for their placeholder until there is none, and so without end where a name holds it.
std::string sentence_of(const po::error_with_option_name& error) {
  constexpr std::string_view placeholder = "%canonical_option%";
  std::string sentence = error.m_error_template;
  if (const std::size_t begin = sentence.find(placeholder); begin != std::string::npos) {
    sentence.replace(begin, placeholder.size(), error.get_option_name());
  }
  return sentence;
}

// The options as the parser and the text of --help want them.
po::options_description described(const std::vector<Option>& options) {
  constexpr unsigned columns = 110;
  po::options_description all("Options", columns);
  for (const Option& option : options) {
    const std::string names = option.name + (option.letter ? std::string(",") + *option.letter : "");
    po::value_semantic* semantic = nullptr;
    if (option.value_name.empty()) {
      semantic = po::bool_switch();
    } else if (option.is_repeatable) {
      semantic = po::value<std::vector<std::string>>()->value_name(option.value_name);
    } else {
      semantic = po::value<std::string>()->value_name(option.value_name);
    }
    all.add_options()(names.c_str(), semantic, option.help.c_str());
  }
  return all;
}

}  // namespace

std::uint64_t parse_count(std::string_view text, std::string_view what) {
  const auto number = whole_text_as<std::uint64_t>(text);
  if (!number) {
    throw InputError(std::string(what) + ": `" + std::string(text) +
                     "` is not a whole number; write one from 0 upwards");
  }
  return *number;
}

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  constexpr std::string_view suffixes = "KMG";
  const std::size_t suffix = text.empty() ? std::string_view::npos : suffixes.find(text.back());
  if (suffix == std::string_view::npos) {
    return parse_count(text, what);
  }
  const std::uint64_t factor = std::uint64_t{1} << (10 * (suffix + 1));
  const std::uint64_t number = parse_count(text.substr(0, text.size() - 1), what);
  if (number > std::numeric_limits<std::uint64_t>::max() / factor) {
    throw InputError(std::string(what) + ": `" + std::string(text) +
                     "` does not fit into 64 bits; write a smaller one");
  }
  return number * factor;
}

std::vector<std::uint64_t> parse_byte_list(std::string_view text, std::string_view what) {
  std::vector<std::uint64_t> numbers;
  for (const std::string_view number : parts_between(text, ',')) {
    numbers.push_back(parse_bytes(number, what));
  }
  return numbers;
}

std::vector<std::string> choices(std::string_view value_name) {
  const std::vector<std::string_view> words = parts_between(value_name, '|');
  return words.size() > 1 ? std::vector<std::string>(words.begin(), words.end()) : std::vector<std::string>{};
}

Parsed::Parsed(const po::variables_map& values) : values_(std::make_shared<const po::variables_map>(values)) {}

bool Parsed::flag(const std::string& option) const { return values_->at(option).as<bool>(); }

std::optional<std::string> Parsed::text(const std::string& option) const {
  return values_->count(option) == 0 ? std::nullopt : std::optional(values_->at(option).as<std::string>());
}

std::vector<std::string> Parsed::list(const std::string& option) const {
  return values_->count(option) == 0 ? std::vector<std::string>{} : values_->at(option).as<std::vector<std::string>>();
}

std::optional<std::uint64_t> Parsed::count(const std::string& option) const {
  const auto given = text(option);
  return given ? std::optional(parse_count(*given, "--" + option)) : std::nullopt;
}

std::optional<std::uint64_t> Parsed::bytes(const std::string& option) const {
  const auto given = text(option);
  return given ? std::optional(parse_bytes(*given, "--" + option)) : std::nullopt;
}

std::optional<double> Parsed::seconds(const std::string& option) const {
  const auto given = text(option);
  if (!given) {
    return std::nullopt;
  }
  const auto number = whole_text_as<double>(*given);
  // A year: enough for anybody, and far from where clocks overflow.
  if (!number || !(*number > 0 && *number < 3.2e7)) {
    throw InputError("--" + option + ": `" + *given + "` is not a number of seconds above 0; write one such as 2.5");
  }
  return number;
}

std::vector<std::string> Parsed::operands() const { return list(operand_key); }

Syntax::Syntax(std::string usage, std::string text, std::vector<std::string> examples)
    : usage_(std::move(usage)), text_(std::move(text)), examples_(std::move(examples)) {
  flag("help,h", "this text");
}

Syntax& Syntax::flag(const char* name, const char* help) { return add(name, "", false, help); }

Syntax& Syntax::value(const char* name, const ValueName& value, const char* help) {
  return add(name, value, false, help);
}

Syntax& Syntax::repeatable(const char* name, const ValueName& value, const char* help) {
  return add(name, value, true, help);
}

Syntax& Syntax::operands(ValueKind kind) {
  operand_kind_ = kind;
  return *this;
}

Syntax& Syntax::add(std::string_view name, const ValueName& value, bool is_repeatable, const char* help) {
  const std::size_t comma = name.find(',');
  options_.push_back({.name = std::string(name.substr(0, comma)),
                      .letter = comma == std::string_view::npos ? std::nullopt : std::optional(name.at(comma + 1)),
                      .value_name = std::string(value.text),
                      .value_kind = value.kind,
                      .is_repeatable = is_repeatable,
                      .help = help});
  return *this;
}

std::vector<std::string> Syntax::operand_names() const {
  std::vector<std::string> names;
  bool goes_on = false;  // after a `|`
  std::istringstream words(usage_);
  std::string word;
  words >> word;  // the verb
  while (words >> word) {
    const std::size_t first = word.find_first_not_of("[(");
    const std::size_t last = word.find_last_not_of("]).");
    if (first == std::string::npos || last == std::string::npos || word[first] == '-') {
      break;
    }
    word = word.substr(first, last + 1 - first);
    if (word == "|" || goes_on) {
      names.back() += word;
      goes_on = word == "|";
    } else {
      names.push_back(word);
    }
  }
  return names;
}

std::optional<Parsed> Syntax::parse(Arguments arguments, std::size_t fewest, std::size_t most) const {
  po::options_description all;
  all.add(described(options_)).add_options()(operand_key, po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add(operand_key, -1);
  po::variables_map values;
  try {
    // Abbreviations would make every new option a possible break of a script.
    constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                  .options(all)
                  .positional(positional)
                  .style(style)
                  .run(),
              values);
  } catch (const po::unknown_option& error) {
    const std::string named = error.get_option_name();
    const std::string given = named.substr(0, named.find('='));
    std::vector<std::string> names;
    for (const Option& option : options_) {
      names.push_back("--" + option.name);
    }
    throw InputError(sentence_of(error) + did_you_mean(given, names) + see_help());
  } catch (const po::error_with_option_name& error) {
    throw InputError(sentence_of(error) + see_help());
  } catch (const po::error& error) {
    throw InputError(error.what() + see_help());
  }
  Parsed parsed(values);
  if (parsed.flag("help")) {
    print_help();
    return std::nullopt;
  }
  check_files(parsed);
  const std::vector<std::string> operands = parsed.operands();
  if (operands.size() < fewest) {
    throw InputError("missing argument in `gpuinfer " + usage_ + "`" + see_help());
  }
  if (operands.size() > most) {
    throw InputError("unexpected argument `" + operands[most] + "`" + see_help());
  }
  return parsed;
}

void Syntax::check_files(const Parsed& parsed) const {
  std::vector<FileWord> written;
  std::vector<FileWord> read;
  for (const Option& option : options_) {
    const bool is_written = option.value_kind == ValueKind::written_files;
    if (is_written || option.value_kind == ValueKind::read_files || option.value_kind == ValueKind::devices ||
        option.value_kind == ValueKind::sequences) {
      std::vector<std::string> texts;
      if (option.is_repeatable) {
        texts = parsed.list(option.name);
      } else if (const auto text = parsed.text(option.name)) {
        texts.push_back(*text);
      }
      for (std::string& text : texts) {
        (is_written ? written : read).push_back({.option = "--" + option.name, .text = std::move(text)});
      }
    }
  }
  for (const std::string& operand : parsed.operands()) {
    read.push_back({.option = "", .text = operand});
  }
  check_written_files(written, read);
}

void Syntax::print_help() const {
  for (const std::string& example : examples_) {
    std::cout << example << '\n';
  }
  std::cout << "\nUsage: gpuinfer " << usage_ << "\n\n" << text_ << "\n\n" << described(options_);
}

std::string Syntax::see_help() const { return "; see `gpuinfer " + usage_.substr(0, usage_.find(' ')) + " --help`"; }

}  // namespace gpuinfer::cli
