# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of others load what is exported, and give the values back.

GPUINFER_PEERS names a folder with checkouts of sys-sage, mt4g and PPT-GPU; what is missing there is skipped. What they
need to run on this machine is built into the subfolder `built`.
"""

import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import harness  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = pathlib.Path(os.environ.get("GPUINFER_PEERS", "/nonexistent"))
BUILT = PEERS / "built"
PROFILES = sorted(ROOT.glob("configs/devices/*.yaml")) + sorted(ROOT.glob("data/*/*.yaml"))


def needs(name):
    return unittest.skipUnless((PEERS / name).exists(), f"GPUINFER_PEERS has no {name}")


def run(*command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ends with {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}")
    return done.stdout


class PeerTest(harness.ProgramTest):
    def export(self, profile, form, file):
        self.expect(0, "export", str(profile), "--to", form, "--quiet", "-o", str(file))
        return file

    def whole(self, profile):
        return json.loads(self.expect(0, "export", str(profile), "--to", "json").stdout)


@needs("sys-sage")
class SysSage(PeerTest):
    SOURCES = (
        "Component Thread Core Cache Subdivision Numa Chip Memory Storage Node QuantumBackend Qubit AtomSite Topology "
        "Relation DataPath QuantumGate CouplingMap xml_dump parsers/mt4g"
    ).split()

    def loader(self):
        program = BUILT / "sys_sage_load"
        ours = pathlib.Path(__file__).with_name("sys_sage_load.cpp")
        if not program.exists() or program.stat().st_mtime < ours.stat().st_mtime:
            BUILT.mkdir(exist_ok=True)
            source = PEERS / "sys-sage/src"
            (source / "defines.hpp").write_text("#pragma once\n")  # nothing optional
            files = [str(source / f"{name}.cpp") for name in self.SOURCES]
            folders = ["-I", str(source), "-I", "/usr/include/libxml2"]
            run("c++", "-std=c++17", "-w", *folders, str(ours), *files, "-lxml2", "-o", str(program))
        return program

    def loaded(self, file):
        """Names of caches and memories -> (sizes, lines), each a set, since there is one of a kind in every SM."""
        found = {}
        first, *rest = run(str(self.loader()), str(file)).splitlines()
        self.assertEqual(first, f"file|{file}|0")
        for line in rest:
            _, name, *numbers = line.split("|")
            entry = found.setdefault(name, [set() for _ in numbers])
            for values, number in zip(entry, numbers, strict=True):
                values.add(int(number))
        return found

    @needs("mt4g")
    def test_samples_of_mt4g_load(self):
        for sample in sorted((PEERS / "mt4g/sample_results").glob("NVIDIA*.json")):
            with self.subTest(sample.name):
                self.assertTrue(self.loaded(sample))

    def test_every_profile_loads_and_gives_its_sizes_back(self):
        compared = 0
        for profile in PROFILES:
            with self.subTest(profile.name):
                whole = self.whole(profile)
                found = self.loaded(self.export(profile, "mt4g", self.folder / "gpu.json"))
                names = {"L1D": "L1", "L2": "L2", "ConstL1": "Constant L1", "ConstL15": "Constant L1.5"}
                if "L1D" not in whole["caches"] and whole["device"].get("compute_capability", "0") >= "5":
                    names["L1tex"] = "L1"
                for target, name in names.items():
                    cache = whole["caches"].get(target)
                    if not cache or not cache.get("capacity_bytes"):
                        continue
                    entry = next(values for key, values in found.items() if key.split("+")[0] == name)
                    expected = [{cache["capacity_bytes"]}, {cache.get("line_bytes") or -1}]
                    if name == "Constant L1":
                        expected.reverse()  # as sys-sage stores it
                    self.assertEqual(entry, expected, target)
                    compared += 1
        self.assertGreater(compared, 12)
        print(f"sys-sage: {len(PROFILES)} profiles loaded, {compared} caches compared")


@needs("PPT-GPU")
class PptGpu(PeerTest):
    LINES = 100
    BLOCKS = 4

    def tool(self):
        """A copy that runs without MPI, with its reuse distance tool."""
        tool = BUILT / "PPT-GPU"
        if not (tool / "reuse_distance_tool/parda.x").exists():
            BUILT.mkdir(exist_ok=True)
            shutil.copytree(PEERS / "PPT-GPU", tool, dirs_exist_ok=True)
            changes = {
                "ppt.py": (("useMPI=True", "useMPI=False"),),
                "simian.py": (("self.MPI.barrier()", "pass"),),
            }
            for name, pairs in changes.items():
                text = (tool / name).read_text()
                for old, new in pairs:
                    text = text.replace(old, new)
                (tool / name).write_text(text)
            folder = tool / "reuse_distance_tool"
            glib = run("pkg-config", "--cflags", "--libs", "glib-2.0", "gthread-2.0").split()
            names = ["main", "splay", "parda", "parda_print", "narray", "process_args", "seperate"]
            run("cc", "-O2", "-w", "-fcommon", "-o", "parda.x", *(f"{name}.c" for name in names), *glib, "-lm", cwd=folder)
        return tool

    def application(self):
        """Blocks of a warp that loads 100 lines of 128 bytes, twice."""
        folder = self.folder / "chase"
        (folder / "memory_traces").mkdir(parents=True)
        (folder / "sass_traces").mkdir()
        kernel = {"kernel_name": "chase", "num_registers": 16, "shared_mem_bytes": 0}
        kernel |= {"grid_size": self.BLOCKS, "block_size": 32}
        (folder / "app_config.py").write_text(f"app_kernels_id = [1]\nkernel_1 = {kernel}\n")
        for block in range(self.BLOCKS):
            lines = [0x7F0000000000 + block * 65536 + 128 * line for line in range(self.LINES)]
            loads = ["LDG " + " ".join(hex(line + 4 * lane) for lane in range(32)) for line in 2 * lines]
            (folder / f"memory_traces/kernel_1_block_{block}.mem").write_text("\n=====\n".join(loads))
        code = ["0 IADD3 R1 R2 R3", *["0 LDG.E R4 R4"] * 2 * self.LINES, "0 FADD R5 R4 R4", "0 EXIT"]
        (folder / "sass_traces/kernel_1.sass").write_text("\n".join(code) + "\n")
        return folder

    def test_every_profile_loads_and_runs(self):
        # The packages that PPT-GPU imports are often those of the system.
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import scipy, joblib, greenlet"], capture_output=True, check=False).returncode == 0:
                break
        else:
            self.skipTest("PPT-GPU needs scipy, joblib and greenlet")
        tool, folder = self.tool(), self.application()
        for profile in PROFILES:
            with self.subTest(profile.name):
                self.export(profile, "ppt-gpu", tool / "hardware/exported.py")
                for old in folder.glob("*.out"):
                    old.unlink()
                run(python, "ppt.py", "--app", f"{folder}/", "--sass", "--config", "exported", "--granularity", "2", cwd=tool)
                (result,) = folder.glob("kernel_1_*.out")
                cycles = next(line for line in result.read_text().splitlines() if "GPU active cycles (max)" in line)
                self.assertGreater(int(cycles.split(":")[1].replace(",", "")), self.LINES)
        print(f"PPT-GPU: {len(PROFILES)} profiles run")


@needs("built/accel-sim.out")
class AccelSim(PeerTest):
    """Loads of one lane, each of which waits for the one before it, in whole exported configurations."""

    BASES = (
        PEERS / "gpgpu-sim_distribution/configs/tested-cfgs/SM7_QV100/gpgpusim.config",
        PEERS / "accel-sim-framework/gpu-simulator/configs/tested-cfgs/SM7_QV100/trace.config",
    )
    FIRST = 0x7F5000000000
    SHARED = 0x7F0000000000
    # Misses of loads do not depend on how long they take, on SMs that have nothing to do, nor on other caches.
    SOON = (
        "-gpgpu_kernel_launch_latency 0 -gpgpu_n_clusters 1 -gpgpu_l2_rop_latency 10 -dram_latency 10 "
        "-gpgpu_perfect_inst_const_cache 1"
    ).split()
    OTHER_L2 = (
        "-gpgpu_memory_partition_indexing 0 -gpgpu_n_mem 4 -gpgpu_cache:dl2 N:64:128:16,L:B:m:L:L,A:192:4,32:0,32"
    ).split()
    FIXED_L1 = "-gpgpu_adaptive_cache_config 0 -gpgpu_unified_l1d_size 0".split()
    TINY_L1 = ["-gpgpu_cache:dl1", "S:1:128:2,L:T:m:L:L,A:512:8,16:0,32", *FIXED_L1]

    def trace(self, kernels):
        """Kernels one after another: (opcode, addresses) or (opcode, addresses, bytes of shared memory of the block)."""
        folder = self.folder / "trace"
        folder.mkdir(exist_ok=True)
        for number, (opcode, addresses, *shared) in enumerate(kernels, 1):
            code = [f"{16 * (i % 16):04x} 00000001 1 R4 {opcode} 1 R4 4 1 0x{at:x} 0 0" for i, at in enumerate(addresses)]
            code.append("0100 ffffffff 0 EXIT 0 0 0")
            head = ["kernel name = chase", f"kernel id = {number}", "grid dim = (1,1,1)", "block dim = (32,1,1)"]
            head += [f"shmem = {(shared or [1024])[0]}", "nregs = 16", "binary version = 70", "cuda stream id = 0"]
            head += [f"shmem base_addr = 0x{self.SHARED:016x}", "local mem base_addr = 0x00007e0000000000"]
            head += ["nvbit version = 1.5", "accelsim tracer version = 4", "enable lineinfo = 0"]
            lines = [f"-{line}" for line in head] + ["#traces format", "#BEGIN_TB", "thread block = 0,0,0"]
            lines += ["warp = 0", f"insts = {len(code)}", *code, "#END_TB"]
            (folder / f"kernel-{number}.traceg").write_text("\n".join(lines) + "\n")
        names = [f"kernel-{number}.traceg\n" for number in range(1, len(kernels) + 1)]
        (folder / "kernelslist.g").write_text("".join(names))
        return folder / "kernelslist.g"

    def simulated(self, configuration, kernels, *options):
        """Of each kernel its cycles, and of all of them what loads missed in L1 and L2."""
        files = [word for name in ("gpgpusim", "trace") for word in ("-config", str(configuration / f"{name}.config"))]
        words = ["-trace", str(self.trace(kernels)), *files, *options]
        folders = [str(pathlib.Path(self.program).parents[1] / "model"), os.environ.get("LD_LIBRARY_PATH", "")]  # libgpuinfer
        environment = os.environ | {"LD_LIBRARY_PATH": ":".join(folders)}
        text = run(str(BUILT / "accel-sim.out"), *words, cwd=self.folder, env=environment)
        self.assertIn("*** exit detected ***", text.splitlines()[-1])
        rows = [line.strip().split(" = ", 1) for line in text.splitlines() if " = " in line]
        cycles = [int(row[1]) for row in rows if row[0] == "gpu_sim_cycle"]
        self.assertEqual(len(cycles), len(kernels))
        last = dict(rows)
        missed = [
            sum(int(last.get(f"{cache}_cache_stats_breakdown[GLOBAL_ACC_R][{kind}]", 0)) for kind in ("MISS", "SECTOR_MISS"))
            for cache in ("Total_core", "L2")
        ]
        return cycles, *missed

    def configuration(self, *profiles):
        base = self.folder / "base"
        base.mkdir(exist_ok=True)
        for file in self.BASES:
            shutil.copy(file, base)
        words = [str(profile) for profile in profiles]
        self.expect(0, "export", *words, "--to", "accelsim", "--quiet", "--base", str(base), "-o", "made")
        return self.folder / "made"

    def outcomes(self, profile, target, addresses):
        """(outcome, set) of each, as `gpuinfer simulate` has it; none where the profile lacks what that needs."""
        file = self.write("sequence.csv", "offset\n" + "".join(f"{address}\n" for address in addresses))
        done = self.run_program("simulate", str(profile), "--target", target, "--sequence", f"csv:{file}")
        if done.returncode:
            self.assertIn("a simulation needs it", done.stderr)
            return None
        rows = csv.DictReader(done.stdout.splitlines())
        return [(row["outcome"], int(row["set"])) for row in rows]

    def l1_of_loads(self, whole):
        """The cache that loads pass through before the L2; none where they pass by it."""
        capability = float(whole["device"].get("compute_capability") or 9)
        target = "L1D" if "L1D" in whole["caches"] or capability < 4 else "L1tex"
        path = whole.get("paths", {}).get("global", {}).get("caches")
        return None if path is not None and target not in path else target

    def latencies(self, whole):
        """Level -> cycles, as far as the profile has them."""
        target = self.l1_of_loads(whole)
        l1, l2 = ((whole["caches"].get(name) or {}).get("latency_cycles") or {} for name in (target, "L2"))
        shared = (whole.get("shared_memory") or {}).get("latency_cycles") or {}
        known = {"L1": l1.get("hit"), "shared": shared.get("broadcast")}
        if target is None or l1:  # else the L1 in front of it is that of the base
            known |= {"L2": l2.get("hit") or l1.get("miss"), "memory": l2.get("miss")}
        return {level: cycles for level, cycles in known.items() if cycles}

    def test_every_profile_runs_to_its_end_with_its_latencies(self):
        few, many = 10, 30
        far = [self.FIRST + ((1 << 20) + 4224) * i for i in range(few + many)]  # each in a row of its own
        # What `memory` loads is in the L2 then, and not in the L1, which is flushed after each kernel.
        chases = {
            "memory": ("LDG.E", far[:few], far[few:]),
            "L2": ("LDG.E", far[:few], far[few:]),
            "L1": ("LDG.E", far[:1] * few, far[:1] * many),
            "shared": ("LDS", [self.SHARED] * few, [self.SHARED] * many),
        }
        kernels = [(opcode, addresses) for opcode, *both in chases.values() for addresses in both]
        # Without what the code costs.
        options = "-gpgpu_kernel_launch_latency 0 -gpgpu_perfect_inst_const_cache 1".split()
        shown = {}
        for profile in PROFILES:
            with self.subTest(profile.name):
                cycles, *_ = self.simulated(self.configuration(profile), kernels, *options)
                pairs = zip(chases, cycles[::2], cycles[1::2], strict=True)
                simulated = {level: (last - first) / (many - few) for level, first, last in pairs}
                for level, measured in self.latencies(self.whole(profile)).items():
                    shown[profile.name, level] = simulated[level]
                    print(f"Accel-Sim: {profile.name} {level} {simulated[level]:.1f} cycles, profile {measured}")
                    self.assertLess(abs(simulated[level] - measured), 0.02 * measured, level)
        self.assertGreater(len(shown), 20)
        print(f"Accel-Sim: {len(PROFILES)} profiles run, {len(shown)} latencies compared")

    def load_misses(self, profile, target, addresses, *options):
        """As described, in the cache of the profile, and in the exported one."""
        option, level = ("-gpgpu_cache:dl2", 2) if target == "L2" else ("-gpgpu_cache:dl1", 1)
        configuration = self.configuration(profile)
        exported = re.search(rf"(?m)^{option} (\S+)", (configuration / "gpgpusim.config").read_text()).group(1)
        cache = self.whole(profile)["caches"][target]
        if level == 1:
            exported = re.sub(r",S:(\d+:\d+)", r",A:\1", exported)  # the MSHRs that any cache takes before OTHER_L2
        _, sets, _, rest = exported.split(":", 3)
        letter = "S" if cache["sector_bytes"] < cache["line_bytes"] else "N"  # the exported one may have other lines
        own = f"gpuinfer:{profile}:{target},{letter}:{sets}:{cache['line_bytes']}:{rest}"
        shared = (cache.get("carveout_kb", 5) - 4) << 10  # the next larger carve-out is that of the profile
        kernels = [("LDG.E", addresses, shared)]
        options = [*options, "-gpgpu_shmem_size", "233472"]  # there may be no more in the base than a smaller GPU has
        described = sum(outcome != "hit" for outcome, _ in self.outcomes(profile, target, addresses))
        runs = [self.simulated(configuration, kernels, *self.SOON, *options, option, text) for text in (own, exported)]
        return described, *(found[level] for found in runs)

    def addresses_of_l1(self, cache, draw):
        """Sectors of somewhat more lines than it holds."""
        held = cache.get("store_lines") or cache["capacity_bytes"] // cache["line_bytes"]
        sectors = 5 * held // 4 * cache["line_bytes"] // cache["sector_bytes"]
        return [self.FIRST + draw.randrange(sectors) * cache["sector_bytes"] for _ in range(max(400, 3 * held // 2))]

    def addresses_of_l2(self, profile, cache, draw):
        """Lines of two sets, somewhat more than they hold."""
        ways = cache["ways"]["each"] if isinstance(cache["ways"], dict) else cache["ways"][0]
        lines = [self.FIRST + draw.randrange(1 << 18) * cache["line_bytes"] for _ in range(1 << 17)]
        by_set = {}
        for line, (_, number) in zip(lines, self.outcomes(profile, "L2", lines), strict=True):
            by_set.setdefault(number, set()).add(line)
        fullest = sorted(by_set.values(), key=len)[-2:]
        some = [line for lines in fullest for line in sorted(lines)[: 5 * ways // 4]]
        self.assertEqual(len(some), 2 * (5 * ways // 4))
        return [draw.choice(some) for _ in range(4 * len(some))]

    def test_misses_are_as_described(self):
        compared = 0
        for profile in PROFILES:
            whole = self.whole(profile)
            caches = whole["caches"]
            draw = random.Random(profile.name)
            for target in (self.l1_of_loads(whole), "L2"):
                if target not in caches or self.outcomes(profile, target, [0]) is None:
                    continue
                with self.subTest(profile.name, target=target):
                    if target == "L2":
                        addresses, options = self.addresses_of_l2(profile, caches[target], draw), self.TINY_L1
                    else:
                        addresses, options = self.addresses_of_l1(caches[target], draw), self.OTHER_L2
                    described, own, exported = self.load_misses(profile, target, addresses, *options)
                    print(f"Accel-Sim: {profile.name} {target}: of {len(addresses)} loads {described} miss as described, "
                          f"{own} in the cache of the profile, {exported} in the exported one")  # fmt: skip
                    self.assertTrue(0 < described < len(addresses))
                    self.assertEqual(own, described)
                    compared += 1
        self.assertGreater(compared, 12)


@needs("gpgpu-sim_distribution")
class Adapter(PeerTest):
    """The lines that let GPGPU-Sim simulate the cache of a profile find their places in a checkout."""

    def test_what_is_inserted_is_taken_out_again(self):
        source = PEERS / "gpgpu-sim_distribution/src/gpgpu-sim"
        copy = self.folder / "checkout/src/gpgpu-sim"
        copy.mkdir(parents=True)
        adapter = ROOT / "integrations/gpgpusim/adapter.py"
        for name in ("gpu-cache.h", "gpu-cache.cc", "shader.cc"):
            shutil.copy(source / name, copy)
        run(sys.executable, str(adapter), "remove", str(self.folder / "checkout"))  # the checkout may have them
        before = {path.name: path.read_text() for path in copy.iterdir()}
        run(sys.executable, str(adapter), "insert", str(self.folder / "checkout"))
        self.assertEqual(sum(path.read_text().count("// gpuinfer\n") for path in copy.iterdir()), 12)
        run(sys.executable, str(adapter), "remove", str(self.folder / "checkout"))
        self.assertEqual({path.name: path.read_text() for path in copy.iterdir()}, before)


@needs("gpgpu-sim_distribution")
class GpgpusimDevice(PeerTest):
    """What the tag_array of GPGPU-Sim simulates, found out by its answers alone."""

    PROGRAM = BUILT / "gpgpusim-device"
    LINES = (("S", 128, 32), ("N", 32, 32), ("N", 64, 64), ("N", 128, 128))
    SHAPES = (
        (1, 16, "L", "L"), (2, 3, "F", "X"), (4, 32, "L", "L"), (4, 43, "F", "L"), (8, 12, "L", "L"), (16, 8, "L", "X"),
        (32, 4, "L", "P"), (32, 4, "F", "H"), (64, 8, "L", "X"), (128, 2, "F", "L"),
    )  # fmt: skip
    # Bits above the line that are XORed into a set number of five bits, by hashing.cc: of P, x^(5 + k) modulo
    # x^5 + x^2 + 1; of H, bits of the address.
    POLYNOMIAL = ((5, 8, 10, 11, 14, 15, 16, 17, 18), (6, 9, 11, 12, 15, 16, 17, 18, 19),
                  (5, 7, 8, 11, 12, 13, 14, 15, 19), (6, 8, 9, 12, 13, 14, 15, 16), (7, 9, 10, 13, 14, 15, 16, 17))  # fmt: skip
    FERMI = (13, 14, 15, 17, 19)

    def rows(self, letter, sets, line_bits):
        bits = sets.bit_length() - 1
        above = {
            "L": [()] * bits,
            "X": [(line_bits + bits + i,) for i in range(bits)],
            "P": [tuple(line_bits + bit for bit in row) for row in self.POLYNOMIAL],
            "H": [(bit,) for bit in self.FERMI],
        }[letter]
        return [[line_bits + i, *above[i]] for i in range(bits)]

    @classmethod
    def setUpClass(cls):
        BUILT.mkdir(exist_ok=True)
        run(str(ROOT / "integrations/gpgpusim/build.sh"), str(PEERS / "gpgpu-sim_distribution"), str(cls.PROGRAM))

    def found_out(self, target, words, expected):
        """Whether the device is found to be what is expected."""
        self.expect(0, f"--target={target}", "--device", f"exec:{self.PROGRAM} {words}", "--quiet", "-o", "found.yaml")
        self.assertNotIn("differs", self.expect(0, "diff", expected, "found.yaml").stdout)

    def test_a_whole_l2_is_found_out(self):
        # Four channels by bits 8 and 9, two slices of each by bit 7, and sets of a slice by what is left above the line.
        file = self.write("gpgpusim.config", """-gpgpu_n_mem 4
-gpgpu_n_sub_partition_per_mchannel 2
-gpgpu_cache:dl2 S:32:128:4,L:B:m:L:L,A:192:4,32:0,32  # a slice
-gpgpu_mem_addr_mapping dramid@8;00000000.00000000.00000000.00000000.0000RRRR.RRRRRRRR.RBBBCCCC.BCCSSSSS
-gpgpu_mem_address_mask 1
-gpgpu_memory_partition_indexing 0
-gpgpu_l2_rop_latency 100
""")
        expected = self.write("expected.yaml", f"""schema: gpuinfer/1
device: {{name: expected, source: test}}
caches:
  L2:
    capacity_bytes: 131072
    line_bytes: 128
    sector_bytes: 32
    ways: {{sets: 256, each: 4}}
    index: {{kind: bits, bits: {list(range(7, 15))}}}
    replacement: {{policy: lru}}
""")
        self.found_out("L2", f"--l2 {file}", expected)

    def test_every_configuration_is_found_out(self):
        found = 0
        for kind, line, sector in self.LINES:
            for sets, ways, policy, index in self.SHAPES:
                configuration = f"{kind}:{sets}:{line}:{ways},{policy}:T:m:N:{index},A:512:8,16:0,32"
                with self.subTest(configuration):
                    rows = self.rows(index, sets, line.bit_length() - 1)
                    expected = self.write("expected.yaml", f"""schema: gpuinfer/1
device: {{name: expected, source: test}}
caches:
  L1tex:
    capacity_bytes: {sets * ways * line}
    line_bytes: {line}
    sector_bytes: {sector}
    ways: {[ways] * sets}
    index: {{kind: xor, rows: {rows}, constant: 0}}
    replacement: {{policy: {"lru" if policy == "L" else "fifo"}}}
""")
                    self.found_out("L1tex", configuration, expected)
                    found += 1
        print(f"gpgpusim-device: {found} of {len(self.LINES) * len(self.SHAPES)} configurations found out")


if __name__ == "__main__":
    if not PEERS.is_dir():
        print("GPUINFER_PEERS names no folder with checkouts of the peers")
        sys.exit(77)
    harness.main()
