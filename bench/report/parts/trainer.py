"""The bundled trainer beside PyTorch."""
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
def python_with_torch():
    """An interpreter that has PyTorch: this one, or Debian's; None where neither has."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=120, check=True)
            return python
        except (OSError, subprocess.SubprocessError):
            pass
    return None


def why_not():
    return None if python_with_torch() else "no Python here has PyTorch (python3-torch)"


def measure(programs, quick):
    short = ["--rounds", "1", "--steps", "5", "--layers", "2"] if quick else ["--rounds", "5"]
    return programs.printed_json(python_with_torch(), machine.ROOT / "bench" / "trainer_side_by_side.py",
                                 programs.bin / "tombolo", *short)


def show(results):
    found = results["trainer"]
    rows = [(title, css, found[key]["median_tokens_per_second"])
            for key, title, css in (("tombolo", "Tombolo's trainer", "ours"), ("pytorch", "PyTorch", "plain"))]
    model = found["model"]
    text = (f"GPT of {model['layers']} layers, width {model['width']}, {model['heads']} heads, context {model['context']}, batch "
            f"{model['batch']}. Median of rounds in turns: {found['ratio_of_medians']} times the tokens per second of {peer(found)}.")
    return page.side_by_side([page.figure(bars("Tokens per second", rows, lambda value: quantities.rate(value, "tokens/s")),
                                          "Tokens per second, one rank of one thread", text)])


def peer(found):
    """Adds a note on the quality of the peer: a PyTorch without a BLAS for this processor is many times slower."""
    rate = quantities.three(found["pytorch"]["matrix_product_flops_per_second"] / 1e9)
    return f"PyTorch {html.escape(found['pytorch']['version'])}, whose matrix products attain {rate} GFLOP/s"


def headline(results):
    found = results["trainer"]
    return f"{found['ratio_of_medians']:.2f} x", f"the bundled trainer's tokens per second beside {peer(found)}; one thread"


SECTION = Section("Trainer", "One rank of the bundled trainer and PyTorch on the same model and text, one thread each.", show,
                  headline)
PARTS = [Part("trainer", SECTION, "the bundled trainer beside PyTorch", 40, 10, measure, ("tombolo",), why_not)]
