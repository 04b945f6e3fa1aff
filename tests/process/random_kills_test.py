#!/usr/bin/env python3
"""Kills a random rank of jobs that make random calls: every other rank must get an error that names it (of the rank
that keeps the store, the shrink does), and those that are left go on with a sum of their own.

Usage: random_kills_test.py MIXED_RANKS [--kills N] [--record FILE]    TOMBOLO_TEST_SEED repeats a run
"""
import argparse
import json
import os
import pathlib
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "report"))
sys.path.insert(0, str(ROOT / "tests"))
import machine  # noqa: E402
from ports import unused_port  # noqa: E402

PATIENCE = 60  # seconds, for each thing that is waited for
ROUTES = {"shared memory": {}, "TCP": {"TOMBOLO_TRANSPORTS": "tcp"}}


class Job:
    """One job of random calls; its ranks end with it."""

    def __init__(self, program, size, seed, variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        port = unused_port()
        self.ranks = [
            subprocess.Popen([program, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=dict(clean, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                                      MASTER_PORT=str(port), TOMBOLO_SECRET="random kills", TOMBOLO_DEADLINE="60", **variables))
            for rank in range(size)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.kill()
            rank.communicate()

    def wait_until_ready(self):
        for number, rank in enumerate(self.ranks):
            if not select.select([rank.stdout], [], [], PATIENCE)[0]:
                raise AssertionError(f"rank {number} said nothing for {PATIENCE} s, expected 'ready'")
            line = rank.stdout.readline()
            if line != "ready\n":
                raise AssertionError(f"rank {number} said {line + rank.communicate(timeout=PATIENCE)[0]!r}, expected 'ready'")

    def kill(self, victim):
        """The texts and exit codes of the others, and when the victim was killed."""
        killed = time.monotonic_ns()
        self.ranks[victim].send_signal(signal.SIGKILL)
        outcomes = {}
        for number, rank in enumerate(self.ranks):
            try:
                text, _ = rank.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {number} hangs") from None
            outcomes[number] = (rank.returncode, text)
        assert outcomes.pop(victim)[0] == -signal.SIGKILL
        return outcomes, killed


def kill_one(program, draw):
    """One job with one kill. Returns what it was and how long each of the others took, in milliseconds."""
    size, route, progress = draw.randint(2, 5), draw.choice(sorted(ROUTES)), draw.choice(["caller", "thread"])
    victim, seed, moment = draw.randrange(size), draw.randrange(1 << 32), draw.uniform(0, 0.06)
    what = f"{size} ranks over {route}, progress by the {progress}, seed {seed}, rank {victim} killed {1000 * moment:.1f} ms after all were ready"
    with Job(program, size, seed, dict(ROUTES[route], TOMBOLO_PROGRESS=progress)) as job:
        try:
            job.wait_until_ready()
            time.sleep(moment)  # the kill's place among the calls, not a wait for anything
            outcomes, killed = job.kill(victim)
            errors, sums = [], []
            for rank, (code, text) in outcomes.items():
                said = f"rank {rank} (exit code {code}) said {text!r}"
                failed = re.search(r"^failed at (\d+) with .*", text, re.M)
                assert failed, f"{said}: no error"
                # Without the store a rank may know only of a neighbour that gave up; what names rank 0 is that none can meet.
                named_in = text if victim == 0 else failed.group(0)
                assert re.search(rf"\brank {victim}\b", named_in), f"{said}: no error that names rank {victim}"
                errors.append((int(failed.group(1)) - killed) / 1e6)
                went_on = re.search(r"^went on at (\d+) with (\d+) ranks$", text, re.M)
                if victim == 0:  # whose process kept the store
                    assert code == 4 and "which is gone" in text, said
                else:
                    assert code == 0 and went_on and int(went_on.group(2)) == size - 1, said
                    sums.append((int(went_on.group(1)) - killed) / 1e6)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
    return {"ranks": size, "route": route, "victim": victim, "error_ms": max(errors), "sum_ms": max(sums, default=None)}


def quantiles(values):
    ordered = sorted(values)
    return {"median": round(statistics.median(ordered), 1), "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
            "most": round(ordered[-1], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--record", help="write what was seen to this file")
    given = parser.parse_args()
    seed = int(os.environ.get("TOMBOLO_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"TOMBOLO_TEST_SEED={seed}", flush=True)
    conditions = {"date": machine.today(), "hardware": machine.machine(), **machine.source()}
    draw = random.Random(seed)
    seen = [kill_one(os.path.abspath(given.program), draw) for _ in range(given.kills)]
    record = {
        "what": "jobs of 2 to 5 ranks on one host that make random calls, of which one rank was killed at a random moment: all other "
                "ranks got an error, which names it where the store had not died with it, and then the right sum of those that were left",
        **conditions, "seed": seed, "kills": len(seen), "of_the_store": sum(one["victim"] == 0 for one in seen),
        "by_route": {route: sum(one["route"] == route for one in seen) for route in ROUTES},
        "milliseconds_from_the_kill_to_the_last_error": quantiles(one["error_ms"] for one in seen),
        "milliseconds_from_the_kill_to_the_last_sum": quantiles(
            [one["sum_ms"] for one in seen if one["sum_ms"] is not None] or [0])}
    print(json.dumps(record, indent=1))
    if given.record:
        pathlib.Path(given.record).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
