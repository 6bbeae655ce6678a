// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/warnings.hpp"

#include <fmt/format.h>

#include <iostream>

#include "model/printable.hpp"

namespace gpuinfer::cli {

// In one piece, since several devices may be asked at a time.
void note(const std::string& sentence) { std::cerr << "gpuinfer: " + printable(sentence) + '\n'; }

void warn(const std::string& sentence) { std::cerr << "gpuinfer: warning: " + printable(sentence) + '\n'; }

std::string disturbed(const std::string& source, const model::Disturbance& disturbance) {
  return source + ": " + disturbance.sentence;
}

std::string took_device(const std::string& asked, const std::string& device) {
  return "--device " + asked + " took " + device;
}

std::string plays_recording(const std::string& gpu, const std::string& file) {
  return fmt::format(
      "no GPU is here, so --device auto plays what was recorded of another machine's GPU, {} ({}); --device gpu "
      "insists on one of this machine",
      gpu, file);
}

std::string was_recording(const std::string& gpu) {
  return fmt::format("that was a recording of another machine's GPU, {}, and says nothing of this machine", gpu);
}

std::string seed_differs(std::uint64_t asked, std::uint64_t recorded) {
  return fmt::format(
      "--seed is {}, and the recording was made with {}: other questions will be asked than it holds; leave --seed out",
      asked, recorded);
}

std::string answers_are_lost(const std::string& file, std::uint64_t answers) {
  return fmt::format("{}: is damaged, and {} of its answers are lost and asked again; nothing need be done", file,
                     answers);
}

std::string buffers_lie_elsewhere(const std::vector<std::string>& targets) {
  return fmt::format("the device gave other addresses than when the run began, so what {} answered is asked again",
                     fmt::join(targets, ", "));
}

std::string can_be_resumed(const std::string& command) { return "every answer is kept; go on with: " + command; }

std::string nothing_is_kept() {
  return "the answers before the failure are not kept; with --record FILE they would be, and --resume FILE would go on";
}

std::string no_identity(const std::vector<std::string>& files) {
  const std::string others = files.size() == 1 ? " does" : fmt::format(" and {} more do", files.size() - 1);
  return fmt::format(
      "{}{} not say which device of its kind was asked, so nothing proves that the profiles are of one; see "
      "`device.provenance`",
      files.front(), others);
}

std::string ended_early(const std::string& target, const infer::Finding& finding) {
  return fmt::format(
      "{}: ended after {} accesses, before all was found out; give more with --budget or --timeout, or "
      "let "
      "it finish",
      target, finding.accesses);
}

std::string hypotheses_of_ranks(const std::vector<std::size_t>& of_ranks) {
  std::string text;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    text += fmt::format("{}{} on rank {}", rank == 0 ? "hypotheses scored: " : ", ", of_ranks[rank], rank);
  }
  return text;
}

std::string replay_learned_nothing(const std::string& file) {
  return file +
         ": its answers do not fit the questions of this version, so it is read as a plain recording; record anew "
         "for more";
}

}  // namespace gpuinfer::cli
