#!/usr/bin/env python3
"""Fails where a GPU kernel keeps in memory what its registers do not hold, by what ptxas said when it compiled them.

usage: check_kernel_spills.py REPORT...      the files that scripts/compile_kernels.sh leaves
       check_kernel_spills.py --self-test
"""
import re
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def kernels(text):
    """Yields (kernel, GPU, registers, bytes of stack, spill stores and spill loads). Each kernel has three lines, in this
    order; those of a function that is called, which has no entry, are its own and are counted to nobody."""
    entry = memory = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry, memory = match.groups(), None
        elif entry and memory is None and (match := SPILLS.search(line)):
            memory = tuple(map(int, match.groups()))
        elif entry and memory is not None and (match := REGISTERS.search(line)):
            yield (*entry, int(match.group(1)), *memory)
            entry = None


def complaints(name, text):
    found = list(kernels(text))
    if not found:
        return [f"{name}: it tells of no kernel; was it left by another version of ptxas?"]
    return [f"{name}: {kernel} for {gpu}: {stack} bytes of stack, {stores} of spill stores, {loads} of spill loads, at {registers} "
            "registers; give it less to hold at once, or larger blocks less to do"
            for kernel, gpu, registers, stack, stores, loads in found if stack or stores or loads]


def self_test():
    def said(kernel, gpu, memory, registers):
        return (f"ptxas info    : Compiling entry function '{kernel}' for '{gpu}'\n"
                f"ptxas info    : Function properties for {kernel}\n"
                f"    {memory[0]} bytes stack frame, {memory[1]} bytes spill stores, {memory[2]} bytes spill loads\n"
                f"ptxas info    : Used {registers} registers, used 1 barriers\n")

    fine = said("embed", "sm_90", (0, 0, 0), 32)
    assert list(kernels(fine)) == [("embed", "sm_90", 32, 0, 0, 0)]
    assert complaints("r", fine) == []
    for memory in ((8, 0, 0), (0, 4, 0), (0, 0, 4)):
        bad = complaints("r", fine + said("norm", "sm_80", memory, 128) + fine)
        assert len(bad) == 1 and "norm for sm_80" in bad[0] and f"{memory[0]} bytes of stack" in bad[0], bad
    assert "no kernel" in complaints("r", "ptxas info    : 0 bytes gmem\n")[0]
    print("it sees stacks, spills and reports of nothing")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    else:
        texts = {}
        for path in sys.argv[1:]:
            with open(path, encoding="utf-8") as file:
                texts[path] = file.read()
        wrong = [line for path, text in texts.items() for line in complaints(path, text)]
        if wrong:
            sys.exit("\n".join(wrong))
        each = [kernel for text in texts.values() for kernel in kernels(text)]
        print(f"{len(each)} kernels, at most {max(kernel[2] for kernel in each)} registers, and no spills")
