// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cli/formats/format.hpp"

namespace gpuinfer::cli {

// A configuration of somebody else, as the texts of its files.
struct AccelsimBase {
  std::string gpgpusim_config;
  std::optional<std::string> trace_config;
  unsigned simulator = 1;  // Accel-Sim 1.x or 2.x
};

struct AccelsimConfiguration {
  Exported gpgpusim_config;
  std::optional<std::string> trace_config;
};

// gpgpusim.config and trace.config over a base: every line of it is there, as it was or with another value, and the
// reason beside it. Without a base: what is known.
[[nodiscard]] AccelsimConfiguration accelsim_configuration(const model::DeviceDescription& profile,
                                                           const std::optional<AccelsimBase>& base);

// Reads DIR/gpgpusim.config and, where it is there, DIR/trace.config. Throws InputError.
[[nodiscard]] AccelsimBase read_accelsim_base(const std::string& folder, unsigned simulator);

// Makes the folder where it is missing, and writes the files. Throws InputError and Error.
void write_accelsim(const AccelsimConfiguration& configuration, const std::string& folder);

}  // namespace gpuinfer::cli
