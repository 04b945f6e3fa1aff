"""The NCCL plugin through NCCL's ABI, beside NCCL's own Socket transport and plain TCP."""
import page
import quantities
from chart import by_size
from part import Part, Section

WAYS = {"tombolo": ("Tombolo, TCP", "ours"), "nccl-socket": ("NCCL Socket", "other"), "plain-each": ("plain TCP", "plain"),
        "tombolo-shm": ("Tombolo, shm", "third")}


def measure(programs, quick):
    options = (["--repeats", "1", "--bytes", "4e6", "--sizes", "8K,1M", "--trips", "8,8K"] if quick else
               ["--repeats", "5", "--bytes", "1e8", "--memory", "3e8"])
    return programs.json(programs.bin / "plugin_perf", *options)


def measure_one_sided(programs, quick):
    return programs.json(programs.bin / "rma_perf", *(["--trips", "100", "--puts", "32"] if quick else []))


def show(results):
    html = show_messages(results["plugin_perf"]) if "plugin_perf" in results else ""
    return html + (show_one_sided(results["rma_perf"]) if "rma_perf" in results else "")


def show_one_sided(found):
    names = {"isend": "isend, irecv", "put": "put, signal"}
    rows = [[row["transport"], f"half round trip, {quantities.size(row['bytes'])}",
             *[quantities.duration(row["half_round_trip_seconds"][key]) for key in names]] for row in found["latency"]]
    rows += [[row["transport"], f"rate, {quantities.size(row['bytes'])}, {found['outstanding']} outstanding",
              *[f"{quantities.three(row['bytes_per_second'][key] / 1e9)} GB/s" for key in names]] for row in found["throughput"]]
    return ("<h3>One-sided operations</h3>\n" +
            page.note("What NCCL's put and signal take beside its isend and irecv: here each is a message, as everywhere but "
                      "between RDMA NICs.") + page.table(["transport", "", *names.values()], rows))


def show_messages(found):
    ways = {key: WAYS[key] for key in WAYS if key in found["candidates"]}
    figures, tables = [], ""
    for comms in sorted({row["comms"] for row in found["throughput"]}):
        rows = [row for row in found["throughput"] if row["comms"] == comms]
        title = f"{comms} comm" + ("s at the same time" if comms > 1 else "")
        series = [(text, css, [(row["bytes"], row["bytes_per_second"][key] / 1e9) for row in rows])
                  for key, (text, css) in ways.items()]
        figures.append(page.figure(by_size(f"{title}: rate by message size", series, "GB/s, 8 messages outstanding per comm",
                                           quantities.three), title))
        tables += f"<h3>{title}: GB/s</h3>\n" + page.table(
            ["size", *[text for text, _ in ways.values()]],
            [[quantities.size(row["bytes"]), *[quantities.three(row["bytes_per_second"][key] / 1e9) for key in ways]]
             for row in rows])
    tables += "<h3>Half round trip</h3>\n" + page.table(
        ["size", *[text for text, _ in ways.values()]],
        [[quantities.size(row["bytes"]), *[quantities.duration(row["half_round_trip_seconds"][key]) for key in ways]]
         for row in found["latency"]])
    absent = "" if "nccl-socket" in ways else page.note("NCCL's library was not found: its Socket transport is left out.")
    return page.side_by_side(figures) + absent + page.folded("Rates and times as numbers", tables)


def headline(results):
    if "plugin_perf" not in results:
        return None
    rows = [row for row in results["plugin_perf"]["throughput"] if row["bytes"] == 1 << 20 and row["comms"] == 1]
    if not rows:
        return None
    other = "nccl-socket" if "nccl-socket" in rows[0]["tombolo_over"] else "plain-each"
    return f"{rows[0]['tombolo_over'][other]:.2f} x", f"the rate of {WAYS[other][0]}, by the plugin over TCP, one comm, 1 MiB"


SECTION = Section("NCCL plugin",
                  "Through the interface by which NCCL calls it, host memory, between two processes over loopback. <i>Plain "
                  "TCP</i> goes message by message on a socket for each way, as NCCL's connections have to.", show, headline)
PARTS = [Part("plugin_perf", SECTION, "the plugin beside NCCL's Socket transport and plain TCP", 60, 4, measure, ("plugin_perf",)),
         Part("rma_perf", SECTION, "the plugin's one-sided put beside its isend and irecv", 5, 1, measure_one_sided, ("rma_perf",))]
