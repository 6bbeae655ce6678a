#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""survey_hosts_test.py GPUINFER: a survey of two hosts, each of which is a network namespace with a name of its own.

Skipped where namespaces may not be made, or where there is no MPI.
"""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess

import harness
import yaml

AGENT = """#!/bin/sh
# Runs a command on a host, in place of ssh.
host=$1
shift
exec ip netns exec "{prefix}$host" unshare --uts sh -c "hostname $host; cd '{folder}'; $*"
"""


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TwoHosts(harness.ProgramTest):
    def setUp(self):
        super().setUp()
        if shutil.which("mpirun") is None or not pathlib.Path(self.program).with_name("gpuinfer_mpi.so").exists():
            self.skipTest("there is no MPI")
        if shutil.which("ip") is None or os.geteuid() != 0:
            self.skipTest("only root can make network namespaces, with `ip`")
        self.prefix = f"gpuinfer{os.getpid()}"
        for host in ("nodea", "nodeb"):
            done = run("ip", "netns", "add", self.prefix + host)
            if done.returncode != 0:
                self.skipTest(f"network namespaces are not permitted here: {done.stderr.strip()}")
            self.addCleanup(run, "ip", "netns", "delete", self.prefix + host)
        done = run(
            "ip", "-n", self.prefix + "nodea", "link", "add", "between", "type", "veth", "peer", "name", "between", "netns",
            self.prefix + "nodeb",
        )  # fmt: skip
        if done.returncode != 0:
            self.skipTest(f"the two cannot be connected here: {done.stderr.strip()}")
        for number, host in enumerate(("nodea", "nodeb"), 1):
            namespace = self.prefix + host
            for command in (f"addr add 10.77.0.{number}/24 dev between", "link set between up", "link set lo up"):
                done = run("ip", "-n", namespace, *command.split())
                self.assertEqual(done.returncode, 0, done.stderr)
            # Names of hosts, for programs that `ip netns exec` starts.
            hosts = pathlib.Path("/etc/netns") / namespace
            hosts.mkdir(parents=True)
            self.addCleanup(shutil.rmtree, hosts)
            (hosts / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 nodea\n10.77.0.2 nodeb\n")

    def test_the_ranks_of_both_share_the_devices(self):
        agent = pathlib.Path(self.write("agent.sh", AGENT.format(prefix=self.prefix, folder=self.folder)))
        agent.chmod(0o755)
        self.write("larger.yaml", harness.CACHE.replace("capacity_bytes: 1024", "capacity_bytes: 1536").replace("[4, 4, 4, 4]", "[6, 6, 6, 6]"))
        devices = ["virtual:small.yaml"] * 7 + ["virtual:larger.yaml"]
        self.write("devices.txt", "\n".join(devices))
        survey = (
            f"mpirun --allow-run-as-root --oversubscribe --bind-to none --enable-recovery -np 4 --host nodea:2,nodeb:2"
            f" --mca plm_rsh_agent {agent} --mca btl tcp,self --mca oob_tcp_if_include 10.77.0.0/24"
            f" --mca btl_tcp_if_include 10.77.0.0/24"
            f" {shlex.quote(str(self.program))} survey --target L1tex --devices devices.txt --jobs 1 -o fleet.yaml"
        )
        ranks = subprocess.Popen(
            [str(agent), "nodea", survey],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = ranks.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(ranks.pid, signal.SIGKILL)
            self.fail(f"no end in a minute: {ranks.communicate()[1]}")
        self.assertEqual(ranks.returncode, 0, said)
        self.assertIn("4 ranks on 2 hosts", said)
        fleet = yaml.safe_load((self.folder / "fleet.yaml").read_text())
        self.assertEqual({one["host"] for one in fleet["devices"]}, {"nodea", "nodeb"})
        self.assertEqual([one["id"] for one in fleet["deviations"]], [7])
        self.assertEqual((fleet["survey"]["answered"], fleet["survey"]["failed"]), (8, 0))


if __name__ == "__main__":
    harness.main()
