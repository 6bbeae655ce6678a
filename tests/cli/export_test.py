# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Every format, read by what is written here and not by the program that wrote it."""

import csv
import io
import json
import pathlib
import re
import sys
import types
import unittest.mock

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = sorted(ROOT.glob("configs/devices/*.yaml"))
PROFILES = sorted(ROOT.glob("data/h200/*.yaml"))
FORMATS = ["gpgpusim", "accelsim", "accelsim-tuner", "mt4g", "ppt-gpu", "json", "csv", "latex", "markdown"]
CACHE_OPTIONS = (
    "-gpgpu_cache:dl1",
    "-gpgpu_cache:dl2",
    "-gpgpu_cache:il1",
    "-gpgpu_tex_cache:l1",
    "-gpgpu_const_cache:l1",
)
TEXTURE = [96, 96, 96, 96]


def is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0


class Cache:
    """ct:nset:line:assoc,rp:wp:ap:wap:sif,mshr:entries:merge,mq[:rf][,port], or ValueError."""

    FORM = re.compile(
        r"([NS]):(\d+):(\d+):(\d+),([LF]):([RBTEL]):([mfs]):([NWFL]):([LXPH]),"
        r"([ASFT]):(\d+):(\d+),(\d+)(?::(\d+))?(?:,(\d+))?"
    )

    def __init__(self, text, option):
        found = self.FORM.fullmatch(text)
        if not found:
            raise ValueError(f"{option}: {text} has another form")
        fields = [field for field in found.groups() if field is not None]
        for field in fields:
            if field.isdigit() and str(int(field)) != field:
                raise ValueError(f"{option}: {field} is read as octal")
        self.type, sets, line, ways, self.replacement, self.write, self.allocate = fields[:7]
        self.sets, self.line, self.ways = int(sets), int(line), int(ways)
        self.write_allocate, self.index, self.mshr = fields[7:10]
        self.entries, self.merges = int(fields[10]), int(fields[11])
        self.fields = len(fields)
        problems = {
            "sets or line that are no power of two": not is_power_of_two(self.sets) or not is_power_of_two(self.line),
            "no ways": self.ways == 0,
            "no MSHRs": self.entries == 0 or self.merges == 0,
            "sectors need lines of 128": self.type == "S" and self.line != 128,
            "write back allocates on misses": self.write == "B" and self.allocate != "m",
            "fetches need room": self.write_allocate in "FL" and self.allocate != "m",
            "polynomials": self.index == "P" and self.sets not in (16, 32, 64),
            "Fermi": self.index == "H" and self.sets not in (32, 64),
            "textures": (option == "-gpgpu_tex_cache:l1") != (self.mshr in "FT"),
            "texture fields": option == "-gpgpu_tex_cache:l1"
            and (self.fields != 14 or self.write != "R" or self.allocate != "m"),
            "port": found.group(15) is not None and int(found.group(15)) and self.line % int(found.group(15)) != 0,
        }
        for problem, is_there in problems.items():
            if is_there:
                raise ValueError(f"{option}: {text}: {problem}")

    @property
    def bytes(self):
        return self.sets * self.line * self.ways


def options_of(text):
    """The options of a configuration; the last value counts."""
    options = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.split(" ")
            options[name] = value
    return options


def waits_right(cache, option, l2_in_sectors):
    """Whether a cache waits for as many answers as it gets (docs/simulators.md has the rules)."""
    one, several = "FT" if option == "-gpgpu_tex_cache:l1" else "AS"
    if not l2_in_sectors or cache.type == "S":
        return cache.mshr == one
    if cache.line == 32 and cache.write != "R":
        return cache.mshr == one
    return cache.mshr == several and (cache.line == 128 or (cache.line == 64 and cache.write == "R"))


def caches_of(text):
    options = options_of(text)
    found = {}
    for name in CACHE_OPTIONS:
        if name in options and options[name] != "none":
            found[name] = Cache(options[name], name)
    if options.get("-gpgpu_cache:dl1") == "none":
        assert options["-gpgpu_flush_l1_cache"] == "0", text
    # A base has an L2 in sectors.
    in_sectors = "-gpgpu_cache:dl2" not in found or found["-gpgpu_cache:dl2"].type == "S"
    for name, cache in found.items():
        assert name == "-gpgpu_cache:dl2" or waits_right(cache, name, in_sectors), (name, text)
    # The simulator asserts this whenever the size of both together is set.
    together = int(options.get("-gpgpu_unified_l1d_size", 0))
    if together:
        assert together % (found["-gpgpu_cache:dl1"].bytes // 1024) == 0, text
        assert [int(kb) for kb in options["-gpgpu_shmem_option"].split(",")][-1] <= together
    return found


def adaptive_sizes(options):
    """Carve-out in KB -> bytes of L1, in the arithmetic of the simulator."""
    cache = Cache(options["-gpgpu_cache:dl1"], "-gpgpu_cache:dl1")
    together = int(options["-gpgpu_unified_l1d_size"])
    ways = together // (cache.bytes // 1024) * cache.ways
    carveouts = [int(kb) for kb in options["-gpgpu_shmem_option"].split(",")]
    return {kb: cache.sets * cache.line * int(ways * (1 - kb / together) + 0.5) for kb in carveouts}


# A configuration as somebody may have it.
BASE = """# caches
-gpgpu_n_clusters 80
-gpgpu_n_mem 32   # channels
-gpgpu_n_sub_partition_per_mchannel 2
-gpgpu_clock_domains 1132.0:1132.0:1132.0:850.0
-gpgpu_flush_l1_cache 1
-gpgpu_perfect_inst_const_cache 1
-gpgpu_cache:dl1  S:4:128:64,L:T:m:L:L,A:512:8,16:0,32
-gpgpu_cache:dl2 S:32:128:24,L:B:m:L:P,A:192:4,32:0,32
-gpgpu_cache:il1 N:64:128:16,L:R:f:N:L,S:2:48,4
-gpgpu_tex_cache:l1 N:4:128:256,L:R:m:N:L,T:512:8,128:2
-gpgpu_const_cache:l1 N:128:64:8,L:R:f:N:L,S:2:64,4
-gpgpu_l1_latency 20
-dram_latency 100
-gpgpu_dram_timing_opt "nbk=16:CCD=1:RRD=3:RCD=12:RAS=28:
                        CL=12:WL=2"
"""


def lru_misses(addresses, counted_from, line_bytes, sets_of, ways):
    """Of one LRU cache whose lines come whole; sets_of(address of a line) -> set, ways of each set."""
    lines_of = [[] for _ in ways]
    misses = 0
    for position, address in enumerate(addresses):
        line = address // line_bytes
        index = sets_of(line * line_bytes)
        if line in lines_of[index]:
            lines_of[index].remove(line)
        else:
            misses += position >= counted_from
            if len(lines_of[index]) == ways[index]:
                lines_of[index].pop(0)
        lines_of[index].append(line)
    return misses


def split_mix(seed):
    """SplitMix64, from the paper: Steele, Lea, Flood 2014."""
    word = 2**64 - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & word
        mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & word
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & word
        yield mixed ^ (mixed >> 31)


def named_stream(seed, name):
    """As model::RandomStreams draws them: by the name, hashed (FNV-1a)."""
    hashed = 0xCBF29CE484222325
    for letter in name.encode():
        hashed = (hashed ^ letter) * 0x100000001B3 % 2**64
    return split_mix(next(split_mix(next(split_mix(seed)) ^ hashed)))


class ExportTest(harness.ProgramTest):
    def export(self, profile, form, *options, status=0):
        return self.expect(status, "export", str(profile), "--to", form, *options)

    def document(self, profile, form, *options):
        return json.loads(self.export(profile, form, "--format=json", "--quiet", *options).stdout)

    def cache_file(self, target="L1tex", **leaves):
        """A description of one cache of a GPU with a unified L1."""
        lines = "\n".join(f"    {leaf}: {value}" for leaf, value in leaves.items())
        head = 'schema: gpuinfer/1\ndevice: {name: Odd, source: test, compute_capability: "7.0", sm_count: 2}\n'
        return self.write("odd.yaml", f"{head}caches:\n  {target}:\n{lines}\n")

    def base(self, text=BASE):
        folder = self.folder / "base"
        folder.mkdir(exist_ok=True)
        (folder / "gpgpusim.config").write_text(text)
        (folder / "trace.config").write_text("-trace_opcode_latency_initiation_int 2,2\n")
        return str(folder)

    def over_base(self, profiles, *options, base=BASE):
        done = self.expect(
            0, "export", *map(str, profiles), "--to", "accelsim", "--format=json", "--base", self.base(base), *options
        )  # fmt: skip
        return json.loads(done.stdout)["text"]

    @staticmethod
    def options_over_base(text):
        """By the rules of the simulator: comments go to the end of a line, quotes over several."""
        text = re.sub(r"#.*", "", text)
        return {name: value.strip(' \n"') for name, value in re.findall(r'^(-\S+)\s+("[^"]*"|[^\n]*)', text, re.M)}


class Gpgpusim(ExportTest):
    def test_all_descriptions_follow_the_grammar(self):
        self.assertGreater(len(PUBLISHED), 8)
        self.assertTrue(PROFILES)
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                text = self.export(profile, "gpgpusim", "--quiet").stdout
                caches_of(text)
                for name, value in options_of(text).items():
                    if name not in CACHE_OPTIONS:
                        self.assertRegex(value, r"^(0|[1-9]\d*)(,[1-9]\d*)*$")

    def test_nothing_stands_in_for_what_another_profile_knows(self):
        """Pieces of one device, laid over one another in any order, leave what is known of each cache."""
        known = {"ConstL1": "-gpgpu_const_cache:l1", "L1tex": "-gpgpu_cache:dl1", "L2": "-gpgpu_cache:dl2"}
        for profile in PROFILES:
            options = options_of(self.export(profile, "gpgpusim", "--quiet").stdout)
            caches = json.loads(self.export(profile, "json").stdout)["caches"]
            for target, option in known.items():
                self.assertEqual(option in options, target in caches, (profile.name, option))

    def test_mshrs_fit_every_line(self):
        for l2_sector in (32, 128):
            for target in ("L1D", "L1tex", "ConstL1"):
                for line in (32, 64, 128, 256):
                    for sector in (32, line):
                        with self.subTest(l2_sector=l2_sector, target=target, line=line, sector=sector):
                            cache = {"capacity_bytes": 8192, "line_bytes": line, "sector_bytes": sector}
                            file = pathlib.Path(self.cache_file(target=target, **cache))
                            l2 = f"  L2: {{capacity_bytes: 2097152, line_bytes: 128, sector_bytes: {l2_sector}}}\n"
                            file.write_text(file.read_text() + l2)
                            found = caches_of(self.export(file, "gpgpusim", "--quiet").stdout)
                            self.assertEqual(found["-gpgpu_cache:dl2"].type, "S" if l2_sector == 32 else "N")
                            sizes = [each.bytes for name, each in found.items() if name != "-gpgpu_cache:dl2"]
                            self.assertIn(8192, sizes)

    def test_without_an_l1_there_is_none_to_flush(self):
        options = options_of(self.export("gtx780", "gpgpusim", "--quiet").stdout)
        self.assertEqual([options["-gpgpu_cache:dl1"], options["-gpgpu_flush_l1_cache"]], ["none", "0"])

    def test_texture_cache_of_the_gtx_780(self):
        document = self.document("gtx780", "gpgpusim")
        self.assertIn("\n-gpgpu_tex_cache:l1 N:4:32:96,", document["text"])
        loss = next(loss for loss in document["losses"] if loss["what"] == "index bits 7-8 became 5-6")
        self.assertEqual(loss["where"], "caches.L1tex.index")

        chase = [32 * i for i in range((12288 + 128) // 32)]
        room = [32 * i for i in range(12288 * 3 // 2 // 32)]
        draw = named_stream(1, "loads")
        random = [room[(next(draw) * len(room)) >> 64] for _ in range(20000)]
        aligned = [128 * i for i in range(192)]  # all in one set of the exported cache
        played = ((chase, chase), (room, random), (aligned, aligned))
        for replay, (warm, recorded) in zip(loss["replays"], played, strict=True):
            described, exported = (
                lru_misses(warm + recorded, len(warm), 32, lambda address, bit=bit: address >> bit & 3, TEXTURE)
                for bit in (7, 5)
            )
            self.assertEqual(
                [replay["accesses"], replay["described_misses"], replay["exported_misses"]],
                [len(recorded), described, exported],
            )
        chases = [(replay["described_misses"], replay["exported_misses"]) for replay in loss["replays"][::2]]
        self.assertEqual(chases, [(100, 388), (0, 192)])
        self.assertIn("388 of 388, described 100", " ".join(document["text"].replace("\n#", "").split()))

    def test_lines_of_a_linear_index_lose_nothing_for_loads(self):
        file = self.cache_file(
            capacity_bytes=4096, line_bytes=128, sector_bytes=32, ways=[8] * 4, index="{kind: bits, bits: [8, 7]}",
            replacement="{policy: fifo}", store="{allocate: true, touches: true}",
        )  # fmt: skip
        document = self.document(file, "gpgpusim")
        cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
        self.assertEqual([cache.type, cache.sets, cache.line, cache.ways, cache.replacement], ["S", 4, 128, 8, "F"])
        self.assertEqual([cache.index, cache.write, cache.write_allocate], ["L", "T", "L"])
        own = [loss for loss in document["losses"] if loss["where"].startswith("caches.L1tex.")]
        self.assertEqual(own, [loss for loss in own if "sector" in loss["what"]])  # of the texture cache

    def test_exact_hashes_are_found(self):
        rows = {
            "X": [[7 + i, 12 + i] for i in range(5)],
            # x^(5 + k) modulo x^5 + x^2 + 1: bit 12 + k of the address.
            "P": [[7, 12, 15, 17, 18, 21, 22, 23, 24, 25], [8, 13, 16, 18, 19, 22, 23, 24, 25, 26],
                  [9, 12, 14, 15, 18, 19, 20, 21, 22, 26], [10, 13, 15, 16, 19, 20, 21, 22, 23],
                  [11, 14, 16, 17, 20, 21, 22, 23, 24]],
            "H": [[7, 13], [8, 14], [9, 15], [10, 17], [11, 19]],
        }  # fmt: skip
        for letter, bits in rows.items():
            with self.subTest(letter):
                # The same split, told in another way.
                told = [bits[0], sorted(set(bits[1]) ^ set(bits[0])), *reversed(bits[2:])]
                file = self.cache_file(
                    capacity_bytes=32 * 4 * 128, line_bytes=128, sector_bytes=128, ways=[4] * 32,
                    index=f"{{kind: xor, rows: {told}, constant: 5}}", replacement="{policy: lru}",
                )  # fmt: skip
                document = self.document(file, "gpgpusim")
                self.assertEqual(caches_of(document["text"])["-gpgpu_cache:dl1"].index, letter)
                self.assertNotIn("caches.L1tex.index", [loss["where"] for loss in document["losses"]])

    def test_hashes_are_compared_on_the_bits_that_were_exercised(self):
        """Of the polynomial of 32 sets a buffer of 256 KB shows the rows as far as bit 17."""
        rows = [[7, 12, 15, 17], [8, 13, 16], [9, 12, 14, 15], [10, 13, 15, 16], [11, 14, 16, 17]]
        # An eviction policy that it lacks, so that misses of another loss would decide.
        for exercised, letters in ((list(range(7, 18)), "P"), (list(range(7, 26)), "LXH")):
            file = self.cache_file(
                capacity_bytes=32 * 4 * 128, line_bytes=128, sector_bytes=128, ways=[4] * 32,
                index=f"{{kind: xor, rows: {rows}, constant: 0, exercised_bits: {exercised}}}",
                replacement="{policy: random}",
            )  # fmt: skip
            document = self.document(file, "gpgpusim")
            index = caches_of(document["text"])["-gpgpu_cache:dl1"].index
            told = [loss["where"] for loss in document["losses"]]
            self.assertEqual("caches.L1tex.index" in told, letters != "P")
            if letters == "P":
                self.assertEqual(index, "P")

    def test_what_cannot_be_told_becomes_the_nearest(self):
        lru = "{policy: lru}"
        odd = {
            "unequal": ([17] + 6 * [8], 128, 128, "{kind: modulo, granule_bytes: 128, sets: 7}", lru),
            "three": ([8] * 3, 32, 32, "{kind: modulo, granule_bytes: 32, sets: 3}", lru),
            "line 96": ([4] * 4, 96, 96, "{kind: modulo, granule_bytes: 96, sets: 4}", lru),
            "sector 64": ([4] * 4, 128, 64, "{kind: bits, bits: [7, 8]}", lru),
            "sectors of 64": ([4] * 4, 64, 32, "{kind: bits, bits: [6, 7]}", lru),
            "random": ([4] * 4, 128, 128, "{kind: bits, bits: [7, 8]}", "{policy: random}"),
            "plru": ([4] * 4, 128, 128, "{kind: bits, bits: [7, 8]}", "{policy: plru}"),
            "weights": ([4], 128, 32, "{kind: bits, bits: []}", "{policy: weighted_random, victim_weights: [1, 3, 1, 1]}"),
            "table": ([2] * 4, 128, 128, "{kind: table, granule_bytes: 128, sets_of: [0, 1, 2, 3, 3, 1, 0, 2]}", lru),
            "short table": (
                [2] * 2, 128, 128, "{kind: table, granule_bytes: 128, sets_of: [0, 1, 1, 0], range_bytes: 512}", lru),
            "sum": ([32] * 4, 128, 128, "{kind: sum, fields: [[7, 8], [13, 14]], sets: 4}", lru),
            "xor": ([42] * 4, 128, 32, "{kind: xor, rows: [[7, 9, 11, 12], [8, 10, 11]], constant: 0}", lru),
            "tiny": ([1], 32, 32, "{kind: bits, bits: []}", lru),
        }  # fmt: skip
        for name, (ways, line, sector, index, policy) in odd.items():
            with self.subTest(name):
                file = self.cache_file(
                    capacity_bytes=sum(ways) * line, line_bytes=line, sector_bytes=sector, ways=ways, index=index,
                    replacement=policy,
                )  # fmt: skip
                document = self.document(file, "gpgpusim")
                cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
                self.assertLess(abs(cache.bytes - sum(ways) * line), 0.35 * sum(ways) * line)
                own = [loss for loss in document["losses"] if loss["where"].startswith("caches.L1tex")]
                replays = [replay for loss in own for replay in loss.get("replays", [])]
                if name == "tiny":
                    self.assertEqual(replays, [])
                elif name == "short table":
                    self.assertTrue(any("table" in loss["what"] for loss in own))
                else:
                    self.assertTrue(replays)
                    self.assertTrue(any(replay["described_misses"] != replay["exported_misses"] for replay in replays))

    def test_unequal_sets_are_counted(self):
        ways = [17] + 6 * [8]
        file = self.cache_file(
            capacity_bytes=65 * 128, line_bytes=128, sector_bytes=128, ways=ways,
            index="{kind: modulo, granule_bytes: 128, sets: 7}", replacement="{policy: lru}",
        )  # fmt: skip
        document = self.document(file, "gpgpusim")
        cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
        self.assertEqual((cache.sets, cache.ways), (8, 8))
        replay = next(loss for loss in document["losses"] if loss.get("replays"))["replays"][0]
        chase = [128 * i for i in range(66)]
        self.assertEqual(
            [replay["described_misses"], replay["exported_misses"]],
            [
                lru_misses(chase * 2, 66, 128, lambda address: address // 128 % 7, ways),
                lru_misses(chase * 2, 66, 128, lambda address: address // 128 % 8, [8] * 8),
            ],
        )

    def test_hashes_that_are_none_of_its_own_stay_hashes(self):
        file = self.cache_file(
            capacity_bytes=64 * 8 * 128, line_bytes=128, sector_bytes=32, ways=[8] * 64,
            index="{kind: xor, rows: [[7, 14], [8, 16], [9, 13], [10, 18], [11, 17], [12, 15]], constant: 0}",
            replacement="{policy: lru}",
        )  # fmt: skip
        document = self.document(file, "gpgpusim")
        cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
        self.assertIn(cache.index, "XPH")
        aligned = next(loss for loss in document["losses"] if loss.get("replays"))["replays"][2]
        self.assertEqual((aligned["accesses"], aligned["described_misses"]), (64, 0))

    def test_sizes_without_structure(self):
        for leaves, size in (
            ({"capacity_bytes": 12288}, 12288),
            ({"capacity_bytes": 100}, 128),
            ({"onset_bytes": 21504, "line_bytes": 128}, 20480),  # 4 sets of 128-byte lines
            ({"line_bytes": 32}, 4 * 64 * 32),
        ):
            with self.subTest(leaves):
                known = {"capacity_bytes": "null", **leaves}
                document = self.document(self.cache_file(**known), "gpgpusim")
                self.assertLessEqual(abs(caches_of(document["text"])["-gpgpu_cache:dl1"].bytes - size), 1024)
                self.assertIn("caches.L1tex.ways", [loss["where"] for loss in document["losses"]])

    def test_l2_is_in_parts(self):
        sizes = {"gtx780": 1572864, "gtx980": 2097152, "gtx1080": 2097152}
        for device, size in sizes.items():
            options = options_of(self.export(device, "gpgpusim", "--quiet").stdout)
            parts = int(options["-gpgpu_n_mem"]) * int(options["-gpgpu_n_sub_partition_per_mchannel"])
            self.assertEqual(Cache(options["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2").bytes * parts, size, device)

    def test_assumptions_of_published_devices_are_told(self):
        told = [(loss["where"], loss["what"]) for loss in self.document("gtx780", "gpgpusim")["losses"]]
        for leaf in ("sector_bytes", "ways", "index", "replacement"):
            self.assertIn((f"caches.L2.{leaf}", "assumed in the description, which has no source for it"), told)

    def test_huge_l2(self):
        file = self.cache_file(
            target="L2", capacity_bytes=2**26, line_bytes=32, sector_bytes=32, ways=[2**14] * 128,
            index="{kind: bits, bits: [5, 6, 7, 8, 9, 10, 11]}", replacement="{policy: lru}",
        )  # fmt: skip
        options = options_of(self.export(file, "gpgpusim", "--quiet").stdout)
        cache = Cache(options["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2")
        self.assertEqual((cache.bytes * 64, cache.sets, cache.ways), (2**26, 2, 2**14))

    def test_no_caches_at_all(self):
        file = self.write("none.yaml", "schema: gpuinfer/1\ndevice: {name: Nothing, source: test}\ncaches: {}\n")
        document = self.document(file, "gpgpusim")
        self.assertEqual(options_of(document["text"]), {})
        self.assertEqual({loss["where"] for loss in document["losses"]} & set(CACHE_OPTIONS), set(CACHE_OPTIONS))
        self.assertEqual(self.export(file, "accelsim-tuner").stdout, "Device Name = Nothing\n")

    def test_outstanding_loads_are_mshrs(self):
        for device, entries, merges in (("m2070", 128, 8), ("k20", 44 * 32, 32)):
            with self.subTest(device):
                document = self.document(device, "accelsim", "--base", self.base())
                cache = Cache(self.options_over_base(document["text"])["-gpgpu_cache:dl1"], "-gpgpu_cache:dl1")
                self.assertEqual((cache.entries, cache.merges, cache.ways), (entries, merges, 64))
                self.assertNotIn("-gpgpu_cache:dl1", options_of(self.export(device, "gpgpusim").stdout))
                self.assertIn("outstanding.loads_per_warp", [loss["where"] for loss in document["losses"]])

    def test_one_alternative_stands_in_and_two_do_not(self):
        file = self.cache_file(
            capacity_bytes=4096, line_bytes=128, sector_bytes=32, ways="null", index="null", replacement="null"
        )  # fmt: skip
        evidence = """evidence:
  L1tex:
    ways: {status: ambiguous, alternatives: [[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2], [16, 16]], reason: two}
    replacement: {status: ambiguous, alternatives: [{policy: fifo}], reason: one}
"""
        document = self.document(self.write("two.yaml", pathlib.Path(file).read_text() + evidence), "gpgpusim")
        cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
        self.assertEqual((cache.sets, cache.ways, cache.replacement), (4, 8, "F"))
        told = {loss["where"]: loss["what"] for loss in document["losses"]}
        self.assertTrue(told["caches.L1tex.ways"].startswith("one of 2 alternatives; 4 sets of 8 ways"))
        self.assertTrue(told["caches.L1tex.replacement"].startswith("not proven"))

    def test_banks_of_the_store_of_the_h200_become_sets(self):
        document = self.document(harness.recorded("L1tex"), "gpgpusim")
        self.assertEqual((document["to"], document["profile"]), ("gpgpusim", str(harness.recorded("L1tex"))))
        cache = caches_of(document["text"])["-gpgpu_cache:dl1"]
        self.assertEqual((cache.type, cache.sets, cache.line), ("S", 4, 128))
        sizes = adaptive_sizes(options_of(document["text"]))
        self.assertEqual(sorted(sizes), [8, 16, 32, 64, 100, 132, 164, 228])  # 196 becomes 228
        whole = json.loads(self.export(harness.recorded("L1tex"), "json").stdout)["caches"]["L1tex"]
        for carveout in whole["carveouts"]:
            lines = carveout["store_lines"]
            if carveout["carveout_kb"] == 196:
                continue
            self.assertLess(abs(sizes[carveout["carveout_kb"]] / 128 - lines), 0.03 * lines)
        told = {loss["where"]: loss["what"] for loss in document["losses"]}
        aligned = next(loss["replays"][2] for loss in document["losses"] if loss.get("replays"))
        shown = [aligned["accesses"], aligned["described_misses"], aligned["exported_misses"]]
        self.assertEqual(shown, [64, 0, 0])
        self.assertIn("1932 lines in 4 banks", told["caches.L1tex.store_lines"])
        self.assertIn("{policy: resetting_slru} became", told["caches.L1tex.replacement"])
        # What is not known of another one of the profile is told as before.
        self.assertTrue(told["code.Instruction.replacement"].startswith("not known"))

    def test_names_of_many_lines_stay_comments(self):
        device = 'device: {name: "A\\n-gpgpu_x 1", source: "t\\n-y 2"}'
        file = self.write("name.yaml", f"schema: gpuinfer/1\n{device}\ncaches: {{}}\n")
        self.assertNotIn("-gpgpu_x", options_of(self.export(file, "gpgpusim").stdout))
        self.assertEqual(len(self.export(file, "accelsim-tuner").stdout.splitlines()), 1)


class Accelsim(ExportTest):
    def test_every_line_is_kept_or_replaced_with_a_reason(self):
        for simulator in ("1", "2"):
            text = self.over_base(PROFILES, "--simulator", simulator)
            values = self.options_over_base(text)
            before = self.options_over_base(BASE)
            self.assertEqual(set(before) - set(values), set())
            for line in text.splitlines():
                if line.startswith("-") and "# kept: " in line:
                    name, value = line.split("#")[0].split(maxsplit=1)
                    self.assertEqual(value.strip(), before[name])
            lines = text.splitlines()
            replaced = [at for at, line in enumerate(lines) if line.startswith("-") and "# kept" not in line]
            for at in replaced:
                reason = lines[at - 1].startswith("#") or lines[at].startswith("-gpgpu_dram_timing_opt")
                self.assertTrue(reason, lines[at])
            self.assertIn("  # kept: the memory behind L2 is not taken apart", text.split("CL=12:WL=2")[1].splitlines()[0])

    def test_what_is_known_takes_the_place_of_the_base(self):
        values = self.options_over_base(self.over_base(PROFILES))
        self.assertEqual(values["-gpgpu_n_clusters"], "132")
        self.assertEqual(values["-gpgpu_clock_domains"], "1980:1980:1980:3201")
        self.assertEqual([values[f"-gpgpu_compute_capability_{part}"] for part in ("major", "minor")], ["9", "0"])
        self.assertEqual(values["-gpgpu_shader_core_pipeline"], "2048:32")
        self.assertEqual(values["-gpgpu_perfect_inst_const_cache"], "0")
        self.assertEqual(Cache(values["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2").bytes * 94, 61603840)
        constant = Cache(values["-gpgpu_const_cache:l1"], "-gpgpu_const_cache:l1")
        self.assertEqual((constant.sets, constant.line, constant.ways), (8, 64, 4))

    def test_latencies_are_less_what_the_simulator_adds(self):
        """A chase in Accel-Sim 1.3 shows 4 cycles more than -gpgpu_l1_latency, and so on; tests/peers runs it."""
        for sector_bytes, memory_cycles in ((32, 12 + 12 + 5), (128, 12 + 12 + 5 + 3 * 2)):
            leaves = {"capacity_bytes": 16384, "line_bytes": 128, "sector_bytes": sector_bytes}
            file = pathlib.Path(self.cache_file(**leaves, latency_cycles="{hit: 50, miss: 250}"))
            file.write_text(file.read_text() + "  L2: {capacity_bytes: 2097152, latency_cycles: {hit: 250, miss: 600}}\n")
            values = self.options_over_base(self.over_base([file]))
            memory = memory_cycles * 1132 / 850
            shown = [values["-gpgpu_l1_latency"], values["-gpgpu_l2_rop_latency"], values["-dram_latency"]]
            self.assertEqual(shown, ["46", str(250 - 46 - 13), str(round(350 - memory))])

    def test_a_set_full_of_dirty_lines_is_not_stuck(self):
        base = BASE + "-gpgpu_l1_cache_write_ratio 25\n"
        leaves = {"capacity_bytes": 16384, "line_bytes": 128, "sector_bytes": 32}
        values = self.options_over_base(self.over_base([pathlib.Path(self.cache_file(**leaves))], base=base))
        self.assertEqual(values["-gpgpu_l1_cache_write_ratio"], "0")

    def test_parts_that_are_no_power_of_two(self):
        base = self.base(BASE.replace("-gpgpu_n_mem 32", "-gpgpu_n_mem 48"))
        done = self.document(harness.recorded("L2"), "accelsim", "--base", base, "--simulator=2")
        values = self.options_over_base(done["text"])
        self.assertEqual([values["-gpgpu_n_mem"], values["-gpgpu_n_sub_partition_per_mchannel"]], ["48", "2"])
        recorded = json.loads(self.export(harness.recorded("L2"), "json").stdout)["caches"]["L2"]["capacity_bytes"]
        exported = Cache(values["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2").bytes * 96
        self.assertLess(abs(exported - recorded), 0.01 * recorded)

    def test_slices_of_the_l2_are_sub_partitions(self):
        h200 = harness.recorded("L2")
        l2 = json.loads(self.export(h200, "json").stdout)["caches"]["L2"]
        hashed, indexing = "-gpgpu_memory_partition_indexing 2\n", "-gpgpu_memory_partition_indexing"
        mapping = "-gpgpu_mem_addr_mapping {}00000000.00000000.00000000.00000000.0000RRRR.RRRRRRRR.RBBBCCCC.BCCSSSSS\n"
        for text, channels, partition_indexing in (
            (BASE, 47, None),
            (BASE + hashed, 47, "0"),
            (BASE + mapping.format("dramid@8;") + hashed.replace("2", "4"), 47, "4"),
            (BASE + mapping.format("") + hashed, 32, "2"),  # bits of the address choose the channel
        ):
            with self.subTest(text.removeprefix(BASE)):
                values = self.options_over_base(self.over_base([h200], base=text))
                parts = [values["-gpgpu_n_mem"], values["-gpgpu_n_sub_partition_per_mchannel"]]
                self.assertEqual(parts, [str(channels), "2"])
                self.assertEqual(values.get(indexing), partition_indexing)
                cache = Cache(values["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2")
                if channels == 47:
                    self.assertEqual(l2["slices"] * cache.bytes, l2["capacity_bytes"])
        fragment = options_of(self.export(h200, "gpgpusim", "--quiet").stdout)
        self.assertEqual([fragment["-gpgpu_n_mem"], fragment[indexing]], ["47", "0"])

    def test_slices_in_a_power_of_two(self):
        file = self.cache_file(target="L2", capacity_bytes=2**20, line_bytes=128, ways=[8] * 1024, slices=32)
        values = options_of(self.export(file, "gpgpusim", "--quiet").stdout)
        self.assertEqual([values["-gpgpu_n_mem"], values["-gpgpu_n_sub_partition_per_mchannel"]], ["16", "2"])
        self.assertEqual(Cache(values["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2").bytes * 32, 2**20)
        self.assertNotIn("-gpgpu_memory_partition_indexing", values)

    def test_schedulers_share_the_pipelines_of_a_base_with_more(self):
        """Accel-Sim asserts that schedulers with units of their own are as many as the pipelines are wide."""
        base = BASE + "-gpgpu_sub_core_model 1\n-gpgpu_pipeline_widths 4,4,4,4,4,4,4,4,4,4,8,4,4\n"
        for device, schedulers, sub_cores in (("gtx480", "2", "0"), ("gtx980", "4", "1")):
            values = self.options_over_base(self.over_base([device], base=base))
            found = [values["-gpgpu_num_sched_per_core"], values["-gpgpu_sub_core_model"]]
            self.assertEqual(found, [schedulers, sub_cores], device)

    def test_requests_fit_the_lines_of_the_l2(self):
        constants = "  ConstL1: {capacity_bytes: 2048, line_bytes: 64}\n"  # with il1, which asks for 128 B
        for line, sets, others, kind in (
            (32, 8192, constants, "S"), (64, 4096, constants, "S"), (128, 2048, constants, "N"), (32, 8192, "", "N"),
        ):  # fmt: skip
            with self.subTest(line=line, others=others):
                leaves = {"capacity_bytes": 2**20, "line_bytes": line, "sector_bytes": line, "ways": [4] * sets}
                file = pathlib.Path(self.cache_file("L2", **leaves))
                file.write_text(file.read_text() + others)
                values = options_of(self.export(file, "gpgpusim", "--quiet").stdout)
                cache = Cache(values["-gpgpu_cache:dl2"], "-gpgpu_cache:dl2")
                self.assertEqual([cache.type, cache.line, cache.bytes * 64], [kind, max(line, 128) if others else line, 2**20])

    def test_halves_of_the_l2(self):
        option = "-gpgpu_chiplet_interleave"
        base = self.base(BASE + f"{option} 0\n")
        h200 = harness.recorded("L2")
        in_order = f"sms: [{list(range(66))}, {list(range(66, 132))}]"
        halves = self.write("halves.yaml", re.sub(r"(partitions: .*?)sms: \[\[.*?\]\]", rf"\1{in_order}", h200.read_text()))
        # Of the SMs of the H200 84 are near to the right half where TPCs take turns, and 66 where they are split in order.
        for profile, value, loss in ((h200, "1", "84 of 132 SMs"), (halves, "0", None)):
            done = self.document(profile, "accelsim", "--base", base, "--simulator=2")
            values = self.options_over_base(done["text"])
            self.assertEqual([values["-gpgpu_n_chiplet_partition"], values[option]], ["2", value])
            told = [each["what"] for each in done["losses"] if each["where"] == "caches.L2.partitions.sms"]
            self.assertEqual([what[:13] for what in told], [loss] if loss else [])
        self.assertNotIn(option, self.options_over_base(self.over_base([halves], "--simulator=2")))

    def test_without_a_base_what_is_lacking_is_told(self):
        document = self.document("gtx780", "accelsim")
        self.assertIn("--base", [loss["where"] for loss in document["losses"]])
        self.assertIn("-gpgpu_cache:dl2", self.options_over_base(document["text"]))

    def test_folders(self):
        self.export("gtx780", "accelsim", "--base", self.base(), "-o", "here")
        self.export("gtx780", "accelsim", "--base", self.base(), "-o", "here")  # written anew
        self.export("gtx780", "csv", "-o", "here", status=2)
        self.export("gtx780", "accelsim", "--base", self.base(), "-o", "base", status=2)
        folder = self.folder / "here"
        self.assertEqual(sorted(file.name for file in folder.iterdir()), ["gpgpusim.config", "trace.config"])
        self.assertIn("  # kept: latencies of instructions", (folder / "trace.config").read_text())
        self.assertIn("gpgpusim.config", self.export("gtx780", "accelsim", "--base", "nowhere", status=2).stderr)
        self.export("gtx780", "csv", "--base", self.base(), status=2)
        self.export("gtx780", "accelsim", "--base", self.base(), "--simulator=3", status=2)
        self.export("gtx780", "accelsim", "--simulator=1", status=2)


class OtherFormats(ExportTest):
    def test_tuner_lines(self):
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                first, *rest = self.export(profile, "accelsim-tuner", "--quiet").stdout.splitlines()
                self.assertRegex(first, r"^Device Name = \S.*$")
                for line in rest:
                    self.assertRegex(line, r"^-\S+ \S+$")
                for name, value in (line.split() for line in rest):
                    if name in CACHE_OPTIONS and value != "none":
                        Cache(value, name)

    def test_tuner_leaves_the_rest_to_its_template(self):
        names = options_of(self.export("gtx780-8byte-banks", "accelsim-tuner").stdout.split("\n", 1)[1])
        self.assertIn("-gpgpu_n_clusters", names)
        self.assertNotIn("-gpgpu_cache:dl2", names)

    def test_json_is_the_profile(self):
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                text = self.export(profile, "json", "--strict").stdout
                self.assertEqual(json.loads(text)["schema"], "gpuinfer/1")
                again = self.write("again.json", text)
                self.assertEqual(self.export(again, "json").stdout, text)

    def test_csv_has_every_leaf(self):
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                whole = json.loads(self.export(profile, "json").stdout)
                found = list(csv.DictReader(io.StringIO(self.export(profile, "csv", "--strict").stdout)))
                self.assertTrue(all(None not in row and None not in row.values() for row in found))
                cells = {(row["section"], row["leaf"]): row for row in found}
                self.assertEqual(len(cells), len(found))
                for cache, leaves in whole["caches"].items():
                    for leaf, value in leaves.items():
                        cell = cells[cache, leaf]["value"]
                        self.assertEqual(None if cell == "" else json.loads(cell), value)
                for key, value in whole["device"].get("provenance", {}).items():
                    self.assertEqual(cells["provenance", key]["value"], value)
                for section, entries in whole.get("evidence", {}).items():
                    for leaf, entry in entries.items():
                        if leaf not in ("prediction", "inquiries"):
                            self.assertEqual(cells[section, leaf]["status"], entry["status"])
                            confidence = cells[section, leaf]["confidence"]
                            self.assertEqual(float(confidence) if confidence else None, entry.get("confidence"))

    def test_markdown_tables_have_four_columns(self):
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                lines = self.export(profile, "markdown", "--quiet").stdout.splitlines()
                tables = [line for line in lines if line.startswith("|")]
                self.assertTrue(tables)
                self.assertEqual({len(re.split(r"(?<!\\)\|", line)) for line in tables}, {6})
                self.assertEqual([line for line in lines if not re.match(r"$|#|\|", line)], [])
        profile = self.write("profile.yaml", harness.with_ambiguous_onset(harness.recorded("L1tex").read_text()))
        text = self.export(profile, "markdown").stdout
        self.assertRegex(text, r"\| onset_bytes \| not known; alternatives: \d+; .*\| ambiguous \|")
        self.assertRegex(text, r"\| line_bytes \| 128 B \| resolved \| 0\.99")

    def test_latex_is_one_table_of_caches(self):
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                whole = json.loads(self.export(profile, "json").stdout)
                lines = self.export(profile, "latex", "--quiet").stdout.splitlines()
                self.assertEqual(lines[0], f"% {whole['device']['name']}")
                rows = [re.split(r"(?<!\\) & ", line.removesuffix(" \\\\")) for line in lines if " & " in line]
                self.assertEqual([row[0] for row in rows[1:]], sorted(whole["caches"]))
                self.assertEqual({len(row) for row in rows}, {7})
        text = self.export("gtx780", "latex", "--target=L1tex").stdout
        self.assertIn("L1tex & 12 KiB & 32 B & 4 x 96 & lru & 110 & 220 \\\\", text)

    def test_mt4g(self):
        """What sys-sage asks without looking whether it is there (src/parsers/mt4g.cpp of it)."""
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                whole = json.loads(self.export(profile, "json").stdout)
                document = self.document(profile, "mt4g")
                found = json.loads(document["text"])
                self.assertEqual(found["general"]["name"], whole["device"]["name"])
                # What sys-sage divides by is 1 where it is not known.
                self.assertEqual(found["compute"]["multiProcessorCount"], whole["device"].get("sm_count", 1))
                memory = found["memory"]
                self.assertNotIn("null", json.dumps(memory))
                needed = [found["general"]["clockRate"], memory["l2"]["size"], memory["constant"]["totalConstMem"]]
                needed += [memory["main"][key] for key in ("totalGlobalMem", "memoryClockRate", "memoryBusWidth")]
                needed += [memory["shared"][key] for key in ("sharedMemPerBlock", "sharedMemPerMultiProcessor")]
                for level in (memory["main"], memory["l2"]):
                    if "latency" in level:
                        needed += [level["readBandwidth"], level["writeBandwidth"]]
                for level in memory.values():
                    if "missPenalty" in level:
                        needed.append(level["missPenalty"])
                for fact in needed:
                    self.assertIsInstance(fact["value"], (int, float))
                complete = [memory[key] for key in ("texture", "readOnly") if key in memory]
                if len(memory["constant"]) > 1:
                    self.assertEqual(set(memory["constant"]), {"totalConstMem", "l1", "l1.5"})
                    complete += [memory["constant"]["l1"], memory["constant"]["l1.5"]]
                for level in complete:
                    self.assertIsInstance(level["size"]["size"], int)
                    self.assertIsInstance(level["fetchGranularity"]["size"], int)
                # Every 0 that stands in has the confidence of a failure and is told.
                zeros = [fact for fact in needed if fact["value"] == 0]
                self.assertTrue(all(fact["confidence"] == 0 for fact in zeros))
                told = [loss for loss in document["losses"] if "0 with confidence 0 stands in" in loss["what"]]
                self.assertGreaterEqual(len(told), len(zeros))
        memory = json.loads(self.export("gtx560ti", "mt4g").stdout)["memory"]
        self.assertEqual(memory["l1"]["size"], {"size": 16384, "unit": "bytes"})
        self.assertEqual(memory["l1"]["lineSize"], {"size": 128, "unit": "bytes"})
        self.assertEqual(memory["l1"]["missPenalty"], {"unit": "cycles", "value": 404 - 116})
        self.assertEqual(memory["l1"]["associativity"], 4)
        self.assertEqual(memory["texture"]["size"]["size"], 12288)
        self.assertEqual(memory["l2Tlb"]["waysOfSets"], [17] + 6 * [8])
        self.assertNotIn("associativity", memory["l2Tlb"])
        self.assertEqual(memory["main"]["latency"]["mean"], 639)
        # What a profile has and MT4G has no word for is there all the same.
        profile = harness.recorded("L2TLB")
        shared = json.loads(self.export(profile, "json").stdout)["caches"]["L2TLB"]["shared_by_sms"]
        self.assertEqual(json.loads(self.export(profile, "mt4g").stdout)["memory"]["l2Tlb"]["shared_by_sms"], shared)
        self.assertEqual(json.loads(self.export("k20", "mt4g").stdout)["gpuinfer"]["outstanding"]["entries"], 44)
        whole = json.loads(self.export(harness.recorded("L1tex"), "json").stdout)["caches"]
        recorded = json.loads(self.export(harness.recorded("L1tex"), "mt4g").stdout)
        self.assertEqual(recorded["memory"]["l1"]["size"]["size"], whole["L1tex"]["capacity_bytes"])
        self.assertEqual(recorded["memory"]["l1"]["sharedWith"], ["Read Only"])
        self.assertEqual(recorded["memory"]["l2"]["size"]["value"], whole["L2"]["capacity_bytes"])
        self.assertEqual(recorded["general"]["clockRate"], {"unit": "kHz", "value": 1980000})
        self.assertEqual(recorded["compute"]["numberOfCoresPerMultiProcessor"], 128)

    def ppt_gpu(self, text):
        """Runs the module among stand-ins for PPT-GPU's own: its uarch, latencies and limits."""
        shipped = types.SimpleNamespace(units_latency={"iALU": 4, "tex_mem_access": 400}, sass_isa={}, ptx_isa={})
        names = {f"hardware.ISA.{name}": shipped for name in ("Maxwell", "Pascal", "Volta", "Turing")}
        with unittest.mock.patch.dict(sys.modules, {**names, "hardware": types, "hardware.ISA": types}):
            module = {}
            exec(compile(text, "exported", "exec"), module)  # noqa: S102
            uarch = module["uarch"]
            latencies = sys.modules["hardware.ISA." + uarch["gpu_arch"]].units_latency
            limits = sys.modules[f"hardware.compute_capability.{uarch['compute_capabilty']}"].cc_configs
        return uarch, latencies, limits

    def test_ppt_gpu(self):
        units = "INT SP DP SF TC LDS BRA TEX".split()
        keys = [f"num_{unit}_units_per_SM" for unit in units]
        keys += ["clockspeed", "num_SMs", "num_warp_schedulers_per_SM", "num_inst_dispatch_units_per_SM", "shared_mem_size"]
        keys += [f"l{level}_cache_{what}" for level in (1, 2) for what in ("size", "line_size", "associativity")]
        keys += ["num_l2_partitions", "num_dram_channels", "dram_th_bandwidth", "dram_clockspeed", "noc_th_bandwidth"]
        for profile in PUBLISHED + PROFILES:
            with self.subTest(profile.name):
                uarch, latencies, limits = self.ppt_gpu(self.export(profile, "ppt-gpu").stdout)
                for key in [*keys, "compute_capabilty"]:
                    self.assertIsInstance(uarch[key], int, key)
                for level in (1, 2):
                    size, line, ways = (uarch[f"l{level}_cache_{key}"] for key in ("size", "line_size", "associativity"))
                    self.assertTrue(is_power_of_two(line))
                    self.assertGreater(size // line, ways)  # it divides by their difference
                self.assertTrue(all(isinstance(cycles, int) for cycles in latencies.values()))
                self.assertEqual(limits["warp_size"], 32)
                self.assertGreaterEqual(limits["max_active_threads_per_SM"], 1024)
        uarch, latencies, _ = self.ppt_gpu(self.export("gtx560ti", "ppt-gpu").stdout)
        self.assertEqual([uarch[f"l1_cache_{key}"] for key in ("size", "line_size", "associativity")], [16384, 128, 4])
        self.assertEqual([uarch[key] for key in ("num_SMs", "num_SP_units_per_SM", "compute_capabilty")], [8, 48, 21])
        measured = [latencies[f"{key}_access"] for key in ("l1_cache", "l2_cache", "dram_mem")]
        self.assertEqual(measured, [116, 371, 639])
        self.assertEqual(latencies["tex_mem_access"], 400)
        uarch, _, limits = self.ppt_gpu(self.export(harness.recorded("Bandwidth"), "ppt-gpu").stdout)
        told = json.loads(self.export(harness.recorded("Bandwidth"), "json").stdout)["bandwidth"]["DRAM_load"]
        self.assertEqual(uarch["dram_th_bandwidth"], told["bytes_per_second"])
        self.assertEqual([uarch["compute_capabilty"], uarch["clockspeed"]], [90, 1980000000])
        uarch, _, _ = self.ppt_gpu(self.export(harness.recorded("L2"), "ppt-gpu").stdout)
        self.assertEqual(uarch["num_l2_partitions"], 94)
        self.assertEqual(limits["max_active_blocks_per_SM"], 32)
        # Of one set that takes all lines, PPT-GPU divides by zero.
        one_set = {"capacity_bytes": 4096, "line_bytes": 128, "ways": [32], "index": "{kind: bits, bits: []}"}
        uarch, _, _ = self.ppt_gpu(self.export(self.cache_file(**one_set), "ppt-gpu").stdout)
        self.assertEqual(uarch["l1_cache_associativity"], 31)
        document = self.document("gtx560ti", "ppt-gpu")
        self.assertIn("caches.ConstL1.latency_cycles.hit", [loss["where"] for loss in document["losses"]])


class CommandLine(ExportTest):
    def test_formats_are_listed_and_a_wrong_one_names_them(self):
        listed = self.expect(0, "list", "formats").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in listed], FORMATS)
        self.assertIn(", ".join(FORMATS), self.export("gtx780", "gem5", status=2).stderr)

    def test_bad_command_lines(self):
        self.assertIn("--to", self.expect(2, "export", "gtx780").stderr)
        self.expect(2, "export", "--to", "csv")
        self.export("nowhere.yaml", "csv", status=2)
        self.export("gtx780", "csv", "--format=xml", status=2)
        self.export("gtx780", "csv", "--target=L9", status=2)
        self.assertIn("L1D is not in", self.export("gtx780", "csv", "--target=L1D", status=2).stderr)
        self.export("gtx780", "csv", "-o", "missing/out", status=2)

    def test_strict_writes_all_the_same(self):
        done = self.export("gtx780", "gpgpusim", "--strict", status=3)
        self.assertIn("-gpgpu_tex_cache:l1", done.stdout)
        self.assertIn("caches.L1tex.index: index bits 7-8 became 5-6", done.stderr)
        self.assertEqual(self.export("gtx780", "gpgpusim", "--quiet").stderr, "")

    def test_output_and_targets(self):
        self.export("gtx780", "csv", "--target=l1TEX", "--target=Shared", "-o", "part.csv")
        written = (self.folder / "part.csv").read_text(encoding="utf-8")
        sections = {row["section"] for row in csv.DictReader(io.StringIO(written))}
        self.assertEqual(sections, {"device", "L1tex", "shared_memory"})
        whole = self.export("gtx780", "csv").stdout
        self.assertEqual(self.export("gtx780", "csv", "--target=all").stdout, whole)

    def test_documents(self):
        document = self.document("gtx780", "csv")
        self.assertEqual((document["to"], document["losses"]), ("csv", []))
        self.assertEqual(document["text"], self.export("gtx780", "csv").stdout)


if __name__ == "__main__":
    harness.main()
