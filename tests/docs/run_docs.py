#!/usr/bin/env python3
"""Runs the commands that the documentation shows.

Every fenced block whose info string begins with `sh` is run as one script (bash -eu) in a copy of nothing: the
repository's root, with build/bin first in PATH. A block that cannot run everywhere says what it needs in its info string:

    ```sh needs=gpu        skipped without an NVIDIA GPU
    ```sh needs=tun        skipped where this user may not open /dev/net/tun
    ```sh needs=network    skipped always: it fetches something (git clone, apt-get)
    ```sh needs=example    skipped always: it shows another program's command line (a Megatron job on a cluster)
    ```sh seconds=300      may take that long (default 120)

Fails on a command that fails, and on a block of an unknown need, so that nothing is skipped by accident.
Usage: run_docs.py --list | run_docs.py --build build [file.md ...]
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDS = {"gpu", "tun", "network", "example"}


def blocks(path):
    """Yields (line, options, script) for each sh block of a Markdown file."""
    options, lines, start = None, [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"^\s*```\s*(.*)$", line)
        if fence and options is None:
            words = fence.group(1).split()
            options = words if words else ["text"]
            lines, start = [], number
        elif fence:
            if options[0] in ("sh", "bash"):
                yield start, dict(word.split("=", 1) for word in options[1:]), "\n".join(lines)
            options = None
        elif options is not None:
            lines.append(line)


def end(process):
    """Ends a script and all that it has started, and returns its output."""
    os.killpg(process.pid, signal.SIGTERM)  # time to tidy up
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def run(script, environment, seconds):
    """Exit code, or a text where the script did not end, and the output."""
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=environment, text=True,
                               errors="replace",  # what a model of bytes writes need not be UTF-8
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output = process.communicate(timeout=seconds)[0]
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return f"no end after {seconds} s", end(process)
    except KeyboardInterrupt:  # the script, in a session of its own, does not see it
        end(process)
        raise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    files = [pathlib.Path(f).resolve() for f in arguments.files] or [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    build = (ROOT / arguments.build).resolve()
    environment = dict(os.environ, PATH=f"{build}/bin:{os.environ['PATH']}")
    ran = skipped = failed = 0
    for file in files:
        for line, options, script in blocks(file):
            where = f"{file.relative_to(ROOT)}:{line}"
            unknown = set(options) - {"needs", "seconds"} or ({options["needs"]} - NEEDS if "needs" in options else set())
            if unknown:
                print(f"FAILED  {where}: unknown option {', '.join(sorted(unknown))}")
                failed += 1
                continue
            need = options.get("needs")
            if need in ("network", "example") or (need == "gpu" and not shutil.which("nvidia-smi")) or \
                    (need == "tun" and not os.access("/dev/net/tun", os.R_OK | os.W_OK)):
                print(f"skipped {where}: needs {need}")
                skipped += 1
                continue
            if arguments.list:
                print(f"would run {where}\n{script}\n")
                continue
            begin = time.monotonic()
            status, output = run(script, environment, float(options.get("seconds", 120)))
            took = time.monotonic() - begin
            if status == 0:
                print(f"ok      {where} ({took:.1f} s)", flush=True)
                ran += 1
            else:
                print(f"FAILED  {where}: exit {status}\n--- script\n{script}\n--- output\n{output}", flush=True)
                failed += 1
    print(f"{ran} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or (ran == 0 and not arguments.list) else 0


if __name__ == "__main__":
    sys.exit(main())
