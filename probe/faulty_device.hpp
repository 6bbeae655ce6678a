// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/answerer.hpp"
#include "model/random.hpp"

// What can go wrong with a device, on demand.
namespace gpuinfer::probe {

enum class FaultKind {
  lost,            // gone for good
  out_of_memory,   // for some tries
  kernel_timeout,  // for some tries
  ecc_error,       // an uncorrectable one, so gone for good
  clock_change,    // latencies are a quarter longer for some questions
  tenant,          // another one evicts lines between accesses, and latencies vary more, for some questions
  wrong_count,     // one latency too few, for some tries
  places,          // misses are served by places of the next level that change, for some questions
};

struct Fault {
  FaultKind kind = FaultKind::lost;
  std::uint64_t at_question = 0;  // so many have been answered before, workloads too
  std::uint64_t times = 1;        // tries or questions

  bool operator==(const Fault&) const = default;
};

// When which faults come. Faults of one kind that overlap are one.
class FaultSchedule {
 public:
  // "KIND@QUESTION", or "KIND@QUESTIONxTIMES", separated by commas; `random@SEED` or `random@SEEDxQUESTIONS` stands for
  // any of them, on average one in so many questions (2000). Left out, TIMES is 1 try, all further questions for
  // clock_change and places, and 500 questions for tenant. Throws InputError.
  explicit FaultSchedule(std::string_view text);

  // With all that begin before so many questions have been answered.
  [[nodiscard]] std::vector<Fault>& until(std::uint64_t questions);

  [[nodiscard]] std::uint64_t answered() const { return answered_; }
  void count(std::uint64_t questions) { answered_ += questions; }

 private:
  std::vector<Fault> faults_;
  std::uint64_t answered_ = 0;
  std::optional<model::Random> random_;
  std::uint64_t mean_gap_ = 0;
  std::uint64_t drawn_until_ = 0;
};

// `device` with these faults, each of which strikes a batch as a whole, before any of it is asked. Those that end a
// device last as long as the schedule does, also when another device has it by then.
[[nodiscard]] std::unique_ptr<model::Answerer> faulty(std::unique_ptr<model::Answerer> device,
                                                      std::shared_ptr<FaultSchedule> schedule);

}  // namespace gpuinfer::probe
