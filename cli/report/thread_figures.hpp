// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/report/figure.hpp"
#include "model/device_description.hpp"
#include "probe/archive.hpp"

// Figures of what many threads do at once: measured where a recording has it, simulated where the description suffices.
namespace gpuinfer::cli::report {

// Cycles of a load over its stride, and over the degree of its conflict (Mei & Chu 2014, figures 4 and 6).
[[nodiscard]] std::vector<Figure> shared_memory_figures(const model::SharedMemoryDescription& shared_memory,
                                                        const std::vector<probe::TimedWorkload>& timed);

// Cycles until all loads are done over the number of threads (Lashgar et al. 2015, figures 3 to 7).
[[nodiscard]] std::vector<Figure> outstanding_figures(const model::OutstandingDescription& outstanding,
                                                      const std::vector<probe::TimedWorkload>& timed);

// The best over the size of the dataset, and the peaks by the size of the elements. Where no recording tells the first,
// the evidence may.
[[nodiscard]] std::vector<Figure> bandwidth_figures(const model::BandwidthDescription& bandwidth,
                                                    const model::CacheEvidence& evidence,
                                                    const std::vector<probe::TimedWorkload>& timed);

// Shares of the peaks.
[[nodiscard]] std::vector<Figure> kernel_figures(const model::KernelResults& kernels);

// Cycles by pattern; of one that is null the evidence says whether there is none.
[[nodiscard]] std::vector<Figure> pattern_figures(const model::PatternLatencyCycles& cycles,
                                                  const model::CacheEvidence& evidence);

}  // namespace gpuinfer::cli::report
