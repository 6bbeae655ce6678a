// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/wire.hpp"

#include <algorithm>
#include <memory>
#include <sstream>

#include "model/answerer.hpp"
#include "probe/exec.hpp"
#include "probe/latency.hpp"
#include "tests/fuzz/fuzz.hpp"

// Input: which side in the first byte, then what it hears: a greeting, an answer, a workload as archives keep it, or
// all lines that come in at `gpuinfer serve`.
namespace gpuinfer::fuzz {
namespace {

// Answers everything; what is of interest is how the line was read and what goes back.
class Echo final : public model::Answerer {
 public:
  Echo() {
    facts_.name = "Echo";
    facts_.targets = {"L1tex"};
    facts_.buffer.bytes = 4096;
  }

  const model::DeviceFacts& facts() const override { return facts_; }

  std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    std::vector<model::Answer> answers;
    for (const model::Question& question : questions) {
      answers.push_back({.latency_cycles = std::vector<float>(question.record.size(), 33), .refusal = std::nullopt});
    }
    return answers;
  }

 private:
  model::DeviceFacts facts_;
};

void greet(const std::string& line) {
  if (const auto facts = read_or_refused([&] { return probe::wire::parse_greeting(line); })) {
    const model::DeviceFacts again = probe::wire::parse_greeting(probe::wire::greeting_line(*facts));
    require(again.targets == facts->targets && again.buffer == facts->buffer && again.own_buffers == facts->own_buffers,
            "a greeting comes back as it was sent");
  }
}

void answer(const std::string& line) {
  if (const auto answered = read_or_refused([&] { return probe::wire::parse_answer(line); })) {
    const auto& cycles = answered->answer.latency_cycles;
    require(std::all_of(cycles.begin(), cycles.end(), probe::is_latency), "latencies are such");
    const auto again = probe::wire::parse_answer(probe::wire::answer_line(answered->id, answered->answer));
    require(again.id == answered->id && again.answer.latency_cycles == cycles, "an answer comes back as it was sent");
  }
}

void describe_work(const std::string& line) {
  const auto workload = read_or_refused([&] { return probe::wire::parse_workload(probe::wire::parse_object(line)); });
  if (workload) {
    require(probe::wire::parse_workload(probe::wire::to_json(*workload)) == *workload,
            "a workload comes back as it was sent");
  }
}

void serve(const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  Echo device;
  probe::serve(device, in, out);
  const std::string said = out.str();
  const auto asked = std::count(lines.begin(), lines.end(), '\n') + (lines.empty() || lines.back() == '\n' ? 0 : 1);
  require(std::count(said.begin(), said.end(), '\n') == asked + 1, "each line gets one answer");
}

void hear(unsigned side, const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  switch (side % 4) {
    case 0:
      greet(line);
      break;
    case 1:
      answer(line);
      break;
    case 2:
      describe_work(line);
      break;
    default:
      serve(text);
  }
}

}  // namespace
}  // namespace gpuinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    gpuinfer::fuzz::hear(data[0], std::string(gpuinfer::fuzz::text_of(data + 1, size - 1)));
  }
  return 0;
}
