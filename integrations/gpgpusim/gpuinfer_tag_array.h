// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// A cache of a profile where tag_array of GPGPU-Sim keeps its sets: adapter.py copies this file into a checkout and
// lets gpu-cache.h include it before cache_config. The profile decides which sectors are present, where a line goes and
// which line leaves; pending, valid and dirty stay the states of GPGPU-Sim's own lines, one for each way of the
// profile's sets. C++11, as GPGPU-Sim. libgpuinfer.so.1 is loaded when a configuration names a profile.
#ifndef GPUINFER_TAG_ARRAY_H
#define GPUINFER_TAG_ARRAY_H

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gpuinfer.h"

namespace gpuinfer_adapter {

[[noreturn]] inline void stop(const std::string& why) {
  fprintf(stderr, "gpuinfer: %s\n", why.c_str());
  exit(1);
}

// The functions of gpuinfer.h that are called here.
class Library {
 public:
  static const Library& get() {
    static const Library library;
    return library;
  }

  decltype(&gpuinfer_cache_open) open;
  decltype(&gpuinfer_cache_open_like) open_like;
  decltype(&gpuinfer_cache_close) close;
  decltype(&gpuinfer_cache_geometry) geometry;
  decltype(&gpuinfer_cache_probe) probe;
  decltype(&gpuinfer_cache_access) access;
  decltype(&gpuinfer_cache_invalidate) invalidate;
  decltype(&gpuinfer_error_text) error_text;

 private:
  Library() : handle_(dlopen("libgpuinfer.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == NULL) {
      stop(std::string(dlerror()) + "; install libgpuinfer or name its folder in LD_LIBRARY_PATH");
    }
    find("gpuinfer_cache_open", open);
    find("gpuinfer_cache_open_like", open_like);
    find("gpuinfer_cache_close", close);
    find("gpuinfer_cache_geometry", geometry);
    find("gpuinfer_cache_probe", probe);
    find("gpuinfer_cache_access", access);
    find("gpuinfer_cache_invalidate", invalidate);
    find("gpuinfer_error_text", error_text);
  }

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == NULL) {
      stop(std::string("libgpuinfer.so.1 has no ") + name + "; install one of this version or later");
    }
  }

  void* handle_;
};

// What shared memory leaves to an L1; not set: what the profile has for the size at which it was found.
struct Carveout {
  Carveout() : is_set(false), kb(0) {}
  bool operator!=(const Carveout& other) const { return is_set != other.is_set || kb != other.kb; }

  bool is_set;
  uint32_t kb;
};

class Cache {
 public:
  Cache(const std::string& profile, const std::string& target) {
    gpuinfer_error* error = NULL;
    gpuinfer_cache* const opened = Library::get().open(profile.c_str(), target.c_str(), &error);
    take(opened, error);
    geometry.size = sizeof geometry;
    Library::get().geometry(handle_, &geometry);
  }
  // Another one, empty.
  explicit Cache(const Cache& other) : geometry(other.geometry) { open_like(other, NULL); }
  ~Cache() { Library::get().close(handle_); }

  // As new, with what this carve-out leaves.
  void reopen(const Carveout& carveout) {
    gpuinfer_cache* const old = handle_;
    open_like(*this, carveout.is_set ? &carveout.kb : NULL);
    Library::get().close(old);
  }

  gpuinfer_access_result probe(uint64_t address) const {
    gpuinfer_access_result result = gpuinfer_access_result();
    gpuinfer_error* error = NULL;
    result.size = sizeof result;
    if (Library::get().probe(handle_, address, &result, &error) != GPUINFER_OK) {
      stop(Library::get().error_text(error));
    }
    return result;
  }

  gpuinfer_access_result access(uint64_t address, gpuinfer_access_kind kind) {
    gpuinfer_access_result result = gpuinfer_access_result();
    gpuinfer_error* error = NULL;
    result.size = sizeof result;
    if (Library::get().access(handle_, address, kind, &result, &error) != GPUINFER_OK) {
      stop(Library::get().error_text(error));
    }
    return result;
  }

  void invalidate() { Library::get().invalidate(handle_, 0, NULL); }

  unsigned lines() const { return geometry.sets * geometry.most_ways; }
  unsigned line_of(const gpuinfer_access_result& result) const {
    return result.set * geometry.most_ways + static_cast<unsigned>(result.way);
  }

  gpuinfer_geometry geometry;

 private:
  Cache& operator=(const Cache&);

  void open_like(const Cache& other, const uint32_t* carveout_kb) {
    gpuinfer_error* error = NULL;
    gpuinfer_cache* const opened = Library::get().open_like(other.handle_, carveout_kb, 1, &error);
    take(opened, error);
  }

  void take(gpuinfer_cache* opened, gpuinfer_error* error) {
    if (opened == NULL) {
      stop(Library::get().error_text(error));
    }
    handle_ = opened;
  }

  gpuinfer_cache* handle_;
};

class TagArray;

// `gpuinfer:PROFILE:TARGET,` or `gpuinfer:PROFILE:TARGET@CARVEOUT_KB,` before the configuration of a cache.
class Configuration {
 public:
  // What is left of a configuration. It sets the state of the cache where it begins with the words above.
  char* take_from(char* configuration) {
    static const char prefix[] = "gpuinfer:";
    if (strncmp(configuration, prefix, sizeof prefix - 1) != 0) {
      return configuration;
    }
    char* const comma = strchr(configuration, ',');
    const std::string text = comma == NULL ? "" : std::string(configuration + sizeof prefix - 1, comma);
    const std::string::size_type colon = text.rfind(':');
    if (colon == std::string::npos) {
      stop(std::string(configuration) + ": write gpuinfer:PROFILE:TARGET, before the configuration of the cache");
    }
    profile_ = text.substr(0, colon);
    target_ = text.substr(colon + 1);
    const std::string::size_type at = target_.find('@');
    if (at != std::string::npos) {
      set_carveout(static_cast<unsigned>(strtoul(target_.c_str() + at + 1, NULL, 10)));
      target_.resize(at);
    }
    cache_.reset(new Cache(profile_, target_));
    return comma + 1;
  }

  explicit operator bool() const { return cache_ != NULL; }

  unsigned lines() const { return cache_->lines(); }

  void set_carveout(unsigned kb) {
    carveout_.is_set = true;
    carveout_.kb = kb;
  }
  const Carveout& carveout() const { return carveout_; }

  // Of a core, or, where `core` is negative, of a slice of the L2, all of which have one cache in common. NULL without
  // a profile. `line_bytes`, `sector_bytes`: of the configuration. It has to allocate on misses.
  std::shared_ptr<TagArray> tag_array(int core, unsigned line_bytes, unsigned sector_bytes,
                                      bool allocates_on_miss) const;

 private:
  std::string profile_;
  std::string target_;
  Carveout carveout_;
  std::shared_ptr<Cache> cache_;  // that of the L2; of other caches its form alone is asked for
};

class TagArray {
 public:
  // `joins`: a load of a warp looks a line up once for all sectors that its lanes ask for, as the L1 of an SM does. The
  // simulator asks for them one after the other.
  TagArray(const Configuration& configuration, const std::shared_ptr<Cache>& cache, bool joins)
      : configuration_(configuration), cache_(cache), joins_(joins), joined_(cache->lines()) {}

  // As tag_array::probe. `line` is set where the line is present.
  cache_request_status probe(new_addr_type address, const mem_access_sector_mask_t& sectors, bool is_write,
                             cache_block_t* const* lines, unsigned& line) const {
    if (configuration_.carveout() != opened_with_) {
      return MISS;
    }
    const gpuinfer_access_result found = cache_->probe(first_byte(address, sectors));
    if (found.outcome == GPUINFER_LINE_MISS) {
      return MISS;
    }
    line = cache_->line_of(found);
    cache_block_t& block = *lines[line];
    if (found.outcome == GPUINFER_SECTOR_MISS && !is_joined(block, line, address, sectors)) {
      return SECTOR_MISS;
    }
    const cache_block_state state = block.m_block_addr == address ? block.get_status(sectors) : VALID;
    if (state == RESERVED) {
      return HIT_RESERVED;
    }
    return state == MODIFIED && !is_write && !block.is_readable(sectors) ? SECTOR_MISS : HIT;
  }

  // What tag_array::access does to the profile's cache, after a probe that gave `status`. `instruction`: of a warp, as
  // the simulator numbers them; 0 for none. `line` is where the line lies; tag_array sets the state of what lies there.
  void access(new_addr_type address, const mem_access_sector_mask_t& sectors, bool is_write, unsigned instruction,
              unsigned time, cache_request_status status, cache_block_t* const* lines, unsigned& line) {
    if (configuration_.carveout() != opened_with_) {
      opened_with_ = configuration_.carveout();
      cache_->reopen(opened_with_);
    }
    if (joins_ && looks_up_again(address, is_write ? 0 : instruction) && status != MISS) {
      if (status == SECTOR_MISS) {
        joined_[line].sectors |= sectors;
      }
      return;
    }
    const bool is_known_store = is_write && cache_->geometry.knows_stores != 0;
    const bool leaves_it = is_write && !is_known_store && status != MISS && status != SECTOR_MISS;
    if (!leaves_it) {
      const bool was_joined = !is_write && status != MISS && is_joined(*lines[line], line, address, sectors);
      const gpuinfer_access_result result =
          cache_->access(was_joined ? joined_[line].first_byte : first_byte(address, sectors),
                         is_known_store ? GPUINFER_STORE : GPUINFER_LOAD);
      if (result.way >= 0) {
        line = cache_->line_of(result);
      } else if (status == MISS) {
        stop("stores bring no lines in the profile, and do in the configuration; write N for what they do on a miss");
      }
    }
    cache_block_t& block = *lines[line];
    const bool was_prefetched = status != MISS && block.m_block_addr != address;  // by the profile
    if (status == MISS || was_prefetched) {
      joined_[line] = Joined(first_byte(address, sectors));
    }
    if (was_prefetched) {
      block.allocate(address, address, time, sectors);
      block.set_status(VALID, sectors);
    }
  }

  // Where the line lies that data come for: it may have left since it was asked for, and come back to another place.
  // False where it is gone.
  bool find(new_addr_type address, const mem_access_sector_mask_t& sectors, cache_block_t* const* lines,
            unsigned& line) const {
    const gpuinfer_access_result found = cache_->probe(first_byte(address, sectors));
    if (found.outcome == GPUINFER_LINE_MISS) {
      return false;
    }
    line = cache_->line_of(found);
    return lines[line]->m_block_addr == address;
  }

  void invalidate() { cache_->invalidate(); }

 private:
  // Sectors of a line that the profile's cache was not told of, and one of which it was.
  struct Joined {
    explicit Joined(uint64_t first = 0) : first_byte(first) {}

    mem_access_sector_mask_t sectors;
    uint64_t first_byte;
  };

  // Whether the access before this one was of the same instruction to the same line.
  bool looks_up_again(new_addr_type address, unsigned instruction) {
    const bool again = instruction != 0 && instruction == instruction_ && address == address_;
    instruction_ = instruction;
    address_ = address;
    return again;
  }

  bool is_joined(const cache_block_t& block, unsigned line, new_addr_type address,
                 const mem_access_sector_mask_t& sectors) const {
    return block.m_block_addr == address && (joined_[line].sectors & sectors).any();
  }

  // `address`: of a line.
  uint64_t first_byte(new_addr_type address, const mem_access_sector_mask_t& sectors) const {
    const bool is_sectored = cache_->geometry.sector_bytes < cache_->geometry.line_bytes;
    unsigned sector = 0;
    while (is_sectored && sector + 1 < SECTOR_CHUNCK_SIZE && !sectors.test(sector)) {
      ++sector;
    }
    return address + sector * SECTOR_SIZE;
  }

  const Configuration& configuration_;
  Carveout opened_with_;
  std::shared_ptr<Cache> cache_;
  bool joins_;
  std::vector<Joined> joined_;  // by line
  unsigned instruction_ = 0;
  new_addr_type address_ = 0;
};

inline std::shared_ptr<TagArray> Configuration::tag_array(int core, unsigned line_bytes, unsigned sector_bytes,
                                                          bool allocates_on_miss) const {
  if (cache_ == NULL) {
    return std::shared_ptr<TagArray>();
  }
  const gpuinfer_geometry& geometry = cache_->geometry;
  if (geometry.line_bytes != line_bytes || geometry.sector_bytes != sector_bytes) {
    stop(profile_ + ": " + target_ + " has lines of " + std::to_string(geometry.line_bytes) + " B in sectors of " +
         std::to_string(geometry.sector_bytes) + " B, the configuration lines of " + std::to_string(line_bytes) +
         " B in sectors of " + std::to_string(sector_bytes) + " B; write the profile's into the configuration");
  }
  if (!allocates_on_miss) {
    stop(profile_ + ": " + target_ +
         ": a cache of a profile allocates on misses; write m for when lines are allocated");
  }
  const bool is_shared = core < 0;
  return std::make_shared<TagArray>(*this, is_shared ? cache_ : std::make_shared<Cache>(*cache_), !is_shared);
}

}  // namespace gpuinfer_adapter

#endif
