#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""kernel_trace.py KERNEL N FOLDER [options]: a trace for Accel-Sim of a kernel on N x N matrices of floats.

KERNEL is gemm, c[i][j] += sum over k of a[i][k] b[k][j], or stencil, b[i][j] = the mean of a[i][j] and its four
neighbours. Blocks have 32 x 8 threads, a thread has one result; N is a multiple of 32. The addresses are what the
kernel's own formulas give. No tool and no GPU takes part. FOLDER gets kernel-1.traceg and kernelslist.g. kernels.cu has
the same kernels for a GPU, whose counters can be held against the simulation.
"""

import argparse
import pathlib

BLOCK = (32, 8)
FLOAT_BYTES = 4
MATRICES_AT = 0x7F5000000000


class Matrix:
    def __init__(self, number, size, first):
        self.base = first + number * size * size * FLOAT_BYTES
        self.size = size

    def row(self, i, j):
        """Address of the first lane, stride from lane to lane: neighbours in row i, from column j on."""
        return self.base + (i * self.size + j) * FLOAT_BYTES, FLOAT_BYTES

    def one(self, i, j):
        """The same element for all lanes."""
        return self.row(i, j)[0], 0


# Of a warp whose lanes have the results (i, j) to (i, j + 31): (is_load, lanes, (address, stride)) in the order of the
# code. Lanes are a mask, the address is that of the first of them.
ALL_LANES = 0xFFFFFFFF


def gemm(n, i, j, first):
    a, b, c = (Matrix(number, n, first) for number in range(3))
    for k in range(n):
        yield True, ALL_LANES, a.one(i, k)
        yield True, ALL_LANES, b.row(k, j)
    yield True, ALL_LANES, c.row(i, j)
    yield False, ALL_LANES, c.row(i, j)


def stencil(n, i, j, first):
    """The border has no results."""
    a, b = Matrix(0, n, first), Matrix(1, n, first)
    lanes = ALL_LANES & ~(j == 0) & ~((j + BLOCK[0] == n) << (BLOCK[0] - 1))
    left = max(j, 1)
    if 0 < i < n - 1:
        for row, column in ((i, left), (i - 1, left), (i + 1, left), (i, left - 1), (i, left + 1)):
            yield True, lanes, a.row(row, column)
        yield False, lanes, b.row(i, left)


KERNELS = {"gemm": gemm, "stencil": stencil}


def instruction(number, is_load, lanes, at):
    """A line of the trace: lanes, destinations, opcode, sources, width, addresses as the first and a stride."""
    address, stride = at
    place = f"{16 * number:04x} {lanes:08x}"
    addresses = f"{FLOAT_BYTES} 1 0x{address:x} {stride}"
    # Sixteen results may be awaited at once, as by an unrolled loop.
    return f"{place} 1 R{8 + number % 16} LDG.E 1 R2 {addresses} 0" if is_load else f"{place} 0 STG.E 2 R2 R4 {addresses} 0"


def warp_lines(options, warp, i, j):
    accesses = KERNELS[options.kernel](options.n, i, j, options.at)
    code = [instruction(number, *access) for number, access in enumerate(accesses)]
    code.append(f"{16 * len(code):04x} ffffffff 0 EXIT 0 0 0")
    return [f"warp = {warp}", f"insts = {len(code)}", *code]


def trace_lines(options):
    width, height = BLOCK
    of_row = options.n // width
    simulated, sms = options.sms
    blocks = [block for block in range(of_row * (options.n // height)) if block % sms < simulated]
    yield from (
        f"-kernel name = {options.kernel}",
        "-kernel id = 1",
        f"-grid dim = ({len(blocks)},1,1)" if simulated < sms else f"-grid dim = ({of_row},{options.n // height},1)",
        f"-block dim = ({width},{height},1)",
        f"-shmem = {options.shared}",
        "-nregs = 32",
        "-binary version = 70",
        "-cuda stream id = 0",
        "-shmem base_addr = 0x00007e1000000000",
        "-local mem base_addr = 0x00007e0000000000",
        "-nvbit version = 1.5",
        "-accelsim tracer version = 4",
        "-enable lineinfo = 0",
        "#traces format",
    )
    for number, block in enumerate(blocks):
        y, x = divmod(block, of_row)
        yield "#BEGIN_TB"
        yield f"thread block = {number},0,0" if simulated < sms else f"thread block = {x},{y},0"
        for warp in range(height):
            yield from warp_lines(options, warp, y * height + warp, x * width)
        yield "#END_TB"


def some_of(text):
    simulated, slash, sms = text.partition("/")
    if not slash or not 0 < int(simulated) <= int(sms):
        raise ValueError(text)
    return int(simulated), int(sms)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("n", type=int)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="shared memory of a block")
    parser.add_argument("--at", type=lambda text: int(text, 16), default=MATRICES_AT, metavar="ADDRESS", help="of the first matrix")
    parser.add_argument(
        "--sms",
        type=some_of,
        default=(1, 1),
        metavar="FEW/ALL",
        help="only the blocks of FEW of ALL SMs, to which blocks are dealt out in turn; simulate FEW of them",
    )
    options = parser.parse_args()
    if options.n <= 0 or options.n % BLOCK[0]:
        parser.error("N is a multiple of 32")
    options.folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / "kernel-1.traceg").open("w") as file:
        file.writelines(line + "\n" for line in trace_lines(options))
    (options.folder / "kernelslist.g").write_text("kernel-1.traceg\n")


if __name__ == "__main__":
    main()
