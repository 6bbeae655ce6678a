# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of kernels: every lane loads and stores what the formula of the kernel says."""

import collections
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "integrations/gpgpusim/kernel_trace.py"
N = 64
FIRST = 0x7F5000000000


class KernelTrace(unittest.TestCase):
    def trace(self, kernel, *options):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, SCRIPT, kernel, str(N), folder, *options], check=True)
            return (pathlib.Path(folder) / "kernel-1.traceg").read_text().splitlines()

    def elements(self, kernel):
        """(opcode, matrix, row, column) -> how many lanes of how many blocks ask for it."""
        lines = self.trace(kernel)
        found = collections.Counter()
        for line in lines:
            words = line.split()
            opcode = next((word for word in words if word.startswith(("LDG", "STG"))), None)
            if opcode is None:
                continue
            address, stride = int(words[-3], 16), int(words[-2])
            for lane in range(int(words[1], 16).bit_count()):
                matrix, place = divmod((address + lane * stride - FIRST) // 4, N * N)
                found[opcode[:3], matrix, *divmod(place, N)] += 1
        return found

    def test_gemm(self):
        expected = collections.Counter()
        for i in range(N):
            for j in range(N):
                expected["LDG", 0, i, j] = expected["LDG", 1, i, j] = N
                expected["LDG", 2, i, j] = expected["STG", 2, i, j] = 1
        self.assertEqual(self.elements("gemm"), expected)

    def test_stencil(self):
        expected = collections.Counter()
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                for row, column in ((i, j), (i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                    expected["LDG", 0, row, column] += 1
                expected["STG", 1, i, j] += 1
        self.assertEqual(self.elements("stencil"), expected)

    def test_some_sms_have_their_blocks_at_another_address(self):
        def blocks(lines):
            begins = [number for number, line in enumerate(lines) if line == "#BEGIN_TB"]
            return [lines[begin + 2 : lines.index("#END_TB", begin)] for begin in begins]

        whole = blocks(self.trace("gemm"))
        some = blocks(self.trace("gemm", "--sms", "2/5", "--at", "0x7f6000000000"))
        moved = [[line.replace("0x7f50", "0x7f60") for line in block] for block in whole]
        self.assertEqual(some, [block for number, block in enumerate(moved) if number % 5 < 2])
        self.assertIn("-grid dim = (7,1,1)", self.trace("gemm", "--sms", "2/5"))


if __name__ == "__main__":
    unittest.main()
