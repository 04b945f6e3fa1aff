#!/usr/bin/env python3
"""Calibration by the commands, where the truth is known: a cluster whose devices are slower than was guessed, on which
runs are simulated. From the run of one plan calibration has to find those speeds, so that other plans are predicted right.
And the files that a real run leaves go the same way; what its figures are is the machine's business (bench/calibration.py).

Usage: calibration_test.py TOMBOLO [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOMBOLO = os.path.abspath(sys.argv[1])
MODEL = ["--layers", "8", "--width", "128", "--heads", "4", "--context", "128"]
JOB = [*MODEL, "--batch", "16"]
# The first plan is run to calibrate by; the others are predicted.
PLANS = {
    "two stages": ["--pipeline", "2"],
    "two stages, other order": ["--pipeline", "2", "--order", "a0,b0,a1,b1"],
    "four stages": ["--pipeline", "4", "--micro-batch", "2"],
    "four replicas": ["--pipeline", "1", "--micro-batch", "2"],
    "micro-batches of 1": ["--pipeline", "2", "--micro-batch", "1"],
}
# Share of the guessed FLOP/s and memory rate that a device really attains.
TRUTH = {"A": (0.7, 0.5), "B": (0.3, 0.2)}


def tombolo(*command):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
    done = subprocess.run([TOMBOLO, *map(str, command)], env=kept, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"tombolo {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def cluster(truth):
    """Two clusters of two hosts, with the guessed or with the real speeds."""
    def host(name):
        flops, memory = TRUTH[name[0].upper()] if truth else (1, 1)
        return {"name": name, "cluster": name[0].upper(),
                "nics": [{"name": "eth0", "kind": "tcp", "address": f"10.0.{ord(name[0])}.{name[1]}", "rate_gbps": 1}],
                "devices": [{"name": name[0], "kind": "cpu", "flops_per_second": 3e9 * flops, "memory_bytes": 8e9,
                             "memory_bytes_per_second": 9e9 * memory}]}
    return {"tombolo_cluster": 1, "hosts": [host(name) for name in ("a0", "a1", "b0", "b1")],
            "fabrics": [{"name": "", "bytes_per_second": 1.1e8, "latency_seconds": 0.0001}]}


def profile(truth):
    """The times of a layer on both devices, guessed or real."""
    def times(device, factor):
        return [{"device": device, "micro_batch": rows, "forward_seconds": 0.01 * rows * factor,
                 "backward_seconds": 0.02 * rows * factor, "update_seconds": 0.002 * factor} for rows in (1, 2, 4)]
    return {"tombolo_profile": 1, "measurements": times("a", 1.4 if truth else 1) + times("b", 3 if truth else 1)}


class Calibration(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content=None):
        path = pathlib.Path(self.folder.name) / name.replace(" ", "-").replace(",", "")
        if content is not None:
            path.write_text(json.dumps(content))
        return path

    def step(self, name, files):
        return json.loads(tombolo("simulate", *files, "--plan", self.file(name), "--json"))["step_seconds"]

    def simulated_run(self, name, files):
        """The file that `tombolo train --measured` would write if the simulator were right."""
        tombolo("simulate", *files, "--plan", self.file(name), "--trace", self.file("trace"))
        simulated = json.loads(tombolo("simulate", *files, "--plan", self.file(name), "--json"))
        ranks = [{"host": rank["host"], "stage": rank["stage"], "replica": rank["replica"], "forward_seconds": 0,
                  "backward_seconds": 0, "update_seconds": 0} for rank in simulated["ranks"]]
        for event in json.loads(self.file("trace").read_text())["traceEvents"]:
            field = {"forward": "forward_seconds", "backward": "backward_seconds", "optimizer": "update_seconds"}
            if event["ph"] == "X" and event["name"] in field:
                ranks[event["pid"]][field[event["name"]]] += event["dur"] / 1e6
        return self.file("run", {"tombolo_measured": 1, "warm_up": 1, "step_seconds": [1, simulated["step_seconds"]],
                                 "ranks": ranks, "links": simulated["links"]})

    def finds_the_truth(self, guess, truth, calibrated):
        """Each item is a list of options of `tombolo simulate`."""
        first = next(iter(PLANS))
        for name, options in PLANS.items():
            tombolo("plan", *guess, *JOB, *options, "-o", self.file(name))
        out = tombolo("simulate", *guess, "--plan", self.file(first), "--measured", self.simulated_run(first, truth),
                      "--calibrate", calibrated[-1], "--json")
        for link in json.loads(out)["links"]:
            self.assertEqual(link["predicted_bytes"], link["measured_bytes"])
        for name in PLANS:
            with self.subTest(name):
                wanted = self.step(name, truth)
                self.assertLess(self.step(name, guess), 0.8 * wanted, "the guess was no worse")
                self.assertAlmostEqual(self.step(name, calibrated) / wanted, 1, delta=0.02)

    def test_finds_the_speeds_of_devices(self):
        self.finds_the_truth(["--cluster", self.file("guess", cluster(False))],
                             ["--cluster", self.file("truth", cluster(True))], ["--cluster", self.file("calibrated")])

    def test_finds_the_times_of_layers(self):
        hosts = ["--cluster", self.file("cluster", cluster(True))]
        self.finds_the_truth([*hosts, "--profile", self.file("guess", profile(False))],
                             [*hosts, "--profile", self.file("truth", profile(True))],
                             [*hosts, "--profile", self.file("calibrated")])

    def test_takes_what_a_real_run_wrote(self):
        emulation = ["--emulate", "holmes:slow=1gbit", "--emulation-mode", "loopback"]
        tombolo("probe", *emulation, "--seconds", "0.05", "--out", self.file("cluster"))
        ranks = ["run", *emulation, "--quiet", "--", TOMBOLO]
        tombolo(*ranks, "profile", *MODEL, "--micro-batches", "4", "--seconds", "0.05", "-o", self.file("layers"))
        tombolo("plan", "--cluster", self.file("cluster"), *JOB, "--strategy", "holmes", "--pipeline", "2",
                "--micro-batch", "4", "-o", self.file("plan"))
        self.file("text").write_text("In the beginning was the line.\n" * 1000)
        tombolo(*ranks, "train", "--data", self.file("text"), "--plan", self.file("plan"), "--steps", "3", "--measured",
                self.file("run"))
        for more, calibrated in (([], ["--cluster"]), (["--profile", self.file("layers")],
                                                       ["--cluster", self.file("cluster"), "--profile"])):
            out = json.loads(tombolo("simulate", "--cluster", self.file("cluster"), *more, "--plan", self.file("plan"),
                                     "--measured", self.file("run"), "--calibrate", self.file("calibrated"), "--report",
                                     self.file("page"), "--json"))
            self.assertGreater(out["compared"][0]["calibrated_seconds"], 0)
            for link in out["links"]:
                self.assertAlmostEqual(link["measured_bytes"] / link["predicted_bytes"], 1, delta=0.01, msg=link)
            self.assertIn("Predicted against measured", self.file("page").read_text())
            self.assertGreater(self.step("plan", [*calibrated, self.file("calibrated")]), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
