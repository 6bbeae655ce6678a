// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/answer_keeping.hpp"
#include "cli/common_options.hpp"
#include "cli/disturbances.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/sequence_option.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax probe_syntax() {
  Syntax syntax(
      "probe --sequence SEQ --target T [--device D] [--record FILE] [-o FILE]",
      "Plays an access sequence on a device and keeps the latencies: as an archive with --record, as CSV "
      "`offset,latency`\non stdout otherwise or with -o.",
      {"gpuinfer probe --target L1tex --sequence cyclic:12K,32,4 --record chase.h5",
       "gpuinfer probe --target L1tex --device virtual:gtx780 --warm cyclic:12K,32 --sequence cyclic:12K,32",
       "gpuinfer probe --target L1tex --sequence csv:offsets.csv -o latencies.csv",
       "gpuinfer probe --target L1tex --sequence archive:run.h5 --record again.h5    the same questions again"});
  std::string forms = "what is timed, needed; BYTES and STRIDE are bytes and may end in K, M, G:";
  for (const SequenceForm& form : sequence_forms()) {
    forms += "\n  " + std::string(form.form);
  }
  syntax.value("sequence", sequence_value, forms.c_str())
      .value("warm", sequence_value, "what is played before, untimed (no archive; default: nothing)")
      .value("state", "clean|invalidated|flooded|keep", "the cache is put into this state first (default clean)")
      .value("repeat", "N", "ask so many times (default 1)")
      .value("target", target_value, "the load path, needed, see `gpuinfer list targets`");
  add_device_options(syntax);
  add_keeping_options(syntax);
  syntax.value("output,o", written_file,
               "write the CSV there (default: to stdout, and nowhere with --record or --resume)");
  return syntax;
}

namespace {

std::string required(const Parsed& parsed, const std::string& option, const std::string& example) {
  const auto text = parsed.text(option);
  if (!text) {
    throw InputError("--" + option + ": is missing; write one such as " + example);
  }
  return *text;
}

std::vector<model::Question> questions(const Parsed& parsed, const std::string& target) {
  const std::string sequence = required(parsed, "sequence", "cyclic:12K,32,4");
  std::vector<model::Question> questions;
  if (names_archive(sequence)) {
    if (parsed.text("warm") || parsed.text("state")) {
      throw InputError("--sequence archive:FILE brings its warm-up and state with it; leave --warm and --state out");
    }
    questions = questions_of_archive(sequence);
    for (model::Question& question : questions) {
      question.target = target;
    }
  } else {
    const std::uint64_t seed = seed_or_default(parsed.count("seed"));
    const std::string state_name = parsed.text("state").value_or("clean");
    const auto state = model::start_state_from(state_name);
    if (!state) {
      throw InputError("--state: `" + state_name + "` is not known; write clean, invalidated, flooded or keep");
    }
    const auto warm = parsed.text("warm");
    questions.push_back({.target = target,
                         .state = *state,
                         .warm = warm ? parse_sequence(*warm, seed) : model::AccessSequence{},
                         .record = parse_sequence(sequence, seed)});
  }
  return questions;
}

void check_inside(const std::vector<model::Question>& questions, const model::DeviceFacts& facts) {
  for (const model::Question& question : questions) {
    for (const model::AccessSequence* sequence : {&question.warm, &question.record}) {
      for (const std::uint64_t offset : *sequence) {
        const std::uint64_t buffer_bytes = facts.buffer_of(question.target).bytes;
        if (offset >= buffer_bytes || offset % 4 != 0) {
          throw InputError(
              fmt::format("offset {} is not a 4-byte load inside the buffer of {} bytes that {} has; use "
                          "multiples of 4 below that",
                          offset, buffer_bytes, facts.source));
        }
      }
    }
  }
}

void write_csv(std::ostream& out, const std::vector<model::Question>& questions,
               const std::vector<model::Answer>& answers) {
  out << "offset,latency\n";
  for (std::size_t i = 0; i < questions.size(); ++i) {
    for (std::size_t access = 0; access < questions[i].record.size(); ++access) {
      out << fmt::format("{},{}\n", questions[i].record[access], answers[i].latency_cycles[access]);
    }
  }
}

void check_answered(const std::vector<model::Answer>& answers, const std::string& source) {
  for (const model::Answer& answer : answers) {
    if (answer.refusal) {
      throw DeviceError(source + ": " + *answer.refusal);
    }
  }
}

}  // namespace

ExitStatus verb_probe(Arguments arguments) {
  const auto parsed = probe_syntax().parse(arguments, 0, 0);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const std::vector<std::string> spelled = spelled_targets({{required(*parsed, "target", "L1tex")}});
  if (spelled.front() == "all") {
    throw InputError("--target: `all` is several targets, and a sequence is played on one; name one target");
  }
  const std::vector<model::Question> asked = questions(*parsed, spelled.front());
  const std::uint64_t repeat = parsed->count("repeat").value_or(1);
  const std::optional<KeepingRequest> keeping = keeping_request(*parsed);
  const auto csv = parsed->text("output");
  Output output(csv);

  DeviceRequest request = device_request(*parsed);
  request.targets = spelled;
  const auto device = open_device(request);
  static_cast<void>(offered_targets(spelled, *device));
  check_inside(asked, device->facts());
  std::optional<AnswerKeeping> kept;
  if (keeping) {
    InterruptWatch::will_conclude_in_a_second();
    kept.emplace(*device, *keeping, device->facts(), probe::RunFacts{{"targets", spelled.front()}, {"verb", "probe"}});
  }
  model::Answerer& answerer = kept ? kept->device() : *device;
  const auto keep_for_later = [&](const std::string& why) {
    kept->keep_for_later();
    return why + "; " + can_be_resumed(resuming_command("probe", arguments, keeping->archive));
  };
  constexpr const char* interrupted = "was interrupted";
  try {
    for (std::uint64_t i = 0; i < repeat; ++i) {
      if (InterruptWatch::stop_requested()) {
        note(keep_for_later(interrupted));
        return ExitStatus::unresolved;
      }
      const std::vector<model::Answer> answers = answerer.ask(asked);
      check_answered(answers, device->facts().source);
      if (csv || !keeping) {
        write_csv(output.stream(), asked, answers);
      }
    }
  } catch (const DeviceError& error) {
    if (!kept) {
      throw;
    }
    if (InterruptWatch::stop_requested()) {
      note(keep_for_later(interrupted));
      return ExitStatus::unresolved;
    }
    throw DeviceError(keep_for_later(error.what()));
  }
  output.finish();
  tell_disturbances(answerer, kept ? &kept->archive() : nullptr);
  if (kept && !kept->finish(false)) {
    note(keep_for_later(interrupted));
    return ExitStatus::unresolved;
  }
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
