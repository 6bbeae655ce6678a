// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_keeping.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/devices/kind.hpp"
#include "cli/interrupt.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

constexpr const char* log_suffix = ".journal";

fs::path log_of(const fs::path& archive) { return archive.string() + log_suffix; }

probe::Reopened reopened(const model::DeviceFacts& facts) {
  return parse_device(facts.source).kind->answers_repeat ? probe::Reopened::answers_the_same
                                                         : probe::Reopened::answers_anew;
}

// Begins a log with what an archive holds; an archive that is there without a log was written whole.
void begin_from_archive(const fs::path& archive, const probe::RunFacts& run) {
  probe::RunFacts begun = probe::run_facts_of(probe::read_archive_facts(archive));
  probe::check_same_run(archive, begun, run);
  begun.insert(run.begin(), run.end());
  const probe::AnswerLog log(log_of(archive), begun,
                             [&](probe::AnswerLog& filled) { probe::append_archive(archive, filled); });
}

std::unique_ptr<probe::AnswerLog> log_to_resume(const fs::path& archive, const model::DeviceFacts& facts,
                                                const probe::RunFacts& run) {
  if (!fs::exists(log_of(archive))) {
    begin_from_archive(archive, run);
  }
  auto log = std::make_unique<probe::AnswerLog>(log_of(archive));
  if (log->lost_rows() > 0) {
    warn(answers_are_lost(log->file().string(), log->lost_rows()));
  }
  probe::check_same_run(log->file(), log->run(), run);
  const std::vector<std::string> elsewhere = probe::targets_elsewhere(facts.targets, log->run(), run);
  if (!elsewhere.empty()) {
    for (const std::string& target : elsewhere) {
      log->cut(probe::Asked::question, target, 0);
      log->cut(probe::Asked::workload, target, 0);
    }
    log->append_run(run);
    warn(buffers_lie_elsewhere(elsewhere));
  }
  return log;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return text + "'";
}

}  // namespace

void add_keeping_options(Syntax& syntax) {
  syntax
      .value(
          "record", written_file,
          "keep every question and answer in this archive (HDF5), and in FILE.journal at once, so that --resume FILE "
          "can go on when the run is cut off (default: nothing is kept)")
      .value(
          "resume", written_file,
          "go on with the run that kept its answers in FILE or FILE.journal, with the same options; what it answered "
          "is not asked again (default: a new run)");
}

std::optional<KeepingRequest> keeping_request(const Parsed& parsed) {
  const auto record = parsed.text("record");
  const auto resume = parsed.text("resume");
  if (!resume) {
    return record ? std::optional(KeepingRequest{.archive = *record}) : std::nullopt;
  }
  const std::string_view suffix(log_suffix);
  const std::string archive = resume->ends_with(suffix) ? resume->substr(0, resume->size() - suffix.size()) : *resume;
  if (record && *record != archive) {
    throw InputError("--record: --resume " + *resume + " goes on recording into " + archive + "; leave --record out");
  }
  if (!fs::exists(archive) && !fs::exists(log_of(archive))) {
    throw InputError("--resume: there is neither " + archive + " nor " + log_of(archive).string() +
                     "; begin the run with --record " + archive);
  }
  return KeepingRequest{.archive = archive, .resumes = true};
}

std::string resuming_command(const std::string& verb, Arguments arguments, const fs::path& archive) {
  std::string command = "gpuinfer " + verb;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--record" || arguments[i] == "--resume") {
      ++i;
    } else if (!arguments[i].starts_with("--record=") && !arguments[i].starts_with("--resume=")) {
      command += " " + quoted(arguments[i]);
    }
  }
  return command + " --resume " + quoted(archive.string());
}

AnswerKeeping::AnswerKeeping(model::Answerer& opened, const KeepingRequest& request, const model::DeviceFacts& facts,
                             const probe::RunFacts& options) {
  probe::RunFacts run = probe::run_facts_of(facts);
  run.insert(options.begin(), options.end());
  if (request.resumes && reopened(facts) == probe::Reopened::answers_anew) {
    provenance_["resumed"] = "some of the answers are those of an earlier run";
  }
  log_ = request.resumes ? log_to_resume(request.archive, facts, run)
                         : std::make_unique<probe::AnswerLog>(log_of(request.archive), run);
  archive_ = probe::create_archive(request.archive, facts);
  for (const auto& [name, value] : provenance_) {
    archive_->add_provenance(name, value);
  }
  kept_ = std::make_unique<probe::KeptDevice>(opened, *log_, reopened(facts));
}

bool AnswerKeeping::finish(bool keep_log) {
  log_->commit();
  if (!kept_->write_to(*archive_, InterruptWatch::stop_requested)) {
    return false;
  }
  archive_->close();
  if (!keep_log) {
    log_->remove();
  }
  return true;
}

}  // namespace gpuinfer::cli
