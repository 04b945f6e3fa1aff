#!/usr/bin/env python3
"""Kills random ranks of jobs that make random calls on several communicators: every other rank must get an error that names
the one that was killed, those that are left go on with a sum of their own, also where the store has died, and once a new rank
has taken its place all make random calls again, until the next one is killed. At the end nothing of it may be left.

Usage: random_kills_test.py MIXED_RANKS [--kills N] [--seed SEED] [--record FILE]    TOMBOLO_TEST_SEED repeats a run
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
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "report"))
sys.path.insert(0, str(ROOT / "tests"))
import machine  # noqa: E402
from ports import unused_port  # noqa: E402
from randomized import test_seed  # noqa: E402

PATIENCE = 60  # seconds, for each thing that is waited for
DEADLINE = 20  # seconds, of every call: an error of Tombolo's comes long before this script gives up
ROUTES = {"shared memory": {}, "TCP": {"TOMBOLO_TRANSPORTS": "tcp"}}
MOST_KILLS = 6  # of one job
FAILURE = r"failed at (\d+) with (.*)"
# Entries of the process's folders at its end, "." and ".." with them. Without a sanitizer there are 6 and 3, however often its
# communicators ended: the standard streams and the folder itself, and one thread.
MOST_DESCRIPTORS, MOST_THREADS = 8, 4


class Rank:
    """A process of a job, and what it says line by line."""

    def __init__(self, arguments, variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**clean, **variables})
        self.number = None  # among the ranks of its generation
        self.said, self.read = b"", 0

    def await_line(self, pattern):
        """The match of the next line that is like this; the lines before it are passed over."""
        late = time.monotonic() + PATIENCE
        while True:
            for line in self.new_lines():
                found = re.match(pattern, line)
                if found:
                    return found
                assert not line.startswith(("wrong", "no ", "set-up")), f"{self} said {line!r}"
            left = late - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], \
                f"{self} hangs: it said no {pattern!r} for {PATIENCE} s, but {self.said.decode()!r}"
            some = os.read(self.process.stdout.fileno(), 65536)
            assert some, f"{self} ended with {self.process.wait(PATIENCE)}, without {pattern!r}: {self.said.decode()!r}"
            self.said += some

    def new_lines(self):
        while (end := self.said.find(b"\n", self.read)) >= 0:
            line = self.said[self.read:end].decode()
            self.read = end + 1
            yield line

    def end(self):
        self.process.kill()
        self.process.communicate()

    def __str__(self):
        return f"rank {self.number} (process {self.process.pid})"


class Job:
    """One job of random calls; its ranks end with it."""

    def __init__(self, program, size, seed, variables):
        self.folder = tempfile.TemporaryDirectory()
        self.command = [program, str(seed), self.folder.name]
        self.variables = {"TOMBOLO_SECRET": "random kills", "TOMBOLO_DEADLINE": str(DEADLINE), **variables}
        meeting = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
        self.ranks = [Rank(self.command, {**self.variables, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                      for rank in range(size)]
        self.generation, self.keeper = 0, self.ranks[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.end()
        self.folder.cleanup()

    def wait_until_ready(self):
        for rank in self.ranks:
            rank.number = int(rank.await_line(rf"ready {self.generation} as rank (\d+) of {len(self.ranks)}$").group(1))

    def kill(self, victim, second=None):
        """Kills one, and `second` where there is one as soon as the first of the others has an error; sees the others to the sum
        of all with new ranks. Returns how long it took, in milliseconds."""
        size = len(self.ranks)
        self.ranks.remove(victim)
        killed = time.monotonic_ns()
        victim.process.send_signal(signal.SIGKILL)

        def since(line):
            return (int(line.group(1)) - killed) / 1e6

        failures = []
        if second:
            self.ranks.remove(second)
            failures.append(self.ranks[0].await_line(FAILURE))
            second.process.send_signal(signal.SIGKILL)
        failures += [rank.await_line(FAILURE) for rank in self.ranks[len(failures):]]
        dead = [one.number for one in (victim, second) if one]
        for rank, failed in zip(self.ranks, failures):
            assert any(re.search(rf"\brank {one}\b", failed.group(2)) for one in dead), \
                f"{rank}: no error that names rank {dead}: {failed.group(2)!r}"
        sums = []
        for rank in self.ranks:
            left = rank.await_line(rf"went on at (\d+) as rank (\d+) of {len(self.ranks)}$")
            sums.append(since(left))
            rank.number = int(left.group(2))
        for one in (victim, second):
            if one:
                one.end()
        return {"killed": len(dead), "of_the_store": self.keeper in (victim, second), "error_ms": max(map(since, failures)),
                "sum_ms": max(sums), "grown_ms": self.grow(size, since)}

    def grow(self, size, since):
        left = len(self.ranks)
        self.keeper = next(rank for rank in self.ranks if rank.number == self.generation % left)
        self.keeper.await_line(rf"invites to {left} of {size}$")
        self.generation += 1
        self.ranks += [Rank([*self.command, str(self.generation), str(number), str(size)], self.variables)
                       for number in range(left, size)]
        return max(since(rank.await_line(r"grown at (\d+)$")) for rank in self.ranks)

    def stop(self):
        for rank in self.ranks:
            rank.process.stdin.write(b"stop\n")
            rank.process.stdin.flush()
        for rank in self.ranks:
            ended = rank.await_line(r"ended with (\d+) descriptors, (\d+) threads, (\d+) mappings of shared memory$")
            descriptors, threads, mappings = map(int, ended.groups())
            assert descriptors <= MOST_DESCRIPTORS and threads <= MOST_THREADS and mappings == 0, f"{rank} {ended.group(0)}"
            assert rank.process.wait(PATIENCE) == 0, f"{rank} ended with {rank.process.returncode}"


def kill_some(program, most, draw):
    """One job with some kills, at most so many. Returns what it was and how long each step took."""
    size, route, progress = draw.randint(2, 5), draw.choice(sorted(ROUTES)), draw.choice(["caller", "thread"])
    seed, kills = draw.randrange(1 << 32), min(most, draw.randint(1, MOST_KILLS))
    seen = []
    what = f"{size} ranks over {route}, progress by the {progress}, seed {seed}"
    try:
        with Job(program, size, seed, dict(ROUTES[route], TOMBOLO_PROGRESS=progress)) as job:
            job.wait_until_ready()
            while sum(one["killed"] for one in seen) < kills:
                # Of each second one it is the rank that keeps the store; of each fourth, another one while the others go on.
                victim, moment = job.keeper if draw.random() < 0.5 else draw.choice(job.ranks), draw.uniform(0, 0.06)
                second = draw.choice([rank for rank in job.ranks if rank != victim])
                second = second if size > 2 and draw.random() < 0.25 else None
                what += f"; rank {victim.number} killed {1000 * moment:.1f} ms after all were ready"
                what += f", and rank {second.number} behind it" if second else ""
                time.sleep(moment)  # the kill's place among the calls, not a wait for anything
                seen.append({"route": route, **job.kill(victim, second)})
                job.wait_until_ready()
            job.stop()
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None
    return seen


def quantiles(values):
    ordered = sorted(values)
    return {"median": round(statistics.median(ordered), 1), "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
            "most": round(ordered[-1], 1)}


def steps(seen):
    """How long it took to each step's end on the last rank."""
    return {name: quantiles(one[key] for one in seen) for name, key in (
        ("to the error", "error_ms"), ("to the sum of those left", "sum_ms"), ("to the sum with new ranks", "grown_ms"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, help="of all that is drawn; without it TOMBOLO_TEST_SEED, or a fresh one")
    parser.add_argument("--record", help="write what was seen to this file")
    given = parser.parse_args()
    seed = test_seed() if given.seed is None else given.seed
    conditions = {"date": machine.today(), "hardware": machine.machine(), **machine.source()}
    draw, seen, jobs = random.Random(seed), [], 0
    while sum(one["killed"] for one in seen) < given.kills:
        seen += kill_some(os.path.abspath(given.program), given.kills - sum(one["killed"] for one in seen), draw)
        jobs += 1
    alone = [one for one in seen if one["killed"] == 1]
    again = [one for one in seen if one["killed"] > 1]
    record = {
        "what": "jobs of 2 to 5 ranks on one host that make random calls on three communicators each, of which random ranks were "
                "killed at random moments, some of them while the others went on without one: all other ranks got an error that names "
                "it, then the right sum of those that were left, then with a new rank in its place that of all, and made random "
                "calls again",
        **conditions, "seed": seed, "jobs": jobs, "kills": sum(one["killed"] for one in seen),
        "while_others_went_on": len(again), "of_the_store": sum(one["of_the_store"] for one in seen),
        "by_route": {route: sum(one["killed"] for one in seen if one["route"] == route) for route in ROUTES},
        "milliseconds_from_the_kill": {name: steps(some) for name, some in (
            ("of one rank", alone), ("of the first of two", again)) if some}}
    print(json.dumps(record, indent=1))
    if given.record:
        pathlib.Path(given.record).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
