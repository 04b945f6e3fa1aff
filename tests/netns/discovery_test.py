#!/usr/bin/env python3
"""Which emulated hosts a job finds to be near each other where no cluster file says it.

Usage: discovery_test.py TOMBOLO ALL_REDUCE_PERF [unittest arguments]. Exit code 77: namespaces are not permitted here.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOMBOLO, ALL_REDUCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def host(name, segment, rate="10gbit", shaped=False):
    nic = {"name": "eth0", "rate": rate, "segment": segment, "shaped": shaped}
    return {"name": name, "cluster": segment, "nics": [nic]}


def link(one, other, rate, rate_back=None):
    return {"between": [one, other], "rate": rate, **({"rate_back": rate_back} if rate_back else {})}


class Discovery(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_job(self, emulate, *arguments):
        """The line that says what was found, and all of the output, of a job whose sums are right."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        done = subprocess.run(
            [TOMBOLO, "run", "--emulate", emulate, "--emulation-mode", "namespaces", "--quiet", *arguments, "--env",
             "TOMBOLO_CLUSTER=", "--env", f"TOMBOLO_DISCOVER={self.folder.name}/islands.json", "--env", "TOMBOLO_LOG=info",
             "--", ALL_REDUCE, "-b", "256K", "-e", "256K", "-n", "2", "-w", "1"],
            env=environment, capture_output=True, text=True, timeout=150, check=False)
        if "/dev/net/tun" in done.stderr:
            raise unittest.SkipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Out of bounds values : 0 OK", done.stdout)
        found = re.findall("no cluster file: (.*)", done.stderr + done.stdout)
        self.assertLessEqual(len(found), 1, found)
        return (found or [""])[0], done.stdout + done.stderr

    def lab(self, hosts, links=()):
        path = pathlib.Path(self.folder.name) / "lab.json"
        path.write_text(json.dumps({"name": "lab", "hosts": hosts, "links": list(links)}), encoding="utf-8")
        return str(path)

    def test_two_clusters(self):
        found, output = self.run_job("two-clusters:rate=100mbit", "-n", "8")
        self.assertIn("2 islands, A (a0, a1), B (b0, b1);", found, output)
        self.assertIn("measured in", found)

    def test_clusters_of_unlike_sizes_behind_links_of_unlike_rates(self):
        hosts = [host(name, name[0]) for name in ("c0", "a0", "b0", "a1", "b1", "b2")] + [host("d0", "d")]
        found, output = self.run_job(self.lab(hosts, [link("a", "d", "50mbit"), link("b", "d", "100mbit"),
                                                      link("c", "d", "20mbit")]))
        for island in ("(a0, a1)", "(b0, b1, b2)"):
            self.assertIn(island, found, output)
        self.assertNotRegex(found, r"\([^)]*\b[cd]0, [ab]|[ab]\d, [cd]0", output)

    def test_uplinks_that_the_hosts_of_a_cluster_share(self):
        hosts = [host(f"{name}{i}", name) for i in range(2) for name in "abc"]
        found, output = self.run_job(self.lab(hosts, [link(name, "switch", rate) for name, rate in
                                                      (("a", "50mbit"), ("b", "100mbit"), ("c", "200mbit"))]))
        self.assertIn("3 islands, A (a0, a1), B (b0, b1), C (c0, c1);", found, output)

    def test_a_link_with_another_rate_back(self):
        for rates in (("1gbit", "50mbit"), ("50mbit", "1gbit")):
            hosts = [host(name, name[0]) for name in ("a0", "b0", "a1", "b1")]
            found, output = self.run_job(self.lab(hosts, [link("a", "b", *rates)]))
            self.assertIn("2 islands, A (a0, a1), B (b0, b1);", found, output)

    def test_only_latency_between_them(self):
        found, output = self.run_job("two-clusters:rate=1gbit,rtt=20ms")
        self.assertIn("2 islands, A (a0, a1), B (b0, b1);", found, output)

    def test_equal_hosts(self):
        found, output = self.run_job(self.lab([host(f"h{i}", "s", "100mbit", True) for i in range(5)]))
        self.assertIn("5 hosts that are equally far from each other", found, output)

    def test_one_slow_host(self):
        hosts = [host(f"h{i}", "s", "20mbit" if i == 1 else "200mbit", True) for i in range(4)]
        found, output = self.run_job(self.lab(hosts))
        self.assertIn("2 islands, A (h0, h2, h3), B (h1);", found, output)

    def test_a_job_on_one_host_measures_nothing(self):
        found, _ = self.run_job(self.lab([host("h0", "s")]), "-n", "2")
        self.assertEqual(found, "")


if __name__ == "__main__":
    probe = subprocess.run([TOMBOLO, "run", "--emulate", "two-clusters", "--emulation-mode", "namespaces", "--quiet", "--", "true"],
                           capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        print(probe.stderr)
        sys.exit(77 if "namespaces are not permitted" in probe.stderr else 1)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
