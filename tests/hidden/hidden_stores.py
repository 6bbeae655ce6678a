# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A cache to which one can store, word by word: written from what docs/profile.md says of `store`, and from nothing else."""

import functools

from hidden_index import index_function
from hidden_policies import Chance, make_policies

WORD = 4
HIT, MISS, DIRTY_MISS = 0, 1, 2


class Line:
    def __init__(self, number):
        self.number = number
        self.valid = set()  # words that loads find
        self.written = set()  # words that stores wrote
        self.dirty = False


class StoringCache:
    def __init__(self, cache, random):
        self._cache, self._rule = cache, cache["store"]
        self._origin = cache["address_of_buffer"]
        set_of, line_bytes = index_function(cache["index"]), cache["line_bytes"]
        self._line_and_set = functools.cache(lambda address: (address // line_bytes, set_of(address)))
        self.policies = make_policies(cache["replacement"], cache["ways"], Chance(random))
        self.invalidate()

    def power_on(self):
        for policy in self.policies:
            policy.power_on()
        self.invalidate()

    def invalidate(self):
        self._sets = [[None] * ways for ways in self._cache["ways"]]
        self._way_of = [{} for _ in self._sets]  # by number, of the lines that are present

    def play(self, offsets, stores=frozenset()):
        """HIT, MISS or DIRTY_MISS for each access; `stores`: the places of those that are stores."""
        return [
            self._store(self._origin + offset) if place in stores else self._load(self._origin + offset)
            for place, offset in enumerate(offsets)
        ]

    def _find(self, address):
        number, which = self._line_and_set(address)
        return number, which, self.policies[which], self._way_of[which].get(number)

    def _place(self, number, which, policy):
        """The new line, and whether a dirty one went for it."""
        ways, way_of = self._sets[which], self._way_of[which]
        if None in ways:
            way = ways.index(None)
            policy.fill(way)
        else:
            way = policy.replace()
        gone, line = ways[way], Line(number)
        if gone is not None:
            del way_of[gone.number]
        ways[way], way_of[number] = line, way
        return line, gone is not None and gone.dirty

    def _words(self, address, block):
        """All words of the aligned block of the line around an address."""
        offset = address % self._cache["line_bytes"]
        first = offset - offset % block
        return range(first // WORD, (first + block) // WORD)

    def _load(self, address):
        number, which, policy, way = self._find(address)
        word = address % self._cache["line_bytes"] // WORD
        dirty = False
        if way is None:
            line, dirty = self._place(number, which, policy)
        else:
            line = self._sets[which][way]
            policy.hit(way)
            if word in line.valid or self._is_whole(line, address):
                return HIT
        line.valid.update(self._words(address, self._cache["sector_bytes"]))
        return DIRTY_MISS if dirty else MISS

    def _is_whole(self, line, address):
        granule = self._rule.get("granule_bytes")
        masked = self._rule["allocate"] and not self._rule["fetches"]
        return masked and line.written.issuperset(self._words(address, granule))

    def _store(self, address):
        rule = self._rule
        number, which, policy, way = self._find(address)
        if way is not None and rule["evicts"]:
            self._sets[which][way] = None
            del self._way_of[which][number]
            return HIT
        if way is None and not rule["allocate"]:
            return MISS
        if way is None:
            line, _ = self._place(number, which, policy)
        else:
            line = self._sets[which][way]
            if rule["touches"]:
                policy.hit(way)
        line.dirty = line.dirty or rule["write"] == "back"
        word = address % self._cache["line_bytes"] // WORD
        if rule["allocate"]:
            if not rule["fetches"]:
                line.written.add(word)
            elif word not in line.valid:
                line.valid.update(self._words(address, rule["granule_bytes"]))
        return HIT
