// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/code/infer_code.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/asker.hpp"
#include "infer/asking/leaves.hpp"
#include "infer/asking/stream.hpp"
#include "infer/code/conclude_code.hpp"
#include "model/random.hpp"

namespace gpuinfer::infer {

namespace {

constexpr std::array code_leaves{"levels"};

constexpr std::size_t warm_laps_of_code = 4;
constexpr std::size_t recorded_laps_of_code = 8;
constexpr std::uint64_t most_pieces = 1U << 14U;
constexpr std::size_t most_lengths = 512;
constexpr std::size_t fewest_lengths = 8;

class CodeInference {
 public:
  CodeInference(model::Answerer& device, const std::string& target, const Settings& settings)
      : device_(device, target, settings), leaves_(device_, finding_, code_leaves), random_(stream(settings, "code")) {
    finding_.code.piece_bytes = *device_.buffer().piece_bytes;
  }

  CodeFinding run() {
    static_cast<void>(leaves_.go_through([this] { find_levels(); }));
    leaves_.close();
    return std::move(finding_);
  }

 private:
  void find_levels() {
    const std::uint64_t piece_bytes = finding_.code.piece_bytes;
    const std::uint64_t pieces = std::min(most_pieces, device_.buffer().bytes / piece_bytes);
    const std::uint64_t step = (pieces + most_lengths - 1) / most_lengths;
    if (pieces / step < fewest_lengths) {
      leaves_.give_up_rest("there is too little code to compare lengths");
      return;
    }
    device_.inquire("laps over straight-line code of every length, in random order",
                    "code that no longer fits a cache takes longer");
    device_.report("first round", 0.0);
    const std::vector<CodeLaps> first = ask_all(pieces, step);
    device_.report("second round", 0.5);
    const CodeVerdict verdict = conclude_code(first, ask_all(pieces, step), step * piece_bytes);
    device_.learned(verdict.learned);
    finding_.code.levels = verdict.levels;
    leaves_.settle("levels", verdict.leaf, leaves_.questions());
    device_.report("done", 1.0);
  }

  // Ascending; asked in random order, so that nothing that changes with time looks like a step.
  std::vector<CodeLaps> ask_all(std::uint64_t pieces, std::uint64_t step) {
    const std::uint64_t piece_bytes = finding_.code.piece_bytes;
    std::vector<CodeLaps> lengths;
    for (std::uint64_t length = step; length <= pieces; length += step) {
      lengths.push_back({.bytes = length * piece_bytes, .cycles = {}});
    }
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t number : order) {
      CodeLaps& length = lengths[number];
      const AccessSequence lap = model::cold_pass(0, length.bytes, piece_bytes);
      const model::Question question{.target = device_.target(),
                                     .state = model::StartState::keep,
                                     .warm = model::repeated(lap, warm_laps_of_code),
                                     .record = model::repeated(lap, recorded_laps_of_code)};
      const std::vector<float> cycles = device_.latencies({&question, 1}).front();
      length.cycles.assign(cycles.begin(), cycles.end());
    }
    return lengths;
  }

  Asker device_;
  CodeFinding finding_;
  Leaves leaves_;
  model::Random random_;
};

}  // namespace

CodeFinding infer_code(model::Answerer& device, const std::string& target, const Settings& settings) {
  return CodeInference(device, target, settings).run();
}

}  // namespace gpuinfer::infer
