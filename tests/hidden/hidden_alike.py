# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two replacement policies behave alike, which no name and no parameter decides.

Free ways fill in the same order under all policies. So as long as two policies choose the same victims, the same lines
lie in the same ways, and after the first difference one more access, to either victim, tells them apart. What there is
to compare is therefore the pairs of states that two sets reach together.
"""

import json
import re
from collections import deque
from dataclasses import dataclass
from itertools import chain, combinations
from random import Random

from hidden_permutations import goes_on_alike
from hidden_policies import Chance, make_policy

# All pairs are followed for sets of so many ways, and for larger ones so many pairs, and random sequences beyond.
EXACT_WAYS = 8
EXACT_PAIRS = 50_000
SOME_PAIRS = 15_000
RANDOM_SEQUENCES = 60
RANDOM_ACCESSES_PER_WAY = 30
# For sets that cannot be put back: in so many of its states the one policy is tried against the other.
STARTS = 20_000
NAMINGS = 20_000
FILLINGS = 200
# Of a policy that may keep lines for ever, which takes a simple one.
FOLLOWED_STATES = 100


@dataclass
class Comparison:
    """`accesses`: how many a sequence has that tells the two apart, None where none was found. Then `exact` says that
    there is none; else there is none in sequences of `depth` accesses, and many longer ones were tried at random."""

    accesses: int | None = None
    exact: bool = False
    depth: int = 0

    @property
    def alike(self):
        return self.accesses is None


class Scripted(Chance):
    """The coin of bip and brrip, as the comparison wants it."""

    def __init__(self):
        super().__init__(Random(0))
        self.coin = None

    def one_of(self, count):
        return count == 1 or self.coin


def has_coin(replacement):
    return replacement["policy"] in ("bip", "brrip") and replacement.get("one_in", 32) != 1


def draws_victims(replacement, ways):
    policy = replacement["policy"]
    if policy == "weighted_random":
        return sum(weight > 0 for weight in replacement["victim_weights"]) > 1
    return ways > 1 and policy == "random" or ways > 2 and policy == "fermi"


def is_deterministic(replacement, ways):
    return ways == 1 or not has_coin(replacement) and not draws_victims(replacement, ways)


class Pair:
    """Two policies that see the same accesses of one set; both flip the same coin where they have one."""

    def __init__(self, first, second, ways):
        self.chance = Scripted()
        self.ways = ways
        self.policies = [make_policy(replacement, ways, self.chance) for replacement in (first, second)]
        self.coins = (False, True) if has_coin(first) or has_coin(second) else (None,)

    def begin(self):
        for policy in self.policies:
            policy.power_on()
        return self.state(0)

    def state(self, filled):
        return (self.policies[0].state(), self.policies[1].state(), filled)

    def go_to(self, state):
        self.policies[0].go_to(state[0])
        self.policies[1].go_to(state[1])

    def inputs(self, filled):
        return [(way, None) for way in range(filled)] + [(None, coin) for coin in self.coins]

    def step(self, access, filled):
        """The ways that are filled afterwards; None where different victims go."""
        way, self.chance.coin = access
        first, second = self.policies
        if way is not None:
            first.hit(way)
            second.hit(way)
        elif filled < self.ways:
            first.fill(filled)
            second.fill(filled)
            return filled + 1
        elif first.replace() != second.replace():
            return None
        return filled


def follow(pair, begin, most_pairs):
    """All pairs of states from `begin` on, those that take the fewest accesses first."""
    depth_of = {begin: 0}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        depth, filled = depth_of[state], state[2]
        for access in pair.inputs(filled):
            pair.go_to(state)
            filled_then = pair.step(access, filled)
            if filled_then is None:
                return Comparison(accesses=depth + 2)
            then = pair.state(filled_then)
            if then not in depth_of:
                if len(depth_of) >= most_pairs:
                    return Comparison(depth=depth + 1)
                depth_of[then] = depth + 1
                waiting.append(then)
    return Comparison(exact=True)


def try_at_random(pair, ways, rng):
    """The fewest accesses in which a sequence told the two apart; None where none did."""
    most = RANDOM_ACCESSES_PER_WAY * ways
    told_apart = None
    for _ in range(RANDOM_SEQUENCES):
        pair.begin()
        filled, filling, missing, width = 0, rng.choice((0.7, 1)), rng.choice((0.03, 0.1, 0.3, 0.6)), ways
        for count in range(most):
            if count % (4 * ways) == 0:
                width = rng.randint(1, ways)
            miss = filled == 0 or rng.random() < (missing if filled == ways else filling)
            access = (None, rng.choice(pair.coins)) if miss else (rng.randrange(max(0, filled - width), filled), None)
            filled = pair.step(access, filled)
            if filled is None:
                told_apart = count + 2
                most = count
                break
    return told_apart


def compare(first, second, ways):
    """From power-on. What they draw by chance must be a coin that both flip."""
    if ways == 1:
        return Comparison(exact=True)
    pair = Pair(first, second, ways)
    compared = follow(pair, pair.begin(), EXACT_PAIRS if ways <= EXACT_WAYS else SOME_PAIRS)
    if compared.alike and not compared.exact:
        compared.accesses = try_at_random(pair, ways, Random(ways))
    return compared


class Renamed:
    """A policy that goes on from `state`, with its ways under other names: `name_of` maps its way to the other's."""

    def __init__(self, policy, state, name_of):
        self._policy = policy
        self._name_of = name_of
        self._way_of = {name: way for way, name in name_of.items()}
        policy.go_to(state)

    def state(self):
        return self._policy.state()

    def go_to(self, state):
        self._policy.go_to(state)

    def hit(self, way):
        self._policy.hit(self._way_of[way])

    def replace(self):
        return self._name_of[self._policy.replace()]


def wander(policy, ways, accesses, rng):
    """A full set in some state; every access is (way, None) for a hit or (None, victim)."""
    told = []
    for _ in range(accesses):
        if rng.random() < 0.6:
            way = rng.randrange(ways)
            policy.hit(way)
            told.append((way, None))
        else:
            told.append((None, policy.replace()))
    return told


def fill_all(policy, ways):
    policy.power_on()
    for way in range(ways):
        policy.fill(way)


def fillings(policy, ways, rng):
    """Has the set full again and again, and emptied in between; some ways are hit while others are free."""
    for _ in range(FILLINGS):
        for way in range(ways):
            policy.fill(way)
            while rng.random() < 0.5:
                policy.hit(rng.randint(0, way))
        wander(policy, ways, 2 * ways, rng)
        yield


def states_from(policy, begin, ways, most):
    """The states of a full set that can be reached, the nearest ones first."""
    met = {begin: None}
    waiting = deque([begin])
    while waiting and len(met) < most:
        state = waiting.popleft()
        for way in (None, *range(ways)):
            policy.go_to(state)
            policy.replace() if way is None else policy.hit(way)
            if policy.state() not in met:
                met[policy.state()] = None
                waiting.append(policy.state())
    return met


def namings(policy, state, told, ways, renamed):
    """Every way of naming the ways of `policy`, that from `state` on goes as `told`, and the state that it ends in."""
    tries = 0
    waiting = [(0, state, dict() if renamed else {way: way for way in range(ways)})]
    while waiting and tries < NAMINGS:
        at, state, name_of = waiting.pop()
        tries += 1
        policy.go_to(state)
        for at in range(at, len(told)):
            hit, victim = told[at]
            if victim is not None:
                way = policy.replace()
                if name_of.get(way, victim) != victim or (way not in name_of and victim in name_of.values()):
                    break
                name_of[way] = victim
                continue
            ways_named_so = [way for way, name in name_of.items() if name == hit]
            if not ways_named_so:
                before = policy.state()
                free = [way for way in range(ways) if way not in name_of]
                waiting += [(at, before, name_of | {way: hit}) for way in free]
                break
            policy.hit(ways_named_so[0])
        else:
            if len(name_of) == ways:
                yield name_of, policy.state()


def alike_from_somewhere(found, true, ways, renamed):
    """Whether `found`, in one of its states and, where `renamed`, with its ways under some names, goes on as `true`
    does from a state that it came to. For sets that cannot be put back into the state after power-on."""
    rng = Random(ways)
    pair = Pair(found, true, ways)
    mine, other = pair.policies
    fill_all(other, ways)
    wander(other, ways, 20 * ways, rng)
    told = [(None, other.replace()) for _ in range(2 * ways)] + wander(other, ways, 12 * ways, rng)
    there = other.state()
    fill_all(mine, ways)
    if found["policy"] == true["policy"] == "permutation":
        # There may be far more states than can be tried.
        all_ways_true = (other.at for _ in fillings(other, ways, rng))
        if goes_on_alike(found, true, mine.at, all_ways_true, renamed):
            return True
        other.go_to(there)
    starts = states_from(mine, mine.state(), ways, STARTS)
    for start in starts:
        for name_of, here in namings(mine, start, told, ways, renamed):
            pair.policies = [Renamed(make_policy(found, ways, pair.chance), here, name_of), other]
            other.go_to(there)
            if follow(pair, (here, there, ways), SOME_PAIRS).alike:
                return True
    return False


def in_their_own_order(replacement):
    """The same policy with its ways numbered in the order in which it takes them, where it has one."""
    if replacement.get("victim") != "order":
        return replacement
    return {name: value for name, value in replacement.items() if name not in ("victim", "order")}


def counted_from_an_end(replacement):
    """The names of this policy, and of another that may be the same, each with its name where its ways are numbered from
    the other end. R1 has no such name of its own, but is often R0."""
    variant = replacement.get("variant", "")
    for number, mirrored in (("R0", "R2"), ("R2", "R0")):
        named = [re.sub("R[0-2]", name, variant) for name in (number, mirrored)]
        if named[0] != named[1]:
            yield tuple(replacement | {"variant": name} for name in named)


def are_mirrored(found, true, ways):
    return any(
        (same == found or compare(found, same, ways).alike) and compare(mirrored, true, ways).alike
        for same, mirrored in counted_from_an_end(found)
    )


def is_kept_for_ever(policy, ways, begin):
    """Whether in some state that `begin` leads to some lines stay as long as none of them is hit; False, too, where the
    states are too many to be followed. In a set of many ways, single lines alone."""
    after = {}  # state: (victim, state after a miss, states after hits)
    waiting = [begin]
    while waiting:
        state = waiting.pop()
        if state in after:
            continue
        if len(after) == FOLLOWED_STATES:
            return False
        policy.go_to(state)
        victim, missed = policy.replace(), policy.state()
        hits = []
        for way in range(ways):
            policy.go_to(state)
            policy.hit(way)
            hits.append(policy.state())
        after[state] = (victim, missed, hits)
        waiting += [missed, *hits]
    most_strangers = ways - 1 if ways <= EXACT_WAYS else 1
    for strangers in chain(*(combinations(range(ways), count) for count in range(1, most_strangers + 1))):
        keeping = {state for state, (victim, _, _) in after.items() if victim not in strangers}
        while True:
            kept = set()
            for state in keeping:
                _, missed, hits = after[state]
                if keeping.issuperset((missed, *(hits[way] for way in range(ways) if way not in strangers))):
                    kept.add(state)
            if kept == keeping:
                break
            keeping = kept
        if keeping:
            return True
    return False


def keeps_strangers(replacement, ways):
    """Whether a line that nobody asks for may stay for ever, so that a set with such a line goes on as one with a way
    less does, and no question tells them apart. Where that cannot be decided, False."""
    if ways == 1 or not is_deterministic(replacement, ways):
        return False
    policy = make_policy(replacement, ways, Scripted())
    fill_all(policy, ways)
    return is_kept_for_ever(policy, ways, policy.state())


def probabilities(replacement, ways):
    weights = replacement.get("victim_weights", [1] * ways)
    return [weight / sum(weights) for weight in weights]


def near(found, true):
    """Beyond what counting some thousand victims leaves open."""
    return abs(found - true) <= 0.02 + 0.15 * true


def draws_alike(found, true, ways, renamed):
    """Policies whose victims are drawn."""
    if "fermi" in (found["policy"], true["policy"]):
        same_way = renamed or found.get("favoured_way") == true.get("favoured_way")
        return found["policy"] == true["policy"] and same_way
    found, true = probabilities(found, ways), probabilities(true, ways)
    if len(found) != len(true):
        return False
    if renamed:
        found, true = sorted(found), sorted(true)
    return all(near(*pair) for pair in zip(found, true))


def canonical(replacement):
    return {name: value for name, value in replacement.items() if name != "equivalent"}


def difference(found, true, ways, refused_states=(), depth_accesses=None):
    """Why `found` is not `true` in sets of so many ways; None where no sequence tells them apart, or, with
    depth_accesses, none that is no longer."""
    found, true = canonical(found), canonical(true)
    if ways == 1 or found == true:
        return None
    renamed = set(refused_states) >= {"clean", "invalidated"}
    if is_deterministic(found, ways) != is_deterministic(true, ways):
        return "one of the two draws by chance"
    if draws_victims(true, ways) or draws_victims(found, ways):
        same_kind = draws_victims(true, ways) and draws_victims(found, ways)
        return None if same_kind and draws_alike(found, true, ways, renamed) else "victims are drawn in another way"
    if has_coin(true):
        one_in = (found.get("one_in", 32), true.get("one_in", 32))
        if not 0.85 < one_in[0] / one_in[1] < 1.15:
            return f"one in {one_in[0]} instead of one in {one_in[1]}"
    compared = compare(found, true, ways)
    if compared.alike or (depth_accesses is not None and compared.accesses > depth_accesses):
        return None
    ordered = in_their_own_order(found), in_their_own_order(true)
    if renamed and ordered != (found, true) and compare(*ordered, ways).alike:
        return None
    if renamed and are_mirrored(found, true, ways):
        return None
    if "clean" in refused_states and not has_coin(true) and alike_from_somewhere(found, true, ways, renamed):
        return None
    return f"{compared.accesses} accesses tell them apart in a set of {ways} ways"


def read_text(text):
    """`srrip bits=2 promotion=hit`, as gpuinfer writes a policy under `equivalent`."""
    policy, *parameters = text.split(" ")
    replacement = {"policy": policy}
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        try:
            replacement[name] = json.loads(value)
        except json.JSONDecodeError:
            replacement[name] = value
    return replacement
