#!/usr/bin/env python3
"""Counts the members of classes and the lines of the files that hold them:
  scripts/class_sizes.py [--root TREE] [--least N] FOLDER...

Prints one row of a Markdown table for every class or struct that a header of the folders defines and that has at least N data
members (10 where it is not said), nested ones included. Members are those that clang sees (it has to be installed), inherited
ones not counted. Lines are of the header and of the sources whose names begin with the header's, without tests. TREE may be a
checkout of another commit."""

import argparse
import json
import pathlib
import re
import subprocess


def classes(node, path=()):
    """Yields (names from the outermost class inwards, members) of each class that is defined at or below the node."""
    if node.get("kind") == "NamespaceDecl":
        for inner in node.get("inner", []):
            yield from classes(inner, path)
    elif node.get("kind") == "CXXRecordDecl" and node.get("completeDefinition"):
        path = (*path, node.get("name", "(unnamed)"))
        inner = node.get("inner", [])
        yield path, sum(one.get("kind") == "FieldDecl" for one in inner)
        for one in inner:
            yield from classes(one, path)


def members_by_class(root, headers):
    """What clang finds in the headers and all that these include, of the rooms' namespaces."""
    command = ["clang++", "-std=c++20", "-fsyntax-only", "-I.", "-x", "c++", "-",
               "-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=tombolo::"]
    text = "".join(f'#include "{header}"\n' for header in headers)
    made = subprocess.run(command, input=text, text=True, capture_output=True, check=False, cwd=root)
    if made.returncode != 0:
        raise SystemExit(f"clang++ does not take the headers:\n{made.stderr[:2000]}")
    found, decoder, at = {}, json.JSONDecoder(), made.stdout.find("{")
    while at >= 0:
        node, at = decoder.raw_decode(made.stdout, at)
        found.update(classes(node))
        at = made.stdout.find("{", at)
    return found


def lines_of(header):
    """Of the header and its sources; a source belongs to the header with the longest name that its own begins with."""
    stems = sorted((one.stem for one in header.parent.glob("*.h")), key=len)
    files = [header]
    for source in header.parent.glob(header.stem + "*.cpp"):
        owner = [stem for stem in stems if source.stem.startswith(stem)][-1]
        if owner == header.stem and not source.stem.endswith("_test"):
            files.append(source)
    return sum(len(one.read_text(encoding="utf-8").splitlines()) for one in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--least", type=int, default=10)
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    headers = sorted(one for folder in options.folders for one in (options.root / folder).glob("*.h"))
    text_of = {header: header.read_text(encoding="utf-8") for header in headers}
    rows = []
    for path, members in members_by_class(options.root, [one.relative_to(options.root) for one in headers]).items():
        definition = re.compile(rf"^(?:class|struct) (?:alignas\(\d+\) )?{re.escape(path[0])}\b[^;]*{{", re.MULTILINE)
        for header in headers:
            if members >= options.least and definition.search(text_of[header]):
                rows.append((-members, "::".join(path), header.relative_to(options.root), lines_of(header)))
    print("| class | in | members | lines |\n|---|---|---|---|")
    for members, name, header, lines in sorted(rows):
        print(f"| `{name}` | `{header}` | {-members} | {lines} |")


if __name__ == "__main__":
    main()
