#!/usr/bin/env python3
"""Checks that includes point only downward through the rooms and their folders (docs/architecture.md).

Usage: check_layering.py [ROOT]      exit code 1 and one line per offence where the rules are broken
       check_layering.py --self-test

Rules:
  * A file includes only its own room and rooms below it, and none that its room knows nothing of, but for single folders
    of such a room that are pure: they in turn use nothing of their room but each other, and few rooms below it.
  * Within a room whose folders are in an order, a file in a folder includes only that folder, those below it, and what
    lies at the room's top: interfaces and what all folders share. Where the order names the top, as ".", the files there
    use the folders, and no folder below it includes them. Tests are free.
  * The project's own files are included by their path from the root, and exist.
  * Public headers (include/tombolo/) include nothing of the rooms.
  * Headers do not include the slow ones (JSON, Asio, CLI11): their cost would be paid in every file.
"""
import pathlib
import re
import sys
import tempfile

# The rooms, from the ground up.
ROOMS = ["base", "compute", "topology", "transport", "collectives", "probe", "net_plugin", "planner", "trainer", "tools",
         "bench", "tests"]
# Rooms below that a room must not include, in addition to all rooms above it.
UNKNOWN = {
    "net_plugin": {"collectives", "probe"},
    "planner": {"transport", "collectives", "probe", "net_plugin"},
    "trainer": {"net_plugin"},
    "bench": {"tools"},
}
# Folders of pure functions, what they may use beside each other, and the rooms that may use them though they know nothing
# of the rest of their room.
PURE = {"collectives/data", "collectives/schedule"}
BELOW_PURE = {"base", "compute", "topology"}
KNOW_PURE = {"planner"}
# The folders of a room, or of a folder in it, from the ground up; "." stands for the files at its top. A subfolder that is
# not listed belongs to the folder that contains it.
FOLDERS = {
    "topology": ["system", "files", "judge", "export", "testing"],
    "transport": ["observe", "gpu", "sockets", "bootstrap", "channel", "memory", "shm", "rdma", "ucx", "tcp", "routing", "measure", "testing"],
    "collectives": ["rendezvous", "abort", "liveness", "data", "gpu", "schedule", "host", "discovery", "stuck", "engine", "c_api", "testing"],
    "net_plugin": ["abi", "gpu", "devices", "tuner", "comms", "profiler", "rma", "testing"],
    "trainer": ["model", "data", "checkpoint", "cpu", "cuda", "pipeline", "report", "run", "testing"],
    "planner": ["model", "plan", "cost", "simulate", "search", "explain", "strategies", "launch", "testing"],
    "probe": ["bootstrap", "measure", "rounds", "analyse", "testing"],
    "tools": ["process", "cli", "emulation", "launch", "reports", "stuck", "doctor", "demo", "commands"],
    "transport/tcp": ["path", "stream", "lifecycle", "."],
    "tests/simulation": ["pretended", "plans", "world", "checks", "runs"],
}
SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".c", ".cu", ".cuh", ".inc"}
HEADERS = {".h", ".hpp", ".cuh"}
SLOW = ("nlohmann/json.hpp", "asio/", "CLI/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def files_of(root):
    """(room or "public", path) of each source file."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield room, path
    for path in sorted((root / "include").rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            yield "public", path


def folder_of(parts, parent):
    """Number of the folder that a path below `parent` lies in; None where it lies in none that has an order there."""
    depth = len(parent.split("/"))
    order = FOLDERS[parent]
    if len(parts) <= depth or "/".join(parts[:depth]) != parent:
        return None
    folder = parts[depth] if len(parts) > depth + 1 else "."
    return order.index(folder) if folder in order else None


def points_upward_inside(target, path, root):
    """Why a file must not include another of its own room, or None."""
    if path.stem.endswith("_test"):
        return None
    for parent, order in FOLDERS.items():
        mine, its = folder_of(path.relative_to(root).parts, parent), folder_of(target.split("/"), parent)
        if mine is not None and its is not None and its > mine:
            above = f"the top of {parent}/" if order[its] == "." else f"{parent}/{order[its]}/"
            return f"points upward: {above} lies above {parent}/{order[mine]}/"
    return None


def pure_folder(parts):
    """The pure folder that a path lies in, or None."""
    folder = "/".join(parts[:2])
    return folder if folder in PURE and len(parts) > 2 else None


def why_not(room, target, quoted, path, root):
    """Why a file of `room` must not include `target`, or None where it may."""
    if path.suffix in HEADERS and target.startswith(SLOW):
        return "is slow to compile and belongs in a .cpp file (use json_fwd.hpp, or hide it behind a struct)"
    other = target.split("/", 1)[0]
    if other not in ROOMS or "/" not in target:
        if not quoted or (root / "include" / target).exists():
            return None
        return "is not found from the root (write the path from there)"
    if not (root / target).exists():
        return "does not exist"
    if room == "public":
        return "is private, and this header is public"
    if ROOMS.index(other) > ROOMS.index(room):
        return f"points upward: {other}/ lies above {room}/"
    mine, its = pure_folder(path.relative_to(root).parts), pure_folder(target.split("/"))
    if mine and not its and other not in BELOW_PURE and not path.stem.endswith("_test"):
        return f"{mine}/ is pure: it uses {', '.join(sorted(PURE | BELOW_PURE))} alone"
    if other in UNKNOWN.get(room, ()) and not (its and room in KNOW_PURE):
        return f"{room}/ knows nothing of {other}/"
    return points_upward_inside(target, path, root) if other == room else None


def offences(root):
    for room, path in files_of(root):
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in INCLUDE.finditer(text):
            reason = why_not(room, match[2], match[1] == '"', path, root)
            if reason:
                line = text.count("\n", 0, match.start(1)) + 1
                yield f"{path.relative_to(root)}:{line}: {match[2]} {reason}"


def unknown_folders(root):
    """Folders of an ordered room or folder that its order does not name."""
    for parent, order in FOLDERS.items():
        for path in sorted((root / parent).glob("*/")):
            if path.name not in order and any(child.suffix in SUFFIXES for child in path.iterdir()):
                yield f"{parent}/{path.name}/ is in no order: name it in FOLDERS and in docs/architecture.md"


def check(root):
    count = sum(1 for _ in files_of(root))
    if count == 0:
        print(f"check_layering: no source file below {root}; is this the project's root?", file=sys.stderr)
        return 2
    found = list(offences(root)) + list(unknown_folders(root))
    for line in found:
        print(line)
    if found:
        print(f"check_layering: {len(found)} includes or folders break the rules of docs/architecture.md", file=sys.stderr)
        return 1
    print(f"check_layering: the includes of {count} files point downward")
    return 0


def self_test():
    """Each case is one include in one file, with a part of the complaint or None where it is right."""
    cases = [
        ("transport/a.cpp", '#include "base/b.h"', None),
        ("transport/tcp/a.cpp", '#include "transport/b.h"', None),
        ("base/a.cpp", "#include <vector>", None),
        ("base/a.cpp", "#include <nlohmann/json.hpp>", None),
        ("collectives/a.cpp", '#include "tombolo/b.h"', None),
        ("tests/netns/a.cpp", '#include "tools/b.h"', None),
        ("base/a.cpp", '#include "transport/b.h"', "points upward"),
        ("base/a.cpp", "  #  include <transport/b.h>", "points upward"),
        ("probe/a.h", '// words\n\n#include "planner/b.h"', "probe/a.h:3: planner/b.h points upward"),
        ("planner/a.cpp", '#include "transport/b.h"', "knows nothing of"),
        ("net_plugin/a.cpp", '#include "collectives/b.h"', "knows nothing of"),
        ("planner/cost/a.cpp", '#include "collectives/b.h"', "planner/ knows nothing of collectives/"),
        ("planner/cost/a.cpp", '#include "collectives/engine/b.h"', "planner/ knows nothing of collectives/"),
        ("planner/cost/a.cpp", '#include "collectives/schedule/b.h"', None),
        ("net_plugin/a.cpp", '#include "collectives/schedule/b.h"', "knows nothing of"),
        ("collectives/schedule/a.cpp", '#include "collectives/data/b.h"', None),
        ("collectives/schedule/a.cpp", '#include "topology/b.h"', None),
        ("collectives/data/a.cpp", '#include "collectives/schedule/b.h"', "collectives/schedule/ lies above collectives/data/"),
        ("collectives/schedule/a.cpp", '#include "transport/b.h"', "collectives/schedule/ is pure"),
        ("collectives/schedule/a.cpp", '#include "collectives/b.h"', "collectives/schedule/ is pure"),
        ("collectives/schedule/a.cpp", '#include "collectives/rendezvous/b.h"', "collectives/schedule/ is pure"),
        ("collectives/schedule/a_test.cpp", '#include "collectives/testing/b.h"', None),
        ("trainer/a.cu", '#include "net_plugin/b.h"', "knows nothing of"),
        ("bench/a.cpp", '#include "tools/b.h"', "knows nothing of"),
        ("include/tombolo/a.h", '#include "base/b.h"', "is private"),
        ("base/a.cpp", '#include "b.h"', "not found from the root"),
        ("base/a.cpp", '#include "base/none.h"', "does not exist"),
        ("planner/search/a.cpp", '#include "planner/cost/b.h"', None),
        ("planner/cost/a.cpp", '#include "planner/search/b.h"', "planner/search/ lies above planner/cost/"),
        ("planner/cost/deep/a.cpp", '#include "planner/search/b.h"', "points upward"),
        ("planner/cost/a_test.cpp", '#include "planner/search/b.h"', None),
        ("planner/cost/a.cpp", '#include "planner/b.h"', None),
        ("planner/a.cpp", '#include "planner/search/b.h"', None),
        ("tests/simulation/plans/a.cpp", '#include "tests/simulation/pretended/b.h"', None),
        ("tests/simulation/pretended/a.cpp", '#include "tests/simulation/plans/b.h"',
         "tests/simulation/plans/ lies above tests/simulation/pretended/"),
        ("transport/tcp/a.cpp", '#include "transport/tcp/stream/b.h"', None),
        ("transport/tcp/stream/a.cpp", '#include "transport/tcp/path/b.h"', None),
        ("transport/tcp/stream/a_test.cpp", '#include "transport/tcp/b.h"', None),
        ("transport/tcp/path/a.h", '#include "transport/tcp/stream/b.h"', "transport/tcp/stream/ lies above transport/tcp/path/"),
        ("transport/tcp/stream/a.cpp", '#include "transport/tcp/b.h"', "the top of transport/tcp/ lies above transport/tcp/stream/"),
        ("transport/tcp/stream/a.cpp", '#include "transport/routing/b.h"', "transport/routing/ lies above transport/tcp/"),
        ("base/a.h", "#include <nlohmann/json.hpp>", "slow to compile"),
        ("tools/a.h", "#include <asio/ip/tcp.hpp>", "slow to compile"),
    ]
    failures = 0
    for name, text, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for room in ROOMS + ["include/tombolo", "collectives/data", "collectives/engine", "collectives/rendezvous",
                                 "collectives/schedule", "collectives/testing", "planner/cost", "planner/search", "tests/simulation/plans",
                                 "tests/simulation/pretended", "transport/routing", "transport/tcp", "transport/tcp/path",
                                 "transport/tcp/stream"]:
                (root / room).mkdir(parents=True, exist_ok=True)
                (root / room / "b.h").write_text("#pragma once\n")
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
            found = list(offences(root))
            right = not found if expected is None else len(found) == 1 and expected in found[0]
            if not right:
                failures += 1
                print(f"{name}: {text!r}: expected {expected!r}, found {found}")
    with tempfile.TemporaryDirectory() as folder:
        if check(pathlib.Path(folder)) != 2:
            failures += 1
            print("an empty folder passed")
    print(f"check_layering --self-test: {len(cases) + 1 - failures} of {len(cases) + 1} cases right")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    return check(root.resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
