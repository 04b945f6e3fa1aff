#!/usr/bin/env python3
"""Follows the engine's schedules among many ranks in simulated time, and writes what they take as a page of Markdown and as JSON. The same
program gives the same figures on any machine. Takes about two minutes.

    schedule_results.py [--build build] [--only WORDS] [--out FOLDER] [--check FOLDER]

--check writes nothing: it fails where a page in that folder has other figures than the program gives, of the networks that --only names.
"""
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "report"))
from programs import Failed, Programs  # noqa: E402

NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "broadcast": "broadcast",
         "reduce": "reduce", "all_to_all": "all-to-all"}
COMBINING = ["--collectives", "all_reduce,all_gather,reduce_scatter"]
# Words for people, and the options of schedule_perf, of each of its runs.
NETWORKS = {
    "1,024 ranks: 4 clusters of 32 hosts of 8": [["--shape", "4x32x8", *COMBINING, "--sizes", "64K,1M,16M,64M,256M"],
                                                 ["--shape", "4x32x8", *COMBINING[:1], "all_reduce", "--sizes", "1G"],
                                                 ["--shape", "4x32x8", *COMBINING[:1], "broadcast,reduce", "--sizes", "1M,64M"],
                                                 ["--shape", "4x32x8", *COMBINING[:1], "all_to_all", "--sizes", "1M"]],
    "256 hosts of one cluster": [["--shape", "1x256x1", *COMBINING, "--sizes", "64K,1M,64M"]],
    "3 clusters of 16 hosts of 4": [["--shape", "3x16x4", *COMBINING, "--sizes", "1M,64M"]],
    "4 unlike clusters, of 12, 20, 40 and 56 hosts of 4": [["--shape", "12x4,20x4,40x4,56x4", *COMBINING, "--sizes", "1M,64M"]],
    "2 clusters of unlike hosts, 12 of 8 and 4 of 4 in each": [["--shape", "12x8+4x4,12x8+4x4", *COMBINING, "--sizes", "1M,64M"]],
}


def figures(programs, only):
    """[{"network", "results"}] of those whose names contain the words."""
    networks = []
    for name, runs in NETWORKS.items():
        if only not in name:
            continue
        results = []
        for options in runs:
            print(f"{name}: {' '.join(options)}", flush=True)
            results += programs.json(programs.bin / "schedule_perf", *options)["results"]
        networks.append({"network": name, "results": results})
    if not networks:
        raise SystemExit(f"schedule_results: no network has '{only}' in its name; there are\n" + "\n".join(NETWORKS))
    return networks


def size(count):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def row(one):
    busiest = max(one["busy_seconds"], key=one["busy_seconds"].get)
    return (f"| {NAMES[one['collective']]} | {size(one['bytes'])} | {one['algorithm']} ({one['by']}) | {one['messages']:,} | {one['peers']:,} | "
            f"{one['in_flight']:,} | {size(one['scratch'])} | {one['seconds'] * 1e3:.4g} ms | {one['seconds'] / one['bound_seconds']:.2f} | "
            f"{one['seconds'] / one['bound_with_memory_seconds']:.2f} | {busiest} {one['busy_seconds'][busiest] * 1e3:.3g} ms |")


def page(networks):
    lines = ["# Schedules among many ranks, in simulated time", "",
             "Written by `bench/schedule_results.py`; every figure is in [schedules.json](schedules.json). Nothing here was measured on a network: "
             "`schedule_perf` follows the engine's schedules on [a model](../benchmarks.md#collectives-among-more-ranks-than-there-are), with NICs and "
             "uplinks of 100 Gbit/s each way, 1 ms between clusters and 5 us between hosts of one, 10 GB/s of memory for each rank, and 2 us of a "
             "processor for each message. The cost model is told these figures; *algorithm* says what was taken, and whether by a rule or the model.", "",
             "*Messages*, *peers*, *in flight* and *scratch* are the most of any rank: those that it sends, ranks that it exchanges them with, those under "
             "way to it at once, and memory beside the buffers. *Over the links* is the time over [the bound](../collectives.md) of the links alone; *over "
             "all* that over the bound with a latency between clusters, and with what ranks copy and combine. *Busiest* is what works longest, and for how "
             "long: no schedule that sends as much through it ends earlier.", ""]
    for one in networks:
        lines += [f"## {one['network']}", "",
                  "| | bytes | algorithm | messages | peers | in flight | scratch | time | over the links | over all | busiest |",
                  "|---|---|---|---|---|---|---|---|---|---|---|", *[row(result) for result in one["results"]], ""]
    return "\n".join(lines)


def differences(networks, folder):
    """What the page and the JSON in the folder say otherwise, in lines."""
    text = (folder / "schedules.md").read_text(encoding="utf-8")
    known = {one["network"]: one["results"] for one in json.loads((folder / "schedules.json").read_text(encoding="utf-8"))["networks"]}
    for one in networks:
        if known.get(one["network"]) != one["results"]:
            yield f"schedules.json has other figures of {one['network']}"
        for result in one["results"]:
            if row(result) not in text:
                yield f"schedules.md lacks, of {one['network']}: {row(result)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder (default: build)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only the networks whose names contain this, as '256 hosts'")
    parser.add_argument("--out", type=pathlib.Path, help="folder for schedules.md and schedules.json (default: the build folder)")
    parser.add_argument("--check", type=pathlib.Path, metavar="FOLDER", help="compare with the page in this folder, and write none")
    arguments = parser.parse_args()
    try:
        networks = figures(Programs(arguments.build.resolve(), None), arguments.only)
    except Failed as error:
        raise SystemExit(f"schedule_results: {error}") from error
    if arguments.check:
        found = list(differences(networks, arguments.check))
        for line in found:
            print(f"{line}; bench/schedule_results.py --out {arguments.check} writes it anew", file=sys.stderr)
        return 1 if found else 0
    out = arguments.out or arguments.build
    out.mkdir(parents=True, exist_ok=True)
    (out / "schedules.json").write_text(json.dumps({"version": 1, "networks": networks}, indent=1) + "\n", encoding="utf-8")
    (out / "schedules.md").write_text(page(networks), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
