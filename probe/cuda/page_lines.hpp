// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/random_streams.hpp"
#include "probe/cuda/gpu.hpp"

namespace gpuinfer::probe::cuda {

struct TimedLine {
  std::uint64_t offset = 0;
  float cycles = 0;  // of a load that finds the line in L2 and its translation near
};

// How the time of a translation is told from that of the load behind it, which differs from line to line by more. Lines
// of each page are chosen that take about the same time on one SM when L2 has them and the first TLB their page. An
// offset in a question stands for its page.
class PageLines {
 public:
  // Smaller than any page that a GPU maps large buffers with.
  static constexpr std::uint64_t page_bytes = 2ULL << 20U;

  // What the translations that are told apart differ by. A few cycles: lines are chosen by long trials, and each access
  // goes to any of those chosen, so that what is left of their differences is noise, which repeating a question
  // averages out. Many cycles, of very many pages: lines are chosen by a short trial, and each access goes to the same
  // line of its page, so that L2 holds them all.
  enum class Difference { few_cycles, many_cycles };

  // `reach` begins with a page.
  PageLines(Gpu& gpu, std::uint32_t sm, Reach reach, const model::RandomStreams& streams, Difference difference)
      : gpu_(&gpu), sm_(sm), reach_(reach), difference_(difference), streams_(streams),
        random_(streams.random("any line of a page")) {}

  // The question that is played for this one. Pages that come up for the first time are looked into before. None when
  // no block got to the SM alone.
  [[nodiscard]] std::optional<model::Question> in_lines(const model::Question& question);

 private:
  [[nodiscard]] bool choose_lines(const std::vector<std::uint64_t>& pages);
  // Those of each page in an order of its own. None when no block got to the SM alone.
  [[nodiscard]] std::optional<std::vector<std::vector<TimedLine>>> timed(
      std::vector<model::AccessSequence> lines_of_pages, std::size_t loads);

  Gpu* gpu_;
  std::uint32_t sm_;
  Reach reach_;
  Difference difference_;
  std::optional<float> common_cycles_;  // what the lines chosen first take
  std::unordered_map<std::uint64_t, model::AccessSequence> lines_of_page_;
  model::RandomStreams streams_;
  model::Random random_;
};

}  // namespace gpuinfer::probe::cuda
