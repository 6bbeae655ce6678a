// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/survey/merge.hpp"
#include "cli/survey/parts.hpp"
#include "cli/survey/request.hpp"
#include "cli/survey/team.hpp"
#include "cli/survey/worker.hpp"

namespace gpuinfer::cli::survey {

// Hands out the devices of a fleet to the ranks, takes in the results, and notices ranks that are lost.
class Coordinator {
 public:
  // All outlive it. `tell`: what goes wrong, a sentence each.
  Coordinator(const Request& request, Team& team, Parts& parts, std::function<void(const std::string&)> tell);

  void take(const Letter& letter);
  // Hands out what can be, and looks at the clock. Throws DeviceUnavailable when there is not a device at all.
  void work();
  // Nothing more is handed out.
  void interrupt();
  [[nodiscard]] bool is_done() const;
  // Tells all ranks that are left. `all_are_there`: they can take leave of one another.
  void stop(bool all_are_there);

  [[nodiscard]] const std::vector<Task>& tasks() const { return tasks_; }
  [[nodiscard]] Merge& merge() { return merge_; }
  // By task; what has neither a result nor a reason was not asked.
  [[nodiscard]] const std::map<std::size_t, std::string>& failures() const { return failures_; }
  // By rank: why it is gone.
  [[nodiscard]] const std::map<int, std::string>& lost_ranks() const { return lost_ranks_; }
  [[nodiscard]] std::size_t answered() const { return answered_; }
  [[nodiscard]] std::size_t hosts() const;
  [[nodiscard]] std::size_t resumed() const { return resumed_; }
  [[nodiscard]] std::size_t received_bytes() const { return received_bytes_; }
  [[nodiscard]] std::size_t sent_bytes() const { return sent_bytes_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Rank {
    std::optional<Hello> hello;
    std::set<std::size_t> under_way;  // tasks
    Clock::time_point heard;
  };

  void send(int rank, const std::string& text);
  void accept(const Result& result);
  void settle_failure(std::size_t task, const std::string& why);
  void list_tasks();
  void add_tasks_of_hosts(std::size_t named, const DeviceAddress& device);
  void take_up_parts();
  void look_for_lost_ranks();
  void hand_out();
  // A task for the rank of this number; takes it out of the queue.
  [[nodiscard]] std::optional<Order> next_for(int number);
  [[nodiscard]] std::size_t room_for_processors(const Rank& rank) const;
  void give_up_unreachable();
  [[nodiscard]] std::string name_of(int rank) const;

  const Request* request_;
  Team* team_;
  Parts* parts_;
  std::function<void(const std::string&)> tell_;
  std::vector<Rank> ranks_;
  std::map<int, std::string> lost_ranks_;
  bool is_listed_ = false;
  std::vector<Task> tasks_;
  std::deque<std::size_t> anywhere_;                         // tasks that wait
  std::map<std::string, std::deque<std::size_t>> on_hosts_;  // those that one host alone can do
  std::size_t settled_ = 0;                                  // tasks with a result or a failure
  std::size_t answered_ = 0;
  std::size_t resumed_ = 0;
  std::map<std::size_t, std::string> failures_;
  Merge merge_;
  Clock::time_point said_alive_ = Clock::now();
  bool is_interrupted_ = false;
  std::size_t received_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace gpuinfer::cli::survey
