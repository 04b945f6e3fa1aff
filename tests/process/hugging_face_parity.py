#!/usr/bin/env python3
"""Compares a GPT-2 of Hugging Face's transformers with the trainer's: reads one that transformers saved, and lets
transformers read one that `tombolo export` wrote; on the same tokens both must give the same scores. Exit code 77
(skipped) where transformers is not installed.

    hugging_face_parity.py TOMBOLO PRINT_SCORES
"""
import os
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from randomized import test_seed  # noqa: E402
try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as error:
    print(f"skipped: {error}; python3-torch and PyPI's transformers compare with Hugging Face's GPT-2")
    sys.exit(77)

TOLERANCE = 1e-4


def run(*command):
    return subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout


def ours(program, model, tokens):
    lines = run(program, model, *map(str, tokens)).splitlines()
    return torch.tensor([[float(score) for score in line.split()] for line in lines])


def theirs(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]


def difference(what, first, second):
    worst = (first - second).abs().max().item()
    print(f"{what}: scores from {second.min().item():.2f} to {second.max().item():.2f}, greatest difference {worst:.1e}")
    assert first.shape == second.shape, (first.shape, second.shape)
    assert second.abs().max() > 1, "the scores are all about 0: this proves too little"
    assert worst <= TOLERANCE, worst


def main():
    tombolo, print_scores = sys.argv[1:]
    seed = test_seed()
    chance = random.Random(seed)
    torch.manual_seed(seed)
    # Weights larger than those that training begins with, so that nothing is near 0.
    config = GPT2Config(vocab_size=301, n_positions=24, n_embd=48, n_layer=3, n_head=4, initializer_range=0.2,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too
            parameter.add_(torch.randn_like(parameter) * 0.05)
    tokens = [chance.randrange(config.vocab_size) for _ in range(config.n_positions)]
    expected = theirs(model, tokens)
    with tempfile.TemporaryDirectory(prefix="tombolo-parity-") as folder:
        saved = os.path.join(folder, "saved")
        model.save_pretrained(saved, safe_serialization=True)
        difference("a model of transformers", ours(print_scores, saved, tokens), expected)
        # To llm.c's format and back, which transformers then reads.
        written = os.path.join(folder, "written")
        os.mkdir(written)
        run(tombolo, "export", saved, os.path.join(folder, "model.bin"))
        run(tombolo, "export", os.path.join(folder, "model.bin"), os.path.join(written, "model.safetensors"))
        read, problems = GPT2LMHeadModel.from_pretrained(written, output_loading_info=True)
        assert not problems["mismatched_keys"] and not problems["unexpected_keys"], problems
        assert set(problems["missing_keys"]) <= {"lm_head.weight"}, problems
        for (name, parameter), (_, original) in zip(read.named_parameters(), model.named_parameters()):
            assert torch.equal(parameter, original), name
        difference("a model that was exported", theirs(read.eval(), tokens), expected)


if __name__ == "__main__":
    main()
