"""PyTorch's distributed package over the plugin: two ranks on one GPU, an all-reduce, steps of DDP and FSDP, and a pipeline of two stages.

With --device cpu the same over Gloo, to try the script where there is no GPU."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

RANKS = 2


def all_reduce(torch, dist, rank, device, results):
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):  # not every Gloo sums bfloat16
        for count in (1, 1000, 1 << 18, 1 << 22):
            base = torch.arange(count, device=device, dtype=torch.int32) % 13
            tensor = (base + rank).to(dtype)
            dist.all_reduce(tensor)
            if not torch.equal(tensor, (base * RANKS + sum(range(RANKS))).to(dtype)):
                raise SystemExit(f"rank {rank}: all_reduce of {count} x {dtype} is wrong")
            wait = torch.cuda.synchronize if device == "cuda" else lambda: None
            wait()
            seconds = []
            for _ in range(5):
                started = time.perf_counter()
                dist.all_reduce(tensor)
                wait()
                seconds.append(time.perf_counter() - started)
            results.append({"test": "torch_all_reduce", "type": str(dtype).removeprefix("torch."),
                            "bytes": count * tensor.element_size(), "ranks": RANKS, "rounds": len(seconds),
                            "median_us": round(statistics.median(seconds) * 1e6, 1), "correct": True})


def network(torch, device):
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)


def batch(torch, device):
    torch.manual_seed(11)
    return torch.randn(64, 32).to(device), torch.randn(64, 1).to(device)


def step(torch, net, x, y):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()


def compare(rank, what, ours, alone, results):
    """With what one rank alone makes of the whole batch."""
    worst = max((a - b).abs().max().item() for a, b in zip(ours, alone))
    if not worst < 1e-5:
        raise SystemExit(f"rank {rank}: {what} differs from one rank's by {worst}")
    results.append({"test": what, "ranks": RANKS, "largest_difference": worst, "correct": True})


def mine(rank, rows):
    half = len(rows) // RANKS
    return rows[rank * half:(rank + 1) * half]


def ddp_step(torch, rank, device, results):
    """Two ranks with half of the batch each must make the step that one rank makes with all of it."""
    x, y = batch(torch, device)
    alone = network(torch, device)
    shared = torch.nn.parallel.DistributedDataParallel(network(torch, device), device_ids=[0] if device == "cuda" else None)
    step(torch, alone, x, y)
    step(torch, shared, mine(rank, x), mine(rank, y))
    compare(rank, "torch_ddp_step", shared.parameters(), alone.parameters(), results)


def fsdp_step(torch, rank, device, results):
    """The same with parameters, gradients and optimizer in shards: all-gathers and reduce-scatters."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        print(f"torch_two_ranks: no step of FSDP: PyTorch {torch.__version__} has no fully_shard", file=sys.stderr)
        return
    from torch.distributed.fsdp import fully_shard
    x, y = batch(torch, device)
    alone, shared = network(torch, device), network(torch, device)
    for layer in shared:
        fully_shard(layer)
    fully_shard(shared)
    step(torch, alone, x, y)
    step(torch, shared, mine(rank, x), mine(rank, y))
    compare(rank, "torch_fsdp_step", [p.full_tensor() for p in shared.parameters()], alone.parameters(), results)


def pipeline_step(torch, dist, rank, device, results):
    """Two stages and four micro-batches: activations go on to rank 1, their gradients come back."""
    parts = 4
    x, y = batch(torch, device)
    alone, stage = network(torch, device), network(torch, device)[:2] if rank == 0 else network(torch, device)[2:]
    step(torch, alone, x, y)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    kept = []
    for inputs, targets in zip(x.chunk(parts), y.chunk(parts)):
        if rank == 0:
            kept.append(stage(inputs))
            dist.send(kept[-1].detach(), 1)
        else:
            activations = torch.empty(len(targets), 64, device=device)
            dist.recv(activations, 0)
            activations.requires_grad_()
            (torch.nn.functional.mse_loss(stage(activations), targets) / parts).backward()
            kept.append(activations.grad)
    for one in kept:
        if rank == 0:
            gradient = torch.empty_like(one)
            dist.recv(gradient, 1)
            one.backward(gradient)
        else:
            dist.send(one, 0)
    optimizer.step()
    of_stage = list((alone[:2] if rank == 0 else alone[2:]).parameters())
    compare(rank, "torch_pipeline_step", stage.parameters(), of_stage, results)


def run_rank(rank, device, path):
    import torch
    import torch.distributed as dist
    if device == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", rank=rank, world_size=RANKS)
    results = []
    all_reduce(torch, dist, rank, device, results)
    ddp_step(torch, rank, device, results)
    fsdp_step(torch, rank, device, results)
    pipeline_step(torch, dist, rank, device, results)
    dist.barrier(device_ids=[0] if device == "cuda" else None)
    dist.destroy_process_group()
    if rank == 0:
        with open(path, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True, help="JSON lines are appended here")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rank", type=int, help="internal: be this rank")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments.rank, arguments.device, arguments.results)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        # A host of its own for each rank: NCCL refuses two ranks of one host on one GPU.
        environment = dict(os.environ, NCCL_HOSTID=f"tombolo-test-host-{rank}", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
        ranks.append(subprocess.Popen([sys.executable, __file__, "--results", arguments.results, "--device", arguments.device,
                                       "--rank", str(rank)], env=environment))
    deadline = time.monotonic() + 80
    status = 0
    while ranks and time.monotonic() < deadline and status == 0:
        for rank in list(ranks):
            if rank.poll() is not None:
                ranks.remove(rank)
                status = status or rank.returncode
        time.sleep(0.05)
    for rank in ranks:
        print(f"torch_two_ranks: process {rank.pid} killed: the other failed or 80 s passed", file=sys.stderr)
        rank.kill()
        rank.wait()
        status = status or 1
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
