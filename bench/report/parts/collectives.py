"""nccl-tests' programs: bus bandwidth by size, over Tombolo's engine."""
import page
import quantities
from chart import by_size
from part import Part, Section

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather", "scatter",
         "hypercube")
RANKS = 4
PLACES = {"one host": ("ours", []), "two clusters": ("other", ["--emulate", "two-clusters"])}


def measure(name):
    def of_program(programs, quick):
        program = programs.bin / f"{name}_perf"
        def rows(options):
            most = "256K" if quick else "1M" if options else "16M"
            found = programs.json(programs.bin / "tombolo", "run", "-n", RANKS, "--quiet", *options, "--", program, "-b", "1K",
                                  "-e", most, "-f", "16" if quick else "4", "-n", "2" if quick else "10",
                                  "-w", "1" if quick else "3", option="-J")
            return [row_of(row) for row in found["results"]]
        return {place: rows(options) for place, (_, options) in PLACES.items()}
    return of_program


def row_of(row):
    timing = row["out_of_place"]
    return {"bytes": row["size"], "median_seconds": timing["median_time"] / 1e6,
            "bus_bytes_per_second": timing["bus_bw"] * 1e9}


def show(results):
    figures, tables = [], ""
    for name, places in results.items():
        title = name.removesuffix("_perf")
        series, rows = [], []
        for place, measured in places.items():
            points = [(row["bytes"], row["bus_bytes_per_second"] / 1e9) for row in measured]
            series.append((place, PLACES[place][0], points))
            rows += [[place, quantities.size(row["bytes"]), quantities.duration(row["median_seconds"]),
                      quantities.three(row["bus_bytes_per_second"] / 1e9)] for row in measured]
        figures.append(page.figure(by_size(f"Bus bandwidth of {title} by message size", series, "bus bandwidth, GB/s",
                                           quantities.three), title))
        tables += f"<h3>{title}</h3>\n" + page.table(["where", "size", "median time", "bus bandwidth, GB/s"], rows)
    return page.side_by_side(figures) + page.folded("Times and bandwidths as numbers", tables)


def headline(results):
    if "all_reduce_perf" not in results:
        return None
    last = results["all_reduce_perf"]["one host"][-1]
    return (quantities.rate(last["bus_bytes_per_second"], "B/s"),
            f"bus bandwidth of all_reduce, {RANKS} ranks of one host, {quantities.size(last['bytes'])}")


SECTION = Section("Collectives",
                  f"{RANKS} ranks in host memory, by nccl-tests' programs. <i>One host:</i> processes of this machine, which "
                  "take shared memory. <i>Two clusters:</i> emulated ones with a link of 1 Gbit/s between, all of it on this "
                  "machine. Bus bandwidth is as nccl-tests defines it, so that collectives compare; results out of place.",
                  show, headline)
PARTS = [Part(f"{name}_perf", SECTION, f"{name} of {RANKS} ranks, on one host and on two emulated clusters", 4, 2,
              measure(name), ("tombolo", f"{name}_perf")) for name in NAMES]
