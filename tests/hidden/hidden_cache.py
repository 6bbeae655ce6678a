# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A small cache simulator that shares nothing with model/: what gpuinfer must find out is defined twice, on purpose.

A cache is described by a dictionary: line_bytes, sector_bytes, ways (one entry for each set), index and replacement in
the form of the schema gpuinfer/1.
"""

from hidden_hints import HintedCache
from hidden_index import index_function
from hidden_policies import Chance, make_policies
from hidden_stores import StoringCache
from hidden_swept import SweptCache


class _Place(dict):
    """offset -> (set, line number, bit of the sector), worked out once for each offset."""

    def __init__(self, cache):
        super().__init__()
        line, sector, origin = cache["line_bytes"], cache["sector_bytes"], cache.get("address_of_buffer", 0)
        set_of = index_function(cache["index"])
        self._locate = lambda offset: (
            set_of(origin + offset),
            (origin + offset) // line,
            1 << (origin + offset) % line // sector,
        )

    def __missing__(self, offset):
        self[offset] = place = self._locate(offset)
        return place


class Cache:
    """The lines of all sets, each set with its policy. An empty set fills its ways in order."""

    def __init__(self, cache, random):
        self._ways = cache["ways"]
        self._place = _Place(cache)
        self.policies = make_policies(cache["replacement"], self._ways, Chance(random))
        self.invalidate()

    def power_on(self):
        """No line is present, and the policies are as at the very beginning."""
        for policy in self.policies:
            policy.power_on()
        self.invalidate()

    def invalidate(self):
        """No line is present, and the policies go on as they are."""
        self._way_of = [{} for _ in self._ways]
        self._line_in = [[] for _ in self._ways]
        self._sectors = [[0] * count for count in self._ways]

    def change_policy(self, replacement, random):
        """The lines stay where they are."""
        self.policies = make_policies(replacement, self._ways, Chance(random))

    def play(self, offsets):
        """The accesses in order; 1 for each miss, 0 for each hit."""
        place, ways, policies = self._place, self._ways, self.policies
        way_of, line_in, sectors = self._way_of, self._line_in, self._sectors
        misses = []
        note = misses.append
        for offset in offsets:
            number, line, sector = place[offset]
            way = way_of[number].get(line)
            if way is None:
                lines = line_in[number]
                way = len(lines)
                if way < ways[number]:
                    lines.append(line)
                    policies[number].fill(way)
                else:
                    way = policies[number].replace()
                    del way_of[number][lines[way]]
                    lines[way] = line
                way_of[number][line] = way
                sectors[number][way] = sector
                note(1)
                continue
            policies[number].hit(way)
            if sectors[number][way] & sector:
                note(0)
            else:
                sectors[number][way] |= sector
                note(1)
        return misses


class DriftingCache(Cache):
    """Another policy holds from the first question on that comes after so many accesses."""

    def __init__(self, cache, random):
        super().__init__(cache, random)
        self._random = random
        self._drift = cache["drift"]
        self._left = self._drift["after_accesses"]

    def play(self, offsets):
        if self._drift and self._left <= 0:
            self.change_policy(self._drift["replacement"], self._random)
            self._drift = None
        self._left -= len(offsets)
        return super().play(offsets)


class ChangingCache(Cache):
    """Another policy holds after so many accesses, and the first one again after as many; it begins as at power-on."""

    def __init__(self, cache, random):
        super().__init__(cache, random)
        self._random = random
        self._every = cache["change"]["every_accesses"]
        self._turns = [cache["replacement"], cache["change"]["replacement"]]
        self._left = self._every

    def play(self, offsets):
        misses, done = [], 0
        while done < len(offsets):
            part = offsets[done : done + self._left]
            misses += super().play(part)
            done += len(part)
            self._left -= len(part)
            if self._left == 0:
                self._left = self._every
                self._turns.reverse()
                self.change_policy(self._turns[0], self._random)
        return misses


class VictimBuffer:
    """What the sets of an LRU cache give up goes into a small buffer, and from there back when it is loaded."""

    def __init__(self, cache, _random):
        self._ways, self._most = cache["ways"], cache["victim_lines"]
        self._set_of, self._line_bytes = index_function(cache["index"]), cache["line_bytes"]
        self._origin = cache["address_of_buffer"]
        self.power_on()

    def power_on(self):
        self._sets = [[] for _ in self._ways]  # the last one used first
        self._buffer = []  # the last one given up first

    invalidate = power_on

    def play(self, offsets):
        return [self._load(self._origin + offset) for offset in offsets]

    def _load(self, address):
        line, number = address // self._line_bytes, self._set_of(address)
        lines = self._sets[number]
        miss = 0
        if line in lines:
            lines.remove(line)
        elif line in self._buffer:
            self._buffer.remove(line)
        else:
            miss = 1
        lines.insert(0, line)
        if len(lines) > self._ways[number]:
            self._buffer.insert(0, lines.pop())
            del self._buffer[self._most :]
        return miss


class Prefetcher(Cache):
    """Lines come along: the `lines` next ones with a miss or with every access, the other half of an aligned pair with a
    miss, or what lies as far ahead as the last two steps were wide."""

    def __init__(self, cache, random):
        super().__init__(cache, random)
        self._on, self._ahead = cache["prefetch"]["on"], cache["prefetch"]["lines"]
        self._line_bytes, self._most = cache["line_bytes"], cache["buffer_bytes"]

    def power_on(self):
        super().power_on()
        self._last = []

    def invalidate(self):
        super().invalidate()
        self._last = []

    def _companions(self, line, miss):
        self._last = [*self._last[-2:], line]
        if self._on == "pair":
            return [line ^ 1] if miss else []
        step = 1
        if self._on == "stride":
            steps = [after - before for before, after in zip(self._last, self._last[1:])]
            step = steps[0] if len(steps) == 2 and steps[0] == steps[1] else 0
        if not step or (self._on == "miss" and not miss):
            return []
        return [line + step * ahead for ahead in range(1, self._ahead + 1)]

    def play(self, offsets):
        misses = []
        for offset in offsets:
            misses += super().play([offset])
            for line in self._companions(offset // self._line_bytes, misses[-1]):
                if 0 <= line * self._line_bytes < self._most:
                    super().play([line * self._line_bytes])
        return misses


class TwoCaches:
    """As fast as each other: `behind`, what the first one misses is looked for in the second; otherwise an address bit
    says which of the two a line belongs to."""

    def __init__(self, cache, random):
        self._first = Cache(cache["first"], random)
        self._second = Cache(cache["second"], random)
        self._bit = cache["chosen_by_bit"]
        self._origin = cache["address_of_buffer"]

    def power_on(self):
        self._first.power_on()
        self._second.power_on()

    def invalidate(self):
        self._first.invalidate()
        self._second.invalidate()

    def play(self, offsets):
        return [self._load(offset) for offset in offsets]

    def _load(self, offset):
        if self._bit is not None:
            return (self._second if (self._origin + offset) >> self._bit & 1 else self._first).play([offset])[0]
        return self._first.play([offset])[0] and self._second.play([offset])[0]


STRUCTURES = {
    "drift": DriftingCache,
    "change": ChangingCache,
    "victim_lines": VictimBuffer,
    "prefetch": Prefetcher,
    "second": TwoCaches,
    "sweep": SweptCache,
    "store": StoringCache,
    "hints": HintedCache,
}


def make_cache(cache, random):
    for key, structure in STRUCTURES.items():
        if key in cache:
            return structure(cache, random)
    return Cache(cache, random)
