# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what gpuinfer says about a hidden cache with what the cache is."""

import math
from random import Random

from hidden_alike import canonical, difference, draws_victims, is_deterministic, read_text
from hidden_index import index_function

LEAVES = ("capacity_bytes", "line_bytes", "sector_bytes", "ways", "index", "replacement", "latency_cycles")
SWEPT_LEAVES = ("store_lines", "sweep", "carveouts")
SAMPLED_LINES = 20_000
LATENCY_TOLERANCE = 0.02
COMPARED_WAYS = 4
LATE = 0.9  # share of all accesses


def to_text(replacement, most=160):
    parameters = (f"{name}={value}" for name, value in replacement.items() if name != "policy")
    text = " ".join([replacement["policy"], *parameters])
    return text if len(text) <= most else text[:most] + "..."


def sampled_addresses(spec):
    """One load in each line of the buffer, or in SAMPLED_LINES of them."""
    rng = Random(1)
    line, lines = spec["line_bytes"], spec["buffer_bytes"] // spec["line_bytes"]
    chosen = range(lines) if lines <= SAMPLED_LINES else rng.sample(range(lines), SAMPLED_LINES)
    return [spec["address_of_buffer"] + number * line + rng.randrange(0, line, 4) for number in chosen]


def matched_sets(index, spec):
    """true set -> found set; None when the two split the addresses differently."""
    true_set, found_set = index_function(spec["index"]), index_function(index)
    match, inverse = {}, {}
    for address in sampled_addresses(spec):
        true, found = true_set(address), found_set(address)
        if found is None:  # outside the range that the profile speaks of
            continue
        if match.setdefault(true, found) != found or inverse.setdefault(found, true) != true:
            return None
    return match


def wrong_index(found, spec, _profile, _evidence):
    match = matched_sets(found, spec)
    if match is None:
        return "splits the addresses differently"
    if "sweep" in spec:
        if "twist" in spec["sweep"]:
            return "is no order in which a pointer sweeps the sets"
        # A pointer goes through the sets of a bank in order; what the banks are called says nothing.
        of_bank = len(spec["ways"]) // spec["sweep"]["banks"]
        banks = {(true // of_bank, there // of_bank) for true, there in match.items()}
        if len(banks) > spec["sweep"]["banks"] or any(true % of_bank != there % of_bank for true, there in match.items()):
            return "orders the sets of a bank differently"
    return None


def ways_of_sets(ways):
    """One number for each set, also where equal ones are counted."""
    return [ways["each"]] * ways["sets"] if isinstance(ways, dict) else ways


def wrong_ways(found, spec, profile, _evidence):
    found, true = ways_of_sets(found), spec["ways"]
    if sorted(found) != sorted(true):
        return f"{found} instead of {true}"
    match = matched_sets(profile["index"], spec) if profile.get("index") else None
    if match and any(found[there] != true[here] for here, there in match.items()):
        return f"{found} instead of {true} as the sets are matched"
    return None


def compared_ways(ways):
    """The numbers of ways at which policies are compared: all, or the ends and some between."""
    counts = sorted(set(ways))
    return counts if len(counts) <= COMPARED_WAYS else [*counts[: COMPARED_WAYS - 1], counts[-1]]


def wrong_policy(names, true, spec, depth):
    """Why one of the policies `names` is not `true`; None where all are."""
    for name in names:
        for ways in compared_ways(spec["ways"]):
            if problem := difference(name, true, ways, spec["refused_states"], depth):
                return f"{to_text(name)} instead of {to_text(true)}: {problem}"
    return None


def true_policies(spec):
    """Policies that a description may name; none where no single one describes the cache."""
    true = spec["replacement"]
    if true["policy"] == "dueling":
        return []
    if true["policy"] == "periodic" and len(spec["ways"]) > 1:
        return []  # the sets share the sequence
    if "drift" not in spec:
        return [true]
    drifted = spec["drift"]["after_accesses"] / (spec["accesses_asked"] or 1)
    if drifted >= 1:
        return [true]
    # A change among the last questions may come after all those that bear on the policy.
    return [spec["drift"]["replacement"]] + ([true] if drifted >= LATE else [])


def wrong_replacement(found, spec, _profile, evidence):
    names = [canonical(found), *map(read_text, found.get("equivalent") or [])]
    depth = evidence.get("equivalent_for_accesses")
    problems = [wrong_policy(names, true, spec, depth) for true in true_policies(spec)]
    if not problems:
        return f"{to_text(names[0])} where no single policy describes all sets: {to_text(spec['replacement'])}"
    return None if None in problems else problems[0]


def latency_tolerance(true, noise):
    """A cycle or LATENCY_TOLERANCE, and as far as misreads, which lie far off on one side, move the median of what is
    timed."""
    share_misread, sigma = noise.get("misread_probability", 0), noise.get("jitter_cycles", 0)
    return max(1, LATENCY_TOLERANCE * true) + sigma * share_misread * math.sqrt(math.pi / 2)


def wrong_latency(found, spec, _profile, _evidence):
    true, noise = spec["latency_cycles"], spec.get("noise", {})
    if any(abs(found[level] - true[level]) > latency_tolerance(true[level], noise) for level in ("hit", "miss")):
        return f"{found} instead of {true}"
    return None


def wrong_number(leaf):
    def wrong(found, spec, _profile, _evidence):
        true = spec.get(leaf, sum(spec["ways"]) * spec["line_bytes"])
        return None if found == true else f"{found} instead of {true}"

    return wrong


def wrong_as_given(leaf):
    def wrong(found, spec, _profile, _evidence):
        return None if found == spec[leaf] else f"{found} instead of {spec[leaf]}"

    return wrong


def wrong_stores(found, spec, _profile, _evidence):
    stores = {carveout["carveout_kb"]: carveout["store_lines"] for carveout in spec["carveouts"]}
    said = {carveout["carveout_kb"]: carveout["store_lines"] for carveout in found}
    return None if said == stores else f"{said} instead of {stores}"


WRONG = {
    "capacity_bytes": wrong_number("capacity_bytes"),
    "line_bytes": wrong_number("line_bytes"),
    "sector_bytes": wrong_number("sector_bytes"),
    "ways": wrong_ways,
    "index": wrong_index,
    "replacement": wrong_replacement,
    "latency_cycles": wrong_latency,
    "store_lines": wrong_as_given("store_lines"),
    "sweep": wrong_as_given("sweep"),
    "carveouts": wrong_stores,
}


def is_known(value):
    return any(is_known(part) for part in value.values()) if isinstance(value, dict) else value is not None


def is_hit_alone(leaf, value):
    """What a hit takes may be known where the misses come from several levels."""
    return leaf == "latency_cycles" and value.get("hit") is not None and value.get("miss") is None


def judge(profile, target, spec):
    """({leaf: what is wrong}, {leaf: why it is not resolved})."""
    cache, evidence = profile["caches"][target], profile["evidence"][target]
    wrong, unresolved = {}, {}
    for leaf in LEAVES + (SWEPT_LEAVES if "sweep" in spec else ()):
        value, known = cache.get(leaf), evidence.get(leaf, {})
        status = known.get("status", "absent")
        if status != "resolved":
            unresolved[leaf] = f"{status}: {known.get('reason', '')}"
            if is_known(value) and not is_hit_alone(leaf, value):
                wrong[leaf] = f"is {status} and yet has the value {value}"
        elif not is_known(value):
            wrong[leaf] = "is resolved and yet has no value"
        elif problem := WRONG[leaf](value, spec, cache, known):
            wrong[leaf] = problem
    return wrong, unresolved


def untrue_evidence(profile, target, spec):
    """What is said of the policy beside its value and is not true."""
    evidence = profile["evidence"][target].get("replacement", {})
    ways = max(spec["ways"])
    if "drift" in spec or spec["replacement"]["policy"] == "dueling" or ways == 1:
        return []
    true = spec["replacement"]
    untrue = []
    if evidence.get("deterministic") not in (None, is_deterministic(true, ways)):
        untrue.append(f"deterministic is {evidence['deterministic']}")
    alternatives = [canonical(one) for one in evidence.get("alternatives") or [] if isinstance(one, dict)]
    # Weights that are left open may be any.
    open_weights = {"policy": "weighted_random"} in alternatives and draws_victims(true, ways)
    named = [one for one in alternatives if one != {"policy": "weighted_random"}]
    if alternatives and not open_weights and all(wrong_policy([one], true, spec, None) for one in named):
        untrue.append(f"none of the alternatives {', '.join(map(to_text, alternatives))}")
    return untrue


def stated_confidences(profile, target):
    """{leaf: confidence} of those leaves that are resolved and say how sure they are."""
    evidence = profile["evidence"][target]
    return {
        leaf: evidence[leaf]["confidence"]
        for leaf in LEAVES
        if evidence.get(leaf, {}).get("status") == "resolved" and evidence[leaf].get("confidence") is not None
    }
