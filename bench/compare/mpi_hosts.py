#!/usr/bin/env python3
"""Starts an MPI on emulated hosts, where no ssh is: `tombolo run` starts this once on every host, rank 0's runs the MPI's launcher, and the
launcher starts its daemons on the others through this as its remote shell.

    mpi_hosts.py host SLOTS LAUNCHER...  on every host; the word HOSTS in the launcher's command becomes the hosts' addresses, each with
                                         ":SLOTS", the number of its ranks
    mpi_hosts.py agent HOST COMMAND...   what the launcher calls instead of ssh

They pass commands by files in the folder COMPARE_STORE. Every host has a name of its own (a UTS namespace): an MPI takes ranks of hosts of one
name for neighbours that share memory.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

LIMIT = 300  # seconds; longer than a run may take, so that compare.py ends a run that hangs


def wait_for(*paths):
    """The first of the paths that exists."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        for path in paths:
            if path.exists():
                return path
        time.sleep(0.01)
    raise SystemExit(f"mpi_hosts: after {LIMIT} s there is none of {', '.join(map(str, paths))}; the launcher or another host has failed")


def write(path, text):
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text, encoding="utf-8")
    draft.rename(path)


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 9))  # sends nothing
        return probe.getsockname()[0]


def host(store, slots, launcher):
    rank, ranks, address = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), own_address()
    socket.sethostname(f"host{rank}")
    write(store / f"host-{rank}", address)
    if rank == 0:
        hosts = [f"{wait_for(store / f'host-{other}').read_text(encoding='utf-8')}:{slots}" for other in range(ranks)]
        try:
            return subprocess.run([word.replace("HOSTS", ",".join(hosts)) for word in launcher], check=False).returncode
        finally:
            write(store / "end", "")
    found = wait_for(store / f"command-{address}", store / "end")
    if found.name == "end":
        return 0
    daemon = subprocess.Popen(["sh", "-c", found.read_text(encoding="utf-8")])
    try:
        while daemon.poll() is None and not (store / "end").exists():
            time.sleep(0.01)
        daemon.wait(10)
    except subprocess.TimeoutExpired:  # the launcher is gone, and its daemon does not notice
        daemon.kill()
    finally:
        daemon.terminate()
        write(store / f"ended-{address}", "")
    return 0


def agent(store, there, command):
    """Returns when the command has ended there, as ssh does."""
    if there == own_address():
        os.execvp("sh", ["sh", "-c", command])
    write(store / f"command-{there}", command)
    wait_for(store / f"ended-{there}")
    return 0


def main():
    store = pathlib.Path(os.environ["COMPARE_STORE"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if sys.argv[1] == "host":
        return host(store, sys.argv[2], sys.argv[3:])
    return agent(store, sys.argv[2], " ".join(sys.argv[3:]))


if __name__ == "__main__":
    sys.exit(main())
