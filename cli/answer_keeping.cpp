// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_keeping.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/devices/kind.hpp"
#include "cli/warnings.hpp"
#include "model/errors.hpp"
#include "probe/journalled_device.hpp"

namespace fs = std::filesystem;

namespace gpuinfer::cli {

namespace {

constexpr const char* journal_suffix = ".journal";

fs::path journal_of(const fs::path& archive) { return archive.string() + journal_suffix; }

probe::Reopened reopened(const model::DeviceFacts& facts) {
  return parse_device(facts.source).kind->answers_repeat ? probe::Reopened::answers_the_same
                                                         : probe::Reopened::answers_anew;
}

// Journals what an archive holds; an archive that is there without a journal was written whole.
void begin_from_archive(const fs::path& archive, const probe::RunFacts& run) {
  probe::RunFacts begun = probe::run_facts_of(probe::read_archive_facts(archive));
  probe::check_same_run(archive, begun, run);
  begun.insert(run.begin(), run.end());
  const fs::path unfinished = journal_of(archive).string() + ".begun";
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  probe::JournalWriter journal(unfinished, begun);
  probe::append_archive(archive, journal);
  journal.move_to(journal_of(archive));
}

probe::JournalReader past_of(const fs::path& archive, const probe::RunFacts& run) {
  if (!fs::exists(journal_of(archive))) {
    begin_from_archive(archive, run);
  }
  probe::JournalReader past(journal_of(archive));
  probe::check_same_run(past.file(), past.run(), run);
  if (past.dropped_bytes() > 0) {
    warn(journal_is_torn(past.file().string(), past.dropped_bytes()));
  }
  return past;
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
          "record", "FILE",
          "keep every question and answer in this archive (HDF5), and in FILE.journal at once, so that --resume FILE "
          "can go on when the run is cut off (default: nothing is kept)")
      .value(
          "resume", "FILE",
          "go on with the run that kept its answers in FILE or FILE.journal, with the same options; what it answered "
          "is not asked again (default: a new run)");
}

std::optional<KeepingRequest> keeping_request(const Parsed& parsed) {
  const auto record = parsed.text("record");
  const auto resume = parsed.text("resume");
  if (!resume) {
    return record ? std::optional(KeepingRequest{.archive = *record}) : std::nullopt;
  }
  const std::string_view suffix(journal_suffix);
  const std::string archive = resume->ends_with(suffix) ? resume->substr(0, resume->size() - suffix.size()) : *resume;
  if (record && *record != archive) {
    throw InputError("--record: --resume " + *resume + " goes on recording into " + archive + "; leave --record out");
  }
  if (!fs::exists(archive) && !fs::exists(journal_of(archive))) {
    throw InputError("--resume: there is neither " + archive + " nor " + journal_of(archive).string() +
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
  std::optional<probe::JournalReader> past;
  if (request.resumes) {
    past.emplace(past_of(request.archive, run));
    journal_ = std::make_unique<probe::JournalWriter>(*past);
    const std::vector<std::string> elsewhere = probe::targets_elsewhere(facts.targets, past->run(), run);
    if (!elsewhere.empty()) {
      for (const std::string& target : elsewhere) {
        journal_->append_question_cut(target, 0);
        journal_->append_workload_cut(target, 0);
      }
      journal_->append_run(run);
      past.emplace(std::filesystem::path(past->file()));
      warn(buffers_lie_elsewhere(elsewhere));
    }
    if (reopened(facts) == probe::Reopened::answers_anew) {
      provenance_["resumed"] = "some of the answers are those of an earlier run";
    }
  } else {
    journal_ = std::make_unique<probe::JournalWriter>(journal_of(request.archive), run);
  }
  archive_ = probe::create_archive(request.archive, facts);
  for (const auto& [name, value] : provenance_) {
    archive_->add_provenance(name, value);
  }
  journalled_ = probe::journalled(opened, *journal_, std::move(past), reopened(facts));
  recorder_ = probe::recording(*journalled_, *archive_);
}

void AnswerKeeping::finish(bool keep_journal) {
  journal_->sync();
  archive_->close();
  if (!keep_journal) {
    journal_->remove();
  }
}

}  // namespace gpuinfer::cli
