#!/usr/bin/python3
"""Tests `tombolo stuck` on jobs that hang: who is blamed, and that the job goes on hanging, or on, afterwards.

Usage: stuck_test.py TOMBOLO STUCK_RANKS [unittest arguments]
"""
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOMBOLO, STUCK_RANKS = sys.argv[1:3]
PATIENCE = 90  # seconds; for a loaded machine
RANKS = 4


class Job:
    """Ranks that hang, and report it after a second. They would give up long after the test."""

    def __init__(self, how, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [TOMBOLO, "run", "-n", str(RANKS), "--", STUCK_RANKS, how], stdout=self.log, stderr=subprocess.STDOUT,
            env=dict(clean, TOMBOLO_STUCK_AFTER="1", TOMBOLO_DEADLINE="600", **variables))

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def wait_for(self, pattern, count):
        deadline = time.monotonic() + PATIENCE
        while len(re.findall(pattern, self.output())) < count:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"no {count} times {pattern!r} in:\n{self.output()}")
            time.sleep(0.05)

    def processes(self):
        """The ranks' processes, by rank."""
        found = {}
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        for each in children:
            with open(f"/proc/{each}/environ", "rb") as file:
                variables = dict(one.split(b"=", 1) for one in file.read().split(b"\0") if b"=" in one)
            found[int(variables[b"RANK"])] = int(each)
        return found

    def stuck(self, *options, job=None):
        return subprocess.run([TOMBOLO, "stuck", str(job or self.process.pid), *options], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)

    def page_with(self, pattern):
        """The page, once it holds the pattern; the reports come one by one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            done = self.stuck()
            if re.search(pattern, done.stdout):
                return done.stdout
            if time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} in:\n{done.stdout}{done.stderr}")
            time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes().values():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:  # the launcher ends the others once one has ended
                pass
        self.process.wait(timeout=PATIENCE)
        self.log.close()


class Stuck(unittest.TestCase):
    def test_a_rank_that_never_calls(self):
        for limit in ("0", "4M"):  # by messages, and through the host's memory
            with self.subTest(limit=limit), Job("absent", TOMBOLO_HOST_LIMIT=limit) as job:
                job.wait_for("is stuck: all_reduce #2", RANKS - 1)
                page = job.page_with(r"ranks 0-2 +waiting in all_reduce #2 \(1024 float sum\) of comm/0")
                last = job.processes()[RANKS - 1]
                self.assertRegex(page, rf"absent: rank 3 on host \S+ \(process {last}, sleeping\) waits in no call")
                self.assertEqual(page.count("  look at: "), 1, page)
                self.assertIsNone(job.process.poll())

    def test_ranks_that_make_different_calls(self):
        with Job("mismatch", TOMBOLO_HOST_LIMIT="0") as job:
            page = job.page_with("4 wait in vain")
            self.assertIn("mismatch: the ranks of comm/0 made different calls as their #2: ranks 0-2 called broadcast #2 "
                          "(1024 float, root 3), rank 3 called broadcast #2 (1024 float, root 0)", page)
            self.assertRegex(page, r"where the program of rank 3 takes another branch")
            self.assertRegex(page, r"rank 3 waits for rank \d to receive message 1 of 1 \(4 KiB\), \S+ \S+ -> \S+ \(")

    def test_a_process_that_is_stopped(self):
        for stopped in (2, 0):  # the last one keeps the store
            with self.subTest(stopped=stopped), Job("endless", TOMBOLO_HOST_LIMIT="0") as job:
                job.wait_for("ready", RANKS)
                process = job.processes()[stopped]
                os.kill(process, signal.SIGSTOP)
                if stopped != 0:
                    job.wait_for("is stuck: all_reduce", RANKS - 1)
                page = job.page_with("stopped: ")
                self.assertRegex(page, rf"stopped: rank {stopped}\D.*\(process {process}, stopped\) does nothing")
                self.assertIn(f"kill -CONT {process}", page)
                self.assertEqual("Not reached" in page, stopped == 0, page)
                # It was not disturbed: it goes on where it was, and nobody is stuck then.
                os.kill(process, signal.SIGCONT)
                job.page_with("none says that it is stuck")
                self.assertIsNone(job.process.poll())

    def test_records_in_the_shape_of_pytorchs(self):
        with Job("mismatch", TOMBOLO_HOST_LIMIT="0") as job, tempfile.TemporaryDirectory() as folder:
            job.page_with("4 wait in vain")
            done = job.stuck("--json", folder, job=job.processes()[2])
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            for rank in range(RANKS):
                with open(f"{folder}/rank_{rank}.json", encoding="utf-8") as file:
                    record = json.load(file)
                with open(f"{folder}/stuck_{rank}", "rb") as file:
                    self.assertEqual(pickle.load(file), record)
                self.assertEqual(record["pg_config"]["comm/0"]["ranks"], "[0,1,2,3]")
                barrier, broadcast = record["entries"]
                self.assertEqual((barrier["state"], barrier["retired"]), ("completed", True))
                self.assertEqual((broadcast["state"], broadcast["profiling_name"], broadcast["collective_seq_id"],
                                  broadcast["input_sizes"], broadcast["input_dtypes"]),
                                 ("started", "nccl:broadcast", 2, [[1024]], ["Float"]))
                self.assertLess(abs(broadcast["time_created_ns"] / 1e9 - time.time()), 2 * PATIENCE)

    def test_what_is_no_job(self):
        def refused(job, text):
            done = subprocess.run([TOMBOLO, "stuck", job, "--patience", "1"], capture_output=True, text=True, timeout=PATIENCE,
                                  check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(text, done.stderr)

        refused(str(os.getpid()), f"process {os.getpid()} and what it has started belong to no job of several ranks")
        refused("4194305", "there is no process 4194305")  # the highest is 4194304
        refused("somewhere", "JOB 'somewhere': expected the number of a process, or HOST:PORT")
        done = subprocess.run([TOMBOLO, "stuck", "127.0.0.1:1", "--patience", "1"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Not reached\n  the store at 127.0.0.1:1", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
