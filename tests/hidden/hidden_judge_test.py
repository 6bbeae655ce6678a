#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The judge must let right profiles pass under other names, and no wrong one."""

import copy
import random
import unittest

from hidden_cache import make_cache
from hidden_draw import ANY_WAYS, NOISE_LEVELS, POLICIES, TRAPS, draw, lines_of_sets, unidentifiable
from hidden_judge import LEAVES, judge, stated_confidences, untrue_evidence

SPEC = {
    "line_bytes": 32,
    "sector_bytes": 32,
    "ways": [3, 3, 4, 4],
    "index": {"kind": "bits", "bits": [5, 6]},
    "replacement": {"policy": "lru"},
    "buffer_bytes": 65536,
    "address_of_buffer": 0,
    "latency_cycles": {"hit": 100, "miss": 300},
    "refused_states": [],
    "category": "library",
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
            spec = draw(rng, {"library": 1})
            self.assertEqual(verdict(spec), set(), spec)

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
        self.assertEqual(verdict(spec, replacement={"policy": "lru"}), set())

    def test_weights_need_only_be_near(self):
        spec = SPEC | {"ways": [2] * 4, "replacement": {"policy": "weighted_random", "victim_weights": [1, 3]}}
        near, far = [0.27, 0.73], [0.4, 0.6]
        self.assertEqual(verdict(spec, replacement={"policy": "weighted_random", "victim_weights": near}), set())
        self.assertEqual(verdict(spec, replacement={"policy": "weighted_random", "victim_weights": far}), {"replacement"})
        self.assertEqual(verdict(spec, replacement={"policy": "random"}), {"replacement"})

    def test_a_policy_may_be_found_under_another_name(self):
        spec = SPEC | {"ways": [4] * 4, "replacement": {"policy": "srrip", "bits": 1}}
        nru = {"policy": "nru", "equivalent": ["srrip bits=1 promotion=frequency", "qlru variant=H00_M0_R1_U0_UMO"]}
        self.assertEqual(verdict(spec, replacement=nru), set())
        self.assertEqual(verdict(spec, replacement=nru | {"equivalent": ["srrip"]}), {"replacement"})
        self.assertEqual(verdict(spec, replacement={"policy": "nru", "keep_last": "true"}), {"replacement"})

    def test_a_policy_must_be_right_in_all_sets(self):
        spec = SPEC | {"ways": [2, 2, 4, 4]}
        self.assertEqual(verdict(spec, replacement={"policy": "plru"}), {"replacement"})

    def test_names_that_differ_only_after_long_may_say_so(self):
        profile = profile_of(SPEC, replacement={"policy": "lru", "equivalent": ["fifo"]})
        evidence = profile["evidence"]["L1tex"]["replacement"]
        for depth, wrong in ((5, set()), (6, {"replacement"})):  # A B C A D puts out B or A
            evidence["equivalent_for_accesses"] = depth
            self.assertEqual(set(judge(profile, "L1tex", SPEC)[0]), wrong)

    def test_nothing_describes_a_cache_whose_sets_go_together(self):
        for replacement in (
            {"policy": "dueling", "one_leader_in": 4, "most": 8},
            {"policy": "periodic", "stream": [1, 3, 2]},
        ):
            for name in ("lru", "lip", "random"):
                spec = SPEC | {"replacement": replacement}
                self.assertEqual(verdict(spec, replacement={"policy": name}), {"replacement"})

    def test_a_machine_that_behaves_as_a_trap_is_right(self):
        index = {"kind": "modulo", "granule_bytes": 32, "sets": 1}
        spec = SPEC | {"ways": [3], "index": index, "replacement": {"policy": "periodic", "stream": [1, 3, 2]}}
        machine = {"policy": "automaton", "hits": [[0] * 3, [1] * 3, [2] * 3], "victims": [1, 0, 2], "misses": [1, 2, 0]}
        self.assertEqual(verdict(spec, replacement=machine), set())
        self.assertEqual(verdict(spec, replacement=machine | {"victims": [1, 0, 1]}), {"replacement"})

    def test_a_drifting_policy_is_what_it_was_when_it_was_asked(self):
        spec = SPEC | {"drift": {"after_accesses": 1000, "replacement": {"policy": "fifo"}}}
        for accesses, right in ((900, {"lru"}), (1050, {"lru", "fifo"}), (9000, {"fifo"})):
            asked = spec | {"accesses_asked": accesses}
            passed = {name for name in ("lru", "fifo", "lip") if not verdict(asked, replacement={"policy": name})}
            self.assertEqual(passed, right)

    def test_what_the_evidence_says_of_the_policy_must_be_true(self):
        profile = profile_of(SPEC, replacement=None)
        for evidence, untrue in (
            ({"status": "unknown", "deterministic": True}, 0),
            ({"status": "unknown", "deterministic": False}, 1),
            ({"status": "ambiguous", "alternatives": [{"policy": "fifo"}, {"policy": "lru"}]}, 0),
            ({"status": "ambiguous", "alternatives": [{"policy": "fifo"}, {"policy": "random"}]}, 1),
            ({"status": "ambiguous", "alternatives": [{"policy": "random"}, {"policy": "weighted_random"}]}, 1),
        ):
            profile["evidence"]["L1tex"]["replacement"] = evidence
            self.assertEqual(len(untrue_evidence(profile, "L1tex", SPEC)), untrue, evidence)

    def test_confidences_are_those_of_resolved_leaves(self):
        profile = profile_of(SPEC)
        evidence = profile["evidence"]["L1tex"]
        evidence["ways"]["confidence"] = 0.999
        evidence["index"] = {"status": "ambiguous", "confidence": 0.7}
        self.assertEqual(stated_confidences(profile, "L1tex"), {"ways": 0.999})

    def test_what_is_not_resolved_is_null(self):
        profile = profile_of(SPEC)
        profile["evidence"]["L1tex"]["ways"] = {"status": "ambiguous", "reason": "two fit"}
        self.assertEqual(set(judge(profile, "L1tex", SPEC)[0]), {"ways"})
        profile["caches"]["L1tex"]["ways"] = None
        self.assertEqual(judge(profile, "L1tex", SPEC), ({}, {"ways": "ambiguous: two fit"}))


class Draw(unittest.TestCase):
    def test_traps_are_not_identifiable_and_the_library_mostly_is(self):
        rng = random.Random(3)
        for category in TRAPS:
            self.assertEqual(unidentifiable(draw(rng, {category: 1})), f"trap: {category}")
        specs = [draw(rng, {"library": 1}) for _ in range(150)]
        self.assertLess(sum(unidentifiable(spec) is not None for spec in specs[:75]), 10)
        self.assertEqual({spec["replacement"]["policy"] for spec in specs}, set(POLICIES))
        self.assertEqual({spec["noise_level"] for spec in specs}, set(NOISE_LEVELS))

    def test_a_set_that_cannot_be_filled_may_have_more_ways(self):
        rng = random.Random(4)
        shown = 0
        while shown < 3:
            spec = draw(rng, {"library": 1})
            lines = lines_of_sets(spec)
            roomy = any(lines[number] <= ways for number, ways in enumerate(spec["ways"]))
            if not roomy or spec["replacement"]["policy"] not in ANY_WAYS:
                continue
            shown += 1
            self.assertIn("filled", unidentifiable(spec))
            more = [ways + (lines[number] <= ways) for number, ways in enumerate(spec["ways"])]
            caches = [make_cache(spec | {"ways": ways}, random.Random(1)) for ways in (spec["ways"], more)]
            for _ in range(8):
                question = [rng.randrange(0, spec["buffer_bytes"], 4) for _ in range(2000)]
                self.assertEqual(*(cache.play(question) for cache in caches), spec)
                for cache in rng.choice((caches, ())):
                    cache.power_on()

    def test_every_set_is_met(self):
        rng = random.Random(2)
        for _ in range(100):
            spec = draw(rng)
            self.assertEqual(set(lines_of_sets(spec)), set(range(len(spec["ways"]))))


if __name__ == "__main__":
    unittest.main()
