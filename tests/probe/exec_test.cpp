// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/exec.hpp"

#include <gtest/gtest.h>
#include <csignal>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "model/errors.hpp"
#include "probe/virtual_device.hpp"
#include "tests/probe/descriptions.hpp"
#include "tests/probe/scratch.hpp"

namespace gpuinfer::probe {
namespace {

using model::Answer;
using model::Question;
using model::StartState;
using nlohmann::json;

constexpr const char* preamble = R"(
import json, os, sys, time
def say(thing):
    print(thing if isinstance(thing, str) else json.dumps(thing), flush=True)
def greet(**more):
    say({"gpuinfer": 1, "device": {"name": "Script"}, "targets": ["L1tex", "Shared"],
         "buffer_bytes": 1 << 20, "address_of_buffer": 4096, **more})
def questions():
    for line in sys.stdin:
        yield json.loads(line)
def answer(q):
    say({"id": q["id"], "latency": [offset / 4 for offset in q["record"]]})
)";

Question question_of(model::AccessSequence record) {
  return {.target = "L1tex", .state = StartState::clean, .warm = {}, .record = std::move(record)};
}

class Exec : public ScratchTest {
 protected:
  std::string script(std::string_view body) {
    return "exec python3 " + file("device.py", std::string(preamble) + std::string(body)).string();
  }

  // The failure of a device that greets and then does `body` when it is asked two questions.
  std::string failure_of(std::string_view body, double timeout_seconds = 20) {
    const auto device = open_exec(script("greet()\n" + std::string(body)), timeout_seconds);
    const std::vector<Question> questions{question_of({0}), question_of({4, 8})};
    const auto ask = [&] { (void)device->ask(questions); };
    std::string message = message_of<DeviceError>(ask);
    EXPECT_TRUE(message.starts_with("exec:exec python3 ") && !contains(message, "\n")) << message;
    EXPECT_EQ(message_of<DeviceError>(ask), message);
    return message;
  }

  static std::string greeting_failure_of(const std::string& command, double timeout_seconds = 20) {
    return message_of<DeviceUnavailable>([&] { (void)open_exec(command, timeout_seconds); });
  }
};

TEST_F(Exec, AGoodDeviceAnswersInAnyOrder) {
  const auto device = open_exec(script(R"(
greet()
first = next(questions())
second = next(questions())
answer(second)
answer(first)
say({"id": next(questions())["id"], "error": "no such state"})
)"));
  EXPECT_EQ(device->facts().name, "Script");
  EXPECT_TRUE(device->facts().source.starts_with("exec:exec python3"));
  EXPECT_EQ(device->facts().targets, std::vector<std::string>{"L1tex"});
  EXPECT_EQ(device->facts().buffer.bytes, 1U << 20U);
  EXPECT_EQ(device->facts().buffer.address, model::Address{4096});
  const std::vector<Question> questions{question_of({0}), question_of({4, 6}), question_of({})};
  const std::vector<Answer> answers = device->ask(questions);
  EXPECT_EQ(answers[0].latency_cycles, std::vector<float>{0});
  EXPECT_EQ(answers[1].latency_cycles, (std::vector<float>{1, 1.5}));
  EXPECT_EQ(answers[2].refusal, "no such state");
}

TEST_F(Exec, SendsWhatTheProtocolSays) {
  const auto device = open_exec(script(R"(
greet()
for q in questions():
    say({"id": q["id"], "error": json.dumps(q)})
)"));
  const Question question{.target = "L1tex", .state = StartState::invalidated, .warm = {0, 128}, .record = {256}};
  const json sent = json::parse(device->ask({&question, 1}).front().refusal.value());
  EXPECT_EQ(sent,
            (json{{"id", 0}, {"target", "L1tex"}, {"state", "invalidated"}, {"warm", {0, 128}}, {"record", {256}}}));
}

TEST_F(Exec, OnlyAProcessThatHeedsCircumstancesIsToldThem) {
  const std::string echo = "\nfor q in questions(): say({'id': q['id'], 'error': json.dumps(q)})\n";
  Question question = question_of({4});
  question.circumstances = {.warm_target = "ReadOnly", .shared_memory_kb = 64, .unit = model::ComputeUnit{3}};
  const auto deaf = open_exec(script("greet()" + echo));
  EXPECT_TRUE(contains(deaf->ask({&question, 1}).front().refusal.value_or(""), "warm_targets"));

  const auto heeding =
      open_exec(script("greet(heeded_circumstances={'warm_targets': ['L1tex', 'ReadOnly'], 'carveouts_kb': [8, 64], "
                       "'chooses_sm': True}, device={'name': 'Script', 'sm_count': 4})" +
                       echo));
  const json sent = json::parse(heeding->ask({&question, 1}).front().refusal.value());
  EXPECT_EQ(sent["warm_target"], "ReadOnly");
  EXPECT_EQ(sent["carveout_kb"], 64);
  EXPECT_EQ(sent["sm"], 3);
  question.circumstances = {.warm_target = {}, .shared_memory_kb = 65, .unit = {}};
  EXPECT_TRUE(contains(heeding->ask({&question, 1}).front().refusal.value_or(""), "carve-out of 65 KB"));
  question.circumstances = {.warm_target = {}, .shared_memory_kb = {}, .unit = model::ComputeUnit{4}};
  EXPECT_TRUE(contains(heeding->ask({&question, 1}).front().refusal.value_or(""), "SM 4"));
}

TEST_F(Exec, OnlyAProcessOfManySmsIsAskedToLetOthersWarmUp) {
  const std::string echo = "\nfor q in questions(): say({'id': q['id'], 'error': json.dumps(q)})\n";
  Question question = question_of({4, 8});
  question.warm = {0};
  question.circumstances.unit = model::ComputeUnit{3};
  question.circumstances.warm_units = {model::ComputeUnit{0}, model::ComputeUnit{2}};
  const std::string of_four = "'chooses_sm': True}, device={'name': 'Script', 'sm_count': 4})";
  const auto deaf = open_exec(script("greet(heeded_circumstances={" + of_four + echo));
  EXPECT_TRUE(contains(deaf->ask({&question, 1}).front().refusal.value_or(""), "cannot have other SMs warm up"));

  const auto heeding =
      open_exec(script("greet(heeded_circumstances={'warm_sms_targets': ['L1tex'], " + of_four + echo));
  EXPECT_EQ(json::parse(heeding->ask({&question, 1}).front().refusal.value())["warm_sms"], json({0, 2}));
  const auto expect_refused = [&] {
    EXPECT_TRUE(contains(heeding->ask({&question, 1}).front().refusal.value_or(""), "their numbers ascend; ask so"));
  };
  question.circumstances.warm_units = {model::ComputeUnit{2}, model::ComputeUnit{0}};
  expect_refused();
  question.circumstances.warm_units = {model::ComputeUnit{4}};
  expect_refused();
  question.circumstances.warm_units = {model::ComputeUnit{0}};
  question.circumstances.unit.reset();
  expect_refused();
}

TEST_F(Exec, OnlyAProcessThatStoresIsAskedTo) {
  const std::string echo = "\nfor q in questions(): say({'id': q['id'], 'error': json.dumps(q)})\n";
  Question question = question_of({4, 8});
  question.warm = {0};
  question.circumstances.stores = {0, 2};
  const auto loads_only = open_exec(script("greet()" + echo));
  EXPECT_TRUE(loads_only->facts().stored_targets.empty());
  EXPECT_TRUE(contains(loads_only->ask({&question, 1}).front().refusal.value_or(""), "does not store"));

  for (const std::string greeting : {"greet(stores=True)", "greet(stores=['L1tex'])"}) {
    const auto storing = open_exec(script(greeting + echo));
    EXPECT_EQ(storing->facts().stored_targets, storing->facts().targets);
    EXPECT_EQ(json::parse(storing->ask({&question, 1}).front().refusal.value())["store"], (json{0, 2}));
    const Question loads = question_of({4, 8});
    EXPECT_FALSE(json::parse(storing->ask({&loads, 1}).front().refusal.value()).contains("store"));
    for (const std::vector<std::uint32_t>& wrong : {std::vector{2U, 0U}, std::vector{1U, 1U}, std::vector{3U}}) {
      Question numbered = question;
      numbered.circumstances.stores = wrong;
      EXPECT_TRUE(contains(storing->ask({&numbered, 1}).front().refusal.value_or(""), "numbers of the stores"));
    }
  }
}

TEST_F(Exec, LargeBatchesBlockNeitherSide) {
  const auto device = open_exec(script("greet()\nfor q in questions(): answer(q)\n"));
  const std::vector<Question> questions(300, question_of(model::cyclic(65536, 4, 3000)));
  const std::vector<Answer> answers = device->ask(questions);
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer.latency_cycles.size(), 3000U);
    EXPECT_EQ(answer.latency_cycles.back(), 2999);
  }
}

TEST_F(Exec, WhatIsNoSequenceIsRefusedHere) {
  const auto device = open_exec(script("greet()\nfor q in questions(): answer(q)\n"));
  std::vector<Question> questions(3, question_of({4}));
  questions[0].target = "Bandwidth";
  questions[1].target = "Texture2D";
  const std::vector<Answer> answers = device->ask(questions);
  EXPECT_TRUE(contains(answers[0].refusal.value_or(""), "Bandwidth is not asked by access sequences"));
  EXPECT_TRUE(contains(answers[1].refusal.value_or(""), "Texture2D is not asked by access sequences"));
  EXPECT_EQ(answers[2].latency_cycles, std::vector<float>{1});
}

TEST_F(Exec, DeathIsToldWithItsStatusAndLastWords) {
  EXPECT_TRUE(contains(failure_of("next(questions())\nprint('no such\\nGPU\\n', file=sys.stderr)\nsys.exit(3)\n"),
                       "ended with status 3, saying 'GPU'"));
  EXPECT_TRUE(contains(failure_of("os.kill(os.getpid(), 9)\n"), "was ended by signal 9"));
  EXPECT_TRUE(contains(failure_of("os.close(1)\nos.close(0)\ntime.sleep(30)\n"), "closed its output"));
}

TEST_F(Exec, SilenceEndsTheWaiting) {
  EXPECT_TRUE(contains(failure_of("time.sleep(60)\n", 2), "said nothing for 2000 ms"));
  EXPECT_TRUE(contains(failure_of("while True: print('busy', file=sys.stderr)\n", 2), "said nothing for 2000 ms"));
}

TEST_F(Exec, NonsenseIsNotTakenForAnAnswer) {
  const auto says = [&](const std::string& line) { return failure_of("say('''" + line + "''')\nnext(questions())\n"); };
  EXPECT_TRUE(contains(says("hello"), "'hello' is no JSON object"));
  EXPECT_TRUE(contains(says("[1]"), "no JSON object"));
  EXPECT_TRUE(contains(says(R"({"latency": [1]})"), "`id` is missing"));
  EXPECT_TRUE(contains(says(R"({"id": -1, "latency": [1]})"), "`id` is missing or not a whole number"));
  EXPECT_TRUE(contains(says(R"({"id": 7, "latency": [1]})"), "question 7 was answered and never asked"));
  EXPECT_TRUE(contains(says(R"({"id": 0})"), "both or none"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "error": 5})"), "`error` is missing or not a string"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": 5})"), "`latency` is missing or not a list"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [1, 2]})"), "2 latencies for 1 recorded loads"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [-1]})"), "holds '-1'"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [NaN]})"), "no JSON object"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [1e999]})"), "no JSON object"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [1e300]})"), "holds '1e+300'"));
  EXPECT_TRUE(contains(says(R"({"id": 0, "latency": [null]})"), "holds 'null'"));
  EXPECT_TRUE(contains(failure_of("q = next(questions())\nanswer(q)\nanswer(q)\n"), "question 0 was answered twice"));
}

TEST_F(Exec, AFloodIsStopped) {
  EXPECT_TRUE(contains(failure_of("while True: sys.stdout.write('x' * 65536)\n"), "sent a line of more than"));
}

TEST_F(Exec, WhoDoesNotGreetIsNoDevice) {
  EXPECT_TRUE(contains(greeting_failure_of("no-such-program-anywhere"), "ended with status 127, saying '"));
  EXPECT_TRUE(contains(greeting_failure_of("exit 0"), "ended with status 0"));
  EXPECT_TRUE(contains(greeting_failure_of("exec sleep 30", 1), "said nothing for 1000 ms"));
  EXPECT_TRUE(contains(greeting_failure_of("echo hello"), "does not greet: 'hello' is no JSON object"));
  EXPECT_TRUE(contains(greeting_failure_of("echo '{\"gpuinfer\": 2}'"), "`gpuinfer` is not 1"));
  EXPECT_TRUE(contains(greeting_failure_of("echo '{\"gpuinfer\": 1, \"device\": {}}'"), "`name` is missing"));
}

TEST_F(Exec, NothingIsLeftBehind) {
  const std::string pid_file = path("pid").string();
  {
    const auto device =
        open_exec(script("child = os.fork()\n"
                         "if child == 0:\n    time.sleep(60)\n"
                         "open('" +
                         pid_file + "', 'w').write(str(child))\ngreet()\ntime.sleep(60)\n"));
  }
  pid_t grandchild = 0;
  std::ifstream(pid_file) >> grandchild;
  ASSERT_GT(grandchild, 0);
  // Whoever adopted it reaps it in its own time.
  const auto runs = [&] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    return (stat >> number >> name >> state) && state != "Z";
  };
  for (int wait = 0; wait < 200 && runs(); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(runs());
}

std::vector<json> served(model::Answerer& device, const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  serve(device, in, out);
  std::vector<json> answers;
  std::istringstream said(out.str());
  for (std::string line; std::getline(said, line);) {
    answers.push_back(json::parse(line));
  }
  return answers;
}

TEST_F(Exec, TargetsMayHaveBuffersOfTheirOwn) {
  const auto device = open_exec(script(R"(
say({"gpuinfer": 1, "device": {"name": "Script"}, "targets": ["L1tex", "ConstL1"], "buffer_bytes": 1 << 20,
     "address_of_buffer": 4096, "own_buffers": {"ConstL1": {"buffer_bytes": 65536, "address_of_buffer": 512},
                                              "L2TLB": {"buffer_bytes": 99328, "address_of_buffer": 0,
                                                        "nearer_bytes": 1024},
                                              "Instruction": {"buffer_bytes": 4096, "address_of_buffer": 0,
                                                              "piece_bytes": 1024},
                                              "dTLB": {"buffer_bytes": 8192, "address_of_buffer": 0,
                                                       "averages_laps": True}}})
)"));
  EXPECT_EQ(device->facts().buffer_of("L1tex"),
            (model::BufferFacts{.bytes = 1U << 20U, .address = model::Address{4096}}));
  EXPECT_EQ(device->facts().buffer_of("ConstL1"), (model::BufferFacts{.bytes = 65536, .address = model::Address{512}}));
  EXPECT_EQ(device->facts().buffer_of("L2TLB"),
            (model::BufferFacts{.bytes = 99328, .address = model::Address{0}, .raster = {}, .nearer_bytes = 1024}));

  EXPECT_EQ(device->facts().buffer_of("Instruction"), (model::BufferFacts{.bytes = 4096, .piece_bytes = 1024}));
  EXPECT_EQ(device->facts().buffer_of("dTLB"), (model::BufferFacts{.bytes = 8192, .averages_laps = true}));

  const auto greeting = [](const std::string& own) {
    return R"(
say({"gpuinfer": 1, "device": {"name": "Script"}, "targets": ["L1tex"], "buffer_bytes": 1 << 20,
     "address_of_buffer": 0, "own_buffers": {"L1tex": )" +
           own + "}})\n";
  };
  EXPECT_TRUE(contains(greeting_failure_of(script(greeting("7"))), "buffer_bytes"));
  EXPECT_TRUE(contains(
      greeting_failure_of(script(greeting(R"({"buffer_bytes": 8, "address_of_buffer": 0, "piece_bytes": 0})"))),
      "piece_bytes"));
  EXPECT_TRUE(contains(
      greeting_failure_of(script(greeting(R"({"buffer_bytes": 8, "address_of_buffer": 0, "averages_laps": 1})"))),
      "averages_laps"));
}

TEST(Serve, GreetsAndAnswersInOrder) {
  const auto device = open_virtual(small_device(), "virtual:small", 1);
  const std::vector<json> said =
      served(*device, R"({"id": 7, "target": "L1tex", "state": "clean", "warm": [0], "record": [0, 32]})"
                      "\n"
                      R"({"id": 8, "target": "L1tex", "state": "keep", "warm": [], "record": [32]})"
                      "\n"
                      R"({"id": 9, "target": "L2", "state": "keep", "warm": [], "record": [32]})");
  ASSERT_EQ(said.size(), 4U);
  EXPECT_EQ(said[0].at("gpuinfer"), 1);
  EXPECT_EQ(said[0].at("targets"), json{"L1tex"});
  EXPECT_EQ(said[0].at("buffer_bytes"), 64U << 20U);
  EXPECT_EQ(said[1], (json{{"id", 7}, {"latency", {100, 200}}}));
  EXPECT_EQ(said[2], (json{{"id", 8}, {"latency", {100}}}));
  EXPECT_EQ(said[3].at("id"), 9);
  EXPECT_TRUE(contains(said[3].at("error").get<std::string>(), "has no cache L2"));
}

TEST(Serve, BadLinesGetAnErrorAnswer) {
  const auto device = open_virtual(small_device(), "virtual:small", 1);
  const auto error_to = [&](const std::string& line, const json& id) {
    const std::vector<json> said = served(*device, line + "\n");
    EXPECT_EQ(said.size(), 2U);
    EXPECT_EQ(said.back().at("id"), id) << line;
    return said.back().at("error").get<std::string>();
  };
  EXPECT_TRUE(contains(error_to("hello", nullptr), "no JSON object"));
  EXPECT_TRUE(contains(error_to("\xff\xfe", nullptr), "no JSON object"));
  EXPECT_TRUE(contains(error_to("{}", nullptr), "`id` is missing"));
  EXPECT_TRUE(contains(error_to(R"({"id": 1})", 1), "`target` is missing"));
  EXPECT_TRUE(contains(error_to(R"({"id": 1, "target": "L1tex", "state": "dirty"})", 1), "`state` is none of"));
  EXPECT_TRUE(contains(error_to(R"({"id": 1, "target": "L1tex", "state": "keep", "warm": [-4], "record": []})", 1),
                       "`warm` holds something else"));
}

TEST_F(Exec, PassesOnWhatDisturbedTheProcess) {
  const auto device = open_exec(script(R"(
greet()
for q in questions():
    told = {"disturbances": ["it rained; wait", {"kind": "asked_again", "sentence": "it failed; wait"},
                             {"kind": "earthquake", "sentence": "of a kind to come; wait"}]} if q["id"] == 1 else {}
    say({"id": q["id"], "latency": [1], **told})
)"));
  const Question question = question_of({0});
  (void)device->ask({&question, 1});
  EXPECT_TRUE(device->disturbances().empty());
  for (int i = 0; i < 2; ++i) {
    (void)device->ask({&question, 1});
    EXPECT_EQ(device->disturbances(),
              (std::vector<model::Disturbance>{
                  {.kind = model::Disturbance::Kind::other, .sentence = "it rained; wait"},
                  {.kind = model::Disturbance::Kind::asked_again, .sentence = "it failed; wait"},
                  {.kind = model::Disturbance::Kind::other, .sentence = "of a kind to come; wait"}}));
  }
  EXPECT_TRUE(contains(failure_of("for q in questions(): say({'id': q['id'], 'latency': [1], 'disturbances': [{}]})"),
                       "`disturbances`"));
  EXPECT_TRUE(contains(failure_of("for q in questions(): say({'id': q['id'], 'latency': [1], 'disturbances': 7})"),
                       "`disturbances`"));
}

class Disturbed final : public model::Answerer {
 public:
  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<Answer> ask(std::span<const Question> questions) override {
    return std::vector<Answer>(questions.size(), {.latency_cycles = {}, .refusal = "no"});
  }
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override {
    return {{.kind = model::Disturbance::Kind::clocks, .sentence = "it rained; wait"}};
  }

 private:
  model::DeviceFacts facts_;
};

TEST(Serve, TellsDisturbancesWithTheFirstAnswerAndThenSeldom) {
  Disturbed device;
  std::istringstream in("{}\n{}\n{}\n");
  std::ostringstream out;
  serve(device, in, out);
  std::istringstream said(out.str());
  std::string line;
  std::getline(said, line);  // the greeting
  for (const bool first : {true, false, false}) {
    std::getline(said, line);
    const json answer = json::parse(line);
    EXPECT_EQ(answer.contains("disturbances"), first) << line;
    const json told = json::array({{{"kind", "clocks"}, {"sentence", "it rained; wait"}}});
    EXPECT_TRUE(!first || answer["disturbances"] == told) << line;
  }
}

// A served device on the far side of a process boundary: the process hands bytes on between two named pipes.
TEST_F(Exec, AServedDeviceAnswersAsTheDeviceItself) {
  model::DeviceDescription description = small_device();
  description.noise = model::NoiseDescription{.jitter_cycles = 3, .misread_probability = 0.01};
  const auto device = open_virtual(description, "virtual:small", 5);
  const auto served_device = open_virtual(description, "virtual:small", 5);
  const std::string to = path("to").string();
  const std::string from = path("from").string();
  ASSERT_EQ(std::system(("mkfifo " + to + " " + from).c_str()), 0);
  std::thread server([&] {
    std::ifstream in(to);
    std::ofstream out(from);
    serve(*served_device, in, out);
  });
  {
    const auto remote = open_exec("exec 3<&0; cat <&3 >" + to + " & exec cat " + from);
    EXPECT_EQ(remote->facts().name, device->facts().name);
    EXPECT_EQ(remote->facts().sm_count, device->facts().sm_count);
    EXPECT_EQ(remote->facts().compute_capability, device->facts().compute_capability);
    EXPECT_EQ(remote->facts().provenance, device->facts().provenance);
    std::vector<Question> questions(50, question_of(model::cyclic(2048, 32, 500)));
    questions[1].state = StartState::keep;
    questions[2].target = "nowhere";
    const std::vector<Answer> here = device->ask(questions);
    const std::vector<Answer> there = remote->ask(questions);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      EXPECT_EQ(here[i].latency_cycles, there[i].latency_cycles) << i;
      EXPECT_EQ(here[i].refusal, there[i].refusal) << i;
    }
  }
  server.join();
}

}  // namespace
}  // namespace gpuinfer::probe
