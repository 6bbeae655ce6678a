// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/survey/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/exit_status.hpp"
#include "cli/survey/result.hpp"
#include "model/errors.hpp"
#include "model/json_text.hpp"

namespace gpuinfer::cli::survey {

namespace {

using nlohmann::json;

json parsed(const std::string& text) {
  json object = model::parse_json(text);
  if (!object.is_object()) {
    throw Error(
        "a rank of the survey sent a message that this version does not know; start the same version everywhere");
  }
  return object;
}

}  // namespace

std::string to_text(const Hello& hello) {
  json gpus = json::array();
  for (const OwnGpu& gpu : hello.gpus) {
    gpus.push_back({{"device", gpu.address}, {"id", gpu.id}});
  }
  return model::json_text(
      json{{"kind", "hello"}, {"host", hello.host}, {"gpus", std::move(gpus)}, {"cores", hello.cores}});
}

Hello parse_hello(const std::string& text) {
  const json object = parsed(text);
  Hello hello{.host = object.at("host"), .gpus = {}, .cores = object.at("cores")};
  for (const json& gpu : object.at("gpus")) {
    hello.gpus.push_back({.address = gpu.at("device"), .id = gpu.at("id")});
  }
  return hello;
}

std::string to_text(const Order& order) {
  json object{{"kind", "order"}, {"task", order.task}, {"device", order.device}};
  if (order.seed) {
    object["seed"] = *order.seed;
  }
  return model::json_text(object);
}

Order parse_order(const std::string& text) {
  const json object = parsed(text);
  Order order{.task = object.at("task"), .device = object.at("device")};
  if (object.contains("seed")) {
    order.seed = object.at("seed").get<std::uint64_t>();
  }
  return order;
}

std::string kind_of(const std::string& text) { return parsed(text).at("kind"); }

std::string letter_of_kind(const std::string& kind) { return model::json_text(json{{"kind", kind}}); }

Worker::Worker(const Request& request, Team& team) : request_(&request), team_(&team), host_(name_of_host()) {
  Hello hello{.host = host_, .gpus = {}, .cores = std::max(1U, std::thread::hardware_concurrency())};
  // To look for GPUs starts the driver, which nobody waits for who wants none.
  for (const DeviceKind& kind : device_kinds()) {
    if (kind.gpus != nullptr &&
        std::ranges::find(request.devices, &kind, &DeviceAddress::kind) != request.devices.end()) {
      std::ranges::move(kind.gpus(), std::back_inserter(hello.gpus));
    }
  }
  team_->send(0, to_text(hello));
}

void Worker::take(const std::string& letter) {
  heard_ = Clock::now();
  const std::string kind = kind_of(letter);
  if (kind == "order") {
    begin(parse_order(letter));
  } else if (kind == "stop" || kind == "wait for the end") {
    stop_ = kind == "stop" ? Stop::to_take_leave : Stop::to_wait_for_the_end;
    drop();
  }
}

void Worker::begin(const Order& order) {
  std::vector<std::string> arguments{"run", "--quiet", "--format=yaml", "--device=" + order.device};
  arguments.insert(arguments.end(), request_->arguments.begin(), request_->arguments.end());
  if (order.seed) {
    arguments.push_back("--seed=" + std::to_string(*order.seed));
  }
  try {
    asking_.push_back({.order = order,
                       .child = std::make_unique<Child>(arguments),
                       .begin = Clock::now(),
                       .told_to_end = std::nullopt});
  } catch (const DeviceUnavailable& error) {
    fail(order, error.what(), 0);
  }
}

void Worker::work() {
  const Clock::time_point now = Clock::now();
  for (auto asking = asking_.begin(); asking != asking_.end();) {
    asking->child->listen();
    const bool has_ended = asking->child->has_ended();
    if (has_ended && !asking->has_hung) {
      report(*asking, now);
    } else if (has_ended || is_given_up(*asking, now)) {
      fail(asking->order,
           fmt::format("gave no result in {} s and was ended; look at the device, or give more with --device-timeout",
                       request_->device_timeout.count()),
           std::chrono::duration<double>(now - asking->begin).count());
    } else {
      ++asking;
      continue;
    }
    asking = asking_.erase(asking);
  }
  constexpr std::chrono::seconds between_signs{1};
  if (team_->rank() != 0) {
    if (now - said_alive_ >= between_signs) {
      team_->send(0, letter_of_kind("alive"));
      said_alive_ = now;
    }
    if (now - heard_ > request_->rank_timeout) {
      is_alone_ = true;
      drop();
    }
  }
}

bool Worker::is_given_up(Asking& asking, Clock::time_point now) const {
  constexpr std::chrono::seconds grace{2};
  if (!asking.told_to_end && now - asking.begin > request_->device_timeout) {
    asking.child->signal(SIGTERM);
    asking.told_to_end = now;
    asking.has_hung = true;
  }
  return asking.told_to_end && now - *asking.told_to_end > grace;
}

void Worker::report(const Asking& asking, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - asking.begin).count();
  const auto status = asking.child->exit_status();
  const bool has_profile =
      status == static_cast<int>(ExitStatus::resolved) || status == static_cast<int>(ExitStatus::unresolved);
  if (!has_profile) {
    fail(asking.order, asking.child->how_it_ended(), seconds);
    return;
  }
  try {
    Result result = result_of(asking.child->output(), host_);
    result.task = asking.order.task;
    result.rank = team_->rank();
    result.seconds = seconds;
    team_->send(0, to_text(result));
  } catch (const Error& error) {
    fail(asking.order, std::string("wrote something that is not a profile: ") + error.what(), seconds);
  }
}

void Worker::fail(const Order& order, const std::string& why, double seconds) {
  Result result;
  result.task = order.task;
  result.rank = team_->rank();
  result.seconds = seconds;
  result.identity.host = host_;
  result.failure = why;
  team_->send(0, to_text(result));
}

void Worker::add_to(std::vector<pollfd>& files) const {
  for (const Asking& asking : asking_) {
    asking.child->add_to(files);
  }
}

}  // namespace gpuinfer::cli::survey
