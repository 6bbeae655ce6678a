#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""adapter.py insert|remove CHECKOUT: lets GPGPU-Sim take caches from profiles, or undoes that.

CHECKOUT has src/gpgpu-sim/gpu-cache.h, as GPGPU-Sim 4.2 and the copy inside Accel-Sim. Inserted lines end in a mark, by
which they are found and taken out again. Both may be repeated. Nothing is written unless every line has its place.
"""

import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
MARK = "  // gpuinfer"
COPIES = (HERE / "gpuinfer_tag_array.h", HERE.parents[1] / "model/c/gpuinfer.h")

# File, what to insert, and the line or the lines that it goes before.
INSERTIONS = (
    ("gpu-cache.h", '#include "gpuinfer_tag_array.h"', "class cache_config {"),
    ("gpu-cache.h", "    config = m_gpuinfer.take_from(config);", "\n    int ntok =\n        sscanf(config,"),
    ("gpu-cache.h", "    if (m_gpuinfer) return m_gpuinfer.lines();", "    return m_nset * m_assoc;"),
    (
        "gpu-cache.h",
        "    if (m_gpuinfer) return m_gpuinfer.lines();",
        "    return get_max_cache_multiplier() * m_nset * original_m_assoc;",
    ),
    ("gpu-cache.h", "  gpuinfer_adapter::Configuration m_gpuinfer;", "  char *m_config_string;"),
    ("gpu-cache.h", "  std::shared_ptr<gpuinfer_adapter::TagArray> m_gpuinfer;", "  cache_block_t **m_lines;"),
    (
        "gpu-cache.cc",
        "  m_gpuinfer = m_config.m_gpuinfer.tag_array(core_id, m_config.get_line_sz(), m_config.get_atom_sz(), "
        "m_config.m_alloc_policy == ON_MISS);",
        "  m_core_id = core_id;",
    ),
    (
        "gpu-cache.cc",
        "  if (m_gpuinfer) return m_gpuinfer->probe(addr, mask, is_write, m_lines, idx);",
        "  unsigned set_index = m_config.set_index(addr);",
    ),
    (
        "gpu-cache.cc",
        "  if (m_gpuinfer) m_gpuinfer->access(addr, mf->get_access_sector_mask(), mf->is_write(), "
        "mf->get_inst().get_uid(), time, status, m_lines, idx);",
        "  switch (status) {\n    case HIT_RESERVED:",
    ),
    (
        "gpu-cache.cc",
        "  if (m_gpuinfer && !m_gpuinfer->find(m_config.block_addr(mf->get_addr()), mf->get_access_sector_mask(), "
        "m_lines, index)) return;",
        "  bool before = m_lines[index]->is_modified_line();",
    ),
    (
        "gpu-cache.cc",
        "  if (m_gpuinfer) m_gpuinfer->invalidate();",
        "  for (unsigned i = 0; i < m_config.get_num_lines(); i++)\n    for (unsigned j = 0; j < SECTOR_CHUNCK_SIZE; j++)",
    ),
    (
        "shader.cc",
        "        m_L1D_config.m_gpuinfer.set_carveout(*it / 1024);",
        "        m_L1D_config.set_assoc(max_assoc * l1_ratio + 0.5f);",
    ),
)


def without(text):
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip("\n").endswith(MARK))


def inserted(name, text):
    for file, line, before in INSERTIONS:
        if file != name:
            continue
        if text.count(before) != 1:
            places = text.count(before)
            sys.exit(f"adapter.py: {name} has {places} places for `{line.strip()}`, not one; no file was changed")
        at = text.index(before)
        at += len(before) - len(before.lstrip("\n"))
        text = text[:at] + line + MARK + "\n" + text[at:]
    return text


def main(words):
    if len(words) != 2 or words[0] not in ("insert", "remove"):
        sys.exit(__doc__.partition(":")[0])
    folder = pathlib.Path(words[1]) / "src/gpgpu-sim"
    if not (folder / "gpu-cache.h").is_file():
        sys.exit(f"adapter.py: {folder} has no gpu-cache.h; name a checkout of GPGPU-Sim")
    wanted = {}
    for name in sorted({file for file, _, _ in INSERTIONS}):
        text = without((folder / name).read_text())
        wanted[folder / name] = inserted(name, text) if words[0] == "insert" else text
    for path, text in wanted.items():
        if path.read_text() != text:  # what is as it should be needs no new build
            path.write_text(text)
    for source in COPIES:
        copy = folder / source.name
        if words[0] == "insert":
            shutil.copyfile(source, copy)
        else:
            copy.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
