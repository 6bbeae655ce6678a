# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Draws devices for unkind_device, which depart from every plain description, and judges what is said of them.

`truth` of a device is as hidden_misleading.py has it: what may be resolved, and how. `departures` says of some leaves how
often the device departs from an ideal that is near it: then the ideal may be resolved only with a bound that leaves as
much open. `identifiable` lists the leaves of `truth` that answers decide, where these are not all.
"""

import json
import math
import subprocess

from hidden_draw import draw_noise, log_uniform
from hidden_misleading import GEOMETRY, NO_NOISE, SOUND_LEAVES, judge_misleading

MASK = (1 << 64) - 1
RARE = (16, 32, 64, 128, 256, 512, 1024)
DEPARTING_SHARE = 1.0
ONE_SET = {"kind": "bits", "bits": []}  # as profiles write the index of a cache without sets
RUNS = 24  # of a cache of chance, on each side


def hash_of(value, key):
    """As in unkind_device.cpp."""
    value = (value + key + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def set_of_line(index, line):
    """As class Index of unkind_device.cpp has it."""
    sets = index["sets"]
    number = (line >> index.get("shift", 0)) % sets
    if index.get("rows"):
        number = sum(((line & mask).bit_count() & 1) << row for row, mask in enumerate(index["rows"]))
    bits = index.get("and_bits", ())
    if bits and all(line >> bit & 1 for bit in bits):
        number = (number + 1) % sets
    if index.get("odd_one_in") and hash_of(line, index["salt"]) % index["odd_one_in"] == 0:
        number = (number + 1) % sets
    return index["names"][number] if index.get("names") else number


def described_index(spec):
    """The set of every line of the buffer, as a table."""
    line, first = spec["line_bytes"], spec["address_of_buffer"] // spec["line_bytes"]
    numbers = range(first, first + spec["buffer_bytes"] // line)
    return {
        "kind": "table",
        "granule_bytes": line,
        "sets_of": [set_of_line(spec["index"], number) for number in numbers],
        "origin": spec["address_of_buffer"],
        "range_bytes": spec["buffer_bytes"],
    }


def draw_rows(rng, count, highest):
    return [1 << row | sum(1 << bit for bit in rng.sample(range(count, highest), rng.randint(0, 3))) for row in range(count)]


def sets_cache(rng, most_lines, policy, least_sets=1, least_ways=2):
    """A sound cache of sets, with everything about it true."""
    line = rng.choice((32, 64, 128))
    sets = rng.choice([count for count in (1, 2, 4, 8, 16, 32) if least_sets <= count <= most_lines // least_ways])
    most_ways = max(least_ways, min(24, most_lines // sets))
    ways = log_uniform(rng, least_ways, most_ways)
    if policy == "plru":
        ways = rng.choice([count for count in (2, 4, 8, 16) if least_ways <= count <= most_ways])
    buffer_bytes = max(1 << 16, 1 << (16 * sets * ways * line - 1).bit_length())
    hit, gap = rng.randint(20, 200), rng.randint(80, 300)
    index = {"sets": sets, "shift": rng.choice((0, 0, 1))}
    if sets > 1 and rng.random() < 0.4:
        index = {"sets": sets, "rows": draw_rows(rng, sets.bit_length() - 1, (buffer_bytes // line).bit_length() - 1)}
    return {
        "structure": "sets",
        "target": "L1tex",
        "line_bytes": line,
        "sector_bytes": line,
        "ways": [ways] * sets,
        "index": index,
        "policy": policy,
        "buffer_bytes": buffer_bytes,
        "address_of_buffer": rng.choice((0, rng.randrange(1 << 10) * buffer_bytes)),
        "latency_cycles": {"hit": hit, "miss": hit + gap},
        "noise": draw_noise(rng, "medium", gap) if rng.random() < 0.5 else NO_NOISE,
        "refused_states": rng.choice(((), (), (), (), ("clean",), ("invalidated",))),
        "truth": dict.fromkeys(GEOMETRY),
        "departures": {},
    }


def departures_that_show(spec):
    """How often, of all fills: a random victim is at times the one that would have gone anyway."""
    depart = spec["depart"]
    return 1 / depart["one_in"] * (1 - 1 / spec["ways"][0] if depart["how"] == "random_victim" else 1)


def draw_departing(rng, most_lines):
    """One fill in so many does not do as the others."""
    policy = rng.choice(("lru", "lru", "plru", "fifo"))
    how = rng.choice(("bypass", "lru_end", "random_victim"))
    spec = sets_cache(rng, most_lines, policy, least_ways=4)
    one_in = rng.choice(RARE)
    spec["depart"] = {"how": how, "by": rng.choice(("chance", "chance", "counter")), "one_in": one_in}
    # In a tree, and where the first in goes first whatever it is hit, an insertion at the end may change nothing.
    return spec | {"departures": {"replacement": departures_that_show(spec)}}


def share_of_lines(spec, one_in, salt):
    """Of those of the buffer, as these are the ones that can be asked about."""
    first, lines = (spec[key] // spec["line_bytes"] for key in ("address_of_buffer", "buffer_bytes"))
    return sum(hash_of(line, salt) % one_in == 0 for line in range(first, first + lines)) / lines


def draw_signature(rng, most_lines):
    spec = sets_cache(rng, most_lines, "lru", least_ways=4)
    one_in = rng.choice((64, 256, 256, 512))
    salt = rng.randrange(1, 1 << 32)
    spec["depart"] = {"how": "lru_end", "by": "signature", "one_in": one_in, "salt": salt}
    return spec | {"departures": {"replacement": share_of_lines(spec, one_in, salt)}}


def draw_odd_lines(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo", "plru")), least_sets=2)
    one_in = rng.choice((256, 1024, 2048))
    spec["index"] |= {"odd_one_in": one_in, "salt": rng.randrange(1, 1 << 32)}
    departures = {"index": share_of_lines(spec, one_in, spec["index"]["salt"])}
    return spec | {"departures": departures, "truth": dict.fromkeys((*GEOMETRY, "replacement"))}


def draw_and_bits(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo", "plru")), least_sets=2)
    bits = (spec["buffer_bytes"] // spec["line_bytes"]).bit_length() - 1
    spec["index"]["and_bits"] = rng.sample(range(max(0, bits - 7), bits), rng.randint(2, 4))
    departures = {"index": 1 / (1 << len(spec["index"]["and_bits"]))}
    return spec | {"departures": departures, "truth": dict.fromkeys((*GEOMETRY, "replacement"))}


def draw_coins(rng, most_lines):
    """Bimodal insertion whose rare line goes to the middle, or that has a coin for either place."""
    spec = sets_cache(rng, most_lines, "bip", least_ways=6)
    spec["middle_one_in"] = rng.choice((8, 16, 32))
    spec["one_in"] = rng.choice((0, 0, 16, 32))
    return spec


def draw_sparing(rng, most_lines):
    spec = sets_cache(rng, most_lines, "random", least_ways=4)
    spec["spared"] = rng.choice((0.1, 0.2, 0.3, 0.5))
    return spec


def draw_skewed(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "random")), least_sets=4)
    ways = rng.randint(2, 4)
    lines = len(spec["ways"])
    truth = {**dict.fromkeys(SOUND_LEAVES), "capacity_bytes": [ways * lines * spec["line_bytes"]]}
    return spec | {"structure": "skewed", "skewed_ways": ways, "lines_of_way": lines, "truth": truth}


def identifiable_under_keys(spec):
    """Of a cache whose key changes after so many misses. It is full of lines of one key only if that many misses come
    under it. The ways are the lines of a set that overflows: of all subsets of as many lines as fit one is asked for, each
    question says yes or no, and has as many misses as lines fit, since under another key nothing is left of the set."""
    lines, ways, every = sum(spec["ways"]), spec["ways"][0], spec["every"]
    bits = math.log2(math.comb(lines, min(ways, lines - 1)))
    leaves = [*SOUND_LEAVES]
    if every >= lines:
        leaves.append("capacity_bytes")
    if every >= bits * lines:
        leaves.append("ways")
    return leaves


def draw_rekeyed(rng, most_lines):
    spec = sets_cache(rng, most_lines, "lru", least_sets=4)
    every = rng.choice((100, 1000, 5000, 20_000))
    spec |= {"structure": "rekeyed", "every": every, "truth": dict.fromkeys((*SOUND_LEAVES, "capacity_bytes", "ways"))}
    return spec | {"identifiable": identifiable_under_keys(spec)}


def draw_partial(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo")), least_sets=2)
    bits = (spec["buffer_bytes"] // spec["line_bytes"]).bit_length() - 1
    spec["index"] = {"sets": spec["index"]["sets"]}
    # A load far away hits, so what a miss brings has no size.
    truth = dict.fromkeys((*GEOMETRY, "replacement"))
    return spec | {"structure": "partial", "line_number_bits": bits - rng.randint(1, 2), "truth": truth}


def draw_partitioned(rng, most_lines):
    """An address bit says which ways a line may take: sets of two sizes."""
    spec = sets_cache(rng, most_lines // 2, rng.choice(("lru", "fifo")), least_sets=2, least_ways=4)
    sets, ways = len(spec["ways"]), spec["ways"][0]
    bits = (spec["buffer_bytes"] // spec["line_bytes"]).bit_length() - 1
    bit = rng.randrange(sets.bit_length() - 1, bits)
    spec["index"] = {"sets": 2 * sets, "rows": [1 << row for row in range(sets.bit_length() - 1)] + [1 << bit]}
    part = rng.randint(1, ways - 1)
    return spec | {"ways": [part] * sets + [ways - part] * sets, "truth": dict.fromkeys((*GEOMETRY, "replacement"))}


def draw_prefetching(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo", "plru")), least_sets=2)
    trigger = rng.choice(({"one_in_misses": rng.choice(RARE)}, {"one_in_misses": 1, "after_ascending": rng.randint(1, 3)}))
    departures = dict.fromkeys(("replacement", "fill"), 1 / trigger["one_in_misses"])
    truth = {"truth": spec["truth"] | {"fill": []}}
    return spec | trigger | truth | {"structure": "prefetching", "departures": departures}


def draw_changing(rng, most_lines):
    """Either size may be said of it, as it may have been asked at that one only. Neither is one that answers decide, and
    no policy drops what a set loses when it shrinks; to which set a line goes stays the same."""
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo")))
    ways = spec["ways"][0]
    every = rng.choice((500, 2000, 10_000, 50_000))
    fewer = rng.randint(1, ways - 1)
    sets = len(spec["ways"])
    sizes = [sets * count * spec["line_bytes"] for count in (ways, fewer)]
    truth = {**dict.fromkeys((*SOUND_LEAVES, "index", "replacement")), "capacity_bytes": sizes}
    truth["ways"] = [[count] * sets for count in (ways, fewer)] + [{"sets": sets, "each": count} for count in (ways, fewer)]
    return spec | {"structure": "changing", "every": every, "fewer_ways": fewer, "truth": truth, "never_predicted": True} | {
        "identifiable": [*SOUND_LEAVES, "index"]
    }


def draw_inclusive(rng, most_lines):
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "plru")), least_sets=2)
    sets, ways = len(spec["ways"]), spec["ways"][0]
    outer_sets = sets * rng.choice((2, 4))
    outer_ways = max(2, (ways + 1) // rng.choice((1, 2)))
    # Under an index that nests, a set that holds all lines of its outer sets never evicts: these are what is seen then.
    if "rows" not in spec["index"] and outer_sets // sets * outer_ways <= ways:
        outer_ways = ways
    spec["outer"] = {"index": {"sets": outer_sets}, "policy": "lru", "ways": [outer_ways] * outer_sets}
    return spec | {"structure": "inclusive", "departures": {"replacement": 1, "index": 1}}


def draw_decoupled(rng, most_lines):
    spec = sets_cache(rng, most_lines, "lru", least_sets=2, least_ways=4)
    lines = sum(spec["ways"])
    # A set with as many tags as the store has lines would never be full.
    store = max(spec["ways"][0] + 1, int(lines * rng.uniform(0.4, 0.8)))
    truth = {**dict.fromkeys(SOUND_LEAVES), "capacity_bytes": [store * spec["line_bytes"]]}
    # Lines without data have no tag here. So where each set has as many tags as the store has lines, tags evict nothing:
    # the device is one set of the store's lines, whatever its index is.
    if store <= min(spec["ways"]):
        truth |= dict.fromkeys(("ways", "index"))
        spec["acts_as"] = {"ways": [store], "index": ONE_SET}
    spec["departures"] = dict.fromkeys(("ways", "index", "replacement"), DEPARTING_SHARE)
    return spec | {"structure": "decoupled", "store_lines": store, "store_victim": rng.choice(("first", "random")), "truth": truth}


def draw_behind(rng, kind):
    """A level behind a nearer one: a TLB of pages."""
    page = 2 << 20
    near_lines, near_page = rng.choice((16, 16, 32)), rng.choice((page, page // 2))
    ways = rng.choice((2, 4, 8))
    spec = {
        "structure": "sets",
        "target": "L2TLB",
        "line_bytes": page,
        "sector_bytes": page,
        "policy": rng.choice(("lru", "lru", "fifo")),
        "address_of_buffer": rng.choice((0, 64 << 30)),
        "latency_cycles": {"hit": 293, "miss": 385},
        "nearer": {"lines": near_lines, "line_bytes": near_page, "hit_cycles": 283},
        "noise": NO_NOISE | {"jitter_cycles": rng.choice((0, 1, 2))},
        "refused_states": ("clean",),
        "departures": {},
        "truth": dict.fromkeys((*GEOMETRY, "replacement")),
    }
    sets = rng.choice([count for count in (4, 8, 16, 32, 64, 128) if count * ways >= 5 * near_lines])
    index, all_ways = {"sets": sets}, [ways] * sets
    if kind == "departing":
        one_in = rng.choice(RARE)
        spec["depart"] = {"how": rng.choice(("bypass", "lru_end", "random_victim")), "by": "chance", "one_in": one_in}
        spec["departures"] = {"replacement": departures_that_show(spec | {"ways": all_ways})}
    elif kind == "partitioned":
        low = sets.bit_length() - 1
        index = {"sets": 2 * sets, "rows": [1 << row for row in range(low)] + [1 << low + rng.randint(0, 2)]}
        part = rng.randint(1, ways)
        all_ways = [part] * sets + [2 * ways - part] * sets
    elif kind == "rekeyed":
        spec |= {"structure": "rekeyed", "every": rng.choice((100, 1000, 5000)), "policy": "lru"}
        spec["truth"] = dict.fromkeys((*SOUND_LEAVES, "capacity_bytes", "ways"))
    elif kind == "skewed":
        spec |= {"structure": "skewed", "skewed_ways": ways, "lines_of_way": sets, "policy": "lru"}
        spec["truth"] = {**dict.fromkeys(SOUND_LEAVES), "capacity_bytes": [ways * sets * page]}
    elif kind == "unequal":
        sets = rng.choice((5, 7, 8, 16))
        index, all_ways = {"sets": sets}, [ways + (rng.randint(0, 2 * ways + 1) if rng.random() < 0.4 else 0) for _ in range(sets)]
        while sum(all_ways) < 5 * near_lines:
            all_ways = [count + 2 for count in all_ways]
        if len(set(all_ways)) == 1:
            all_ways[0] = 2 * all_ways[0] + 1
    elif kind == "merged":
        bits = rng.randint(3, 4)
        ways = 8
        names = [max(0, bucket - 1) for bucket in range(1 << bits)]
        rows = [1 << row | (1 << row + bits if rng.random() < 0.7 else 0) for row in range(bits)]
        index = {"sets": 1 << bits, "rows": rows, "names": names}
        all_ways = [2 * ways + rng.randint(-1, 1)] + [ways] * ((1 << bits) - 2)
    elif kind == "hashed":
        bits = sets.bit_length() - 1
        rows = [1 << row | 1 << row + bits | (1 << row + 2 * bits if rng.random() < 0.5 else 0) for row in range(bits)]
        index, all_ways = {"sets": sets, "rows": rows}, [ways] * sets
    lines = sum(all_ways)
    if kind == "rekeyed":
        spec["identifiable"] = identifiable_under_keys(spec | {"ways": all_ways})
    return spec | {"index": index, "ways": all_ways, "buffer_bytes": 1 << (8 * lines * page - 1).bit_length()}


def draw_two_latencies(rng, most_lines):
    """A miss takes longer where it evicts a line, or where it misses in a cache behind of two or four times the size."""
    spec = sets_cache(rng, most_lines, rng.choice(("lru", "fifo", "plru")))
    spec["truth"] = dict.fromkeys((*GEOMETRY, "replacement"))
    more = rng.randint(40, 200)
    spec["most_miss_cycles"] = spec["latency_cycles"]["miss"] + more
    if rng.random() < 0.5:
        return spec | {"eviction_cycles": more}
    sets, ways = len(spec["ways"]), spec["ways"][0]
    behind = {"index": {"sets": sets * rng.choice((2, 4))}, "policy": "lru", "miss_cycles": more}
    return spec | {"farther": behind | {"ways": [ways] * behind["index"]["sets"]}}


def draw_idle_sectors(rng, most_lines):
    """A sector that is missed comes into its line and leaves the order of the lines as it is."""
    spec = sets_cache(rng, most_lines, "lru")
    spec["sector_bytes"] = spec["line_bytes"] // rng.choice((2, 4))
    return spec | {"sectors_idle": True, "departures": {"replacement": DEPARTING_SHARE}}


KINDS = {
    "departing": draw_departing,
    "signature": draw_signature,
    "odd-lines": draw_odd_lines,
    "and-bits": draw_and_bits,
    "coins": draw_coins,
    "sparing": draw_sparing,
    "skewed": draw_skewed,
    "rekeyed": draw_rekeyed,
    "partial-tags": draw_partial,
    "partitioned": draw_partitioned,
    "prefetching": draw_prefetching,
    "changing": draw_changing,
    "inclusive": draw_inclusive,
    "decoupled": draw_decoupled,
    "two-latencies": draw_two_latencies,
    "idle-sectors": draw_idle_sectors,
}
BEHIND = ("equal", "unequal", "merged", "hashed", "departing", "partitioned", "rekeyed", "skewed")
ALL_KINDS = (*KINDS, *(f"behind-{kind}" for kind in BEHIND))


def draw_unkind(rng, kind, most_lines):
    spec = draw_behind(rng, kind.removeprefix("behind-")) if kind not in KINDS else KINDS[kind](rng, most_lines)
    return spec | {"kind": kind, "seed": rng.randrange(1 << 32)}


def sequences(spec, rng):
    """Offsets by name: cyclic, scattered, hot and cold, and long ones."""
    line = spec["line_bytes"]
    lines = spec["buffer_bytes"] // line
    held = max(2, min(sum(spec["ways"]), lines // 3))
    drawn = {}
    for more in (1, max(1, held // 8), max(2, held // 2)):
        count = held + more
        drawn[f"cyclic {count} lines"] = [number * line for number in range(count)] * max(2, 4000 // count)
    pool = rng.sample(range(lines), min(lines, 2 * held))
    drawn["scattered"] = [rng.choice(pool) * line for _ in range(5000)]
    hot = pool[: max(1, held // 2)]
    drawn["hot and cold"] = [(rng.choice(hot) if rng.random() < 0.6 else rng.randrange(lines)) * line for _ in range(6000)]
    near = pool[: held + max(1, held // 4)]
    drawn["long"] = [rng.choice(near) * line for _ in range(20_000)]
    return drawn


def played_by_truth(device, spec_file, offsets):
    text = "\n".join(json.dumps(each) for each in offsets) + "\n"
    done = subprocess.run([device, spec_file, "--play"], input=text, capture_output=True, text=True, check=True)
    return done.stdout.split()


def played_by_profile(gpuinfer, profile_file, spec, offsets, scratch, seed=1):
    scratch.write_text("offset\n" + "\n".join(map(str, offsets)) + "\n")
    command = [gpuinfer, "simulate", profile_file, "--target", spec["target"], "--sequence", f"csv:{scratch}", "--strip"]
    command += ["--address", str(spec["address_of_buffer"]), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    strip = "".join(line.split()[1] for line in done.stdout.splitlines() if line.strip())
    return strip.replace("s", "M")


def wrong_predictions(profile_file, cache, spec, tools, scratch, rng):
    """What a profile that is resolved predicts otherwise than it is, or None; by misses where chance has a part. Loads that
    a nearer level answers never reach the cache."""
    policy = cache["replacement"]["policy"]
    by_chance = policy in ("random", "weighted_random", "bip", "brrip") or cache["replacement"].get("others") == "random"
    named = sequences(spec, rng)
    runs = RUNS if by_chance else 1
    names = list(named) if not by_chance else list(named)[1::2]
    truth = played_by_truth(tools["device"], tools["spec"], [named[name] for name in names for _ in range(runs)])
    for place, name in enumerate(names):
        there = truth[place * runs : (place + 1) * runs]
        reaching = [offset for offset, outcome in zip(named[name], there[0]) if outcome != "n"]
        there = [strip.replace("n", "") for strip in there]
        found = [
            played_by_profile(tools["gpuinfer"], profile_file, spec, reaching, scratch, seed + 1) for seed in range(runs)
        ]
        if not by_chance:
            differing = sum(a != b for a, b in zip(there[0], found[0]))
            if differing:
                return f"{1 - differing / len(found[0]):.4f} of {name} predicted"
            continue
        means, variance = [], 0
        for strips in (there, found):
            misses = [strip.count("M") for strip in strips]
            means.append(sum(misses) / runs)
            variance += sum((count - means[-1]) ** 2 for count in misses) / (runs - 1) / runs
        if abs(means[0] - means[1]) > 6 * max(1, variance) ** 0.5:
            return f"{means[1]:.0f} misses of {name} predicted instead of {means[0]:.0f}"
    return None


def rate_is_told(profile, spec):
    """Of a device that departs by chance or by a counter: whether the ideal near it is named, with an interval that holds
    how often it departs; None where no rate is told, or none is true."""
    mostly = profile["evidence"][spec["target"]].get("replacement", {}).get("mostly")
    if mostly is None or spec.get("depart", {}).get("by") not in ("chance", "counter"):
        return None
    most = 1 / spec["depart"]["one_in"]
    low, high = mostly["departs"]
    return mostly["policy"] == spec["policy"] and low <= most and departures_that_show(spec) <= high


def judge_unkind(profile, profile_file, spec, tools, scratch, rng):
    """({leaf: what is wrong}, {leaf: status where it is not resolved})."""
    target = spec["target"]
    judged = spec | {"index": described_index(spec) if spec["structure"] not in ("skewed", "rekeyed") else ONE_SET}
    judged["replacement"] = {"policy": spec["policy"]}
    judged |= spec.get("acts_as", {})
    wrong, open_leaves = judge_misleading(profile, target, judged)
    cache, evidence = profile["caches"][target], profile["evidence"][target]
    # Of misses that differ, the median may be that of either kind.
    miss = cache["latency_cycles"].get("miss") or 0
    if spec["latency_cycles"]["miss"] - 1 <= miss <= spec.get("most_miss_cycles", 0) + 1:
        wrong.pop("latency_cycles", None)
    bounds = {leaf: (evidence.get(leaf, {}).get("bound") or {}).get("departures_below", 0) for leaf in spec["departures"]}
    excused = {leaf for leaf, rate in spec["departures"].items() if rate < bounds[leaf]}
    wrong = {leaf: problem for leaf, problem in wrong.items() if leaf not in excused}
    complete = not {"line_bytes", "ways", "index", "replacement"} & set(open_leaves)
    if complete and not excused:
        problem = wrong_predictions(profile_file, cache, spec, tools, scratch, rng)
        if problem:
            wrong["prediction"] = problem
        elif not spec.get("never_predicted"):
            # It may do as another one does: a tree may not care where a line is inserted.
            for leaf in spec["departures"]:
                wrong.pop(leaf, None)
    return wrong, open_leaves
