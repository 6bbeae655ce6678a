#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""The hidden devices must be right themselves: sequences worked by hand."""

import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import unittest

from hidden_cache import index_function, make_cache
from hidden_device import Device

ONE_SET = {"kind": "modulo", "granule_bytes": 32, "sets": 1}


def cache(ways, policy, index=ONE_SET, line=32, sector=32, **parameters):
    return make_cache(
        {
            "line_bytes": line,
            "sector_bytes": sector,
            "ways": ways,
            "index": index,
            "replacement": {"policy": policy, **parameters},
        },
        random.Random(1),
    )


def spec(**changes):
    return {
        "line_bytes": 32,
        "sector_bytes": 32,
        "ways": [4],
        "index": ONE_SET,
        "replacement": {"policy": "lru"},
        "buffer_bytes": 4096,
        "address_of_buffer": 0,
        "latency_cycles": {"hit": 100, "miss": 300},
        "noise": {"jitter_cycles": 0, "outlier_probability": 0, "outlier_cycles": 0, "misread_probability": 0},
        "refused_states": [],
        "seed": 1,
    } | changes


def lines(text):
    return [32 * (ord(letter) - ord("A")) for letter in text]


class Policies(unittest.TestCase):
    def test_lru_spares_the_line_that_was_touched(self):
        # C puts B out because A was touched; then B puts A out.
        self.assertEqual(cache([2], "lru").play(lines("ABACABA")), [1, 1, 0, 1, 0, 1, 0])

    def test_fifo_puts_out_the_oldest_fill(self):
        # C puts A out although A was touched; then A puts B out, B puts C out.
        self.assertEqual(cache([2], "fifo").play(lines("ABACABA")), [1, 1, 0, 1, 1, 1, 0])

    def test_lru_and_fifo_miss_always_on_a_cycle_of_one_line_too_many(self):
        for policy in ("lru", "fifo"):
            self.assertEqual(cache([3], policy).play(lines("ABCD" * 3)), [1] * 12)

    def test_weights_choose_the_way_by_its_place_in_the_fill_order(self):
        # Way 1 always goes: A and C stay, every newcomer puts out the one before it.
        hidden = cache([3], "weighted_random", victim_weights=[0, 1, 0])
        self.assertEqual(hidden.play(lines("ABCDEDACB")), [1, 1, 1, 1, 1, 1, 0, 0, 1])

    def test_random_victims_are_even(self):
        hidden = cache([4], "random")
        survivals = []
        for _ in range(2000):
            hidden.power_on()
            hidden.play(lines("ABCDE"))
            survivals.append(hidden.play(lines("A"))[0])
        self.assertAlmostEqual(statistics.mean(survivals), 1 / 4, delta=0.04)

    def test_a_sector_is_fetched_alone_and_leaves_with_its_line(self):
        hidden = cache([1], "lru", line=64, sector=32)
        self.assertEqual(hidden.play([0, 4, 32, 0, 64, 32]), [1, 0, 1, 0, 1, 1])

    def test_sets_may_be_unequal(self):
        index = {"kind": "bits", "bits": [5]}
        # Even lines have one way, odd lines two.
        self.assertEqual(cache([1, 2], "lru", index).play(lines("ACBDABDC")), [1, 1, 1, 1, 1, 0, 0, 1])


class Indexes(unittest.TestCase):
    def test_every_kind(self):
        for index, address, number in (
            ({"kind": "bits", "bits": [9, 7]}, 0x80, 2),
            ({"kind": "xor", "rows": [[7, 12], [8]], "constant": 2}, 0x1180, 0),
            ({"kind": "modulo", "granule_bytes": 64, "sets": 5}, 64 * 13 + 63, 3),
            ({"kind": "sum", "fields": [[7, 8], [9, 10]], "sets": 3}, 0b1110 << 7, 2),
            ({"kind": "table", "granule_bytes": 64, "sets_of": [2, 0, 1]}, 64 * 5, 1),
        ):
            self.assertEqual(index_function(index)(address), number, index)

    def test_a_table_that_does_not_repeat_says_nothing_outside_its_range(self):
        table = index_function(
            {"kind": "table", "granule_bytes": 64, "sets_of": [2, 0], "origin": 640, "range_bytes": 128}
        )
        self.assertEqual([table(address) for address in (576, 640, 704, 768)], [None, 2, 0, None])


class Protocol(unittest.TestCase):
    def test_greets_and_answers_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "spec.json")
            path.write_text(json.dumps(spec(refused_states=["invalidated"], count_file=f"{folder}/count")))
            questions = [
                {"id": 7, "target": "L1tex", "state": "clean", "warm": [0], "record": [0, 32]},
                {"id": 8, "target": "L1tex", "state": "keep", "warm": [], "record": [32]},
                {"id": 9, "target": "L1tex", "state": "invalidated", "warm": [], "record": [32]},
                {"id": 10, "target": "L2", "state": "clean", "warm": [], "record": [32]},
                {"id": 11, "target": "L1tex", "state": "clean", "warm": [], "record": [4096]},
            ]
            program = pathlib.Path(__file__).with_name("hidden_device.py")
            done = subprocess.run(
                [sys.executable, program, path],
                input="".join(json.dumps(question) + "\n" for question in questions),
                capture_output=True,
                text=True,
                check=True,
            )
            greeting, *answers = map(json.loads, done.stdout.splitlines())
            self.assertEqual((greeting["gpuinfer"], greeting["targets"]), (1, ["L1tex"]))
            self.assertEqual(answers[:2], [{"id": 7, "latency": [100, 300]}, {"id": 8, "latency": [100]}])
            self.assertEqual([sorted(answer) for answer in answers[2:]], [["error", "id"]] * 3)
            self.assertEqual(pathlib.Path(folder, "count").read_text(), "4\n")


class Noise(unittest.TestCase):
    def test_rates_are_those_asked_for(self):
        noise = {"jitter_cycles": 3, "outlier_probability": 0.01, "outlier_cycles": 1000, "misread_probability": 0.005}
        device = Device(spec(noise=noise))
        question = {"target": "L1tex", "state": "keep", "warm": [0], "record": [0] * 200_000}
        cycles = device.answer(question)["latency"]
        self.assertEqual(len(cycles), 200_000)
        self.assertAlmostEqual(sum(cycle > 700 for cycle in cycles) / 2000, 1, delta=0.15)
        self.assertAlmostEqual(sum(200 < cycle < 700 for cycle in cycles) / 1000, 1, delta=0.2)
        self.assertAlmostEqual(statistics.pstdev(cycle for cycle in cycles if cycle < 200), 3, delta=0.1)


if __name__ == "__main__":
    unittest.main()
