#!/usr/bin/env python3
"""The record of training runs that were killed and went on: what resume_test.py --record writes, and what must be in it.

Usage: kills_record.py FILE    exit code 1 and one line per thing that keeps FILE from being a record of 100 kills in each layout
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "report"))
import machine  # noqa: E402

WHAT = ("training runs that SIGKILL ended at random moments and that went on with --resume auto: each run's log and model must "
        "be the uninterrupted run's to the bit, with nothing left of the starts that were killed")
EQUAL = "equal to the bit"
LEAST_KILLS = 100
MOMENTS = ("start", "step", "checkpoint")


def of_layout(ranks, options, steps, seed):
    """A layout before its first kill. `while_writing` counts kills that left a shard half written; `of_one_rank` those of one
    rank alone, the others being of all processes at once; `aimed_at` counts by the moment that was waited for."""
    return {"ranks": ranks, "options": " ".join(options), "steps": steps, "seed": seed, "kills": 0, "runs": 0, "while_writing": 0,
            "of_one_rank": 0, "aimed_at": dict.fromkeys(MOMENTS, 0), "seconds": 0.0, "outcome": "ended before its result"}


def conditions(build):
    """Asked before the first kill: the source may be changed while the runs go on."""
    source = machine.source()
    return {"date": machine.today(), "commit": source["commit"], "changed_since": source["changed"],
            "hardware": machine.machine(), "build": machine.versions(build)}


def record_of(layouts, asked):
    """`asked`: the conditions()."""
    return {"what": WHAT, "passed": bool(layouts) and all(layout["outcome"] == EQUAL for layout in layouts), **asked,
            "kills": sum(layout["kills"] for layout in layouts),
            "while_writing": sum(layout["while_writing"] for layout in layouts), "layouts": layouts}


def write(path, layouts, asked):
    pathlib.Path(path).write_text(json.dumps(record_of(layouts, asked), indent=1) + "\n", encoding="utf-8")


def problems(record, least_kills=LEAST_KILLS):
    """Yields a text for each thing that is wrong with a record."""
    if not record["passed"]:
        yield "it did not pass"
    if not record["commit"] or record["changed_since"]:
        yield f"it is of no commit: commit {record['commit']}, files changed since: {record['changed_since']}"
    for name in ("date", "kills", "while_writing"):
        if not record[name]:
            yield f"{name} is {record[name]}"
    if not record["hardware"]["processor"]:
        yield "it names no processor"
    layouts = record["layouts"]
    if sorted(layout["ranks"] for layout in layouts) != [1, 4]:
        yield f"its layouts have {[layout['ranks'] for layout in layouts]} ranks, not 1 and 4"
    for layout in layouts:
        where = f"{layout['ranks']} ranks"
        if layout["outcome"] != EQUAL:
            yield f"{where}: {layout['outcome']}"
        if layout["kills"] < least_kills:
            yield f"{where}: {layout['kills']} kills are fewer than {least_kills}"
        if sum(layout["aimed_at"].values()) != layout["kills"]:
            yield f"{where}: {layout['kills']} kills, but moments {layout['aimed_at']}"
        if not 0 <= layout["seed"] < 2**32:
            yield f"{where}: seed {layout['seed']}"
    for name in ("kills", "while_writing"):
        if record[name] != sum(layout[name] for layout in layouts):
            yield f"{name} is {record[name]}, not the sum of its layouts"


def main():
    record = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = list(problems(record))
    for problem in found:
        print(f"{sys.argv[1]}: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
