#!/usr/bin/env python3
"""Runs of tombolo train that are killed, interrupted or run out of disk, and go on.

Usage: resume_test.py TOMBOLO [--kills N] [--record FILE] [unittest arguments]

--kills N: SIGKILLs for one process, and for 2 stages x 2 replicas (default 6). They come at random moments, a third of
them while a shard is being written; TOMBOLO_TEST_SEED repeats their choice.
--record FILE: writes how the kills went, with machine and commit, as JSON (kills_record.py); also where a test failed.
"""
import glob
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import kills_record  # noqa: E402
from left_behind import environment, marked  # noqa: E402
from randomized import test_seed  # noqa: E402

TOMBOLO = os.path.abspath(sys.argv[1])
KILLS = 6
MOST_KILLS_OF_ONE_RUN = 8
SECONDS = 60  # for all that ends by itself


def wait_until(condition, what, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.0005)


class Resuming(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        self.mark = f"{self.id()}-{os.getpid()}"
        self.errors = open(self.path("errors"), "w+", encoding="utf-8")
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.writelines(f"In the beginning was line {line * 7919 % 1000}.\n" for line in range(800))

    def tearDown(self):
        for pid, _ in marked(self.mark):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not marked(self.mark), "the end of all processes")
        self.errors.close()
        self.scratch.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def said(self):
        """What has been written to standard error since the last call."""
        return self.errors.read()

    def start(self, *options, ranks=1, before=None):
        command = [TOMBOLO, "train", "--data", self.path("text"), "--layers", "4", "--width", "32", "--heads", "2",
                   "--context", "32", "--batch", "8", "--lr", "0.003", "--clip", "0.5", *map(str, options)]
        if ranks > 1:
            command = [TOMBOLO, "run", "-n", str(ranks), "--"] + command
        # Appended, so that reading does not move the place at which the process writes.
        with open(self.path("errors"), "a", encoding="utf-8") as errors:
            return subprocess.Popen(command, env=environment(self.folder, self.mark), cwd=self.folder, stderr=errors,
                                    stdout=subprocess.DEVNULL, preexec_fn=before)

    def finish(self, process, code=0):
        self.assertEqual(process.wait(timeout=SECONDS), code, self.read("errors").decode()[-3000:])

    def train(self, *options, ranks=1, code=0):
        self.finish(self.start(*options, ranks=ranks), code)

    def lines(self, name):
        """Complete lines of a log, without what differs from run to run."""
        try:
            text = self.read(name).decode()
        except FileNotFoundError:
            return []
        rows = [json.loads(line) for line in text.split("\n")[:-1]]
        return [tuple(row[field] for field in ("step", "loss", "grad_norm", "learning_rate")) for row in rows]

    def count(self, name):
        try:
            return self.read(name).count(b"\n")
        except FileNotFoundError:
            return 0

    def checkpoints(self, folder="run"):
        """The steps of those that have all their shards, in order."""
        steps = []
        for path in glob.glob(self.path(folder) + "/step-*"):
            try:
                shards = [name for name in os.listdir(path) if name.endswith(".tombolo")]
            except FileNotFoundError:  # a run has removed it since
                continue
            if shards and len(shards) == int(shards[0].split("-of-")[1].split(".")[0]):
                steps.append(int(os.path.basename(path).split("-")[1]))
        return sorted(steps)

    def partial(self):
        return glob.glob(self.path("run") + "/*/*.partial")


class Kills(Resuming):
    layouts = []  # their records, of all tests

    def kill(self, process, ranks):
        """One rank, or everything at once as where a machine stops. Returns "one rank" or "everything", and "nothing" where the run
        was over before the signal came."""
        running = [pid for pid, line in marked(self.mark) if " train " in line and pid != process.pid]
        if ranks > 1 and running and self.random.random() < 0.5:
            os.kill(self.random.choice(running), signal.SIGKILL)
            one_rank = True
        else:
            one_rank = False
            for pid in [process.pid] + running:
                os.kill(pid, signal.SIGKILL)
        code = process.wait(timeout=SECONDS)
        wait_until(lambda: not marked(self.mark), "the end of the other ranks")
        return "nothing" if code == 0 else "one rank" if one_rank else "everything"

    def wait_for_the_moment(self, process, kind):
        ended = lambda: process.poll() is not None  # noqa: E731
        if kind == "start":
            deadline = time.monotonic() + self.random.uniform(0, 0.5)
            wait_until(lambda: ended() or time.monotonic() > deadline, "a moment after the start")
            return
        # The log is cut when the run goes on, so that these are lines of this start or of the one before.
        target = self.count("log") + self.random.randrange(30)
        wait_until(lambda: ended() or self.count("log") >= target, f"{target} lines")
        if kind == "checkpoint":
            wait_until(lambda: ended() or self.partial(), "a shard being written")
        else:
            deadline = time.monotonic() + self.random.uniform(0, 0.02)
            wait_until(lambda: ended() or time.monotonic() > deadline, "a moment in a step")

    def one_run(self, steps, ranks, layout, record):
        """Kills one run until it ends, but not too often, and counts that in the record."""
        self.assertEqual(subprocess.run(["rm", "-rf", "run", "log", "model"], cwd=self.folder, check=True).returncode, 0)
        options = [*layout, "--steps", steps, "--checkpoint", "run", "--every", "3", "--resume", "auto", "--log", "log",
                   "--save", "model"]
        record["runs"] += 1
        most = min(KILLS, record["kills"] + MOST_KILLS_OF_ONE_RUN)
        while record["kills"] < most:
            before = set(self.partial())  # of starts that were killed earlier
            process = self.start(*options, ranks=ranks)
            moment = self.random.choice(kills_record.MOMENTS)
            self.wait_for_the_moment(process, moment)
            killed = "nothing" if process.poll() is not None else self.kill(process, ranks)
            if killed == "nothing":
                break
            record["kills"] += 1
            record["aimed_at"][moment] += 1
            record["of_one_rank"] += killed == "one rank"
            record["while_writing"] += bool(set(self.partial()) - before)
        else:
            process = self.start(*options, ranks=ranks)
        self.finish(process)
        self.assertEqual(self.lines("log"), self.lines("expected.log"))
        self.assertEqual(self.read("model"), self.read("expected.model"))
        self.assertEqual(len(self.checkpoints()), 2)
        self.assertEqual(len(set(os.listdir(self.path("run"))) - {"lock"}), 2, "something is left of starts that were killed")
        self.assertEqual(self.partial(), [])

    def kill_runs(self, steps, ranks=1, layout=()):
        seed = test_seed()
        self.random = random.Random(seed)
        record = kills_record.of_layout(ranks, layout, steps, seed)
        self.layouts.append(record)
        begin = time.monotonic()
        try:
            self.train(*layout, "--steps", steps, "--log", "expected.log", "--save", "expected.model", ranks=ranks)
            self.assertEqual(len(self.lines("expected.log")), steps)
            while record["kills"] < KILLS:
                self.one_run(steps, ranks, layout, record)
        except BaseException as error:
            record["outcome"] = f"failed in run {record['runs']}: {type(error).__name__}: {error}"[:2000]
            raise
        finally:
            record["seconds"] = round(time.monotonic() - begin, 1)
        record["outcome"] = kills_record.EQUAL
        print(f"{ranks} ranks: {record['kills']} kills in {record['runs']} runs, {record['while_writing']} of them left a shard half "
              "written; every log and model is the uninterrupted run's to the bit", file=sys.stderr)

    def test_one_process(self):
        self.kill_runs(240)

    def test_two_stages_of_two_replicas(self):
        self.kill_runs(100, ranks=4, layout=("--pipeline", "2", "--replicas", "2", "--micro-batch", "2"))


class Disk(Resuming):
    ENDLESS = ("--steps", 1000000, "--checkpoint", "run", "--every", "5", "--log", "log")

    def end(self, process):
        process.send_signal(signal.SIGUSR1)
        self.finish(process, 130)

    def test_a_full_disk_is_a_warning_and_the_next_checkpoint_is_tried(self):
        # The limit stands for the disk: each shard is beyond it, the log is not.
        limit = 400_000
        process = self.start(*self.ENDLESS, before=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
        wait_until(lambda: self.count("log") >= 15, "15 steps")
        self.assertIsNone(process.poll())
        self.assertEqual(self.checkpoints(), [])
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(self.checkpoints, "a checkpoint once there is room")
        self.end(process)
        said = self.said()
        self.assertIn("warning: checkpoint of step 5: writing run/step-00000005-", said)
        self.assertIn("File too large", said)
        self.assertEqual(self.partial(), [])
        self.assertEqual(self.checkpoints()[-1], self.count("log"), "the last step's state is saved")

    def test_a_folder_that_cannot_be_written_is_a_warning(self):
        process = self.start(*self.ENDLESS)
        wait_until(lambda: self.checkpoints(), "a checkpoint")
        os.rename(self.path("run"), self.path("away"))
        with open(self.path("run"), "w", encoding="utf-8"):
            pass  # not even root makes a folder in a file
        steps = self.count("log")
        wait_until(lambda: self.count("log") >= steps + 15, "15 more steps")
        os.remove(self.path("run"))
        os.rename(self.path("away"), self.path("run"))
        before = self.checkpoints()
        wait_until(lambda: self.checkpoints() != before, "a newer checkpoint")
        self.end(process)
        self.assertIn("Not a directory", self.said())

    def test_a_last_checkpoint_that_fails_is_told_by_the_exit_code(self):
        process = self.start("--steps", 8, "--checkpoint", "run", "--every", "5", "--save", "model",
                             before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000)))
        self.finish(process, 1)
        said = self.said()
        self.assertIn("warning: checkpoint of step 8: writing run/step-00000008-", said)
        self.assertIn("the last state is in no checkpoint", said)
        self.assertGreater(os.path.getsize(self.path("model")), 200_000, "the model itself fits")

    def test_files_beside_the_model_end_nothing(self):
        self.train("--steps", 4, "--checkpoint", "run", "--save", "model", "--log", "/dev/full", "--traffic", "/dev/full",
                   "--measured", "/dev/full", "--timeline", "trace")
        said = self.said()
        self.assertIn("warning: log /dev/full: writing step 0: No space left on device", said)
        self.assertEqual(said.count("without this file: /dev/full"), 3, said)
        self.assertEqual(self.checkpoints(), [4])
        self.assertTrue(os.path.getsize(self.path("model")) > 0 and os.path.getsize(self.path("trace")) > 0)


class Commands(Resuming):
    def test_a_signal_saves_and_the_run_goes_on_in_another_layout(self):
        options = ("--checkpoint", "run", "--every", "1000", "--log", "log")
        process = self.start(*options, "--steps", 1000000)
        wait_until(lambda: self.count("log") >= 5, "5 steps")
        for number in (signal.SIGUSR1, signal.SIGUSR1):  # schedulers repeat it
            process.send_signal(number)
        self.finish(process, 130)
        made = self.count("log")
        self.assertEqual(self.checkpoints(), [made])
        self.train(*options, "--steps", made + 3, "--resume", "auto", "--pipeline", "2", ranks=2)
        self.assertEqual([line[0] for line in self.lines("log")], list(range(made + 3)))
        self.assertIn(f"going on from step {made}: run/step-", self.said())

    def test_repeated_signals_and_a_terminal_that_closes_leave_the_time_for_a_checkpoint(self):
        process = self.start("--checkpoint", "run", "--every", "1000", "--log", "log", "--steps", 1000000)
        wait_until(lambda: self.count("log") >= 5, "5 steps")
        # All are there when it goes on, so that it hears them at one time.
        for number in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        self.finish(process, 130)
        self.assertEqual(self.checkpoints(), [self.count("log")])

    def test_a_signal_that_was_ignored_at_the_start_ends_nothing(self):
        def ignore():
            for number in (signal.SIGHUP, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)
        process = self.start("--checkpoint", "run", "--every", "1000", "--log", "log", "--steps", 1000000, before=ignore)
        wait_until(lambda: self.count("log") >= 5, "5 steps")
        for number in (signal.SIGHUP, signal.SIGUSR1):
            process.send_signal(number)
        made = self.count("log")
        wait_until(lambda: self.count("log") >= made + 15, "15 more steps")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 130)

    def test_a_launcher_passes_the_signal_on_and_waits(self):
        process = self.start("--checkpoint", "run", "--every", "1000", "--log", "log", "--save", "model", "--steps", 1000000,
                             "--pipeline", "2", ranks=2)
        wait_until(lambda: self.count("log") >= 5, "5 steps")
        process.send_signal(signal.SIGUSR1)
        self.finish(process, 130)
        self.assertEqual(self.checkpoints(), [self.count("log")])
        self.assertTrue(os.path.getsize(self.path("model")) > 1024)

    def test_steps_are_those_of_the_whole_run(self):
        options = ("--checkpoint", "run", "--every", "4", "--log", "log")
        self.train(*options, "--steps", 8)
        self.train(*options, "--steps", 12, "--resume", "auto")
        self.assertEqual(len(self.lines("log")), 12)
        self.train(*options, "--steps", 12, "--resume", "auto")
        self.assertEqual(len(self.lines("log")), 12, "there was nothing to do")
        self.train("--steps", 14, "--resume", glob.glob(self.path("run") + "/step-00000008-*")[0], "--log", "log")
        self.assertEqual(len(self.lines("log")), 14)

    def test_what_cannot_be_done_is_refused(self):
        self.train("--checkpoint", "run", "--steps", 2)
        for options, words in (
                (("--checkpoint", "run"), ("holds checkpoints", "step 2 (step-00000002-", "--resume auto")),
                (("--resume", "auto"), ("no --checkpoint",)),
                (("--resume", "run"), ("step-STEP-ATTEMPT",)),
                (("--every", "3"), ("--every requires --checkpoint",)),
                (("--checkpoint", "run", "--every", "0"), ("--every 0",)),
                (("--checkpoint", "run", "--resume", "auto", "--vocabulary", "200"), ("vocabulary 256", "vocabulary 200"))):
            for ranks in (1, 2):
                self.said()
                self.train(*options, "--steps", 2, "--replicas", ranks, ranks=ranks, code=2)
                said = self.said()
                for word in words:
                    self.assertIn(word, said)

    def test_a_second_run_in_the_folder_ends_at_once_and_a_killed_one_leaves_it_free(self):
        options = ("--checkpoint", "run", "--every", "3", "--resume", "auto")
        process = self.start(*options, "--steps", 1000000)
        wait_until(self.checkpoints, "a checkpoint")
        for ranks in (1, 2):
            self.said()
            self.train(*options, "--steps", 1000000, "--replicas", ranks, ranks=ranks, code=2)
            said = self.said()
            for word in ("--checkpoint run: another run is using", f"process {process.pid} on ", " since 20"):
                self.assertIn(word, said)
        self.assertIsNone(process.poll(), "the first run goes on")
        process.kill()
        self.train(*options, "--steps", 0)  # at once: nobody has waited for the killed one's end
        process.wait(timeout=SECONDS)

    def test_a_damaged_shard_is_named_and_the_checkpoint_before_taken(self):
        options = ("--checkpoint", "run", "--every", "4", "--log", "log", "--replicas", "2")
        self.train(*options, "--steps", 8, ranks=2)
        shard, = glob.glob(self.path("run") + "/step-00000008-*/shard-1-of-2.tombolo")
        with open(shard, "r+b") as file:
            file.truncate(os.path.getsize(shard) - 1)
        self.train(*options, "--steps", 9, "--resume", "auto", ranks=2)
        said = self.said()
        self.assertIn("going on from step 4", said)
        self.assertRegex(said, r"warning: the checkpoint of step 8 .*shard-1-of-2.tombolo: .*cut short")


if __name__ == "__main__":
    arguments, record_path = sys.argv[2:], None
    while arguments[:1] in (["--kills"], ["--record"]):
        if arguments[0] == "--kills":
            KILLS = int(arguments[1])
        else:
            record_path = os.path.abspath(arguments[1])
        arguments = arguments[2:]
    conditions = kills_record.conditions(pathlib.Path(TOMBOLO).parents[1])
    program = unittest.main(argv=sys.argv[:1] + arguments, verbosity=2, exit=False)
    if record_path:
        kills_record.write(record_path, Kills.layouts, conditions)
    sys.exit(0 if program.result.wasSuccessful() else 1)
