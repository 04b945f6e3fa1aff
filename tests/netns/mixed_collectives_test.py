#!/usr/bin/env python3
"""Ranks on emulated hosts of two clusters make random calls on several communicators, and compare each result.

Usage: mixed_collectives_test.py TOMBOLO MIXED_RANKS [unittest arguments]. Exit code 77: namespaces are not permitted here.
TOMBOLO_TEST_SEED repeats a run.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from randomized import test_seed  # noqa: E402

TOMBOLO, MIXED_RANKS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
EMULATED = ["--emulate", "two-clusters:rate=1gbit,hosts=4", "--emulation-mode", "namespaces"]
ROUNDS = 200  # of three calls
SEED = test_seed()


class MixedCollectives(unittest.TestCase):
    def run_job(self, ranks, *arguments):
        """Whatever is on the command line, every rank has compared all that it got."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        done = subprocess.run([TOMBOLO, "run", *EMULATED, *arguments, "-n", str(ranks), "--timeout", "200", "--", MIXED_RANKS, str(SEED), "--rounds",
                               str(ROUNDS)], env=environment, capture_output=True, text=True, timeout=300, check=False)
        said = f"TOMBOLO_TEST_SEED={SEED}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, 0, said)
        for rank in range(ranks):
            self.assertIn(f"right: {ROUNDS} rounds as rank {rank} of {ranks}, seed {SEED}", done.stdout, said)

    def run_undeclared(self, ranks, *arguments):
        """Without a cluster file; the job finds out itself which hosts are near each other."""
        with tempfile.TemporaryDirectory() as folder:
            self.run_job(ranks, "--env", "TOMBOLO_CLUSTER=", "--env", f"TOMBOLO_DISCOVER={folder}/islands.json", *arguments)

    def test_a_rank_on_each_host(self):
        self.run_job(4)

    def test_clusters_that_nobody_declared(self):
        self.run_undeclared(4)

    def test_two_ranks_on_each_host(self):
        self.run_undeclared(8)

    def test_two_ranks_on_each_host_that_are_no_neighbours(self):
        self.run_undeclared(8, "--order", "interleaved")


if __name__ == "__main__":
    probe = subprocess.run([TOMBOLO, "run", *EMULATED, "--quiet", "--", "true"], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        print(probe.stderr)
        sys.exit(77 if "namespaces are not permitted" in probe.stderr or "/dev/net/tun" in probe.stderr else 1)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
