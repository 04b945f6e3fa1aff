#!/usr/bin/env python3
"""Trains the same model from the same checkpoint with Tombolo and with PyTorch, and compares loss, gradient norm and
final parameters. Exit code 77 (skipped) where PyTorch is missing.

    pytorch_parity.py TOMBOLO [--ranks N] [more options of `tombolo train`]
"""
import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}; install python3-torch and libopenblas0 to compare with PyTorch")
    sys.exit(77)
torch.set_num_threads(1)

STEPS, BATCH = 30, 8
LAYERS, WIDTH, HEADS, CONTEXT = 3, 64, 4, 64
RATE, DECAY, CLIP, WARMUP = 2e-3, 0.1, 0.8, 5
NAMES = ["wte", "wpe", "ln1w", "ln1b", "qkvw", "qkvb", "attprojw", "attprojb", "ln2w", "ln2b", "fcw", "fcb",
         "fcprojw", "fcprojb", "lnfw", "lnfb"]
MATRICES = {"wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw"}


def write_text(path):
    chance = random.Random(11)
    words = ["".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chance.randint(2, 8)))
             for _ in range(60)]
    with open(path, "w") as file:
        while file.tell() < 40000:
            file.write(chance.choice(words) + chance.choice(["  ", " ", ", ", ".\n"]))


def read_checkpoint(path):
    with open(path, "rb") as file:
        magic, version, context, vocabulary, layers, heads, width, padded = struct.unpack("<8i", file.read(1024)[:32])
        values = np.fromfile(file, dtype="<f4")
    assert (magic, version) == (20240326, 3), (magic, version)
    shapes = {"wte": (padded, width), "wpe": (context, width), "ln1w": (layers, width), "ln1b": (layers, width),
              "qkvw": (layers, 3 * width, width), "qkvb": (layers, 3 * width), "attprojw": (layers, width, width),
              "attprojb": (layers, width), "ln2w": (layers, width), "ln2b": (layers, width),
              "fcw": (layers, 4 * width, width), "fcb": (layers, 4 * width), "fcprojw": (layers, width, 4 * width),
              "fcprojb": (layers, width), "lnfw": (width,), "lnfb": (width,)}
    tensors, at = {}, 0
    for name in NAMES:
        count = math.prod(shapes[name])
        tensors[name] = torch.from_numpy(values[at:at + count].reshape(shapes[name]).copy()).requires_grad_()
        at += count
    assert at == values.size, (at, values.size)
    return tensors, vocabulary, layers, heads


def scores(p, tokens, vocabulary, layers, heads):
    rows, context = tokens.shape
    width = p["wte"].shape[1]
    mask = torch.full((context, context), float("-inf")).triu(1)
    x = p["wte"][tokens] + p["wpe"][:context]
    for layer in range(layers):
        normal = F.layer_norm(x, (width,), p["ln1w"][layer], p["ln1b"][layer], 1e-5)
        qkv = F.linear(normal, p["qkvw"][layer], p["qkvb"][layer])
        q, k, v = (part.view(rows, context, heads, width // heads).transpose(1, 2) for part in qkv.split(width, 2))
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(width // heads) + mask, -1)
        attended = (weights @ v).transpose(1, 2).reshape(rows, context, width)
        x = x + F.linear(attended, p["attprojw"][layer], p["attprojb"][layer])
        normal = F.layer_norm(x, (width,), p["ln2w"][layer], p["ln2b"][layer], 1e-5)
        hidden = F.gelu(F.linear(normal, p["fcw"][layer], p["fcb"][layer]), approximate="tanh")
        x = x + F.linear(hidden, p["fcprojw"][layer], p["fcprojb"][layer])
    x = F.layer_norm(x, (width,), p["lnfw"], p["lnfb"], 1e-5)
    return F.linear(x, p["wte"][:vocabulary])


def train_with_pytorch(data_path, checkpoint):
    p, vocabulary, layers, heads = read_checkpoint(checkpoint)
    optimizer = torch.optim.AdamW(
        [{"params": [p[n] for n in NAMES if n in MATRICES], "weight_decay": DECAY},
         {"params": [p[n] for n in NAMES if n not in MATRICES], "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    data = open(data_path, "rb").read()
    history = []
    for step in range(STEPS):
        starts = [((step * BATCH + row) * CONTEXT) % (len(data) - CONTEXT - 1) for row in range(BATCH)]
        rows = torch.tensor([list(data[start:start + CONTEXT + 1]) for start in starts])
        loss = F.cross_entropy(scores(p, rows[:, :-1], vocabulary, layers, heads).reshape(-1, vocabulary),
                               rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARMUP)
        optimizer.step()
        history.append((loss.item(), norm.item()))
    return history, p


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tombolo")
    parser.add_argument("--ranks", type=int, default=1)
    arguments, more = parser.parse_known_args()
    launch = [arguments.tombolo, "run", "-n", str(arguments.ranks), "--"] if arguments.ranks > 1 else []
    with tempfile.TemporaryDirectory(prefix="tombolo-parity-") as folder:
        text, initial, final, log = (os.path.join(folder, name) for name in ["text", "init.bin", "end.bin", "log"])
        write_text(text)
        subprocess.run([arguments.tombolo, "train", "--data", text, "--init", "random:5", "--layers", str(LAYERS),
                        "--width", str(WIDTH), "--heads", str(HEADS), "--context", str(CONTEXT), "--steps", "0",
                        "--save", initial], check=True, timeout=120)
        subprocess.run([*launch, arguments.tombolo, "train", "--data", text, "--init", initial, "--batch", str(BATCH),
                        "--steps", str(STEPS), "--lr", str(RATE), "--weight-decay", str(DECAY), "--clip", str(CLIP),
                        "--warmup", str(WARMUP), "--log", log, "--save", final, *more],
                       check=True, timeout=240)
        ours = [json.loads(line) for line in open(log)]
        theirs, parameters = train_with_pytorch(text, initial)
        end = read_checkpoint(final)[0]

    assert [line["step"] for line in ours] == list(range(STEPS)), "the log does not hold every step once"
    assert any(norm > CLIP for _, norm in theirs), "the clip never took effect: this run proves too little"
    first = abs(ours[0]["loss"] - theirs[0][0])
    worst = max(abs(line["loss"] - loss) for line, (loss, _) in zip(ours, theirs))
    norms = max(abs(line["grad_norm"] - norm) / norm for line, (_, norm) in zip(ours, theirs))
    drift = max((end[name] - parameters[name]).abs().max().item() for name in NAMES)
    print(f"loss {theirs[0][0]:.4f} to {theirs[-1][0]:.4f}; difference at step 0 {first:.1e}, over {STEPS} steps "
          f"{worst:.1e}; gradient norm {norms:.1e} (relative); parameters {drift:.1e}")
    assert first <= 1e-5, first
    assert worst <= 1e-4, worst
    assert norms <= 1e-3, norms
    assert drift <= 1e-2 * RATE * STEPS, drift
    assert theirs[-1][0] < theirs[0][0] - 1, "the loss hardly fell: this run proves too little"


if __name__ == "__main__":
    main()
