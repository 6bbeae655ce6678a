// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/syntax.hpp"
#include "model/answerer.hpp"
#include "probe/archive.hpp"
#include "probe/keep/answer_log.hpp"
#include "probe/keep/kept_device.hpp"

// --record FILE and --resume FILE of `run` and `probe`: the archive FILE, and while the run lasts the answer log
// FILE.journal, from which it can be gone on with.
namespace gpuinfer::cli {

void add_keeping_options(Syntax& syntax);

struct KeepingRequest {
  std::filesystem::path archive;
  bool resumes = false;
};

// None: nothing is kept. FILE may be the log itself. Throws InputError when both options name different files, or
// when there is nothing to resume.
[[nodiscard]] std::optional<KeepingRequest> keeping_request(const Parsed& parsed);

// The command line that goes on with a run of this verb that was given `arguments`.
[[nodiscard]] std::string resuming_command(const std::string& verb, Arguments arguments,
                                           const std::filesystem::path& archive);

// A device of which every answer is kept.
class AnswerKeeping {
 public:
  // `facts` go to the archive, `options` are what else two runs must have in common for one to go on with the other.
  // Throws InputError when a file cannot be made, is left of another run, or cannot be resumed by this one.
  AnswerKeeping(model::Answerer& opened, const KeepingRequest& request, const model::DeviceFacts& facts,
                const probe::RunFacts& options);

  [[nodiscard]] model::Answerer& device() { return *kept_; }
  [[nodiscard]] probe::ArchiveWriter& archive() { return *archive_; }

  // What belongs in the provenance of a profile: nothing, or that a device which may answer anew was asked in parts.
  [[nodiscard]] const std::map<std::string, std::string>& provenance() const { return provenance_; }

  // Writes the archive, which takes long; the log goes then, unless it is wanted. False: the user has interrupted, so
  // no archive comes of it, and the log is on the disk.
  [[nodiscard]] bool finish(bool keep_log);

  // No archive comes of it; the log is brought to the disk.
  void keep_for_later() { log_->commit(); }

 private:
  std::unique_ptr<probe::AnswerLog> log_;
  std::unique_ptr<probe::ArchiveWriter> archive_;
  std::unique_ptr<probe::KeptDevice> kept_;
  std::map<std::string, std::string> provenance_;
};

}  // namespace gpuinfer::cli
