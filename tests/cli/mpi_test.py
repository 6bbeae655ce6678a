# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""mpi_test.py GPUINFER MPIEXEC: `infer --mpi` gives the same bytes however many ranks share the work."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import harness

MPIEXEC = None
# Of Open MPI: more ranks than cores, a machine without a network, and root, as in a container.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_plm_rsh_agent": "",
}


class Mpi(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        self.expect(0, "probe", "--target=L1tex", f"--device=virtual:{self.small}", "--sequence=random:3K,32,6000", "--record=walk.h5")
        laps = ("1024", "1088", "1344")
        for size in laps:
            self.expect(
                0, "probe", "--target=L1tex", f"--device=virtual:{self.small}",
                f"--warm=cyclic:{size},4", f"--sequence=cyclic:{size},4,8", f"--record={size}.h5",
            )
        self.laps = [f"{size}.h5" for size in laps]

    def on_ranks(self, ranks, *arguments):
        command = [MPIEXEC, "-n", str(ranks), self.program, "infer", "--mpi", *arguments]
        return subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120 * harness.PATIENCE, check=False)

    def test_the_number_of_ranks_does_not_show(self):
        for traces in (["walk.h5"], self.laps):
            alone = self.run_program("infer", *traces, "-o", "alone.yaml")
            expected = (self.folder / "alone.yaml").read_bytes()
            for ranks in (1, 2, 3):
                with self.subTest(traces=traces, ranks=ranks):
                    done = self.on_ranks(ranks, *traces, "-o", "profile.yaml")
                    self.assertEqual(done.returncode, alone.returncode, done.stderr)
                    self.assertEqual((self.folder / "profile.yaml").read_bytes(), expected)
                    # Each of them did its share.
                    scored = re.search(r"^gpuinfer: hypotheses scored: (.*)$", done.stderr, re.MULTILINE).group(1)
                    shares = [int(share.split()[0]) for share in scored.split(", ")]
                    self.assertEqual(len(shares), ranks, scored)
                    self.assertGreater(min(shares), 0.7 * max(shares), scored)
                    self.assertGreater(sum(shares), 100, scored)

    def test_only_the_first_rank_talks(self):
        done = self.on_ranks(3, "walk.h5", "--quiet")
        self.assertEqual(done.stdout, self.run_program("infer", "walk.h5", "--quiet").stdout)
        self.assertNotIn("gpuinfer", done.stderr)
        # Whichever ends otherwise than with 0 has all others ended, by SIGTERM.
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"Process name: \[\[\d+,1\],0\]")

    def test_an_error_is_one_sentence(self):
        done = self.on_ranks(3, "absent.h5")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(re.findall(r"^gpuinfer: .*absent\.h5", done.stderr, re.MULTILINE)), 1, done.stderr)
        self.assertEqual(len(re.findall(r"^gpuinfer: .*--frobnicate", self.on_ranks(2, "--frobnicate").stderr, re.MULTILINE)), 1)

    def test_an_error_of_one_rank_ends_all(self):
        # Each rank in a folder of its own, of which one lacks the recording.
        for rank in range(3):
            folder = self.folder / str(rank)
            folder.mkdir()
            if rank != 1:
                (folder / "walk.h5").write_bytes((self.folder / "walk.h5").read_bytes())
        script = f"cd $OMPI_COMM_WORLD_RANK && exec {shlex.quote(self.program)} infer --mpi walk.h5"
        done = subprocess.run(
            [MPIEXEC, "-n", "3", "sh", "-c", script],
            cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(re.findall(r"^gpuinfer: on rank 1: walk\.h5", done.stderr, re.MULTILINE)), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_deadline_ends_all_ranks_at_the_same_step(self):
        done = self.on_ranks(2, "walk.h5", "--timeout=0.001")
        self.assertEqual(done.returncode, 3, done.stderr)

    def ranks_of(self, job):
        """Processes by rank."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
                rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", (process / "environ").read_bytes())
            except OSError:
                continue
            if parent == job.pid and rank:
                found[int(rank[1])] = int(process.name)
        return found

    def test_a_rank_that_hangs_ends_all(self):
        self.expect(0, "probe", "--target=L1tex", "--device=virtual:gtx780", "--sequence=random:24K,32,100000", "--record=long.h5")
        for hanging in (0, 1):
            with self.subTest(hanging):
                command = [MPIEXEC, "-n", "3", self.program, "infer", "--mpi", "long.h5", "--rank-timeout=2", "-o", "profile.yaml"]
                with subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
                    self.addCleanup(job.kill)
                    while "sets of lines" not in job.stderr.readline():
                        self.assertIsNone(job.poll())
                    ranks = self.ranks_of(job)
                    os.kill(ranks[hanging], signal.SIGSTOP)
                    began = time.monotonic()
                    _, stderr = job.communicate(timeout=60)
                    self.assertLess(time.monotonic() - began, 20)
                self.assertEqual(job.returncode, 1, stderr)
                self.assertRegex(stderr, rf"(?m)^gpuinfer: rank {hanging} said nothing for 2 s \(--rank-timeout\)")
                until = time.monotonic() + 10
                while left := [rank for rank, process in ranks.items() if pathlib.Path(f"/proc/{process}").exists()]:
                    self.assertLess(time.monotonic(), until, f"ranks {left} are left")
                    time.sleep(0.05)

    def test_without_mpi_the_program_says_so(self):
        """A copy of the program alone, as on a machine without MPI."""
        alone = self.folder / "gpuinfer"
        alone.write_bytes(pathlib.Path(self.program).read_bytes())
        alone.chmod(0o755)
        done = subprocess.run([alone, "infer", "--mpi", "walk.h5"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("libopenmpi-dev", done.stderr)
        listed = subprocess.run(["ldd", alone], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("libmpi", listed)


if __name__ == "__main__":
    MPIEXEC = sys.argv.pop(2)
    harness.main()
