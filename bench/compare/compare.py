#!/usr/bin/env python3
"""Measures Tombolo's collectives beside those of the libraries that are installed (Open MPI, MPICH, Gloo), in one run, in turns, with every
result checked, and writes a page, a picture and all figures.

    bench/compare/compare.py                          one host, 2, 4 and 8 ranks, 4 B to 64 MiB: collectives.md, .json and .svg in build/compare
    bench/compare/compare.py --scenes host clusters   and hosts of two ranks each, in two emulated clusters that a slow link joins
    bench/compare/compare.py --out docs/results       the page of the documentation
    bench/compare/compare.py --list                   what is here, and what would have to be installed

In every round each library measures each collective on each number of ranks once, in an order that is drawn from --seed. It needs a built
libtombolo and `tombolo`; it builds the drivers of the libraries into the build folder's compare/. With a priority in its own
/proc/self/autogroup, all ranks get it too.

Exit code: 0; 1 where a library failed, or a result was wrong, which the page names.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report")]
import collectives_page  # noqa: E402
import collectives_picture  # noqa: E402
import figures  # noqa: E402
import libraries  # noqa: E402
import machine  # noqa: E402
from programs import Failed, Programs  # noqa: E402
from scenes import SCENES  # noqa: E402

SIZES = [4 ** power for power in range(1, 14)]
LIMIT = 60  # seconds of one run
BEHIND = 1.5  # who takes so many times as long as the fastest at every size of a round is not measured in later ones


def parse():
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=machine.ROOT / "build", help="build folder (default: build)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for collectives.md, .json and .svg (default: compare in the build folder)")
    parser.add_argument("--scenes", nargs="+", choices=list(SCENES), default=["host"])
    parser.add_argument("--libraries", nargs="+", metavar="NAME", choices=["tombolo", "openmpi", "mpich", "gloo"],
                        help="of tombolo, openmpi, mpich, gloo (default: all that are here)")
    parser.add_argument("--collectives", nargs="+", choices=libraries.COLLECTIVES + libraries.UNEVEN,
                        help="default: on one host all with parts of equal size, on several all but gather and scatter of these; those with parts "
                             "of unequal size, whose names end with v, only where they are named")
    parser.add_argument("--ranks", type=numbers, default=[2, 4, 8], metavar="N,...", help="on one host (default: 2,4,8)")
    parser.add_argument("--sizes", type=numbers, default=SIZES, metavar="BYTES,...", help="of a rank's larger buffer (default: 4 to 64 MiB)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05, help="about how long one size is measured in one round (default: 0.05)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="of the order")
    parser.add_argument("--list", action="store_true", help="say which libraries are here, and measure nothing")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or min(arguments.ranks) < 1 or min(arguments.sizes) < 1:
        parser.error("rounds, ranks and sizes are at least 1")
    arguments.sizes = sorted(set(arguments.sizes))
    arguments.build = arguments.build.resolve()
    return arguments


def own_priority():
    """This session's priority among other sessions, which a new session does not inherit; 0 where the kernel has no such thing."""
    try:
        return int(pathlib.Path("/proc/self/autogroup").read_text(encoding="utf-8").split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def jobs(arguments, found):
    """Every (scene, library, collective, ranks) of one round."""
    for scene in map(SCENES.get, arguments.scenes):
        for library in found:
            if library.only_on_hosts and not scene.per_host:
                continue
            for collective in arguments.collectives or scene.collectives or libraries.COLLECTIVES:
                if collective in library.collectives:
                    for ranks in scene.ranks or arguments.ranks:
                        yield scene.key, library, collective, ranks


def run_driver(build, scene, library, ranks, driver, variables=None):
    """What a job of the library's driver says, which gets the words `driver`. Raises Failed."""
    roomy = not scene.per_host and ranks <= len(os.sched_getaffinity(0))
    driver = [*driver, "--wait", "sleep" if library.sleeps else "spin" if roomy else "yield"]
    if not scene.per_host and library.binds in (("always",) if roomy else ("always", "crowded")):
        driver.append("--bind")
    if own_priority() != 0:
        driver += ["--autogroup", str(own_priority())]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        environment = {**os.environ, **library.environment, **(variables or {}), "COMPARE_STORE": folder,
                       "COMPARE_INTERFACE": "eth0" if scene.per_host else "lo"}
        agent = pathlib.Path(folder) / "agent"
        agent.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE}/mpi_hosts.py agent "$@"\n', encoding="utf-8")
        agent.chmod(0o700)
        command = [*library.command(build, scene, ranks, agent), *driver, "--meet", f"{folder}/meeting"]
        return Programs(build, LIMIT).run(command, env=environment)


def measure(arguments, scene, library, collective, ranks):
    """One run of a driver; raises Failed."""
    sizes = [size for size in arguments.sizes if size <= scene.most_bytes]
    text = run_driver(arguments.build, scene, library, ranks,
                      [collective, "--sizes", ",".join(map(str, sizes)), "--seconds", str(arguments.seconds)])
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"bytes"')]
    if not lines:
        raise Failed(f"{library.name} printed no figures:\n{text[-1500:]}")
    return {"bytes": [line["bytes"] for line in lines],
            "median_us": [round(statistics.median(line["microseconds"]), 3) for line in lines],
            "least_us": [min(line["microseconds"]) for line in lines],
            "iterations": [len(line["microseconds"]) for line in lines],
            "right": [line["right"] for line in lines]}


def build(found, missing, folder):
    """The libraries whose drivers could be built; the others join `missing`. Raises SystemExit where Tombolo's could not be."""
    built, refused = [], {}
    for library in found:
        try:
            if library.program not in refused:
                libraries.build_driver(library, folder)
                built.append(library)
        except (OSError, subprocess.SubprocessError) as error:
            refused[library.program] = f"its driver could not be built: {getattr(error, 'stderr', None) or error}"
            missing[library.name] = refused[library.program]
    if "tombolo_driver" in refused:
        raise SystemExit(f"compare: Tombolo: {refused['tombolo_driver']}\nBuild it first (scripts/build.sh release), or name its folder with "
                         "--build")
    return built


def main():
    arguments = parse()
    found, missing = libraries.find(arguments.build)
    for library in found:
        print(f"{library.name} {library.version}")
    for name, what in missing.items():
        print(f"{name} is not here: {what}")
    if arguments.list:
        return 0
    wanted = [one for one in found if not arguments.libraries or one.key.split("-")[0] in arguments.libraries]
    found = build(wanted, missing, arguments.build)
    results = {"version": 2, "date": machine.today(), "machine": machine.machine(), "source": machine.source(),
               "versions": machine.versions(arguments.build), "seed": arguments.seed, "rounds": arguments.rounds,
               "seconds": arguments.seconds, "behind": BEHIND, "autogroup": own_priority(),
               "libraries": {one.key: {"name": one.name, "version": one.version, "settings": one.settings}
                             for one in found},
               "missing": missing, "failures": [], "runs": []}
    print(f"order by --seed {arguments.seed}", flush=True)
    measure_rounds(arguments, found, results)
    results["load_after"] = round(os.getloadavg()[0], 2)
    write(results, arguments.out or arguments.build / "compare")
    wrong = [run for run in results["runs"] if not all(run["right"])]
    for run in wrong:
        print(f"WRONG: {run['library']}, {run['collective']}, {run['ranks']} ranks, round {run['round']}", file=sys.stderr)
    return 1 if wrong or results["failures"] else 0


def measure_rounds(arguments, found, results):
    """Adds the runs of all rounds, and what failed, to `results`."""
    order, behind = random.Random(arguments.seed), set()
    for turn in range(1, arguments.rounds + 1):
        planned = [job for job in jobs(arguments, found) if (job[0], job[1].key, *job[2:]) not in behind]
        order.shuffle(planned)
        for number, (scene, library, collective, ranks) in enumerate(planned, 1):
            names = {"scene": scene, "library": library.key, "collective": collective, "ranks": ranks}
            print(f"round {turn}, {number}/{len(planned)}: {', '.join(map(str, names.values()))} ranks", flush=True)
            begin = time.monotonic()
            try:
                run = measure(arguments, SCENES[scene], library, collective, ranks)
                results["runs"].append({"round": turn, **names, "seconds": round(time.monotonic() - begin, 2), **run})
            except Failed as error:
                print(error, file=sys.stderr)
                results["failures"].append({"round": turn, **names, "reason": str(error)})
        behind |= figures.left_behind([run for run in results["runs"] if run["round"] == turn], BEHIND)


def write(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    *head, runs = json.dumps({**results, "runs": None}, indent=1).rpartition('"runs": null')
    listed = ",\n".join("  " + json.dumps(run) for run in results["runs"])
    (folder / "collectives.json").write_text(f'{head[0]}"runs": [\n{listed}\n ]{runs}\n', encoding="utf-8")
    pictures = {}
    for scene in SCENES:
        picture = collectives_picture.picture(results, scene)
        if picture:
            pictures[scene] = "collectives.svg" if scene == "host" else f"collectives_{scene}.svg"
            (folder / pictures[scene]).write_text(picture, encoding="utf-8")
    page = collectives_page.page(results, pictures)
    (folder / "collectives.md").write_text(page, encoding="utf-8")
    print(collectives_page.wanted(results))
    print(f"{folder / 'collectives.md'}\n{folder / 'collectives.json'}")


if __name__ == "__main__":
    sys.exit(main())
