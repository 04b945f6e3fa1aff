"""One connection over long, lossy and several paths, which are emulated."""
import os
import subprocess

import page
from chart import bars
from part import Part, Section

CASES = {
    "Two paths: 1 Gbit/s and 250 Mbit/s": ("two-paths:rates=1gbit/250mbit", "1.25gbit"),
    "1 Gbit/s, 20 ms round trip, 0.1 % loss": ("two-clusters:hosts=2,rate=1gbit,rtt=20ms,loss=0.1%", "1gbit"),
    "1 Gbit/s, 100 ms round trip": ("two-clusters:hosts=2,rate=1gbit,rtt=100ms", "1gbit"),
}
WAYS = {"plain TCP": "plain", "plain TCP x8": "plain", "transport 1 MiB": "ours", "plugin 1 MiB": "ours"}


def why_not():
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "this user may not open /dev/net/tun"
    # The emulation makes namespaces in the same way: root needs no user namespace.
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    try:
        done = subprocess.run(["unshare", *flags, "true"], capture_output=True, timeout=30, check=False)
    except OSError:
        return "unshare(1) is not here, to find out whether namespaces are permitted"
    return None if done.returncode == 0 else "network namespaces are not permitted"


def measure(programs, quick):
    def found(emulation, link):
        return programs.json(programs.bin / "tombolo", "perf", "path", "--emulate", emulation, "--emulation-mode", "namespaces",
                             "--", "--link", link, "--sizes", "1M", "--ways", "plain,plain-many,transport,plugin",
                             "--stock-sysctls", "--rounds", "1", "--seconds", "1" if quick else "4",
                             "--warm-up", "0.5" if quick else "4")
    return {title: found(*case) for title, case in list(CASES.items())[:1 if quick else None]}


def show(results):
    figures = []
    for title, found in results["path_perf"].items():
        rows = [(way, css, 100 * found["ways"][way]["bits_per_second"] / found["link_bits_per_second"])
                for way, css in WAYS.items() if way in found["ways"]]
        figures.append(page.figure(bars(f"{title}: share of the wire's rate", rows, "{:.0f} %".format, 100), title,
                                   "Share of the wire's rate, of which 95.6 % can be TCP's payload."))
    return page.side_by_side(figures)


SECTION = Section("Long, lossy and several paths",
                  "Emulated by network namespaces on this machine. One connection, messages of 1 MiB, 8 outstanding, a stock "
                  "kernel's settings: by the transport's own interface, and as one comm of the NCCL plugin; beside one plain TCP "
                  "stream, and eight.", show)
PARTS = [Part("path_perf", SECTION, "one connection over three emulated ways", 110, 7, measure, ("tombolo", "path_perf"), why_not)]
