#!/usr/bin/env python3
"""Compares tokens with those of Hugging Face's tokenizers and of tiktoken on random text, with a vocabulary that is
trained here. Exit code 77 (skipped) where neither package is installed; trainer/data/recorded/ holds what they said
of some texts.

    tokenizer_parity.py TOMBOLO
"""
import array
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from randomized import test_seed  # noqa: E402
try:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    import tiktoken
except ImportError as error:
    print(f"skipped: {error}; PyPI's tokenizers and tiktoken compare their tokens with ours")
    sys.exit(77)

PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXTS, CHARACTERS, VOCABULARY = 24, 20000, 1500
# Old enough that every library's Unicode tables agree about them.
RANGES = [(0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea),
          (0x620, 0x64a), (0x660, 0x669), (0x900, 0x97f), (0xe01, 0xe3a), (0x1680, 0x1680), (0x2000, 0x206f),
          (0x2070, 0x209c), (0x2150, 0x218b), (0x2190, 0x21ff), (0x3000, 0x303f), (0x3041, 0x3096), (0x4e00, 0x9fa5),
          (0xac00, 0xd7a3), (0xfe00, 0xfe0f), (0x1d400, 0x1d4ff), (0x1f300, 0x1f5ff), (0x1f600, 0x1f64f)]
PHRASES = ["it's", "we'll", "they've", "you're", "I'm", "he'd", "can't", "IT'S", "'", "''s", "\r\n", "\n\n", "\t", "  ", "   x",
           " \n ", "\x0b\x0c\x1c\x1f\x85", "12,345.67", "a" * 90, " " * 60, "=" * 40, "👩‍👩‍👧‍👦", "🏳️‍🌈", "e\u0301", "<|endoftext|>"]


def random_text(chance):
    parts = []
    while sum(map(len, parts)) < CHARACTERS:
        kind = chance.random()
        if kind < 0.25:
            parts.append(chance.choice(PHRASES))
        elif kind < 0.5:
            parts.append(" " + "".join(chance.choice("etaoinshrdlucm") for _ in range(chance.randint(1, 9))))
        else:
            low, high = chance.choice(RANGES)
            for _ in range(chance.randint(1, 6)):
                character = chr(chance.randint(low, high))
                if unicodedata.category(character) != "Cn":
                    parts.append(character)
    return "".join(parts)


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def ranks_of(tokenizer):
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    characters = {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}
    return {bytes(characters[character] for character in token): number
            for token, number in tokenizer.get_vocab().items()}


def write_forms(folder, tokenizer, ranks):
    tokenizer.save(str(folder / "tokenizer.json"))
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    lines = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (folder / "vocab.json").write_text(json.dumps(tokenizer.get_vocab()), encoding="utf-8")
    (folder / "small.tiktoken").write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda x: x[1])))
    return ["tokenizer.json", "merges.txt", "small.tiktoken"]


def tokens_of(tombolo, folder, text, form):
    (folder / "text").write_bytes(text.encode())
    subprocess.run([tombolo, "tokenize", folder / "text", folder / "tokens", "--tokenizer", folder / form], check=True,
                   timeout=120, stdout=subprocess.DEVNULL)
    tokens = array.array("H")
    tokens.frombytes((folder / "tokens").read_bytes()[1024:])
    return tokens.tolist()


def main():
    tombolo = sys.argv[1]
    chance = random.Random(test_seed())
    tokenizer = train([random_text(chance) for _ in range(8)])
    ranks = ranks_of(tokenizer)
    other = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    compared = 0
    with tempfile.TemporaryDirectory(prefix="tombolo-parity-") as name:
        folder = pathlib.Path(name)
        forms = write_forms(folder, tokenizer, ranks)
        for number in range(TEXTS):
            text = random_text(chance)
            got = tokens_of(tombolo, folder, text, forms[number % len(forms)])
            for library, expected in (("tokenizers", tokenizer.encode(text).ids), ("tiktoken", other.encode_ordinary(text))):
                if got != expected:
                    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
                    raise AssertionError(f"{library}, {forms[number % len(forms)]}: token {at} of {len(expected)}: after "
                                         f"{other.decode(expected[max(0, at - 5):at])!r} ours are {got[at:at + 5]}, "
                                         f"theirs {expected[at:at + 5]}, {other.decode(expected[at:at + 5])!r}")
            compared += len(got)
    assert compared > TEXTS * 1000, compared
    print(f"{compared} tokens of {TEXTS} texts are those of tokenizers {__import__('tokenizers').__version__} and of "
          f"tiktoken {tiktoken.__version__}")


if __name__ == "__main__":
    main()
