"""Runs micro_bench, and computes medians over its repetitions."""
import json
import pathlib
import statistics
import subprocess
import tempfile

import quantities

NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
RATES = ("GFLOP/s", "bytes_per_second", "items_per_second")


def command(program, pattern, repetitions, min_time):
    """Repetitions of all benchmarks are mixed, so that a busy minute of the machine affects all of them alike. Times are processor
    time, which other processes disturb less than elapsed time."""
    return [str(program), f"--benchmark_filter={pattern}", f"--benchmark_repetitions={repetitions}",
            f"--benchmark_min_time={min_time}", "--benchmark_enable_random_interleaving=true",
            "--benchmark_out_format=json"]


def run_alone(words):
    subprocess.run(words, capture_output=True, text=True, check=True)  # its table of every repetition is not shown


def measure(program, pattern=".", repetitions=9, min_time=0.02, run=run_alone):
    """Medians by benchmark: {"nanoseconds", "spread", and a rate where the benchmark has one}. `spread` is half the width of the
    middle half of the repetitions, over the median. `run` runs a command and raises where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "micro.json"
        run([*command(program, pattern, repetitions, min_time), f"--benchmark_out={file}"])
        return medians(json.loads(file.read_text(encoding="utf-8")))


def medians(output):
    """The same, from the JSON of Google Benchmark; in the order in which the benchmarks are registered."""
    runs_in_order = sorted((one for one in output["benchmarks"] if one["run_type"] == "iteration"),
                           key=lambda one: (one["family_index"], one["per_family_instance_index"]))
    repeated = {}
    for one in runs_in_order:
        repeated.setdefault(one["run_name"], []).append(one)
    found = {}
    for name, runs in repeated.items():
        times = [one["cpu_time"] * NANOSECONDS[one["time_unit"]] for one in runs]
        found[name] = {"nanoseconds": _short(statistics.median(times)), "spread": _spread(times)}
        for key in RATES:
            if all(key in one for one in runs):
                found[name][key] = _short(statistics.median(one[key] for one in runs))
    return found


def rate(entry):
    """The rate of a median as text; empty where it has none."""
    if "GFLOP/s" in entry:
        return f"{quantities.three(entry['GFLOP/s'])} GFLOP/s"
    if "bytes_per_second" in entry:
        return quantities.rate(entry["bytes_per_second"], "B/s")
    return quantities.rate(entry["items_per_second"], "values/s") if "items_per_second" in entry else ""


def _short(value):
    """A number with its significant digits."""
    return float(f"{value:.4g}")


def _spread(times):
    if len(times) < 4:
        return None
    low, middle, high = statistics.quantiles(times, n=4)
    return round((high - low) / 2 / middle, 3)
