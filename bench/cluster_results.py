#!/usr/bin/env python3
"""Measures all-reduces between emulated clusters, without a cluster file, beside the lower bound of each network, and writes what it
found as a page of Markdown and as JSON. Takes about ten minutes on a machine that does nothing else; needs namespaces and /dev/net/tun.

    cluster_results.py [--build build] [--only WORDS] [--rounds 5] [--out FOLDER] [--seed N] [--brief]

Every case starts its ranks once a round, in an order that is drawn from the seed; each of these jobs finds out by itself which hosts
are near each other. A figure is the median over the rounds of a job's median, of calls out of place. --brief runs each case once, with
few calls, to see that it works.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "report"))
import machine  # noqa: E402
from programs import Failed, Programs  # noqa: E402

MIB = 1 << 20


def _host(name, segment):
    return {"name": name, "cluster": segment, "nics": [{"name": "eth0", "kind": "tcp", "segment": segment, "rate": "10gbit"}]}


# Three clusters around a switch that no host is at, with uplinks of unlike rates.
THREE = {"name": "three-clusters",
         "hosts": [_host(f"{segment}{i}", segment) for segment, count in (("a", 2), ("b", 3), ("c", 5)) for i in range(count)],
         "links": [{"between": [segment, "switch"], "rate": rate} for segment, rate in (("a", "200mbit"), ("b", "400mbit"), ("c", "800mbit"))]}
# A link whose other direction has half the rate.
UNLIKE_WAYS = {"name": "unlike-ways",
               "hosts": [_host(f"{segment}{i}", segment) for segment in "ab" for i in range(2)],
               "links": [{"between": ["a", "b"], "rate": "1gbit", "rate_back": "500mbit"}]}


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One job. `wanted`: of its time over the bound, at most; None: nothing is wanted. `over`: the bound's bytes are divided by that where values are sent in fewer bytes."""
    network: str
    emulate: object
    ranks: int
    bytes: int
    wanted: float = None
    order: str = "block"
    compression: str = "none"
    file: bool = False
    round_trip: float = 0

    @property
    def name(self):
        words = [self.network, f"{self.ranks} ranks", self.order if self.ranks > 3 else "", f"{self.bytes // 1024} KiB" if self.bytes < MIB else
                 f"{self.bytes // MIB} MiB", "" if self.compression == "none" else f"sent as {self.compression}",
                 "with a cluster file" if self.file else ""]
        return ", ".join(word for word in words if word)


def cases():
    two = "two-clusters:rate=1gbit,hosts=2"
    name = "two clusters of two hosts, 1 Gbit/s"
    for ranks, wanted in ((4, 1.10), (8, 1.20)):
        for order in ("block", "interleaved"):
            yield Case(name, two, ranks, 16 * MIB, wanted, order)
    for ranks in (4, 8):
        yield Case(name, two, ranks, 16 * MIB, order="interleaved", file=True)
        yield Case(name, two, ranks, MIB)
        yield Case(name, two, ranks, 16 * MIB, 0.60, compression="bf16")
        yield Case(name, two, ranks, 16 * MIB, 0.35, compression="int8")
    yield Case("clusters of 2, 3 and 5 hosts, uplinks of 200, 400 and 800 Mbit/s", THREE, 10, 16 * MIB, 1.15)
    yield Case("two clusters of two hosts, 1 Gbit/s there and 500 Mbit/s back", UNLIKE_WAYS, 4, 16 * MIB)
    # At most one and a half round trips and what 64 KiB take on the link.
    yield Case(f"{name}, round trip of 20 ms", two + ",rtt=20ms", 4, 64 * 1024, round_trip=0.02)


def run(case, programs, brief):
    """{"us": median, "bound_us": the lower bound, "why": what makes it} of one job. Raises Failed."""
    calls = 3 if brief else max(10, min(60, int(60 * MIB / case.bytes)))
    with tempfile.TemporaryDirectory() as folder:
        emulate = case.emulate
        if not isinstance(emulate, str):
            emulate = pathlib.Path(folder) / "network.json"
            emulate.write_text(json.dumps(case.emulate), encoding="utf-8")
        file = pathlib.Path(folder) / "figures.json"
        command = [programs.bin / "tombolo", "perf", "all_reduce", "--emulate", emulate, "--emulation-mode", "namespaces", "-n", case.ranks,
                   "--order", case.order, "--bound", "--quiet", "--timeout", 240, "--env", f"TOMBOLO_COMPRESSION={case.compression}"]
        if not case.file:
            command += ["--env", "TOMBOLO_CLUSTER="]
        command += ["--", "-b", case.bytes, "-e", case.bytes, "-n", calls, "-w", 2 if brief else 5, "-J", file]
        if case.compression != "none":
            command += ["-c", 0]  # its sums are rounded, which the check of exact sums refuses
        programs.run(command)
        result = json.loads(file.read_text(encoding="utf-8"))["results"][0]
    return {"us": result["out_of_place"]["time"], "bound_us": result["lower_bound"]["time"], "why": result["lower_bound"]["cause"]}


def summary(case, runs):
    us, bound = statistics.median(one["us"] for one in runs), runs[0]["bound_us"]
    seen = {"us": us, "least_us": min(one["us"] for one in runs), "most_us": max(one["us"] for one in runs), "bound_us": bound,
            "why": runs[0]["why"], "over_bound": us / bound, "wanted": case.wanted, "wanted_us": None if case.wanted is None else case.wanted * bound}
    if case.round_trip:
        seen["wanted_us"] = 1.5 * case.round_trip * 1e6 + bound_of_bytes(case)
    return seen


def bound_of_bytes(case):
    """Microseconds that all of a rank's bytes take on a link of 1 Gbit/s."""
    return case.bytes / 125e6 * 1e6


def page(results):
    made, source = results["machine"], results["source"]
    lines = ["# All-reduces between clusters that nobody declared", "",
             "Written by `bench/cluster_results.py`; every figure is in [clusters.json](clusters.json).", "",
             f"{results['date']}, commit {source['commit']}{' with changes' if source['changed'] else ''}, {made['cores']} cores of {made['processor']}, "
             f"Linux {made['kernel']}, load average {made['load_average']} before; {results['rounds']} rounds in an order drawn from seed {results['seed']}.", "",
             "Sums of float32, out of place, checked element by element (except where values are sent in fewer bytes). The hosts are network "
             "namespaces of one machine, and all ranks share its processors. No job had a cluster file unless its row says so: each found its islands "
             "by itself, after which calls were timed. *Bound* is the [lower bound](../collectives.md) of the network for float32; *over* is the time "
             "over it. A token bucket lets 256 KiB pass at once at 1 Gbit/s, which is why small sizes and compressed ones can be below their share.", "",
             "| case | bound | time (least to most) | over | wanted | |", "|---|---|---|---|---|---|"]
    for row in results["cases"]:
        if "failed" in row:
            lines.append(f"| {row['case']} | | | | | **failed** |")
            continue
        met = "" if row["wanted_us"] is None else "met" if row["us"] <= row["wanted_us"] else "**missed**"
        wanted = "" if row["wanted_us"] is None else f"<= {row['wanted_us'] / 1e3:.3g} ms" if row["wanted"] is None else f"<= {row['wanted']:.2f}"
        lines.append(f"| {row['case']} | {row['bound_us'] / 1e3:.3g} ms | {row['us'] / 1e3:.4g} ms ({row['least_us'] / 1e3:.4g} to {row['most_us'] / 1e3:.4g}) | "
                     f"{row['over_bound']:.2f} | {wanted} | {met} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder (default: build)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only the cases whose names contain this, as 'sent as int8'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="folder for clusters.md and clusters.json (default: the build folder)")
    parser.add_argument("--seed", type=int, default=None, help="of the order")
    parser.add_argument("--brief", action="store_true", help="run each case once, shortly")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    rounds = 1 if arguments.brief else arguments.rounds
    programs = Programs(arguments.build.resolve(), None)
    results = {"version": 1, "date": machine.today(), "machine": machine.machine(), "source": machine.source(),
               "versions": machine.versions(arguments.build), "seed": seed, "rounds": rounds, "cases": []}
    order, runs, failed = random.Random(seed), {case: [] for case in cases() if arguments.only in case.name}, {}
    if not runs:
        raise SystemExit(f"cluster_results: no case has '{arguments.only}' in its name; there are\n" + "\n".join(case.name for case in cases()))
    for number in range(1, rounds + 1):
        planned = list(runs)
        order.shuffle(planned)
        for at, case in enumerate(planned, 1):
            print(f"round {number}, {at}/{len(planned)}: {case.name}", flush=True)
            try:
                runs[case].append(run(case, programs, arguments.brief))
            except Failed as error:
                print(error, file=sys.stderr)
                failed[case] = str(error)
    for case, found in runs.items():
        results["cases"].append({"case": case.name, "failed": failed[case]} if case in failed else
                                {"case": case.name, **summary(case, found), "runs": [one["us"] for one in found]})
    out = arguments.out or arguments.build
    out.mkdir(parents=True, exist_ok=True)
    (out / "clusters.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / "clusters.md").write_text(page(results), encoding="utf-8")
    print(page(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
