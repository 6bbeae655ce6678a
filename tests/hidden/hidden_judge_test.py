#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The judge must let right profiles pass under other names, and no wrong one."""

import copy
import random
import unittest

from hidden_draw import draw, lines_of_sets
from hidden_judge import LEAVES, judge

SPEC = {
    "line_bytes": 32,
    "sector_bytes": 32,
    "ways": [3, 3, 4, 4],
    "index": {"kind": "bits", "bits": [5, 6]},
    "replacement": {"policy": "lru"},
    "buffer_bytes": 65536,
    "address_of_buffer": 0,
    "latency_cycles": {"hit": 100, "miss": 300},
}


def profile_of(spec, **changes):
    leaves = ("line_bytes", "sector_bytes", "ways", "index", "replacement", "latency_cycles")
    cache = {leaf: copy.deepcopy(spec[leaf]) for leaf in leaves}
    cache["capacity_bytes"] = sum(spec["ways"]) * spec["line_bytes"]
    return {
        "caches": {"L1tex": cache | changes},
        "evidence": {"L1tex": {leaf: {"status": "resolved"} for leaf in LEAVES}},
    }


def verdict(spec=SPEC, **changes):
    """The leaves that are judged wrong."""
    return set(judge(profile_of(spec, **changes), "L1tex", spec)[0])


class Judge(unittest.TestCase):
    def test_the_truth_passes(self):
        rng = random.Random(1)
        for _ in range(50):
            self.assertEqual(verdict(draw(rng)), set())

    def test_set_numbers_are_only_names(self):
        swapped = {"kind": "xor", "rows": [[6], [5]], "constant": 3}
        self.assertEqual(verdict(index=swapped, ways=[4, 3, 4, 3]), set())
        self.assertEqual(verdict(index=swapped, ways=[4, 4, 3, 3]), {"ways"})
        self.assertEqual(verdict(index={"kind": "bits", "bits": [6, 5]}, ways=[3, 4, 3, 4]), set())

    def test_a_high_bit_that_takes_part_is_seen(self):
        self.assertEqual(verdict(index={"kind": "xor", "rows": [[5, 15], [6]]}), {"index"})

    def test_one_wrong_leaf_is_one_wrong_leaf(self):
        self.assertEqual(verdict(capacity_bytes=512), {"capacity_bytes"})
        self.assertEqual(verdict(line_bytes=64), {"line_bytes"})
        self.assertEqual(verdict(sector_bytes=16), {"sector_bytes"})
        self.assertEqual(verdict(ways=[3, 3, 4, 5]), {"ways"})
        self.assertEqual(verdict(replacement={"policy": "fifo"}), {"replacement"})
        self.assertEqual(verdict(replacement={"policy": "lru", "equivalent": ["fifo"]}), {"replacement"})
        self.assertEqual(verdict(latency_cycles={"hit": 103, "miss": 300}), {"latency_cycles"})
        self.assertEqual(verdict(latency_cycles={"hit": 101, "miss": 303}), set())

    def test_all_policies_are_one_in_sets_of_one_way(self):
        spec = SPEC | {"ways": [1, 1, 1, 1], "replacement": {"policy": "fifo"}}
        self.assertEqual(verdict(spec, replacement={"policy": "lru", "equivalent": ["fifo", "random"]}), set())
        self.assertEqual(verdict(spec, replacement={"policy": "lru"}), {"replacement"})

    def test_weights_need_only_be_near(self):
        spec = SPEC | {"ways": [2] * 4, "replacement": {"policy": "weighted_random", "victim_weights": [1, 3]}}
        near, far = [0.27, 0.73], [0.4, 0.6]
        self.assertEqual(verdict(spec, replacement={"policy": "weighted_random", "victim_weights": near}), set())
        self.assertEqual(verdict(spec, replacement={"policy": "weighted_random", "victim_weights": far}), {"replacement"})
        self.assertEqual(verdict(spec, replacement={"policy": "random"}), {"replacement"})

    def test_what_is_not_resolved_is_null(self):
        profile = profile_of(SPEC)
        profile["evidence"]["L1tex"]["ways"] = {"status": "ambiguous", "reason": "two fit"}
        self.assertEqual(set(judge(profile, "L1tex", SPEC)[0]), {"ways"})
        profile["caches"]["L1tex"]["ways"] = None
        self.assertEqual(judge(profile, "L1tex", SPEC), ({}, {"ways": "ambiguous: two fit"}))


class Draw(unittest.TestCase):
    def test_every_set_is_met(self):
        rng = random.Random(2)
        for _ in range(100):
            spec = draw(rng)
            self.assertEqual(set(lines_of_sets(spec)), set(range(len(spec["ways"]))))


if __name__ == "__main__":
    unittest.main()
