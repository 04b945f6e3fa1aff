#!/usr/bin/env python3
"""Tokens per second, and the share of the data sheet's FLOP/s (MFU), of `tombolo train --device cuda` and of PyTorch on one GPU:
GPT-2 of 124M and of 1.5B parameters in bf16, the same shape, text, batches and optimizer, in turns. PyTorch runs
torch.compile, autocast, its fastest scaled_dot_product_attention and fused AdamW. Prints one JSON object.
Exit code 77 (skipped), with the reason, where no GPU or no PyTorch that sees it is there.

    trainer_gpu.py TOMBOLO [--models 124M 1.5B] [--rounds 2] [--steps 12]
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Rows of a micro-batch are as many as 80 GB hold of either.
MODELS = {"124M": dict(layers=12, width=768, heads=12, context=1024, vocabulary=50257, batch=64, micro_batch=32),
          "1.5B": dict(layers=48, width=1600, heads=25, context=1024, vocabulary=50257, batch=32, micro_batch=4)}
# Dense bf16 by NVIDIA's data sheets; trainer/cuda/data_sheet.cpp names them.
PEAKS = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989.4e12, "H200": 989.4e12, "B200": 2250e12, "A100": 312e12}
SKIPPED = 77
WARM_UP = 4  # steps in which kernels are compiled, loaded and chosen


def flops_per_token(model):
    """Of forward and backward: 6 per parameter that a product reads, and of attention's two products the half that the mask
    leaves (Chowdhery et al., "PaLM", appendix B, but for the mask)."""
    weights = model["layers"] * 12 * model["width"] ** 2 + model["vocabulary"] * model["width"]
    return 6 * weights + 6 * model["layers"] * model["width"] * model["context"]


def write_text(path, size):
    words = [bytes(97 + (7 * i + 3 * j) % 26 for j in range(2 + i % 6)) for i in range(997)]
    text, state = bytearray(), 1
    while len(text) < size:
        state = (state * 1103515245 + 12345) % 2 ** 31
        text += words[state // 65536 % 997] + b" "
    path.write_bytes(text[:size])


def tombolo_run(program, model, data, steps, folder):
    log = folder / "log"
    command = [program, "train", "--device", "cuda", "--dtype", "bf16", "--data", data, "--init", "random:1", "--steps",
               str(steps), "--clip", "1", "--lr", "0.0003", "--weight-decay", "0.1", "--log", str(log)]
    for name in ("layers", "width", "heads", "context", "vocabulary", "batch", "micro_batch"):
        command += ["--" + name.replace("_", "-"), str(model[name])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"trainer_gpu.py: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.unlink()
    return {"rates": [line["tokens_per_second"] for line in lines[WARM_UP:]], "losses": [line["loss"] for line in lines]}


def pytorch_run(model, data, steps):
    """In a process of its own, so that neither holds memory that the other needs."""
    done = subprocess.run([sys.executable, __file__, "--be-pytorch", json.dumps(dict(model, data=data, steps=steps))],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"trainer_gpu.py: PyTorch failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def be_pytorch(job):
    import torch
    from torch import nn
    from torch.nn import functional as F
    width, heads, context = job["width"], job["heads"], job["context"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp, self.mlp_projection = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows = x.shape[0]
            q, k, v = (part.view(rows, context, heads, width // heads).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(width, 2))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(attended.transpose(1, 2).reshape(rows, context, width))
            return x + self.mlp_projection(F.gelu(self.mlp(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            padded = (job["vocabulary"] + 127) // 128 * 128
            self.tokens, self.positions = nn.Embedding(padded, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(job["layers"])), nn.LayerNorm(width)
            for name, tensor in self.named_parameters():
                if tensor.dim() > 1:
                    residual = name.endswith(("projection.weight",))
                    nn.init.normal_(tensor, std=0.02 / math.sqrt(2 * job["layers"]) if residual else 0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(tensor)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            scores = F.linear(self.norm(x), self.tokens.weight)[..., :job["vocabulary"]]
            return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt().cuda()
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    compiled = torch.compile(model)
    text = torch.frombuffer(bytearray(pathlib.Path(job["data"]).read_bytes()), dtype=torch.uint8)
    parts = job["batch"] // job["micro_batch"]
    rates, losses = [], []
    for step in range(job["steps"]):
        begin = time.perf_counter()
        total = 0
        for part in range(parts):
            first = step * job["batch"] + part * job["micro_batch"]
            rows = torch.stack([text[start:start + context + 1] for start in
                                ((first + row) * context % (len(text) - context - 1)
                                 for row in range(job["micro_batch"]))]).long().pin_memory().cuda(non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(rows[:, :-1].contiguous(), rows[:, 1:].contiguous()) / parts
            loss.backward()
            total = total + loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total.item())  # waits for the GPU
        rates.append(job["batch"] * context / (time.perf_counter() - begin))
    print(json.dumps({"rates": rates[WARM_UP:], "losses": losses, "version": torch.__version__,
                      "gpu": torch.cuda.get_device_name(), "memory": torch.cuda.max_memory_allocated()}))


def reason_to_skip():
    try:
        done = subprocess.run([sys.executable, "-c", "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"],
                              capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return {0: None, 3: "PyTorch sees no GPU"}.get(done.returncode, f"{sys.executable} has no PyTorch")


def summary(model, runs, peak):
    rate = statistics.median(statistics.median(run["rates"]) for run in runs)
    return {"tokens_per_second": round(rate),
            "model_flops_utilization": round(rate * flops_per_token(model) / peak, 4) if peak else None,
            "first_loss": runs[0]["losses"][0], "last_loss": runs[0]["losses"][-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tombolo", nargs="?")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--be-pytorch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be_pytorch:
        return be_pytorch(json.loads(arguments.be_pytorch))
    if not arguments.tombolo:
        parser.error("which program is `tombolo`?")
    if arguments.steps <= WARM_UP:
        parser.error(f"--steps must be above {WARM_UP}: so many only warm up")
    reason = reason_to_skip()
    if reason:
        print(f"trainer_gpu.py: skipped: {reason}", file=sys.stderr)
        return SKIPPED
    result = {"models": {}, "rounds": arguments.rounds, "steps": arguments.steps}
    with tempfile.TemporaryDirectory(prefix="tombolo-bench-") as folder:
        folder = pathlib.Path(folder)
        data = folder / "text"
        write_text(data, 4 << 20)
        for name in arguments.models:
            model, ours, theirs = MODELS[name], [], []
            for _ in range(arguments.rounds):
                ours.append(tombolo_run(arguments.tombolo, model, str(data), arguments.steps, folder))
                theirs.append(pytorch_run(model, str(data), arguments.steps))
            gpu = theirs[0]["gpu"]
            peak = next((value for key, value in PEAKS.items() if key in gpu), None)
            found = {"tombolo": summary(model, ours, peak), "pytorch": summary(model, theirs, peak)}
            found["ratio"] = round(found["tombolo"]["tokens_per_second"] / found["pytorch"]["tokens_per_second"], 3)
            result["models"][name] = dict(model, **found)
            result |= {"gpu": gpu, "peak": peak, "pytorch": theirs[0]["version"],
                       "attention": os.environ.get("TOMBOLO_CUDA_ATTENTION", "auto")}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
