#!/usr/bin/env python3
"""Checks that code blocks of the documentation equal the files that they quote.

A fenced block whose info string names a file, as in

    ```cpp file=tests/extending/star_all_reduce.cpp

must equal that file, or consecutive whole lines of it. Paths are from the repository's root. Trailing blanks and empty
lines at the block's ends do not count.
Usage: check_quotes.py [--self-test | file.md ...]    exit code 1 and one line per difference
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def quotes(text):
    """Yields (line number, file, lines) for each block that names a file."""
    name, lines, start, fence = None, [], 0, None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"^\s*(```+)\s*(.*)$", line)
        if match and fence is None:
            fence, info, lines, start = match[1], match[2], [], number
            named = re.search(r"(?:^|\s)file=(\S+)", info)
            name = named[1] if named else None
        elif match and match[1] == fence and not match[2]:
            if name:
                yield start, name, lines
            fence = None
        elif fence is not None:
            lines.append(line)


def trimmed(lines):
    lines = [line.rstrip() for line in lines]
    while lines and not lines[0]:
        lines = lines[1:]
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def differences(page, root):
    """Yields one text for each block of the page that does not equal its file."""
    found = 0
    for line, name, block in quotes(page.read_text(encoding="utf-8")):
        found += 1
        where = f"{page.relative_to(root)}:{line}"
        path = root / name
        if not path.is_file():
            yield f"{where}: quotes {name}, which does not exist"
            continue
        want, have = trimmed(block), [text.rstrip() for text in path.read_text(encoding="utf-8").splitlines()]
        if not want:
            yield f"{where}: quotes nothing of {name}"
        elif not any(have[i:i + len(want)] == want for i in range(len(have) - len(want) + 1)):
            foreign = next((text for text in want if text not in have), None)
            what = f"the line {foreign!r} is not in it" if foreign else "its lines stand there in another order"
            yield f"{where}: differs from {name}: {what}; copy the file's lines into the block"
    if page.name == "extending.md" and not found:
        yield f"{page.relative_to(root)}: quotes no file, but its examples are files in tests/extending/"


def check(root, pages):
    problems = [problem for page in pages for problem in differences(page, root)]
    for problem in problems:
        print(problem)
    return len(problems)


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "a.cpp").write_text("one\n\ntwo  \nthree\n")
        page = root / "page.md"
        for block, problems in [("one\n\ntwo\nthree", 0), ("two\nthree", 0), ("\ntwo\n", 0), ("one\ntwo", 1), ("two\nfour", 1),
                                ("", 1)]:
            page.write_text(f"text\n```cpp file=a.cpp\n{block}\n```\n```cpp\nanything\n```\n")
            assert check(root, [page]) == problems, block
        page.write_text("```cpp file=b.cpp\none\n```\n")
        assert check(root, [page]) == 1
        page.write_text("```cpp file=a.cpp\none\n```\n```sh\ntrue\n```\n````cpp file=a.cpp\ntwo\n````\n")
        assert check(root, [page]) == 0
    print("self-test passed")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    pages = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if check(ROOT, pages):
        return 1
    print("every quoted block equals its file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
