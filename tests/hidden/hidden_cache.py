# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A small cache simulator that shares nothing with model/: what gpuinfer must find out is defined twice, on purpose.

A cache is described by a dictionary: line_bytes, sector_bytes, ways (one entry for each set), index and replacement in
the form of the schema gpuinfer/1.
"""

from collections import OrderedDict
from itertools import accumulate


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


class OrderedCache:
    """LRU and FIFO: a set is its lines with their sectors, the next victim first."""

    def __init__(self, cache, touch):
        self._ways = cache["ways"]
        self._place = _Place(cache)
        self._touch = touch
        self.power_on()

    def power_on(self):
        self._sets = [OrderedDict() for _ in self._ways]

    # The order is one of the lines present, so an empty cache has none to keep.
    invalidate = power_on

    def play(self, offsets):
        """The accesses in order; 1 for each miss, 0 for each hit."""
        sets, ways, place, touch = self._sets, self._ways, self._place, self._touch
        misses = []
        note = misses.append
        for offset in offsets:
            number, line, sector = place[offset]
            lines = sets[number]
            present = lines.get(line)
            if present is None:
                if len(lines) == ways[number]:
                    lines.popitem(False)
                lines[line] = sector
                note(1)
                continue
            if touch:
                lines.move_to_end(line)
            if present & sector:
                note(0)
            else:
                lines[line] = present | sector
                note(1)
        return misses


class RandomCache:
    """The victim is drawn anew at every miss in a full set; an empty set fills its ways in order."""

    def __init__(self, cache, random):
        self._ways = cache["ways"]
        self._place = _Place(cache)
        weights = cache["replacement"].get("victim_weights")
        self._cumulative = list(accumulate(weights)) if weights else None
        self._random = random
        self._victims = [iter(()) for _ in self._ways]
        self.power_on()

    def power_on(self):
        self._sets = [{} for _ in self._ways]
        self._way_holds = [[] for _ in self._ways]

    invalidate = power_on

    def _victim(self, number):
        """The way to go, from a stock that is drawn in one go because single draws are slow."""
        victim = next(self._victims[number], None)
        if victim is None:
            ways = range(self._ways[number])
            self._victims[number] = iter(self._random.choices(ways, cum_weights=self._cumulative, k=256))
            victim = next(self._victims[number])
        return victim

    def play(self, offsets):
        """The accesses in order; 1 for each miss, 0 for each hit."""
        sets, ways, place, way_holds = self._sets, self._ways, self._place, self._way_holds
        misses = []
        note = misses.append
        for offset in offsets:
            number, line, sector = place[offset]
            lines = sets[number]
            present = lines.get(line)
            if present is None:
                holds = way_holds[number]
                if len(holds) < ways[number]:
                    holds.append(line)
                else:
                    way = self._victim(number)
                    del lines[holds[way]]
                    holds[way] = line
                lines[line] = sector
                note(1)
            elif present & sector:
                note(0)
            else:
                lines[line] = present | sector
                note(1)
        return misses


def make_cache(cache, random):
    policy = cache["replacement"]["policy"]
    if policy in ("lru", "fifo"):
        return OrderedCache(cache, touch=policy == "lru")
    if policy in ("random", "weighted_random"):
        return RandomCache(cache, random)
    raise ValueError(f"unknown policy {policy}")
