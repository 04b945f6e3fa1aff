#!/usr/bin/env python3
"""Tests that many_comms runs and says figures that can be: nothing of how fast it is.

Usage: many_comms_test.py MANY_COMMS [unittest arguments]
"""
import os
import re
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SET_UP = re.compile(r"^(\d+) comms: (\d+) threads, (\d+) descriptors, (-?\d+) KiB more than without; set up in (\d+\.\d+) s$", re.M)
CLOSED = re.compile(r"^closed (towards each other|towards silence) in (\d+\.\d+) s$", re.M)


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300, check=False)


class ManyComms(unittest.TestCase):
    def figures(self, comms, tags):
        done = run("--comms", str(comms), "--tags", str(tags))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        set_up, closed = SET_UP.findall(done.stdout), CLOSED.findall(done.stdout)
        self.assertEqual([which for which, _ in closed], ["towards each other", "towards silence"], done.stdout)
        self.assertEqual(len(set_up), 2, done.stdout)
        for said, threads, descriptors, kib, _ in set_up:
            self.assertEqual(int(said), comms)
            self.assertLessEqual(int(threads), 4, "comms share the transport's threads")
            self.assertGreaterEqual(int(descriptors), comms * max(tags, 1), "each lane has a socket at each end")
            self.assertLess(abs(int(kib)), 1 << 20)
        return int(set_up[0][2])

    def test_figures_of_comms_and_of_tags(self):
        one = self.figures(16, 0)
        self.assertGreater(self.figures(16, 3), one, "a tag has a connection of its own")

    def test_wrong_arguments_are_refused(self):
        done = run("--tags", "-1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--tags", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
