#!/usr/bin/env python3
"""`tombolo plan --here` as ranks of a job on this host, started with torchrun's variables and by `tombolo run`: what it writes,
what each rank prints, that a host without GPUs is planned for its processors, and what becomes of a plan that runs.

Usage: plan_here_test.py TOMBOLO PRETENDED_GPU_SPEED [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from ports import unused_port  # noqa: E402

TOMBOLO = os.path.abspath(sys.argv[1])
PRETENDED_GPUS = os.path.abspath(sys.argv[2])  # the driver and cuBLAS in one
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
        """The outcome of each rank of --here, as torchrun would start them."""
        return self.ranks([self.here(*options)] * RANKS)

    def again(self, *options, folders=None):
        """The outcome of each rank that measures for the running plan, of which nothing else is said."""
        return self.ranks([[TOMBOLO, "plan", "--here", "--running", "plan.json", *options]] * RANKS, folders)

    def ranks(self, commands, folders=None):
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port()), "WORLD_SIZE": str(len(commands)),
                     "LOCAL_WORLD_SIZE": str(len(commands))}
        ranks = []
        for rank, command in enumerate(commands):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(subprocess.Popen(command, env=self.environment | variables | own,
                                          cwd=folders[rank] if folders else self.folder,
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

    def test_for_another_framework_the_probe_measures_gpus_and_the_constants_are_shares_of_that(self):
        gpu = {"name": "H100-SXM5-80GB", "kind": "gpu", "memory_bytes": 8e10}
        cluster = {"tombolo_cluster": 1,
                   "hosts": [{"name": socket.gethostname(), "cluster": "A",
                              "nics": [{"name": "lo", "kind": "tcp", "address": "127.0.0.1", "rate_gbps": 10}],
                              "devices": [gpu] * 4}]}
        (self.folder / "known.json").write_text(json.dumps(cluster), encoding="utf-8")
        for name in ("libcuda.so.1", "libcublas.so.13"):  # as the probe asks for first
            (self.folder / name).symlink_to(PRETENDED_GPUS)
        self.environment |= {"TOMBOLO_CLUSTER": str(self.folder / "known.json"), "LD_LIBRARY_PATH": str(self.folder)}
        first, *_ = self.as_torchrun("--framework", "megatron", "--dtype", "bf16", "--json")
        self.assertEqual(first[0], 0, first[2])
        self.assertNotIn("was not measured", first[2])
        devices = json.loads((self.folder / "cluster.json").read_text(encoding="utf-8"))["hosts"][0]["devices"]
        for figure in ("flops_per_second", "memory_bytes_per_second"):
            attained = [device[figure] for device in devices for _ in range(device.get("count", 1))]
            self.assertEqual(len(attained), 4)
            self.assertGreater(min(attained), 0, "on two no rank ran")
            self.assertEqual(attained[2], attained[3])
        self.assertFalse((self.folder / "layers.json").exists())
        plan = json.loads(first[1])
        self.assertEqual(plan["job"]["framework"], "megatron")
        self.assertGreater(plan["prediction"]["step_seconds"], 0)

    def plan_for(self, *options):
        """A plan of this host that runs, made without measuring."""
        cluster = {"tombolo_cluster": 1,
                   "hosts": [{"name": socket.gethostname(), "cluster": "A",
                              "nics": [{"name": "eth0", "kind": "tcp", "address": "10.0.0.1", "rate_gbps": 10}],
                              "devices": [{"name": "cpu", "kind": "cpu", "flops_per_second": 3e9, "memory_bytes": 8e9}] * 4}]}
        (self.folder / "old.json").write_text(json.dumps(cluster), encoding="utf-8")
        done = subprocess.run([TOMBOLO, "plan", "--cluster", "old.json", *SHAPE, "-o", "plan.json", *options], env=self.environment,
                              cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def check_moved_or_kept(self, printed):
        """By what was measured now either may be right."""
        self.assertRegex(printed, r"The running plan (goes on: .* per step here|would take .* per step here; this one takes )")

    def test_a_running_plan_is_compared_by_what_is_measured_now(self):
        self.plan_for("-n", str(RANKS))
        elsewhere = tempfile.TemporaryDirectory(prefix="tombolo-elsewhere-")
        self.addCleanup(elsewhere.cleanup)
        first, *others = self.again("-o", "next.json", folders=[self.folder, elsewhere.name])  # the plan is on one host
        self.assertEqual(first[0], 0, first[2])
        self.check_moved_or_kept(first[1])
        for code, printed, errors in others:
            self.assertEqual((code, printed, errors), (0, "", ""))
        following = json.loads((self.folder / "next.json").read_text(encoding="utf-8"))
        self.assertEqual(following["job"]["global_batch"], 8)
        self.assertEqual([following["model"][size] for size in ("layers", "hidden", "heads", "context")], [2, 64, 4, 32])
        cluster = json.loads((self.folder / "cluster.json").read_text(encoding="utf-8"))
        self.assertNotEqual(cluster["hosts"][0]["devices"][0]["flops_per_second"], 3e9)
        self.assertTrue((self.folder / "layers.json").exists(), "its layers were timed, as for the bundled trainer")

    def test_a_running_plan_of_another_framework_keeps_it_and_its_log_corrects_what_was_measured(self):
        self.plan_for("-n", str(RANKS), "--framework", "megatron", "--pipeline", "2", "--tensor", "1")
        first, *_ = self.again("--json")
        self.assertEqual(first[0], 0, first[2])
        self.assertFalse((self.folder / "layers.json").exists(), "the bundled trainer's kernels say little of another's")
        change = json.loads(first[1])
        self.assertEqual(change["plan"]["job"]["framework"], "megatron")
        seconds = change["running_step_seconds"]
        lines = [f" iteration {step}/ 9 | elapsed time per iteration (ms): {2e3 * seconds} | global batch size:  8 |\n"
                 for step in range(1, 10)]
        (self.folder / "train.log").write_text("".join(lines), encoding="utf-8")
        first, *_ = self.again("--measured", "train.log", "--json")
        self.assertEqual(first[0], 0, first[2])
        corrected = json.loads(first[1])["running_step_seconds"]
        done = subprocess.run([TOMBOLO, "simulate", "--cluster", "cluster.json", "--plan", "plan.json", "--json"],
                              env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(done.stdout)["step_seconds"]  # by the same measurement, without the log
        self.assertLess(abs(corrected - 2 * seconds), 0.9 * abs(measured - 2 * seconds) + 0.02 * seconds)

    def test_a_running_plan_that_has_more_ranks_than_there_are_now_cannot_go_on(self):
        self.plan_for("-n", "4", "--pipeline", "2", "--data", "2")
        first, *_ = self.again()
        self.assertEqual(first[0], 0, first[2])
        self.assertRegex(first[1], "The running plan cannot go on: host .* has 2 devices, so there is no device [23]")
        self.assertIn("What moves: ", first[1])

    def test_what_is_wrong_with_a_running_plan_is_found_on_all_ranks_before_anything_is_measured(self):
        self.plan_for("-n", str(RANKS))
        (self.folder / "train.log").write_text("hello\n", encoding="utf-8")
        for options, problem in ((["--batch", "16"], "another job than what is asked for (batch 16 in place of 8)"),
                                 (["--framework", "nemo"], "(framework nemo in place of tombolo)"),
                                 (["--layers", "3", *SHAPE[2:]], "(layers 3 in place of 2)"),
                                 (["--measured", "train.log"], "of 1 line none has"),
                                 (["--running", "none.json"], "none.json")):
            with self.subTest(options=options):
                commands = [[TOMBOLO, "plan", "--here", *(["--running", "plan.json"] if "--running" not in options else []),
                             *options]] * RANKS
                for code, printed, errors in self.ranks(commands):
                    self.assertEqual((code, printed), (2, ""), errors)
                    self.assertIn(problem, errors)
                self.assertFalse((self.folder / "cluster.json").exists())

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "Open MPI is not installed")
    def test_mpirun_starts_it_too(self):
        self.plan_for("-n", str(RANKS))
        done = subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), TOMBOLO, "plan", "--here",
                               "--running", "plan.json"], env=self.environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_moved_or_kept(done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
