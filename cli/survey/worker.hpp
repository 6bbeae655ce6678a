// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/devices/kind.hpp"
#include "cli/survey/child.hpp"
#include "cli/survey/request.hpp"
#include "cli/survey/team.hpp"

namespace gpuinfer::cli::survey {

// What a rank tells the coordinator, rank 0, when it begins, and what it is told to do. JSON.
struct Hello {
  std::string host;
  std::vector<OwnGpu> gpus;
  std::size_t cores = 1;
};
[[nodiscard]] std::string to_text(const Hello& hello);
[[nodiscard]] Hello parse_hello(const std::string& text);

struct Order {
  std::size_t task = 0;
  std::string device;
  std::optional<std::uint64_t> seed = {};
};
[[nodiscard]] std::string to_text(const Order& order);
[[nodiscard]] Order parse_order(const std::string& text);

// "hello", "order", "result", "alive", "stop", or "wait for the end" where a rank was lost; the last three say nothing
// else.
[[nodiscard]] std::string kind_of(const std::string& text);
[[nodiscard]] std::string letter_of_kind(const std::string& kind);

// Asks devices, each by a process of its own, so that one that hangs or crashes is no harm to others.
class Worker {
 public:
  // Both outlive it. Says hello.
  Worker(const Request& request, Team& team);

  void take(const std::string& letter);
  // Sends what has come, ends what takes too long, and says from time to time that it is alive.
  void work();
  void add_to(std::vector<pollfd>& files) const;

  // Ends what it has begun, and tells nobody.
  void drop() { asking_.clear(); }

  // What it was told; begun: nothing yet.
  enum class Stop { begun, to_take_leave, to_wait_for_the_end };
  [[nodiscard]] Stop stop() const { return stop_; }
  // The coordinator says nothing any more.
  [[nodiscard]] bool is_alone() const { return is_alone_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Asking {
    Order order;
    std::unique_ptr<Child> child;
    Clock::time_point begin;
    std::optional<Clock::time_point> told_to_end;  // by SIGTERM
    bool has_hung = false;
  };

  void begin(const Order& order);
  void report(const Asking& asking, Clock::time_point now);
  void fail(const Order& order, const std::string& why, double seconds);
  // True when it takes too long and was ended.
  [[nodiscard]] bool is_given_up(Asking& asking, Clock::time_point now) const;

  const Request* request_;
  Team* team_;
  std::string host_;
  std::list<Asking> asking_;
  Clock::time_point said_alive_ = Clock::now();
  Clock::time_point heard_ = Clock::now();
  Stop stop_ = Stop::begun;
  bool is_alone_ = false;
};

}  // namespace gpuinfer::cli::survey
