#!/usr/bin/env python3
"""Prints what the tests that failed have said, from the log that ctest leaves in a build folder: without the seeds that tests
draw one after another (but for the last, which a process that crashed does not say again), and without the middle where
it is long.

usage: what_failed.py BUILD_FOLDER
"""
import pathlib
import re
import sys

ENDS = 80  # lines kept of the beginning and of the end of a test's output

TEST = re.compile(r"^\d+/\d+ Testing: (?P<name>\S+)\n.*?^Output:\n-+\n(?P<output>.*?)^<end of output>\n"
                  r".*?^\"(?P=name)\" end time", re.MULTILINE | re.DOTALL)


def shortened(output):
    lines = output.splitlines()
    seeds = [at for at, line in enumerate(lines) if line.startswith("TOMBOLO_TEST_SEED=")]
    for at in reversed(seeds[:-1]):
        del lines[at]
    if len(lines) <= 2 * ENDS:
        return lines
    return lines[:ENDS] + [f"[{len(lines) - 2 * ENDS} lines left out]"] + lines[-ENDS:]


def main():
    folder = pathlib.Path(sys.argv[1]) / "Testing/Temporary"
    if not (folder / "LastTestsFailed.log").exists():
        return  # ctest itself failed, and has said why
    failed = {line.partition(":")[2] for line in (folder / "LastTestsFailed.log").read_text().splitlines()}
    log = folder / "LastTest.log"
    for test in TEST.finditer(log.read_text(errors="replace")):
        if test["name"] in failed:
            print(f"\n==> What {test['name']} said:", *shortened(test["output"]), sep="\n")
    print(f"\nThe whole of it: {log}")


if __name__ == "__main__":
    main()
