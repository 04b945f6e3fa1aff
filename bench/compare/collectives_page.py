"""The page of Markdown: what was measured, how, and every cell."""
import figures
import quantities
from scenes import SCENES

WON, MEAN = 0.9, 1.5
EVEN = {"allreduce": "All-reduce", "allgather": "All-gather", "reducescatter": "Reduce-scatter", "broadcast": "Broadcast",
          "alltoall": "All-to-all", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter", "barrier": "Barrier"}
UNEVEN = {"allgatherv": "All-gather", "reducescatterv": "Reduce-scatter", "gatherv": "Gather", "scatterv": "Scatter", "alltoallv": "All-to-all"}
UNEVEN = {key: f"{name} of uneven parts" for key, name in UNEVEN.items()}
TITLES = EVEN | UNEVEN
ORDERS = {"block": "The ranks of a host follow each other.", "interleaved": "Rank by rank the hosts take turns, and the clusters with them."}


def _table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows), ""]


def _ratio(number):
    return "" if number is None else f"{number:.2f}" if number > 1 else f"**{number:.2f}**"


def _share(found):
    return f"{found['won']} of {found['cells']} ({100 * found['won'] / found['cells']:.0f} %)" if found["cells"] else "none compared"


def _mean(found):
    return "" if found["mean"] is None else f"{found['mean']:.2f}"


def wanted(results):
    """Lines that say how many cells were won, and how far, in each scene."""
    lines = []
    for scene in SCENES.values():
        found = figures.summary(figures.cells(results["runs"], scene.key, EVEN).values())
        if found["cells"]:
            lines.append(f"{scene.name}: faster than the best other library in {_share(found)}; geometric mean of the ratios {_mean(found)}")
    return "\n".join(lines) or "no other library was measured"


def _wanted_table(found):
    if not found["cells"]:
        return []
    share = found["won"] / found["cells"]
    return _table(["figure", "wanted", "seen", ""],
                  [["cells faster than the best other library", f">= {100 * WON:.0f} %", _share(found), "met" if share >= WON else "**missed**"],
                   ["geometric mean of the ratios", f">= {MEAN}", _mean(found), "met" if found["mean"] >= MEAN else "**missed**"]])


def _summaries(cells):
    """How it went by collective and number of ranks."""
    ranks = sorted({cell[1] for cell in cells})
    rows = []
    for collective in TITLES:
        row = [TITLES[collective]]
        for number in ranks:
            found = figures.summary(times for cell, times in cells.items() if cell[:2] == (collective, number))
            row.append(f"{found['won']}/{found['cells']}, {_mean(found)}" if found["cells"] else "")
        if any(row[1:]):
            rows.append(row)
    return _table(["won, mean ratio", *(f"{number} ranks" for number in ranks)], rows) if rows else []


def _cells(results, cells):
    keys = [key for key in results["libraries"] if any(key in times for times in cells.values())]
    lines = []
    for collective in TITLES:
        for ranks in sorted({cell[1] for cell in cells if cell[0] == collective}):
            chosen = {cell[2]: times for cell, times in cells.items() if cell[:2] == (collective, ranks)}
            present = [key for key in keys if any(key in times for times in chosen.values())]
            lines += ["", f"### {TITLES[collective]}, {ranks} ranks", ""]
            rows = []
            for size, times in chosen.items():
                best = figures.best_peer(times)
                rows.append(["" if collective == "barrier" else quantities.size(size),
                             *(quantities.three(times[key]) if key in times else "" for key in present),
                             results["libraries"][best[0]]["name"] if best else "", _ratio(figures.ratio(times))])
            lines += _table(["", *(results["libraries"][key]["name"] for key in present), "best other", "ratio"], rows)
    return lines


def _conditions(results):
    here, source = results["machine"], results["source"]
    commit = f"{source['commit'] or 'unknown'}{' and changes' if source['changed'] else ''}"
    lines = ["# Collectives beside other libraries", "", "Written by `bench/compare/compare.py`; every figure is in "
             "[collectives.json](collectives.json).", "",
             f"{results['date']}, commit {commit}, {here['cores']} cores of {here['processor']}, Linux {here['kernel']}, load average "
             f"{here['load_average']:.1f} before and {results['load_after']:.1f} after it; {results['rounds']} rounds in an order drawn from "
             f"seed {results['seed']}." + (f" All ranks ran with the autogroup priority {results['autogroup']}, so that the machine's other "
                                           "programs took less of its time." if results["autogroup"] else ""), ""]
    lines += _table(["library", "version", "settings"],
                    [[one["name"], one["version"], one["settings"]] for one in results["libraries"].values()])
    lines += [f"{name}: {what.splitlines()[0]}." for name, what in results["missing"].items()]
    lines += ["", "Float32 in host memory, sums. The size is that of a rank's larger buffer; one float for each rank at least. Before each call "
              "all ranks meet in shared memory, at the same barrier for every library; a call's time is that of the rank that took longest in "
              "it; a figure is the median over the calls of a round, and then over the rounds, in microseconds. A library that took "
              f"{results['behind']} times as long as the fastest at every size of a round, or longer, was not measured in later ones. Every "
              "size of every run was checked element by element. *Ratio* is the best other library's time over Tombolo's: above 1 Tombolo "
              "is faster, and where it is not the figure is **bold**.", ""]
    return lines


def _failures(results):
    lines = []
    for one in results["failures"]:
        reason = (one["reason"].splitlines() or [""])[-1][-200:]
        lines.append(f"* {results['libraries'][one['library']]['name']}, {TITLES[one['collective']]}, {one['ranks']} ranks, round "
                     f"{one['round']} failed: {reason}")
    for run in results["runs"]:
        for size, right in zip(run["bytes"], run["right"]):
            if not right:
                lines.append(f"* {results['libraries'][run['library']]['name']}, {TITLES[run['collective']]}, {run['ranks']} ranks, "
                             f"{quantities.size(size)}, round {run['round']}: **wrong result**")
    return ["", "## What failed", "", *lines, ""] if lines else []


def _host(results, picture):
    cells = figures.cells(results["runs"], "host", EVEN)
    if not cells:
        return []
    lines = ["## One host", ""]
    crowded = sorted({cell[1] for cell in cells if cell[1] > results["machine"]["cores"]})
    if crowded:
        lines += [f"The figures of {' and '.join(map(str, crowded))} ranks are of more ranks than this machine has processors "
                  f"({results['machine']['cores']}).", ""]
    return lines + _wanted_table(figures.summary(cells.values())) + _summaries(cells) + _shown(picture) + _cells(results, cells)


def _clusters(results, scene, picture):
    cells = figures.cells(results["runs"], scene.key, EVEN)
    if not cells:
        return []
    ranks = sorted({cell[1] for cell in cells})
    emulated = ", ".join(f"`--emulate {scene.emulated(number)}` for {number} ranks" for number in ranks)
    lines = ["", f"## {scene.name[0].upper()}{scene.name[1:]}", "",
             f"Emulated hosts, each a network namespace with {scene.per_host} ranks, half of the hosts in each of two clusters, between which "
             f"there is one link of 1 Gbit/s: {emulated}. {ORDERS[scene.order]} All hosts share this machine's processors. Open MPI and MPICH start "
             "their daemons through `bench/compare/mpi_hosts.py` in place of ssh. The link is a token bucket, which fills while ranks meet before a call: more where they sleep there, as "
             "Gloo's do, whose calls of 16 KiB to 1 MiB are up to a tenth shorter for it.", ""]
    return lines + _won(cells) + _summaries(cells) + _shown(picture) + _cells(results, cells)


def _shown(picture):
    return [f"![Ratio of the best other library's time to Tombolo's, by collective and size]({picture})", ""] if picture else []


def _won(cells):
    found = figures.summary(cells.values())
    return [f"Faster than the best other library in {_share(found)}; geometric mean of the ratios {_mean(found)}.", ""] if found["cells"] else []


def _uneven(results):
    lines = []
    for scene in SCENES.values():
        cells = figures.cells(results["runs"], scene.key, UNEVEN)
        if cells:
            lines += ["", f"## Parts of unequal size, {scene.name}", "",
                      "Of n ranks, rank r's part has 2 (r + 1) / (n + 1) times the elements of the mean; in an all-to-all the part that rank r has "
                      "for rank s is as large as that of rank (r + s) mod n, so that every rank gives and gets as much. The size is that of all "
                      "parts together. These cells count in no figure above.", ""]
            lines += _won(cells) + _summaries(cells) + _cells(results, cells)
    return lines


def page(results, pictures):
    """`pictures`: {scene's key: file name} of those that were drawn."""
    lines = [*_conditions(results), *_host(results, pictures.get("host"))]
    for scene in SCENES.values():
        if scene.per_host:
            lines += _clusters(results, scene, pictures.get(scene.key))
    lines += [*_uneven(results), *_failures(results)]
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"
