#!/usr/bin/env python3
"""Tests nccl-tests' programs as a script written for nccl-tests uses them: the table, the JSON, refusals, exit codes.

Usage: perf_test.py TOMBOLO PROGRAM_FOLDER [unittest arguments]
"""
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from left_behind import environment, nothing_left  # noqa: E402
from ports import unused_port  # noqa: E402

TOMBOLO, PROGRAMS = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
         "half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1}
OPS = ["sum", "prod", "max", "min", "avg", "mulsum"]
REDUCES = {"all_reduce", "reduce", "reduce_scatter"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
WHOLE = {"all_reduce", "broadcast", "reduce", "sendrecv"}  # the others cut the size into one part per rank
NOT_IN_PLACE = {"alltoall", "sendrecv"}
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather", "scatter",
       "hypercube"]
WRONG_FLAGS, WRONG_USAGE = 255, 6

# nccl-tests' line: size, count, type, redop, root, and twice time, algbw, busbw, #wrong.
HALF = r"\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)"
LINE = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)" + HALF + HALF + r"$", re.M)


def factors(collective, ranks):
    """The factors of algorithm and bus bandwidth, from nccl-tests' doc/PERFORMANCE.md."""
    others = (ranks - 1) / ranks
    if collective == "hypercube":
        return others, 1
    return 1, {"all_reduce": 2 * others, "broadcast": 1, "reduce": 1, "sendrecv": 1}.get(collective, others)


def size_and_count(collective, ranks, wanted, element):
    if collective in WHOLE:
        return wanted // element * element, wanted // element
    part = wanted // element // ranks * element // 16 * 16
    return part * ranks, part // element


class Perf(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        self.mark = f"{self.id()}-{os.getpid()}"

    def tearDown(self):
        nothing_left(self.folder, self.mark)
        self.scratch.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command, **variables):
        return subprocess.run([str(word) for word in command], env=environment(self.folder, self.mark, **variables),
                              cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)

    def run_ranks(self, ranks, collective, *flags, code=0, **variables):
        done = self.start(TOMBOLO, "run", "-n", ranks, "--quiet", "--", PROGRAMS / f"{collective}_perf", *flags, **variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def results(self, ranks, collective, *flags, **variables):
        """The content of the JSON file, and standard output."""
        file = self.path("figures.json")
        done = self.run_ranks(ranks, collective, *flags, "-J", file, **variables)
        self.assertIn(f"# Writing JSON output to {file}\n", done.stdout)
        with open(file, encoding="utf-8") as text:
            figures = json.load(text)
        os.remove(file)
        return figures, done.stdout


class Table(Perf):
    def holds(self, collective, ranks):
        sizes = [1, 100, 10000]
        figures, out = self.results(ranks, collective, "-b", 1, "-e", 10000, "-f", 100, "-n", 2, "-d", "all", "-o", "all",
                                    "-r", "all")
        lines = LINE.findall(out)
        ops = OPS if collective in REDUCES else ["none"]
        roots = range(ranks) if collective in ROOTED else [-1]
        wanted = [(*size_and_count(collective, ranks, size, SIZES[kind]), kind, op, root)
                  for kind in SIZES for op in ops for root in roots for size in sizes]
        self.assertEqual([(int(one[0]), int(one[1]), one[2], one[3], int(one[4])) for one in lines], wanted)
        for one in lines:
            self.assertEqual((one[8], one[12]), ("0", "N/A" if collective in NOT_IN_PLACE else "0"), one)
            for number in (*one[5:8], *one[9:12]):
                self.assertGreaterEqual(float(number), 0)
        self.assertIn("# Out of bounds values : 0 OK\n", out)
        self.assertRegex(out, r"(?m)^# Avg bus bandwidth    : [0-9.e+-]+ $")
        self.assertIn(f"# Collective test concluded: {collective}_perf\n", out)

        self.assertEqual(len(figures["results"]), len(lines))
        algorithm, bus = factors(collective, ranks)
        bandwidths = []
        for line, row in zip(lines, figures["results"]):
            self.assertEqual((row["size"], row["count"], row["type"], row["redop"], int(row["root"])),
                             (int(line[0]), int(line[1]), line[2], line[3], int(line[4])))
            self.assertEqual(row["in_place"]["nwrong"], None if collective in NOT_IN_PLACE else 0)
            for half in row["out_of_place"], row["in_place"]:
                self.assertAlmostEqual(half["alg_bw"], row["size"] / half["time"] / 1e3 * algorithm, places=9)
                self.assertAlmostEqual(half["bus_bw"], half["alg_bw"] * bus, places=9)
                self.assertLessEqual(half["min_time"], half["time"])
                bandwidths.append(half["bus_bw"])
        self.assertAlmostEqual(figures["average_bus_bandwidth"]["bandwidth"], sum(bandwidths) / len(bandwidths))
        self.assertEqual(figures["out_of_bounds"], {"count": 0, "okay": "true"})


def add_table_tests():
    for collective in ALL:
        for ranks in (2, 4) if collective == "hypercube" else (3, 4):
            setattr(Table, f"test_{collective}_of_{ranks}_ranks",
                    lambda self, collective=collective, ranks=ranks: self.holds(collective, ranks))


add_table_tests()


class Flags(Perf):
    def test_the_file_has_nccl_tests_structure(self):
        figures, out = self.results(2, "all_reduce", "-b", "1K", "-e", "2K", "-i", "512", "-n", 3, "-w", 2, "-m", 4,
                                    "-p", 1, TOMBOLO_SECRET="hush, hush")
        self.assertEqual(figures["version"], 3)
        for key in "start_time", "end_time":
            self.assertRegex(figures[key], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertEqual(figures["args"][1:3], ["-b", "1K"])
        self.assertFalse([one for one in figures["env"] if "hush" in one], "the file holds a secret")
        self.assertEqual(figures["errors"], [])
        self.assertEqual(figures["average_bus_bandwidth"]["okay"], "unchecked")
        config = figures["config"]
        devices = config.pop("devices")
        self.assertEqual(config, {
            "nthreads": 1, "ngpus": 1, "minimum_bytes": 1024, "maximum_bytes": 2048, "step_bytes": 512, "warmup_iters": 2,
            "iterations": 3, "aggregated_iterations": 4, "validation": 1, "graph": 0, "blocking_collectives": "true",
            "per_iter_timing": "false", "per_iter_skip": 0, "parallel_init": "true"})
        self.assertEqual([one["rank"] for one in devices], [0, 1])
        self.assertEqual(devices[0].keys(), {"rank", "group", "pid", "hostname", "device", "device_hex", "device_info"})
        self.assertEqual([row["size"] for row in figures["results"]], [1024, 1536, 2048])
        row = figures["results"][0]
        self.assertEqual(row.keys(), {"size", "count", "type", "redop", "root", "algorithm", "out_of_place", "in_place",
                                      "actual_iterations", "experiment_name"})
        self.assertEqual(row["out_of_place"].keys(), {"time", "median_time", "min_time", "alg_bw", "bus_bw", "nwrong"})
        self.assertIn("# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048 step: 512(bytes) warmup iters: 2 iters: 3 "
                      "agg iters: 4 validation: 1 graph: 0 unalign: 0\n", out)

    def test_an_existing_file_is_kept(self):
        file = self.path("kept.json")
        pathlib.Path(file).write_text("mine", encoding="utf-8")
        for name in "kept.json.0", "kept.json.1":
            done = self.run_ranks(1, "broadcast", "-b", 64, "-e", 64, "-n", 1, "-J", file)
            self.assertIn(f"# Writing JSON output to {self.path(name)}\n", done.stdout)
            json.loads(pathlib.Path(self.path(name)).read_text(encoding="utf-8"))
        self.assertEqual(pathlib.Path(file).read_text(encoding="utf-8"), "mine")

    def test_a_folder_that_is_not_there_is_an_error_before_anything_is_measured(self):
        done = self.start(PROGRAMS / "broadcast_perf", "-b", 64, "-e", 64, "-J", self.path("none/x.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none", done.stderr)
        self.assertEqual(LINE.findall(done.stdout), [])

    def test_average_says_whose_time(self):
        for average, of in enumerate((lambda times: times[0], lambda times: sum(times) / len(times), min, max)):
            figures, _ = self.results(3, "all_reduce", "-b", "4K", "-e", "4K", "-n", 1, "-a", average, "-I", 1)
            row = figures["results"][0]
            for place in "out_of_place", "in_place":
                times = [one[0] for one in row[f"{place}_per_iter"]["per_process_max_times_us"]]
                self.assertEqual(len(times), 3)
                self.assertAlmostEqual(row[place]["time"], of(times), places=6)

    def test_iterations_are_reported_one_by_one(self):
        figures, out = self.results(2, "all_gather", "-b", "4K", "-e", "4K", "-n", 10, "-I", 1, "-K", 4)
        line = next(line for line in out.splitlines() if line and not line.startswith("#")).split()
        self.assertEqual(len(line), 5 + 2 * 8)
        self.assertEqual(next(one for one in out.splitlines() if one.startswith("#       size")).split()[-4:],
                         ["i_min", "i_max", "i_p99", "i_cv%"])
        found = figures["results"][0]["in_place_per_iter"]
        self.assertEqual(len(found["times_us"]), 10)
        last = sorted(found["times_us"][4:])
        self.assertAlmostEqual(found["min_us"], last[0])
        self.assertAlmostEqual(found["max_us"], last[-1])
        self.assertAlmostEqual(found["p50_us"], last[3])
        self.assertEqual(found["skipped_iterations"], 4)
        for row, times in enumerate(zip(*found["per_process_max_times_us"])):
            self.assertAlmostEqual(found["times_us"][row], max(times))

    def test_processor_time_instead_of_latency(self):
        figures, out = self.results(2, "all_reduce", "-b", "1M", "-e", "1M", "-n", 3, "-C", 1)
        self.assertIn("cputime", out)
        self.assertGreater(figures["results"][0]["out_of_place"]["cpu_time"], 0)
        self.assertNotIn("time", figures["results"][0]["out_of_place"])

    def test_without_checking_nothing_is_said_of_results(self):
        figures, out = self.results(2, "all_reduce", "-b", 64, "-e", 64, "-n", 1, "-c", 0)
        self.assertEqual([LINE.findall(out)[0][at] for at in (8, 12)], ["N/A", "N/A"])
        self.assertIsNone(figures["results"][0]["out_of_place"]["nwrong"])
        self.assertIn("# Out of bounds values : 0 OK\n", out)

    def test_each_line_has_a_time_of_day(self):
        out = self.run_ranks(2, "sendrecv", "-b", 64, "-e", 64, "-n", 1, "-S", 1).stdout
        self.assertRegex(out, r"(?m)^ +64 .*N/A  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")

    def test_threads_are_ranks(self):
        figures, out = self.results(2, "alltoall", "-b", "4K", "-e", "4K", "-n", 1, "-t", 2, "-g", 1)
        devices = figures["config"]["devices"]
        self.assertEqual([one["rank"] for one in devices], [0, 1, 2, 3])
        self.assertEqual([one["device"] for one in devices], [0, 1, 0, 1])
        self.assertEqual(devices[0]["pid"], devices[1]["pid"])
        self.assertNotEqual(devices[1]["pid"], devices[2]["pid"])
        self.assertEqual(LINE.findall(out)[0][1], "256")
        figures, _ = self.results(2, "all_reduce", "-b", 64, "-e", 64, "-n", 2, "-g", 2, "-I", 1)
        self.assertEqual(len(figures["results"][0]["in_place_per_iter"]["per_process_max_times_us"]), 2)

    def test_every_way_to_run_gives_right_results(self):
        for collective in ALL:
            for flags in ["-m", 3], ["-m", 3, "-z", 1], ["-z", 3], ["-u", 3, "-d", "int16"], ["-c", 3], \
                    ["-T", 60, "-N", 2]:
                with self.subTest(collective=collective, flags=flags):
                    out = self.run_ranks(4, collective, "-b", "64", "-e", "8K", "-f", 8, "-n", 2, *flags).stdout
                    self.assertEqual(len(LINE.findall(out)), 6 if "-N" in flags else 3, out)

    def test_the_command_starts_each_program(self):
        done = self.start(TOMBOLO, "perf", "reduce_scatter", "--ranks", 3, "--", "-b", "1K", "-e", "1K", "-n", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(LINE.findall(done.stdout)[0][:2], ("1008", "84"))


class Explain(Perf):
    def test_the_command_says_which_way_each_size_took(self):
        file = self.path("why.json")
        done = self.start(TOMBOLO, "perf", "broadcast", "--ranks", 2, "--explain", "--", "-b", "1K", "-e", "1M", "-f", 32,
                          "-n", 1, "-J", file, TOMBOLO_HOST_LIMIT="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^# The engine knows of the network: 2 ranks on host \S+\.$")
        rows = re.findall(r"(?m)^# +(\d+) +(tree|chain) +(\S+) +1  (.*)$", done.stdout)
        self.assertEqual([row[:3] for row in rows], [("1024", "tree", "-"), ("32768", "chain", "524288"),
                                                     ("1048576", "chain", "524288")], done.stdout)
        self.assertEqual(rows[0][3], "tree comes first and takes vectors of at most 16 KiB")
        self.assertRegex(done.stdout, r"(?m)^#   1 inside hosts by \w+")
        with open(file, encoding="utf-8") as text:
            report = json.load(text)
        self.assertEqual([row["explanation"]["why"] for row in report["results"]], [row[3] for row in rows])
        self.assertEqual(report["explanation"]["network"]["known_from"], "one-host")

    def test_clusters_are_those_of_the_cluster_file(self):
        done = self.start(TOMBOLO, "perf", "all_reduce", "--emulate", "holmes", "--emulation-mode", "loopback", "--explain", "--",
                          "-b", "1M", "-e", "1M", "-n", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^# The engine knows of the network: \d+ ranks on \d+ hosts in \d clusters: .*, "
                                      r"as the cluster file \S+ says\.$")
        self.assertRegex(done.stdout, r"(?m)^#   between clusters: ")
        self.assertRegex(done.stdout, r"(?m)^# +1048576 +two-level +524288 +1  doubling takes .*; two-level takes ")


class Tune(Perf):
    def tune(self, collective, *flags, **variables):
        done = self.start(TOMBOLO, "perf", collective, "--ranks", 2, "--tune", "tuning.json", "--explain", "--", "-b", "1K", "-e",
                          "64K", "-f", 8, "-n", 2, *flags, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def table(self):
        with open(self.path("tuning.json"), encoding="utf-8") as text:
            return json.load(text)

    def test_a_table_is_written_and_used(self):
        for collective in "all_reduce", "broadcast":
            out = self.tune(collective, TOMBOLO_HOST_LIMIT="0")
            self.assertRegex(out, r"(?m)^# +1024  \S+ [\d.]+, .* -> ")
            self.assertIn("the tuning table has", out)
        table = self.table()
        self.assertEqual(table["shape"], {"clusters": [[2]], "uniform_links": False})
        self.assertEqual({row["collective"] for row in table["rows"]}, {"all_reduce", "broadcast"})
        # What the rules would not do, so that it is seen who decides.
        rows = [{"collective": "broadcast", "from_bytes": 0, "to_bytes": 2000, "algorithm": "chain", "segment_bytes": 100}]
        pathlib.Path(self.path("tuning.json")).write_text(json.dumps(dict(table, rows=rows)), encoding="utf-8")
        figures, _ = self.results(2, "broadcast", "-b", "1K", "-e", "4K", "-f", 4, "-n", 1, "--explain",
                                  TOMBOLO_TUNING=self.path("tuning.json"), TOMBOLO_HOST_LIMIT="0")
        ways = [(row["algorithm"], row["explanation"]["segment_bytes"], row["explanation"]["reason"])
                for row in figures["results"]]
        self.assertEqual(ways, [("chain", 100, "tuning-table"), ("tree", None, "rule")])

    def test_another_job_does_without_it(self):
        self.tune("all_reduce")
        done = self.run_ranks(3, "all_reduce", "-b", "1K", "-e", "1K", "-n", 1, TOMBOLO_TUNING=self.path("tuning.json"))
        self.assertEqual(done.stderr.count("is not used: it is for 2 ranks, and this job has 3"), 1, done.stderr)

    def test_a_damaged_table_is_an_error_that_names_its_place(self):
        pathlib.Path(self.path("tuning.json")).write_text('{"tombolo_tuning": 1,\n "rows": 3}', encoding="utf-8")
        done = self.start(TOMBOLO, "run", "-n", 2, "--", PROGRAMS / "all_reduce_perf", "-b", 8, "-e", 8,
                          TOMBOLO_TUNING=self.path("tuning.json"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{self.path('tuning.json')}:", done.stderr)

    def test_what_cannot_be_tuned(self):
        done = self.run_ranks(2, "sendrecv", "-b", 8, "-e", 8, "--tune", self.path("t.json"), code=WRONG_USAGE)
        self.assertIn("no algorithm to choose for sendrecv", done.stderr)
        done = self.start(PROGRAMS / "all_reduce_perf", "-d", "all", "--tune", self.path("t.json"))
        self.assertEqual(done.returncode, WRONG_FLAGS)
        self.assertIn("--tune measures one type", done.stderr)
        self.assertFalse(os.path.exists(self.path("t.json")))


class Refusals(Perf):
    def refuses(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(LINE.findall(done.stdout), [])

    def test_what_host_memory_cannot_do(self):
        for collective in ALL:
            program = PROGRAMS / f"{collective}_perf"
            self.refuses(self.start(program, "-G", 1), WRONG_FLAGS, f"{collective}_perf: ", "CUDA graph")
        self.refuses(self.start(program, "-z", 0), WRONG_FLAGS, "calls block")
        self.refuses(self.start(program, "--local_register", 1), WRONG_FLAGS, "nothing to register")

    def test_a_hypercube_needs_a_power_of_two(self):
        done = self.run_ranks(3, "hypercube", "-b", 64, "-e", 64, code=WRONG_USAGE)
        self.refuses(done, WRONG_USAGE, "hypercube_perf: hypercube needs a number of ranks that is a power of two, and there "
                                        "are 3\n")

    def test_a_root_that_is_no_rank(self):
        self.refuses(self.start(PROGRAMS / "gather_perf", "-b", 64, "-e", 64, "-r", 1), WRONG_USAGE, "-r 1")

    def test_more_than_memory_holds(self):
        done = self.start(PROGRAMS / "broadcast_perf", "-b", 64, "-e", "1000000G", "-g", 2)
        self.refuses(done, WRONG_USAGE, "the 2 ranks on", "6 buffers", "-c 0")

    def test_a_call_that_takes_too_long(self):
        done = self.start(TOMBOLO, "run", "-n", 2, "--quiet", "--", PROGRAMS / "all_reduce_perf", "-b", "1M", "-e", "1M",
                          "-n", 1000000, "-T", 1)
        self.refuses(done, 4, "1048576 bytes of float took longer than the 1 s of -T")

    def test_groups_of_ranks(self):
        for name in "NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK":
            done = self.start(PROGRAMS / "broadcast_perf", "-b", 64, "-e", 64, **{name: "0x1"})
            self.refuses(done, WRONG_USAGE, f"{name} is set")

    def test_less_bandwidth_than_demanded(self):
        done = self.run_ranks(2, "all_reduce", "-b", 64, "-e", 64, "-n", 1, code=7, NCCL_TESTS_MIN_BW="1e6")
        self.assertRegex(done.stdout, r"(?m)^# Avg bus bandwidth    : \S+ FAILED$")

    def test_no_rank_exits_with_a_failure_before_rank_0_has_reported_it(self):
        # A launcher ends all ranks when one fails. Rank 0 writes into a pipe with room for all but its last lines.
        arguments = PROGRAMS / "all_reduce_perf", "-b", 64, "-e", 64, "-n", 1
        whole = self.run_ranks(2, *("all_reduce", *arguments[1:]), code=7, NCCL_TESTS_MIN_BW="1e6").stdout
        before_footer = whole.index("# Out of bounds values")
        port = unused_port()
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 65536)
        os.write(writer, b"x" * (65536 - before_footer - 100))
        ranks = []
        for rank, output in enumerate((writer, subprocess.DEVNULL)):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": str(port), "TOMBOLO_SECRET": "report", "NCCL_TESTS_MIN_BW": "1e6"}
            ranks.append(subprocess.Popen([str(word) for word in arguments], stdout=output, cwd=self.folder,
                                          env=environment(self.folder, self.mark, **variables)))
        os.close(writer)
        try:
            with self.assertRaises(subprocess.TimeoutExpired):
                ranks[1].wait(timeout=3)
            written = b""
            while not written.endswith(b"concluded: all_reduce_perf\n#\n\n"):
                written += os.read(reader, 65536)
            self.assertEqual([rank.wait(timeout=60) for rank in ranks], [7, 7])
        finally:
            os.close(reader)
            for rank in ranks:
                rank.kill()
                rank.wait()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
