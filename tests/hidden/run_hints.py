#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out what loads with eviction hints do to random caches, and judges what it says of that.

Of some the hints do something that no rule has: of these nothing may be resolved. A line for each device about which
something is wrong or not resolved, totals at the end; exit status 1 when anything is wrong or too few of `hints` and
`set_asides` that can be told are resolved.
"""

import sys
from collections import defaultdict

from hidden_draw import (
    NOISE_LEVELS,
    REFUSALS,
    cannot_be_emptied,
    draw_address,
    draw_noise,
    draw_xor,
    log_uniform,
    weighted,
)
from hidden_runner import Judged, parse_arguments, run_all

STEP_BYTES = 4096  # to which sizes that are set aside are told
SET_COUNTS = (1, 2, 4, 8, 16, 32)
WAYS = range(4, 17)
BY_A_RULE = "by a rule"
DEVIATING_SHARE = 0.3
# What of the hints has to do anything for a deviation to show.
DEVIATIONS = {
    "wears off": "last",
    "first in the middle": "first",
    "youngest first": "first",
    "dropped": "first",
    "unchanged brings": "unchanged",
    "refused": "last",
    "of the cache": "last",
    "coin": "any",
    "odd set": "any",
}
OF_SETS = ("of the cache", "odd set")  # these show where there are several


def draw_rule(rng, ways, kind):
    shows = DEVIATIONS.get(kind)
    # The order of ordinary lines shows where several are not protected.
    most_protected = ways // 2 if shows in ("first", "unchanged") else ways - 1
    while True:
        protected = rng.choice((0, rng.randint(1, most_protected)))
        rule = {
            "first_goes_next": rng.random() < 0.5,
            "unchanged_keeps_place": rng.random() < 0.5,
            "protected_ways": protected,
            "loads_unprotect": protected > 0 and kind != "wears off" and rng.random() < 0.5,
        }
        does = {"first": rule["first_goes_next"], "unchanged": rule["unchanged_keeps_place"], "last": protected > 0}
        if shows is None or does.get(shows, any(does.values())):
            return rule


def draw_deviation(rng, kind, ways, sets):
    deviation = {"kind": kind}
    if kind == "wears off":
        # Fewer are hardly ever enough for an ordinary line to go.
        deviation["misses"] = rng.randint(ways, 2 * ways)
    elif kind == "of the cache":
        deviation["lines"] = rng.randint(2, ways)
    elif kind == "coin":
        deviation["one_in"] = 8
    elif kind == "odd set":
        deviation["set"] = rng.randrange(sets)
    return deviation


def draw_set_asides(rng, ways):
    numbers = sorted(rng.sample(range(ways), rng.randint(1, min(ways, 8))))
    largest = log_uniform(rng, len(numbers), 4096)
    steps = [*sorted(rng.sample(range(largest), len(numbers) - 1)), largest]
    return [{"bytes": step * STEP_BYTES, "protected_ways": number} for step, number in zip(steps, numbers)]


def draw_index(rng, line_bytes, sets, buffer_bytes, address):
    lowest, count = line_bytes.bit_length() - 1, sets.bit_length() - 1
    if count > 0 and rng.random() < 0.5:
        return draw_xor(rng, lowest, count, buffer_bytes.bit_length() - 1, address)
    return {"kind": "bits", "bits": rng.sample(range(lowest, lowest + count + 3), count)}


def draw_hinted(rng, most_lines):
    """LRU, of which all that loads show can be told."""
    kind = rng.choice(list(DEVIATIONS)) if rng.random() < DEVIATING_SHARE else None
    ways = rng.choice(WAYS)
    fewest = 2 if kind in OF_SETS else 1
    sets = rng.choice([count for count in SET_COUNTS if fewest <= count <= max(fewest, most_lines // ways)])
    line = rng.choice((32, 64, 128))
    buffer_bytes = 1 << max(16, (8 * sets * ways * line - 1).bit_length()) + rng.choice((0, 1))
    address = draw_address(rng, buffer_bytes)
    hit, gap = rng.randint(20, 300), rng.randint(60, 500)
    level = weighted(rng, NOISE_LEVELS)
    spec = {
        "category": "library",
        "family": kind or BY_A_RULE,
        "noise_level": level,
        "line_bytes": line,
        "sector_bytes": rng.choice([size for size in (32, 64, line, line) if size <= line]),
        "ways": [ways] * sets,
        "index": draw_index(rng, line, sets, buffer_bytes, address),
        "replacement": {"policy": "lru"},
        "hints": draw_rule(rng, ways, kind),
        "buffer_bytes": buffer_bytes,
        "address_of_buffer": address,
        "latency_cycles": {"hit": hit, "miss": hit + gap},
        "noise": draw_noise(rng, level, gap),
        "refused_states": weighted(rng, REFUSALS),
        "seed": rng.randrange(1 << 32),
    }
    if kind:
        spec["deviation"] = draw_deviation(rng, kind, ways, sets)
    if rng.random() < 0.7:
        spec["set_asides"] = draw_set_asides(rng, ways)
    return spec


class JudgedHints(Judged):
    leaves = ("hints", "set_asides")

    def expected(self):
        rule = self.spec["hints"]
        # Where protected lines stay for ever a single line may be another one.
        is_left_one = rule["protected_ways"] == self.spec["ways"][0] - 1 and not rule["loads_unprotect"]
        if "deviation" in self.spec or (is_left_one and cannot_be_emptied(self.spec)):
            return ()
        return self.leaves if rule["protected_ways"] > 0 and "set_asides" in self.spec else ("hints",)

    def wrong_parts(self, leaf, found):
        if "deviation" in self.spec:
            return {leaf: f"is {found} where no rule has {self.spec['deviation']}"}
        true = self.spec.get(leaf)
        return {} if found == true else {leaf: f"{found} instead of {true}"}


def report(all_judged, options):
    print(f"  {'':<20} {'devices':>7} {'wrong':>6} {'identifiable':>13} {'hints':>13} {'set_asides':>13}")
    rows, told = defaultdict(list), defaultdict(list)
    for judged in all_judged:
        rows[judged.spec["family"]].append(judged)
    for family in (BY_A_RULE, *DEVIATIONS):
        known = [judged for judged in rows[family] if judged.is_known_besides]
        for leaf in JudgedHints.leaves:
            told[family, leaf] = [judged.is_resolved(leaf) for judged in known if leaf in judged.expected()]
        shares = [f"{sum(each)} of {len(each)}" for each in (told[family, leaf] for leaf in JudgedHints.leaves)]
        wrong = sum(len(judged.wrong) for judged in rows[family])
        print(f"  {family:<20} {len(rows[family]):7} {wrong:6} {len(known):13} {shares[0]:>13} {shares[1]:>13}")
    wrong = sum(len(judged.wrong) for judged in all_judged)
    expected = [is_resolved for leaves in told.values() for is_resolved in leaves]
    share = sum(expected) / len(expected) if expected else 1
    known = sum(judged.is_known_besides for judged in all_judged)
    print(f"seed {options.seed}: {len(all_judged)} devices, of {known} all that loads show is resolved")
    print(f"wrong: {wrong} (must be 0)")
    print(f"resolved of what can be told: {sum(expected)} of {len(expected)} = {share:.1%}", end=" ")
    print(f"(must be at least {options.resolved:.0%})")
    return wrong == 0 and share >= options.resolved


def main():
    options = parse_arguments(__doc__, "`hints` and `set_asides`")
    return 0 if report(run_all(options, draw_hinted, JudgedHints), options) else 1


if __name__ == "__main__":
    sys.exit(main())
