#!/usr/bin/env python3
"""What makes a record of killed runs, and what is found wrong with one."""
import copy
import json
import pathlib
import tempfile
import unittest

import kills_record

ASKED = kills_record.conditions(kills_record.ROOT / "build")


def whole():
    layouts = []
    for ranks, options in ((1, ()), (4, ("--pipeline", "2"))):
        layout = kills_record.of_layout(ranks, options, 100, 7)
        layout.update(kills=100, runs=13, while_writing=20, aimed_at={"start": 30, "step": 30, "checkpoint": 40},
                      outcome=kills_record.EQUAL)
        layouts.append(layout)
    record = kills_record.record_of(layouts, ASKED)
    record.update(commit="1234567", changed_since=False)
    return record


class Record(unittest.TestCase):
    def test_a_whole_one_has_no_problem(self):
        self.assertEqual(list(kills_record.problems(whole())), [])
        self.assertEqual((whole()["kills"], whole()["while_writing"]), (200, 40))

    def test_a_layout_that_never_ended_is_no_success(self):
        layouts = [kills_record.of_layout(1, (), 100, 7)]
        self.assertFalse(kills_record.record_of(layouts, ASKED)["passed"])
        self.assertFalse(kills_record.record_of([], ASKED)["passed"])

    def test_what_is_wrong_is_found(self):
        for path, value, words in (
                (("passed",), False, "did not pass"), (("commit",), None, "no commit"), (("changed_since",), True, "no commit"),
                (("date",), "", "date"), (("while_writing",), 0, "while_writing"), (("kills",), 150, "sum"),
                (("hardware", "processor"), "", "processor"), (("layouts", 0, "kills"), 99, "fewer than 100"),
                (("layouts", 1, "outcome"), "the logs differ", "4 ranks: the logs differ"),
                (("layouts", 1, "ranks"), 2, "not 1 and 4"), (("layouts", 0, "seed"), 2**32, "seed"),
                (("layouts", 0, "aimed_at", "step"), 31, "moments")):
            record = copy.deepcopy(whole())
            at = record
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = value
            self.assertTrue(any(words in problem for problem in kills_record.problems(record)), (path, value))

    def test_it_is_written_as_it_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kills.json"
            layouts = whole()["layouts"]
            kills_record.write(path, layouts, ASKED)
            self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["layouts"], layouts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
