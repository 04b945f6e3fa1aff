#!/usr/bin/env python3
"""The fleets of examples/fleets/: each is planned for Megatron-LM, and the script that --emit writes is run on every node, with a
torchrun that writes down what it was given. What the nodes start together has to be the plan: as many ranks as its degrees
multiply to, each node once, each device once, every argument one that Megatron-LM knows. The scripts for Slurm and Open MPI are run
too, with an srun and an mpirun that start every rank here: each rank has to get its place, the settings that Megatron-LM wants and the
plugin's. The fleet that is too small for its model says what would do.

Usage: fleets_test.py TOMBOLO SOURCE [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOMBOLO = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(sys.argv[2]).resolve()
FLEETS = SOURCE / "examples" / "fleets"
KNOWN = set((SOURCE / "planner/testing/names/megatron.txt").read_text(encoding="utf-8").split("\n"))
# What is trained on each, as its file's table in examples/fleets/README.md says.
JOBS = {
    "unlike_fabrics": ["--model", "llama2-70b", "--batch", "512"],
    "two_halls": ["--model", "gpt3-175b", "--batch", "2048"],
    "desktop_gpus": ["--model", "llama2-7b", "--batch", "96"],
    "three_sizes": ["--model", "llama2-13b", "--batch", "512"],
}
TOO_SMALL = ["--model", "gpt3-175b", "--batch", "64"]
STAND_IN = """#!/bin/sh
printf '%s\\n' "devices=$CUDA_VISIBLE_DEVICES" "host=$TOMBOLO_HOST" "$@"
"""
# As srun does, with all of the environment; and as mpirun does, with what -x names alone.
SRUN = """#!/bin/sh
shift 2
rank=0 last= local=0
while read -r host; do
  [ "$host" = "$last" ] || local=0
  SLURM_PROCID=$rank SLURM_LOCALID=$local SLURMD_NODENAME=$host "$@" < /dev/null || exit 1
  rank=$((rank + 1)) last=$host local=$((local + 1))
done < "$SLURM_HOSTFILE"
"""
MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo 'mpirun (Open MPI) 4.1.8'; exit; fi
hosts=$4 passed=
while [ "$1" != sh ]; do
  if [ "$1" = -x ]; then passed="$passed $2=$(printenv "$2")"; fi
  shift
done
rank=0 last= local=0
while read -r host; do
  [ "$host" = "$last" ] || local=0
  env -i PATH="$PATH" TMPDIR="$TMPDIR" $passed TOMBOLO_HOST=$host OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$local "$@" < /dev/null || exit 1
  rank=$((rank + 1)) last=$host local=$((local + 1))
done < "$hosts"
"""
TRAINER = """#!/bin/sh
echo "rank=$RANK local=$LOCAL_RANK of=$WORLD_SIZE connections=$CUDA_DEVICE_MAX_CONNECTIONS net=$NCCL_NET plugin=$NCCL_NET_PLUGIN"
for word in "$@"; do
  [ "$before" != --nccl-communicator-config-path ] || sed 's/^/group /' "$word"
  before=$word
done
"""


def run(*command, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_") or name == "TOMBOLO_LIBRARY"}
    return subprocess.run([str(one) for one in command], env=kept | more, capture_output=True, text=True, timeout=280, check=False)


class Fleets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tombolo-fleets-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in {"torchrun": STAND_IN, "srun": SRUN, "mpirun": MPIRUN, "trainer": TRAINER}.items():
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o700)

    def cluster(self, fleet):
        path = self.folder / f"{fleet}.json"
        done = run(TOMBOLO, "topo", "--fleet", FLEETS / f"{fleet}.json", "--cluster-out", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def plan(self, fleet, *options):
        done = run(TOMBOLO, "plan", "--cluster", self.cluster(fleet), "--framework", "megatron", "--strategy", "auto", *options)
        return done

    def started(self, script, node):
        """What torchrun was given on a node."""
        done = run("/bin/sh", script, "pretrain_gpt.py", NODE_RANK=str(node), PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def check(self, fleet):
        done = self.plan(fleet, *JOBS[fleet], "-o", self.folder / "plan.json", "--emit", "megatron")
        self.assertEqual(done.returncode, 0, done.stderr)
        script = self.folder / "start.sh"
        script.write_text(done.stdout, encoding="utf-8")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        first = self.started(script, 0)
        value = {word: first[at + 1] for at, word in enumerate(first[:-1]) if word.startswith("--")}
        nodes, each = int(value["--nnodes"]), int(value["--nproc-per-node"])
        self.assertEqual(nodes * each, len(plan["ranks"]))
        product = int(value["--tensor-model-parallel-size"]) * int(value["--pipeline-model-parallel-size"])
        self.assertEqual(len(plan["ranks"]) % product, 0, "Megatron takes the rest for replicas")
        self.assertEqual(int(value["--global-batch-size"]) % (nodes * each // product * int(value["--micro-batch-size"])), 0)
        program = first[first.index("pretrain_gpt.py"):]
        for word in program:
            if word.startswith("--"):
                self.assertIn(word, KNOWN)
        hosts, places = set(), set()
        for node in range(nodes):
            given = self.started(script, node)
            self.assertEqual(given[given.index("--node-rank") + 1], str(node))
            self.assertEqual(given[given.index("--nproc-per-node") + 1], str(each))
            self.assertEqual(given[given.index("pretrain_gpt.py"):], program, "all nodes must be given the same arguments")
            host = given[1].removeprefix("host=")
            hosts.add(host)
            visible = given[0].removeprefix("devices=")
            places |= {(host, int(one)) for one in (visible.split(",") if visible else range(each))}
        self.assertEqual(len(hosts), nodes)
        self.assertEqual(places, {(rank["host"], rank["device"]) for rank in plan["ranks"]})

    def test_unlike_fabrics(self):
        self.check("unlike_fabrics")

    def test_two_halls(self):
        self.check("two_halls")

    def test_desktop_gpus(self):
        self.check("desktop_gpus")

    def test_three_sizes(self):
        self.check("three_sizes")

    def test_slurm_and_mpi_give_every_rank_what_megatron_wants(self):
        for launcher in ("slurm", "mpi"):
            done = self.plan("unlike_fabrics", *JOBS["unlike_fabrics"], "-o", self.folder / "plan.json", "--emit", launcher)
            self.assertEqual(done.returncode, 0, done.stderr)
            script = self.folder / f"{launcher}.sh"
            script.write_text(done.stdout, encoding="utf-8")
            plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
            ranks = len(plan["ranks"])
            self.assertGreater(max(rank["tensor"] for rank in plan["ranks"]), 0, "else nothing is wanted")
            for network, net in (("tombolo", "Tombolo"), ("mixed", "")):
                done = run("/bin/sh", script, "trainer", NETWORK=network, TMPDIR=str(self.folder), PATH=f"{self.folder}:{os.environ['PATH']}")
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = done.stdout.splitlines()
                places = [line for line in lines if line.startswith("rank=")]
                self.assertEqual(len(places), ranks)
                for rank, line in enumerate(places):
                    self.assertRegex(line, rf"^rank={rank} local=[0-7] of={ranks} connections=1 net={net} plugin=tombolo$")
                named = lines.count("group   net_name: IB")
                self.assertEqual(named > 0, network == "mixed")
                self.assertEqual(named % ranks, 0)
            self.assertEqual(list(self.folder.glob("tmp.*")), [], "files that were left behind")

    def test_a_model_that_fits_nowhere_says_what_would_make_it_fit(self):
        done = self.plan("too_small", *TOO_SMALL, "--emit", "megatron")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no plan fits in memory", done.stderr)
        self.assertRegex(done.stderr, r"It would fit (on \d+ ranks of the same kind|with )")
        self.assertLess(len(done.stderr), 2000, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
