// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/data_files.hpp"
#include "cli/devices/kind.hpp"
#include "cli/syntax.hpp"
#include "cli/targets.hpp"
#include "model/description/words.hpp"

namespace gpuinfer::cli {

namespace {

using model::words::joined;

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : known_targets()) {
    names.emplace_back(target.name);
  }
  names.emplace_back("all");
  return names;
}

// What completes a value: words, where there are any, else what it is.
struct Values {
  std::vector<std::string> words;
  ValueKind kind = ValueKind::other;
};

Values values_of(const std::string& value_name, ValueKind kind) {
  return {.words = kind == ValueKind::targets ? target_names() : choices(value_name), .kind = kind};
}

Values values_of(const Option& option) { return values_of(option.value_name, option.value_kind); }

Values operand_values(const Syntax& syntax) {
  const std::vector<std::string> names = syntax.operand_names();
  return values_of(names.empty() ? "" : names.front(), syntax.operand_kind());
}

// The help of an option up to the first stop.
std::string short_help(const Option& option) {
  std::size_t end = option.help.size();
  for (const char* stop : {"; ", ": ", ":\n", " (", "\n"}) {
    end = std::min(end, option.help.find(stop));
  }
  return option.help.substr(0, end);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// As one word of a shell.
std::string quoted(const std::string& text, std::string_view quote_inside) {
  return "'" + replaced(text, "'", quote_inside) + "'";
}

std::vector<std::string> spellings(const Option& option) {
  std::vector<std::string> both{"--" + option.name};
  if (option.letter) {
    both.push_back(std::string("-") + *option.letter);
  }
  return both;
}

std::string verb_names(std::span<const Verb> verbs, std::string_view separator) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    names.emplace_back(verb.name);
  }
  return joined(names, separator);
}

std::string bash_values(const Values& values) {
  if (!values.words.empty()) {
    return "names='" + joined(values.words, " ") + "'";
  }
  switch (values.kind) {
    case ValueKind::read_files:
    case ValueKind::written_files:
      return "files=1";
    case ValueKind::descriptions:
      return "names=$published files=1";
    case ValueKind::devices:
      return "_gpuinfer_device";
    default:
      break;
  }
  return ":";
}

std::string bash_verb(const Verb& verb) {
  const Syntax syntax = verb.syntax();
  std::vector<std::string> options;
  std::string of_values;
  for (const Option& option : syntax.options()) {
    const std::vector<std::string> both = spellings(option);
    options.insert(options.end(), both.begin(), both.end());
    if (!option.value_name.empty()) {
      of_values += fmt::format("        {}) {} ;;\n", joined(both, "|"), bash_values(values_of(option)));
    }
  }
  return fmt::format(
      "    {})\n"
      "      options='{}'\n"
      "      case $option in\n"
      "{}"
      "        *) {} ;;\n"
      "      esac\n"
      "      ;;\n",
      verb.name, joined(options, " "), of_values, bash_values(operand_values(syntax)));
}

// What a kind of device is completed to: its name, or with the colon for what has to follow.
std::string begin_of(const DeviceKind& kind) {
  return std::string(kind.name) + (kind.completion == Completion::zero ? ":0" : kind.rest.empty() ? "" : ":");
}

// All kinds, or those of one completion, as `text` writes each.
template <class Text>
std::string of_kinds(Text text, std::optional<Completion> completion = std::nullopt) {
  std::string all;
  for (const DeviceKind& kind : device_kinds()) {
    if (!completion || kind.completion == *completion) {
      all += text(kind);
    }
  }
  return all;
}

// {0}: published devices, {1}: verbs with |, {2}: verbs with blanks, {3}: a case for each verb, {4}: a case for each
// kind of device of which a file follows, {5}: begins of addresses, {6}: what published devices follow.
constexpr std::string_view bash_script = R"script(# bash completion of gpuinfer, written by `gpuinfer completion bash`

_gpuinfer_device() {{
  local name
  case $value in
{4}    *)
      names='{5}'
      for name in $published; do
        names+="{6}"
      done
      ;;
  esac
}}

_gpuinfer() {{
  local published='{0}'
  local verb=run options='' names='' files='' option='' value='' line=${{COMP_LINE:0:COMP_POINT}}
  local -a words found
  read -ra words <<< "$line"
  # Bash cuts words at colons, too.
  if [[ $line != *[[:space:]] ]]; then
    value=${{words[-1]}}
    unset 'words[-1]'
  fi
  if ((${{#words[@]}} > 1)); then
    case ${{words[1]}} in
      {1}) verb=${{words[1]}} ;;
    esac
    option=${{words[-1]}}
  fi
  COMPREPLY=()
  if [[ $value == --*=* ]]; then
    option=${{value%%=*}}
    value=${{value#*=}}
  fi
  case $verb in
{3}  esac
  if ((${{#words[@]}} <= 1)) && [[ $option != --* ]]; then
    names="{2} --version"
    files=''
    [[ $value == -* ]] && names="$options --version"
  elif [[ $value == -* ]]; then
    names=$options
    files=''
  fi
  mapfile -t found < <(compgen -W "$names" -- "$value")
  COMPREPLY+=("${{found[@]}}")
  if [[ -n $files ]]; then
    mapfile -t found < <(compgen -f -- "$value")
    COMPREPLY+=("${{found[@]}}")
    compopt -o filenames 2> /dev/null
  fi
  # Only what follows the last colon is replaced.
  if [[ $value == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${{COMPREPLY[@]#"${{value%"${{value##*:}}"}}"}}")
  fi
  [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *: ]] && compopt -o nospace 2> /dev/null
  return 0
}}

complete -F _gpuinfer gpuinfer
)script";

// As text inside an argument of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (std::string_view(R"(\[]:)").find(letter) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += letter;
  }
  return escaped;
}

std::string zsh_values(const Values& values) {
  if (!values.words.empty()) {
    return "(" + joined(values.words, " ") + ")";
  }
  switch (values.kind) {
    case ValueKind::read_files:
    case ValueKind::written_files:
      return "_files";
    case ValueKind::descriptions:
      return "_gpuinfer_descriptions";
    case ValueKind::devices:
      return "_gpuinfer_devices";
    default:
      break;
  }
  return " ";
}

// What follows the colon; empty where nothing is known of that.
std::string zsh_branch(const DeviceKind& kind) {
  if (kind.completion != Completion::files && kind.completion != Completion::descriptions) {
    return "";
  }
  return fmt::format("  if compset -P {}:; then\n    {}\n    return\n  fi\n", kind.name,
                     kind.completion == Completion::files ? "_files" : "_gpuinfer_descriptions");
}

std::string zsh_verb(const Verb& verb) {
  const Syntax syntax = verb.syntax();
  std::vector<std::string> specifications;
  for (const Option& option : syntax.options()) {
    const bool is_flag = option.value_name.empty();
    const std::string value =
        is_flag ? "" : fmt::format(":{}:{}", zsh_text(option.value_name), zsh_values(values_of(option)));
    for (const std::string& spelling : spellings(option)) {
      const bool is_long = spelling.starts_with("--");
      specifications.push_back(quoted(fmt::format("{}{}{}[{}]{}", option.is_repeatable ? "*" : "", spelling,
                                                  !is_flag && is_long ? "=" : "", zsh_text(short_help(option)), value),
                                      R"('\'')"));
    }
  }
  const Values operands = operand_values(syntax);
  if (!operands.words.empty() || operands.kind != ValueKind::other) {
    specifications.push_back(quoted("*:operand:" + zsh_values(operands), R"('\'')"));
  }
  return fmt::format("    {})\n      _arguments \\\n        {}\n      ;;\n", verb.name,
                     joined(specifications, " \\\n        "));
}

// {0}: published devices, {1}: verbs with |, {2}: verbs with what they do, {3}: a case for each verb, {4}: a branch for
// each kind of device of which a file or a published device follows, {5}: whole addresses, {6}: begins of others.
constexpr std::string_view zsh_script = R"script(#compdef gpuinfer
# zsh completion of gpuinfer, written by `gpuinfer completion zsh`

_gpuinfer_descriptions() {{
  compadd -- {0}
  _files
}}

_gpuinfer_devices() {{
{4}  compadd -- {5}
  compadd -S '' -- {6}
}}

_gpuinfer() {{
  local verb=run
  local -a verbs=(
{2}  )
  if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
    _describe verb verbs
    return
  fi
  case $words[2] in
    ({1})
      verb=$words[2]
      shift words
      (( CURRENT-- ))
      ;;
  esac
  case $verb in
{3}  esac
}}

if [[ $funcstack[1] == _gpuinfer ]]; then
  _gpuinfer "$@"
else
  compdef _gpuinfer gpuinfer
fi
)script";

std::string fish_values(const Values& values) {
  if (!values.words.empty()) {
    return " -x -a '" + joined(values.words, " ") + "'";
  }
  switch (values.kind) {
    case ValueKind::read_files:
    case ValueKind::written_files:
      return " -r -F";
    case ValueKind::descriptions:
      return " -r -F -a '(__gpuinfer_published)'";
    case ValueKind::devices:
      return " -x -a '(__gpuinfer_devices)'";
    default:
      break;
  }
  return " -x";
}

std::string fish_verb(const Verb& verb) {
  const Syntax syntax = verb.syntax();
  const std::string begin = fmt::format("complete -c gpuinfer -n '__gpuinfer_verb_is {}'", verb.name);
  std::string lines;
  for (const Option& option : syntax.options()) {
    lines += fmt::format(
        "{} -l {}{}{} -d {}\n", begin, option.name, option.letter ? std::string(" -s ") + *option.letter : "",
        option.value_name.empty() ? "" : fish_values(values_of(option)), quoted(short_help(option), R"(\')"));
  }
  const Values operands = operand_values(syntax);
  if (!operands.words.empty() || operands.kind != ValueKind::other) {
    lines += begin + fish_values(operands) + "\n";
  }
  return lines;
}

// {0}: published devices, {1}: verbs, {2}: lines for each verb, {3}: begins of addresses and what published devices
// follow, {4}: a block for each kind of device of which a file follows.
constexpr std::string_view fish_script = R"script(# fish completion of gpuinfer, written by `gpuinfer completion fish`

function __gpuinfer_published
    printf '%s\n' {0}
end

function __gpuinfer_devices
    printf '%s\n' {3}
    set -l token (commandline -ct)
{4}end

function __gpuinfer_verb_is
    set -l words (commandline -opc)
    set -l verb run
    if set -q words[2]; and contains -- $words[2] {1}
        set verb $words[2]
    end
    test $verb = $argv[1]
end

complete -c gpuinfer -f
complete -c gpuinfer -n __fish_is_first_token -l version -d 'name the version'
{2})script";

}  // namespace

std::string bash_completion(std::span<const Verb> verbs) {
  std::string cases;
  for (const Verb& verb : verbs) {
    cases += bash_verb(verb);
  }
  return fmt::format(
      bash_script, joined(described_device_names(), " "), verb_names(verbs, "|"), verb_names(verbs, " "), cases,
      of_kinds(
          [](const DeviceKind& kind) {
            return fmt::format(
                "    {0}:*)\n"
                "      mapfile -t COMPREPLY < <(compgen -f -P {0}: -- \"${{value#{0}:}}\")\n"
                "      ;;\n",
                kind.name);
          },
          Completion::files),
      of_kinds([](const DeviceKind& kind) { return begin_of(kind) + " "; }),
      of_kinds([](const DeviceKind& kind) { return fmt::format(" {}:$name", kind.name); }, Completion::descriptions));
}

std::string zsh_completion(std::span<const Verb> verbs) {
  std::string described;
  std::string cases;
  for (const Verb& verb : verbs) {
    described += fmt::format("    {}\n", quoted(fmt::format("{}:{}", verb.name, verb.what), R"('\'')"));
    cases += zsh_verb(verb);
  }
  return fmt::format(
      zsh_script, joined(described_device_names(), " "), verb_names(verbs, "|"), described, cases,
      of_kinds([](const DeviceKind& kind) { return zsh_branch(kind); }),
      of_kinds([](const DeviceKind& kind) { return begin_of(kind).ends_with(':') ? "" : begin_of(kind) + " "; }),
      of_kinds([](const DeviceKind& kind) { return begin_of(kind).ends_with(':') ? begin_of(kind) + " " : ""; }));
}

std::string fish_completion(std::span<const Verb> verbs) {
  std::string lines;
  for (const Verb& verb : verbs) {
    lines += fmt::format("complete -c gpuinfer -n __fish_is_first_token -a {} -d {}\n", verb.name,
                         quoted(std::string(verb.what), R"(\')"));
  }
  for (const Verb& verb : verbs) {
    lines += fish_verb(verb);
  }
  return fmt::format(fish_script, joined(described_device_names(), " "), verb_names(verbs, " "), lines,
                     of_kinds([](const DeviceKind& kind) {
                       const bool is_published = kind.completion == Completion::descriptions;
                       return begin_of(kind) + " " +
                              (is_published ? fmt::format("{}:(__gpuinfer_published) ", kind.name) : "");
                     }),
                     of_kinds(
                         [](const DeviceKind& kind) {
                           return fmt::format(
                               "    if string match -q '{0}:*' -- $token\n"
                               "        set -l files (string replace '{0}:' '' -- $token)*\n"
                               "        printf '{0}:%s\\n' $files\n"
                               "    end\n",
                               kind.name);
                         },
                         Completion::files));
}

}  // namespace gpuinfer::cli
