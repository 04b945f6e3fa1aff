#!/usr/bin/env python3
"""Fails where the sum of two vectors of floats is a loop over single ones, by the instructions that the compiler made of it: a build can lose
the options that a source file asks for, and everything stays right, but takes up to ten times as long.

usage: check_vectorised.py LIBTOMBOLO_COLLECTIVES.A
       check_vectorised.py --self-test
"""
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*combine_(plain|avx2|avx512)<.*Sum, float>\(.*)>:$")
REGISTERS = {"plain": r"\baddps\b", "avx2": r"\bvaddps\b.*%ymm", "avx512": r"\bvaddps\b.*%zmm"}


def complaints(disassembly):
    kind, seen = None, {}
    for line in disassembly.splitlines():
        if line.endswith(">:"):
            match = FUNCTION.match(line)
            kind = match.group(2) if match else None
            if kind:
                seen[kind] = False
        elif kind and re.search(REGISTERS[kind], line):
            seen[kind] = True
    found = [f"no function combine_{kind} of sums of floats was found" for kind in REGISTERS if kind not in seen]
    return found + [f"combine_{kind} adds floats one by one; was its file compiled without -O3?" for kind, vector in seen.items() if not vector]


def self_test():
    head = "0000000000000e40 <void x::(anonymous namespace)::combine_{}<x::(anonymous namespace)::Sum, float>(std::byte*)>:\n"
    vectors = {"plain": "addps (%rsi),%xmm0", "avx2": "vaddps (%rsi),%ymm1,%ymm0", "avx512": "vaddps (%rsi),%zmm1,%zmm0"}
    good = "".join(head.format(kind) + f" e4e:\t{text}\n" for kind, text in vectors.items())
    assert not complaints(good), complaints(good)
    for kind, text in vectors.items():
        bad = good.replace(text, "vaddss (%rsi,%rax,4),%xmm1,%xmm0")
        assert len(complaints(bad)) == 1 and f"combine_{kind} adds" in complaints(bad)[0], complaints(bad)
    assert len(complaints("")) == 3
    # An instruction of the next function counts for that one.
    assert len(complaints(head.format("plain") + "0 <other>:\n 1:\taddps %xmm1,%xmm0\n")) == 3


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    found = complaints(text)
    for line in found:
        print(f"{sys.argv[1]}: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
