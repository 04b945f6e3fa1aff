"""What both sides train: the shape of the model, the rows of each step, the optimizer; and the text where none is given."""
import dataclasses
import math
import random
import struct

MAGIC, VERSION = 20240326, 3  # of llm.c's checkpoints in fp32
SHAPE = ("layers", "width", "heads", "context", "vocabulary")
# Rows of a micro-batch are as many as 80 GB of GPU memory hold of either side's.
GPT2 = {"124M": {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocabulary": 50257, "batch": 64, "micro_batch": 32},
        "1.5B": {"layers": 48, "width": 1600, "heads": 25, "context": 1024, "vocabulary": 50257, "batch": 32, "micro_batch": 4}}
# Steps at the beginning of a run that count in the curves but not in the speed: memory is touched for the first time, and on a GPU
# kernels are loaded and chosen.
UNTIMED = {"cpu": 1, "cuda": 4}


@dataclasses.dataclass(frozen=True)
class Job:
    """One size of the model and how it is trained. `batch` is over all replicas; `micro_batch` is of one replica."""

    name: str
    device: str
    dtype: str
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    batch: int
    micro_batch: int
    replicas: int
    threads: int  # of each replica
    steps: int
    data: str  # a file of bytes, or of llm.c's tokens
    initial: str  # llm.c's checkpoint in fp32
    rate: float = 1e-3
    smallest_rate: float = 1e-4
    warmup: int = 3
    weight_decay: float = 0.1
    clip: float = 1.0

    @property
    def tokens_per_step(self):
        return self.batch * self.context


def rate_at(job, step):
    """The learning rate of a step, from 0: a linear rise, then half a cosine, as `tombolo train` documents it."""
    if step < job.warmup:
        return job.rate * (step + 1) / job.warmup
    done = (step - job.warmup) / (job.steps - job.warmup)
    return job.smallest_rate + (job.rate - job.smallest_rate) * (1 + math.cos(math.pi * done)) / 2


def row_starts(step, batch, context, tokens):
    """Positions of the first tokens of a step's rows, which follow each other as they stand in the data."""
    return [(step * batch + row) * context % (tokens - context - 1) for row in range(batch)]


def read_shape(path):
    """The shape that a checkpoint of llm.c's states, and the number of rows of its embedding. Raises ValueError."""
    with open(path, "rb") as file:
        header = file.read(32)
    magic, version, context, vocabulary, layers, heads, width, padded = struct.unpack("<8i", header.ljust(32, b"\0"))
    if (magic, version) != (MAGIC, VERSION):
        raise ValueError(f"{path} is not a checkpoint of llm.c's in fp32: it begins with {magic}, {version} where {MAGIC}, {VERSION} "
                         "is expected")
    return {"layers": layers, "width": width, "heads": heads, "context": context, "vocabulary": vocabulary}, padded


def write_text(path, size):
    """Words of a small vocabulary in random order: a model of any size learns from it within a few steps."""
    chance = random.Random(11)
    words = ["".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chance.randint(2, 8))) for _ in range(60)]
    separators = ["  ", " ", ", ", ".\n"]
    with open(path, "w", encoding="ascii") as file:
        while file.tell() < size:
            file.write("".join(chance.choice(words) + chance.choice(separators) for _ in range(2000)))
