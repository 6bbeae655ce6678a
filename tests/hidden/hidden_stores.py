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
        self.used = 0  # when it came, was found or was completed last


class StoringCache:
    def __init__(self, cache, random):
        self._cache, self._rule = cache, cache["store"]
        self._cleaning = self._rule.get("cleaning")
        self._now = 0
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
        access = self._access_and_clean if self._cleaning else self._access
        return [access(self._origin + offset, place in stores) for place, offset in enumerate(offsets)]

    def _access(self, address, is_store):
        return self._store(address) if is_store else self._load(address)

    def _access_and_clean(self, address, is_store):
        """What a set has too much of is seen before the access, and seen to after it."""
        number, which, _, _ = self._find(address)
        ways = self._sets[which]
        lines = sorted((line for line in ways if line), key=lambda line: line.used)
        partial = [line for line in lines if self._is_partial(line)]
        whole = [line for line in lines if line.dirty and line not in partial]
        due = []
        if len(whole) >= self._cleaning["dirty_lines"]:
            due.append(whole[0])
        if len(partial) >= self._cleaning["partial_lines"] and partial[0].number != number:
            due.append(partial[0])
        if len(lines) == len(ways) and lines[0].dirty and lines[0].number != number:
            due.append(lines[0])
        result = self._access(address, is_store)
        for line in due:
            if line not in partial:
                line.dirty = False
            elif line in self._sets[which] and self._is_partial(line):
                self._complete(line, which)
        return result

    def _is_partial(self, line):
        return any(not self._is_whole(line, word * WORD) for word in line.written - line.valid)

    def _complete(self, line, which):
        for word in line.written - line.valid:
            line.written.update(self._words(word * WORD, self._rule["granule_bytes"]))
        line.dirty = False
        self._touch(line)
        self.policies[which].hit(self._way_of[which][line.number])

    def _touch(self, line):
        self._now += 1
        line.used = self._now

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
            if self._cleaning:
                way = min(range(len(ways)), key=lambda each: (ways[each].dirty, ways[each].used))
        gone, line = ways[way], Line(number)
        self._touch(line)
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
            self._touch(line)
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
                self._touch(line)
        line.dirty = line.dirty or rule["write"] == "back"
        word = address % self._cache["line_bytes"] // WORD
        if rule["allocate"]:
            if not rule["fetches"]:
                line.written.add(word)
            elif word not in line.valid:
                line.valid.update(self._words(address, rule["granule_bytes"]))
        return HIT
