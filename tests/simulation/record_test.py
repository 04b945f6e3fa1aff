#!/usr/bin/env python3
"""record.py: the page that it writes, and figures of the simulator of a build.  Usage: record_test.py BUILD"""
import pathlib
import sys
import types
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import record  # noqa: E402


def run_of(under, **more):
    return {"under": under, "over": "tcp", "first": 1, "schedules": 1000, "tls": 0, "wrong": 0, "connected": 0, "with_an_end_that_failed": 0,
            "messages": 0, "streams_broken": 0, "streams_back": 0, "chunks_sent_again": 0, "virtual_seconds": 1.0, "processor_seconds": 1.0,
            "went_wrong": {}, "date": "", "commit": "", "processor": "", "kernel": "", **more}


def broken(runs):
    """The cells of the row of streams that broke."""
    row, = [line for line in record.page(runs).splitlines() if line.startswith("| streams that broke |")]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


class Page(unittest.TestCase):
    def test_sums_what_all_runs_counted(self):
        self.assertEqual(broken([run_of("connection", streams_broken=2), run_of("connection", streams_broken=3, streams_counted=True)]), ["5"])

    def test_says_that_a_run_of_old_did_not_count_streams(self):
        self.assertEqual(broken([run_of("connection", streams_broken=2), run_of("plugin")]), ["2", "not counted"])

    def test_says_how_many_schedules_counted_them(self):
        self.assertEqual(broken([run_of("plugin"), run_of("plugin", streams_broken=7, streams_counted=True)]), ["7 in 1,000 schedules"])


class Run(unittest.TestCase):
    def test_streams_are_counted_beneath_everything(self):
        for under in record.UNDER:
            arguments = types.SimpleNamespace(build=BUILD, under=under, over="tcp", schedules=40, jobs=1)
            found = record.run(arguments, 1)
            self.assertTrue(record.counts_streams(found), under)
            self.assertGreater(found["streams_broken"], 0, under)


if __name__ == "__main__":
    unittest.main()
