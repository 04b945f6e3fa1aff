#!/usr/bin/env python3
"""Runs the benchmarks of the transports and writes what they found, beside what is wanted, as a page of Markdown. Takes about
20 minutes on a machine that does nothing else; long and several paths need namespaces and /dev/net/tun.

    transport_results.py [--build build] [--only SECTION...] [--repeats 25] [--brief] [--out FILE]

Sections: plugin, shared (both ends on one processor), shm, tls, paths. --brief measures shortly, to see that it runs. Every ratio is a median of ratios, or a ratio of
medians, of measurements in turns in one run.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "report"))
import machine  # noqa: E402

SECTIONS = ["plugin", "shared", "shm", "tls", "paths"]


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


class Page:
    def __init__(self):
        self.lines = []

    def section(self, title):
        self.lines += ["", f"## {title}", ""]

    def table(self, head, rows):
        self.lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        self.lines += ["| " + " | ".join(row) + " |" for row in rows] + [""]

    def wanted(self, rows):
        """Rows of (figure, wanted, seen, whether it is met)."""
        self.table(["figure", "wanted", "seen", ""],
                   [[figure, wanted, seen, "met" if met else "**missed**"] for figure, wanted, seen, met in rows])


class Programs:
    def __init__(self, arguments):
        self.bin = (ROOT / arguments.build / "bin").resolve()
        self.brief, self.repeats = arguments.brief, 1 if arguments.brief else arguments.repeats

    def measure(self, program, *options, inside=(), on_one_processor=False):
        """Runs a program and returns its JSON. `inside`: the command that runs it, up to its own options."""
        one = {min(os.sched_getaffinity(0))}
        pin = (lambda: os.sched_setaffinity(0, one)) if on_one_processor else None
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            command = [str(self.bin / program), *inside, *options, "--json", str(file)]
            if not os.access(command[0], os.X_OK):
                raise SystemExit(f"transport_results: {command[0]} is not there: build it (scripts/build.sh release), or name "
                                 "another build with --build")
            print("+ " + " ".join(command), file=sys.stderr, flush=True)
            done = subprocess.run(command, stdout=sys.stderr, timeout=3600, check=False, preexec_fn=pin)
            if done.returncode != 0:
                raise SystemExit(f"transport_results: {' '.join(command)} ended with {done.returncode}")
            return json.loads(file.read_text(encoding="utf-8"))


def plugin(programs, page):
    options = ["--repeats", str(programs.repeats)]
    if programs.brief:
        options += ["--bytes", "4e6", "--sizes", "8K,1M", "--trips", "8,8K"]
    found = programs.measure("plugin_perf", *options)
    page.section("Through NCCL's plugin interface, over loopback")
    page.lines += ["Host memory, 8 messages outstanding on each comm. *NCCL* is its built-in Socket transport; *plain* writes and reads "
                   "64 KiB per call on one socket; *plain, each* goes message by message, on a socket for each way, as NCCL's "
                   "connections have to. Ratios are medians over rounds of ours over the other.", ""]
    keys = [key for key in ("nccl-socket", "plain-each", "plain") if key in found["candidates"]]
    names = {"nccl-socket": "NCCL", "plain-each": "plain, each", "plain": "plain"}

    rows = []
    for row in found["latency"]:
        rows.append([size_text(row["bytes"]), f"{row['half_round_trip_seconds']['tombolo'] * 1e6:.1f} us",
                     *[f"{row['tombolo_over'][key]:.2f}" for key in keys]])
    page.table(["half round trip", "ours", *[f"over {names[key]}" for key in keys]], rows)
    for row in found["throughput"]:
        row["text"] = f"{row['comms']} comm{'' if row['comms'] == 1 else 's'}, {size_text(row['bytes'])}"
    page.table(["rate", "ours, GB/s", *[f"over {names[key]}" for key in keys], "CPU-s per GB",
                *[f"over {names[key]}" for key in keys]],
               [[row["text"], f"{row['bytes_per_second']['tombolo'] / 1e9:.2f}",
                 *[f"{row['tombolo_over'][key]:.2f}" for key in keys],
                 f"{row['processor_seconds_per_gb']['tombolo']:.2f}",
                 *[f"{row['tombolo_processor_over'][key]:.2f}" for key in keys]] for row in found["throughput"]])

    figures = []
    if "plain-each" in keys:
        for row in found["latency"]:
            ratio = row["tombolo_over"]["plain-each"]
            figures.append((f"half round trip of {size_text(row['bytes'])} over plain TCP's, each", "<= 1.3", f"{ratio:.2f}",
                            ratio <= 1.3))
    for row in found["throughput"] if "nccl-socket" in keys else []:
        ratio, wanted = row["tombolo_over"]["nccl-socket"], 3.0 if row["bytes"] == 8192 else 1.0
        cost = row["tombolo_processor_over"]["nccl-socket"]
        figures.append((f"{row['text']}: rate over NCCL's Socket", f">= {wanted:.0f}", f"{ratio:.2f}", ratio >= wanted))
        figures.append((f"{row['text']}: CPU-s per GB over NCCL's Socket", "<= 0.9", f"{cost:.2f}", cost <= 0.9))
    for row in found["throughput"] if "plain-each" in keys else []:
        ratio = row["tombolo_over"]["plain-each"]
        figures.append((f"{row['text']}: rate over plain TCP's, each", ">= 1", f"{ratio:.2f}", ratio >= 1))
    page.wanted(figures)


def shared(programs, page):
    options = ["--sizes", "8K,64K,1M", "--trips", "8,64K", "--repeats", str(programs.repeats)]
    if programs.brief:
        options += ["--bytes", "4e6"]
    found = programs.measure("plugin_perf", *options, on_one_processor=True)
    page.section("Both ends on one processor")
    page.lines += ["As above, but both processes have one processor between them, as ranks have where there are more than cores. "
                   "All callers yield in every 256th pass in which nothing moved, and no earlier.", ""]
    keys = [key for key in ("tombolo", "nccl-socket", "plain-each", "plain") if key in found["candidates"]]
    names = {"tombolo": "ours", "nccl-socket": "NCCL", "plain-each": "plain, each", "plain": "plain"}
    page.table(["half round trip, us", *[names[key] for key in keys]],
               [[size_text(row["bytes"]), *[f"{row['half_round_trip_seconds'][key] * 1e6:.1f}" for key in keys]]
                for row in found["latency"]])
    page.table(["rate, GB/s", *[names[key] for key in keys]],
               [[f"{row['comms']} comm{'' if row['comms'] == 1 else 's'}, {size_text(row['bytes'])}",
                 *[f"{row['bytes_per_second'][key] / 1e9:.2f}" for key in keys]] for row in found["throughput"]])


def bytes_option(programs):
    return ["--repeats", str(programs.repeats)] + (["--bytes", "32e6"] if programs.brief else [])


def shm(programs, page):
    found = programs.measure("transport_perf", "--transport", "shm", *bytes_option(programs))
    page.section("Shared memory, two ranks of one host")
    memcpy = found["memcpy_bytes_per_second"]
    page.table(["size", "half round trip", "GB/s", "of one thread's memcpy of 64 MiB"],
               [[size_text(row["bytes"]), f"{row['half_round_trip_seconds']['tombolo'] * 1e6:.2f} us",
                 f"{row['bytes_per_second']['tombolo'] / 1e9:.2f}", f"{row['bytes_per_second']['tombolo'] / memcpy:.2f}"]
                for row in found["sizes"]])
    trip = found["sizes"][0]["half_round_trip_seconds"]["tombolo"] * 1e6
    line = found["cache_line_half_round_trip_seconds"] * 1e6
    page.lines += [f"One cache line takes {line:.3f} us for half a round trip between the same two processes, measured in turns with the "
              f"8 bytes: those take {trip / line:.1f} times as long. What a line takes depends on which of the host's cores a virtual "
              "machine's processors are put on, and changes from minute to minute (0.03 to 0.3 us were seen on this kind of machine).", ""]
    copy = found["sizes"][-1]["bytes_per_second"]["tombolo"] / memcpy
    page.wanted([("half round trip of 8 B", "<= 0.3 us", f"{trip:.2f} us", trip <= 0.3),
                 ("64 MiB, of one thread's memcpy", ">= 0.80", f"{copy:.2f}", copy >= 0.8)])


def tls(programs, page):
    found = programs.measure("transport_perf", "--tls", *bytes_option(programs))
    page.section("TLS 1.3, beside the same without")
    page.table(["size", "GB/s with", "without", "ratio", "sender's CPU-s per GB with", "without"],
               [[size_text(row["bytes"]), f"{row['bytes_per_second']['tcp+tls'] / 1e9:.2f}",
                 f"{row['bytes_per_second']['tcp'] / 1e9:.2f}",
                 f"{row['bytes_per_second']['tcp+tls'] / row['bytes_per_second']['tcp']:.2f}",
                 f"{row['sender_processor_seconds_per_gb']['tcp+tls']:.2f}",
                 f"{row['sender_processor_seconds_per_gb']['tcp']:.2f}"] for row in found["sizes"][1:]])


def paths(programs, page):
    page.section("Long, lossy and several paths")
    page.lines += ["Emulated; one connection, messages of 1 MiB, 8 outstanding, a stock kernel's settings. Shares are of the wire's rate, of "
                   "which 95.6 % can be TCP's payload.", ""]
    cases = [("1 Gbit/s and 250 Mbit/s together", "two-paths:rates=1gbit/250mbit", "1.25gbit", "95 %", 0.95),
             ("1 Gbit/s, 20 ms, 0.1 % loss", "two-clusters:hosts=2,rate=1gbit,rtt=20ms,loss=0.1%", "1gbit", "90 %", 0.90),
             ("1 Gbit/s, 100 ms", "two-clusters:hosts=2,rate=1gbit,rtt=100ms", "1gbit", "90 %", 0.90)]
    rows, figures = [], []
    for name, emulation, link, wanted, least in cases:
        found = programs.measure("tombolo", "--link", link, "--sizes", "1M", "--ways", "plain,plain-each,plain-many,transport,plugin",
                                 "--stock-sysctls", "--rounds", "1" if programs.brief else "3", "--seconds",
                                 "1" if programs.brief else "6", "--warm-up", "1" if programs.brief else "4",
                                 inside=["perf", "path", "--emulate", emulation, "--emulation-mode", "namespaces", "--"])
        of_link = {way: result["bits_per_second"] / found["link_bits_per_second"] for way, result in found["ways"].items()}
        rows.append([name, *[f"{100 * of_link[way]:.1f} %" for way in
                             ("plain TCP", "plain TCP x8", "transport 1 MiB", "plugin 1 MiB")]])
        seen = of_link["plugin 1 MiB"]
        figures.append((f"{name}: one comm, of the wire", f">= {wanted}", f"{100 * seen:.1f} %", seen >= least))
        alone = [share for way, share in of_link.items() if way.endswith("alone")]
        rows[-1].insert(2, f"{100 * sum(alone):.1f} %")
        if len(alone) > 1:
            seen /= sum(alone)
            figures.append((f"{name}: one comm, of what plain TCP attains on each alone, summed", f">= {wanted}",
                            f"{100 * seen:.1f} %", seen >= least))
    page.table(["path", "plain TCP", "plain TCP, each path alone, summed", "plain TCP, 8 streams", "transport",
                "one comm of the plugin"], rows)
    page.wanted(figures)


def conditions(page):
    here, source = machine.machine(), machine.source()
    commit = f"{source['commit'] or 'unknown'}{' and changes' if source['changed'] else ''}"
    page.lines += ["# The transports beside their peers", "",
                   "Written by `bench/transport_results.py`.", "",
                   f"{datetime.date.today()}, commit {commit}, {here['cores']} cores of {here['processor']}, Linux {here['kernel']}, "
                   f"load average before it {here['load_average']:.1f}. A shared machine: ratios mean something, times little."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    page, programs = Page(), Programs(arguments)
    conditions(page)
    for section in arguments.only:
        {"plugin": plugin, "shared": shared, "shm": shm, "tls": tls, "paths": paths}[section](programs, page)
    text = "\n".join(page.lines).replace("\n\n\n", "\n\n").rstrip() + "\n"
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
