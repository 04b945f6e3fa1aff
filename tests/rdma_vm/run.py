#!/usr/bin/env python3
"""Boots a virtual machine with soft-RoCE devices and runs tests/rdma_vm/guest.py in it; reports what it found.

usage: run.py boot BUILD [GROUP...]   prepares, boots, runs; exit code 77 where no such machine can be had
       run.py report BUILD GROUP      prints the group's cases; 1 if one failed, 77 if there was no machine

The machine is emulated, sees this machine's files read-only, and is ended at the latest after RDMA_VM_SECONDS (1500).
What it leaves is in BUILD/rdma_vm/results; its console in BUILD/rdma_vm/serial.log.
"""
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77
SECONDS = float(os.environ.get("RDMA_VM_SECONDS", "1500"))


def die_with_parent():
    """Ends the machine with this program, however that ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def boot(build, groups):
    folder = build / "rdma_vm"
    results = folder / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    prepared = subprocess.run(["bash", HERE / "prepare.sh", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
    if prepared.returncode != 0:
        (results / "skipped").write_text(prepared.stdout)
        print(prepared.stdout)
        return SKIP if prepared.returncode == SKIP else 1
    seed = os.environ.get("TOMBOLO_TEST_SEED")
    words = ["python3", HERE / "guest.py", build, "/run/results", *groups]
    (results / "run.sh").write_text(f"""
export TOMBOLO_TEST_NETWORK={shlex.quote(str(HERE / "network.sh"))}
. "$TOMBOLO_TEST_NETWORK"
network
# Soft-RoCE works in soft interrupts, which must have precedence over programs that poll.
for thread in $(pgrep ksoftirqd); do chrt -f -p 10 "$thread"; done
ulimit -l unlimited
{f"export TOMBOLO_TEST_SEED={shlex.quote(seed)}" if seed else ""}
{shlex.join(str(word) for word in words)}
echo "$?" > /run/results/finished
""")
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
               "-m", "3G", "-display", "none", "-no-reboot", "-monitor", "none", "-nic", "none",
               "-serial", f"file:{folder / 'serial.log'}",
               "-kernel", folder / "kernel", "-initrd", folder / "initramfs",
               "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
               "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
               "-virtfs", f"local,path={results},mount_tag=results,security_model=none"]
    begin = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                          preexec_fn=die_with_parent) as machine:
        def stop(*_):
            machine.kill()
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, stop)
        try:
            machine.wait(SECONDS)
        except subprocess.TimeoutExpired:
            machine.kill()
            print(f"the machine was ended after {SECONDS:.0f} s")
    print(f"the machine ran for {time.monotonic() - begin:.0f} s")
    finished = results / "finished"
    if finished.exists() and finished.read_text().strip() == "0":
        return 0
    for log in (folder / "serial.log", results / "guest.log", results / "running"):
        print(f"---- {log}")
        if log.exists():
            print(log.read_text(errors="replace")[-8000:])
    print("the guest's program did not come to its end; what it had finished:")
    for group, cases in found(results).items():
        print(f"{group}: {len(cases)} cases in {sum(one['seconds'] for one in cases):.0f} s, "
              f"{sum(not one['ok'] for one in cases)} failed")
    return 1


def found(results):
    """{"group": [case...]} as guest.py left it."""
    try:
        return json.loads((results / "cases.json").read_text())
    except FileNotFoundError:
        return {}


def report(build, group):
    results = build / "rdma_vm" / "results"
    if (results / "skipped").exists():
        print((results / "skipped").read_text())
        return SKIP
    cases = found(results).get(group, [])
    for one in cases:
        print(f"{'ok    ' if one['ok'] else 'FAILED'} {one['seconds']:6.1f} s  {one['name']}")
        if one["ok"] and one["text"]:
            print(one["text"].strip())
    for one in cases:
        if not one["ok"]:
            print(f"\n---- {one['name']}\n{one['text']}")
    failed = sum(not one["ok"] for one in cases)
    print(f"\n{group}: {len(cases)} cases, {failed} failed")
    return 1 if failed or not cases else 0


def main():
    build = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "boot":
        return boot(build, sys.argv[3:])
    return report(build, sys.argv[3])


sys.exit(main())
