# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A cache with more tags than lines of data, whose full store is swept by a pointer: docs/h200-l1.md."""

from hidden_index import index_function
from hidden_policies import Chance, make_policies


class SweptCache:
    """Each bank is a list of sets and a number of lines that it has room for. `carveout_kb` of a question chooses the
    room; each size is a cache of its own, and only a clean start goes from one to another. With a `twist` the sweep is
    none of those that a description can have:

    order   the pointer goes through the sets of a bank in steps of five
    ahead   having taken its lines it runs on to the next set that is not empty
    oldest  there is no pointer: the lines go that came first, whatever their set
    """

    def __init__(self, cache, random):
        self._cache = cache
        self._set_of = index_function(cache["index"])
        self._random = random
        self._twist = cache["sweep"].get("twist")
        self._sets_of_bank = len(cache["ways"]) // cache["sweep"]["banks"]
        self.choose(None)
        self.power_on()

    def choose(self, carveout_kb):
        stores = {None: self._cache["store_lines"]}
        stores |= {carveout["carveout_kb"]: carveout["store_lines"] for carveout in self._cache["carveouts"]}
        self._room = stores[carveout_kb] // self._cache["sweep"]["banks"]

    def power_on(self):
        ways = self._cache["ways"]
        self._policies = make_policies(self._cache["replacement"], ways, Chance(self._random))
        for policy in self._policies:
            policy.power_on()
        self._lines = [[None] * count for count in ways]  # by set and way
        self._sectors = {}  # by line: those that are there
        self._held = [0] * len(ways)  # lines, by set
        self._invalid = [0] * len(ways)  # lines that nobody finds any more and that keep their room
        self._held_in_bank = [0] * self._cache["sweep"]["banks"]
        self._pointers = [0] * self._cache["sweep"]["banks"]

    def invalidate(self):
        held, invalid = self._held_in_bank, [old + new for old, new in zip(self._invalid, self._held)]
        pointers = self._pointers
        self.power_on()
        self._held_in_bank, self._invalid, self._pointers = held, invalid, pointers

    def play(self, offsets):
        return [self._load(self._cache["address_of_buffer"] + offset) for offset in offsets]

    def _load(self, address):
        line, sector = address // self._cache["line_bytes"], address // self._cache["sector_bytes"]
        number = self._set_of(address)
        lines, policy, sweep = self._lines[number], self._policies[number], self._cache["sweep"]
        bank = number // self._sets_of_bank
        was_full = self._held_in_bank[bank] >= self._room
        if line in lines:
            policy.hit(lines.index(line))
            miss = sector not in self._sectors[line]
            self._sectors[line].add(sector)
            if was_full:
                stays = miss or sweep.get("keeps_hit_line", False)
                self._sweep(bank, sweep["lines_on_hit"], line if stays else None, counts_first=True)
            return int(miss)
        replaces, reuses = None not in lines, False
        if replaces:
            way = policy.replace()
            del self._sectors[lines[way]]
        else:
            way = lines.index(None)
            policy.fill(way)
            self._held[number] += 1
            if self._invalid[number]:
                self._invalid[number] -= 1
                reuses = True
            else:
                self._held_in_bank[bank] += 1
        lines[way] = line
        self._sectors[line] = {sector}
        if was_full:
            quota = sweep["lines_on_replacement" if replaces or reuses else "lines_on_fill"]
            self._sweep(bank, quota, line, counts_first=reuses)
        return 1

    def _take(self, number, way):
        line = self._lines[number][way]
        self._policies[number].forget(way)
        del self._sectors[line]
        self._lines[number][way] = None
        self._held[number] -= 1
        self._held_in_bank[number // self._sets_of_bank] -= 1

    def _sweep(self, bank, quota, awaited, counts_first):
        if self._twist == "oldest":
            self._take_oldest(bank, quota, awaited)
            return
        first, count = bank * self._sets_of_bank, self._sets_of_bank
        taken = passed = 0
        while taken < quota and passed < 2 * count:
            place = self._pointers[bank]
            number = first + (place * 5 % count if self._twist == "order" else place)
            self._pointers[bank] = (place + 1) % count
            passed += 1
            if self._invalid[number]:
                self._invalid[number] -= 1
                self._held_in_bank[bank] -= 1
                taken += 1
                continue
            if not self._held[number]:
                continue
            way = self._policies[number].next_out()
            if self._lines[number][way] != awaited:
                self._take(number, way)
                taken += 1
            elif counts_first or taken:
                taken += 1
        held = [self._held[number] + self._invalid[number] for number in range(first, first + count)]
        if not any(held[self._pointers[bank] :]):
            self._pointers[bank] = 0
        elif self._twist == "ahead":
            while not held[self._pointers[bank]]:
                self._pointers[bank] += 1

    def _take_oldest(self, bank, quota, awaited):
        for line in list(self._sectors):  # in the order in which they came
            number = self._set_of(line * self._cache["line_bytes"])
            if quota and line != awaited and number // self._sets_of_bank == bank:
                self._take(number, self._lines[number].index(line))
                quota -= 1
