#!/usr/bin/env python3
"""Calibration by a short run of one plan: predictions for other plans come closer to what the real trainer takes.

On emulated hosts, twice: from the probe's cluster file alone, and from a profile of the layers. Prints every figure and
holds none to anything: they are this machine's, and of how busy it is.

usage: calibration.py TOMBOLO [--mode auto|namespaces|loopback] [--steps N] [--plans N] [--keep FOLDER]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SHAPE = ["--layers", "8", "--width", "128", "--heads", "4", "--context", "128", "--batch", "16"]
# The first is the one that is run to calibrate by; the others are predicted.
PLANS = {
    "two stages by NIC kind": (["--strategy", "holmes", "--pipeline", "2"], "block"),
    "two stages, launcher's order": (["--strategy", "megatron", "--pipeline", "2"], "interleaved"),
    "four stages": (["--strategy", "holmes", "--pipeline", "4", "--micro-batch", "2"], "block"),
    "four replicas": (["--strategy", "megatron", "--pipeline", "1", "--micro-batch", "2"], "block"),
    "micro-batches of 1": (["--strategy", "holmes", "--pipeline", "2", "--micro-batch", "1"], "block"),
}


class Calibration:
    def __init__(self, arguments, folder):
        self.tombolo, self.mode, self.steps = arguments.tombolo, arguments.mode, arguments.steps
        self.folder = pathlib.Path(folder)
        self.plans = dict(list(PLANS.items())[:arguments.plans])

    def call(self, *command):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        done = subprocess.run([self.tombolo, *map(str, command)], env=kept, capture_output=True, text=True, timeout=300,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"tombolo {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def emulated(self, *command, order="block"):
        return self.call("run", "--emulate", "holmes", "--emulation-mode", self.mode, "--order", order, "--quiet", "--",
                         self.tombolo, *command)

    def file(self, name):
        return self.folder / name.replace(" ", "-").replace("'", "").replace(",", "")

    def measure(self):
        """Makes the plans, runs each, and keeps the files."""
        self.call("probe", "--emulate", "holmes", "--emulation-mode", self.mode, "--seconds", "0.2", "--out",
                  self.file("cluster.json"))
        self.emulated("profile", *SHAPE[:8], "--micro-batches", "1,2,4", "--seconds", "0.4", "-o", self.file("layers.json"))
        text = self.file("text")
        text.write_text("".join(f"In the beginning was line {line * 7919 % 1000}.\n" for line in range(2000)))
        for name, (options, order) in self.plans.items():
            plan = self.file(f"{name}.plan")
            self.call("plan", "--cluster", self.file("cluster.json"), *SHAPE, *options, "--order", order, "-o", plan)
            self.emulated("train", "--data", text, "--plan", plan, "--steps", self.steps, "--measured",
                          self.file(f"{name}.run"), order=order)

    def predicted(self, name, cluster, profile):
        more = ["--profile", profile] if profile else []
        return json.loads(self.call("simulate", "--cluster", cluster, "--plan", self.file(f"{name}.plan"), *more,
                                    "--json"))["step_seconds"]

    def measured(self, name):
        run = json.loads(self.file(f"{name}.run").read_text())
        counted = sorted(run["step_seconds"][run["warm_up"]:])
        return counted[len(counted) // 2]

    def compare(self, title, cluster, profile):
        """Calibrates by the first plan, and prints the errors of the others before and after."""
        first = next(iter(self.plans))
        better = self.file(f"{title}.calibrated")
        more = ["--profile", profile] if profile else []
        self.call("simulate", "--cluster", cluster, "--plan", self.file(f"{first}.plan"), *more, "--measured",
                  self.file(f"{first}.run"), "--calibrate", better, "--report", self.file(f"{title}.html"))
        new_cluster, new_profile = (cluster, better) if profile else (better, None)
        print(f"\nby {title}, calibrated by \"{first}\":")
        print(f"  {'plan':30} {'measured':>9} {'predicted':>16} {'calibrated':>16}")
        errors = []
        for name in self.plans:
            seconds = self.measured(name)
            before, after = self.predicted(name, cluster, profile), self.predicted(name, new_cluster, new_profile)
            if name != first:
                errors.append((abs(before / seconds - 1), abs(after / seconds - 1)))
            print(f"  {name:30} {seconds * 1e3:6.1f} ms {before * 1e3:6.1f} ms {100 * (before / seconds - 1):+4.0f} %"
                  f" {after * 1e3:6.1f} ms {100 * (after / seconds - 1):+4.0f} %")
        before, after = (sum(error[i] for error in errors) / len(errors) for i in (0, 1))
        print(f"  mean error of the other {len(errors)} plans: {100 * before:.1f} % before, {100 * after:.1f} % after")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tombolo")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--steps", default="15")
    parser.add_argument("--plans", type=int, default=len(PLANS), help="only the first N of the plans")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        it = Calibration(arguments, arguments.keep or scratch)
        it.measure()
        it.compare("the probe's matrix products", it.file("cluster.json"), None)
        it.compare("a profile of the layers", it.file("cluster.json"), it.file("layers.json"))


if __name__ == "__main__":
    main()
