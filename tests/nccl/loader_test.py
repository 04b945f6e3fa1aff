#!/usr/bin/env python3
"""Tests that NCCL's own loader takes the plugin, without a GPU: which table, by path and by name, for a second
communicator too, and that nothing stays behind.

Usage: loader_test.py --build build [--releases all|2.18.3,2.27.7] [--table]

By default it takes the NCCLs that are installed: TOMBOLO_NCCL_LIBRARY, this Python's nvidia-nccl, the loader's, those of
/usr/local/cuda*. --releases (or TOMBOLO_NCCL_RELEASES) adds released ones, which wheels.py downloads (8 GB for all).
--table prints the results as docs/results/nccl_loader.md has them. Exit code 77 where no NCCL could be had.
"""
import argparse
import glob
import json
import mmap
import os
import pathlib
import re
import site
import subprocess
import sys
import sysconfig
import tempfile

import wheels

KINDS = ("net", "tuner", "profiler", "rma")
# The variable by which a kind is found where it lies in a library of its own. The plugin's library has all kinds.
VARIABLE = {"net": "NCCL_NET_PLUGIN", "tuner": "NCCL_TUNER_PLUGIN", "profiler": "NCCL_PROFILER_PLUGIN",
            "rma": "NCCL_RMA_PLUGIN"}
# The newest table that a release looks for: (first release, version).
NEWEST = {
    "net": [((2, 18), 6), ((2, 19), 7), ((2, 20), 8), ((2, 24), 9), ((2, 26), 10), ((2, 28), 11), ((2, 30), 12)],
    "tuner": [((2, 21), 2), ((2, 22), 3), ((2, 24), 4), ((2, 28), 5), ((2, 30), 6)],
    "profiler": [((2, 23), 1), ((2, 24), 2), ((2, 26), 3), ((2, 27), 4), ((2, 28), 5), ((2, 29), 6), ((2, 31), 7)],
    "rma": [((2, 30, 3), 13), ((2, 30, 7), 14), ((2, 31), 15)],
}


# What the symbols of each kind's tables are called, which a release looks up by name; the versions follow. The plugin has no
# table of GIN: it is here for the table of what each release asks for.
SYMBOLS = {"net": "ncclNetPlugin", "tuner": "ncclTunerPlugin", "profiler": "ncclProfiler", "rma": "ncclRmaPlugin",
           "gin": "ncclGinPlugin"}


def looked_up(library):
    """The versions of each kind's table whose names the library holds."""
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return {kind: sorted({int(version) for version in re.findall(symbol.encode() + rb"_v(\d+)\0", text)})
                for kind, symbol in SYMBOLS.items()}


def takes_path(release):
    """Whether NCCL_NET_PLUGIN may be a path. Before 2.21 every value is the end of libnccl-net-VALUE.so, and 2.27.3 lost it."""
    return release >= (2, 21) and release != (2, 27, 3)


def can_unload(release):
    """Up to 2.21 a plugin stays loaded as long as the process."""
    return release >= (2, 22)


def forgets(release):
    """Whether unloading wipes the plugin's name, so that a later first communicator does not have it."""
    return (2, 27) <= release < (2, 30)


# From which release on a kind is taken from the net plugin's library where nothing names another.
UNASKED = {"tuner": (2, 21), "profiler": (2, 28), "rma": (2, 30)}


def newest(kind, release):
    versions = [version for first, version in NEWEST[kind] if release >= first]
    return versions[-1] if versions else None


def installed():
    """Paths of the NCCLs of this machine, without repetitions."""
    places = [os.environ.get("TOMBOLO_NCCL_LIBRARY") or ""]
    for folder in sorted({sysconfig.get_paths()["purelib"], *site.getsitepackages()}):
        places.append(f"{folder}/nvidia/nccl/lib/libnccl.so.2")
    places += sorted(glob.glob("/usr/local/cuda*/lib*/libnccl.so.2"))
    places += sorted(glob.glob("/usr/lib/*/libnccl.so.2"))
    return list(dict.fromkeys(os.path.realpath(place) for place in places if place and os.path.exists(place)))


def clean_environment(**more):
    """This one without NCCL's and our variables, and without a home where NCCL would find a file of them."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "TOMBOLO_", "LD_"))}
    return {**kept, "HOME": "/nonexistent", **more}


def libraries_of(releases):
    """Paths of the released libraries that are asked for; says which cannot be had."""
    paths = []
    for release in wheels.asked_for(releases):
        try:
            paths.append(str(wheels.fetch(release)))
        except wheels.Unavailable as why:
            print(f"skipped: {why}", file=sys.stderr)
    return paths


class Loader:
    """Runs the program nccl_loader with one NCCL."""

    def __init__(self, build, nccl):
        self.program = build / "bin" / "nccl_loader"
        self.plugin = build / "lib" / "libnccl-net-tombolo.so"
        self.nccl = nccl

    def run(self, kind, lives=1, by_name=False, keep=None):
        """The report of an ordinary environment: the plugin named by path or name, and kept loaded or not."""
        more = {VARIABLE[kind]: "tombolo" if by_name else str(self.plugin), "LD_LIBRARY_PATH": str(self.plugin.parent)}
        if keep is not None:
            more["NCCL_NET_PLUGIN_REF_COUNT"] = "1" if keep else "0"
        return self.run_in(clean_environment(**more), kind, lives)

    def run_in(self, environment, kind, lives=1, folder=None, loaded_before=False):
        """The report of any environment; `said` is what NCCL logged, `crashed` why there is no report."""
        with tempfile.NamedTemporaryFile() as log:
            command = [self.program, "--nccl", self.nccl, "--plugin", self.plugin, "--kinds", kind, "--lives", str(lives)]
            command += ["--loaded-before"] * loaded_before
            ran = subprocess.run(command, env=dict(environment, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=log.name), cwd=folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=120)
            said = pathlib.Path(log.name).read_text(errors="replace")
        if ran.returncode != 0:
            return {"crashed": f"exit {ran.returncode}: {ran.stderr.strip()}", "said": said}
        return {**json.loads(ran.stdout), "said": said}


class Verdict:
    """What one NCCL did with one kind of plugin."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        self.release = self.table = self.skipped = None
        self.asked = {}  # looked_up() of the library
        self.unasked = False  # whether the kind is taken from the net plugin's library where nothing names another
        self.failures = []
        self.cells = {}

    def expect(self, right, words, report):
        if not right:
            brief = {key: value for key, value in report.items() if key not in ("said", "exported")}
            lines = [line for line in report.get("said", "").splitlines() if re.search("plugin|tombolo|WARN", line, re.I)]
            self.failures.append("\n    ".join([f"{words}: {json.dumps(brief)}", *lines[:20]]))

    def has(self, report, life):
        """Whether a communicator got the plugin's newest table that this release knows."""
        lives = report.get("lives", [])
        return len(lives) > life and lives[life]["failed"] is None and lives[life]["tables"] == [self.table]


def left_behind(report):
    """What the last communicator left that was not there before the first."""
    last = report["lives"][-1]
    return [what for what in ("threads", "sockets") if last[what] != report[f"{what} before"]] + \
        (["the mapped library"] if last["still mapped"] else [])


def assigned(report):
    """Whether NCCL says that a communicator got the plugin's one-sided operations."""
    return re.search("RMA.*Assigned .*plugin Tombolo", report["said"]) is not None


def judge(loader, kind):
    name = pathlib.Path(loader.nccl).parent.name if loader.nccl.startswith(str(wheels.cache())) else loader.nccl
    verdict = Verdict(name, kind)
    by_name = loader.run(kind, by_name=kind == "net")
    if "crashed" in by_name:
        verdict.failures.append(by_name["crashed"])
        return verdict
    verdict.release = by_name["release"]
    release = tuple(int(part) for part in verdict.release.split("."))
    version = newest(kind, release)
    verdict.asked = looked_up(loader.nccl)
    ours = {int(symbol.rsplit("_v", 1)[1]) for symbol in by_name["exported"]}
    verdict.expect(max(ours & set(verdict.asked[kind]), default=None) == version,
                   f"the newest table that it looks for and the plugin has should be v{version}; it looks for {verdict.asked[kind]}",
                   by_name)
    if not by_name["exported"]:
        verdict.skipped = f"the plugin has no {kind} table"
    elif version is None:
        verdict.skipped = "this release looks for none that the plugin has"
    elif "skipped" in by_name:
        verdict.skipped = by_name["skipped"]
    elif kind != "net" and not takes_path(release):  # the library's name is that of a net plugin
        verdict.skipped = "this release takes no path"
    if verdict.skipped:
        return verdict
    verdict.table = next(symbol for symbol in by_name["exported"] if symbol.endswith(f"_v{version}"))
    verdict.expect(verdict.has(by_name, 0), f"loaded by name it should take {verdict.table}", by_name)
    if kind != "net":
        verdict.expect(by_name["lives"][0]["failed at the end"] is None, "the end fails", by_name)
        unasked = loader.run_in(clean_environment(NCCL_NET_PLUGIN=str(loader.plugin)), f"net,{kind}")
        if "crashed" in unasked:
            verdict.failures.append(unasked["crashed"])
            return verdict
        verdict.expect(verdict.has(unasked, 0) == (release >= UNASKED[kind]),
                       "what is taken from the net plugin's library is not as documented", unasked)
        verdict.unasked = verdict.has(unasked, 0)
        if kind == "rma":  # looked at, but it offers nothing unless it is asked to
            verdict.expect(not assigned(by_name) and not assigned(unasked), "it replaces NCCL's own one-sided operations", unasked)
            asked = loader.run_in(clean_environment(NCCL_NET_PLUGIN=str(loader.plugin), TOMBOLO_RMA="auto"), f"net,{kind}")
            verdict.expect(assigned(asked), "TOMBOLO_RMA=auto should make NCCL take it", asked)
        return verdict

    unloading = loader.run(kind, lives=2, by_name=True, keep=False)
    keeping = loader.run(kind, lives=2, by_name=True, keep=True)
    usual = loader.run(kind, lives=2, by_name=True)
    by_path = loader.run(kind)
    # As `tombolo train` does it: by name, from a folder in which the loader does not look.
    before = loader.run_in(clean_environment(NCCL_NET_PLUGIN="tombolo", NCCL_NET_PLUGIN_REF_COUNT="1"), kind, lives=2,
                           loaded_before=True)
    for report in (unloading, keeping, usual, by_path, before):
        if "crashed" in report:
            verdict.failures.append(report["crashed"])
            return verdict
    for life in unloading["lives"] + keeping["lives"]:
        verdict.expect(life["failed at the end"] is None, "the end of a communicator fails", unloading)
    if can_unload(release):
        verdict.expect(not left_behind(unloading), "the last communicator leaves something behind", unloading)
    verdict.expect(verdict.has(keeping, 1), "with NCCL_NET_PLUGIN_REF_COUNT=1 a second communicator should have it", keeping)
    verdict.expect(verdict.has(before, 0) and verdict.has(before, 1), "what the process has loaded is not found by name", before)
    verdict.expect(verdict.has(unloading, 1) != forgets(release), "what a second communicator has is not as documented",
                   unloading)
    verdict.expect(verdict.has(by_path, 0) == takes_path(release), "a path is not treated as documented", by_path)
    verdict.cells = {"path": "yes" if verdict.has(by_path, 0) else "no",
                     "second": "has it" if verdict.has(usual, 1) else "**has not**",
                     "left": ", ".join(left_behind(unloading)) or "nothing" if can_unload(release) else "stays loaded"}
    return verdict


def print_table(verdicts):
    # A column of nothing but "not offered" says nothing.
    others = [kind for kind in KINDS[1:] if any(each[kind].table for each in verdicts)]
    heads = ["NCCL", "table", "a path will do", "second communicator", "left after unloading", *others]
    print("|".join(["", *(f" {head} " for head in heads), ""]))
    print("|---" * len(heads) + "|")
    for each in verdicts:
        net = each["net"]
        cells = [net.release, "failed" if net.failures else net.table, *net.cells.values()]
        for kind in others:
            words = each[kind].table or each[kind].skipped
            cells.append("failed" if each[kind].failures else f"{words}, unasked" if each[kind].unasked else words)
        print("|".join(["", *(f" {cell} " for cell in cells), ""]))


def print_one_sided(verdicts):
    """What each release that has one-sided operations looks up, and what it takes of it."""
    def versions(found):
        return ", ".join(f"v{version}" for version in reversed(found)) or "none"
    print("\n| NCCL | `ncclRmaPlugin` looked up | taken from the plugin | `ncclGinPlugin` looked up, of which it has none |")
    print("|---" * 4 + "|")
    for each in verdicts:
        rma = each["rma"]
        if not rma.asked or not rma.asked["rma"] + rma.asked["gin"]:
            continue
        common = newest("rma", tuple(int(part) for part in rma.release.split(".")))
        print(f"| {rma.release} | {versions(rma.asked['rma'])} | {f'v{common}' if common else 'none'} | {versions(rma.asked['gin'])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--releases", default=os.environ.get("TOMBOLO_NCCL_RELEASES", ""))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    libraries = ([] if arguments.table and arguments.releases else installed()) + libraries_of(arguments.releases)
    if not libraries:
        print("skipped: no libnccl.so.2 is installed, and no released one could be had "
              "(TOMBOLO_NCCL_RELEASES=all downloads them)")
        return 77
    build = arguments.build.resolve()
    all_verdicts, failed, passed = [], 0, 0
    for library in libraries:
        per_kind = {kind: judge(Loader(build, library), kind) for kind in KINDS}
        all_verdicts.append(per_kind)
        for verdict in per_kind.values():
            outcome = "FAILED" if verdict.failures else f"skipped: {verdict.skipped}" if verdict.skipped else \
                f"ok, {verdict.table}"
            print(f"{verdict.name} {verdict.kind}: {outcome}", file=sys.stderr if arguments.table else sys.stdout, flush=True)
            for words in verdict.failures:
                print(f"  {words}", file=sys.stderr)
            failed += bool(verdict.failures)
            passed += not verdict.failures and not verdict.skipped
    if arguments.table:
        print_table(all_verdicts)
        print_one_sided(all_verdicts)
    return 1 if failed else 0 if passed else 77


if __name__ == "__main__":
    sys.exit(main())
