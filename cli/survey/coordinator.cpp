// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/description_yaml.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli::survey {

namespace {

// The rest of a key that a file can be named by.
std::string as_file_name(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return std::string_view("/\\ :").find(c) != std::string_view::npos; }, '_');
  return text;
}

}  // namespace

Coordinator::Coordinator(const Request& request, Team& team, Parts& parts, std::function<void(const std::string&)> tell)
    : request_(&request), team_(&team), parts_(&parts), tell_(std::move(tell)),
      ranks_(static_cast<std::size_t>(team.size())) {
  for (Rank& rank : ranks_) {
    rank.heard = Clock::now();
  }
}

std::string Coordinator::name_of(int rank) const {
  const auto& hello = ranks_[static_cast<std::size_t>(rank)].hello;
  return fmt::format("rank {}{}", rank, hello ? " on " + hello->host : "");
}

void Coordinator::send(int rank, const std::string& text) {
  if (rank != team_->rank()) {
    sent_bytes_ += text.size();
  }
  team_->send(rank, text);
}

void Coordinator::take(const Letter& letter) {
  if (letter.from != team_->rank()) {
    received_bytes_ += letter.text.size();
  }
  Rank& rank = ranks_[static_cast<std::size_t>(letter.from)];
  rank.heard = Clock::now();
  if (lost_ranks_.contains(letter.from)) {
    return;  // it was only slow, and what it had has been given up
  }
  const std::string kind = kind_of(letter.text);
  if (kind == "hello") {
    rank.hello = parse_hello(letter.text);
  } else if (kind == "result") {
    const Result result = parse_result(letter.text, name_of(letter.from));
    if (rank.under_way.erase(result.task) > 0) {
      accept(result);
    }
  }
}

void Coordinator::accept(const Result& result) {
  const Task& task = tasks_[result.task];
  if (result.failure) {
    settle_failure(result.task, *result.failure + " (" + name_of(result.rank) + ")");
    return;
  }
  parts_->keep(task, result);
  merge_.add(result.summary, [&] { return model::parse_description(result.profile, task.device); });
  ++answered_;
  ++settled_;
}

void Coordinator::settle_failure(std::size_t task, const std::string& why) {
  failures_[task] = why;
  ++settled_;
  tell_(tasks_[task].device + " " + why);
}

void Coordinator::work() {
  look_for_lost_ranks();
  if (!is_listed_) {
    const bool all_said_hello = std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.hello || lost_ranks_.contains(static_cast<int>(&rank - ranks_.data()));
    });
    if (!all_said_hello) {
      return;
    }
    list_tasks();
    take_up_parts();
    is_listed_ = true;
  }
  if (!is_interrupted_) {
    hand_out();
    give_up_unreachable();
  }
  constexpr std::chrono::seconds between_signs{1};
  if (Clock::now() - said_alive_ >= between_signs) {
    said_alive_ = Clock::now();
    for (int rank = 1; rank < team_->size(); ++rank) {
      if (!lost_ranks_.contains(rank)) {
        send(rank, letter_of_kind("alive"));
      }
    }
  }
}

void Coordinator::look_for_lost_ranks() {
  const Clock::time_point now = Clock::now();
  for (int number = 1; number < team_->size(); ++number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (lost_ranks_.contains(number) || now - rank.heard <= request_->rank_timeout) {
      continue;
    }
    const std::string why = fmt::format("said nothing for {} s (--rank-timeout)", request_->rank_timeout.count());
    lost_ranks_[number] = name_of(number) + " " + why;
    tell_(lost_ranks_[number]);
    // Whether it still asks them is not known, so nobody else may.
    for (const std::size_t task : std::exchange(rank.under_way, {})) {
      settle_failure(task, "was asked by " + name_of(number) + ", which " + why);
    }
  }
}

void Coordinator::list_tasks() {
  for (std::size_t named = 0; named < request_->devices.size(); ++named) {
    const DeviceAddress& device = request_->devices[named];
    if (device.kind->is_of_a_host) {
      add_tasks_of_hosts(named, device);
      continue;
    }
    Task task{.key = fmt::format("{:06}", named), .device = to_text(device)};
    if (device.kind->is_seeded) {
      task.seed = request_->seed.value_or(1) + named;
    } else {
      task.seed = request_->seed;
    }
    tasks_.push_back(std::move(task));
  }
  if (tasks_.empty()) {
    throw DeviceUnavailable("survey: no host has a GPU; name others with --device, such as virtual:gtx780");
  }
}

// On each host the GPUs under the addresses that the ranks there know them by. Each GPU once, also where two names
// stand for one host.
void Coordinator::add_tasks_of_hosts(std::size_t named, const DeviceAddress& device) {
  const std::string named_device = to_text(device);
  const bool stands_for_all = device.kind->gpus != nullptr && device.rest == every_gpu;
  std::set<std::string> seen;
  const auto identity_of = [](const std::string& host, const std::string& name,
                              const std::optional<std::string>& uuid) { return uuid.value_or(host + " " + name); };
  for (const Task& task : tasks_) {
    if (task.host) {
      seen.insert(identity_of(*task.host, task.device, task.uuid));
    }
  }
  const auto add = [&](const std::string& host, const std::string& name, const std::optional<std::string>& uuid) {
    if (seen.insert(identity_of(host, name, uuid)).second) {
      tasks_.push_back({.key = as_file_name(fmt::format("{:06}-{}-{}", named, host, uuid.value_or(name))),
                        .device = name,
                        .host = host,
                        .uuid = uuid,
                        .seed = request_->seed});
    }
  };
  std::set<std::string> hosts;
  for (const Rank& rank : ranks_) {
    if (!rank.hello) {
      continue;
    }
    const bool is_first_of_host = hosts.insert(rank.hello->host).second;
    bool is_known = false;
    for (const OwnGpu& gpu : rank.hello->gpus) {
      // Where each rank of a host is given a GPU of its own, all know theirs as cuda:0.
      if (stands_for_all ? parse_device(gpu.address).kind == device.kind
                         : gpu.address == named_device && is_first_of_host) {
        add(rank.hello->host, gpu.address, gpu.id);
        is_known = true;
      }
    }
    if (!is_known && is_first_of_host && !stands_for_all) {
      add(rank.hello->host, named_device, std::nullopt);
    }
  }
}

// What an earlier survey found out is not asked again.
void Coordinator::take_up_parts() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (const auto part = parts_->find(tasks_[i])) {
      merge_.add(part->summary, [&] { return model::parse_description(part->profile, tasks_[i].device); });
      ++resumed_;
      ++answered_;
      ++settled_;
    } else if (tasks_[i].host) {
      on_hosts_[*tasks_[i].host].push_back(i);
    } else {
      anywhere_.push_back(i);
    }
  }
}

// A GPU takes hardly any of the cores' time, unlike everything else.
std::size_t Coordinator::room_for_processors(const Rank& rank) const {
  const auto on_same_host = static_cast<std::size_t>(std::ranges::count_if(
      ranks_, [&](const Rank& other) { return other.hello && other.hello->host == rank.hello->host; }));
  const std::size_t own_cores = rank.hello->cores / on_same_host;  // NOLINT(*.DivideZero): itself is there
  const std::size_t most = request_->jobs.value_or(std::max<std::size_t>(1, own_cores));
  const auto used = static_cast<std::size_t>(
      std::ranges::count_if(rank.under_way, [&](std::size_t task) { return request_->jobs || !tasks_[task].uuid; }));
  return most - std::min(most, used);
}

std::optional<Order> Coordinator::next_for(int number) {
  const Rank& rank = ranks_[static_cast<std::size_t>(number)];
  const std::size_t room = room_for_processors(rank);
  std::deque<std::size_t>& here = on_hosts_[rank.hello->host];
  for (auto waiting = here.begin(); waiting != here.end(); ++waiting) {
    const Task& task = tasks_[*waiting];
    std::optional<std::string> device = task.uuid ? std::nullopt : std::optional(task.device);
    for (const OwnGpu& gpu : rank.hello->gpus) {
      if (gpu.id == task.uuid) {
        device = gpu.address;
      }
    }
    if (device && (room > 0 || (task.uuid && !request_->jobs))) {
      Order order{.task = *waiting, .device = *device, .seed = task.seed};
      here.erase(waiting);
      return order;
    }
  }
  if (room == 0 || anywhere_.empty()) {
    return std::nullopt;
  }
  const std::size_t task = anywhere_.front();
  anywhere_.pop_front();
  return Order{.task = task, .device = tasks_[task].device, .seed = tasks_[task].seed};
}

// To each rank one at a time, so that all of them have some.
void Coordinator::hand_out() {
  bool any = true;
  while (any) {
    any = false;
    for (int number = 0; number < team_->size(); ++number) {
      Rank& rank = ranks_[static_cast<std::size_t>(number)];
      if (!rank.hello || lost_ranks_.contains(number)) {
        continue;
      }
      if (const auto order = next_for(number)) {
        rank.under_way.insert(order->task);
        send(number, to_text(*order));
        any = true;
      }
    }
  }
}

void Coordinator::give_up_unreachable() {
  for (auto& on_host : on_hosts_) {
    const std::string& host = on_host.first;
    std::erase_if(on_host.second, [&](std::size_t task) {
      const bool is_reachable = std::ranges::any_of(ranks_, [&](const Rank& rank) {
        const bool is_there =
            rank.hello && rank.hello->host == host && !lost_ranks_.contains(static_cast<int>(&rank - ranks_.data()));
        return is_there && (!tasks_[task].uuid || std::ranges::find(rank.hello->gpus, *tasks_[task].uuid,
                                                                    &OwnGpu::id) != rank.hello->gpus.end());
      });
      if (!is_reachable) {
        settle_failure(task, "was not asked, as no rank is left on " + host + " that reaches it");
      }
      return !is_reachable;
    });
  }
}

void Coordinator::interrupt() { is_interrupted_ = true; }

bool Coordinator::is_done() const { return is_interrupted_ || (is_listed_ && settled_ == tasks_.size()); }

void Coordinator::stop(bool all_are_there) {
  for (int rank = 0; rank < team_->size(); ++rank) {
    if (!lost_ranks_.contains(rank)) {
      send(rank, letter_of_kind(all_are_there ? "stop" : "wait for the end"));
    }
  }
}

std::size_t Coordinator::hosts() const {
  std::set<std::string> names;
  for (const Rank& rank : ranks_) {
    if (rank.hello) {
      names.insert(rank.hello->host);
    }
  }
  return names.size();
}

}  // namespace gpuinfer::cli::survey
