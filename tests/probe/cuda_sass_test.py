#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Holds the machine code of the CUDA probe to what its source promises.

usage: cuda_sass_test.py [LIBRARY PLAY_BANK RUN_CODE RUN_IMMEDIATES]     (exit status 77: skipped)

In every kernel that plays accesses, for every architecture in LIBRARY and in the image PLAY_BANK: the clock, the one
load of the path, the store of its value, the clock, in this order; nothing else that touches memory and no work on the
address between the clocks; the latency stored after them, in a loop. Outside the timed region of the kernels in LIBRARY
nothing goes through L1 but the store of those that store as well and one look-up of a texture, and its lines are
dropped in one place only. PLAY_BANK reads no parameter as it plays. In the image RUN_CODE: as many clocks as pieces and
one more, as many multiplications as a piece has, and no more code than the pieces are said to have. In RUN_IMMEDIATES:
as many clocks, and the address of one constant for each piece. In the kernels of LIBRARY that many threads run: as many
loads and stores as their elements under way ask for, of the size and the path that they are said to have, and no
others.
"""

import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77

TIMED_LOADS = {
    "GlobalCa": r"LDG\.E(\.STRONG\.(CTA|SM))?",
    "GlobalNc": r"LDG\.E\.CONSTANT(\.SYS)?",
    "GlobalCg": r"LDG\.E\.STRONG\.GPU",
    "Texture": r"(TEX|TLD)\..*",
    "Raster": r"(TEX|TLD)\..*",
    "Constant": r"LDC(\.\w+)*",
}
LOOK_UP = re.compile(r"(TEX|TLD)\.")
STORE = r"STG\.E(\.SYS)?"
OTHER_KERNELS = {"stores GlobalCa", "stores GlobalCg", "play_bank", "play_after_others", "run_code", "run_immediates", "stream 0", "stream 1", "stream 2", "stream shared"} | {
    "stream constant",
    "concurrent loads",
    "shared loads",
}
CLOCK = re.compile(r"SR_CLOCK")
MEMORY = re.compile(r"(LD|ST|ATOM|RED|TEX|TLD|SULD|SUST|UBLKCP|CCTL)")
NOT_L1 = re.compile(
    r"(LDS|STS|LDC|LDGDEPBAR|LDGSTS\.E\.BYPASS|LDG\.E\.128\.STRONG\.GPU|STG\.E\.128\.STRONG\.GPU|UBLKCP|CCTL)"
)
# What may stand between the first clock and the load: waiting, and fetching descriptors into uniform registers.
PREPARES_NO_ADDRESS = re.compile(r"(NOP|DEPBAR|R2UR|ULDC|LDCU|UMOV)")


class Instruction:
    def __init__(self, address, predicate, opcode, operands):
        self.address = int(address, 16)
        self.predicate = predicate
        self.opcode = opcode
        self.operands = [operand.strip() for operand in operands.split(",")] if operands else []

    def __str__(self):
        return f"{self.address:04x} {self.predicate or ''} {self.opcode} {', '.join(self.operands)}"


def kernels(sass):
    """Yields (architecture, function name, instructions)."""
    instruction = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
    architecture, name, code = "?", None, []
    for line in sass.splitlines():
        if found := re.match(r"\s*arch = (\w+)", line):
            architecture = found[1]
        elif found := re.match(r"\s*Function : (\S+)", line):
            name, code = found[1], []
        elif name and line.strip(" \t").startswith("....."):
            yield architecture, name, code
            name = None
        elif name and (found := instruction.match(line)):
            code.append(Instruction(*found.groups()))


def clocks_of(code):
    return [i for i, instruction in enumerate(code) if any(CLOCK.search(operand) for operand in instruction.operands)]


def timing_faults(code, timed_load, is_skipped=False):
    """Yields a sentence for each promise about the timed region that `code` breaks. `is_skipped`: by stores, under one
    predicate."""
    clocks = clocks_of(code)
    if len(clocks) != 2:
        yield f"reads the clock {len(clocks)} times instead of twice"
        return
    first, second = clocks
    region = code[first + 1 : second]
    in_memory = [
        i
        for i, instruction in enumerate(region)
        if MEMORY.match(instruction.opcode) and not PREPARES_NO_ADDRESS.match(instruction.opcode)
    ]
    if len(in_memory) != 2:
        yield f"has {len(in_memory)} memory instructions between the clocks instead of a load and a store"
        return
    load, store = (region[i] for i in in_memory)
    if not re.fullmatch(timed_load, load.opcode):
        yield f"loads with {load} where {timed_load} is due"
    if store.opcode != "STS" or not set(load.operands[:2]) & {store.operands[-1]}:
        yield f"does not store the loaded value: {load}; {store}"
    for instruction in (load, store, code[second]):
        if instruction.predicate and not (is_skipped and instruction.predicate == load.predicate):
            yield f"does not always do {instruction}"
    for instruction in region[: in_memory[0]]:
        if not PREPARES_NO_ADDRESS.match(instruction.opcode):
            yield f"does {instruction} between the first clock and the load"
    if in_memory[1] != in_memory[0] + 1 or in_memory[1] != len(region) - 1:
        yield "does something between the load, the store and the second clock"

    ends = (
        end
        for end, instruction in enumerate(code)
        if end > second and instruction.opcode == "BRA" and int(instruction.operands[-1], 16) <= code[first].address
    )
    end = next(ends, None)
    if end is None:
        yield "does not come back for the next access"
    elif not any(instruction.opcode.startswith(("STS", "STG")) for instruction in code[second:end]):
        yield "does not store the latency"


def parameter_faults(code):
    """Yields a sentence for each parameter of the kernel, a constant itself, that is read as accesses are played."""
    clocks = clocks_of(code)
    ends = [i for i, instruction in enumerate(code) if instruction.opcode == "BRA" and clocks and i > clocks[-1]]
    for end in ends:
        begin = int(code[end].operands[-1], 16)
        if begin <= code[clocks[0]].address:
            for instruction in code[:end]:
                if instruction.address >= begin and any("c[0x0]" in operand for operand in instruction.operands):
                    yield f"reads a parameter with {instruction}"
            return


def l1_faults(code, timed_load):
    """Yields a sentence for each promise about what else goes through L1 that `code` breaks: where textures are loaded,
    one more load looks up the texture before the first clock."""
    clocks = clocks_of(code)
    looks_up = [code[i] for i in range(clocks[0] if clocks else 0) if LOOK_UP.match(code[i].opcode)]
    if len(looks_up) != (1 if timed_load == TIMED_LOADS["Texture"] else 0):
        yield f"looks up textures {len(looks_up)} times"
    for i, instruction in enumerate(code):
        if instruction in looks_up:
            continue
        is_timed = len(clocks) == 2 and clocks[0] < i < clocks[1] and re.fullmatch(timed_load, instruction.opcode)
        if not is_timed and MEMORY.match(instruction.opcode) and not NOT_L1.match(instruction.opcode):
            yield f"goes through L1 with {instruction}"
    if sum(instruction.opcode == "CCTL.IVALL" for instruction in code) != 1:
        yield "does not drop the lines of L1 in exactly one place (CCTL.IVALL)"


def store_faults(code, timed_load):
    """Yields a sentence for each promise about a kernel that stores as well that `code` breaks: loads are timed as in
    those that only load, and one store, outside the timed region, goes through L1."""
    yield from timing_faults(code, timed_load, is_skipped=True)
    stores = [instruction for instruction in code if re.fullmatch(STORE, instruction.opcode)]
    if len(stores) != 1:
        yield f"stores in {len(stores)} places instead of one"
    yield from l1_faults([instruction for instruction in code if instruction not in stores], timed_load)


def code_faults(code):
    """Yields a sentence for each promise about straight-line code that `code` breaks."""
    pieces, piece_bytes, multiplications = 192, 1024, 57
    clocks = len(clocks_of(code))
    if clocks != pieces + 1:
        yield f"reads the clock {clocks} times"
    done = sum(instruction.opcode.split(".")[0] == "FFMA" for instruction in code)
    if done != pieces * multiplications:
        yield f"multiplies {done} times"
    last = max(i for i, instruction in enumerate(code) if instruction.opcode != "NOP")
    per_piece = code[last].address / pieces
    if abs(per_piece - piece_bytes) > 0.02 * piece_bytes:
        yield f"has {per_piece:.0f} bytes for each piece"


def immediate_faults(code):
    """Yields a sentence for each promise about constants in instructions that `code` breaks."""
    pieces, piece_bytes = 192, 64
    clocks = clocks_of(code)
    if len(clocks) != pieces + 1:
        yield f"reads the clock {len(clocks)} times"
    # Newer code says [URZ] for [0x0].
    found = [place for each in code for place in re.findall(r"c\[0x3\]\[(?:URZ\+?)?(0x[0-9a-f]+|)\]", str(each))]
    places = [int(place or "0", 16) for place in found]
    if sorted(places) != [piece * piece_bytes for piece in range(pieces)]:
        yield f"has {len(places)} constants in its instructions, not one of each line"


WORKS = ("load", "copy", "swap", "store")  # model::StreamWork
STREAM_LOADS = {
    "0": r"LDG\.E{width}(\.STRONG\.(CTA|SM))?",
    "1": r"LDG\.E{width}\.STRONG\.GPU",
    "2": r"(TEX|TLD)\..*",
}
WIDTHS = {1: "", 2: r"\.64", 4: r"\.128"}
GLOBAL_OR_TEXTURE = re.compile(r"(LDG|STG|TEX|TLD)")
SHARED = re.compile(r"(LDS|STS)")


def count_faults(code, kind, wanted):
    """Yields a sentence for each instruction of this kind that is not among those wanted, or not as often as wanted."""
    found = {pattern: 0 for pattern in wanted}
    for instruction in code:
        if kind.match(instruction.opcode):
            pattern = next((each for each in wanted if re.fullmatch(each, instruction.opcode)), None)
            if pattern is None:
                yield f"does {instruction}"
            else:
                found[pattern] += 1
    for pattern, count in found.items():
        if count != wanted[pattern]:
            yield f"does {pattern} {count} times instead of {wanted[pattern]}"


def thread_faults(name, code):
    """What `code` does otherwise than its name says, or None if the name is not that of a kernel of many threads."""
    if found := re.search(r"13stream_kernelI.*SourceE(\d)EL.*StreamWorkE(\d)ELj(\d)ELj(\d)E", name):
        source, work, words, in_flight = found[1], WORKS[int(found[2])], int(found[3]), int(found[4])
        wanted = {} if work == "store" else {STREAM_LOADS[source].format(width=WIDTHS[words]): in_flight}
        if work != "load":
            wanted[rf"STG\.E\.EF{WIDTHS[words]}(\.SYS)?"] = in_flight
        return f"stream {source}", list(count_faults(code, GLOBAL_OR_TEXTURE, wanted))
    if found := re.search(r"20stream_shared_kernelIL.*StreamWorkE(\d)ELj(\d)ELj(\d)E", name):
        work, words = WORKS[int(found[1])], int(found[2])
        each = int(found[3]) * (2 if work == "swap" else 1)
        wanted = {rf"STS{WIDTHS[words]}": each}
        if work != "store":
            wanted[rf"LDS(\.U)?{WIDTHS[words]}"] = each
        return "stream shared", list(count_faults(code, SHARED, wanted))
    if found := re.search(r"22stream_constant_kernelILj(\d)ELj(\d)E", name):
        wanted = 4 * int(found[1]) * int(found[2])
        loaded = sum(
            16 if ".128" in instruction.opcode else 8 if ".64" in instruction.opcode else 4
            for instruction in code
            if any("c[0x3]" in operand for operand in instruction.operands)
        )
        return "stream constant", [] if loaded == wanted else [f"takes {loaded} bytes of constants instead of {wanted}"]
    if found := re.search(r"24load_concurrently_kernelILj(\d)E", name):
        wanted = {r"LDG\.E\.STRONG\.GPU": int(found[1]), r"STG\.E(\.SYS)?": 1}
        return "concurrent loads", list(count_faults(code, GLOBAL_OR_TEXTURE, wanted))
    if "18load_shared_kernel" in name:
        chained = 64
        loads = {
            width: sum(re.fullmatch(rf"LDS(\.U)?{width}", each.opcode) is not None for each in code)
            for width in WIDTHS.values()
        }
        # The other words of a wide element are not used, but an element has to be loaded whole.
        faults = [f"has {count} loads of width `{width}`" for width, count in loads.items() if count != chained]
        return "shared loads", faults
    return None


def disassembled(cuobjdump, file):
    return subprocess.run([cuobjdump, "-sass", file], capture_output=True, text=True, check=True).stdout


def main():
    if len(sys.argv) != 5:
        print("skipped: the program was built without CUDA")
        return SKIPPED
    cuobjdump = shutil.which("cuobjdump", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if cuobjdump is None:
        print("skipped: cuobjdump is neither in PATH nor in /usr/local/cuda/bin")
        return SKIPPED
    library, play_bank, run_code, run_immediates = sys.argv[1:]

    seen, failed = {}, 0
    def judge(architecture, path, problems):
        nonlocal failed
        seen.setdefault(architecture, set()).add(path)
        for problem in problems:
            failed += 1
            print(f"{architecture} {path}: {problem}")

    for architecture, name, code in kernels(disassembled(cuobjdump, library)):
        paths_of_kernel = [path for path in TIMED_LOADS if "play_accesses" in name and path in name]
        if len(paths_of_kernel) == 1:  # of two, one is that of the warm-up: the same loops twice
            load = TIMED_LOADS[paths_of_kernel[0]]
            judge(architecture, paths_of_kernel[0], [*timing_faults(code, load), *l1_faults(code, load)])
        elif stored := [path for path in TIMED_LOADS if "play_with_stores" in name and path in name]:
            judge(architecture, f"stores {stored[0]}", store_faults(code, TIMED_LOADS[stored[0]]))
        elif "play_after_others" in name:
            judge(architecture, "play_after_others", timing_faults(code, TIMED_LOADS["Constant"]))
        elif faults := thread_faults(name, code):
            judge(architecture, *faults)
    for architecture, name, code in kernels(disassembled(cuobjdump, play_bank)):
        if name == "play_bank":
            judge(architecture, name, [*timing_faults(code, TIMED_LOADS["Constant"]), *parameter_faults(code)])
    for architecture, name, code in kernels(disassembled(cuobjdump, run_code)):
        if name == "run_code":
            judge(architecture, name, code_faults(code))
    for architecture, name, code in kernels(disassembled(cuobjdump, run_immediates)):
        if name == "run_immediates":
            judge(architecture, name, immediate_faults(code))
    for architecture, paths in seen.items():
        for path in (TIMED_LOADS.keys() | OTHER_KERNELS) - paths:
            failed += 1
            print(f"{architecture} {path}: there is no such kernel")
    if not seen:
        failed += 1
        print(f"{library}: there are no kernels in it")
    print(f"{failed} fault(s) in {', '.join(seen) or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
