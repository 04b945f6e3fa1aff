"""The bundled trainer beside PyTorch on a GPU, where both are."""
import functools
import html
import subprocess
import sys

import machine
import page
import quantities
from chart import bars
from part import Part, Section


@functools.cache
def why_not():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False).stdout
        if "GPU" not in listed:
            return "no GPU (nvidia-smi lists none)"
        found = subprocess.run([sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"],
                               capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.SubprocessError):
        return "no GPU (nvidia-smi cannot be run)"
    return None if found.returncode == 0 else f"{sys.executable} has no PyTorch that sees the GPU"


def measure(programs, quick):
    short = ["--rounds", "1", "--models", "124M"] if quick else []
    return programs.printed_json(sys.executable, machine.ROOT / "bench" / "trainer_gpu.py", programs.bin / "tombolo", *short)


def show(results):
    found = results["trainer_gpu"]
    figures = []
    for name, model in found["models"].items():
        rows = [(title, css, model[key]["tokens_per_second"])
                for key, title, css in (("tombolo", "Tombolo's trainer", "ours"), ("pytorch", "PyTorch", "plain"))]
        shares = [model[key]["model_flops_utilization"] for key in ("tombolo", "pytorch")]
        utilization = f" MFU {shares[0]:.1%} and {shares[1]:.1%}." if None not in shares else ""
        text = (f"GPT-2 of {name}, bf16, batch {model['batch']} in micro-batches of {model['micro_batch']}: {model['ratio']} "
                f"times the tokens per second of PyTorch {html.escape(found['pytorch'])}.{utilization}")
        figures.append(page.figure(bars("Tokens per second", rows, lambda value: quantities.rate(value, "tokens/s")),
                                   f"GPT-2 {name} on one {html.escape(found['gpu'])}", text))
    return page.side_by_side(figures)


def headline(results):
    found = results["trainer_gpu"]
    name, model = next(iter(found["models"].items()))
    return f"{model['ratio']:.2f} x", f"the bundled trainer's tokens per second beside PyTorch's on one GPU, GPT-2 {name}"


SECTION = Section("Trainer on a GPU", "The bundled trainer and PyTorch (torch.compile, its fastest attention) with the same model, "
                  "text and batches, in turns on one GPU.", show, headline)
PARTS = [Part("trainer_gpu", SECTION, "the bundled trainer beside PyTorch on a GPU", 900, 240, measure, ("tombolo",), why_not)]
