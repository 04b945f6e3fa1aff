#!/usr/bin/env python3
"""Compares net_plugin/abi with the debugging information of NCCL's libraries, which have it also where no sources of the
release have been published: every structure that both declare has the same members at the same places, functions with as
many arguments. Of a profiler's descriptions only what the plugin reads is compared.

Usage: layout_test.py [--compiler c++] [--releases all|2.31.2,2.32.3]

It takes the same libraries as loader_test.py. Exit code 77 where there is none with debugging information, or no gdb.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import loader_test

ABI = pathlib.Path(__file__).resolve().parents[2] / "net_plugin" / "abi"
NAMESPACE = "tombolo::net_plugin::abi::"
# Of these, only some members are declared: (structure, member there, member here).
READ = {
    "EventDescr": [("type",) * 2, ("parentObj",) * 2, ("rank",) * 2, ("coll.func",) * 2, ("p2p.func",) * 2,
                   *((one, f"detail.{one}") for one in ("proxyOp.channelId", "proxyOp.peer", "proxyOp.isSend", "netPlugin.id",
                                                        "netPlugin.data"))],
    "EventStateArgs": [("netPlugin.data",) * 2],
}
# Names of collectives came with v2 of the profiler, networks' events with v3, and their updates with v4.
SINCE = {"coll.func": 2, "p2p.func": 2, "netPlugin.id": 3, "netPlugin.data": 3}


def declared():
    """The names of the versioned structures that net_plugin/abi has, aliases too."""
    names = set()
    for header in ABI.glob("*_v*.h"):
        names |= set(re.findall(r"(?:struct|union|using) (nccl\w+_v\d+_t)\b", header.read_text(encoding="utf-8")))
    return sorted(names)


def ask(file, questions):
    """gdb's answers to its commands, in order; an answer that is an error is its text."""
    command = ["gdb", "-nx", "-batch", "-ex", "set width 0", "-ex", "set print max-depth 0"]
    for question in questions:
        command += ["-ex", r"echo \n====\n", "-ex", question]
    ran = subprocess.run([*command, str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=300, check=False)
    return [part.strip() for part in ran.stdout.split("\n====\n")[1:]]


def arguments_of(text):
    """The number of arguments in a function's list, in which templates and functions may have commas of their own."""
    depth, count = 0, 0 if text.strip() in ("", "void") else 1
    for letter in text:
        depth += (letter in "(<") - (letter in ")>")
        count += letter == "," and depth == 0
    return count


def members(text):
    """[(offset, size, name, number of arguments or None)] of gdb's answer to `ptype /o`; None where it is no structure's."""
    if not re.search(r"type = (struct|union)", text):
        return None
    found, around = [], []  # around: the structures inside that one which the line is in, as (offset, size)
    for line in text.splitlines():
        ends = re.match(r"\s*\} (\w+);$", line)
        if ends:
            place = around.pop()
            found += [] if around else [(*place, ends[1], None)]
            continue
        place = re.match(r"/\*\s*(?:(\d+)\s*\|)?\s*(\d+)\s*\*/\s+(.*?)(;|\{)$", line)
        if not place:
            continue
        at, size, what = int(place[1] or 0), int(place[2]), place[3]
        if place[4] == "{":
            around.append((at, size))
        elif not around:
            function = re.search(r"\(\*(\w+)\)\((.*)\)$", what)
            name = function[1] if function else re.search(r"(\w+)(?:\s*\[\d*\])*$", what)[1]
            found.append((at, size, name, arguments_of(function[2]) if function else None))
    return found


class Ours:
    """The layouts of net_plugin/abi, as the compiler has them."""

    def __init__(self, compiler, folder):
        self.file = folder / "abi.o"
        source = folder / "abi.cpp"
        headers = "".join(f'#include "net_plugin/abi/{header.name}"\n' for header in sorted(ABI.glob("*_v*.h")))
        # A compiler may leave out what only pointers point to.
        uses = "".join(f"{NAMESPACE}{name} one_{name}, *of_{name};\n" for name in declared())
        source.write_text(headers + uses, encoding="utf-8")
        subprocess.run([compiler, "-std=c++20", "-g", "-c", f"-I{ABI.parents[1]}", source, "-o", self.file], check=True)

    def members(self, names):
        return dict(zip(names, (self.own(answer) for answer in ask(self.file, [f"ptype /o *of_{name}" for name in names]))))

    def own(self, answer):
        """With those of the structure that it derives from."""
        base = re.search(r"type = struct \S+ : public (\S+) \{", answer)
        if not base:
            return members(answer)
        return self.own(ask(self.file, [f"ptype /o *of_{base[1].rsplit('::', 1)[-1]}"])[0])


def place_of(answer):
    """The number in gdb's answer to `print &((type*)0)->member`; None where there is no such member."""
    found = re.search(r"= .*?(0x[0-9a-f]+)", answer)
    return int(found[1], 16) if found else None


def compare(library, ours):
    """What differs, and how many structures were compared."""
    names = declared()
    read = {name: pairs for name in names for part, pairs in READ.items() if part in name}
    whole = [name for name in names if name not in read]
    theirs = dict(zip(whole, (members(answer) for answer in ask(library, [f"ptype /o {name}" for name in whole]))))
    here = ours.members(whole)
    differences, compared = [], 0
    for name in whole:
        if theirs[name] is None:
            continue
        compared += 1
        if theirs[name] != here[name]:
            differences.append(f"{name}: there {sorted(set(theirs[name]) - set(here[name] or []))}, here "
                               f"{sorted(set(here[name] or []) - set(theirs[name]))}")
    for name, pairs in read.items():
        version = int(re.search(r"_v(\d+)_t", name)[1])
        pairs = [pair for pair in pairs if version >= SINCE.get(pair[0], 1) and ("StateArgs" not in name or version >= 4)]
        there = [place_of(one) for one in ask(library, [f"print &(({name}*)0)->{member}" for member, _ in pairs])]
        mine = [place_of(one) for one in ask(ours.file, [f"print &of_{name}->{member}" for _, member in pairs])]  # of a null pointer
        if not pairs or all(place is None for place in there):
            continue
        compared += 1
        differences += [f"{name}: {pair[0]} is at {a} there, and at {b} here" for pair, a, b in zip(pairs, there, mine) if a != b]
    return differences, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--releases", default=os.environ.get("TOMBOLO_NCCL_RELEASES", ""))
    arguments = parser.parse_args()
    if shutil.which("gdb") is None:
        print("skipped: there is no gdb; scripts/dependencies.sh test installs it")
        return 77
    failed = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(arguments.compiler, pathlib.Path(folder))
        for library in loader_test.installed() + loader_test.libraries_of(arguments.releases):
            differences, compared = compare(library, ours)
            if compared == 0:
                print(f"{library}: skipped: it has no debugging information")
                continue
            print(f"{library}: {compared} structures, {len(differences)} differ")
            for one in differences:
                print(f"  {one}")
            failed += bool(differences)
            passed += not differences
    return 1 if failed else 0 if passed else 77


if __name__ == "__main__":
    sys.exit(main())
