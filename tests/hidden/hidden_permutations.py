# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Permutation policies that are the same machine with other numbers for its positions.

`moves` is a tuple: for each position the one that it goes to.
"""

from itertools import islice
from random import Random

# Numberings that are tried, and random members of a group that on end must show nothing new of it.
NUMBERINGS = 20_000
CONJUGATES = 20
NOTHING_NEW = 30
# A list of generators becomes members that are as good as drawn alike (Celler et al., "Generating random elements of a
# finite group", 1995) by being multiplied so often.
POOL = 10
MIXED = 100


def after(first, second):
    return tuple(second[to] for to in first)


def inverse(moves):
    back = [0] * len(moves)
    for place, to in enumerate(moves):
        back[to] = place
    return tuple(back)


class Group:
    """What some permutations generate, as a chain of stabilisers of 0, 1, ... (Sims 1970). Random members make it, so
    that in very rare cases it has too few."""

    def __init__(self, generators, rng):
        size = len(generators[0])
        self._generators = [[] for _ in range(size)]
        self._takes_to = [{point: tuple(range(size))} for point in range(size)]  # by level: image of it -> by what
        pool = [generators[i % len(generators)] for i in range(max(POOL, len(generators)))]
        nothing_new, drawn = 0, 0
        while nothing_new < NOTHING_NEW:
            first, second = rng.sample(range(len(pool)), 2)
            other = pool[second] if rng.random() < 0.5 else inverse(pool[second])
            pool[first] = after(pool[first], other) if rng.random() < 0.5 else after(other, pool[first])
            drawn += 1
            if drawn > MIXED:
                nothing_new = 0 if self._add(pool[first]) else nothing_new + 1

    def __contains__(self, moves):
        return self._sifted(moves) is None

    def _sifted(self, moves):
        for level, takes_to in enumerate(self._takes_to):
            if moves[level] not in takes_to:
                return level, moves
            moves = after(moves, inverse(takes_to[moves[level]]))
        return None

    def _add(self, moves):
        rest = self._sifted(moves)
        if rest is None:
            return False
        last, moves = rest
        for level in range(last + 1):
            self._generators[level].append(moves)
            takes_to = self._takes_to[level]
            waiting = list(takes_to)
            while waiting:
                point = waiting.pop()
                for generator in self._generators[level]:
                    if generator[point] not in takes_to:
                        takes_to[generator[point]] = after(takes_to[point], generator)
                        waiting.append(generator[point])
        return True


def numberings(found, true):
    """For each position of `true` one of `found`, such that the two move alike; the victim's is the last of both."""
    ways = len(true["miss"])
    tries = 0

    def fits(number, place):
        known = [*number, place]
        for mine, other in [(found["miss"], true["miss"])] + [
            (found["hits"][number[hit]], true["hits"][hit]) for hit in number
        ]:
            for at in known:
                to = other[at]
                if to in number and mine[number[at]] != number[to]:
                    return False
                if to not in number and mine[number[at]] in number.values():
                    return False
        return True

    def complete(number):
        nonlocal tries
        if len(number) == ways:
            yield dict(number)
            return
        place = max(set(range(ways)) - set(number))
        for there in sorted(set(range(ways)) - set(number.values()), reverse=True):
            tries += 1
            if tries > NUMBERINGS:
                return
            number[place] = there
            if fits(number, place):
                yield from complete(number)
            del number[place]

    yield from complete({ways - 1: ways - 1})


def goes_on_alike(found, true, ways_found, all_ways_true, renamed):
    """Whether `found` comes to go on as `true` does, from states that are the way at each position, of `true` several.
    The ways of the one may be other ways of the other where they are renamed."""
    numbered = list(islice(numberings(found, true), CONJUGATES))
    if not numbered or renamed:
        return bool(numbered)
    group = Group([tuple(found["miss"]), *map(tuple, found["hits"])], Random(1))
    for ways_true in all_ways_true:
        for number in numbered:
            place_of = {way: number[place] for place, way in enumerate(ways_true)}
            if tuple(place_of[way] for way in ways_found) in group:
                return True
    return False
