// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/importers.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/errors.hpp"
#include "model/printable.hpp"
#include "probe/archive.hpp"
#include "probe/latency.hpp"
#include "probe/line_reader.hpp"

namespace gpuinfer::probe {

namespace {

constexpr std::uint64_t word_bytes = 4;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

template <class Number>
std::optional<Number> whole_text_as(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// The lines of a text without their line ends and the blanks around them, each with its place for messages.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& file) : file_(file.string()), in_(file) {
    if (!in_ || std::filesystem::is_directory(file)) {
      throw InputError(file_ + ": cannot be read; name a file that is there");
    }
  }

  // The next line that is not blank.
  std::optional<std::string_view> next() {
    for (LineRead read{}; (read = read_next()) != LineRead::none;) {
      ++number_;
      if (read == LineRead::too_long) {
        throw error("is longer than " + std::to_string(most_line_bytes) + " bytes; name a recording in lines");
      }
      if (const std::string_view text = trimmed(line_); !text.empty()) {
        return text;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t number() const { return number_; }

  // Before there is made room for them: a few bytes can ask for a long sequence.
  void count(std::uint64_t accesses, std::size_t sequences, std::size_t line_number) {
    accesses_ += std::min(accesses, most_accesses + 1);
    sequences_ += sequences;
    if (accesses_ > most_accesses || sequences_ > most_traces) {
      throw error_at(line_number, "the recording has more than " + std::to_string(most_accesses) + " accesses or " +
                                      std::to_string(most_traces) + " sequences up to here; split it");
    }
  }

  // Those of a round over an array, which a row of a few bytes tells.
  void count_told(std::uint64_t accesses, std::size_t line_number) {
    told_accesses_ += std::min(accesses, most_told_accesses + 1);
    if (told_accesses_ > most_told_accesses) {
      throw error_at(line_number, "the rounds over arrays up to here have more than " +
                                      std::to_string(most_told_accesses) + " accesses; leave out the largest arrays");
    }
    count(accesses, 0, line_number);
  }

  [[nodiscard]] InputError error(const std::string& what) const { return error_at(number_, what); }
  [[nodiscard]] InputError error_at(std::size_t line_number, const std::string& what) const {
    return InputError(printable(file_ + ":" + std::to_string(line_number) + ": " + what));
  }

  [[nodiscard]] float latency(std::string_view text) const { return static_cast<float>(number(text)); }

  // The same, to the last digit.
  [[nodiscard]] double number(std::string_view text) const {
    const auto cycles = whole_text_as<double>(text);
    if (!cycles || !is_latency(*cycles)) {
      throw error("'" + std::string(text.substr(0, 40)) +
                  "' is no latency; give a number of cycles that is not negative");
    }
    return *cycles;
  }

 private:
  LineRead read_next() {
    try {
      return read_line(in_, line_);
    } catch (const std::ios_base::failure& failure) {
      throw InputError(file_ + ": cannot be read to its end (" + failure.code().message() +
                       "); look for a failing disk, or name another file");
    }
  }

  std::string file_;
  std::ifstream in_;
  std::string line_;
  std::size_t number_ = 0;
  std::uint64_t accesses_ = 0;
  std::uint64_t told_accesses_ = 0;
  std::size_t sequences_ = 0;
};

struct MeiRow {
  std::size_t line_number = 0;
  std::uint64_t next = 0;  // in words
  float latency_cycles = 0;
};

struct MeiSection {
  std::size_t line_number = 0;
  std::optional<std::uint64_t> array_words;
  std::optional<std::uint64_t> accesses;
  bool cold = false;
  std::vector<MeiRow> rows;
};

bool is_rule(std::string_view line) { return line.find_first_not_of('=') == std::string_view::npos; }

// The N of a header `==... N KB array ...==`, in words; none where it names no size, or 0.
std::optional<std::uint64_t> array_words_in(std::string_view header) {
  const std::size_t end = header.find(" KB array");
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view before = header.substr(0, end);
  constexpr double kilobyte_words = 1024.0 / word_bytes;
  const double words =
      std::round(whole_text_as<double>(before.substr(before.find_last_of(" =") + 1)).value_or(0) * kilobyte_words);
  return words >= 1 && words < 0x1p53 ? std::optional(static_cast<std::uint64_t>(words)) : std::nullopt;
}

// The product in `loop 4096*1 times`.
std::optional<std::uint64_t> accesses_in(std::string_view header) {
  constexpr std::string_view key = "loop ";
  const std::size_t begin = header.find(key);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view product = header.substr(begin + key.size());
  const std::size_t star = product.find('*');
  const std::size_t end = product.find(" times");
  if (star == std::string_view::npos || end == std::string_view::npos || end < star) {
    return std::nullopt;
  }
  const auto loads = whole_text_as<std::uint32_t>(product.substr(0, star));
  const auto times = whole_text_as<std::uint32_t>(product.substr(star + 1, end - star - 1));
  return loads && times ? std::optional(std::uint64_t{*loads} * *times) : std::nullopt;
}

MeiSection section_from(std::string_view header, std::size_t line_number) {
  return {.line_number = line_number,
          .array_words = array_words_in(header),
          .accesses = accesses_in(header),
          .cold = header.find("cold") != std::string_view::npos,
          .rows = {}};
}

MeiRow row_from(std::string_view line, const Lines& lines) {
  const std::string_view next_text = line.substr(0, line.find_first_of(" \t"));
  const auto next = whole_text_as<std::uint64_t>(next_text);
  if (!next || *next >= 1ULL << 53U || next_text.size() == line.size()) {
    throw lines.error("neither a header nor a row `NEXT latency`; keep the two columns of the chase only");
  }
  return {.line_number = lines.number(),
          .next = *next,
          .latency_cycles = lines.latency(trimmed(line.substr(next_text.size())))};
}

// The chase that the rows of a section belong to: element -> (element + stride_words) mod array_words.
struct MeiChase {
  std::uint64_t stride_words = 0;
  std::optional<std::uint64_t> array_words;  // none: not named, and the rows never go round

  [[nodiscard]] std::uint64_t after(std::uint64_t element) const {
    const std::uint64_t next = element + stride_words;
    return array_words && next >= *array_words ? next - *array_words : next;
  }
};

MeiChase chase_of(const MeiSection& section, const Lines& lines) {
  const auto& rows = section.rows;
  const auto by_next = [](const MeiRow& a, const MeiRow& b) { return a.next < b.next; };
  const auto ascent = std::adjacent_find(rows.begin(), rows.end(), by_next);
  if (ascent == rows.end()) {
    throw lines.error_at(section.line_number, "no two rows tell the stride; give a section at least two rows in order");
  }
  MeiChase chase{.stride_words = std::next(ascent)->next - ascent->next, .array_words = section.array_words};
  const auto descent =
      std::adjacent_find(rows.begin(), rows.end(), [](const MeiRow& a, const MeiRow& b) { return a.next > b.next; });
  if (!chase.array_words && descent != rows.end()) {
    chase.array_words = descent->next + chase.stride_words - std::next(descent)->next;
  }
  if (chase.array_words && chase.stride_words >= *chase.array_words) {
    throw lines.error_at(std::next(ascent)->line_number, "the step from the row before leaves the array; mend the row");
  }
  return chase;
}

void check(const MeiSection& section, const MeiChase& chase, const Lines& lines) {
  if (section.accesses && *section.accesses != section.rows.size()) {
    throw lines.error_at(section.line_number, "the header promises " + std::to_string(*section.accesses) +
                                                  " rows and " + std::to_string(section.rows.size()) +
                                                  " follow; get the whole file");
  }
  const auto& rows = section.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool inside = !chase.array_words || rows[i].next < *chase.array_words;
    if (!inside || (i > 0 && rows[i].next != chase.after(rows[i - 1].next))) {
      throw lines.error_at(rows[i].line_number, "NEXT " + std::to_string(rows[i].next) +
                                                    " does not continue the chase with a stride of " +
                                                    std::to_string(chase.stride_words) + " words; mend the row");
    }
  }
}

model::Trace trace_from(const MeiSection& section, const Lines& lines) {
  const MeiChase chase = chase_of(section, lines);
  check(section, chase, lines);

  const std::uint64_t first_next = section.rows.front().next;
  if (first_next < chase.stride_words && !chase.array_words) {
    throw lines.error_at(section.rows.front().line_number,
                         "the first row goes round an array of unknown size; name it in the header as `N KB array`");
  }
  const std::uint64_t first_element = first_next >= chase.stride_words
                                          ? first_next - chase.stride_words
                                          : first_next + *chase.array_words - chase.stride_words;
  model::Trace trace;
  std::uint64_t element = first_element;
  for (const MeiRow& row : section.rows) {
    trace.question.record.push_back(element * word_bytes);
    trace.latency_cycles.push_back(row.latency_cycles);
    element = row.next;
  }

  if (section.cold) {
    trace.start_is_known = first_element == 0;
  } else {
    model::AccessSequence run;
    element = 0;
    for (std::size_t i = 0; i < section.rows.size(); ++i) {
      run.push_back(element * word_bytes);
      element = chase.after(element);
    }
    trace.start_is_known = first_element == element;
    if (trace.start_is_known) {
      trace.question.warm = std::move(run);
    }
  }
  trace.question.state = trace.start_is_known ? model::StartState::clean : model::StartState::keep;
  return trace;
}

bool is_archive(const std::filesystem::path& file) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  std::string start(signature.size(), '\0');
  std::ifstream(file, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == signature;
}

}  // namespace

std::vector<model::Trace> read_mei(const std::filesystem::path& file) {
  Lines lines(file);
  std::vector<MeiSection> sections;
  bool open = false;
  while (const auto line = lines.next()) {
    if (is_rule(*line)) {
      open = false;
    } else if (line->front() == '=') {
      lines.count(0, 1, lines.number());
      sections.push_back(section_from(*line, lines.number()));
      open = true;
    } else if (!open) {
      throw lines.error("no header `=====... array ...====` stands before this line; only chases can be read");
    } else if (!sections.back().rows.empty() || !line->starts_with("Stride")) {
      lines.count(2, 0, lines.number());
      sections.back().rows.push_back(row_from(*line, lines));
    }
  }
  if (sections.empty()) {
    throw lines.error("the file holds no section; name a recording");
  }

  std::vector<model::Trace> traces;
  for (const MeiSection& section : sections) {
    traces.push_back(trace_from(section, lines));
    traces.back().name =
        file.string() + (sections.size() > 1 ? " (line " + std::to_string(section.line_number) + ")" : "");
  }
  return traces;
}

model::Trace read_csv(const std::filesystem::path& file) {
  Lines lines(file);
  model::Trace trace;
  trace.name = file.string();
  trace.question.state = model::StartState::keep;
  trace.start_is_known = false;
  bool header_allowed = true;
  while (const auto line = lines.next()) {
    if (line->front() == '#') {
      continue;
    }
    const std::size_t comma = line->find(',');
    const std::string_view offset_text = trimmed(line->substr(0, comma));
    if (comma == std::string_view::npos) {
      throw lines.error("no row `offset,latency`; separate the two columns by a comma");
    }
    const std::string_view latency_text = trimmed(line->substr(comma + 1));
    if (header_allowed && offset_text == "offset" && latency_text.starts_with("latency")) {
      header_allowed = false;
      continue;
    }
    header_allowed = false;
    const auto offset = whole_text_as<std::uint64_t>(offset_text);
    if (!offset) {
      throw lines.error("'" + std::string(offset_text.substr(0, 40)) + "' is no offset; give a whole number of bytes");
    }
    lines.count(1, 0, lines.number());
    trace.latency_cycles.push_back(lines.latency(latency_text));
    trace.question.record.push_back(*offset);
  }
  if (trace.latency_cycles.empty()) {
    throw lines.error("the file holds no row `offset,latency`; name a recording");
  }
  return trace;
}

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

// A row of MT4G as it stands there.
struct Mt4gRow {
  std::size_t line_number = 0;
  std::vector<double> numbers;
};

// What stands before the latencies of a row.
enum class Mt4gColumns { size, stride_and_size, stride };

struct Mt4gFile {
  std::optional<Mt4gColumns> columns;         // as a header says
  std::optional<std::uint64_t> stride_bytes;  // as a comment says
  std::vector<Mt4gRow> rows;

  [[nodiscard]] std::size_t columns_before() const { return columns == Mt4gColumns::stride_and_size ? 2 : 1; }
};

// The number behind `stride` in a comment.
std::optional<std::uint64_t> stride_in(std::string_view comment, const Lines& lines) {
  constexpr std::string_view key = "stride";
  const std::size_t begin = comment.find(key);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view text = comment.substr(comment.find_last_of(" \t:=") + 1);
  const auto bytes = whole_text_as<std::uint64_t>(text);
  if (!bytes || *bytes == 0) {
    throw lines.error("'" + std::string(text.substr(0, 40)) + "' is no stride; write `# stride BYTES`");
  }
  return bytes;
}

Mt4gRow mt4g_row(std::string_view line, const Lines& lines) {
  Mt4gRow row{.line_number = lines.number(), .numbers = {}};
  std::vector<std::string_view> cells = split(line, ',');
  if (cells.back().empty()) {
    cells.pop_back();  // rows may end in a comma
  }
  for (const std::string_view cell : cells) {
    row.numbers.push_back(lines.number(cell));
  }
  return row;
}

Mt4gColumns columns_of(const std::vector<Mt4gRow>& rows) {
  constexpr double largest_first_stride = 64;
  constexpr std::size_t fewest_strides = 8;
  const auto are_apart = [](const Mt4gRow& a, const Mt4gRow& b) { return b.numbers[0] - a.numbers[0] != word_bytes; };
  if (rows.size() >= fewest_strides && rows.front().numbers[0] <= largest_first_stride &&
      std::adjacent_find(rows.begin(), rows.end(), are_apart) == rows.end()) {
    return Mt4gColumns::stride;
  }
  const bool has_both = std::all_of(rows.begin(), rows.end(), [](const Mt4gRow& row) {
    return row.numbers.size() > 1 && row.numbers[0] >= 1 && row.numbers[1] >= 4 * row.numbers[0] &&
           std::all_of(row.numbers.begin() + 2, row.numbers.end(),
                       [size = row.numbers[1]](double latency) { return latency < size; });
  });
  return has_both ? Mt4gColumns::stride_and_size : Mt4gColumns::size;
}

Mt4gFile mt4g_file(Lines& lines) {
  Mt4gFile file;
  while (const auto line = lines.next()) {
    const std::string_view first = trimmed(line->substr(0, line->find(',')));
    if (line->front() == '#') {
      const auto stride_bytes = stride_in(*line, lines);
      file.stride_bytes = stride_bytes ? stride_bytes : file.stride_bytes;
    } else if (file.rows.empty() && !file.columns && (first == "size" || first == "stride")) {
      const bool has_size =
          line->find(",size") != std::string_view::npos || line->find(", size") != std::string_view::npos;
      file.columns = first == "size" ? Mt4gColumns::size
                     : has_size      ? Mt4gColumns::stride_and_size
                                     : Mt4gColumns::stride;
    } else {
      file.rows.push_back(mt4g_row(*line, lines));
      lines.count(file.rows.back().numbers.size(), 1, lines.number());
    }
  }
  if (file.rows.empty()) {
    throw lines.error("the file holds no row `size,latency,latency`; name a recording");
  }
  file.columns = file.columns.value_or(columns_of(file.rows));
  return file;
}

// A whole number of bytes out of a row.
std::uint64_t bytes_in(double number, std::size_t line_number, const char* what, const Lines& lines) {
  if (number < word_bytes || number != std::floor(number) || std::fmod(number, word_bytes) != 0 || number >= 0x1p40) {
    throw lines.error_at(line_number, std::string(what) + " is no multiple of 4 bytes; mend the row");
  }
  return static_cast<std::uint64_t>(number);
}

// Whether MT4G left out the first load of a round of so many.
bool lacks_first_load(std::size_t latencies, std::uint64_t loads_of_round) {
  constexpr std::size_t fewest = 32;
  return latencies + 1 == loads_of_round || (latencies + 1 >= fewest && std::has_single_bit(latencies + 1));
}

// A chase goes over whole words.
std::uint64_t size_in(const Mt4gRow& row, std::size_t column, const Lines& lines) {
  const double bytes = row.numbers.at(column);
  return bytes_in(bytes - std::fmod(bytes, word_bytes), row.line_number, "the size", lines);
}

model::Trace mt4g_chase(const Mt4gRow& row, const std::optional<std::uint64_t>& named_stride_bytes, Lines& lines) {
  const std::size_t columns_before = named_stride_bytes ? 1 : 2;
  const std::uint64_t stride =
      named_stride_bytes ? *named_stride_bytes : bytes_in(row.numbers.front(), row.line_number, "the stride", lines);
  const std::uint64_t size = size_in(row, columns_before - 1, lines);
  if (stride > size || (named_stride_bytes && size % stride != 0)) {
    throw lines.error_at(row.line_number, "an array of " + std::to_string(size) +
                                              " bytes is no multiple of the stride of " + std::to_string(stride) +
                                              "; mend the row");
  }
  const std::uint64_t loads = size / stride;
  lines.count_told(loads, row.line_number);
  model::Trace trace;
  trace.question.state = model::StartState::clean;
  trace.question.warm.reserve(loads);
  for (std::uint64_t load = 0; load < loads; ++load) {
    trace.question.warm.push_back(load * stride);
  }
  const auto after = [=](std::uint64_t offset) { return offset % stride == 0 ? (offset + stride) % size : 0; };
  std::uint64_t next = after((loads - 1) * stride);
  if (lacks_first_load(row.numbers.size() - columns_before, loads)) {
    next = after(next);
  }
  for (std::size_t i = columns_before; i < row.numbers.size(); ++i) {
    trace.question.record.push_back(next);
    trace.latency_cycles.push_back(static_cast<float>(row.numbers[i]));
    next = after(next);
  }
  return trace;
}

// The first load, which also waits for a translation, is left out.
model::Trace mt4g_cold_chase(const Mt4gRow& row, const Lines& lines) {
  const std::uint64_t stride = bytes_in(row.numbers.front(), row.line_number, "the stride", lines);
  const bool lacks_first = lacks_first_load(row.numbers.size() - 1, 0);
  model::Trace trace;
  trace.question.state = model::StartState::clean;
  trace.question.warm = {0};
  for (std::size_t i = lacks_first ? 1 : 2; i < row.numbers.size(); ++i) {
    trace.question.record.push_back((lacks_first ? i : i - 1) * stride);
    trace.latency_cycles.push_back(static_cast<float>(row.numbers[i]));
  }
  return trace;
}

// The first that is no comment.
std::optional<std::string_view> first_line(Lines& lines) {
  auto line = lines.next();
  while (line && line->front() == '#') {
    line = lines.next();
  }
  return line;
}

// Rows of two numbers are those of a CSV file unless a header says otherwise.
bool holds_mt4g(const std::filesystem::path& file) {
  Lines lines(file);
  const auto line = first_line(lines);
  return line && line->front() != '=' &&
         (std::count(line->begin(), line->end(), ',') > 1 || line->starts_with("size,") ||
          line->starts_with("stride,"));
}

// The line of each HIT and MISS behind the arrow, or their number.
void read_hits(std::string_view text, model::SetSequence& sequence, const Lines& lines) {
  const auto counted = static_cast<std::size_t>(std::count_if(sequence.accesses.begin(), sequence.accesses.end(),
                                                              [](const auto& access) { return access.is_counted; }));
  if (const auto hits = whole_text_as<std::uint64_t>(text)) {
    if (*hits > counted) {
      throw lines.error(std::to_string(*hits) + " hits are more than the " + std::to_string(counted) +
                        " accesses with `?`; mend the row");
    }
    sequence.hits = *hits;
    return;
  }
  for (const std::string_view word : split(text, ' ')) {
    const bool is_hit = word == "HIT" || word == "H";
    if (!word.empty() && !is_hit && word != "MISS" && word != "M") {
      throw lines.error("'" + std::string(word.substr(0, 40)) +
                        "' is no result; write how many accesses hit, or HIT or MISS for each");
    }
    if (!word.empty()) {
      sequence.is_hit.push_back(is_hit);
      sequence.hits += is_hit ? 1U : 0U;
    }
  }
  if (sequence.is_hit.size() != counted) {
    throw lines.error(std::to_string(counted) + " accesses have `?` and " + std::to_string(sequence.is_hit.size()) +
                      " results follow; write one for each");
  }
}

model::SetSequence set_sequence(std::string_view line, const Lines& lines) {
  const std::size_t arrow = line.find("->");
  if (arrow == std::string_view::npos) {
    throw lines.error("no row `SEQUENCE -> hits`; write the hits behind an arrow");
  }
  model::SetSequence sequence;
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  bool is_first = true;
  for (std::string_view word : split(line.substr(0, arrow), ' ')) {
    if (word.empty()) {
      continue;
    }
    if (is_first != (word == "<wbinvd>")) {
      throw lines.error(is_first ? "what the set holds at first is not known; begin the sequence with <wbinvd>"
                                 : "<wbinvd> stands inside a sequence; begin another row with it");
    }
    if (is_first) {
      is_first = false;
      continue;
    }
    const bool is_counted = word.ends_with('?');
    word.remove_suffix(is_counted ? 1 : 0);
    if (word.empty() || word.find_first_of("?!<>") != std::string_view::npos) {
      throw lines.error("'" + std::string(word.substr(0, 40)) + "' is no line; write words such as B0 or B0?");
    }
    const auto number = numbers.emplace(word, static_cast<std::uint32_t>(numbers.size())).first->second;
    sequence.accesses.push_back({.line = number, .is_counted = is_counted});
  }
  read_hits(trimmed(line.substr(arrow + 2)), sequence, lines);
  return sequence;
}

}  // namespace

std::vector<model::Trace> read_mt4g(const std::filesystem::path& file) {
  Lines lines(file);
  const Mt4gFile read = mt4g_file(lines);
  if (read.columns == Mt4gColumns::size && !read.stride_bytes) {
    throw lines.error_at(
        read.rows.front().line_number,
        "the rows do not say in which steps the array was chased; write a line `# stride BYTES` before "
        "them");
  }
  std::vector<model::Trace> traces;
  for (const Mt4gRow& row : read.rows) {
    if (row.numbers.size() <= read.columns_before()) {
      if (read.columns == Mt4gColumns::stride_and_size) {
        continue;  // as MT4G writes them where it timed nothing
      }
      throw lines.error_at(row.line_number, "no latency stands behind the size; mend the row");
    }
    traces.push_back(read.columns == Mt4gColumns::stride ? mt4g_cold_chase(row, lines)
                     : read.columns == Mt4gColumns::size ? mt4g_chase(row, read.stride_bytes, lines)
                                                         : mt4g_chase(row, std::nullopt, lines));
    traces.back().name = file.string() + " (line " + std::to_string(row.line_number) + ")";
  }
  if (traces.empty()) {
    throw lines.error("no row holds a latency; name a recording");
  }
  return traces;
}

std::vector<model::ArrayTiming> read_array_timings(const std::filesystem::path& file) {
  if (!holds_mt4g(file)) {
    return {};
  }
  Lines lines(file);
  const Mt4gFile read = mt4g_file(lines);
  const std::size_t columns_before = read.columns_before();
  const bool are_means = read.columns != Mt4gColumns::stride &&
                         std::all_of(read.rows.begin(), read.rows.end(),
                                     [&](const Mt4gRow& row) { return row.numbers.size() == columns_before + 1; });
  if (!are_means && (read.columns != Mt4gColumns::size || read.stride_bytes)) {
    return {};
  }
  std::vector<model::ArrayTiming> timings;
  for (const Mt4gRow& row : read.rows) {
    if (row.numbers.size() <= columns_before) {
      throw lines.error_at(row.line_number, "no latency stands behind the size; mend the row");
    }
    timings.push_back(
        {.name = file.string() + " (line " + std::to_string(row.line_number) + ")",
         .array_bytes = size_in(row, columns_before - 1, lines),
         .latency_cycles = {row.numbers.begin() + static_cast<std::ptrdiff_t>(columns_before), row.numbers.end()}});
  }
  return timings;
}

std::vector<model::SetSequence> read_set_sequences(const std::filesystem::path& file) {
  Lines lines(file);
  std::vector<model::SetSequence> sequences;
  while (const auto line = lines.next()) {
    if (line->front() != '#') {
      sequences.push_back(set_sequence(*line, lines));
      lines.count(sequences.back().accesses.size(), 1, lines.number());
      sequences.back().name = file.string() + " (line " + std::to_string(lines.number()) + ")";
    }
  }
  if (sequences.empty()) {
    throw lines.error("the file holds no row `SEQUENCE -> hits`; name a recording");
  }
  return sequences;
}

bool holds_set_sequences(const std::filesystem::path& file) {
  Lines lines(file);
  const auto line = first_line(lines);
  return line && line->find("->") != std::string_view::npos;
}

std::vector<model::Trace> read_traces(const std::filesystem::path& file) {
  if (is_archive(file)) {
    return archived_traces(file);
  }
  if (holds_mt4g(file)) {
    return read_mt4g(file);
  }
  Lines lines(file);
  const auto line = first_line(lines);
  if (line && line->front() == '=') {
    return read_mei(file);
  }
  if (line && line->find(',') != std::string_view::npos) {
    return {read_csv(file)};
  }
  throw lines.error(
      "neither an archive, nor a chase under a header of ====, nor CSV `offset,latency`, nor rows "
      "`size,latency,latency`; name a recording of one of them");
}

}  // namespace gpuinfer::probe
