#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""kernel_trace.py KERNEL N FOLDER [--shared BYTES]: a trace for Accel-Sim of a kernel on N x N matrices of floats.

KERNEL is gemm, c[i][j] += sum over k of a[i][k] b[k][j], or stencil, b[i][j] = the mean of a[i][j] and its four
neighbours. Blocks have 32 x 8 threads, a thread has one result; N is a multiple of 32. The addresses are what the
kernel's own formulas give. No tool and no GPU takes part. FOLDER gets kernel-1.traceg and kernelslist.g.
"""

import argparse
import pathlib

BLOCK = (32, 8)
FLOAT_BYTES = 4
MATRICES_AT = 0x7F5000000000


class Matrix:
    def __init__(self, number, size):
        self.base = MATRICES_AT + number * size * size * FLOAT_BYTES
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


def gemm(n, i, j):
    a, b, c = (Matrix(number, n) for number in range(3))
    for k in range(n):
        yield True, ALL_LANES, a.one(i, k)
        yield True, ALL_LANES, b.row(k, j)
    yield True, ALL_LANES, c.row(i, j)
    yield False, ALL_LANES, c.row(i, j)


def stencil(n, i, j):
    """The border has no results."""
    a, b = Matrix(0, n), Matrix(1, n)
    lanes = ALL_LANES & ~(j == 0) & ~((j + BLOCK[0] == n) << (BLOCK[0] - 1))
    first = max(j, 1)
    if 0 < i < n - 1:
        for row, column in ((i, first), (i - 1, first), (i + 1, first), (i, first - 1), (i, first + 1)):
            yield True, lanes, a.row(row, column)
        yield False, lanes, b.row(i, first)


KERNELS = {"gemm": gemm, "stencil": stencil}


def instruction(number, is_load, lanes, at):
    """A line of the trace: lanes, destinations, opcode, sources, width, addresses as the first and a stride."""
    address, stride = at
    place = f"{16 * number:04x} {lanes:08x}"
    addresses = f"{FLOAT_BYTES} 1 0x{address:x} {stride}"
    # Sixteen results may be awaited at once, as by an unrolled loop.
    return f"{place} 1 R{8 + number % 16} LDG.E 1 R2 {addresses} 0" if is_load else f"{place} 0 STG.E 2 R2 R4 {addresses} 0"


def warp_lines(kernel, n, warp, i, j):
    code = [instruction(number, *access) for number, access in enumerate(KERNELS[kernel](n, i, j))]
    code.append(f"{16 * len(code):04x} ffffffff 0 EXIT 0 0 0")
    return [f"warp = {warp}", f"insts = {len(code)}", *code]


def trace_lines(kernel, n, shared_bytes):
    width, height = BLOCK
    yield from (
        f"-kernel name = {kernel}",
        "-kernel id = 1",
        f"-grid dim = ({n // width},{n // height},1)",
        f"-block dim = ({width},{height},1)",
        f"-shmem = {shared_bytes}",
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
    for y in range(n // height):
        for x in range(n // width):
            yield "#BEGIN_TB"
            yield f"thread block = {x},{y},0"
            for warp in range(height):
                yield from warp_lines(kernel, n, warp, y * height + warp, x * width)
            yield "#END_TB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("n", type=int)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="shared memory of a block")
    options = parser.parse_args()
    if options.n <= 0 or options.n % BLOCK[0]:
        parser.error("N is a multiple of 32")
    options.folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / "kernel-1.traceg").open("w") as file:
        file.writelines(line + "\n" for line in trace_lines(options.kernel, options.n, options.shared))
    (options.folder / "kernelslist.g").write_text("kernel-1.traceg\n")


if __name__ == "__main__":
    main()
