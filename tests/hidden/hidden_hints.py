# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A cache under LRU whose loads say when their line is to go: written from what model/device_description.hpp says of
`Hints` and `SetAside`, and from nothing else. With a `deviation` the hints do something that no rule has:

wears off           what is evicted last is so only for `misses` further misses of its set
first in the middle what is evicted first comes into the middle of the order of its set
youngest first      of the lines that are evicted first the youngest goes
dropped             a line that is evicted first does not stay at all
unchanged brings    a load that leaves the order unchanged, and misses, makes its line the oldest
refused             of a set that protects as many lines as it may, a further one is not protected
of the cache        lines that are evicted last are counted over all sets: `lines` of them are protected
coin                one hint in `one_in` is not heard
odd set             in one set, `set`, hints do nothing
"""

from hidden_index import index_function

FIRST, ORDINARY, LAST = range(3)  # in this order lines go
KINDS = ("evict_first", "evict_last", "evict_unchanged")


class Line:
    def __init__(self):
        self.sectors = 0  # a bit for each that is there
        self.rank = ORDINARY
        self.misses = 0  # of its set since it was evicted last


class HintedCache:
    """A set is a dictionary of its lines by number, the one that was used least recently in front."""

    def __init__(self, cache, random):
        self._rule, self._ways, self._random = cache["hints"], cache["ways"], random
        self._set_asides = cache.get("set_asides")
        self._deviation = cache.get("deviation", {"kind": None})
        line, sector, origin = cache["line_bytes"], cache["sector_bytes"], cache["address_of_buffer"]
        set_of = index_function(cache["index"])
        self._places = {}
        self._locate = lambda address: (set_of(address), address // line, 1 << address % line // sector)
        self._origin = origin
        self.set_aside(None)
        self.power_on()

    def power_on(self):
        """LRU remembers nothing but the order of the lines."""
        self._sets = [{} for _ in self._ways]
        self._heard = False  # while no hint was, the line in front goes
        self._protected = {}  # of all sets, (set, number) in the order in which they were used

    invalidate = power_on

    def set_aside(self, size):
        self._protects = self._rule["protected_ways"]
        if size is not None:
            self._protects = next(each["protected_ways"] for each in self._set_asides if size <= each["bytes"])

    def play(self, offsets, hints=None):
        """1 for each miss, 0 for each hit; `hints`: by the place of a load, the hint that it has."""
        misses = []
        for place, offset in enumerate(offsets):
            where = self._places.get(offset)
            if where is None:
                where = self._places[offset] = self._locate(self._origin + offset)
            hint = hints.get(place) if hints else None
            misses.append(self._load(*where, self._heard_of(hint, where[0]) if hint else None))
        return misses

    def _heard_of(self, hint, number):
        """The hint, if it does anything."""
        deviation = self._deviation
        if deviation["kind"] == "coin" and self._random.randrange(deviation["one_in"]) == 0:
            return None
        if deviation["kind"] == "odd set" and number == deviation["set"]:
            return None
        does = {
            "evict_first": self._rule["first_goes_next"],
            "evict_last": self._protects > 0,
            "evict_unchanged": self._rule["unchanged_keeps_place"],
        }
        self._heard = self._heard or does[hint]
        return hint if does[hint] else None

    def _load(self, number, tag, sector, hint):
        lines, kind = self._sets[number], self._deviation["kind"]
        line = lines.get(tag)
        is_new = line is None
        if is_new:
            if kind == "wears off":
                self._wear_off(lines)
            if len(lines) == self._ways[number]:
                self._make_room(number)
            line = Line()
        misses = not line.sectors & sector
        line.sectors |= sector
        if hint == "evict_unchanged" and not is_new:
            return int(misses)
        lines.pop(tag, None)
        if kind == "dropped" and hint == "evict_first":
            return int(misses)
        lines[tag] = line
        self._rank(line, hint, lines)
        self._limit(number, tag, line, lines)
        if hint == "evict_first" and kind == "first in the middle":
            self._move(lines, tag, len(lines) // 2)
        if hint == "evict_unchanged" and kind == "unchanged brings":
            self._move(lines, tag, 0)
        return int(misses)

    def _make_room(self, number):
        lines = self._sets[number]
        gone = next(iter(lines))
        if self._heard:
            gone = min(lines, key=lambda tag: lines[tag].rank)
            if self._deviation["kind"] == "youngest first" and lines[gone].rank == FIRST:
                gone = next(tag for tag in reversed(lines) if lines[tag].rank == FIRST)
        del lines[gone]
        self._protected.pop((number, gone), None)

    def _rank(self, line, hint, lines):
        kind = self._deviation["kind"]
        if hint == "evict_last":
            others = sum(each.rank == LAST for each in lines.values() if each is not line)
            line.rank = ORDINARY if kind == "refused" and others >= self._protects else LAST
            line.misses = 0
        elif line.rank == LAST and not self._rule["loads_unprotect"]:
            pass
        elif hint == "evict_first" and kind != "first in the middle":
            line.rank = FIRST
        else:
            line.rank = ORDINARY

    def _limit(self, number, tag, line, lines):
        """One protected line more than may be: the oldest of them is an ordinary one."""
        if self._deviation["kind"] == "of the cache":
            self._protected.pop((number, tag), None)
            if line.rank == LAST:
                self._protected[number, tag] = line
            while len(self._protected) > self._deviation["lines"]:
                self._protected.pop(next(iter(self._protected))).rank = ORDINARY
        elif self._heard:
            protected = [each for each in lines.values() if each.rank == LAST]
            for each in protected[: max(0, len(protected) - self._protects)]:
                each.rank = ORDINARY

    def _wear_off(self, lines):
        for line in lines.values():
            line.misses += 1
            if line.rank == LAST and line.misses > self._deviation["misses"]:
                line.rank = ORDINARY

    @staticmethod
    def _move(lines, tag, place):
        """From the end of the order to this place."""
        for other in list(lines)[place:-1]:
            lines[other] = lines.pop(other)
