"""One connection between two processes of this host, beside plain TCP in the same run."""
import page
import quantities
from chart import by_size
from part import Part, Section

# Title; arguments of transport_perf; (name in its JSON, name on the page, css class) of each of the two compared transports.
KINDS = {
    "transport_tcp": ("TCP", ["--transport", "tcp"], (("plain", "plain TCP", "plain"), ("tombolo", "Tombolo", "ours"))),
    "transport_shm": ("Shared memory", ["--transport", "shm"],
                      (("plain", "plain TCP", "plain"), ("tombolo", "Tombolo", "ours"))),
    "transport_tls": ("TCP with TLS 1.3", ["--tls"], (("tcp", "without", "other"), ("tcp+tls", "with TLS", "ours"))),
}


def measure(options):
    return lambda programs, quick: programs.json(programs.bin / "transport_perf", *options, "--repeats", "1" if quick else "5",
                                                 "--bytes", "3e7" if quick else "2.5e8")


def show(results):
    figures, tables = [], ""
    for name, found in results.items():
        title, _, compared = KINDS[name]
        series = [(text, css, [(row["bytes"], row["bytes_per_second"][key] / 1e9) for row in found["sizes"]])
                  for key, text, css in compared]
        rate = found["memcpy_bytes_per_second"] / 1e9
        figures.append(page.figure(by_size(f"{title}: rate by message size", series, "GB/s, 8 messages outstanding",
                                           quantities.three), title,
                                   f"One thread's memcpy of 64 MiB: {quantities.three(rate)} GB/s."))
        rows = [[quantities.size(row["bytes"]),
                 *[quantities.duration(row["half_round_trip_seconds"][key]) for key, _, _ in compared],
                 *[quantities.three(row["bytes_per_second"][key] / 1e9) for key, _, _ in compared],
                 *[quantities.three(row["sender_processor_seconds_per_gb"][key]) for key, _, _ in compared]]
                for row in found["sizes"]]
        head = [f"{what}, {text}" for what in ("half round trip", "GB/s", "sender's CPU-s per GB") for _, text, _ in compared]
        tables += f"<h3>{title}</h3>\n" + page.table(["size", *head], rows)
    return page.side_by_side(figures) + page.folded("Times and rates as numbers", tables)


def headline(results):
    if "transport_shm" not in results:
        return None
    best = max(results["transport_shm"]["sizes"], key=lambda row: row["bytes_per_second"]["tombolo"])
    return (quantities.rate(best["bytes_per_second"]["tombolo"], "B/s"),
            f"through shared memory, messages of {quantities.size(best['bytes'])}")


SECTION = Section("Transports",
                  "One connection between two processes over loopback or shared memory, in turns with plain TCP (one stream, "
                  "write and read in a loop), or TLS in turns with TCP without: on a shared machine the distance between two "
                  "lines of one chart says more than their heights.", show, headline)
PARTS = [Part(name, SECTION, f"transport_perf {' '.join(options)}: {title} beside the plain way", 25, 4, measure(options),
              ("transport_perf",)) for name, (title, options, _) in KINDS.items()]
