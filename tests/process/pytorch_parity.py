#!/usr/bin/env python3
"""Trains the same model from the same checkpoint with Tombolo and with PyTorch, and compares loss, gradient norm and
final parameters. Exit code 77 (skipped) where PyTorch is missing.

    pytorch_parity.py TOMBOLO [--ranks N] [more options of `tombolo train`]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
try:
    import torch
except ImportError as error:
    print(f"skipped: {error}; install python3-torch and libopenblas0 to compare with PyTorch")
    sys.exit(77)
from trainer_bench.job import write_text  # noqa: E402
from trainer_bench.pytorch_gpt import Gpt  # noqa: E402
from trainer_bench.pytorch_worker import Worker  # noqa: E402
torch.set_num_threads(1)

STEPS, BATCH = 30, 8
LAYERS, WIDTH, HEADS, CONTEXT = 3, 64, 4, 64
RATE, SMALLEST, DECAY, CLIP, WARMUP = 2e-3, 5e-4, 0.1, 0.8, 5


def train_with_pytorch(data, checkpoint):
    """The losses, the gradient norms before clipping, and the model at the end."""
    job = types.SimpleNamespace(device="cpu", dtype="fp32", replicas=1, compile=False, data=data, initial=checkpoint, batch=BATCH,
                                micro_batch=0, context=CONTEXT, steps=STEPS, rate=RATE, smallest_rate=SMALLEST, warmup=WARMUP,
                                weight_decay=DECAY, clip=CLIP)
    worker = Worker(job, 0)
    run = worker.train(STEPS)
    return run["losses"], run["grad_norms"], worker.model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tombolo")
    parser.add_argument("--ranks", type=int, default=1)
    arguments, more = parser.parse_known_args()
    launch = [arguments.tombolo, "run", "-n", str(arguments.ranks), "--"] if arguments.ranks > 1 else []
    with tempfile.TemporaryDirectory(prefix="tombolo-parity-") as folder:
        text, initial, final, log = (os.path.join(folder, name) for name in ["text", "init.bin", "end.bin", "log"])
        write_text(text, 40000)
        subprocess.run([arguments.tombolo, "train", "--data", text, "--init", "random:5", "--layers", str(LAYERS),
                        "--width", str(WIDTH), "--heads", str(HEADS), "--context", str(CONTEXT), "--steps", "0",
                        "--save", initial], check=True, timeout=120)
        subprocess.run([*launch, arguments.tombolo, "train", "--data", text, "--init", initial, "--batch", str(BATCH),
                        "--steps", str(STEPS), "--lr", str(RATE), "--weight-decay", str(DECAY), "--clip", str(CLIP),
                        "--warmup", str(WARMUP), "--lr-schedule", "cosine", "--lr-min", str(SMALLEST), "--log", log, "--save", final, *more],
                       check=True, timeout=240)
        ours = [json.loads(line) for line in open(log)]
        losses, norms, model = train_with_pytorch(text, initial)
        end = Gpt(final)

    assert [line["step"] for line in ours] == list(range(STEPS)), "the log does not hold every step once"
    assert any(norm > CLIP for norm in norms), "the clip never took effect: this run proves too little"
    first = abs(ours[0]["loss"] - losses[0])
    worst = max(abs(line["loss"] - loss) for line, loss in zip(ours, losses))
    apart = max(abs(line["grad_norm"] - norm) / norm for line, norm in zip(ours, norms))
    drift = max((one - other).abs().max().item() for one, other in zip(end.parameters(), model.parameters()))
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}; difference at step 0 {first:.1e}, over {STEPS} steps "
          f"{worst:.1e}; gradient norm {apart:.1e} (relative); parameters {drift:.1e}")
    assert first <= 1e-5, first
    assert worst <= 1e-4, worst
    assert apart <= 1e-3, apart
    assert drift <= 1e-2 * RATE * STEPS, drift
    assert losses[-1] < losses[0] - 1, "the loss hardly fell: this run proves too little"


if __name__ == "__main__":
    main()
