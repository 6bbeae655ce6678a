// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "gpu-cache.h"

void divide(cache_config &m_L1D_config, const std::vector<unsigned> &options, unsigned shared) {
  const unsigned max_assoc = m_L1D_config.get_max_assoc();
  for (std::vector<unsigned>::const_iterator it = options.begin(); it < options.end(); it++) {
    if (shared <= *it) {
      const float l1_ratio = 1 - ((float)*it / (256 * 1024));
      {
        m_L1D_config.set_assoc(max_assoc * l1_ratio + 0.5f);
      }
      return;
    }
  }
}
