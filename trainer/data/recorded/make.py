#!/usr/bin/env python3
"""Makes the small tokenizer of this folder, in all forms that people have GPT-2's in, and encodings of some texts by
Hugging Face's tokenizers. Needs the packages tokenizers and tiktoken; what it made is kept beside it, so that the tests
need neither:  make.py
"""
import base64
import json
import pathlib
import random
import struct

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TOKENS = 400
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def bytes_of_characters():
    """GPT-2's characters that stand for bytes."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}


def texts():
    yield from ["", " ", "a", "Hello world", "It's we'll they've I'm you're he'd don't 'S 'll'", "  two  blanks  ",
                "tabs\t\tand\nlines\n\n\n  indented\r\n", "12345 3.14 x86-64 ½ ² ٣", "naïve Ångström straße Ελληνικά русский",
                "日本語 中文 한국어", "😀 👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301", "\u00a0no-break\u2003em\u3000ideographic\u1680ogham\u180e.", "\x00\x1f\x7f\x85",
                "<|endoftext|> is ordinary text", "a" * 300, " " * 70 + "x", "\n" * 50, "!?!?--==..'s'"]
    chance = random.Random(20)
    pools = ["abc xyz'sltdmrev", " \t\n\u00a0\u2009", "0189٣४", "äßçÿλж", "漢字かな", "😀🎉🏽\u200d\ufe0f", "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"]
    for _ in range(60):
        yield "".join(chance.choice(chance.choice(pools)) for _ in range(chance.randint(1, 60)))


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [path.read_text(encoding="utf-8") for path in [ROOT / "README.md", ROOT / "docs" / "glossary.md"]]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    encodings = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in texts()]

    vocabulary = tokenizer.get_vocab()
    by_number = sorted(vocabulary, key=vocabulary.get)
    assert len(by_number) == TOKENS and [vocabulary[token] for token in by_number] == list(range(TOKENS))
    characters = bytes_of_characters()
    token_bytes = [bytes(characters[character] for character in token) for token in by_number]
    ranks = {token: number for number, token in enumerate(token_bytes)}
    other = tiktoken.Encoding("small", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    for one in encodings:
        assert other.encode_ordinary(one["text"]) == one["tokens"], one["text"]

    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(HERE / "tokenizer.json"), pretty=False)
    model = json.loads((HERE / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    pairs = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (HERE / "merges.txt").write_text("#version: 0.2\n" + "".join(pair + "\n" for pair in pairs), encoding="utf-8")
    (HERE / "vocab.json").write_text(json.dumps(vocabulary | {"<|endoftext|>": TOKENS}, sort_keys=True) + "\n",
                                     encoding="utf-8")
    (HERE / "small.tiktoken").write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % number for number, token in enumerate(token_bytes)))
    with open(HERE / "llmc_tokenizer.bin", "wb") as file:
        file.write(struct.pack("<256I", 20240328, 2, TOKENS + 1, TOKENS, *[0] * 252))
        for token in [*token_bytes, b"<|endoftext|>"]:
            file.write(bytes([len(token)]) + token)
    (HERE / "encodings.json").write_text(
        "[\n" + ",\n".join(json.dumps(one) for one in encodings) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
