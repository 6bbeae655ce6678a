// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// Built by peers_test.py against a checkout of sys-sage. Prints, for each file of MT4G, a line for it and one for each
// cache and memory: file NAME STATUS; cache NAME SIZE LINE; memory NAME SIZE, all with `|` between them.
#include <iostream>

#include "parsers/mt4g.hpp"
#include "sys-sage.hpp"

namespace {

void print(sys_sage::Component& component) {
  if (auto* const cache = dynamic_cast<sys_sage::Cache*>(&component)) {
    std::cout << "cache|" << cache->GetCacheName() << '|' << cache->GetCacheSize() << '|' << cache->GetCacheLineSize()
              << '\n';
  } else if (auto* const memory = dynamic_cast<sys_sage::Memory*>(&component)) {
    std::cout << "memory|" << memory->GetName() << '|' << memory->GetSize() << '\n';
  }
  for (auto* const child : component.GetChildren()) {
    print(*child);
  }
}

}  // namespace

int main(int count, char** files) {
  for (int i = 1; i < count; ++i) {
    auto* const topology = new sys_sage::Topology();
    std::cout << "file|" << files[i] << '|' << sys_sage::ParseMt4g(topology, files[i], 0) << '\n';
    print(*topology);
  }
}
