#!/usr/bin/env python3
"""Tests that `tombolo doctor --nccl` foretells what NCCL's own loader then does, in right and in wrong environments.

Usage: doctor_test.py --build build [--releases all|2.18.3,2.27.7]

Takes the NCCLs that loader_test.py takes. Exit code 77 where none could be had.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import loader_test

PLUGIN = "libnccl-net-tombolo.so"


def environments(plugin, scratch):
    """(what is right or wrong, variables) of each."""
    beside = str(plugin.parent)
    (scratch / "folder.so").mkdir()
    (scratch / "text.so").write_text("no library")
    (scratch / "linked").mkdir()
    (scratch / "linked" / "libnccl-net.so").symlink_to(plugin)
    (scratch / "here").mkdir()
    (scratch / "here" / PLUGIN).symlink_to(plugin)
    yield "a path", {"NCCL_NET_PLUGIN": str(plugin)}
    yield "a name, and its folder", {"NCCL_NET_PLUGIN": "tombolo", "LD_LIBRARY_PATH": beside}
    yield "a name alone", {"NCCL_NET_PLUGIN": "tombolo"}
    yield "a file's name, and its folder", {"NCCL_NET_PLUGIN": PLUGIN, "LD_LIBRARY_PATH": beside}
    yield "a relative path", {"NCCL_NET_PLUGIN": f"here/{PLUGIN}"}
    yield "nothing", {}
    yield "nothing, and the usual name", {"LD_LIBRARY_PATH": str(scratch / "linked")}
    yield "none", {"NCCL_NET_PLUGIN": "none", "LD_LIBRARY_PATH": beside}
    yield "a missing path", {"NCCL_NET_PLUGIN": str(scratch / "missing.so")}
    yield "a folder", {"NCCL_NET_PLUGIN": str(scratch / "folder.so")}
    yield "a file of text", {"NCCL_NET_PLUGIN": str(scratch / "text.so")}
    for name, text in (("file", f"NCCL_NET_PLUGIN={plugin}\n"), ("other", "NCCL_NET_PLUGIN=none\n"),
                       ("blanks", f"# words\nNCCL_NET_PLUGIN = {plugin}\n"), ("carriage", f"NCCL_NET_PLUGIN={plugin}\r\n")):
        (scratch / name).mkdir()
        (scratch / name / ".nccl.conf").write_text(text)
        yield f"a file at home: {name}", {"HOME": str(scratch / name)}
    yield "a file at home, and a variable before it", {"HOME": str(scratch / "other"), "NCCL_NET_PLUGIN": str(plugin)}
    yield "a named file instead of the one at home", {"HOME": str(scratch / "other"),
                                                      "NCCL_CONF_FILE": str(scratch / "file" / ".nccl.conf")}
    yield "a named file that is missing", {"HOME": str(scratch / "file"), "NCCL_CONF_FILE": str(scratch / "missing.conf")}
    yield "a list", {"NCCL_NET_PLUGIN": f"missing,{plugin}"}
    yield "a list of names", {"NCCL_NET_PLUGIN": "missing,tombolo", "LD_LIBRARY_PATH": beside}


def doctor(build, nccl, environment, folder):
    """The doctor's checks by name, and its exit code."""
    paths = [path for path in (environment.get("LD_LIBRARY_PATH"), str(pathlib.Path(nccl).parent)) if path]
    # No Python of this PATH, so that no PyTorch's NCCL comes first.
    environment = dict(environment, LD_LIBRARY_PATH=":".join(paths), PATH="/usr/sbin:/sbin", TOMBOLO_HOST="here")
    for name in ("RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    ran = subprocess.run([build / "bin" / "tombolo", "doctor", "--nccl", "--json"], env=environment, cwd=folder, text=True,
                         stdout=subprocess.PIPE, timeout=120)
    return {check["name"]: check for check in json.loads(ran.stdout)["checks"]}, ran.returncode


def compare(loader, build, scratch):
    """What was compared, and where the doctor was wrong, one text each."""
    wrong, compared = [], 0
    for name, variables in environments(loader.plugin, scratch):
        environment = loader_test.clean_environment(**variables)
        report = loader.run_in(environment, "net", folder=scratch)
        if "skipped" in report or "crashed" in report:
            return [report.get("crashed", "")] if "crashed" in report else [], 0
        checks, code = doctor(build, loader.nccl, environment, scratch)
        foretold = re.search(r"takes (ncclNetPlugin_v\d+) of", checks["net plugin"]["seen"])
        tables = report["lives"][0]["tables"]
        compared += 1
        looked_at = checks["job's NCCL"]["seen"]
        if f"{report['release']}, {loader.nccl}" not in looked_at:
            wrong.append(f"{name}: the doctor looked at another NCCL: {looked_at}")
        if tables != ([foretold[1]] if foretold else []):
            wrong.append(f"{name}: NCCL took {tables or 'no table'}, the doctor said: {checks['net plugin']['seen']}")
        if (checks["net plugin"]["status"] == "failed") != (not tables) or (not tables and code != 1):
            wrong.append(f"{name}: NCCL took {tables or 'no table'}, the doctor's exit code was {code}: {checks['net plugin']}")
    return wrong, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--releases", default=os.environ.get("TOMBOLO_NCCL_RELEASES", ""))
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    failed = total = 0
    for nccl in loader_test.installed() + loader_test.libraries_of(arguments.releases):
        with tempfile.TemporaryDirectory() as scratch:
            wrong, compared = compare(loader_test.Loader(build, nccl), build, pathlib.Path(scratch))
        print(f"{nccl}: {compared} environments, {len(wrong)} foretold wrongly", flush=True)
        for words in wrong:
            print(f"  {words}")
        failed += len(wrong)
        total += compared
    if total == 0 and failed == 0:
        print("skipped: no libnccl.so.2 whose loader could be driven (TOMBOLO_NCCL_RELEASES=all downloads some)")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
