#!/usr/bin/env python3
"""`tombolo plan --here` as ranks of a job on this host, started with torchrun's variables and by `tombolo run`: what it writes,
what each rank prints, and that a host without GPUs is planned for its processors.

Usage: plan_here_test.py TOMBOLO [unittest arguments]
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from ports import unused_port  # noqa: E402

TOMBOLO = os.path.abspath(sys.argv[1])
RANKS = 2
SHAPE = ["--layers", "2", "--width", "64", "--heads", "4", "--context", "32", "--batch", "8"]


class PlanHere(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tombolo-here-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("TOMBOLO_") or name == "TOMBOLO_LIBRARY"}
        self.environment["CUDA_VISIBLE_DEVICES"] = ""

    def here(self, *options):
        return [TOMBOLO, "plan", "--here", *SHAPE, "-o", "plan.json", *options]

    def as_torchrun(self, *options):
        """The outcome of each rank, as torchrun would start them."""
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port()), "WORLD_SIZE": str(RANKS),
                     "LOCAL_WORLD_SIZE": str(RANKS)}
        ranks = []
        for rank in range(RANKS):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(subprocess.Popen(self.here(*options), env=self.environment | variables | own, cwd=self.folder,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(ranks[-1].kill)
        said = [rank.communicate(timeout=120) for rank in ranks]
        return [(rank.returncode, *words) for rank, words in zip(ranks, said)]

    def check_files(self, profile):
        cluster = json.loads((self.folder / "cluster.json").read_text(encoding="utf-8"))
        self.assertEqual([len(host["devices"]) for host in cluster["hosts"]], [RANKS], "one host, a device for each rank")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        places = sorted((rank["host"], rank["device"]) for rank in plan["ranks"])
        self.assertEqual(places, [(cluster["hosts"][0]["name"], device) for device in range(RANKS)])
        self.assertEqual((self.folder / "layers.json").exists(), profile)

    def test_with_torchruns_variables_rank_0_plans_for_all_and_the_others_say_nothing(self):
        first, *others = self.as_torchrun()
        self.assertEqual(first[0], 0, first[2])
        self.assertIn("Plan: ", first[1])
        self.assertIn("times of layers as measured (layers.json)", first[1])
        for file in ("cluster.json", "layers.json", "plan.json"):
            self.assertIn(f"written to {file}", first[2])
        for code, printed, errors in others:
            self.assertEqual((code, printed, errors), (0, "", ""))
        self.check_files(profile=True)
        known = json.loads((self.folder / "layers.json").read_text(encoding="utf-8"))
        self.assertGreater(len(known["measurements"]), 0)

    def test_for_another_framework_it_emits_a_script_for_this_host(self):
        first, *others = self.as_torchrun("--framework", "megatron", "--emit", "megatron")
        self.assertEqual(first[0], 0, first[2])
        self.assertTrue(first[1].startswith("#!/bin/sh"), first[1][:200])
        self.assertIn(f"NODE_RANK=0  {socket.gethostname()}", first[1])
        for code, printed, _ in others:
            self.assertEqual((code, printed), (0, ""))
        self.check_files(profile=False)

    def test_tombolo_run_starts_it_too(self):
        done = subprocess.run([TOMBOLO, "run", "-n", str(RANKS), "--quiet", "--", *self.here()], env=self.environment,
                              cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("Plan: "), 1, done.stdout)
        self.check_files(profile=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
