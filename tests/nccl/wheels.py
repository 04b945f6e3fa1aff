#!/usr/bin/env python3
"""Released libnccl.so.2, taken out of PyPI's wheels into a cache folder, one at a time.

Usage: wheels.py --list              the releases that are known, and which of them are in the cache
       wheels.py --fetch RELEASE...  (or `all`) downloads what is missing, and prints the paths

A wheel has 150 to 400 MB, the library as much; only the library is kept. The folder is TOMBOLO_NCCL_CACHE, or
tombolo/nccl in the user's cache folder.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Every release from 2.18 on of which nvidia-nccl-cu12 has a wheel. The packages -cu11 and -cu13 have no further ones.
PACKAGE = "nvidia-nccl-cu12"
RELEASES = ("2.18.1", "2.18.3", "2.19.3", "2.20.5", "2.21.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2", "2.26.5",
            "2.27.3", "2.27.5", "2.27.6", "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.2", "2.29.3", "2.29.7", "2.30.3",
            "2.30.4", "2.30.7", "2.31.2", "2.32.3")
LIBRARY = "libnccl.so.2"


class Unavailable(Exception):
    """A release cannot be had here; the text says why."""


def cache():
    chosen = os.environ.get("TOMBOLO_NCCL_CACHE")
    if chosen:
        return pathlib.Path(chosen)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tombolo" / "nccl"


def cached(release):
    return cache() / release / LIBRARY


def fetch(release):
    """The path of a release's library, downloaded where the cache does not have it."""
    kept = cached(release)
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        pip = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
                              "--only-binary=:all:", "--dest", folder, f"{PACKAGE}=={release}"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if pip.returncode != 0 or len(wheels) != 1:
            why = (pip.stdout.strip().splitlines() or ["no word from pip"])[-1]
            raise Unavailable(f"pip could not download {PACKAGE} {release}: {why}")
        # The library appears under its name only when it is whole.
        part = pathlib.Path(folder) / "part"
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(f"nvidia/nccl/lib/{LIBRARY}") as packed, part.open("wb") as out:
            shutil.copyfileobj(packed, out)
        part.rename(kept)
    return kept


def asked_for(text):
    """The releases that a user names: `all`, or a comma list."""
    names = list(RELEASES) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in RELEASES]
    if unknown:
        raise SystemExit(f"wheels.py: no wheel is known of NCCL {', '.join(unknown)}; known: {', '.join(RELEASES)}, all")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--fetch", nargs="+", metavar="RELEASE", default=[])
    arguments = parser.parse_args()
    if not arguments.list and not arguments.fetch:
        parser.error("say --list or --fetch")
    if arguments.list:
        for release in RELEASES:
            print(release, cached(release) if cached(release).exists() else "not in the cache")
    missed = 0
    for release in asked_for(",".join(arguments.fetch)):
        try:
            print(fetch(release), flush=True)
        except Unavailable as why:
            print(f"wheels.py: {why}", file=sys.stderr)
            missed = 1
    return missed


if __name__ == "__main__":
    sys.exit(main())
