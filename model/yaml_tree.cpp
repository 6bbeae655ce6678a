// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "model/printable.hpp"
#include "model/yaml_limits.hpp"

namespace gpuinfer::model {

namespace {

std::size_t line_of(const YAML::Mark& mark) { return mark.is_null() ? 1 : static_cast<std::size_t>(mark.line) + 1; }

YamlNode node_at(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& text = {}) {
  YamlNode node;
  node.kind = kind;
  node.line = line_of(mark);
  node.text = text;
  return node;
}

constexpr const char* too_deep = " deep; no description needs that, take some away";

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(&file) {}

  [[nodiscard]] YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "", anchor);
    add(node_at(mark, YamlNode::Kind::null));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { refuse_extras(mark, "", anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_extras(mark, tag, anchor);
    add(node_at(mark, tag == "!" ? YamlNode::Kind::quoted : YamlNode::Kind::plain, value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_extras(mark, tag, anchor);
    open(node_at(mark, YamlNode::Kind::list));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_extras(mark, tag, anchor);
    open(node_at(mark, YamlNode::Kind::map));
  }
  void OnMapEnd() override {
    pair_keys_with_values(open_.back());
    close();
  }

 private:
  // While a map is open its keys and values alternate in `items`.
  void pair_keys_with_values(YamlNode& map) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      YamlNode& key = map.items[i];
      if (key.kind != YamlNode::Kind::plain && key.kind != YamlNode::Kind::quoted) {
        fail(key.line, "a key must be a word; correct it");
      }
      if (key.text.size() > most_key_bytes) {
        fail(key.line, "a key has more than " + std::to_string(most_key_bytes) + " bytes; give it a shorter name");
      }
      if (!seen.insert(key.text).second) {
        fail(key.line, path_of_parents() + key.text + ": stands twice; remove one of them");
      }
      map.entries.push_back({std::move(key), std::move(map.items[i + 1])});
    }
    map.items.clear();
  }

  [[nodiscard]] std::string path_of_parents() const {
    std::string path;
    for (std::size_t depth = 0; depth + 1 < open_.size(); ++depth) {
      if (open_[depth].kind == YamlNode::Kind::map && !open_[depth].items.empty()) {
        path += open_[depth].items.back().text + ".";
      }
    }
    return path;
  }

  void open(YamlNode node) {
    if (open_.size() == most_description_depth) {
      fail(node.line, "lists and maps are nested more than " + std::to_string(most_description_depth) + too_deep);
    }
    open_.push_back(std::move(node));
  }

  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (++values_ > most_description_values) {
      fail(node.line,
           "more than " + std::to_string(most_description_values) + " values are not read; split the description");
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) {
      fail(line_of(mark), "anchors and aliases are not read; write the value out in each place");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(line_of(mark), "the tag " + tag + " is not read; remove it");
    }
  }

  [[noreturn]] void fail(std::size_t line, const std::string& what) const {
    throw InputError(printable(*file_ + ":" + std::to_string(line) + ": " + what));
  }

  const std::string* file_;
  std::vector<YamlNode> open_;
  std::size_t values_ = 0;
  YamlNode root_;
};

std::string quoted(const std::string& text) {
  return with_escapes(json_text(nlohmann::json(text), {.replaces_bytes = true}));
}

// Text that is not UTF-8, or holds what YAML does not allow, could not be written back as it was read.
void check_characters(std::string_view yaml, const std::string& file) {
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < yaml.size(); ++line) {
    const std::size_t end = std::min(yaml.find('\n', begin), yaml.size());
    const std::string text(yaml.substr(begin, end - begin));
    const bool control =
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' && c != '\t' && c != '\r'; });
    if (control || parse_json(quoted(text)).get<std::string>() != text) {
      throw InputError(file + ":" + std::to_string(line) + ": holds bytes that are not UTF-8 text; remove them");
    }
    begin = end + 1;
  }
}

// For brackets without end yaml-cpp takes a time that grows with their square. Those in texts count here, too, so that
// there may be many more of them than lists can be deep.
void check_brackets(std::string_view yaml, const std::string& file) {
  constexpr std::ptrdiff_t most_open = 16 * std::ptrdiff_t{most_description_depth};
  std::ptrdiff_t open = 0;
  std::size_t line = 1;
  for (const char c : yaml) {
    line += c == '\n' ? 1 : 0;
    open += (c == '[' || c == '{' ? 1 : 0) - (c == ']' || c == '}' ? 1 : 0);
    if (open > most_open) {
      throw InputError(file + ":" + std::to_string(line) + ": lists and maps are nested more than " +
                       std::to_string(most_description_depth) + too_deep);
    }
  }
}

// JSON writes characters beyond 16 bits as two escapes of half of it each, of which YAML knows nothing.
std::string with_whole_characters(std::string_view text) {
  if (const std::size_t first = text.find_first_not_of(" \t\r\n");
      first == std::string_view::npos || text[first] != '{') {
    return std::string(text);
  }
  const auto half_at = [text](std::size_t place, std::uint32_t first_code) -> std::optional<std::uint32_t> {
    constexpr std::size_t digits = 4;
    constexpr int hexadecimal = 16;
    std::uint32_t code = 0;
    const std::string_view escape = text.substr(std::min(place, text.size()), 2 + digits);
    const bool is_one = escape.size() == 2 + digits && escape.starts_with("\\u") &&
                        std::from_chars(escape.data() + 2, escape.data() + escape.size(), code, hexadecimal).ptr ==
                            escape.data() + escape.size();
    return is_one && code >= first_code && code < first_code + 0x400 ? std::optional(code - first_code) : std::nullopt;
  };
  std::string whole;
  for (std::size_t i = 0; i < text.size();) {
    constexpr std::size_t escape_bytes = 6;
    const auto high = text[i] == '\\' ? half_at(i, 0xD800) : std::nullopt;
    const auto low = high ? half_at(i + escape_bytes, 0xDC00) : std::nullopt;
    std::size_t taken = text[i] == '\\' ? 2 : 1;  // an escape of a backslash begins no other
    if (low) {
      taken = 2 * escape_bytes;
      std::array<char, escape_bytes + 5> escape{};
      std::snprintf(escape.data(), escape.size(), "\\U%08X", 0x10000 + (*high << 10U) + *low);
      whole += escape.data();
    } else {
      whole += text.substr(i, taken);
    }
    i += taken;
  }
  return whole;
}

bool could_be_more_than_text(const std::string& text) {
  static constexpr std::array<std::string_view, 8> words{"null", "true", "false", "yes", "no", "on", "off", "nan"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(words.begin(), words.end(), lower) != words.end();
}

template <class Range, class Text>
std::string joined(char begin, const Range& range, Text&& text_of, char end) {
  std::string line(1, begin);
  for (const auto& element : range) {
    line += line.size() == 1 ? "" : ", ";
    line += text_of(element);
  }
  line += end;
  return line;
}

nlohmann::ordered_json json_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return nullptr;
    case YamlNode::Kind::plain: {
      auto value = parse_ordered_json(node.text);
      return value.is_number() || value.is_boolean() ? value : nlohmann::ordered_json(node.text);
    }
    case YamlNode::Kind::quoted:
      return node.text;
    case YamlNode::Kind::list: {
      auto list = nlohmann::ordered_json::array();
      for (const YamlNode& item : node.items) {
        list.push_back(json_of(item));
      }
      return list;
    }
    case YamlNode::Kind::map: {
      auto map = nlohmann::ordered_json::object();
      for (const YamlEntry& entry : node.entries) {
        map[entry.key.text] = json_of(entry.value);
      }
      return map;
    }
  }
  return nullptr;
}

}  // namespace

YamlNode parse_yaml(std::string_view yaml, const std::string& file) {
  if (yaml.size() > most_description_bytes) {
    throw InputError(file + ": is longer than " + std::to_string(most_description_bytes) +
                     " bytes, and descriptions are not; name another file, or split it");
  }
  check_characters(yaml, file);
  check_brackets(yaml, file);
  std::istringstream stream{with_whole_characters(yaml)};
  TreeBuilder builder(file);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      throw InputError(file + ":1: the file is empty; write a description into it");
    }
    YamlNode root = builder.take();
    if (parser.HandleNextDocument(builder)) {
      throw InputError(file + ":" + std::to_string(builder.take().line) +
                       ": a second document begins; keep one in each file");
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw InputError(file + ":" + std::to_string(line_of(error.mark)) + ": this is not YAML (" + error.msg +
                     "); correct it");
  }
}

std::string to_flow_yaml(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::plain: {
      // A scalar that is plain in a block may hold what would end it in a flow map.
      const bool ends_early = node.text.find_first_of(",[]{}\n") != std::string::npos || node.text.ends_with(':');
      return ends_early || printable(node.text) != node.text ? quoted(node.text) : node.text;
    }
    case YamlNode::Kind::quoted:
      return quoted(node.text);
    case YamlNode::Kind::list:
      return joined(
          '[', node.items, [](const YamlNode& item) { return to_flow_yaml(item); }, ']');
    case YamlNode::Kind::map:
      return joined(
          '{', node.entries,
          [](const YamlEntry& entry) { return to_flow_yaml(entry.key) + ": " + to_flow_yaml(entry.value); }, '}');
  }
  return "null";
}

std::string to_yaml_scalar(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view(" _-./()+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
                     text.back() != ' ' && std::all_of(text.begin(), text.end(), is_plain) &&
                     !could_be_more_than_text(text);
  return plain ? text : quoted(text);
}

std::string flow_map(const std::vector<std::pair<std::string, std::string>>& entries) {
  return joined(
      '{', entries, [](const auto& entry) { return entry.first + ": " + entry.second; }, '}');
}

std::string flow_list(const std::vector<std::string>& items) {
  return joined(
      '[', items, [](const std::string& item) { return item; }, ']');
}

std::string to_json(const YamlNode& node) {
  return with_escapes(json_text(json_of(node), {.indent = 2, .replaces_bytes = true})) + "\n";
}

}  // namespace gpuinfer::model
