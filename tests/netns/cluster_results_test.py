#!/usr/bin/env python3
"""bench/cluster_results.py measures a case and writes its page.  Usage: cluster_results_test.py BUILD [unittest arguments]

Exit code 77: namespaces are not permitted here.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "cluster_results.py"


def measure(folder, *arguments):
    return subprocess.run([sys.executable, SCRIPT, "--build", BUILD, "--brief", "--seed", "7", "--out", folder, *arguments], capture_output=True,
                          text=True, timeout=600, check=False)


class ClusterResults(unittest.TestCase):
    def test_a_case_is_measured_beside_its_bound(self):
        with tempfile.TemporaryDirectory() as folder:
            done = measure(folder, "--only", "4 ranks, block, 16 MiB, sent as bf16")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            results = json.loads((pathlib.Path(folder) / "clusters.json").read_text(encoding="utf-8"))
            page = (pathlib.Path(folder) / "clusters.md").read_text(encoding="utf-8")
        self.assertEqual(len(results["cases"]), 1)
        found = results["cases"][0]
        self.assertAlmostEqual(found["bound_us"], 16 * 2**20 / 125, delta=1)  # 16 MiB at 1 Gbit/s
        self.assertEqual(len(found["runs"]), 1)
        self.assertGreater(found["over_bound"], 0.4)  # half of the bytes, less a bucket
        self.assertIn("| two clusters of two hosts, 1 Gbit/s, 4 ranks, block, 16 MiB, sent as bf16 | 134 ms |", page)
        self.assertIn("| <= 0.60 |", page)

    def test_a_case_that_is_not_there_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = measure(folder, "--only", "5 ranks")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no case has '5 ranks' in its name", done.stderr)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    probe = subprocess.run([BUILD + "/bin/tombolo", "run", "--emulate", "two-clusters", "--emulation-mode", "namespaces", "--quiet", "--", "true"],
                           capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        print(probe.stderr)
        sys.exit(77 if "namespaces are not permitted" in probe.stderr or "/dev/net/tun" in probe.stderr else 1)
    unittest.main(verbosity=2)
