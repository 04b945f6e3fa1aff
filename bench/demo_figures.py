#!/usr/bin/env python3
"""Checks the promises of the demo (speedup of 1.4, more than 1.1 of it from placement, predictions within 10 %) where computing is slow, and where other work runs.

    demo_figures.py TOMBOLO [--only NAME...] [--rounds 1] [--json FILE]

A promise that is not kept is marked, and nothing else follows: figures depend on what else the machine does.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LEAST_SPEEDUP, LEAST_FROM_PLACEMENT, MOST_ERROR = 1.4, 1.1, 0.10
GROUPS = pathlib.Path("/sys/fs/cgroup")


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@contextlib.contextmanager
def beside_busy_loop():
    loop = multiprocessing.Process(target=spin, args=(900,), daemon=True)
    loop.start()
    try:
        yield {}
    finally:
        loop.terminate()
        loop.join()


@contextlib.contextmanager
def quarter_of_the_processors():
    """A control group (v1 or v2) whose processes get a quarter of this machine's processor time, all together."""
    old = GROUPS / "cpu" / "cpu.cfs_quota_us"
    group = (old.parent if old.parent.is_dir() else GROUPS) / f"tombolo-demo-{os.getpid()}"
    quota = f"{25000 * os.cpu_count()}"
    group.mkdir()
    try:
        if old.parent.is_dir():
            (group / old.name).write_text(quota)
        else:
            (group / "cpu.max").write_text(f"{quota} 100000")
        yield {"preexec_fn": lambda: (group / "cgroup.procs").write_text(str(os.getpid()))}
    finally:
        deadline = time.monotonic() + 10
        while (group / "cgroup.procs").exists() and (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


@contextlib.contextmanager
def with_instruction_set(name):
    yield {"env": {**os.environ, "TOMBOLO_INSTRUCTION_SET": name}}


CONDITIONS = {
    "as it is": contextlib.nullcontext,
    "busy loop": beside_busy_loop,
    "avx2": lambda: with_instruction_set("avx2"),
    "baseline": lambda: with_instruction_set("baseline"),
    "quarter": quarter_of_the_processors,
}


def run_demo(tombolo, options):
    with tempfile.TemporaryDirectory(prefix="tombolo-demo-") as folder:
        done = subprocess.run([tombolo, "demo", "--json", "--out", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=900, check=False, **(options or {}))
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return json.loads(done.stdout), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tombolo")
    parser.add_argument("--only", nargs="+", choices=CONDITIONS, default=list(CONDITIONS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", help="also write all figures to this file")
    arguments = parser.parse_args()
    reports = []
    print(f"{'condition':<12} {'computing':>10} {'ethernet':>13} {'speedup':>8} {'placement':>10}  errors of the three  seconds")
    for _ in range(arguments.rounds):
        for name in arguments.only:
            try:
                with CONDITIONS[name]() as options:
                    report, problem = run_demo(arguments.tombolo, options)
            except (OSError, subprocess.SubprocessError) as error:
                report, problem = None, error
            if report is None:
                print(f"{name:<12} not measured: {problem}", flush=True)
                continue
            errors = [run["prediction_error"] for run in report["runs"]]
            kept = (report["speedup"] >= LEAST_SPEEDUP and report["speedup_from_placement"] > LEAST_FROM_PLACEMENT and
                    max(map(abs, errors)) <= MOST_ERROR)
            print(f"{name:<12} {report['compute']['step_seconds'] * 1e3:>7.0f} ms"
                  f" {report['rates']['ethernet_bits_per_second'] / 1e6:>6.3g} Mbit/s {report['speedup']:>7.2f}x"
                  f" {report['speedup_from_placement']:>9.2f}x  {' '.join(f'{100 * error:+5.1f}%' for error in errors):<19}"
                  f"  {report['environment']['demo_seconds']:>7.0f}{'' if kept else '  <- not as promised'}", flush=True)
            reports.append({"condition": name, "report": report})
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=1), encoding="utf-8")
    return 0 if reports else 1


if __name__ == "__main__":
    sys.exit(main())
