// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/wire.hpp"

#include <cmath>
#include <limits>

#include "model/errors.hpp"
#include "probe/latency.hpp"

namespace gpuinfer::probe::wire {

namespace {

using nlohmann::json;

constexpr int protocol = 1;

json parse_object(const std::string& line) {
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) {
    constexpr std::size_t shown = 60;
    throw InputError("'" + line.substr(0, shown) + "' is no JSON object; send one on each line");
  }
  return object;
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

// Texts come from anywhere and need not be UTF-8.
std::string line_of(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

model::BufferFacts buffer_of(const json& object) {
  return {.bytes = whole_member(object, "buffer_bytes"), .address = whole_member(object, "address_of_buffer")};
}

}  // namespace

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
                {"address_of_buffer", facts.buffer.address}};
  for (const auto& [target, buffer] : facts.own_buffers) {
    greeting["own_buffers"][target] = {{"buffer_bytes", buffer.bytes}, {"address_of_buffer", buffer.address}};
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
    const std::uint64_t sm_count = whole_member(device, "sm_count");
    if (sm_count > std::numeric_limits<unsigned>::max()) {
      throw InputError("`sm_count` is " + std::to_string(sm_count) + "; send how many there are");
    }
    facts.sm_count = static_cast<unsigned>(sm_count);
  }
  if (device.contains("provenance")) {
    const json& provenance = member(device, "provenance", &json::is_object, "an object");
    for (const auto& [key, value] : provenance.items()) {
      facts.provenance[key] = string_member(provenance, key.c_str());
    }
  }
  for (const json& target : list_member(greeting, "targets")) {
    if (!target.is_string()) {
      throw InputError("`targets` holds something else than names; send a list of strings");
    }
    facts.targets.push_back(target.get<std::string>());
  }
  facts.buffer = buffer_of(greeting);
  if (greeting.contains("own_buffers")) {
    const json& own_buffers = member(greeting, "own_buffers", &json::is_object, "an object");
    for (const auto& [target, buffer] : own_buffers.items()) {
      facts.own_buffers[target] = buffer_of(buffer);
    }
  }
  return facts;
}

std::string question_line(std::uint64_t id, const model::Question& question) {
  return line_of({{"id", id},
                  {"target", question.target},
                  {"state", to_string(question.state)},
                  {"warm", question.warm},
                  {"record", question.record}});
}

Asked parse_question(const std::string& line) {
  Asked asked;
  try {
    const json object = parse_object(line);
    asked.id = object.value("id", json());
    member(object, "id", &json::is_number_unsigned, "a whole number");
    asked.question.target = string_member(object, "target");
    const auto state = model::start_state_from(string_member(object, "state"));
    if (!state) {
      throw InputError("`state` is none of clean, invalidated, keep; send one of them");
    }
    asked.question.state = *state;
    asked.question.warm = sequence_member(object, "warm");
    asked.question.record = sequence_member(object, "record");
  } catch (const InputError& error) {
    asked.error = error.what();
  }
  return asked;
}

std::string answer_line(const json& id, const model::Answer& answer) {
  if (answer.refusal) {
    return line_of({{"id", id}, {"error", *answer.refusal}});
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
  return line_of({{"id", id}, {"latency", std::move(latency)}});
}

Answered parse_answer(const std::string& line) {
  const json object = parse_object(line);
  Answered answered{.id = whole_member(object, "id"), .answer = {}};
  const std::string which = "the answer to question " + std::to_string(answered.id);
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
