"""Gathers the results of tests/gpu/run.sh into gpu.json and prints them as a table."""
import argparse
import ctypes
import datetime
import json
import os
import platform
import re
import subprocess
import sys

# Of NCCL. In the staged ones NCCL's buffers lie in GPU memory, and the plugin copies.
CASES = ("tombolo", "tombolo_4_ranks", "socket", "tombolo_shm", "tombolo_tuned", "torch", "tombolo_staged", "tombolo_shm_staged", "torch_staged")
ENGINE = ("engine", "engine_messages", "engine_gpu_reduce")  # its collectives on GPU memory
# Of the trainer's CUDA back end; and of the engine's reductions.
KERNELS = ("kernels", "kernels_memcheck", "kernels_racecheck", "kernels_synccheck", "kernels_reduction")
# Whole runs of it: ranks that share the GPU, whose gradients the engine sums or NCCL; and ranks with a GPU each.
TRAINER = ("trainer_2_ranks", "trainer_4_ranks", "trainer_nccl_2_ranks", "trainer_nccl_4_ranks", "trainer_nccl",
           "trainer_timeline")


def nvidia_smi(field):
    done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"], capture_output=True,
                          text=True)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else "unknown"


def cuda_of_driver():
    done = subprocess.run(["nvidia-smi"], capture_output=True, text=True)
    found = re.search(r"CUDA Version:\s*([\d.]+)", done.stdout)
    return found.group(1) if found else "unknown"


def nccl_version(path):
    version = ctypes.c_int()
    try:
        if ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version)) != 0:
            return "unknown"
    except OSError:
        return "unknown"
    return f"{version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"


def torch_version():
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                          text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def read(path):
    return open(path, errors="replace").read() if os.path.exists(path) else ""


def plugin_lines(log):
    """The line in which the plugin names itself, and one that states a route."""
    lines = [line.split("NCCL INFO ", 1)[-1].strip() for line in log.splitlines()
             if "NET/Tombolo :" in line and ": library " not in line]  # which names a path of that machine
    return lines[:2]


def of_kernels(status, results):
    """Hundreds of cases: how many were right, which were not, and how long each took (under a tool much longer)."""
    return {"status": status, "cases": len(results), "right": sum(line["correct"] for line in results),
            "wrong": [line for line in results if not line["correct"]],
            "device": next((line["case"] for line in results if line["test"] == "device"), None),
            "microseconds": {line["case"]: line["us"] for line in results if "us" in line}}


def table(cases):
    sizes = {}
    for name in CASES:
        for line in cases[name]["results"]:
            if "median_us" in line:
                sizes.setdefault((line["test"], line["type"], line["bytes"]), {})[name] = line["median_us"]
    print(f"\n{'test':18}{'type':10}{'bytes':>10}{'Tombolo us':>14}{'Socket us':>14}{'ratio':>8}{'staged us':>14}")
    for (test, kind, size), medians in sizes.items():
        ours, theirs = medians.get("tombolo", medians.get("torch")), medians.get("socket")
        staged = medians.get("tombolo_staged", medians.get("torch_staged"))
        ratio = f"{ours / theirs:8.2f}" if ours and theirs else f"{'-':>8}"
        show = lambda value: f"{value:14.1f}" if value else f"{'-':>14}"
        print(f"{test:18}{kind:10}{size:>10}{show(ours)}{show(theirs)}{ratio}{show(staged)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "out", "commit", "nccl"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--asked", required=True, help="groups or cases, with commas between")
    arguments = parser.parse_args()

    cases = {}
    for name in CASES + ENGINE + KERNELS + TRAINER:
        log = read(f"{arguments.work}/{name}.log")
        results = [json.loads(line) for line in read(f"{arguments.work}/{name}.jsonl").splitlines()]
        status = read(f"{arguments.work}/{name}.status").strip() or "not run"
        cases[name] = of_kernels(status, results) if name in KERNELS else {"status": status, "results": results}
        if name in CASES:
            cases[name]["channels"] = len(re.findall(r"via NET/", log))
        if name in CASES and name != "socket":
            cases[name]["plugin_says"] = plugin_lines(log)
    passed = all(case["status"] in ("passed", "skipped") for case in cases.values())
    groups = {"nccl": CASES, "engine": ENGINE, "kernels": KERNELS, "trainer": TRAINER}
    for one in arguments.asked.split(","):  # of each something must have run
        passed = passed and any(cases.get(name, {}).get("status") == "passed" for name in groups.get(one, (one,)))
    report = {
        "what": f"real NCCL, {arguments.ranks} ranks as processes that share one GPU by time slices, over loopback: "
                "correctness over the plugin; times only compare plugins within this file. The engine's "
                "collectives on GPU memory. And every operation of the "
                "trainer's CUDA back end, and runs of several ranks, against the CPU",
        "passed": passed,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": arguments.commit,
        "hardware": {"gpu": nvidia_smi("name"), "memory": nvidia_smi("memory.total"), "processor": processor(),
                     "cores": os.cpu_count(), "kernel": platform.release()},
        "software": {"driver": nvidia_smi("driver_version"), "cuda_of_driver": cuda_of_driver(),
                     "nccl": nccl_version(arguments.nccl), "torch": torch_version()},
        "cases": cases,
    }
    with open(arguments.out, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    table(cases)
    for name in ENGINE:
        print(f"{name}: {cases[name]['status']}, {len(cases[name]['results'])} calls")
    for name in KERNELS:
        print(f"{name}: {cases[name]['status']}, {cases[name]['right']} of {cases[name]['cases']} cases right")
    for name in TRAINER:
        results = cases[name]["results"]
        print(f"{name}: {cases[name]['status']}, {sum(line['correct'] for line in results)} of {len(results)} cases right")
    print(f"\n{'PASSED' if passed else 'FAILED'}; {arguments.out}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
