"""GPT-2 in PyTorch with the parameters of a checkpoint of llm.c's, which is what `tombolo train` reads and writes. Every layer has
parameters of its own: slices of one tensor for all layers would give gradients of the whole tensor's size to each."""
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

from trainer_bench.job import read_shape

HEADER_VALUES = 256  # the header's length in values of the parameters' size
HAS_FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")  # since PyTorch 2.0


def attention(q, k, v):
    """Causal attention of (rows, heads, context, width of a head): PyTorch's own choice of kernel, where it has any."""
    if HAS_FUSED_ATTENTION:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    context = q.shape[2]
    mask = torch.full((context, context), float("-inf"), device=q.device).triu(1)
    return torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + mask, -1) @ v


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp, self.mlp_projection = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, context, width = x.shape
        q, k, v = (part.view(rows, context, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        x = x + self.projection(attention(q, k, v).transpose(1, 2).reshape(rows, context, width))
        return x + self.mlp_projection(F.gelu(self.mlp(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        shape, padded = read_shape(checkpoint)
        self.vocabulary, width = shape["vocabulary"], shape["width"]
        self.tokens, self.positions = nn.Embedding(padded, width), nn.Embedding(shape["context"], width)
        self.blocks = nn.ModuleList(Block(width, shape["heads"]) for _ in range(shape["layers"]))
        self.norm = nn.LayerNorm(width)
        self.load(checkpoint)

    def forward(self, tokens, targets):
        """The mean loss of (rows, context) tokens."""
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.norm(x), self.tokens.weight)[..., :self.vocabulary]
        return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())

    def in_file_order(self):
        """The parameters as they follow each other in the file: each kind for all layers."""
        yield self.tokens.weight
        yield self.positions.weight
        for part in ("norm1", "qkv", "projection", "norm2", "mlp", "mlp_projection"):
            for kind in ("weight", "bias"):
                for block in self.blocks:
                    yield getattr(getattr(block, part), kind)
        yield self.norm.weight
        yield self.norm.bias

    @torch.no_grad()
    def load(self, checkpoint):
        """Overwrites the parameters in place, so that what was compiled or registered for them stays valid."""
        values = torch.from_file(os.fspath(checkpoint), size=os.path.getsize(checkpoint) // 4, dtype=torch.float32)
        at = HEADER_VALUES
        for parameter in self.in_file_order():
            parameter.copy_(values[at:at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        if at != len(values):
            raise ValueError(f"{checkpoint} has {len(values)} values, of which the model takes {at}")

    def optimizer(self, weight_decay):
        """AdamW as `tombolo train` has it: matrices decay, vectors do not. Its rate is set before every step."""
        groups = [{"params": [p for p in self.parameters() if p.dim() > 1], "weight_decay": weight_decay},
                  {"params": [p for p in self.parameters() if p.dim() == 1], "weight_decay": 0.0}]
        options = {"lr": 0.0, "betas": (0.9, 0.95), "eps": 1e-8}
        try:
            return torch.optim.AdamW(groups, fused=True, **options)
        except (RuntimeError, TypeError):  # a PyTorch whose fused kernel does not know this device
            return torch.optim.AdamW(groups, foreach=True, **options)


def read_tokens(path):
    """The tokens of a file as int64: of llm.c's token files, else the bytes."""
    data = bytearray(open(path, "rb").read())
    if int.from_bytes(data[:4], "little") == 20240520:
        return torch.frombuffer(data, dtype=torch.int16, offset=4 * HEADER_VALUES).long() & 0xFFFF
    return torch.frombuffer(data, dtype=torch.uint8).long()
