"""Runs the programs of a part within its time, and reads what they write as JSON."""
import ctypes
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time


_prctl = ctypes.CDLL(None).prctl


def end_with_parent():
    """Makes the program end with this process, even where this one is killed."""
    pr_set_pdeathsig = 1
    _prctl(pr_set_pdeathsig, signal.SIGTERM)


class Failed(Exception):
    """A part has no result; the text says why."""


class Programs:
    """The programs of one part. All that it starts has ended when the part is over. `seconds`: the limit for all together; None: none."""

    def __init__(self, build, seconds=None):
        self.bin = build / "bin"
        self._seconds, self._end = seconds, None if seconds is None else time.monotonic() + seconds

    def run(self, command, **options):
        """Runs a command and returns its output as text; on standard error only where `stdout` is among the options, which are Popen's. Raises Failed."""
        command = [str(word) for word in command]
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            options.setdefault("stdout", said)
            try:
                code = self._within_limit(command, stdin=subprocess.DEVNULL, stderr=said, **options)
            except OSError as error:
                raise Failed(f"{command[0]}: {error.strerror}") from error
            said.seek(0)
            text = said.read()
        if code != 0:
            raise Failed(f"{shlex.join(command)} ended with {code}:\n{text[-1500:].strip()}")
        return text

    def json(self, *command, option="--json"):
        """Runs a program that writes JSON to the file named by `option`, which is passed last; returns the JSON."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "found.json"
            self.run([*command, option, file])
            return json.loads(file.read_text(encoding="utf-8"))

    def printed_json(self, *command, **options):
        """Runs a program that prints JSON on its standard output; returns the JSON."""
        with tempfile.TemporaryFile("w+") as printed:
            self.run(command, stdout=printed, **options)
            printed.seek(0)
            return json.load(printed)

    def _within_limit(self, command, **options):
        # A process group of its own, so that its children end with it. It gets time to remove what it made (namespaces).
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=end_with_parent, **options)
        try:
            return process.wait(None if self._end is None else max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f"{shlex.join(command)} was ended: the part may take {self._seconds:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
