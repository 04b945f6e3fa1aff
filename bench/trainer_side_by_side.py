#!/usr/bin/env python3
"""Tokens per second of one Tombolo rank and of PyTorch on the same model, in turns on the same machine: ratios carry to
other machines, absolute times do not. One thread each. PyTorch is the one of the Python that runs this: PyPI's is a peer; Debian's
multiplies matrices many times slower unless libopenblas0 is there too. Prints one JSON object.

    trainer_side_by_side.py TOMBOLO [--rounds 5] [--layers 4] [--width 128] [--context 128] [--batch 8] [--steps 30]
                            [--dtype fp32|bf16]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "process"))
import pytorch_parity as peer  # noqa: E402  (sets one thread; leaves with 77 where PyTorch is missing)
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402


# A PyTorch that is many times slower makes fewer steps in a round.
MOST_SECONDS, LEAST_STEPS = 10, 3


class PyTorch:
    """Keeps its model from round to round, so that only steps are timed."""

    def __init__(self, checkpoint, data, context, batch, dtype):
        self.tensors, self.vocabulary, self.layers, self.heads = peer.read_checkpoint(checkpoint)
        self.optimizer = torch.optim.AdamW(list(self.tensors.values()), lr=1e-3, betas=(0.9, 0.95), foreach=True)
        self.data, self.context, self.batch, self.dtype = data, context, batch, dtype

    def step(self, step):
        starts = [((step * self.batch + row) * self.context) % (len(self.data) - self.context - 1)
                  for row in range(self.batch)]
        rows = torch.stack([torch.frombuffer(self.data, dtype=torch.uint8, count=self.context + 1, offset=start)
                            for start in starts]).long()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bf16"):
            found = peer.scores(self.tensors, rows[:, :-1], self.vocabulary, self.layers, self.heads)
        loss = F.cross_entropy(found.float().reshape(-1, self.vocabulary), rows[:, 1:].reshape(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.tensors.values()), 1.0)
        self.optimizer.step()


def tombolo_rates(program, data, checkpoint, batch, steps, dtype, folder):
    log = os.path.join(folder, "log")
    subprocess.run([program, "train", "--data", data, "--init", checkpoint, "--batch", str(batch), "--steps",
                    str(steps), "--clip", "1", "--lr", "0.001", "--dtype", dtype, "--log", log], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line)["tokens_per_second"] for line in open(log)]


def products_per_second(width, tokens):
    """FLOP/s that PyTorch attains in the MLP's first product, which shows how well its BLAS uses this processor."""
    left, right = torch.randn(tokens, width), torch.randn(4 * width, width)
    rates = []
    for _ in range(10):
        begin = time.perf_counter()
        torch.mm(left, right.t())
        rates.append(2 * tokens * 4 * width * width / (time.perf_counter() - begin))
    return statistics.median(rates)


def pytorch_rates(model, steps):
    rates = []
    end = time.monotonic() + MOST_SECONDS
    for step in range(steps):
        if len(rates) >= LEAST_STEPS and time.monotonic() > end:
            break
        begin = time.perf_counter()
        model.step(step)
        rates.append(model.batch * model.context / (time.perf_counter() - begin))
    return rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tombolo")
    for name, value in [("rounds", 5), ("layers", 4), ("width", 128), ("heads", 4), ("context", 128), ("batch", 8),
                        ("steps", 30)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="of matrix products; bf16 by torch.autocast in PyTorch")
    arguments = parser.parse_args()
    medians = {"tombolo": [], "pytorch": []}
    best = {"tombolo": 0.0, "pytorch": 0.0}
    with tempfile.TemporaryDirectory(prefix="tombolo-bench-") as folder:
        data, checkpoint = os.path.join(folder, "text"), os.path.join(folder, "model")
        peer.write_text(data)
        subprocess.run([arguments.tombolo, "train", "--data", data, "--steps", "0", "--save", checkpoint, "--layers",
                        str(arguments.layers), "--width", str(arguments.width), "--heads", str(arguments.heads),
                        "--context", str(arguments.context)], check=True, stdout=subprocess.DEVNULL)
        model = PyTorch(checkpoint, bytearray(open(data, "rb").read()), arguments.context, arguments.batch,
                        arguments.dtype)
        pytorch_rates(model, 3)
        for _ in range(arguments.rounds):
            rounds = {"tombolo": tombolo_rates(arguments.tombolo, data, checkpoint, arguments.batch, arguments.steps,
                                               arguments.dtype, folder),
                      "pytorch": pytorch_rates(model, arguments.steps)}
            for name, rates in rounds.items():
                medians[name].append(statistics.median(rates))
                best[name] = max(best[name], max(rates))
    result = {name: {"median_tokens_per_second": round(statistics.median(values)),
                     "best_step_tokens_per_second": round(best[name])} for name, values in medians.items()}
    result["ratio_of_medians"] = round(statistics.median(
        ours / theirs for ours, theirs in zip(medians["tombolo"], medians["pytorch"])), 2)
    result["pytorch"] |= {"version": torch.__version__,
                          "matrix_product_flops_per_second": round(products_per_second(arguments.width,
                                                                                       arguments.batch * arguments.context))}
    result["model"] = {name: getattr(arguments, name) for name in ["layers", "width", "heads", "context", "batch", "dtype"]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
