"""PyTorch's distributed package over the plugin: two ranks on one GPU, an all-reduce and a step of DDP."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

RANKS = 2


def all_reduce(torch, dist, rank, results):
    for dtype in (torch.float32, torch.bfloat16):
        for count in (1, 1000, 1 << 18, 1 << 22):
            base = torch.arange(count, device="cuda", dtype=torch.int32) % 13
            tensor = (base + rank).to(dtype)
            dist.all_reduce(tensor)
            if not torch.equal(tensor, (base * RANKS + sum(range(RANKS))).to(dtype)):
                raise SystemExit(f"rank {rank}: all_reduce of {count} x {dtype} is wrong")
            torch.cuda.synchronize()
            seconds = []
            for _ in range(5):
                started = time.perf_counter()
                dist.all_reduce(tensor)
                torch.cuda.synchronize()
                seconds.append(time.perf_counter() - started)
            results.append({"test": "torch_all_reduce", "type": str(dtype).removeprefix("torch."),
                            "bytes": count * tensor.element_size(), "ranks": RANKS, "rounds": len(seconds),
                            "median_us": round(statistics.median(seconds) * 1e6, 1), "correct": True})


def ddp_step(torch, rank, results):
    """Two ranks with half of the batch each must make the step that one rank makes with all of it."""
    def model():
        torch.manual_seed(7)
        return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).cuda()

    def step(net, x, y):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

    torch.manual_seed(11)
    x, y = torch.randn(64, 32).cuda(), torch.randn(64, 1).cuda()
    alone, shared = model(), torch.nn.parallel.DistributedDataParallel(model(), device_ids=[0])
    step(alone, x, y)
    half = len(x) // RANKS
    step(shared, x[rank * half:(rank + 1) * half], y[rank * half:(rank + 1) * half])
    worst = max((a - b).abs().max().item() for a, b in zip(alone.parameters(), shared.parameters()))
    if not worst < 1e-5:
        raise SystemExit(f"rank {rank}: the DDP step differs from one rank's by {worst}")
    results.append({"test": "torch_ddp_step", "ranks": RANKS, "largest_difference": worst, "correct": True})


def run_rank(rank, path):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    results = []
    all_reduce(torch, dist, rank, results)
    ddp_step(torch, rank, results)
    dist.barrier(device_ids=[0])
    dist.destroy_process_group()
    if rank == 0:
        with open(path, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", required=True, help="JSON lines are appended here")
    parser.add_argument("--rank", type=int, help="internal: be this rank")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments.rank, arguments.results)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        # A host of its own for each rank: NCCL refuses two ranks of one host on one GPU.
        environment = dict(os.environ, NCCL_HOSTID=f"tombolo-test-host-{rank}", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
        ranks.append(subprocess.Popen([sys.executable, __file__, "--results", arguments.results, "--rank", str(rank)],
                                      env=environment))
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
