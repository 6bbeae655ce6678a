# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A small cache simulator that shares nothing with model/: what gpuinfer must find out is defined twice, on purpose.

A cache is described by a dictionary: line_bytes, sector_bytes, ways (one entry for each set), index and replacement in
the form of the schema gpuinfer/1.
"""

from hidden_policies import Chance, make_policies


def index_function(index):
    """address -> set number, for any kind of index; None outside a table that does not repeat."""
    kind = index["kind"]
    if kind == "bits":
        bits = list(enumerate(index["bits"]))
        return lambda address: sum((address >> bit & 1) << place for place, bit in bits)
    if kind == "xor":
        masks = [(place, sum(1 << bit for bit in row)) for place, row in enumerate(index["rows"])]
        constant = index.get("constant", 0)
        return lambda address: constant ^ sum(((address & mask).bit_count() & 1) << place for place, mask in masks)
    if kind == "modulo":
        granule, sets = index["granule_bytes"], index["sets"]
        return lambda address: address // granule % sets
    if kind == "sum":
        fields, sets = index["fields"], index["sets"]
        return lambda address: (
            sum((address >> bit & 1) << place for field in fields for place, bit in enumerate(field)) % sets
        )
    if kind == "table":
        granule, table, origin = index["granule_bytes"], index["sets_of"], index.get("origin", 0)
        limit = index.get("range_bytes")
        if limit is None:
            return lambda address: table[(address - origin) // granule % len(table)]
        return lambda address: table[(address - origin) // granule] if 0 <= address - origin < limit else None
    raise ValueError(f"unknown index kind {kind}")


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


def make_cache(cache, random):
    return (DriftingCache if "drift" in cache else Cache)(cache, random)
