#!/usr/bin/env python3
"""Tests of the page that planner_eval writes: page_test.py PLANNER_EVAL"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HEAD = ("# The planner against published measurements\n\nWritten by `planner_eval`; the measurements themselves are no "
        "part of the repository.\n\n")


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, *options):
        command = [sys.argv[1], "--data", str(self.folder), "--only", "amp", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def page_of(self, *options):
        page = self.folder / "page.md"
        ran = self.run_with("--markdown", str(page), *options)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return page.read_text()

    def test_what_it_is_about_stands_above_the_first_section(self):
        about = "Measured on 1 May 2031 on 3 cores of a made-up processor, at commit 0123abcd."
        text = self.page_of("--about", about)
        self.assertTrue(text.startswith(HEAD + about + "\n\n## "), text)
        self.assertTrue(self.page_of().startswith(HEAD + "## "), "without it nothing stands there")

    def test_it_needs_a_page_to_stand_on(self):
        ran = self.run_with("--about", "nowhere")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("--markdown", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
