"""Real NCCL over the plugin, where there is a GPU."""
import json
import pathlib
import tempfile

import machine
import page
import quantities
from chart import by_size
from part import Part, Section

CASES = {"tombolo": ("Tombolo", "ours"), "socket": ("NCCL Socket", "other")}


def measure(programs, quick):
    del quick  # its duration cannot be reduced
    with tempfile.TemporaryDirectory() as folder:
        programs.run([machine.ROOT / "tests" / "gpu" / "run.sh", "--build-dir", programs.bin.parent, "--out", folder,
                      "--cases", "nccl"])
        return json.loads((pathlib.Path(folder) / "gpu.json").read_text(encoding="utf-8"))


def show(results):
    cases = results["gpu"]["cases"]
    figures = []
    for test in ("all_reduce", "send_receive"):
        series = []
        for key, (text, css) in CASES.items():
            points = [(row["bytes"], row["median_us"]) for row in cases.get(key, {}).get("results", [])
                      if row.get("test") == test and row.get("type") == "f32"]
            if points:
                series.append((text, css, points))
        if series:
            title = test.replace("_", " ")
            figures.append(page.figure(by_size(f"{title}: time by message size", series, "median time, us",
                                               quantities.three), title))
    return page.side_by_side(figures)


SECTION = Section("NCCL on a GPU",
                  "Two ranks as processes that share one GPU by time slices, over loopback: the times only compare the two "
                  "ways.", show)
PARTS = [Part("gpu", SECTION, "real NCCL over the plugin, beside its Socket transport", 150, 150, measure,
              ("nccl_two_ranks",), machine.why_no_gpu)]
