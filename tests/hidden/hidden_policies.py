# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Every replacement policy of the schema gpuinfer/1 for a single set, written from its definition, and some others.

A policy hears of a hit of a way, of the fill of a free way (the lowest one), and is asked to replace: it names the way
that goes, and the new line lies there. state() is everything that decides what comes next, and go_to() brings it back.
Chance comes from outside, so that a comparison of two policies can decide it.
"""

from bisect import bisect
from collections import OrderedDict
from itertools import accumulate


class Chance:
    def __init__(self, random):
        self._random = random

    def one_of(self, count):
        """True once in `count` times."""
        return self._random.random() * count < 1

    def below(self, count):
        return int(self._random.random() * count)

    def pick(self, cumulative):
        """A place in a list of cumulative weights."""
        return bisect(cumulative, self._random.random() * cumulative[-1])


def is_true(parameter):
    return parameter in (True, "true")


class Policy:
    """Of one set; `parameters` as in the schema. The attributes named in PARTS are its state."""

    PARTS = ()

    def __init__(self, ways, parameters, chance):
        self.ways = ways
        self.parameters = parameters
        self.chance = chance
        self.power_on()

    def power_on(self):
        pass

    def hit(self, way):
        pass

    def fill(self, way):
        """A line was placed in a free way."""

    def replace(self):
        """The way that goes and is filled anew."""
        raise NotImplementedError

    def state(self):
        parts = (getattr(self, part) for part in self.PARTS)
        return tuple(part if isinstance(part, (int, tuple)) else tuple(part) for part in parts)

    def go_to(self, state):
        for part, value in zip(self.PARTS, state):
            setattr(self, part, list(value) if isinstance(value, tuple) else value)


class Recency(Policy):
    """LRU: the ways in an order, the next victim first."""

    PARTS = ("order",)

    def power_on(self):
        self.order = OrderedDict.fromkeys(range(self.ways))

    def go_to(self, state):
        self.order = OrderedDict.fromkeys(state[0])

    def hit(self, way):
        self.order.move_to_end(way)

    def fill(self, way):
        self.order.move_to_end(way)

    def replace(self):
        way = next(iter(self.order))
        self.fill(way)
        return way


class Fifo(Recency):
    def hit(self, way):
        pass


class Lip(Recency):
    def fill(self, way):
        self.order.move_to_end(way, last=False)


class ResettingSlru(Policy):
    """Segmented LRU with the victim named ahead, of an H200: docs/h200-l1.md."""

    PARTS = ("plain", "guarded", "named")

    def power_on(self):
        self.plain, self.guarded, self.named = [], [], 0

    def _first(self):
        return (self.plain + self.guarded)[0]

    def hit(self, way):
        if self.guarded[-1:] == [way]:
            self.plain, self.guarded = self.plain + self.guarded[:-1], [way]
        else:
            self.plain = [other for other in self.plain if other != way]
            self.guarded = [other for other in self.guarded if other != way] + [way]
        if self.named == way:
            self.named = self._first()

    def fill(self, way):
        self.plain = [other for other in self.plain if other != way] + [way]
        self.guarded = [other for other in self.guarded if other != way]
        if len(self.plain) + len(self.guarded) == self.ways:
            self.named = ([other for other in self.plain + self.guarded if other != way] or [way])[0]

    def replace(self):
        way = self.named
        self.fill(way)
        return way

    def next_out(self):
        """The way that a pointer takes, of a set that holds a line but need not be full."""
        return self.named if len(self.plain) + len(self.guarded) == self.ways else self._first()

    def forget(self, way):
        self.plain = [other for other in self.plain if other != way]
        self.guarded = [other for other in self.guarded if other != way]


class Slru(Policy):
    """Karedla, Love and Wherry 1994: a hit protects a line, and the oldest of too many that are protected is so no more."""

    PARTS = ("probationary", "protected")

    def power_on(self):
        self.probationary, self.protected = [], []

    def _take_out(self, way):
        self.probationary = [other for other in self.probationary if other != way]
        self.protected = [other for other in self.protected if other != way]

    def hit(self, way):
        self._take_out(way)
        self.protected.append(way)
        if len(self.protected) > self.parameters["protected_ways"]:
            self.probationary.append(self.protected.pop(0))

    def fill(self, way):
        self._take_out(way)
        self.probationary.append(way)

    def replace(self):
        way = (self.probationary + self.protected)[0]
        self.fill(way)
        return way


class Bip(Recency):
    def fill(self, way):
        self.order.move_to_end(way, last=self.chance.one_of(self.parameters.get("one_in", 32)))


class Plru(Policy):
    """Nodes by number, in preorder; a path is the list of (node, side on which the way lies)."""

    PARTS = ("points",)

    def __init__(self, ways, parameters, chance):
        self.paths, self.children, self.way_at = {}, [], {}
        self.leaves = list(range(ways))
        if parameters.get("order") == "reversed":
            self.leaves.reverse()
        self.split = parameters.get("split", "balanced")
        self.root = self._grow(self.leaves, [])
        super().__init__(ways, parameters, chance)

    def _left_of(self, count):
        if self.split == "balanced":
            return (count + 1) // 2
        left = 1
        while left * 2 < count:
            left *= 2
        return left

    def _grow(self, leaves, path):
        if len(leaves) == 1:
            self.paths[leaves[0]] = path
            return ("leaf", leaves[0])
        node, left = len(self.children), self._left_of(len(leaves))
        self.children.append(None)
        self.children[node] = (
            self._grow(leaves[:left], [*path, (node, 0)]),
            self._grow(leaves[left:], [*path, (node, 1)]),
        )
        return ("node", node)

    def power_on(self):
        self.points = [0] * len(self.children)

    def hit(self, way):
        points = self.points
        for node, side in self.paths[way]:
            points[node] = 1 - side

    fill = hit

    def replace(self):
        kind, number = self.root
        while kind == "node":
            kind, number = self.children[number][self.points[number]]
        self.hit(number)
        return number


class Nru(Policy):
    PARTS = ("marked", "last", "pointer")

    def power_on(self):
        self.marked = [0] * self.ways
        self.last = -1
        self.pointer = 0
        self.keep_last = is_true(self.parameters.get("keep_last"))
        self.on_access = self.parameters.get("clear") == "on_access"
        self.rule = self.parameters.get("victim", "first")
        self.order = self.parameters.get("order", range(self.ways))

    def state(self):
        # Which way was last matters only where its mark can outlive the others.
        return (tuple(self.marked), self.last if self.keep_last else -1, self.pointer)

    def _clear(self):
        self.marked = [0] * self.ways
        if self.keep_last and self.last >= 0:
            self.marked[self.last] = 1

    def hit(self, way):
        self.marked[way] = 1
        self.last = way
        if self.on_access and 0 not in self.marked:
            self._clear()

    fill = hit

    def replace(self):
        if 0 not in self.marked:
            self._clear()
        order = self.order
        if self.rule == "rotating":
            order = [*range(self.pointer, self.ways), *range(self.pointer)]
        # In a set of one way the kept mark leaves none without.
        way = next((way for way in order if not self.marked[way]), 0)
        self.pointer = (way + 1) % self.ways if self.rule == "rotating" else 0
        self.hit(way)
        return way


class Mru(Policy):
    PARTS = ("last",)

    def power_on(self):
        self.last = 0
        self.of_fill = self.parameters.get("of") == "fill"

    def hit(self, way):
        if not self.of_fill:
            self.last = way

    def fill(self, way):
        self.last = way

    def replace(self):
        return self.last


class Clock(Policy):
    PARTS = ("marked", "hand")

    def power_on(self):
        self.marked = [0] * self.ways
        self.hand = 0
        self.mark_of_fill = int(is_true(self.parameters.get("mark_fill", True)))

    def hit(self, way):
        self.marked[way] = 1

    def fill(self, way):
        self.marked[way] = self.mark_of_fill

    def replace(self):
        while self.marked[self.hand]:
            self.marked[self.hand] = 0
            self.hand = (self.hand + 1) % self.ways
        way = self.hand
        self.hand = (way + 1) % self.ways
        self.fill(way)
        return way


class Srrip(Policy):
    PARTS = ("predictions",)

    def power_on(self):
        self.distant = 2 ** self.parameters.get("bits", 2) - 1
        self.by_frequency = self.parameters.get("promotion") == "frequency"
        self.predictions = [self.distant] * self.ways

    def hit(self, way):
        self.predictions[way] = max(0, self.predictions[way] - 1) if self.by_frequency else 0

    def fill(self, way):
        self.predictions[way] = self.distant - 1

    def replace(self):
        while self.distant not in self.predictions:
            self.predictions = [prediction + 1 for prediction in self.predictions]
        way = self.predictions.index(self.distant)
        self.fill(way)
        return way


class Brrip(Srrip):
    def fill(self, way):
        self.predictions[way] = self.distant - self.chance.one_of(self.parameters.get("one_in", 32))


class Qlru(Policy):
    PARTS = ("ages",)

    def power_on(self):
        hit, fill, rule, update, *on_miss = self.parameters["variant"].split("_")
        self.after_hit = [0, 0, int(hit[2]), int(hit[1])]
        self.after_fill = int(fill[1])
        self.from_the_top = rule == "R2"
        self.update = update
        self.on_miss_only = bool(on_miss)
        self.ages = [3] * self.ways

    def _grow_older(self, accessed):
        """`accessed`: the way accessed last; None where the line that is accessed lies in no way yet."""
        if 3 in self.ages:
            return
        years = 1 if self.update in ("U2", "U3") else 3 - max(self.ages)
        for way in range(self.ways):
            if way != accessed or self.update in ("U0", "U2"):
                self.ages[way] += years

    def hit(self, way):
        self.ages[way] = self.after_hit[self.ages[way]]
        if not self.on_miss_only:
            self._grow_older(way)

    def fill(self, way):
        self.ages[way] = self.after_fill
        if not self.on_miss_only:
            self._grow_older(way)

    def replace(self):
        if self.on_miss_only:
            self._grow_older(None)
        candidates = [way for way, age in enumerate(self.ages) if age == 3] or range(self.ways)
        way = candidates[-1 if self.from_the_top else 0]
        self.fill(way)
        return way


class Permutation(Policy):
    PARTS = ("at",)  # position -> way

    def power_on(self):
        self.at = list(range(self.ways))[::-1]

    def _move(self, to):
        at = [0] * self.ways
        for position, way in enumerate(self.at):
            at[to[position]] = way
        self.at = at

    def hit(self, way):
        self._move(self.parameters["hits"][self.at.index(way)])

    def fill(self, way):
        position = self.at.index(way)
        self.at[position], self.at[-1] = self.at[-1], way
        self._move(self.parameters["miss"])

    def replace(self):
        way = self.at[-1]
        self.fill(way)
        return way


class Random(Policy):
    def replace(self):
        return self.chance.below(self.ways)


class WeightedRandom(Policy):
    def power_on(self):
        self.cumulative = list(accumulate(self.parameters["victim_weights"]))

    def replace(self):
        return self.chance.pick(self.cumulative)


class Fermi(Policy):
    PARTS = ("odd",)  # whether the last replacement was the 1st, 3rd, ...

    def power_on(self):
        self.odd = 0

    def replace(self):
        favoured = self.parameters["favoured_way"]
        self.odd = 1 - self.odd
        if not self.odd:
            return favoured
        return [way for way in range(self.ways) if way != favoured][self.chance.below(self.ways - 1)]


class FavouredFifo(Policy):
    """One way goes every second time; the others go in turn, but a hit on the next of them lets it go last."""

    PARTS = ("odd", "order")

    def power_on(self):
        self.odd = 0  # whether the last replacement was the 1st, 3rd, ...
        self.order = [int(way) for way in self.parameters["others"]]

    def hit(self, way):
        if self.order[0] == way:
            self.order[0], self.order[-1] = self.order[-1], self.order[0]

    def replace(self):
        self.odd = 1 - self.odd
        if self.odd:
            return self.parameters["favoured_way"]
        self.order.append(self.order.pop(0))
        return self.order[-1]


class Automaton(Policy):
    PARTS = ("at",)

    def power_on(self):
        self.at = self.parameters.get("start", 0)

    def hit(self, way):
        self.at = self.parameters["hits"][self.at][way]

    def fill(self, way):
        if "fills" in self.parameters:
            self.at = self.parameters["fills"][self.at]
        else:
            self.hit(way)

    def replace(self):
        way = self.parameters["victims"][self.at]
        self.at = self.parameters["misses"][self.at]
        return way


# Policies that the library does not have.


class Middle(Recency):
    """A new line enters at `position` from the next victim; a hit moves a line `step` places away from it."""

    PARTS = ("order",)

    def power_on(self):
        self.order = list(range(self.ways))

    def go_to(self, state):
        self.order = list(state[0])

    def _put(self, way, position):
        self.order.remove(way)
        self.order.insert(position, way)

    def hit(self, way):
        self._put(way, self.order.index(way) + self.parameters["step"])

    def fill(self, way):
        self._put(way, self.parameters["position"])


class SecondHit(Recency):
    """As LIP, but only the second hit since the fill makes a line the most recent one, and every hit after it."""

    PARTS = ("order", "hits")

    def power_on(self):
        super().power_on()
        self.hits = [0] * self.ways

    def go_to(self, state):
        super().go_to(state)
        self.hits = list(state[1])

    def hit(self, way):
        self.hits[way] = min(2, self.hits[way] + 1)
        if self.hits[way] == 2:
            self.order.move_to_end(way)

    def fill(self, way):
        self.hits[way] = 0
        self.order.move_to_end(way, last=False)


class Alternating(Recency):
    """LRU, but every `period`-th new line is the next victim."""

    PARTS = ("order", "count")

    def power_on(self):
        super().power_on()
        self.count = 0

    def go_to(self, state):
        super().go_to(state)
        self.count = state[1]

    def fill(self, way):
        self.count = (self.count + 1) % self.parameters["period"]
        self.order.move_to_end(way, last=self.count != 0)


class LeastFrequent(Policy):
    """The line with the fewest hits goes, of several the lowest way. All counts are halved when one exceeds `most`."""

    PARTS = ("counts",)

    def power_on(self):
        self.counts = [0] * self.ways

    def hit(self, way):
        self.counts[way] += 1
        if self.counts[way] > self.parameters["most"]:
            self.counts = [count // 2 for count in self.counts]

    def fill(self, way):
        self.counts[way] = 0

    def replace(self):
        way = self.counts.index(min(self.counts))
        self.fill(way)
        return way


class Stream:
    """A sequence of numbers that repeats; every cache has one."""

    def __init__(self, numbers):
        self._numbers = numbers
        self.next = 0

    def draw(self):
        number = self._numbers[self.next]
        self.next = (self.next + 1) % len(self._numbers)
        return number


def shift_register(bits, taps, seed):
    """All values of a linear feedback shift register, in order, until it comes back to `seed`."""
    values, register = [], seed
    while True:
        values.append(register)
        register = register >> 1 ^ (taps if register & 1 else 0)
        if register == seed or len(values) > 1 << bits:
            return values


class Periodic(Policy):
    """Victims from a stream that all sets of a cache draw from, and that begins anew at power-on."""

    def __init__(self, ways, parameters, chance, stream=None):
        self.stream = stream or Stream(parameters["stream"])
        super().__init__(ways, parameters, chance)

    def power_on(self):
        self.stream.next = 0

    def state(self):
        return (self.stream.next,)

    def go_to(self, state):
        (self.stream.next,) = state

    def replace(self):
        return self.stream.draw() % self.ways


class Duel:
    """The counter of a cache with dueling sets (Qureshi et al., ISCA 2007, section 5): above 0, LIP misses less."""

    def __init__(self, most):
        self._most = most
        self.value = 0

    def add(self, misses):
        self.value = max(-self._most, min(self._most, self.value + misses))


class Dueling(Recency):
    """Some sets always insert new lines as LRU does, some as LIP does, and the others as those that miss less."""

    def __init__(self, ways, parameters, chance, number=0, duel=None):
        self.duel = duel or Duel(parameters["most"])
        self.role = number % parameters["one_leader_in"]
        super().__init__(ways, parameters, chance)

    def power_on(self):
        super().power_on()
        self.duel.value = 0

    def fill(self, way):
        low = self.duel.value > 0
        if self.role == 0:
            low = False
            self.duel.add(1)
        elif self.role == 1:
            low = True
            self.duel.add(-1)
        self.order.move_to_end(way, last=not low)


LIBRARY = {
    "lru": Recency,
    "fifo": Fifo,
    "lip": Lip,
    "resetting_slru": ResettingSlru,
    "slru": Slru,
    "bip": Bip,
    "plru": Plru,
    "nru": Nru,
    "mru": Mru,
    "clock": Clock,
    "srrip": Srrip,
    "brrip": Brrip,
    "qlru": Qlru,
    "permutation": Permutation,
    "random": Random,
    "weighted_random": WeightedRandom,
    "fermi": Fermi,
    "favoured_fifo": FavouredFifo,
    "automaton": Automaton,
}
OTHERS = {
    "middle": Middle,
    "second_hit": SecondHit,
    "alternating": Alternating,
    "least_frequent": LeastFrequent,
    "periodic": Periodic,
    "dueling": Dueling,
}


def make_policy(replacement, ways, chance):
    """For one set."""
    return {**LIBRARY, **OTHERS}[replacement["policy"]](ways, replacement, chance)


def make_policies(replacement, ways, chance):
    """For all sets of a cache; `ways` has one entry for each."""
    if replacement["policy"] == "periodic":
        stream = Stream(replacement["stream"])
        return [Periodic(count, replacement, chance, stream) for count in ways]
    if replacement["policy"] == "dueling":
        duel = Duel(replacement["most"])
        return [Dueling(count, replacement, chance, number, duel) for number, count in enumerate(ways)]
    return [make_policy(replacement, count, chance) for count in ways]
