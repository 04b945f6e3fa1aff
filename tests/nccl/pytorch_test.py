#!/usr/bin/env python3
"""Tests that `tombolo doctor --nccl` finds the NCCL that a PyTorch would load, in folders of pretended packages.

Usage: pytorch_test.py --build build --compiler cc

Each library is a few lines of C: libnccl.so.2 says a release, libtorch_cuda.so needs it or has one in it, as those of PyTorch's
wheels, of older wheels, of conda and of a system do.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WHEEL, SYSTEM = 22907, 21803
WHEELS_FOLDER = "$ORIGIN/../../nvidia/nccl/lib"  # where PyTorch's own wheels say that it is


def release_text(code):
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


class Packages:
    """A folder of packages, and a folder of libraries that the loader looks in."""

    def __init__(self, compiler, root):
        self.compiler, self.root = compiler, root
        self.site, self.other, self.system = root / "site", root / "other site", root / "system"
        for folder in (self.site, self.other, self.system):
            folder.mkdir()

    def library(self, path, source, *options):
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([self.compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path, "-x", "none",
                        "-Wl,--no-as-needed,--disable-new-dtags", *options],
                       input=source, text=True, check=True)
        return path

    def nccl(self, folder, release):
        source = f"int ncclGetVersion(int* to) {{ *to = {release}; return 0; }}\n"
        return self.library(folder / "libnccl.so.2", source if release else "int nothing;\n", "-Wl,-soname,libnccl.so.2")

    def wheel(self, site, release):
        return self.nccl(site / "nvidia" / "nccl" / "lib", release)

    def torch(self, needs=True, folder=WHEELS_FOLDER, version="__version__ = '2.9.0+cu130'\n"):
        package = self.site / "torch"
        package.mkdir()
        (package / "__init__.py").write_text("raise RuntimeError('the doctor must not import PyTorch')\n")
        if version:
            (package / "version.py").write_text(version)
        if needs is None:
            return  # built without CUDA
        linked = self.nccl(self.root / "to link", WHEEL)
        options = [linked, f"-Wl,-rpath,{folder}"] if needs else []
        self.library(package / "lib" / "libtorch_cuda.so", "int torch;\n", *options)

    def needs_cublas(self, folder):
        """The library that PyTorch loads first needs CUDA's, which is in one folder and said to be in that."""
        cublas = self.library(self.root / "cublas" / "libcublas.so.no", "int cublas;\n", "-Wl,-soname,libcublas.so.no")
        self.library(self.site / "torch" / "lib" / "libtorch_global_deps.so", "int deps;\n", cublas, f"-Wl,-rpath,{folder}")


def wheel_beside(packages):
    """PyTorch's wheels, and a system's NCCL that another program would take."""
    packages.torch()
    packages.nccl(packages.system, SYSTEM)
    return WHEEL, packages.wheel(packages.site, WHEEL), "PyTorch 2.9.0+cu130 of "


def wheel_in_another_folder(packages):
    """Nor are CUDA's wheels where its libraries name them, so that PyTorch loads all of them before its own."""
    packages.torch(folder="/nowhere")
    packages.needs_cublas("/nowhere")
    packages.nccl(packages.system, SYSTEM)
    return WHEEL, packages.wheel(packages.other, WHEEL), "PyTorch 2.9.0+cu130 of "


def wheel_of_another_torch(packages):
    """A PyTorch that is linked with the system's NCCL does not take a wheel that is there for another reason."""
    packages.torch(folder="/nowhere")
    packages.needs_cublas(packages.root / "cublas")
    packages.wheel(packages.site, WHEEL)
    return SYSTEM, packages.nccl(packages.system, SYSTEM), "PyTorch 2.9.0+cu130 of "


def environment_of_conda(packages):
    """The NCCL is in the environment's own folder of libraries, which the library names."""
    packages.torch(folder="$ORIGIN/../../../environment")
    packages.nccl(packages.system, SYSTEM)
    return WHEEL, packages.nccl(packages.root / "environment", WHEEL), "PyTorch 2.9.0+cu130 of "


def without_version(packages):
    packages.torch(version="")
    return WHEEL, packages.wheel(packages.site, WHEEL), "PyTorch ? of "


def built_in(packages):
    """An NCCL that is part of libtorch_cuda.so; what else is there is not what a job takes."""
    packages.torch(needs=False)
    packages.wheel(packages.site, WHEEL)
    packages.nccl(packages.system, SYSTEM)
    return None, "PyTorch 2.9.0+cu130 of ", "its libtorch_cuda.so needs no libnccl.so.2, so that an NCCL is part of it"


def broken_wheel(packages):
    """PyTorch would not load, whatever the system has."""
    packages.torch()
    packages.wheel(packages.site, WHEEL).write_text("no library, though of more bytes than the loader's shortest header is long")
    packages.nccl(packages.system, SYSTEM)
    return None, "PyTorch 2.9.0+cu130 of ", "nvidia/nccl/lib/libnccl.so.2: invalid ELF header"


def wheel_that_is_none(packages):
    packages.torch()
    packages.wheel(packages.site, None)
    return None, "PyTorch 2.9.0+cu130 of ", "libnccl.so.2 does not tell its release"


def broken_torch(packages):
    packages.torch()
    packages.wheel(packages.site, WHEEL)
    (packages.site / "torch" / "lib" / "libtorch_cuda.so").write_text("no library")
    return None, "PyTorch 2.9.0+cu130 of ", "libtorch_cuda.so does not load: "


def without_cuda(packages):
    packages.torch(needs=None)
    packages.wheel(packages.site, WHEEL)
    return SYSTEM, packages.nccl(packages.system, SYSTEM), "the loader"


def without_cuda_or_nccl(packages):
    packages.torch(needs=None)
    packages.nccl(packages.system, SYSTEM).write_text("no library")
    return None, "is built without CUDA; the loader: ", "libnccl.so.2"


def without_torch(packages):
    packages.wheel(packages.site, WHEEL)
    return SYSTEM, packages.nccl(packages.system, SYSTEM), "the loader"


CASES = [wheel_beside, wheel_in_another_folder, wheel_of_another_torch, environment_of_conda, without_version, built_in,
         broken_wheel, wheel_that_is_none, broken_torch, without_cuda, without_cuda_or_nccl, without_torch]


def said(build, packages):
    """What the doctor says of the job's NCCL where these packages are all that Python has."""
    python = packages.root / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "TOMBOLO_"))}
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    environment.update(PATH=f"{python.parent}:{environment['PATH']}", PYTHONPATH=f"{packages.site}:{packages.other}",
                       LD_LIBRARY_PATH=str(packages.system), HOME=str(packages.root), TOMBOLO_HOST="here")
    ran = subprocess.run([build / "bin" / "tombolo", "doctor", "--nccl", "--json"], env=environment, text=True, timeout=120,
                         stdout=subprocess.PIPE)
    return next(check for check in json.loads(ran.stdout)["checks"] if check["name"] == "job's NCCL")


def wrong_with(check, release, first, second):
    """What the check should have said, where it did not: the release, its path and who loads it, or two words of why none."""
    seen = check["seen"]
    if not release:
        expected = ["no libnccl.so.2 was found: ", first, second]
        return [words for words in expected if words not in seen] + ([] if check["status"] == "warning" else ["a warning"])
    found = re.fullmatch(r"(.*?), (.*) \(found by (.*)\)", seen)
    right = found and found[1] == release_text(release) and os.path.realpath(found[2]) == str(first) and found[3].startswith(second)
    return [] if right and check["status"] == "ok" else [f"{release_text(release)}, {first} (found by {second}...)"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    failed = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            packages = Packages(arguments.compiler, pathlib.Path(scratch).resolve())
            expected = case(packages)
            check = said(arguments.build.resolve(), packages)
            missing = wrong_with(check, *expected)
        print(f"{case.__name__}: {'wrong' if missing else 'right'}: {check['status']}: {check['seen']}", flush=True)
        for words in missing:
            print(f"  expected: {words}")
        failed += bool(missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
