#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Lets gpuinfer find out what stores do to random caches that it knows nothing of, and judges what it says of that.

A line for each device about which something is wrong or not resolved, totals at the end; exit status 1 when anything is
wrong or too few of the identifiable devices have `store` resolved.
"""

import sys
from collections import defaultdict

from hidden_draw import draw
from hidden_runner import Judged, parse_arguments, run_all

FAMILIES = ("through, passing", "through, allocating", "back, passing", "back, allocating", "back, cleaned")
CLEANED_WAYS = range(4, 33)  # sets of more ways are not asked for it


def draw_rule(rng, spec, family):
    """Where stores allocate, half fetch and half leave masks."""
    is_cleaned = family.endswith("cleaned")
    write, allocates = family.split(", ")[0], is_cleaned or family.endswith("allocating")
    rule = {"allocate": allocates, "write": write, "touches": rng.random() < 0.5}
    # A line that goes, and never came for what was stored, is not written back.
    rule["evicts"] = rng.random() < 0.1 and (allocates or write == "through")
    if allocates:
        line, sector = spec["line_bytes"], spec["sector_bytes"]
        rule["fetches"] = rng.random() < 0.5
        if rule["fetches"]:
            sizes = [sector << more for more in range(7) if line % (sector << more) == 0]
        else:
            sizes = [4 << more for more in range(12) if sector % (4 << more) == 0]
        rule["granule_bytes"] = rng.choice(sizes)
    if is_cleaned:
        rule |= {"touches": True, "evicts": False}
        ways = min(spec["ways"])
        shows_partial = not rule["fetches"] and rule["granule_bytes"] > 4
        rule["cleaning"] = {
            # Where few may be dirty, an oldest line hardly ever is, which is all that shows.
            "dirty_lines": rng.randint(max(2, ways // 3), max(2, ways // 2)),
            "partial_lines": rng.randint(1, ways // 2) if shows_partial else 1,
        }
    return rule


def draw_storing(rng, most_lines):
    """A cache of the library, with chance or without, of which all that loads show can be told."""
    family = rng.choice(FAMILIES)
    while True:
        spec = draw(rng, {"library": 1}, most_lines)
        is_cleaned = family.endswith("cleaned")
        if spec["sector_bytes"] % 4 == 0 and (not is_cleaned or all(ways in CLEANED_WAYS for ways in spec["ways"])):
            break
    rule = draw_rule(rng, spec, family)
    if "cleaning" in rule:
        spec["replacement"] = {"policy": "lru"}
    latency = spec["latency_cycles"]
    if rule["write"] == "back" and rng.random() < 0.8:
        jitter = spec["noise"]["jitter_cycles"]
        latency["dirty_miss"] = latency["miss"] + rng.randint(round(8 + 2 * jitter), round(60 + 4 * jitter))
    return spec | {"store": rule, "family": family, "seed": rng.randrange(1 << 32)}


def wrong_members(found, spec):
    """Members that have a value, and another one than the cache."""
    rule = spec["store"]
    true = {"allocate": rule["allocate"], "write": rule["write"], "evicts": rule["evicts"]}
    if not rule["evicts"]:
        true["touches"] = rule["touches"]
    if rule["allocate"]:
        true |= {"fetches": rule["fetches"], "granule_bytes": rule["granule_bytes"]}
    if "cleaning" in rule:
        true["cleaning"] = rule["cleaning"]
    known = {name: value for name, value in found.items() if value is not None} | {"evicts": found.get("evicts", False)}
    return {name: f"{value} instead of {true.get(name)}" for name, value in known.items() if value != true.get(name)}


class JudgedStores(Judged):
    leaves = ("store",)

    def wrong_parts(self, leaf, found):
        return {f"store.{name}": says for name, says in wrong_members(found, self.spec).items()}


def report(all_judged, options):
    rows = defaultdict(list)
    for judged in all_judged:
        rows[judged.spec["family"]].append(judged)
    print(f"  {'':<20} {'devices':>7} {'wrong':>6} {'identifiable':>13} {'resolved':>9} {'of the policy':>14}")
    for family in FAMILIES:
        identifiable = [judged for judged in rows[family] if judged.is_identifiable]
        policies = sum("replacement" not in judged.verdict.unresolved for judged in identifiable)
        resolved = sum(judged.is_resolved("store") for judged in identifiable)
        print(
            f"  {family:<20} {len(rows[family]):7} {sum(len(judged.wrong) for judged in rows[family]):6} "
            f"{len(identifiable):13} {resolved:9} {policies:14}"
        )
    wrong = sum(len(judged.wrong) for judged in all_judged)
    identifiable = [judged for judged in all_judged if judged.is_known_besides]
    resolved = sum(judged.is_resolved("store") for judged in identifiable)
    share = resolved / len(identifiable) if identifiable else 1
    slow = [each for each in identifiable if "dirty_miss" in each.spec["latency_cycles"] and each.is_resolved("store")]
    told = sum(judged.found["store"]["write"] == "back" for judged in slow)
    print(f"seed {options.seed}: {len(all_judged)} devices, of {len(identifiable)} all that loads show is resolved")
    print(f"wrong: {wrong} (must be 0)")
    print(f"with `store` resolved: {resolved} = {share:.1%} (must be at least {options.resolved:.0%})")
    print(f"written back so that loads wait: {len(slow)}, {told} of them told")
    return wrong == 0 and share >= options.resolved


def main():
    options = parse_arguments(__doc__, "`store`")
    return 0 if report(run_all(options, draw_storing, JudgedStores), options) else 1


if __name__ == "__main__":
    sys.exit(main())
