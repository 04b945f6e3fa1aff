#!/usr/bin/python3
"""Tests what the processes of a job report: over HTTP, read by Prometheus' own parser, and in files.

Usage: observability_test.py TOMBOLO BENCHMARK PLUGIN_TEST [unittest arguments]
"""
import collections
import glob
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

TOMBOLO, BENCHMARK, PLUGIN_TEST = sys.argv[1:4]
PATIENCE = 60  # seconds; for a loaded machine


def environment(**variables):
    """Of jobs whose collectives send messages, though all ranks are on this host: what is observed is messages."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
    return dict(clean, TOMBOLO_HOST_LIMIT="0", **variables)


class Job:
    """Two ranks that all-reduce for longer than any test takes. Their output is read line by line."""

    def __init__(self, **variables):
        self.process = subprocess.Popen(
            [TOMBOLO, "run", "-n", "2", "--", BENCHMARK, "-b", "64K", "-e", "64K", "-n", "1000000"],
            env=environment(TOMBOLO_LOG="info", **variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = ""

    def wait_for(self, pattern, count):
        """The first `count` matches in what it printed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while select.select([self.process.stdout], [], [], 0)[0]:
                part = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace")
                if not part:
                    break
                self.output += part
            found = re.findall(pattern, self.output)
            if len(found) >= count:
                return found
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"no {count} times {pattern!r} in:\n{self.output}")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)


def get(port, page):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=PATIENCE) as response:
        return response.headers["Content-Type"], response.read().decode()


@unittest.skipIf(text_string_to_metric_families is None, "python3-prometheus-client is not installed")
class Endpoint(unittest.TestCase):
    def scrape(self, port):
        """{(series, labels): value} and {family: type}"""
        kind, text = get(port, "/metrics")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        values, types = {}, {}
        for family in text_string_to_metric_families(text):
            types[family.name] = family.type
            self.assertTrue(family.documentation, family.name)
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                self.assertNotIn(key, values)
                values[key] = sample.value
        return values, types

    def counters_that_grew(self, before, after, types):
        """The number of counters that grew; none may shrink."""
        self.assertLessEqual(before.keys(), after.keys())
        grew = 0
        for (name, labels), value in before.items():
            family = name[:-len("_total")] if name.endswith("_total") else name
            self.assertIn(types[family], ("counter", "gauge"))
            if types[family] == "counter":
                self.assertTrue(name.endswith("_total"), name)
                self.assertGreaterEqual(after[name, labels], value, name)
                grew += after[name, labels] > value
        return grew

    def test_every_rank_serves_counters_that_only_grow(self):
        with Job(TOMBOLO_METRICS="0", TOMBOLO_TRANSPORTS="tcp") as job:
            ports = job.wait_for(r"meters are served at http://127\.0\.0\.1:(\d+)/metrics", 2)
            self.assertEqual(len(set(ports)), 2)
            for port in ports:
                deadline = time.monotonic() + PATIENCE
                while True:
                    before, types = self.scrape(port)
                    if sum(v for (n, _), v in before.items() if n == "tombolo_sent_bytes_total") > 1e6:
                        break
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                while True:
                    after, _ = self.scrape(port)
                    grew = self.counters_that_grew(before, after, types)
                    if grew > 4:
                        break
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                names = {name for name, _ in after}
                self.assertLessEqual({"tombolo_info", "tombolo_connections", "tombolo_sent_bytes_total",
                                      "tombolo_received_messages_total", "tombolo_stream_sent_bytes_total",
                                      "tombolo_retransmitted_segments_total", "tombolo_round_trip_seconds"}, names)
                live = {labels: value for (name, labels), value in after.items() if name == "tombolo_connections"}
                self.assertGreaterEqual(sum(live.values()), 1)
                for labels in live:
                    self.assertEqual(dict(labels)["transport"], "tcp")
                kind, text = get(port, "/json")
                self.assertEqual(kind, "application/json")
                page = json.loads(text)
                self.assertGreaterEqual(len(page["connections"]), 1)
                self.assertGreater(sum(one["sent_bytes"] for one in page["connections"]), 1e6)
                for one in page["connections"]:
                    for stream in one["streams"]:
                        self.assertGreater(stream["round_trip_seconds"], 0)
                with self.assertRaises(urllib.error.HTTPError):
                    get(port, "/other")

    def test_a_port_in_use_is_named_and_ends_no_job(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = subprocess.run([TOMBOLO, "run", "-n", "2", "--", BENCHMARK, "-b", "8", "-e", "8", "-n", "1"],
                                  env=environment(TOMBOLO_METRICS=str(port)), capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout + done.stderr, rf"TOMBOLO_METRICS: cannot listen at 127\.0\.0\.1 port {port}: .*in use")

    def test_an_address_that_makes_no_sense_is_an_error(self):
        done = subprocess.run([TOMBOLO, "run", "-n", "2", "--", BENCHMARK, "-b", "8", "-e", "8", "-n", "1"],
                              env=environment(TOMBOLO_METRICS="everywhere"), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TOMBOLO_METRICS='everywhere': expected [ADDRESS:]PORT", done.stdout + done.stderr)


def check_files(test, folder, at_least):
    """The traces' messages add up to what the meters of the same process say."""
    meters = sorted(glob.glob(os.path.join(folder, "meters-*.json")))
    test.assertGreaterEqual(len(meters), at_least)
    test.assertEqual(len(glob.glob(os.path.join(folder, "trace-*.json"))), len(meters))
    test.assertEqual(len(os.listdir(folder)), 2 * len(meters))
    moved = collections.Counter()
    for path in meters:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        with open(path.replace("meters-", "trace-"), encoding="utf-8") as file:
            trace = json.load(file)
        test.assertEqual(path, os.path.join(folder, f"meters-{report['host']}-{report['process']}.json"))
        test.assertEqual(trace["otherData"]["dropped_events"], 0)
        counted = collections.Counter()
        for one in report["totals"]:
            for name in ("sent_bytes", "received_bytes", "sent_messages", "received_messages", "connections_opened"):
                counted[name] += one[name]
        traced = collections.Counter()
        now = time.time() * 1e6
        for event in trace["traceEvents"]:
            test.assertEqual(event["pid"], report["process"])
            if event["ph"] == "M":
                continue
            test.assertTrue(now - 3600e6 < event["ts"] <= now + 60e6, event)
            if event["cat"] == "connection":
                traced["connections_opened"] += 1
            elif event["cat"] == "message" and not event["args"]["failed"]:
                way = "sent" if event["name"].startswith("send") else "received"
                traced[way + "_bytes"] += event["args"]["bytes"]
                traced[way + "_messages"] += 1
        test.assertEqual(traced, counted, path)
        moved.update(counted)
    test.assertGreater(moved["sent_bytes"], 100_000)
    test.assertEqual(moved["sent_bytes"], moved["received_bytes"])
    test.assertEqual(moved["sent_messages"], moved["received_messages"])


class Files(unittest.TestCase):
    def run_with_files(self, command, **variables):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, timeout=2 * PATIENCE, check=False, capture_output=True, text=True,
                                  env=environment(TOMBOLO_METRICS_FILE=folder + "/meters-%h-%p.json",
                                                  TOMBOLO_TRACE=folder + "/trace-%h-%p.json", **variables))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            check_files(self, folder, 2)

    def test_a_job_over_tcp_leaves_meters_and_traces_that_agree(self):
        self.run_with_files([TOMBOLO, "run", "-n", "2", "--quiet", "--", BENCHMARK, "-b", "1", "-e", "1M", "-f", "4", "-n", "3"],
                            TOMBOLO_TRANSPORTS="tcp", TOMBOLO_TCP_STREAMS="3")

    def test_a_job_over_shared_memory_leaves_meters_and_traces_that_agree(self):
        self.run_with_files([TOMBOLO, "run", "-n", "3", "--quiet", "--", BENCHMARK, "-b", "1", "-e", "1M", "-f", "4", "-n", "3"])

    def test_a_trace_that_is_full_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([TOMBOLO, "run", "-n", "2", "--", BENCHMARK, "-b", "8", "-e", "8", "-n", "20"],
                                  env=environment(TOMBOLO_TRACE=folder + "/trace-%p.json", TOMBOLO_TRACE_EVENTS="7"),
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in glob.glob(folder + "/*"):
                with open(path, encoding="utf-8") as file:
                    trace = json.load(file)
                self.assertEqual(sum(event.get("cat") == "message" for event in trace["traceEvents"]), 7)
                self.assertGreater(trace["otherData"]["dropped_events"], 0)
            self.assertRegex(done.stdout + done.stderr, "the first 7 events are in .*TOMBOLO_TRACE_EVENTS")


class Plugin(unittest.TestCase):
    def test_the_nccl_plugin_reports_too(self):
        """The conformance test's own process loads the plugin as NCCL does; its forked peer is another."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PLUGIN_TEST, "--gtest_filter=*/v11"], timeout=2 * PATIENCE, check=False,
                                  env=environment(TOMBOLO_METRICS="0", TOMBOLO_METRICS_FILE=folder + "/meters-%h-%p.json"),
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            reports = []
            for path in glob.glob(folder + "/*.json"):
                with open(path, encoding="utf-8") as file:
                    reports.append(json.load(file))
            self.assertGreater(sum(one["sent_bytes"] for report in reports for one in report["totals"]), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
