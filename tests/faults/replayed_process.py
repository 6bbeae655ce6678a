# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""replayed_process.py SAID ends|stays: says the first line of the file SAID, and then one for each line that it is told."""

import sys
import time

with open(sys.argv[1], "rb") as said:
    for line in said:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        if not sys.stdin.buffer.readline():
            sys.exit()
if sys.argv[2] == "stays":
    time.sleep(600)
