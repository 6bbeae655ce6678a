// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/outstanding.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "model/errors.hpp"

namespace gpuinfer::model {

namespace {

std::uint32_t quotient_rounded_up(std::uint32_t dividend, std::uint32_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

template <class Value>
const Value& needed(const std::optional<Value>& value, const std::string& leaf) {
  if (!value) {
    throw InputError("outstanding." + leaf + " is null and a simulation needs it; give it a value");
  }
  return *value;
}

std::uint32_t needed_number(const std::optional<std::uint32_t>& value, const std::string& leaf) {
  if (needed(value, leaf) == 0) {
    throw InputError("outstanding." + leaf + " is 0, with which no load ever ends; give it a value from 1 on");
  }
  return *value;
}

// One load of a warp with so many threads as requests to memory: the threads that each one serves.
std::vector<std::uint32_t> requests_of(std::uint32_t threads, std::uint32_t threads_per_line, std::uint32_t merges) {
  std::vector<std::uint32_t> requests;
  for (std::uint32_t first = 0; first < threads; first += threads_per_line) {
    const std::uint32_t of_line = std::min(threads_per_line, threads - first);
    for (std::uint32_t merged = 0; merged < of_line; merged += merges) {
      requests.push_back(std::min(merges, of_line - merged));
    }
  }
  return requests;
}

// First in, first out.
template <class Element>
class Queue {
 public:
  [[nodiscard]] bool empty() const { return first_ == elements_.size(); }
  [[nodiscard]] const Element& front() const { return elements_[first_]; }
  void push(const Element& element) { elements_.push_back(element); }
  Element pop() {
    const Element popped = elements_[first_++];
    if (first_ >= most_popped && 2 * first_ > elements_.size()) {
      elements_.erase(elements_.begin(), elements_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return popped;
  }

 private:
  static constexpr std::size_t most_popped = 256;  // that are kept

  std::vector<Element> elements_;
  std::size_t first_ = 0;
};

class Simulation {
 public:
  Simulation(const OutstandingDescription& outstanding, const ConcurrentLoads& loads)
      : timing_(needed(outstanding.timing, "timing")), kind_(needed(outstanding.kind, "kind")),
        loads_per_warp_(needed_number(outstanding.loads_per_warp, "loads_per_warp")),
        latency_(timing_.latency + (loads.from_l2 ? 0 : timing_.beyond_l2)), loads_(loads.loads_per_thread) {
    std::uint32_t merges = std::numeric_limits<std::uint32_t>::max();
    if (kind_ != OutstandingKind::no_limit_seen) {
      free_ = needed_number(outstanding.entries, "entries");
    }
    if (kind_ == OutstandingKind::mshr && (outstanding.merges || !outstanding.merges_at_least)) {
      merges = needed_number(outstanding.merges, "merges");
    }
    merges = std::min(merges, warp_lanes);
    whole_warp_ = requests_of(warp_lanes, loads.threads_per_line, merges);
    last_warp_ = requests_of((loads.threads - 1) % warp_lanes + 1, loads.threads_per_line, merges);
    warps_.resize(quotient_rounded_up(loads.threads, warp_lanes));
  }

  double run() {
    for (std::uint32_t warp = 0; warp < warps_.size(); ++warp) {
      ready_.push({.time = 0, .warp = warp});
    }
    // Both queues are in the order of time: what is put into them comes a fixed time later, or after what is there.
    while (!ready_.empty() || !outstanding_.empty()) {
      if (outstanding_.empty() || (!ready_.empty() && ready_.front().time < outstanding_.front().time)) {
        const Ready next = ready_.pop();
        issue(next.warp, next.time);
      } else {
        complete(outstanding_.pop());
      }
    }
    return registers_free_;
  }

 private:
  struct Warp {
    std::uint32_t load = 0;     // that is issued next
    std::uint32_t request = 0;  // of that load
    std::uint32_t outstanding_loads = 0;
    bool stopped = false;  // by the scoreboard
  };
  struct Ready {
    double time = 0;
    std::uint32_t warp = 0;
  };
  struct Outstanding {
    double time = 0;  // when it is written back
    std::uint32_t warp = 0;
    bool ends_load = false;
  };

  void issue(std::uint32_t number, double now) {
    Warp& warp = warps_[number];
    const std::vector<std::uint32_t>& requests = number + 1 == warps_.size() ? last_warp_ : whole_warp_;
    const bool starts_load = warp.request == 0;
    if (starts_load && warp.outstanding_loads == loads_per_warp_) {
      warp.stopped = true;
      return;
    }
    if (kind_ == OutstandingKind::mshr || (kind_ == OutstandingKind::prt && starts_load)) {
      if (free_ == 0) {
        waiting_.push(number);
        return;
      }
      --free_;
    }
    warp.outstanding_loads += starts_load ? 1 : 0;
    const double taken = std::max(now, memory_free_);
    memory_free_ = taken + timing_.memory_per_line;
    registers_free_ =
        std::max(taken + latency_, registers_free_) + timing_.write_back_per_request * requests[warp.request];
    const bool ends_load = ++warp.request == requests.size();
    outstanding_.push({.time = registers_free_, .warp = number, .ends_load = ends_load});
    if (ends_load) {
      warp.request = 0;
      ++warp.load;
    }
    if (warp.load < loads_) {
      ready_.push({.time = now + timing_.issue_per_request, .warp = number});
    }
  }

  void complete(const Outstanding& request) {
    Warp& warp = warps_[request.warp];
    if (request.ends_load) {
      --warp.outstanding_loads;
    }
    if (kind_ == OutstandingKind::mshr || (kind_ == OutstandingKind::prt && request.ends_load)) {
      ++free_;
      if (!waiting_.empty()) {
        issue(waiting_.pop(), request.time);
      }
    }
    if (request.ends_load && warp.stopped) {
      warp.stopped = false;
      issue(request.warp, request.time);
    }
  }

  OutstandingTiming timing_;
  OutstandingKind kind_;
  std::uint32_t loads_per_warp_;
  double latency_;
  std::uint32_t loads_;     // of each warp
  std::uint32_t free_ = 0;  // entries
  std::vector<std::uint32_t> whole_warp_;
  std::vector<std::uint32_t> last_warp_;
  std::vector<Warp> warps_;
  Queue<Ready> ready_;
  Queue<Outstanding> outstanding_;
  Queue<std::uint32_t> waiting_;  // warps, for an entry
  double memory_free_ = 0;
  double registers_free_ = 0;
};

}  // namespace

std::string_view to_string(OutstandingKind kind) {
  switch (kind) {
    case OutstandingKind::mshr:
      return "mshr";
    case OutstandingKind::prt:
      return "prt";
    case OutstandingKind::no_limit_seen:
      break;
  }
  return "no_limit_seen";
}

std::uint32_t mshr_entries_of(const ConcurrentLoads& loads, std::uint32_t merges) {
  const std::uint32_t lines = loads.threads / loads.threads_per_line;
  const std::uint32_t left_over = loads.threads % loads.threads_per_line;
  return loads.loads_per_thread *
         (lines * quotient_rounded_up(loads.threads_per_line, merges) + quotient_rounded_up(left_over, merges));
}

std::uint32_t prt_entries_of(const ConcurrentLoads& loads) {
  return loads.loads_per_thread * quotient_rounded_up(loads.threads, warp_lanes);
}

double cycles_of(const OutstandingDescription& outstanding, const ConcurrentLoads& loads) {
  return Simulation(outstanding, loads).run();
}

}  // namespace gpuinfer::model
