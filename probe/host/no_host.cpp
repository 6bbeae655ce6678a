// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/errors.hpp"
#include "probe/host.hpp"

namespace gpuinfer::probe {

std::optional<std::string> host_name() { return std::nullopt; }

std::vector<std::string> host_targets() { return {}; }

std::unique_ptr<model::Answerer> open_host(const HostOptions& /*options*/) {
  throw DeviceUnavailable("host: only x86-64 CPUs can be asked, and this is none; name another device");
}

}  // namespace gpuinfer::probe
