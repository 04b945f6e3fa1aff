#!/usr/bin/env python3
"""compare, with a program in micro_bench's place that always finds the same.  Usage: compare_test.py COMPARE"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMPARE = pathlib.Path(sys.argv.pop(1)).resolve()

# Like Google Benchmark, it writes every repetition and then aggregates, and fails on what it does not know.
PROGRAM = """#!/bin/sh
for option; do
  case "$option" in
    --benchmark_out=*) cp "$(dirname "$0")/found.json" "${option#*=}" ;;
    --benchmark_filter=nothing) exit 1 ;;
    --benchmark_*) ;;
    *) exit 1 ;;
  esac
done
"""


def repetitions(name, unit, times, family=0, **more):
    runs = [{"run_name": name, "run_type": "iteration", "family_index": family, "per_family_instance_index": 0,
             "cpu_time": time, "real_time": 99, "time_unit": unit, **more} for time in times]
    return runs + [{"run_name": name, "run_type": "aggregate", "aggregate_name": "median", "cpu_time": 12345,
                    "time_unit": unit}]


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.baseline = self.folder / "baseline.json"
        program = self.folder / "bin" / "micro_bench"
        program.parent.mkdir()
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        self.find([*repetitions("sums/b", "ns", [50, 50, 50, 50, 50], family=1, bytes_per_second=2e9),
                   *repetitions("products/a", "us", [1, 3, 2, 100, 1.5], **{"GFLOP/s": 40.0})])

    def find(self, runs):
        (self.folder / "bin" / "found.json").write_text(json.dumps({"context": {}, "benchmarks": runs}), encoding="utf-8")

    def compare(self, *options, code=0):
        done = subprocess.run([sys.executable, COMPARE, "--build", self.folder, "--baseline", self.baseline, *options],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def row(self, output, name):
        rows = [line.split() for line in output.splitlines() if line.startswith(name + " ")]
        self.assertEqual(len(rows), 1, output)
        return rows[0]

    def change(self, **values):
        stored = json.loads(self.baseline.read_text(encoding="utf-8"))
        self.baseline.write_text(json.dumps(dict(stored, **values)), encoding="utf-8")

    def test_stores_medians_and_the_conditions(self):
        self.compare("--write")
        stored = json.loads(self.baseline.read_text(encoding="utf-8"))
        self.assertEqual(stored["medians"]["products/a"], {"nanoseconds": 2000.0, "spread": 12.562, "GFLOP/s": 40.0})
        self.assertEqual(stored["medians"]["sums/b"], {"nanoseconds": 50.0, "spread": 0.0, "bytes_per_second": 2e9})
        self.assertEqual(list(stored["medians"]), ["products/a", "sums/b"])  # as registered, not as they ran
        for name in ("processor", "cores", "date", "commit", "changed", "load_average"):
            self.assertIn(name, stored)

    def test_prints_ratios_to_the_baseline(self):
        self.compare("--write")
        self.find([*repetitions("products/a", "us", [3, 3, 3], **{"GFLOP/s": 30.0}), *repetitions("new/c", "ms", [1, 1, 1])])
        output = self.compare()
        self.assertEqual(self.row(output, "products/a"), ["products/a", "2", "us", "3", "us", "1.50", "30", "GFLOP/s"])
        self.assertEqual(self.row(output, "new/c"), ["new/c", "-", "1", "ms", "-"])
        self.assertRegex(output, r"median of these ratios +1\.50 ")
        self.assertIn("only in the baseline: sums/b", output)
        self.assertNotIn("ANOTHER PROCESSOR", output)

    def test_marks_another_processor(self):
        self.compare("--write")
        self.change(processor="an abacus")
        self.assertIn("ANOTHER PROCESSOR", self.compare())

    def test_says_why_it_cannot_run(self):
        self.assertIn("store one with --write", self.compare(code=2))
        self.compare("--write")
        self.assertIn("nothing", self.compare("--filter", "nothing", code=2))
        self.assertIn("--filter", self.compare("--write", "--filter", "sums", code=2))
        (self.folder / "bin" / "micro_bench").unlink()
        self.assertIn("libbenchmark-dev", self.compare(code=2))
        self.baseline.write_text("{", encoding="utf-8")
        self.compare(code=2)


unittest.main()
