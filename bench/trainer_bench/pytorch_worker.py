"""A rank of the PyTorch side, in a process of its own. Gets a job on the command line, says in a line of JSON what it is and how
long a step takes, and then trains from the job's checkpoint whenever it reads a number of steps; it ends with its input.

    pytorch_worker.py JOB RANK STORE     JOB: job.Job as JSON and `compile`; STORE: the file by which replicas meet
"""
import contextlib
import json
import os
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch  # noqa: E402
from torch import distributed  # noqa: E402

from trainer_bench import pytorch_gpt  # noqa: E402
from trainer_bench.job import rate_at, row_starts  # noqa: E402

WARM_UP_STEPS = 3


class Worker:
    def __init__(self, job, rank):
        self.job, self.rank = job, rank
        self.tokens = pytorch_gpt.read_tokens(job.data)
        self.model = pytorch_gpt.Gpt(job.initial).to(job.device)
        self.called = torch.compile(self.model) if job.compile else self.model
        if job.replicas > 1:
            self.called = torch.nn.parallel.DistributedDataParallel(self.called, gradient_as_bucket_view=True)
        self.rows_here = job.batch // job.replicas
        self.micro_batch = job.micro_batch or self.rows_here

    def rows(self, step):
        """This rank's rows of a step, micro-batch by micro-batch."""
        starts = row_starts(step, self.job.batch, self.job.context, len(self.tokens))
        mine = starts[self.rank * self.rows_here:(self.rank + 1) * self.rows_here]
        for first in range(0, len(mine), self.micro_batch):
            rows = torch.stack([self.tokens[start:start + self.job.context + 1] for start in mine[first:first + self.micro_batch]])
            if self.job.device == "cuda":
                rows = rows.pin_memory().cuda(non_blocking=True)
            yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(self, step, optimizer):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(self.job, step)
        parts = self.rows_here // self.micro_batch
        total = 0
        for part, (tokens, targets) in enumerate(self.rows(step)):
            waits = self.job.replicas > 1 and part < parts - 1  # only the last micro-batch's pass reduces the gradients
            with self.called.no_sync() if waits else contextlib.nullcontext():
                with torch.autocast(self.job.device, torch.bfloat16, enabled=self.job.dtype == "bf16"):
                    loss = self.called(tokens, targets) / parts
                loss.backward()
            total = total + loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.job.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.item(), norm.item()  # waits for a GPU

    def train(self, steps):
        """Trains the first steps from the checkpoint; losses are the mean over all replicas, gradient norms those before clipping,
        seconds this rank's."""
        self.model.load(self.job.initial)
        optimizer = self.model.optimizer(self.job.weight_decay)
        losses, norms, seconds = [], [], []
        if self.job.replicas > 1:
            distributed.barrier()
        for step in range(steps):
            begin = time.perf_counter()
            loss, norm = self.step(step, optimizer)
            seconds.append(time.perf_counter() - begin)
            losses.append(loss)
            norms.append(norm)
        if self.job.replicas > 1:
            mean = torch.tensor(losses, dtype=torch.float64)
            distributed.all_reduce(mean)
            losses = (mean / self.job.replicas).tolist()
        return {"losses": losses, "grad_norms": norms, "step_seconds": seconds}


def product_rate(job):
    """The most FLOP/s in the MLP's first product, which shows how well this PyTorch's BLAS uses this processor."""
    tokens = job.batch // job.replicas * job.context
    left, right = torch.randn(tokens, job.width), torch.randn(4 * job.width, job.width)
    rates = []
    for _ in range(10):
        begin = time.perf_counter()
        torch.mm(left, right.t())
        rates.append(2 * tokens * 4 * job.width * job.width / (time.perf_counter() - begin))
    return max(rates)


def about(job):
    said = {"version": torch.__version__, "compiled": job.compile,
            "attention": "scaled_dot_product_attention" if pytorch_gpt.HAS_FUSED_ATTENTION else "written out"}
    if job.device == "cuda":
        return {**said, "gpu": torch.cuda.get_device_name()}
    capability = getattr(torch.backends, "cpu", None)
    return {**said, "instructions": capability.get_cpu_capability() if capability else None,
            "matrix_product_flops_per_second": round(product_rate(job))}


def main():
    job, rank, store = types.SimpleNamespace(**json.loads(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    torch.set_num_threads(job.threads)
    torch.set_float32_matmul_precision("highest" if job.dtype == "fp32" else "high")
    if job.replicas > 1:
        distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=job.replicas)
    worker = Worker(job, rank)
    print(json.dumps({"about": about(job), "warm_up": worker.train(WARM_UP_STEPS)}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.train(int(line))), file=answers, flush=True)
    if job.replicas > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
