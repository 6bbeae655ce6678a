#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""What behaves alike must be found alike under any name, and nothing else must."""

import unittest
from random import Random

from hidden_alike import compare, difference, keeps_strangers, read_text
from hidden_cache import make_cache
from hidden_draw import ANY_WAYS, POLICIES, draw_automaton, draw_permutation, draw_replacement
from hidden_permutations import Group, after, goes_on_alike
from hidden_policies import Chance, make_policy

NOT_CLEAN = ("clean",)
NEVER_EMPTY = ("clean", "invalidated")


def alike(first, second, ways, *more):
    return difference(read_text(first), read_text(second), ways, *more) is None


def renumbered(machine, rng):
    """The same machine with its states in another order."""
    count = len(machine["victims"])
    new = rng.sample(range(count), count)
    old = sorted(range(count), key=new.__getitem__)
    other = {
        "policy": "automaton",
        "start": new[machine.get("start", 0)],
        "hits": [[new[state] for state in machine["hits"][at]] for at in old],
        "victims": [machine["victims"][at] for at in old],
        "misses": [new[machine["misses"][at]] for at in old],
    }
    if "fills" in machine:
        other["fills"] = [new[machine["fills"][at]] for at in old]
    return other


def as_if_begun_at(permutation, ways_at):
    """The same machine with its positions numbered such that the set begins with way `ways_at[position]` at them."""
    ways = len(ways_at)
    number = [ways - 1 - way for way in ways_at]

    def numbered(moves):
        other = [0] * ways
        for place, to in enumerate(moves):
            other[number[place]] = number[to]
        return other

    hits = [[]] * ways
    for place, moves in enumerate(permutation["hits"]):
        hits[number[place]] = numbered(moves)
    return permutation | {"hits": hits, "miss": numbered(permutation["miss"])}


def begun_elsewhere(permutation, ways, rng):
    """What is learned of the policy from a start with the set empty and the policy as some accesses left it."""
    policy = make_policy(permutation, ways, Chance(Random(0)))
    for way in range(ways):
        policy.fill(way)
    for _ in range(100):
        policy.hit(rng.randrange(ways)) if rng.random() < 0.7 else policy.replace()
    # The first line to come in goes to the victim's place, whichever way is there.
    place = policy.at.index(0)
    policy.at[place], policy.at[-1] = policy.at[-1], 0
    return as_if_begun_at(permutation, policy.at)


class Alike(unittest.TestCase):
    def test_published_names_for_the_same_thing(self):
        for first, second, ways in (
            ("lru", "plru", 2),
            ("plru", "plru order=reversed", 8),
            ("lru", "permutation hits=[[0,1,2],[1,0,2],[1,2,0]] miss=[1,2,0]", 3),
            ("fifo", "automaton hits=[[0,0],[1,1]] victims=[0,1] misses=[1,0] fills=[0,1]", 2),
            ("nru", "srrip bits=1 promotion=frequency", 5),
            ("srrip", "qlru variant=H00_M2_R0_U0_UMO", 6),
            ("bip one_in=1", "lru", 4),
            ("fifo", "clock mark_fill=false", 1),
        ):
            self.assertTrue(alike(first, second, ways), (first, second, ways))

    def test_near_misses(self):
        for first, second, ways in (
            ("lru", "fifo", 2),
            ("lru", "plru", 4),
            ("plru", "plru order=reversed", 6),
            ("plru", "plru split=power_of_two", 6),
            ("srrip", "srrip bits=3", 16),
            ("nru", "nru keep_last=true", 64),
            ("qlru variant=H21_M3_R0_U0", "qlru variant=H21_M3_R0_U1", 4),
            ("bip one_in=2", "lru", 4),
            ("bip one_in=2", "bip one_in=4", 4),
            ("bip", "brrip", 4),
            ("slru protected_ways=1", "slru protected_ways=2", 4),
            ("slru protected_ways=1", "lru", 2),
            ("favoured_fifo favoured_way=1 others=[2,0,3]", "fifo", 4),
            ("random", "lru", 4),
            ("random", "weighted_random victim_weights=[1,2,1]", 3),
            ("fermi favoured_way=1 others=random", "weighted_random victim_weights=[1,3,1,1]", 4),
        ):
            self.assertFalse(alike(first, second, ways), (first, second, ways))

    def test_the_accesses_that_it_takes_are_counted(self):
        # A B A C puts out B or A, and one more access to either shows it.
        self.assertEqual(compare({"policy": "lru"}, {"policy": "fifo"}, 2).accesses, 5)
        self.assertTrue(alike("lru", "fifo", 2, (), 4))
        self.assertFalse(alike("lru", "fifo", 2, (), 5))

    def test_a_machine_is_itself_under_other_numbers(self):
        seed = 1
        rng = Random(seed)
        for _ in range(30):
            ways = rng.randint(2, 6)
            machine = {"policy": "automaton"} | draw_automaton(rng, ways)
            compared = compare(machine, renumbered(machine, rng), ways)
            self.assertTrue(compared.alike and compared.exact, (seed, machine))

    def test_one_changed_transition_is_found_where_it_matters(self):
        true = read_text("automaton hits=[[0,1],[1,0]] victims=[0,1] misses=[1,0] fills=[1,1]")
        for name, value in (("victims", [1, 1]), ("misses", [1, 1]), ("fills", [1, 0]), ("hits", [[0, 1], [1, 1]])):
            self.assertIsNotNone(difference(true | {name: value}, true, 2), name)

    def test_states_lead_back_to_where_they_were_taken(self):
        seed = 2
        rng = Random(seed)
        for name in POLICIES:
            for _ in range(10):
                ways = rng.randint(2, 6)
                policy = make_policy(draw_replacement(rng, name, [ways]), ways, Chance(Random(0)))
                for way in range(ways):
                    policy.fill(way)
                policy.hit(1)
                state = policy.state()
                outcomes = []
                for _ in range(2):
                    policy.go_to(state)
                    policy.chance = Chance(Random(0))
                    outcomes.append([policy.hit(0), *(policy.replace() for _ in range(20)), policy.state()])
                self.assertEqual(*outcomes, (seed, name))

    def test_drawn_policies_of_many_ways_are_alike_to_themselves(self):
        seed = 3
        rng = Random(seed)
        for name in set(ANY_WAYS) - {"bip", "brrip", "random"}:
            policy = draw_replacement(rng, name, [12])
            compared = compare(policy, dict(policy), 12)
            self.assertTrue(compared.alike and (compared.exact or compared.depth > 1), (seed, policy))


class NoCleanStart(unittest.TestCase):
    def test_ways_have_no_numbers_where_no_set_is_ever_empty(self):
        ordered, first = "nru victim=order order=[2,0,3,1]", "nru"
        self.assertFalse(alike(first, ordered, 4))
        self.assertFalse(alike(first, ordered, 4, NOT_CLEAN))
        self.assertTrue(alike(first, ordered, 4, NEVER_EMPTY))
        self.assertTrue(alike("plru order=reversed split=power_of_two", "plru split=power_of_two", 3, NEVER_EMPTY))
        weights = "weighted_random victim_weights=[1,2,6]"
        self.assertTrue(alike(weights, "weighted_random victim_weights=[6,1,2]", 3, NEVER_EMPTY))
        self.assertFalse(alike(weights, "weighted_random victim_weights=[6,1,2]", 3, NOT_CLEAN))

    def test_drawn_ways_under_other_numbers_go_on_alike(self):
        # The chance that picks a way of the one picks the way of that name of the other.
        rng = Random(4)
        name_of = [2, 0, 3, 1]
        first = {"policy": "weighted_random", "victim_weights": [1, 2, 3, 4]}
        second = {"policy": "weighted_random", "victim_weights": [2, 4, 1, 3]}
        self.assertEqual([second["victim_weights"][name] for name in name_of], first["victim_weights"])
        index = {"kind": "modulo", "granule_bytes": 32, "sets": 1}
        caches = [
            make_cache({"line_bytes": 32, "sector_bytes": 32, "ways": [4], "index": index, "replacement": policy}, rng)
            for policy in (first, second)
        ]
        victims = [rng.choices(range(4), first["victim_weights"])[0] for _ in range(5000)]
        for cache, fill, victims in zip(caches, range(2), (victims, [name_of[way] for way in victims])):
            stream = iter(victims)
            cache.policies[0].replace = lambda stream=stream: next(stream)
            cache.play([32 * (name_of.index(way) if fill else way) for way in range(4)])
        question = [32 * rng.randrange(7) for _ in range(5000)]
        self.assertEqual(*(cache.play(question) for cache in caches))

    def test_only_the_start_differs(self):
        # State 0 is never met again.
        lru = "automaton hits=[[0,1],[0,1]] victims=[1,0] misses=[1,0] fills=[0,1]"
        late = "automaton hits=[[2,2],[1,2],[1,2]] victims=[0,1,0] misses=[2,2,1] fills=[2,1,2]"
        self.assertFalse(alike(lru, late, 2))
        self.assertTrue(alike(lru, late, 2, NEVER_EMPTY))

    def test_a_permutation_policy_is_itself_from_any_state(self):
        seed = 5
        rng = Random(seed)
        for ways in (4, 4, 7, 7, 10, 16):
            true = {"policy": "permutation"} | draw_permutation(rng, ways)
            found = begun_elsewhere(true, ways, rng)
            self.assertIsNone(difference(found, true, ways, NOT_CLEAN), (seed, true))

    def test_a_permutation_policy_with_one_hit_changed_is_another(self):
        seed = 6
        rng = Random(seed)
        for _ in range(5):
            true = {"policy": "permutation"} | draw_permutation(rng, 7)
            found = begun_elsewhere(true, 7, rng)
            changed = found | {"hits": [list(moves) for moves in found["hits"]]}
            first, second = rng.sample(range(7), 2)
            moves = changed["hits"][rng.randrange(7)]
            moves[first], moves[second] = moves[second], moves[first]
            if not compare(changed, found, 7).alike:  # it may be in a place that never shows
                self.assertIsNotNone(difference(changed, true, 7, NOT_CLEAN), (seed, true))

    def test_states_that_no_access_leads_to_are_others(self):
        fifo = {"hits": [list(range(4))] * 4, "miss": [1, 2, 3, 0]}
        self.assertTrue(goes_on_alike(fifo, fifo, (3, 2, 1, 0), [(1, 0, 3, 2)], renamed=False))
        self.assertFalse(goes_on_alike(fifo, fifo, (3, 2, 1, 0), [(2, 3, 1, 0)], renamed=False))
        self.assertTrue(goes_on_alike(fifo, fifo, (3, 2, 1, 0), [(2, 3, 1, 0)], renamed=True))

    def test_groups_have_the_members_that_products_make(self):
        seed = 7
        rng = Random(seed)
        turn, swap, halves = (1, 2, 3, 4, 5, 0), (1, 0, 2, 3, 4, 5), (1, 2, 0, 4, 5, 3)
        for generators, size in (([turn], 6), ([turn, swap], 720), ([halves], 3), ([swap, halves], 0)):
            members = {tuple(range(6))}
            waiting = list(members)
            while waiting:
                member = waiting.pop()
                new = {after(member, generator) for generator in generators} - members
                members |= new
                waiting += new
            self.assertTrue(size in (0, len(members)))
            group = Group(generators, rng)
            for _ in range(300):
                some = tuple(rng.sample(range(6), 6))
                self.assertEqual(some in group, some in members, (seed, generators, some))
            self.assertTrue(all(member in group for member in members))

    def test_ways_in_an_order_of_many(self):
        order = Random(8).sample(range(40), 40)
        ordered = {"policy": "nru", "clear": "on_access", "victim": "order", "order": order}
        self.assertIsNone(difference({"policy": "nru", "clear": "on_access"}, ordered, 40, NEVER_EMPTY))
        self.assertIsNotNone(difference({"policy": "nru"}, ordered, 40, NEVER_EMPTY))

    def test_the_first_way_is_the_last_one_from_the_other_end(self):
        first, last = (f"qlru variant=H20_M0_{rule}_U1" for rule in ("R0", "R2"))
        self.assertTrue(alike(first, last, 9, NEVER_EMPTY))
        self.assertTrue(alike(last, first, 9, NEVER_EMPTY))
        self.assertFalse(alike(last, first, 9))

    def test_a_rule_that_is_the_first_way_by_another_name_is_the_last_one_from_the_other_end(self):
        other, last = (f"qlru variant=H11_M1_{rule}_U1" for rule in ("R1", "R2"))
        self.assertTrue(alike(other, last, 12, NEVER_EMPTY))
        self.assertTrue(alike(last, other, 12, NEVER_EMPTY))
        self.assertFalse(alike(other, last, 12, NOT_CLEAN))

    def test_lines_that_nobody_asks_for_may_stay_for_ever(self):
        self.assertTrue(keeps_strangers({"policy": "mru"}, 3))
        self.assertTrue(keeps_strangers({"policy": "mru", "of": "fill"}, 56))
        two_of_three = {"hits": [[0, 1, 0], [0, 1, 1]], "victims": [0, 1], "misses": [1, 0]}
        self.assertTrue(keeps_strangers({"policy": "automaton", **two_of_three}, 3))
        # Misses take the last way only, until one of two lines is hit, each of which would go if the other was.
        pair_stays = {"hits": [[1, 1, 0], [0, 0, 1], [0, 0, 2]], "victims": [2, 1, 0], "misses": [0, 2, 0]}
        self.assertTrue(keeps_strangers({"policy": "automaton", **pair_stays}, 3))
        for name in ("lru", "lip", "nru", "srrip", "random"):
            self.assertFalse(keeps_strangers({"policy": name}, 3))

    def test_what_differs_for_ever_is_told(self):
        for first, second in (("lru", "fifo"), ("srrip", "srrip promotion=frequency"), ("nru", "nru victim=rotating")):
            self.assertFalse(alike(first, second, 4, NEVER_EMPTY), (first, second))
            self.assertFalse(alike(first, second, 12, NEVER_EMPTY), (first, second))


if __name__ == "__main__":
    unittest.main()
