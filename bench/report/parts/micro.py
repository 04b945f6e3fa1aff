"""The micro-benchmarks, beside the stored baseline where that is of this processor."""
import json

import machine
import micro_results
import page
import quantities
from chart import bars
from part import Part, Section

BASELINE = machine.ROOT / "bench" / "micro" / "baseline.json"
SETS = {"avx512": "ours", "avx2": "third", "baseline": "plain"}


def measure(programs, quick):
    found = {"medians": micro_results.measure(programs.bin / "micro_bench", repetitions=1 if quick else 9,
                                              min_time=0.0005 if quick else 0.02, run=programs.run)}
    stored = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    if stored.get("processor") == machine.processor():
        found["baseline"] = {name: stored[name] for name in ("commit", "date")}
        found["baseline"]["nanoseconds"] = {name: entry["nanoseconds"] for name, entry in stored["medians"].items()}
    return found


def products(medians):
    rows = []
    for name, entry in medians.items():
        if name.endswith("/tokens:1024"):
            _, what, width, _ = name.split("/")
            rows.append((f"{what.replace('_', ' ')} {width.removeprefix('width:')}", "ours", entry["GFLOP/s"]))
    rows.sort(key=lambda row: row[0].rsplit(" ", 1)[0])  # by pass; widths stay in order
    return page.figure(bars("Matrix products, GFLOP/s", rows, quantities.three), "Matrix products of a layer, GFLOP/s",
                       "The MLP's first matrix, 1,024 tokens, by pass and width; one thread.")


def sums(medians):
    rows = [(name.split("/")[1], "ours", entry["bytes_per_second"] / 1e9) for name, entry in medians.items()
            if name.startswith("reductions/") and name.endswith("/sum")]
    return page.figure(bars("Sums by type, GB/s", rows, quantities.three), "Sums of two buffers by type, GB/s of result",
                       "64 KiB each, one thread.")


def row(name, entry, before):
    cells = [name.split("/", 1)[1], quantities.duration(entry["nanoseconds"] / 1e9), micro_results.rate(entry)]
    if before:
        cells.append(f"{entry['nanoseconds'] / before[name]:.2f}" if name in before else "")
    return cells


def show(results):
    found = results["micro_bench"]
    medians, baseline = found["medians"], found.get("baseline")
    before = baseline["nanoseconds"] if baseline else None
    text = page.side_by_side([products(medians), sums(medians)])
    if baseline:
        text += page.note(f"Over baseline: this time over that of commit {baseline['commit']} ({baseline['date']}) on a "
                          "processor of the same name. Below 1 is faster; what else the machine did then and does now is part "
                          "of it.")
    for subject in dict.fromkeys(name.split("/")[0] for name in medians):
        rows = [row(name, entry, before) for name, entry in medians.items() if name.startswith(subject + "/")]
        text += page.folded(f"{subject.replace('_', ' ').capitalize()}: {len(rows)}",
                            page.table(["benchmark", "median time", "rate", *(["over baseline"] if before else [])], rows))
    return text


def headline(results):
    name = max(results["micro_bench"]["medians"].items(), key=lambda item: item[1].get("GFLOP/s", 0))
    return f"{quantities.three(name[1]['GFLOP/s'])} GFLOP/s", "of the fastest matrix product of the trainer, one thread"


SECTION = Section("Micro-benchmarks", "The parts of which the figures above are made, each by itself on one thread.", show,
                  headline)
PARTS = [Part("micro_bench", SECTION, "products, kernels, checksums, files, searches, each by itself", 55, 3, measure,
              ("micro_bench",))]
