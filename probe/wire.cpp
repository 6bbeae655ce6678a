// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/wire.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/errors.hpp"
#include "model/json_text.hpp"
#include "model/printable.hpp"
#include "probe/disturbance_json.hpp"
#include "probe/input_limits.hpp"
#include "probe/latency.hpp"

namespace gpuinfer::probe::wire {

namespace {

using nlohmann::json;

constexpr int protocol = 1;

constexpr const char* warm_targets_key = "warm_targets";
constexpr const char* carveouts_key = "carveouts_kb";
constexpr const char* chooses_sm_key = "chooses_sm";
constexpr const char* warm_target_key = "warm_target";
constexpr const char* carveout_key = "carveout_kb";
constexpr const char* sm_key = "sm";
constexpr const char* warm_sms_targets_key = "warm_sms_targets";
constexpr const char* warm_sms_key = "warm_sms";
constexpr const char* contended_targets_key = "contended_targets";
constexpr const char* contended_pairs_key = "contended_pairs";
constexpr const char* stores_key = "stores";
constexpr const char* hints_key = "hints";
constexpr const char* largest_set_aside_key = "largest_set_aside_bytes";
constexpr const char* set_aside_key = "set_aside_bytes";
constexpr const char* store_key = "store";
constexpr const char* disturbances_key = "disturbances";

// How deep lists and objects are nested in a text that may or may not be JSON.
std::size_t depth_of(const std::string& text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      i += c == '\\' ? 1 : 0;
      is_in_string = c != '"';
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
    } else {
      is_in_string = c == '"';
    }
  }
  return deepest;
}

// A member of an object; `form` says what it has to be.
const json& member(const json& object, const char* key, bool (json::*is)() const noexcept, const char* form) {
  const auto found = object.find(key);
  if (found == object.end() || !((*found).*is)()) {
    throw InputError("`" + std::string(key) + "` is missing or not " + form + "; send it as the protocol says");
  }
  return *found;
}

std::string string_member(const json& object, const char* key) {
  return member(object, key, &json::is_string, "a string").get<std::string>();
}

std::uint64_t whole_member(const json& object, const char* key) {
  return member(object, key, &json::is_number_unsigned, "a whole number").get<std::uint64_t>();
}

const json& list_member(const json& object, const char* key) { return member(object, key, &json::is_array, "a list"); }

model::AccessSequence sequence_member(const json& object, const char* key) {
  const json& list = list_member(object, key);
  model::AccessSequence sequence;
  sequence.reserve(list.size());
  for (const json& offset : list) {
    if (!offset.is_number_unsigned()) {
      throw InputError("`" + std::string(key) + "` holds something else than byte offsets; send whole numbers");
    }
    sequence.push_back(offset.get<std::uint64_t>());
  }
  return sequence;
}

std::vector<std::string> strings_member(const json& object, const char* key) {
  std::vector<std::string> strings;
  for (const json& string : list_member(object, key)) {
    if (!string.is_string()) {
      throw InputError("`" + std::string(key) + "` holds something else than names; send a list of strings");
    }
    strings.push_back(string.get<std::string>());
  }
  return strings;
}

std::uint32_t narrowed(std::uint64_t number, const char* key) {
  if (number > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("`" + std::string(key) + "` is " + std::to_string(number) + "; send how many there are");
  }
  return static_cast<std::uint32_t>(number);
}

// Texts come from anywhere and need not be UTF-8.
std::string line_of(const json& object) { return model::json_text(object, {.replaces_bytes = true}); }

model::BufferFacts buffer_of(const json& object) {
  model::BufferFacts buffer{.bytes = whole_member(object, "buffer_bytes"),
                            .address = model::Address{whole_member(object, "address_of_buffer")}};
  if (object.contains("nearer_bytes")) {
    buffer.nearer_bytes = whole_member(object, "nearer_bytes");
  }
  if (object.contains("piece_bytes")) {
    buffer.piece_bytes = whole_member(object, "piece_bytes");
    if (buffer.piece_bytes == 0U) {
      throw InputError("`piece_bytes` is 0; send how many bytes of code an access runs");
    }
  }
  if (object.contains("averages_laps")) {
    buffer.averages_laps = member(object, "averages_laps", &json::is_boolean, "true or false").get<bool>();
  }
  if (object.contains("one_sm")) {
    buffer.one_unit = member(object, "one_sm", &json::is_boolean, "true or false").get<bool>();
  }
  return buffer;
}

// True: of all targets.
void read_targets(const json& object, const char* key, const model::DeviceFacts& facts,
                  std::vector<std::string>& targets) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return;
  }
  if (!found->is_boolean()) {
    targets = strings_member(object, key);
  } else if (found->get<bool>()) {
    targets = facts.targets;
  }
}

void read_stores_and_hints(const json& object, model::DeviceFacts& facts) {
  read_targets(object, stores_key, facts, facts.stored_targets);
  read_targets(object, hints_key, facts, facts.hinted_targets);
  if (object.contains(largest_set_aside_key)) {
    facts.largest_set_aside_bytes = whole_member(object, largest_set_aside_key);
  }
}

}  // namespace

json parse_object(const std::string& line) {
  if (depth_of(line) > most_json_depth) {
    throw InputError("lists and objects are nested more than " + std::to_string(most_json_depth) +
                     " deep; send what the protocol has");
  }
  json object = model::parse_json(line);
  if (!object.is_object()) {
    constexpr std::size_t shown = 60;
    throw InputError(printable("'" + line.substr(0, shown) + "' is no JSON object; send one on each line"));
  }
  return object;
}

json heeded_by(const model::DeviceFacts& facts) {
  json heeded = json::object();
  if (!facts.warm_targets.empty()) {
    heeded[warm_targets_key] = facts.warm_targets;
  }
  if (!facts.shared_memories_kb.empty()) {
    heeded[carveouts_key] = facts.shared_memories_kb;
  }
  if (facts.chooses_unit) {
    heeded[chooses_sm_key] = true;
  }
  if (!facts.warm_unit_targets.empty()) {
    heeded[warm_sms_targets_key] = facts.warm_unit_targets;
  }
  if (!facts.contended_targets.empty()) {
    heeded[contended_targets_key] = facts.contended_targets;
  }
  if (!facts.stored_targets.empty()) {
    heeded[stores_key] = facts.stored_targets;
  }
  if (!facts.hinted_targets.empty()) {
    heeded[hints_key] = facts.hinted_targets;
  }
  if (facts.largest_set_aside_bytes) {
    heeded[largest_set_aside_key] = *facts.largest_set_aside_bytes;
  }
  return heeded;
}

void read_heeded(const json& object, model::DeviceFacts& facts) {
  if (object.contains(warm_targets_key)) {
    facts.warm_targets = strings_member(object, warm_targets_key);
  }
  if (object.contains(carveouts_key)) {
    for (const std::uint64_t carveout : sequence_member(object, carveouts_key)) {
      facts.shared_memories_kb.push_back(narrowed(carveout, carveouts_key));
    }
  }
  if (object.contains(chooses_sm_key)) {
    facts.chooses_unit = member(object, chooses_sm_key, &json::is_boolean, "true or false").get<bool>();
  }
  if (object.contains(warm_sms_targets_key)) {
    facts.warm_unit_targets = strings_member(object, warm_sms_targets_key);
  }
  if (object.contains(contended_targets_key)) {
    facts.contended_targets = strings_member(object, contended_targets_key);
  }
  read_stores_and_hints(object, facts);
}

json to_json(const model::Circumstances& circumstances) {
  json object = json::object();
  if (circumstances.warm_target) {
    object[warm_target_key] = *circumstances.warm_target;
  }
  if (circumstances.shared_memory_kb) {
    object[carveout_key] = *circumstances.shared_memory_kb;
  }
  if (circumstances.unit) {
    object[sm_key] = number_of(*circumstances.unit);
  }
  for (const model::ComputeUnit unit : circumstances.warm_units) {
    object[warm_sms_key].push_back(number_of(unit));
  }
  if (circumstances.contended_pairs) {
    object[contended_pairs_key] = true;
  }
  if (!circumstances.stores.empty()) {
    object[store_key] = circumstances.stores;
  }
  for (const auto& [hint, numbers] : circumstances.hints) {
    object[std::string(to_string(hint))] = numbers;
  }
  if (circumstances.set_aside_bytes) {
    object[set_aside_key] = *circumstances.set_aside_bytes;
  }
  return object;
}

model::Circumstances parse_circumstances(const json& object) {
  model::Circumstances circumstances;
  if (object.contains(warm_target_key)) {
    circumstances.warm_target = string_member(object, warm_target_key);
  }
  if (object.contains(carveout_key)) {
    circumstances.shared_memory_kb = narrowed(whole_member(object, carveout_key), carveout_key);
  }
  if (object.contains(sm_key)) {
    circumstances.unit = model::ComputeUnit{narrowed(whole_member(object, sm_key), sm_key)};
  }
  if (object.contains(warm_sms_key)) {
    for (const std::uint64_t unit : sequence_member(object, warm_sms_key)) {
      circumstances.warm_units.push_back(model::ComputeUnit{narrowed(unit, warm_sms_key)});
    }
  }
  if (object.contains(contended_pairs_key)) {
    circumstances.contended_pairs = member(object, contended_pairs_key, &json::is_boolean, "true or false").get<bool>();
  }
  const auto numbers = [&object](const char* key, std::vector<std::uint32_t>& list) {
    for (const std::uint64_t number : sequence_member(object, key)) {
      list.push_back(narrowed(number, key));
    }
  };
  if (object.contains(store_key)) {
    numbers(store_key, circumstances.stores);
  }
  for (const model::AccessKind hint : model::hint_kinds) {
    if (const std::string key(to_string(hint)); object.contains(key)) {
      numbers(key.c_str(), circumstances.hints[hint]);
    }
  }
  if (object.contains(set_aside_key)) {
    circumstances.set_aside_bytes = whole_member(object, set_aside_key);
  }
  return circumstances;
}

json to_json(const model::PathDescription& path) {
  json object{{"caches", path.caches}, {"tlbs", path.tlbs}};
  if (path.translated_from) {
    object["translated_from"] = *path.translated_from;
  }
  if (path.page_window_bytes) {
    object["page_window_bytes"] = *path.page_window_bytes;
  }
  if (path.page_window_is_unknown) {
    object["page_window_is_unknown"] = true;
  }
  return object;
}

model::PathDescription parse_path(const json& object) {
  model::PathDescription path;
  path.caches = strings_member(object, "caches");
  path.tlbs = strings_member(object, "tlbs");
  if (object.contains("translated_from")) {
    path.translated_from = string_member(object, "translated_from");
  }
  if (object.contains("page_window_bytes")) {
    path.page_window_bytes = whole_member(object, "page_window_bytes");
  }
  path.page_window_is_unknown = object.contains("page_window_is_unknown");
  return path;
}

json to_json(const model::Workload& workload) {
  struct Members {
    json operator()(const model::SharedLoads& loads) const {
      return {{"element_bytes", loads.element_bytes}, {"lane_offsets", loads.lane_offsets}, {"runs", loads.runs}};
    }
    json operator()(const model::ConcurrentLoads& loads) const {
      return {{"threads", loads.threads},
              {"loads_per_thread", loads.loads_per_thread},
              {"threads_per_line", loads.threads_per_line},
              {"from_l2", loads.from_l2},
              {"runs", loads.runs}};
    }
    json operator()(const model::Stream& stream) const {
      json object{{"path", to_string(stream.path)},
                  {"work", to_string(stream.work)},
                  {"element_bits", stream.element_bits},
                  {"elements_in_flight", stream.elements_in_flight},
                  {"dataset_bytes", stream.dataset_bytes},
                  {"part_bytes", stream.part_bytes},
                  {"block_threads", stream.block_threads},
                  {"blocks", stream.blocks},
                  {"elements_per_thread", stream.elements_per_thread},
                  {"runs", stream.runs}};
      set_flag(object, "drops_l2", stream.drops_l2);
      set_flag(object, "is_counted", stream.is_counted);
      return object;
    }
    json operator()(const model::KernelRun& run) const {
      json object{{"kernel", to_string(run.kernel)},
                  {"variant", to_string(run.variant)},
                  {"size", run.size},
                  {"runs", run.runs}};
      set_flag(object, "is_counted", run.is_counted);
      return object;
    }
    json operator()(const model::ClusterExchange& exchange) const {
      json object{{"work", to_string(exchange.work)},
                  {"blocks", exchange.blocks},
                  {"cluster", exchange.cluster},
                  {"from", exchange.from},
                  {"to", exchange.to},
                  {"bytes", exchange.bytes},
                  {"threads", exchange.threads},
                  {"runs", exchange.runs}};
      set_flag(object, "by_all", exchange.by_all);
      return object;
    }
    json operator()(const model::BlockFetch& fetch) const {
      json object{{"engine", to_string(fetch.engine)}, {"bytes", fetch.bytes}, {"runs", fetch.runs}};
      set_flag(object, "by_all", fetch.by_all);
      return object;
    }
    // Left out where it is false.
    static void set_flag(json& object, const char* key, bool flag) {
      if (flag) {
        object[key] = true;
      }
    }
  };
  json object = std::visit(Members{}, workload);
  object["target"] = target_of(workload);
  return object;
}

model::Workload parse_workload(const json& object) {
  const auto count = [&object](const char* key) { return narrowed(whole_member(object, key), key); };
  const auto flag = [&object](const char* key) {
    return member(object, key, &json::is_boolean, "true or false").get<bool>();
  };
  const std::string target = string_member(object, "target");
  model::Workload workload;
  if (target == target_of(model::SharedLoads{})) {
    model::SharedLoads loads{.element_bytes = count("element_bytes"), .runs = count("runs")};
    const model::AccessSequence offsets = sequence_member(object, "lane_offsets");
    if (offsets.size() != loads.lane_offsets.size()) {
      throw InputError("`lane_offsets` does not have one offset for each lane of a warp; send 32");
    }
    std::transform(offsets.begin(), offsets.end(), loads.lane_offsets.begin(),
                   [](std::uint64_t offset) { return narrowed(offset, "lane_offsets"); });
    workload = loads;
  } else if (target == target_of(model::ConcurrentLoads{})) {
    workload = model::ConcurrentLoads{.threads = count("threads"),
                                      .loads_per_thread = count("loads_per_thread"),
                                      .threads_per_line = count("threads_per_line"),
                                      .from_l2 = flag("from_l2"),
                                      .runs = count("runs")};
  } else if (target == target_of(model::Stream{})) {
    const auto path = model::stream_path_from(string_member(object, "path"));
    const auto work = model::stream_work_from(string_member(object, "work"));
    if (!path || !work) {
      throw InputError("`path` or `work` names nothing that a stream does; send what the protocol has");
    }
    workload = model::Stream{.path = *path,
                             .work = *work,
                             .element_bits = count("element_bits"),
                             .elements_in_flight = count("elements_in_flight"),
                             .dataset_bytes = whole_member(object, "dataset_bytes"),
                             .part_bytes = whole_member(object, "part_bytes"),
                             .block_threads = count("block_threads"),
                             .blocks = count("blocks"),
                             .elements_per_thread = count("elements_per_thread"),
                             .drops_l2 = object.contains("drops_l2") && flag("drops_l2"),
                             .is_counted = object.contains("is_counted") && flag("is_counted"),
                             .runs = count("runs")};
  } else if (target == target_of(model::KernelRun{})) {
    const auto kernel = model::kernel_name_from(string_member(object, "kernel"));
    const auto variant = model::kernel_variant_from(string_member(object, "variant"));
    if (!kernel || !variant) {
      throw InputError("`kernel` or `variant` names none that there is; send what the protocol has");
    }
    workload = model::KernelRun{.kernel = *kernel,
                                .variant = *variant,
                                .size = count("size"),
                                .is_counted = object.contains("is_counted") && flag("is_counted"),
                                .runs = count("runs")};
  } else if (target == target_of(model::ClusterExchange{})) {
    const auto work = model::exchange_work_from(string_member(object, "work"));
    if (!work) {
      throw InputError("`work` names nothing that blocks of a cluster do; send what the protocol has");
    }
    workload = model::ClusterExchange{.work = *work,
                                      .blocks = count("blocks"),
                                      .cluster = count("cluster"),
                                      .from = count("from"),
                                      .to = count("to"),
                                      .by_all = object.contains("by_all") && flag("by_all"),
                                      .bytes = count("bytes"),
                                      .threads = count("threads"),
                                      .runs = count("runs")};
  } else if (target == target_of(model::BlockFetch{})) {
    const auto engine = model::fetch_engine_from(string_member(object, "engine"));
    if (!engine) {
      throw InputError("`engine` names none that there is; send what the protocol has");
    }
    workload = model::BlockFetch{.engine = *engine,
                                 .bytes = count("bytes"),
                                 .by_all = object.contains("by_all") && flag("by_all"),
                                 .runs = count("runs")};
  } else {
    std::string names;
    for (const std::string_view each : model::workload_targets()) {
      names += (names.empty() ? "" : ", ") + std::string(each);
    }
    throw InputError("`target` is none of " + names + "; send one of them");
  }
  if (const auto reason = model::why_malformed(workload)) {
    throw InputError(*reason);
  }
  return workload;
}

std::string greeting_line(const model::DeviceFacts& facts) {
  json device{{"name", facts.name}};
  if (facts.compute_capability) {
    device["compute_capability"] = *facts.compute_capability;
  }
  if (facts.sm_count) {
    device["sm_count"] = *facts.sm_count;
  }
  if (!facts.provenance.empty()) {
    device["provenance"] = facts.provenance;
  }
  json greeting{{"gpuinfer", protocol},
                {"device", std::move(device)},
                {"targets", facts.targets},
                {"buffer_bytes", facts.buffer.bytes},
                {"address_of_buffer", number_of(facts.buffer.address)}};
  for (const auto& [target, buffer] : facts.own_buffers) {
    json& own = greeting["own_buffers"][target];
    own = {{"buffer_bytes", buffer.bytes}, {"address_of_buffer", number_of(buffer.address)}};
    if (buffer.nearer_bytes) {
      own["nearer_bytes"] = *buffer.nearer_bytes;
    }
    if (buffer.piece_bytes) {
      own["piece_bytes"] = *buffer.piece_bytes;
    }
    if (buffer.averages_laps) {
      own["averages_laps"] = true;
    }
    if (buffer.one_unit) {
      own["one_sm"] = true;
    }
  }
  json heeded = heeded_by(facts);
  for (const auto& [key, targets] :
       {std::pair(stores_key, &facts.stored_targets), {hints_key, &facts.hinted_targets}}) {
    if (heeded.erase(key) != 0) {
      greeting[key] = *targets == facts.targets ? json(true) : json(*targets);
    }
  }
  if (heeded.erase(largest_set_aside_key) != 0) {
    greeting[largest_set_aside_key] = *facts.largest_set_aside_bytes;
  }
  if (!heeded.empty()) {
    greeting["heeded_circumstances"] = std::move(heeded);
  }
  if (facts.latency_path) {
    greeting["latency_path"] = to_json(*facts.latency_path);
  }
  return line_of(greeting);
}

model::DeviceFacts parse_greeting(const std::string& line) {
  const json greeting = parse_object(line);
  if (whole_member(greeting, "gpuinfer") != protocol) {
    throw InputError("`gpuinfer` is not 1; use versions of the two programs that fit");
  }
  const json& device = member(greeting, "device", &json::is_object, "an object");
  model::DeviceFacts facts;
  facts.name = string_member(device, "name");
  if (device.contains("compute_capability")) {
    facts.compute_capability = string_member(device, "compute_capability");
  }
  if (device.contains("sm_count")) {
    facts.sm_count = narrowed(whole_member(device, "sm_count"), "sm_count");
  }
  if (device.contains("provenance")) {
    const json& provenance = member(device, "provenance", &json::is_object, "an object");
    for (const auto& [key, value] : provenance.items()) {
      facts.provenance[key] = string_member(provenance, key.c_str());
    }
  }
  facts.targets = strings_member(greeting, "targets");
  facts.buffer = buffer_of(greeting);
  if (greeting.contains("own_buffers")) {
    const json& own_buffers = member(greeting, "own_buffers", &json::is_object, "an object");
    for (const auto& [target, buffer] : own_buffers.items()) {
      facts.own_buffers[target] = buffer_of(buffer);
    }
  }
  if (greeting.contains("heeded_circumstances")) {
    read_heeded(member(greeting, "heeded_circumstances", &json::is_object, "an object"), facts);
  }
  read_stores_and_hints(greeting, facts);
  if (greeting.contains("latency_path")) {
    facts.latency_path = parse_path(member(greeting, "latency_path", &json::is_object, "an object"));
  }
  return facts;
}

std::string question_line(std::uint64_t id, const model::Question& question) {
  json object{{"id", id},
              {"target", question.target},
              {"state", to_string(question.state)},
              {"warm", question.warm},
              {"record", question.record}};
  object.update(to_json(question.circumstances));
  return line_of(object);
}

Asked parse_question(const std::string& line) {
  Asked asked;
  try {
    const json object = parse_object(line);
    if (const auto id = object.find("id"); id != object.end() && id->is_primitive()) {
      asked.id = *id;
    }
    member(object, "id", &json::is_number_unsigned, "a whole number");
    asked.question.target = string_member(object, "target");
    const auto state = model::start_state_from(string_member(object, "state"));
    if (!state) {
      throw InputError("`state` is none of clean, invalidated, flooded, keep; send one of them");
    }
    asked.question.state = *state;
    asked.question.warm = sequence_member(object, "warm");
    asked.question.record = sequence_member(object, "record");
    asked.question.circumstances = parse_circumstances(object);
  } catch (const InputError& error) {
    asked.error = error.what();
  }
  return asked;
}

std::string answer_line(const json& id, const model::Answer& answer,
                        const std::vector<model::Disturbance>& disturbances) {
  json object{{"id", id}};
  if (!disturbances.empty()) {
    object[disturbances_key] = disturbances;
  }
  if (answer.refusal) {
    object["error"] = *answer.refusal;
    return line_of(object);
  }
  json latency = json::array();
  for (const float cycles : answer.latency_cycles) {
    constexpr float largest_exact = 0x1p24F;
    if (cycles == std::floor(cycles) && cycles < largest_exact) {
      latency.push_back(static_cast<std::uint32_t>(cycles));
    } else {
      latency.push_back(cycles);
    }
  }
  object["latency"] = std::move(latency);
  return line_of(object);
}

Answered parse_answer(const std::string& line) {
  const json object = parse_object(line);
  Answered answered{.id = whole_member(object, "id"), .answer = {}};
  const std::string which = "the answer to question " + std::to_string(answered.id);
  if (object.contains(disturbances_key)) {
    try {
      answered.disturbances = object.at(disturbances_key).get<std::vector<model::Disturbance>>();
    } catch (const json::exception&) {
      throw InputError(which + " has `disturbances` that are none; send a list of sentences, or of maps with `kind` " +
                       "and `sentence`");
    }
  }
  if (object.contains("error") == object.contains("latency")) {
    throw InputError(which + " has both or none of `latency` and `error`; send one of them");
  }
  if (object.contains("error")) {
    answered.answer.refusal = string_member(object, "error");
    return answered;
  }
  const json& latency = list_member(object, "latency");
  answered.answer.latency_cycles.reserve(latency.size());
  for (const json& cycles : latency) {
    if (!cycles.is_number() || !is_latency(cycles.get<double>())) {
      throw InputError(which + " holds '" + line_of(cycles).substr(0, 40) +
                       "'; send numbers of cycles that are not negative");
    }
    answered.answer.latency_cycles.push_back(cycles.get<float>());
  }
  return answered;
}

}  // namespace gpuinfer::probe::wire
