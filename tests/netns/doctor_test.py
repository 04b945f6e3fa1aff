#!/usr/bin/env python3
"""What `tombolo doctor` finds between two emulated hosts that were put out of order on purpose, and that it finds nothing
between two healthy ones.

Usage: doctor_test.py TOMBOLO [unittest arguments]. Exit code 77: namespaces are not permitted here.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

TOMBOLO = os.path.abspath(sys.argv[1])
NO_RELAY = "/dev/net/tun"


def doctor(break_it="", emulate="two-clusters:rate=1gbit,hosts=2"):
    """(what rank 0 measured and found, what rank 1 did). `break_it` runs on rank 1's host first."""
    script = f'if [ "$RANK" = 1 ]; then {break_it or ":"}; fi; exec "$0" doctor --json'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
    done = subprocess.run([TOMBOLO, "run", "--emulate", emulate, "--emulation-mode", "namespaces", "--quiet",
                           "--env", "TOMBOLO_DEADLINE=10", "--", "sh", "-ec", script, TOMBOLO],
                          env=environment, capture_output=True, text=True, timeout=150, check=False)
    if NO_RELAY in done.stderr:
        raise unittest.SkipTest(done.stderr)
    try:
        ranks = json.loads(done.stdout)["ranks"]
    except (ValueError, KeyError) as error:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}") from error
    return done.returncode, [rank["ways"] for rank in ranks]


class Doctor(unittest.TestCase):
    def findings(self, ways):
        return [check for check in ways if check["name"] != "way"]

    def only(self, ways, name, status):
        """The one finding that is there has that name, and says what to change."""
        found = self.findings(ways)
        self.assertEqual([(one["name"], one["status"]) for one in found], [(name, status)], ways)
        self.assertTrue(found[0]["advice"])
        return found[0]

    def test_a_healthy_pair_gives_no_finding(self):
        code, ranks = doctor()
        for ways in ranks:
            self.assertEqual(self.findings(ways), [])
            self.assertEqual([way["status"] for way in ways], ["ok"])
            self.assertRegex(ways[0]["seen"], r"round trip, path MTU 1500, packets of 1500 arrive, clock [+-]")
        self.assertEqual(code, 0)

    def test_an_mtu_that_differs_is_named_on_both_sides(self):
        _, ranks = doctor("ip link set eth0 mtu 1400")
        self.assertIn("1500 here and 1400 there", self.only(ranks[0], "MTU", "warning")["seen"])
        self.assertIn("1400 here and 1500 there", self.only(ranks[1], "MTU", "warning")["seen"])

    @unittest.skipUnless(shutil.which("nft"), "nftables is not installed")
    def test_a_filter_that_drops_is_told_from_one_that_rejects(self):
        for verdict, words in (("drop", "packets vanish without a word"), ("reject with tcp reset", "refuses, although")):
            with self.subTest(verdict):
                code, ranks = doctor("nft add table inet f; "
                                     "nft 'add chain inet f in { type filter hook input priority 0; }'; "
                                     f"nft 'add rule inet f in iifname eth0 tcp flags & (syn|ack) == syn {verdict}'")
                found = self.only(ranks[0], "firewall", "failed")
                self.assertIn(words, found["seen"])
                self.assertIn("ip_local_port_range", found["advice"])
                self.assertEqual(self.findings(ranks[1]), [])  # that host has no fault of its own
                self.assertEqual(code, 1)

    def test_buffers_too_small_for_the_path_are_named_with_what_they_should_be(self):
        _, ranks = doctor("echo 4096 65536 212992 > /proc/sys/net/ipv4/tcp_rmem; "
                          "echo 4096 65536 16777216 > /proc/sys/net/ipv4/tcp_wmem",
                          "two-clusters:rate=1gbit,hosts=2,rtt=10ms")
        found = self.only(ranks[0], "socket buffers", "warning")
        self.assertIn("sysctl -w net.ipv4.tcp_rmem", found["advice"])
        self.assertIn("of at most 208 KiB", found["seen"])
        self.assertEqual(self.findings(ranks[1]), [])


if __name__ == "__main__":
    probe = subprocess.run([TOMBOLO, "run", "--emulate", "two-clusters:hosts=2", "--emulation-mode", "namespaces", "--quiet", "--",
                            "true"], capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode != 0:
        print(probe.stderr)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
