// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "model/errors.hpp"
#include "model/printable.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/input_limits.hpp"
#include "probe/latency.hpp"
#include "probe/wire.hpp"

// A payload Q, after its first byte: the number of questions, and for each of them
//   1 byte      bits 0-1 the state, in the order of model::StartState; of the question before: bit 2 the same target
//   and
//               circumstances, bit 3 the same warm-up, bit 4 the same recorded part; bit 5 refused, bit 6 latencies are
//               whole numbers of 2 bytes
//   target      a text, and circumstances as JSON, a text; both only without bit 2
//   warm-up     a sequence, only without bit 3
//   recorded    a sequence, only without bit 4
//   answer      with bit 5 a text; else their number, and latencies of 2 bytes, or 4 as IEEE 754
// Numbers are varints: 7 bits in each byte, the lowest first, bit 7 set in all but the last. A text or a sequence
// begins with its length. Each offset of a sequence is told by its distance from the one before, at first from 0: twice
// the distance, or twice what it goes back, less 1.
namespace gpuinfer::probe {

namespace {

using nlohmann::json;

constexpr std::string_view magic = "gpuinfer-journal/1\n";
constexpr std::size_t word_bytes = 4;
constexpr std::uint32_t most_payload_bytes = 1U << 30U;
constexpr std::size_t most_frame_accesses = std::size_t{1} << 22U;  // before its last question
constexpr std::size_t most_frame_questions = std::size_t{1} << 16U;

constexpr unsigned state_bits = 3;
constexpr unsigned same_path_bit = 1U << 2U;
constexpr unsigned same_warm_bit = 1U << 3U;
constexpr unsigned same_record_bit = 1U << 4U;
constexpr unsigned refused_bit = 1U << 5U;
constexpr unsigned narrow_bit = 1U << 6U;

// The payload of a frame holds something else than its kind says.
class Malformed : public std::runtime_error {
 public:
  Malformed() : std::runtime_error("a frame holds something else than it should") {}
};

void require(bool holds) {
  if (!holds) {
    throw Malformed();
  }
}

void put_fixed(std::string& to, std::uint32_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    to += static_cast<char>(number >> (8 * i) & 0xffU);
  }
}

void put_number(std::string& to, std::uint64_t number) {
  for (; number >= 0x80U; number >>= 7U) {
    to += static_cast<char>((number & 0x7fU) | 0x80U);
  }
  to += static_cast<char>(number);
}

void put_text(std::string& to, std::string_view text) {
  put_number(to, text.size());
  to += text;
}

void put_sequence(std::string& to, const model::AccessSequence& sequence) {
  put_number(to, sequence.size());
  std::uint64_t before = 0;
  for (const std::uint64_t offset : sequence) {
    const std::uint64_t distance = offset - before;
    const bool back = (distance >> 63U) != 0;
    put_number(to, back ? ~(distance << 1U) : distance << 1U);
    before = offset;
  }
}

bool are_narrow(const std::vector<float>& latency_cycles) {
  return std::ranges::all_of(latency_cycles, [](float cycles) {
    return cycles >= 0 && cycles <= 0xffff && cycles == std::floor(cycles) && !std::signbit(cycles);
  });
}

// Takes a payload apart.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }

  std::string_view take(std::uint64_t count) {
    require(count <= left_.size());
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  unsigned byte() { return static_cast<unsigned char>(take(1).front()); }

  std::uint32_t fixed(std::size_t bytes) {
    std::uint32_t number = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      number |= std::uint32_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return number;
  }

  std::uint64_t number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned next = byte();
      number |= std::uint64_t{next & 0x7fU} << shift;
      if (next < 0x80U) {
        return number;
      }
    }
    throw Malformed();
  }

  // Of things that take a byte at least.
  std::size_t count() {
    const std::uint64_t count = number();
    require(count <= left_.size());
    return count;
  }

  std::string text() { return std::string(take(count())); }

  model::AccessSequence sequence() {
    model::AccessSequence sequence(count());
    std::uint64_t before = 0;
    for (std::uint64_t& offset : sequence) {
      const std::uint64_t coded = number();
      before += (coded & 1U) != 0 ? ~(coded >> 1U) : coded >> 1U;
      offset = before;
    }
    return sequence;
  }

 private:
  std::string_view left_;
};

void put_answered(std::string& to, const model::Question& question, const model::Question* before,
                  const model::Answer& answer) {
  const bool same_path =
      before != nullptr && before->target == question.target && before->circumstances == question.circumstances;
  const bool same_warm = before != nullptr && before->warm == question.warm;
  const bool same_record = before != nullptr && before->record == question.record;
  const bool narrow = are_narrow(answer.latency_cycles);
  to += static_cast<char>(static_cast<unsigned>(question.state) | (same_path ? same_path_bit : 0U) |
                          (same_warm ? same_warm_bit : 0U) | (same_record ? same_record_bit : 0U) |
                          (answer.refusal ? refused_bit : 0U) | (narrow ? narrow_bit : 0U));
  if (!same_path) {
    put_text(to, question.target);
    put_text(to, wire::to_json(question.circumstances).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  if (!same_warm) {
    put_sequence(to, question.warm);
  }
  if (!same_record) {
    put_sequence(to, question.record);
  }
  if (answer.refusal) {
    put_text(to, *answer.refusal);
    return;
  }
  put_number(to, answer.latency_cycles.size());
  for (const float cycles : answer.latency_cycles) {
    if (narrow) {
      put_fixed(to, static_cast<std::uint32_t>(cycles), 2);
    } else {
      put_fixed(to, std::bit_cast<std::uint32_t>(cycles), 4);
    }
  }
}

std::vector<AnsweredQuestion> questions_in(std::string_view payload) {
  Bytes bytes(payload);
  const std::size_t count = bytes.count();
  std::vector<AnsweredQuestion> all;
  std::size_t accesses = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // A byte can ask for the sequences of the question before once more.
    require(i < most_frame_questions && accesses < most_frame_accesses);
    all.emplace_back();
    model::Question& question = all[i].question;
    model::Answer& answer = all[i].answer;
    const unsigned flags = bytes.byte();
    const auto same = [&](unsigned bit) {
      require((flags & bit) == 0 || i > 0);
      return (flags & bit) != 0;
    };
    question.state = static_cast<model::StartState>(flags & state_bits);
    if (same(same_path_bit)) {
      question.target = all[i - 1].question.target;
      question.circumstances = all[i - 1].question.circumstances;
    } else {
      question.target = bytes.text();
      question.circumstances = wire::parse_circumstances(wire::parse_object(bytes.text()));
    }
    question.warm = same(same_warm_bit) ? all[i - 1].question.warm : bytes.sequence();
    question.record = same(same_record_bit) ? all[i - 1].question.record : bytes.sequence();
    accesses += question.warm.size() + question.record.size();
    if ((flags & refused_bit) != 0) {
      answer.refusal = bytes.text();
      continue;
    }
    answer.latency_cycles.resize(bytes.count());
    require(answer.latency_cycles.size() == question.record.size());
    for (float& cycles : answer.latency_cycles) {
      cycles = (flags & narrow_bit) != 0 ? static_cast<float>(bytes.fixed(2)) : std::bit_cast<float>(bytes.fixed(4));
      require(is_latency(cycles));
    }
  }
  require(bytes.empty());
  return all;
}

// Whether lists and objects are nested so deep that going through them could exhaust the stack.
class DepthCheck final : public json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return ++depth_ <= most_json_depth; }
  bool end_object() override { return depth_-- > 0; }
  bool start_array(std::size_t /*elements*/) override { return ++depth_ <= most_json_depth; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const json::exception& /*why*/) override {
    return false;
  }

 private:
  std::size_t depth_ = 0;
};

json cbor_in(std::string_view payload) {
  DepthCheck check;
  require(json::sax_parse(payload.begin(), payload.end(), &check, json::input_format_t::cbor));
  return json::from_cbor(payload);
}

std::string_view target_of(const AnsweredQuestion& answered) { return answered.question.target; }
std::string_view target_of(const TimedWorkload& answered) { return model::target_of(answered.workload); }

json to_json(const model::Workload& workload, const model::Timing& timing) {
  json counted;
  if (const auto& traffic = timing.counted) {
    counted = {traffic->l1_sectors, traffic->l2_load_bytes, traffic->l2_store_bytes, traffic->dram_load_bytes,
               traffic->dram_store_bytes};
  }
  return json::array({wire::to_json(workload), timing.cycles, timing.seconds, std::move(counted),
                      timing.why_not_counted, timing.refusal ? json(*timing.refusal) : json()});
}

std::uint64_t whole_number(const json& number) {
  require(number.is_number_unsigned());
  return number.get<std::uint64_t>();
}

std::vector<std::uint64_t> whole_numbers(const json& list) {
  require(list.is_array());
  std::vector<std::uint64_t> numbers(list.size());
  std::ranges::transform(list, numbers.begin(), whole_number);
  return numbers;
}

std::vector<double> times(const json& list, std::size_t count) {
  auto all = list.get<std::vector<double>>();
  require(all.size() == count && std::ranges::all_of(all, is_latency));
  return all;
}

TimedWorkload answered_workload(const json& from) {
  TimedWorkload answered{.workload = wire::parse_workload(from.at(0)),
                         .timing = {.cycles = {}, .seconds = {}, .why_not_counted = from.at(4).get<std::string>()}};
  const json& refusal = from.at(5);
  const std::size_t runs =
      refusal.is_null() ? std::visit([](const auto& any) { return any.runs; }, answered.workload) : 0;
  answered.timing.cycles = times(from.at(1), runs);
  answered.timing.seconds = times(from.at(2), model::has_seconds(answered.workload) ? runs : 0);
  if (const json& counted = from.at(3); !counted.is_null()) {
    const auto bytes = whole_numbers(counted);
    require(bytes.size() == 5);
    answered.timing.counted = model::CacheTraffic{.l1_sectors = bytes[0],
                                                  .l2_load_bytes = bytes[1],
                                                  .l2_store_bytes = bytes[2],
                                                  .dram_load_bytes = bytes[3],
                                                  .dram_store_bytes = bytes[4]};
  }
  if (!refusal.is_null()) {
    answered.timing.refusal = refusal.get<std::string>();
  }
  return answered;
}

std::vector<TimedWorkload> workloads_in(std::string_view payload) {
  std::vector<TimedWorkload> all;
  for (const json& each : cbor_in(payload)) {
    all.push_back(answered_workload(each));
  }
  return all;
}

void put_cbor(std::string& to, const json& value) { json::to_cbor(value, to); }

std::uint32_t checksum_of(std::uint32_t before, std::string_view length_and_payload) {
  std::string chained;
  put_fixed(chained, before, word_bytes);
  boost::crc_32_type crc;
  crc.process_bytes(chained.data(), chained.size());
  crc.process_bytes(length_and_payload.data(), length_and_payload.size());
  return crc.checksum();
}

std::string reason() { return std::error_code(errno, std::generic_category()).message(); }

// So that a file that was made or renamed in a folder is still there after a power cut.
void sync_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); opened.is_open()) {
    fsync(opened.number());
  }
}

// Until the first frame is whole. Throws InputError when there is a journal already.
std::filesystem::path partial_of(const std::filesystem::path& journal) {
  if (std::filesystem::exists(journal)) {
    throw InputError(journal.string() + ": is left of a run that did not end; go on with --resume, or remove it");
  }
  return journal.string() + ".partial";
}

FileDescriptor opened(const std::filesystem::path& file, int flags) {
  constexpr mode_t for_all = 0666;
  FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC | flags, for_all));
  if (!descriptor.is_open()) {
    throw InputError(file.string() + ": cannot be written (" + reason() + "); name another file");
  }
  if (flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw InputError(file.string() + ": another gpuinfer is writing it; let it end, or name another file");
  }
  return descriptor;
}

// Of the address only the bits that offsets reach: those above differ from one start of a GPU's driver to the next, and
// concern all lines of the buffer alike.
json buffer_facts(const model::BufferFacts& buffer) {
  constexpr std::uint64_t largest_bytes = std::uint64_t{1} << 62U;
  json facts{{"bytes", buffer.bytes},
             {"address", buffer.address % std::bit_ceil(std::min(buffer.bytes, largest_bytes))}};
  if (buffer.raster) {
    facts["raster"] = {buffer.raster->texel_bytes, buffer.raster->width, buffer.raster->height};
  }
  if (buffer.nearer_bytes) {
    facts["nearer_bytes"] = *buffer.nearer_bytes;
  }
  if (buffer.piece_bytes) {
    facts["piece_bytes"] = *buffer.piece_bytes;
  }
  if (buffer.averages_laps) {
    facts["averages_laps"] = true;
  }
  return facts;
}

const std::string own_buffer = "buffer of ";

bool differs_in_address(const std::string& name, const RunFacts& begun, const RunFacts& now) {
  const auto before = begun.find(name);
  const auto after = now.find(name);
  if ((name != "buffer" && !name.starts_with(own_buffer)) || before == begun.end() || after == now.end() ||
      before->second == after->second) {
    return false;
  }
  json facts_before = json::parse(before->second, nullptr, false);
  json facts_after = json::parse(after->second, nullptr, false);
  if (!facts_before.is_object() || !facts_after.is_object()) {
    return false;
  }
  facts_before.erase("address");
  facts_after.erase("address");
  return facts_before == facts_after;
}

}  // namespace

RunFacts run_facts_of(const model::DeviceFacts& facts) {
  // What was so when the device was opened, or is known only after it has answered.
  constexpr std::array<std::string_view, 6> changing{"sm_clock_mhz", "memory_clock_mhz", "watched",
                                                     "disturbances", "resumed",          "host"};
  const auto text = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  RunFacts run{{"device", facts.name},
               {"source", facts.source},
               {"compute_capability", facts.compute_capability.value_or("none")},
               {"sm_count", facts.sm_count ? std::to_string(*facts.sm_count) : "none"},
               {"offered targets", text(facts.targets)},
               {"buffer", text(buffer_facts(facts.buffer))},
               {"heeded circumstances", text(wire::heeded_by(facts))},
               {"latency path", facts.latency_path ? text(wire::to_json(*facts.latency_path)) : "none"}};
  for (const auto& [target, buffer] : facts.own_buffers) {
    run[own_buffer + target] = text(buffer_facts(buffer));
  }
  for (const auto& [name, value] : facts.provenance) {
    if (std::ranges::find(changing, name) == changing.end()) {
      run[name] = value;
    }
  }
  return run;
}

std::vector<std::string> targets_elsewhere(std::span<const std::string> targets, const RunFacts& begun,
                                           const RunFacts& now) {
  std::vector<std::string> elsewhere;
  std::ranges::copy_if(targets, std::back_inserter(elsewhere), [&](const std::string& target) {
    const std::string own = own_buffer + target;
    return differs_in_address(begun.contains(own) ? own : "buffer", begun, now);
  });
  return elsewhere;
}

void check_same_run(const std::filesystem::path& file, const RunFacts& begun, const RunFacts& now) {
  // What tells most comes first.
  std::vector<std::string> names{"source", "device", "targets"};
  for (const auto& [name, value] : begun) {
    names.push_back(name);
  }
  const auto shown = [](const RunFacts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("nothing") : "`" + found->second + "`";
  };
  for (const std::string& name : names) {
    if (begun.contains(name) && shown(begun, name) != shown(now, name) && !differs_in_address(name, begun, now)) {
      throw InputError(file.string() + ": was begun with " + name + " " + shown(begun, name) + ", and this run has " +
                       shown(now, name) + "; resume it as it was begun, or begin another one with --record");
    }
  }
}

template <class Decode>
auto JournalReader::decoded(Decode decode) const {
  const auto damaged = [this](const std::exception& why) {
    return InputError(file_.string() + ": holds what no gpuinfer of this version writes (" + printable(why.what()) +
                      "); begin the run anew with --record");
  };
  try {
    return decode();
  } catch (const json::exception& wrong) {
    throw damaged(wrong);
  } catch (const Malformed& wrong) {
    throw damaged(wrong);
  } catch (const InputError& wrong) {
    throw damaged(wrong);
  }
}

void JournalReader::take_in(char kind, std::string_view content) {
  if (kind == 'H' || kind == 'R') {
    run_ = cbor_in(content).get<RunFacts>();
  } else if (kind == 'P') {
    const json located = cbor_in(content);
    auto& places_of_target = places_[located.at(0).get<std::string>()];
    const std::vector<std::uint64_t> offsets = whole_numbers(located.at(1));
    const std::vector<std::uint64_t> places = whole_numbers(located.at(2));
    require(offsets.size() == places.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      places_of_target[offsets[i]] = places[i];
    }
  } else if (kind == 'D') {
    disturbances_ = cbor_in(content).get<std::vector<model::Disturbance>>();
  } else if (kind == 'X') {
    const json cut = cbor_in(content);
    cuts_[{cut.at(0).get<std::string>(), cut.at(1).get<std::string>()}].push_back(
        {.after = whole_number(cut.at(2)), .position = whole_bytes_});
  }
}

JournalReader::JournalReader(const std::filesystem::path& file) : file_(file), stream_(file, std::ios::binary) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(file, error);
  std::string begin(magic.size(), '\0');
  if (error || !stream_.read(begin.data(), static_cast<std::streamsize>(begin.size())) || begin != magic) {
    throw InputError(file.string() + ": is no journal of this version; begin the run anew with --record");
  }
  whole_bytes_ = magic.size();
  bool first = true;
  while (const auto payload = whole_frame_at(whole_bytes_, file_bytes)) {
    const char kind = payload->front();
    if (first != (kind == 'H')) {
      break;
    }
    decoded([&] { take_in(kind, std::string_view(*payload).substr(1)); });
    first = false;
    whole_bytes_ += payload->size() + 2 * word_bytes;
  }
  if (first) {
    throw InputError(file.string() + ": ends before the first answer; begin the run anew with --record");
  }
  dropped_bytes_ = file_bytes - whole_bytes_;
}

std::optional<std::string> JournalReader::whole_frame_at(std::uint64_t position, std::uint64_t file_bytes) {
  std::string length(word_bytes, '\0');
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(position));
  if (position + 2 * word_bytes > file_bytes ||
      !stream_.read(length.data(), static_cast<std::streamsize>(length.size()))) {
    return std::nullopt;
  }
  const std::uint32_t payload_bytes = Bytes(length).fixed(word_bytes);
  if (payload_bytes == 0 || payload_bytes > most_payload_bytes ||
      position + payload_bytes + 2 * word_bytes > file_bytes) {
    return std::nullopt;
  }
  std::string frame = length;
  frame.resize(word_bytes + payload_bytes + word_bytes);
  if (!stream_.read(frame.data() + word_bytes, static_cast<std::streamsize>(payload_bytes + word_bytes))) {
    return std::nullopt;
  }
  const std::string_view covered = std::string_view(frame).substr(0, word_bytes + payload_bytes);
  const std::uint32_t checksum = checksum_of(last_checksum_, covered);
  if (checksum != Bytes(std::string_view(frame).substr(covered.size())).fixed(word_bytes)) {
    return std::nullopt;
  }
  last_checksum_ = checksum;
  return frame.substr(word_bytes, payload_bytes);
}

template <class Element, class Decode>
std::optional<Element> JournalReader::next(Cursors<Element>& cursors, const std::string& target, char kind,
                                           Decode decode) {
  Cursor<Element>& cursor = cursors.try_emplace(target, Cursor<Element>{.position = magic.size()}).first->second;
  if (const auto cuts = cuts_.find({std::string(1, kind), target}); cuts != cuts_.end()) {
    for (const Cut& cut : cuts->second) {
      if (cut.after == cursor.given && cut.position >= cursor.position) {
        cursor.elements.clear();
        cursor.taken = 0;
        cursor.position = cut.position;
      }
    }
  }
  while (cursor.taken == cursor.elements.size()) {
    if (cursor.position == whole_bytes_) {
      return std::nullopt;
    }
    std::string begin(word_bytes + 1, '\0');
    std::string payload;
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(cursor.position));
    stream_.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    const std::uint32_t payload_bytes = Bytes(begin).fixed(word_bytes);
    cursor.position += payload_bytes + 2 * word_bytes;
    if (begin.back() == kind) {
      payload.resize(payload_bytes - 1);
      stream_.read(payload.data(), static_cast<std::streamsize>(payload.size()));
      cursor.taken = 0;
      cursor.elements = decoded([&] { return decode(payload); });
      std::erase_if(cursor.elements, [&](const Element& element) { return target_of(element) != target; });
    }
    if (!stream_) {
      throw InputError(file_.string() + ": cannot be read again; look after the disk");
    }
  }
  ++cursor.given;
  return std::move(cursor.elements[cursor.taken++]);
}

std::optional<AnsweredQuestion> JournalReader::next_question(const std::string& target) {
  return next(questions_, target, 'Q', questions_in);
}

std::optional<TimedWorkload> JournalReader::next_workload(const std::string& target) {
  return next(workloads_, target, 'W', workloads_in);
}

JournalWriter::JournalWriter(const std::filesystem::path& file, const RunFacts& run)
    : file_(partial_of(file)), open_(opened(file_, O_CREAT | O_TRUNC)) {
  write_all(magic);
  whole_bytes_ += magic.size();
  begin_frame('H');
  put_cbor(frame_, run);
  end_frame();
  move_to(file);
}

JournalWriter::JournalWriter(const JournalReader& read)
    : file_(read.file()), open_(opened(file_, 0)), whole_bytes_(read.whole_bytes()),
      last_checksum_(read.last_checksum()) {
  if (ftruncate(open_.number(), static_cast<off_t>(whole_bytes_)) != 0 || lseek(open_.number(), 0, SEEK_END) < 0) {
    throw InputError(file_.string() + ": cannot be gone on with (" + reason() + "); see that it may be written to");
  }
  sync();
}

void JournalWriter::begin_frame(char kind) {
  frame_.assign(word_bytes, '\0');
  frame_ += kind;
}

void JournalWriter::end_frame() {
  const std::size_t payload_bytes = frame_.size() - word_bytes;
  if (payload_bytes > most_payload_bytes) {
    throw Error(file_.string() + ": a batch of " + std::to_string(payload_bytes) +
                " bytes is more than a frame holds; run without --record");
  }
  std::string length;
  put_fixed(length, static_cast<std::uint32_t>(payload_bytes), word_bytes);
  frame_.replace(0, word_bytes, length);
  const std::uint32_t checksum = checksum_of(last_checksum_, frame_);
  put_fixed(frame_, checksum, word_bytes);
  write_all(frame_);
  whole_bytes_ += frame_.size();
  last_checksum_ = checksum;
  constexpr std::chrono::milliseconds between_syncs{500};
  if (std::chrono::steady_clock::now() - synced_ >= between_syncs) {
    sync();
  }
}

void JournalWriter::write_all(std::string_view bytes) {
  while (!bytes.empty() && !failed_) {
    const ssize_t written = ::write(open_.number(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      failed_ = true;
    }
  }
  if (failed_) {
    const std::string why = reason();
    static_cast<void>(ftruncate(open_.number(), static_cast<off_t>(whole_bytes_)) == 0);
    throw Error(file_.string() + ": cannot be written (" + why + "); make room, and go on with --resume");
  }
}

void JournalWriter::append(std::span<const model::Question> questions, std::span<const model::Answer> answers) {
  for (std::size_t first = 0; first < questions.size();) {
    std::size_t end = first;
    const std::size_t last = std::min(questions.size(), first + most_frame_questions);
    for (std::size_t accesses = 0; end < last && (end == first || accesses < most_frame_accesses); ++end) {
      accesses += questions[end].warm.size() + questions[end].record.size();
    }
    begin_frame('Q');
    put_number(frame_, end - first);
    for (std::size_t i = first; i < end; ++i) {
      put_answered(frame_, questions[i], i == first ? nullptr : &questions[i - 1], answers[i]);
    }
    end_frame();
    first = end;
  }
}

void JournalWriter::append(std::span<const model::Workload> workloads, std::span<const model::Timing> timings) {
  json all = json::array();
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    all.push_back(to_json(workloads[i], timings[i]));
  }
  begin_frame('W');
  put_cbor(frame_, all);
  end_frame();
}

void JournalWriter::append(const std::string& target, std::span<const std::uint64_t> offsets,
                           std::span<const std::uint64_t> places) {
  begin_frame('P');
  put_cbor(frame_, json::array({target, json(std::vector(offsets.begin(), offsets.end())),
                                json(std::vector(places.begin(), places.end()))}));
  end_frame();
}

void JournalWriter::append_run(const RunFacts& run) {
  begin_frame('R');
  put_cbor(frame_, run);
  end_frame();
}

void JournalWriter::append_disturbances(const std::vector<model::Disturbance>& disturbances) {
  begin_frame('D');
  put_cbor(frame_, disturbances);
  end_frame();
}

void JournalWriter::append_question_cut(const std::string& target, std::uint64_t questions) {
  append_cut('Q', target, questions);
}

void JournalWriter::append_workload_cut(const std::string& target, std::uint64_t workloads) {
  append_cut('W', target, workloads);
}

void JournalWriter::append_cut(char kind, const std::string& target, std::uint64_t count) {
  begin_frame('X');
  put_cbor(frame_, std::tuple(std::string(1, kind), target, count));
  end_frame();
}

void JournalWriter::sync() {
  if (fdatasync(open_.number()) != 0 && errno != EINVAL) {
    throw Error(file_.string() + ": cannot be brought to the disk (" + reason() + "); look after the disk, and go on " +
                "with --resume");
  }
  synced_ = std::chrono::steady_clock::now();
}

void JournalWriter::move_to(const std::filesystem::path& file) {
  sync();
  std::error_code error;
  std::filesystem::rename(file_, file, error);
  if (error) {
    throw Error(file.string() + ": cannot be made (" + error.message() + "); name another file");
  }
  file_ = file;
  sync_folder_of(file);
}

void JournalWriter::remove() {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

}  // namespace gpuinfer::probe
