#!/usr/bin/env python3
"""Runs the simulator for a while and writes what it found, as JSON and as a page of Markdown.

    record.py [--build build] [--first 1] [--minutes 30] [--jobs 1] [--out docs/results/simulation]

Minutes are of processor time, for each of the jobs. Fails where a schedule went wrong, after writing so.
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


def run(arguments):
    """The simulator's own figures."""
    program = (ROOT / arguments.build / "bin" / "simulate").resolve()
    if not os.access(program, os.X_OK):
        raise SystemExit(f"record: {program} is not there: build it (ninja -C {arguments.build} simulate)")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "figures.json"
        done = subprocess.run([program, "--first", str(arguments.first), "--count", str(10**9), "--jobs", str(arguments.jobs),
                        "--seconds", str(60 * arguments.minutes), "--most-wrong", "1000", "--json", file], check=False,
                              stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="")
        said = re.findall(r"^seed (\d+): ([^:]*)", done.stdout, re.M)
        return {**json.loads(file.read_text(encoding="utf-8")), "went_wrong": {seed: what for seed, what in said}}


def page(found, here):
    last = found["first"] + found["schedules"] - 1
    rows = [("schedules", f"{found['schedules']:,}"), ("of these with TLS", f"{found['tls']:,}"),
            ("that went wrong", f"{found['wrong']:,}"),
            ("whose two ends connected", f"{found['connected']:,}"),
            ("in which an end failed, as it must", f"{found['with_an_end_that_failed']:,}"),
            ("messages received, each byte compared", f"{found['messages']:,}"),
            ("streams that broke", f"{found['streams_broken']:,}"),
            ("streams that came back", f"{found['streams_back']:,}"),
            ("chunks sent again", f"{found['chunks_sent_again']:,}"),
            ("virtual time", f"{found['virtual_seconds'] / 3600:.1f} h"),
            ("processor time", f"{found['processor_seconds'] / 60:.1f} min"),
            ("schedules per core and hour", f"{found['schedules_per_core_hour']:,.0f}")]
    seeds = f"Seeds {found['first']:,} to {last:,}" if found["jobs"] == 1 else f"Seeds from {found['first']:,} on, {found['jobs']} jobs"
    return "\n".join(["# Simulated schedules", "",
                      "Written by `tests/simulation/record.py`; [faults](../faults.md#simulated) says what a schedule is.", "",
                      f"{here['date']}, commit {here['commit']}, {found['jobs']} of {here['cores']} cores of {here['processor']}, Linux "
                      f"{here['kernel']}. {seeds}.", "",
                      "| | |", "|---|---|", *[f"| {name} | {value} |" for name, value in rows], "",
                      *[f"* Seed {seed}: {what}." for seed, what in found["went_wrong"].items()]]).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "results" / "simulation")
    arguments = parser.parse_args()
    source = machine.source()
    here = {"date": str(datetime.date.today()),
            "commit": f"{source['commit'] or 'unknown'}{' and changes' if source['changed'] else ''}", **machine.machine()}
    found = run(arguments)
    arguments.out.with_suffix(".json").write_text(json.dumps({**found, **here}, indent=2) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(page(found, here), encoding="utf-8")
    return 0 if found["wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
