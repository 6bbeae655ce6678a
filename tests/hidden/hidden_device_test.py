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

from hidden_cache import make_cache
from hidden_device import Device
from hidden_index import index_function

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

    def test_lip_gives_up_the_newcomer_until_it_is_hit(self):
        # C puts B out, because A is the line that was hit; D is hit, so E puts A out.
        self.assertEqual(cache([2], "lip").play(lines("ABACBADDEA")), [1, 1, 0, 1, 1, 0, 1, 0, 1, 1])

    def test_bip_that_always_does_is_lru_and_one_that_hardly_does_is_lip(self):
        accesses = lines("ABCADBBCEADCBBAE")
        always, never = cache([3], "bip", one_in=1), cache([3], "bip", one_in=1 << 30)
        self.assertEqual(always.play(accesses), cache([3], "lru").play(accesses))
        self.assertEqual(never.play(accesses), cache([3], "lip").play(accesses))

    def test_plru_follows_its_nodes(self):
        # After A B C D the root points left and the left node to A; A is hit: root right, C is where that node points.
        self.assertEqual(cache([4], "plru").play(lines("ABCDAECA")), [1, 1, 1, 1, 0, 1, 1, 0])
        # Five ways: three on the left, or four. After A B C D E the root points left, and there to A, or to C.
        self.assertEqual(cache([5], "plru").play(lines("ABCDEFBCDEA")), [1] * 6 + [0] * 4 + [1])
        # The way of E is the only one on its side, and the first that goes from the other end.
        self.assertEqual(cache([5], "plru", split="power_of_two").play(lines("ABCDFEB")), [1] * 6 + [0])

    def test_nru_forgets_when_all_are_marked(self):
        # All are marked: the marks go, A is the first without. B is next.
        self.assertEqual(cache([3], "nru").play(lines("ABCDBEC")), [1, 1, 1, 1, 0, 1, 1])
        # C keeps its mark, so that B goes after A, and C does not.
        self.assertEqual(cache([3], "nru", keep_last=True).play(lines("ABCDECB")), [1, 1, 1, 1, 1, 0, 1])
        # A goes, and then B, although A's way has no mark any more.
        rotating = cache([3], "nru", clear="on_access", victim="rotating")
        self.assertEqual(rotating.play(lines("ABCDECDA")), [1, 1, 1, 1, 1, 0, 0, 1])
        # C is the first in the list.
        ordered = cache([3], "nru", victim="order", order=[2, 0, 1])
        self.assertEqual(ordered.play(lines("ABCDABC")), [1, 1, 1, 1, 0, 0, 1])

    def test_mru_gives_up_what_was_touched_last(self):
        self.assertEqual(cache([3], "mru").play(lines("ABCADBCA")), [1, 1, 1, 0, 1, 0, 0, 1])
        self.assertEqual(cache([3], "mru", of="fill").play(lines("ABCADBCA")), [1, 1, 1, 0, 1, 0, 1, 0])

    def test_clock_takes_marks_from_what_it_passes(self):
        # The hand passes all and takes A; B is marked again, so C goes, and B after that.
        self.assertEqual(cache([3], "clock").play(lines("ABCDBECB")), [1, 1, 1, 1, 0, 1, 1, 1])
        # Nothing but A is marked: B goes at once, and then C.
        self.assertEqual(cache([3], "clock", mark_fill=False).play(lines("ABCADEA")), [1, 1, 1, 0, 1, 1, 0])

    def test_srrip_as_in_figure_3_of_jaleel_et_al(self):
        # a1 a2 a2 a1 b1 b2 b3 b4 a1 a2: both a are hit again after the scan.
        self.assertEqual(cache([4], "srrip").play(lines("ABBACDEFAB")), [1, 1, 0, 0, 1, 1, 1, 1, 0, 0])

    def test_srrip_by_frequency_gives_a_line_that_was_hit_once_less_time(self):
        # A stands at 1, B at 2: both grow and B goes. C stands at 1, A at 2: A goes. With `hit` A would begin at 0.
        self.assertEqual(cache([2], "srrip", promotion="frequency").play(lines("AABCCDA")), [1, 0, 1, 1, 0, 1, 1])
        self.assertEqual(cache([2], "srrip").play(lines("AABCDA")), [1, 0, 1, 1, 1, 0])

    def test_brrip_that_always_does_is_srrip(self):
        accesses = lines("ABCADBBCEADCBBAE")
        self.assertEqual(cache([3], "brrip", one_in=1).play(accesses), cache([3], "srrip").play(accesses))

    def test_qlru_ages(self):
        # A, B and C are 1 and all grow by 2; A is hit: 0. The lowest of age 3 is B, the highest, which R2 takes, C.
        accesses = lines("ABCADAC")
        self.assertEqual(cache([3], "qlru", variant="H00_M1_R0_U0").play(accesses), [1, 1, 1, 0, 1, 0, 0])
        self.assertEqual(cache([3], "qlru", variant="H00_M1_R2_U0").play(accesses), [1, 1, 1, 0, 1, 0, 1])
        # Update on miss only by one: all stand at 1, grow to 2, and way 0 goes.
        self.assertEqual(cache([3], "qlru", variant="H00_M1_R1_U2_UMO").play(lines("ABCDBCA")), [1, 1, 1, 1, 0, 0, 1])

    def test_permutation_of_lru_is_lru(self):
        accesses = lines("ABCADBBCEADCBBAE")
        as_list = cache([3], "permutation", hits=[[0, 1, 2], [1, 0, 2], [1, 2, 0]], miss=[1, 2, 0])
        self.assertEqual(as_list.play(accesses), cache([3], "lru").play(accesses))

    def test_automaton_of_fifo_is_fifo(self):
        accesses = lines("ABACABAACB")
        machine = {"hits": [[0, 0], [1, 1]], "victims": [0, 1], "misses": [1, 0], "fills": [0, 1]}
        self.assertEqual(cache([2], "automaton", **machine).play(accesses), cache([2], "fifo").play(accesses))

    def test_fermi_replaces_its_way_every_second_time(self):
        hidden = cache([2], "fermi", favoured_way=0, others="random")
        # B, A, the one after B, the one after A.
        self.assertEqual(hidden.play(lines("ABCADCE")), [1, 1, 1, 0, 1, 0, 1])

    def test_clean_begins_anew_and_invalidated_goes_on(self):
        for put, victim in (("power_on", "A"), ("invalidate", "B")):
            hidden = cache([2], "clock")
            hidden.play(lines("ABC"))
            getattr(hidden, put)()
            hidden.play(lines("ABC"))
            self.assertEqual(hidden.play(lines(victim)), [1], put)

    def test_a_drifting_policy_changes_between_questions(self):
        drift = {"after_accesses": 7, "replacement": {"policy": "fifo"}}
        hidden = make_cache(spec(ways=[2], drift=drift), random.Random(1))
        for outcomes in ([1, 1, 0, 1, 0, 1, 0], [1, 1, 0, 1, 1, 1, 0]):
            self.assertEqual(hidden.play(lines("ABACABA")), outcomes)
            hidden.power_on()

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


class Misleading(unittest.TestCase):
    """What hidden_misleading.py draws."""

    def played(self, text, **changes):
        return make_cache(spec(**changes), random.Random(1)).play(lines(text))

    def test_a_policy_changes_within_a_question(self):
        change = {"every_accesses": 4, "replacement": {"policy": "fifo"}}
        # C drives out B, which was not used last, and later B drives out A, which came first.
        self.assertEqual(self.played("ABACABAC", ways=[2], change=change), [1, 1, 0, 1, 0, 1, 1, 1])

    def test_the_last_victims_come_back(self):
        for most, outcomes in ((1, [1, 1, 1, 0, 0, 1]), (2, [1, 1, 1, 0, 0, 0])):
            self.assertEqual(self.played("ABCBCA", ways=[1], victim_lines=most), outcomes)

    def test_lines_come_along(self):
        for on, outcomes in (("miss", [1, 0, 1, 0, 1]), ("access", [1, 0, 0, 0, 1]), ("pair", [1, 0, 1, 0, 1])):
            self.assertEqual(self.played("ABCDI", ways=[8], prefetch={"on": on, "lines": 1}), outcomes, on)
        self.assertEqual(self.played("ACEGIB", ways=[8], prefetch={"on": "stride", "lines": 1}), [1, 1, 1, 0, 0, 1])

    def test_two_caches_as_fast_as_each_other(self):
        one, two = (spec(ways=[ways]) for ways in (1, 2))
        behind = {"first": one, "second": two, "chosen_by_bit": None}
        self.assertEqual(self.played("ABACA", **behind), [1, 1, 0, 1, 0])
        by_bit = {"first": one, "second": two, "chosen_by_bit": 5}
        self.assertEqual(self.played("ACABDBD", **by_bit), [1, 1, 1, 1, 1, 0, 0])


class Hints(unittest.TestCase):
    """Sets of four ways. F, L and U before a line: it is loaded to be evicted first, last, or to leave the order."""

    def misses(self, text, deviation=None, set_aside=None, **rule):
        hints = {"first_goes_next": True, "unchanged_keeps_place": True, "protected_ways": 1, "loads_unprotect": False}
        device = spec(hints=hints | rule, set_asides=[{"bytes": 4096, "protected_ways": 2}])
        hinted = make_cache(device | ({"deviation": deviation} if deviation else {}), random.Random(1))
        hinted.set_aside(set_aside)
        kinds = {"F": "evict_first", "L": "evict_last", "U": "evict_unchanged"}
        loads = text.split()
        by_place = {place: kinds[load[0]] for place, load in enumerate(loads) if len(load) == 2}
        misses = hinted.play(lines(load[-1].upper() for load in loads), by_place)
        return "".join(load[-1] for load, miss in zip(loads, misses) if miss)

    def test_the_oldest_line_that_is_evicted_first_goes_next(self):
        self.assertEqual(self.misses("a b Fc Fd e f a b"), "abcdef")
        self.assertEqual(self.misses("a b Fc Fd c e f a b"), "abcdefab")
        self.assertEqual(self.misses("a b Fc Fd e f a b", first_goes_next=False), "abcdefab")
        self.assertEqual(self.misses("a b Fc Fd e c d", {"kind": "youngest first"}), "abcded")
        self.assertEqual(self.misses("a b c d Fe a b c", {"kind": "first in the middle"}), "abcdeabc")
        self.assertEqual(self.misses("a Fb b", {"kind": "dropped"}), "abb")

    def test_a_line_that_is_found_may_keep_its_place(self):
        self.assertEqual(self.misses("a b c d Ua e b a"), "abcdea")
        self.assertEqual(self.misses("a b c d Ua e a b", unchanged_keeps_place=False), "abcdeb")
        self.assertEqual(self.misses("a b c Ud e a d", {"kind": "unchanged brings"}), "abcded")

    def test_so_many_lines_are_protected(self):
        self.assertEqual(self.misses("La b c d e f g h a"), "abcdefgh")
        self.assertEqual(self.misses("La Lb c d e f g h b a"), "abcdefgha")
        self.assertEqual(self.misses("La Lb c d e f g h b a", set_aside=4096), "abcdefgh")
        self.assertEqual(self.misses("La a b c d e a", loads_unprotect=True), "abcdea")
        self.assertEqual(self.misses("La b c d e a", protected_ways=0), "abcdea")
        self.assertEqual(self.misses("La b c d e f a", {"kind": "wears off", "misses": 4}), "abcdefa")
        self.assertEqual(self.misses("La Lb c d e f g h a", {"kind": "refused"}), "abcdefgh")


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
