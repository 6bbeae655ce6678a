// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "gpu-cache.h"

tag_array::tag_array(cache_config &config, int core_id) : m_config(config), m_modified_victims(0) {
  m_core_id = core_id;
  m_lines = new cache_block_t *[m_config.get_max_num_lines()];
  for (unsigned i = 0; i < m_config.get_max_num_lines(); i++) m_lines[i] = new cache_block_t;
}

tag_array::~tag_array() {
  for (unsigned i = 0; i < m_config.get_max_num_lines(); i++) delete m_lines[i];
  delete[] m_lines;
}

cache_request_status tag_array::probe(new_addr_type addr, unsigned &idx, mem_access_sector_mask_t mask,
                                      bool is_write) const {
  (void)is_write;
  unsigned set_index = m_config.set_index(addr);
  idx = set_index * m_config.m_assoc;
  for (unsigned i = idx; i < (set_index + 1) * m_config.m_assoc; i++) {
    if (m_lines[i]->m_tag == addr) {
      idx = i;
      const cache_block_state state = m_lines[i]->get_status(mask);
      return state == RESERVED ? HIT_RESERVED : state == INVALID ? SECTOR_MISS : HIT;
    }
    if (m_lines[i]->m_time < m_lines[idx]->m_time) idx = i;
  }
  return MISS;
}

cache_request_status tag_array::access(new_addr_type addr, unsigned time, unsigned &idx, mem_fetch *mf) {
  cache_request_status status = probe(addr, idx, mf->get_access_sector_mask(), mf->is_write());
  switch (status) {
    case HIT_RESERVED:
    case HIT:
      m_lines[idx]->m_time = time;
      break;
    case SECTOR_MISS:
      m_lines[idx]->set_status(RESERVED, mf->get_access_sector_mask());
      break;
    default:
      m_modified_victims += m_lines[idx]->is_modified_line();
      m_lines[idx]->allocate(addr, addr, time, mf->get_access_sector_mask());
  }
  if (mf->is_write()) m_lines[idx]->set_status(MODIFIED, mf->get_access_sector_mask());
  return status;
}

void tag_array::fill(unsigned index, mem_fetch *mf) {
  bool before = m_lines[index]->is_modified_line();
  m_lines[index]->set_status(before ? MODIFIED : VALID, mf->get_access_sector_mask());
}

void tag_array::invalidate() {
  for (unsigned i = 0; i < m_config.get_num_lines(); i++)
    for (unsigned j = 0; j < SECTOR_CHUNCK_SIZE; j++)
      m_lines[i]->set_status(INVALID, mem_access_sector_mask_t().set(j));
}
