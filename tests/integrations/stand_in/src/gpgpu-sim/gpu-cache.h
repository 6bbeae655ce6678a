// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// What adapter.py needs of GPGPU-Sim's header of this name, and no more: one LRU set of sectored lines.
#pragma once

#include <bitset>
#include <cassert>
#include <cstdio>
#include <vector>

typedef unsigned long long new_addr_type;
const unsigned SECTOR_CHUNCK_SIZE = 4;
const unsigned SECTOR_SIZE = 32;
typedef std::bitset<SECTOR_CHUNCK_SIZE> mem_access_sector_mask_t;

enum cache_request_status { HIT, HIT_RESERVED, MISS, RESERVATION_FAIL, SECTOR_MISS };
enum cache_block_state { INVALID, RESERVED, VALID, MODIFIED };
enum allocation_policy_t { ON_MISS, ON_FILL };

struct cache_block_t {
  cache_block_t() : m_tag(0), m_block_addr(0), m_time(0) { invalidate(); }

  void invalidate() {
    for (unsigned i = 0; i < SECTOR_CHUNCK_SIZE; i++) m_status[i] = INVALID;
  }
  void allocate(new_addr_type tag, new_addr_type block_addr, unsigned time, mem_access_sector_mask_t sectors) {
    invalidate();
    m_tag = tag;
    m_block_addr = block_addr;
    m_time = time;
    set_status(RESERVED, sectors);
  }
  void set_status(cache_block_state status, mem_access_sector_mask_t sectors) {
    for (unsigned i = 0; i < SECTOR_CHUNCK_SIZE; i++) m_status[i] = sectors.test(i) ? status : m_status[i];
  }
  cache_block_state get_status(mem_access_sector_mask_t sectors) const {
    unsigned sector = 0;
    while (!sectors.test(sector)) ++sector;
    return m_status[sector];
  }
  bool is_readable(mem_access_sector_mask_t) const { return true; }
  bool is_modified_line() const {
    for (unsigned i = 0; i < SECTOR_CHUNCK_SIZE; i++)
      if (m_status[i] == MODIFIED) return true;
    return false;
  }

  new_addr_type m_tag;
  new_addr_type m_block_addr;
  unsigned m_time;
  cache_block_state m_status[SECTOR_CHUNCK_SIZE];
};

struct warp_inst_t {
  unsigned get_uid() const { return m_uid; }

  unsigned m_uid;
};

struct mem_fetch {
  new_addr_type get_addr() const { return m_addr; }
  bool is_write() const { return m_is_write; }
  mem_access_sector_mask_t get_access_sector_mask() const {
    return mem_access_sector_mask_t().set(m_addr / SECTOR_SIZE % SECTOR_CHUNCK_SIZE);
  }

  const warp_inst_t &get_inst() const { return m_inst; }

  new_addr_type m_addr;
  bool m_is_write;
  warp_inst_t m_inst;
};

class cache_config {
 public:
  void init(char *config) {
    char rp, ap;

    int ntok =
        sscanf(config, "S:%u:%u:%u,%c:%c", &m_nset, &m_line_sz, &m_assoc, &rp, &ap);
    assert(ntok == 5);
    original_m_assoc = m_assoc;
    m_alloc_policy = ap == 'm' ? ON_MISS : ON_FILL;
  }
  unsigned get_line_sz() const { return m_line_sz; }
  unsigned get_atom_sz() const { return SECTOR_SIZE; }
  unsigned get_num_lines() const {
    return m_nset * m_assoc;
  }
  unsigned get_max_cache_multiplier() const { return 3; }
  unsigned get_max_num_lines() const {
    return get_max_cache_multiplier() * m_nset * original_m_assoc;
  }
  unsigned get_max_assoc() const { return get_max_cache_multiplier() * original_m_assoc; }
  unsigned set_index(new_addr_type) const { return 0; }
  new_addr_type block_addr(new_addr_type addr) const { return addr & ~(new_addr_type)(m_line_sz - 1); }
  void set_assoc(unsigned n) { m_assoc = n; }

  char *m_config_string;
  unsigned m_nset;
  unsigned m_line_sz;
  unsigned m_assoc;
  unsigned original_m_assoc;
  allocation_policy_t m_alloc_policy;
};

class tag_array {
 public:
  tag_array(cache_config &config, int core_id);
  ~tag_array();

  cache_request_status probe(new_addr_type addr, unsigned &idx, mem_access_sector_mask_t mask, bool is_write) const;
  cache_request_status access(new_addr_type addr, unsigned time, unsigned &idx, mem_fetch *mf);
  void fill(unsigned index, mem_fetch *mf);
  void invalidate();
  unsigned modified_victims() const { return m_modified_victims; }

 private:
  cache_config &m_config;
  cache_block_t **m_lines;
  int m_core_id;
  unsigned m_modified_victims;
};

// Of an SM whose 256 KB of L1 and shared memory are divided anew, in bytes.
void divide(cache_config &m_L1D_config, const std::vector<unsigned> &options, unsigned shared);
