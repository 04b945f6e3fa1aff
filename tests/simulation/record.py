#!/usr/bin/env python3
"""Runs schedules of the simulator and adds what they found to a record: JSON, and a page of Markdown made of it.

    record.py [--under connection] [--over tcp] [--build build] [--schedules 250000] [--first N] [--jobs 1] [--commit HASH]
              [--out docs/results/simulation]

The commit is asked of git unless it is given, as where the build was copied to. The schedules follow the last of the same kind, beneath
the same user and over the same transport, that the record holds, or begin with N. A run of which one went wrong is recorded like any
other, and makes the exit code 1.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "report"))
import machine  # noqa: E402


def run(arguments, first):
    """The simulator's own figures."""
    program = (ROOT / arguments.build / "bin" / "simulate").resolve()
    if not os.access(program, os.X_OK):
        raise SystemExit(f"record: {program} is not there: build it (ninja -C {arguments.build} simulate)")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        done = subprocess.run([program, "--under", arguments.under, "--over", arguments.over, "--first", str(first), "--count", str(arguments.schedules), "--jobs", str(arguments.jobs),
                               "--most-wrong", str(arguments.schedules), "--json", file], check=False,
                              stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="")
        said = re.findall(r"^seed (\d+): ([^:]*)", done.stdout, re.M)
        return {**json.loads(file.read_text(encoding="utf-8")), "went_wrong": {seed: what for seed, what in said}}


UNDER = {"connection": "two owners", "plugin": "the plugin", "collectives": "the collectives"}
OVER = {"tcp": "TCP", "shm": "shared memory"}
KINDS = [(under, over) for under in UNDER for over in OVER]


def kind_of(run):
    """What used the connections and what carried the messages, which records of old do not say."""
    return run.get("under", "connection"), run.get("over", "tcp")


def counts_streams(run):
    """Whether it counted what became of streams: records of old did so of two owners alone, and hold 0 for the others."""
    return run.get("streams_counted", kind_of(run)[0] == "connection")


def page(runs):
    kinds = [kind for kind in KINDS if any(kind_of(one) == kind for one in runs)]

    def line(cells):
        return f"| {' | '.join(cells)} |"

    def row(name, text):
        def of(kind):
            return text(lambda key: sum(one[key] for one in runs if kind_of(one) == kind))

        return line([name, *(of(kind) for kind in kinds)])

    def name(run):
        under, over = kind_of(run)
        return [UNDER[under], OVER[over]]

    def count(name, key):
        return row(name, lambda total: f"{total(key):,}")

    def stream_count(name, key):
        def of(kind):
            all_of_kind = [one for one in runs if kind_of(one) == kind]
            counted = [one for one in all_of_kind if counts_streams(one)]
            if not counted:
                return "not counted"
            schedules = "" if len(counted) == len(all_of_kind) else f" in {sum(one['schedules'] for one in counted):,} schedules"
            return f"{sum(one[key] for one in counted):,}{schedules}"

        return line([name, *(of(kind) for kind in kinds)])

    rows = [count("schedules", "schedules"), count("of these with TLS", "tls"), count("that went wrong", "wrong"),
            count("whose two ends connected", "connected"),
            count("in which an end failed, as it must", "with_an_end_that_failed"),
            count("messages received, each byte compared", "messages"), stream_count("streams that broke", "streams_broken"),
            stream_count("streams that came back", "streams_back"), stream_count("chunks sent again", "chunks_sent_again"),
            row("virtual time", lambda total: f"{total('virtual_seconds') / 3600:.1f} h"),
            row("processor time", lambda total: f"{total('processor_seconds') / 3600:.2f} h"),
            row("schedules per core and hour",
                lambda total: f"{3600 * total('schedules') / total('processor_seconds'):,.0f}")]
    each = [line([*name(one), f"{one['first']:,} to {one['first'] + one['schedules'] - 1:,}", one["commit"], one["date"], one["processor"],
                  one["kernel"], str(one["wrong"])]) for one in runs]
    wrong = [f"* Beneath {UNDER[under]}, over {OVER[over]}, seed {seed}, commit {one['commit']}: {what}."
             for one in runs for under, over in [kind_of(one)] for seed, what in one["went_wrong"].items()]
    return "\n".join(["# Simulated schedules", "",
                      "Written by `tests/simulation/record.py`; [faults](../faults.md#simulated) says what a schedule is.", "",
                      line(["beneath", *(UNDER[under] for under, _ in kinds)]), "|---" * (1 + len(kinds)) + "|",
                      line(["over", *(OVER[over] for _, over in kinds)]), *rows, "",
                      "## Runs", "", "| beneath | over | seeds | commit | date | processor | Linux | went wrong |",
                      "|---|---|---|---|---|---|---|---|", *each, "",
                      *wrong]).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--under", choices=UNDER, default="connection")
    parser.add_argument("--over", choices=OVER, default="tcp")
    parser.add_argument("--build", default="build")
    parser.add_argument("--schedules", type=int, default=250_000)
    parser.add_argument("--first", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--commit")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "results" / "simulation")
    arguments = parser.parse_args()
    record = arguments.out.with_suffix(".json")
    runs = json.loads(record.read_text(encoding="utf-8")) if record.exists() else []
    first = arguments.first or max((one["first"] + one["schedules"] for one in runs if kind_of(one) == (arguments.under, arguments.over)),
                                     default=1)
    source = machine.source()
    here = {"date": str(datetime.date.today()),
            "commit": arguments.commit or f"{source['commit'] or 'unknown'}{' and changes' if source['changed'] else ''}", **machine.machine()}
    found = run(arguments, first)
    runs.append({**found, **here})
    record.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(page(runs), encoding="utf-8")
    return 0 if found["wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
