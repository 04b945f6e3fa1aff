#!/usr/bin/env python3
"""bench/run: with the programs of a build, and with others in their place.  Usage: run_test.py BUILD"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as tree

BENCH = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(BENCH / "report"))
import chart  # noqa: E402
import quantities  # noqa: E402
from programs import Failed, Programs  # noqa: E402

# Replaces transport_perf: TCP has figures, TLS fails, and shared memory writes invalid JSON.
PROGRAM = """#!/bin/sh
for option; do file=$option; done
case "$*" in
  *--tls*) echo 'no <luck>' >&2; exit 3 ;;
  *shm*) echo '{' > "$file" ;;
  *) cp "$(dirname "$0")/found.json" "$file" ;;
esac
"""
FOUND = {"memcpy_bytes_per_second": 1e10,
         "sizes": [{"bytes": size, "half_round_trip_seconds": {"plain": 1e-5, "tombolo": 2e-5},
                    "bytes_per_second": {"plain": 1e6 * size, "tombolo": 2e6 * size},
                    "sender_processor_seconds_per_gb": {"plain": 0.5, "tombolo": 0.4}} for size in (8, 1024)]}


def becomes_true(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def runs(process):
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_bench(self, build, *options, code=0):
        self.page = self.folder / "report.html"
        done = subprocess.run([sys.executable, BENCH / "run", "--build", build, "--out", self.page, *options],
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def results(self):
        return json.loads(self.page.with_suffix(".json").read_text(encoding="utf-8"))

    def drawings(self):
        """The text of the page, which must be well-formed and need no other file."""
        text = self.page.read_text(encoding="utf-8")
        root = tree.fromstring(text)
        for element in root.iter():
            self.assertFalse({"src", "href"} & set(element.attrib), element.attrib)
        self.assertNotIn("url(", text)
        self.assertNotIn("@import", text)
        drawings = list(root.iter("svg"))
        for drawing in drawings:
            self.assertTrue(drawing.get("aria-label"))
        return drawings

    def test_writes_page_and_figures_of_the_builds_programs(self):
        output = self.run_bench(BUILD, "--quick", "--only", "all_reduce_perf")
        self.assertIn("All together: about", output)
        results = self.results()
        self.assertTrue(results["machine"]["processor"])
        self.assertGreater(results["machine"]["cores"], 0)
        self.assertTrue(results["versions"]["tombolo"])
        self.assertTrue(results["quick"])
        part = results["parts"]["all_reduce_perf"]
        self.assertEqual(part["outcome"], "ran")
        for place in ("one host", "two clusters"):
            rows = part["found"][place]
            self.assertEqual([row["bytes"] for row in rows], [1024, 16384, 262144])
            for row in rows:
                self.assertGreater(row["bus_bytes_per_second"], 0)
                self.assertGreater(row["median_seconds"], 0)
        drawing, = self.drawings()
        points = [circle for circle in drawing.iter("circle")]
        self.assertEqual(len(points), 6)
        self.assertIn("256 KiB", [text.text for text in drawing.iter("text")])

    def fake_build(self):
        build = self.folder / "fake"
        (build / "bin").mkdir(parents=True)
        program = build / "bin" / "transport_perf"
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        (build / "bin" / "found.json").write_text(json.dumps(FOUND), encoding="utf-8")
        return build

    def test_a_part_that_fails_is_named_and_stops_no_other(self):
        output = self.run_bench(self.fake_build(), "--only", "transport_tls", "transport_shm", "transport_tcp", "plugin_perf",
                                code=1)
        parts = self.results()["parts"]
        self.assertEqual({name: part["outcome"] for name, part in parts.items()},
                         {"transport_tls": "failed", "transport_shm": "failed", "transport_tcp": "ran", "plugin_perf": "skipped"})
        self.assertIn("no <luck>", parts["transport_tls"]["reason"])
        self.assertIn("cannot be read", parts["transport_shm"]["reason"])
        self.assertEqual(parts["plugin_perf"]["reason"], "not built: plugin_perf")
        self.assertIn("not built: plugin_perf", output)
        page = self.page.read_text(encoding="utf-8")
        self.assertIn("Failed: transport_shm, transport_tls", page)
        self.assertIn("no &lt;luck&gt;", page)
        self.assertEqual(len(self.drawings()), 1)

    def test_one_sided_operations_have_their_table_in_the_plugins_section(self):
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        pair = {"isend": 2e-5, "put": 3.21e-5}
        found = {"outstanding": 8, "latency": [{"transport": "tcp", "bytes": 8, "half_round_trip_seconds": pair}],
                 "throughput": [{"transport": "shm", "bytes": 1 << 20, "bytes_per_second": {"isend": 2e9, "put": 1.75e9}}]}
        (build / "bin" / "found.json").write_text(json.dumps(found), encoding="utf-8")
        program = build / "bin" / "rma_perf"
        program.write_text('#!/bin/sh\nfor option; do file=$option; done\ncp "$(dirname "$0")/found.json" "$file"\n', encoding="utf-8")
        program.chmod(0o755)
        self.run_bench(build, "--quick", "--only", "rma_perf", "plugin_perf")
        self.assertEqual(self.results()["parts"]["rma_perf"]["found"], found)
        self.drawings()
        page = self.page.read_text(encoding="utf-8")
        for text in ("NCCL plugin", "half round trip, 8 B", "32.1 us", "rate, 1 MiB, 8 outstanding", "1.75 GB/s"):
            self.assertIn(text, page)

    def test_lists_without_running(self):
        output = self.run_bench(self.fake_build(), "--list")
        self.assertRegex(output, r"transport_tcp +about \d+ (s|min) ")
        self.assertRegex(output, r"all_reduce_perf +skipped +not built: tombolo, all_reduce_perf")
        self.assertFalse(self.page.exists())

    def test_says_that_there_is_nothing_to_run(self):
        self.assertIn("nothing to run", self.run_bench(self.folder, "--only", "transport_tcp", code=2))
        self.assertFalse(self.page.exists())


    def test_ending_it_ends_the_programs_that_it_runs(self):
        build = self.fake_build()
        pid = self.folder / "pid"
        (build / "bin" / "transport_perf").write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}\nexec sleep 300\n",
                                                      encoding="utf-8")
        command = [sys.executable, BENCH / "run", "--build", build, "--out", self.folder / "x.html", "--only", "transport_tcp"]
        for end, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                try:
                    self.assertTrue(becomes_true(pid.exists))
                    run.send_signal(end)
                    self.assertEqual(run.wait(60), code)
                finally:
                    run.kill()
            program = int(pid.read_text(encoding="utf-8"))
            self.assertTrue(becomes_true(lambda: not runs(program)), end)
            pid.unlink()


class TimeLimit(unittest.TestCase):
    def test_ends_a_program_and_what_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "pid"
            with self.assertRaisesRegex(Failed, "may take 1 s"):
                Programs(pathlib.Path(folder), 1).run(["sh", "-c", f"sleep 300 & echo $! > {file}; wait"])
            child = int(file.read_text(encoding="utf-8"))
            self.assertTrue(becomes_true(lambda: not runs(child)))


class Text(unittest.TestCase):
    def test_quantities_have_three_digits_and_a_unit(self):
        self.assertEqual(quantities.duration(3.21e-6), "3.21 us")
        self.assertEqual(quantities.duration(1.5), "1.5 s")
        self.assertEqual(quantities.rate(2.5e9, "B/s"), "2.5 GB/s")
        self.assertEqual(quantities.size(64 << 10), "64 KiB")
        self.assertEqual(quantities.size(8), "8 B")
        self.assertEqual([quantities.three(value) for value in (0, 0.0001, 0.012345, 99.96, 1234.5)],
                         ["0", "0.0001", "0.0123", "100", "1234"])
        self.assertEqual(quantities.wait(240), "4 min")

    def test_labels_of_lines_that_end_at_one_place_stand_apart(self):
        series = [("one", "ours", [(8, 1.0), (64, 5.0)]), ("two", "other", [(8, 2.0), (64, 5.0)])]
        drawing = tree.fromstring(chart.by_size("x", series, "GB/s", str))
        heights = sorted(float(text.get("y")) for text in drawing.iter("text") if text.get("class").startswith("name"))
        self.assertGreaterEqual(heights[1] - heights[0], 14)


unittest.main()
