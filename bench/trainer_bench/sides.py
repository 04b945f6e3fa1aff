"""The two sides of the comparison. Each trains the same job from its initial weights as often as it is asked to, and answers with the
loss and the seconds of every step."""
import dataclasses
import functools
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile

from programs import Failed, end_with_parent

WORKER = pathlib.Path(__file__).with_name("pytorch_worker.py")
# A PyTorch that is many times slower, such as one without a BLAS for this processor, makes fewer steps in a round.
MOST_SECONDS, LEAST_STEPS = 40, 3


class Tombolo:
    """Runs of `tombolo train`, each a process, or several, of its own."""

    def __init__(self, programs, job, folder):
        self._programs, self._job, self._folder = programs, job, folder
        self.about = {}

    def train(self):
        job, log = self._job, self._folder / "log"
        command = [self._programs.bin / "tombolo", "train", "--data", job.data, "--init", job.initial, "--log", log,
                   "--device", job.device, "--dtype", job.dtype, "--threads", job.threads, "--batch", job.batch, "--steps", job.steps,
                   "--replicas", job.replicas, "--micro-batch", job.micro_batch or job.batch // job.replicas,
                   "--lr", job.rate, "--lr-min", job.smallest_rate, "--lr-schedule", "cosine", "--warmup", job.warmup,
                   "--weight-decay", job.weight_decay, "--clip", job.clip]
        if job.replicas > 1:
            command = [self._programs.bin / "tombolo", "run", "--ranks", job.replicas, "--quiet", "--", *command]
        said = self._programs.run(command)
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        log.unlink()
        kernels = re.search(r"^matrix products: (.*)$", said, re.M)
        parameters = re.search(r"(\d+) parameters", said)
        self.about = {"kernels": kernels.group(1) if kernels else None,
                      "parameters": int(parameters.group(1)) if parameters else None}
        run = {"losses": [line["loss"] for line in lines], "step_seconds": [line["step_seconds"] for line in lines]}
        shares = [line["mfu"] for line in lines if "mfu" in line]
        return {**run, "model_flops_utilization": shares} if len(shares) == len(lines) else run

    def close(self):
        pass


class PyTorch:
    """Worker processes of one job. On the CPU they stay from round to round, so that they are ready when a round begins; on a GPU they
    end after each, since their memory would be missing on the other side."""

    def __init__(self, python, job, compiled, folder):
        self._python, self._job, self._compiled, self._folder = python, job, compiled, folder
        self._workers = []
        self.about = {}

    def train(self):
        if not self._workers:
            self._start()
        steps = self._job.steps
        if self._job.device == "cpu":
            steps = min(steps, max(LEAST_STEPS, int(MOST_SECONDS / self._step_seconds)))
        run = self._ask(steps)
        if self._job.device == "cuda":
            self.close()
        return run

    def close(self):
        for process, _ in self._workers:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
        for process, errors in self._workers:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            errors.close()
        self._workers = []

    def _start(self):
        store = pathlib.Path(tempfile.mkdtemp(dir=self._folder)) / "store"  # none that other workers have met by
        job = json.dumps({**dataclasses.asdict(self._job), "compile": self._compiled})
        for rank in range(self._job.replicas):
            errors = tempfile.TemporaryFile("w+", errors="replace")
            process = subprocess.Popen([self._python, WORKER, job, str(rank), store], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=errors, text=True, preexec_fn=end_with_parent, env=environment(self._job))
            self._workers.append((process, errors))
        said = self._answer()
        self.about, self._step_seconds = said["about"], said["warm_up"]["step_seconds"][-1]

    def _ask(self, steps):
        for process, _ in self._workers:
            try:
                process.stdin.write(f"{steps}\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass  # _answer() says why it ended
        return self._answer()

    def _answer(self):
        """Rank 0's, once all ranks have answered. Looks at all at once: where one ends, the others would wait for it."""
        waiting, answer = {process.stdout: rank for rank, (process, _) in enumerate(self._workers)}, None
        while waiting:
            for stream in select.select(list(waiting), [], [])[0]:
                rank, line = waiting.pop(stream), stream.readline()
                if not line:
                    raise Failed(self._why_ended(rank))
                answer = line if rank == 0 else answer
        return json.loads(answer)

    def _why_ended(self, rank):
        for other, (process, _) in enumerate(self._workers):
            if other != rank:
                process.kill()
        process, errors = self._workers[rank]
        code = process.wait()
        errors.seek(0)
        return (f"PyTorch's rank {rank} of {len(self._workers)} ended with {code} in the job {self._job.name}:\n"
                f"{errors.read()[-2000:].strip()}")


def environment(job):
    """Of a worker: as many threads as the job says, and replicas that meet over loopback."""
    threads = {name: str(job.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **threads, "GLOO_SOCKET_IFNAME": "lo"}


@functools.cache
def why_no_pytorch(python, device):
    """A sentence, or None where that interpreter has PyTorch, and on "cuda" one that sees a GPU."""
    try:
        done = subprocess.run([python, "-c", "import torch, sys; sys.exit(3 if sys.argv[1] == 'cuda' and not torch.cuda.is_available() "
                               "else 0)", device], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{python} cannot be run ({error}): no PyTorch to compare with."
    if done.returncode == 3:
        return f"The PyTorch of {python} sees no GPU: no comparison."
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no error was printed"])[-1]
        return f"{python} has no PyTorch ({last}): no comparison; `pip install torch`, or name an interpreter that has it by --python."
    return None


def find_python(device):
    """The interpreter whose PyTorch is compared with: this one, else Debian's where that has it."""
    candidates = (sys.executable, "/usr/bin/python3")
    return next((python for python in candidates if why_no_pytorch(python, device) is None), sys.executable)
