#!/usr/bin/env python3
"""bench/compare: its figures, its page, and runs with tiny sizes.  Usage: compare_test.py BUILD alone|peers [TEST...]

alone: everything that needs no other library. peers: those that are installed beside Tombolo; ends with 77 where none is.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent
BUILD, PART = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
sys.path[:0] = [str(HERE), str(HERE.parent / "report")]
import collectives_page  # noqa: E402
import collectives_picture  # noqa: E402
import compare  # noqa: E402
import figures  # noqa: E402
import libraries  # noqa: E402
import scenes  # noqa: E402

# Stands for `tombolo`: its rank's result is wrong at 64 bytes, and its all-gather fails.
PROGRAM = """#!/bin/sh
case "$*" in
  *--version*) echo tombolo 9.9 ;;
  *allgather*) echo 'no <luck>' >&2; exit 3 ;;
  *) echo '{"bytes": 4, "right": true, "wrong_elements": 0, "microseconds": [3, 1, 2]}'
     echo '{"bytes": 64, "right": false, "wrong_elements": 1, "microseconds": [5]}' ;;
esac
"""
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
: > "$2"
"""


def run(library, collective, times, turn=1, ranks=2, wrong=(), scene="host"):
    return {"scene": scene, "library": library, "collective": collective, "ranks": ranks, "round": turn, "bytes": list(times),
            "median_us": list(times.values()), "right": [size not in wrong for size in times]}


def results(*runs):
    names = {"tombolo": "Tombolo", "peer": "Peer", "other": "Other"}
    return {"date": "today", "machine": {"cores": 2, "processor": "P", "kernel": "K", "load_average": 1.0}, "load_after": 2.0, "rounds": 2,
            "source": {"commit": "abc", "changed": False}, "seed": 7, "behind": 1.5, "autogroup": 0, "missing": {"UCC": "no package"},
            "libraries": {key: {"name": name, "version": "1", "settings": "s"} for key, name in names.items()},
            "failures": [], "runs": list(runs)}


class Figures(unittest.TestCase):
    def test_a_cell_is_the_median_of_the_rounds_and_leaves_out_wrong_results(self):
        found = figures.cells([run("tombolo", "allreduce", {4: 1.0}), run("tombolo", "allreduce", {4: 9.0}, 2),
                               run("tombolo", "allreduce", {4: 2.0}, 3), run("peer", "allreduce", {4: 0.1}, wrong={4}),
                               run("other", "allreduce", {4: 5.0}), run("tombolo", "allgather", {4: 1.0})], "host", ["allreduce"])
        self.assertEqual(found, {("allreduce", 2, 4): {"tombolo": 2.0, "other": 5.0}})

    def test_the_ratio_is_of_the_best_peer(self):
        self.assertEqual(figures.best_peer({"tombolo": 2.0, "peer": 8.0, "other": 3.0}), ("other", 3.0))
        self.assertEqual(figures.ratio({"tombolo": 2.0, "peer": 8.0, "other": 3.0}), 1.5)
        self.assertIsNone(figures.ratio({"tombolo": 2.0}))
        self.assertIsNone(figures.ratio({"peer": 2.0}))

    def test_the_summary_counts_only_what_could_be_compared(self):
        found = figures.summary([{"tombolo": 1.0, "peer": 8.0}, {"tombolo": 2.0, "peer": 1.0}, {"tombolo": 1.0}])
        self.assertEqual((found["cells"], found["won"]), (2, 1))
        self.assertAlmostEqual(found["mean"], 2.0)
        self.assertEqual(figures.summary([{"tombolo": 1.0}]), {"cells": 0, "won": 0, "mean": None})

    def test_who_is_far_behind_at_every_size_is_left_behind_but_ours_never(self):
        runs = [run("tombolo", "allreduce", {4: 9.0, 64: 9.0}), run("peer", "allreduce", {4: 1.5, 64: 2.0}),
                run("other", "allreduce", {4: 1.0, 64: 9.0}), run("other", "broadcast", {4: 90.0})]
        self.assertEqual(figures.left_behind(runs, 1.5), set())
        self.assertEqual(figures.left_behind([run("third", "allreduce", {4: 1.5, 64: 3.0}), *runs], 1.5), {("host", "third", "allreduce", 2)})


class Page(unittest.TestCase):
    def test_it_says_what_was_won_and_lost(self):
        found = results(run("tombolo", "allreduce", {4: 1.0, 64: 4.0}), run("peer", "allreduce", {4: 3.0, 64: 2.0}),
                        run("tombolo", "allreduce", {4: 2.0}, ranks=4), run("other", "allreduce", {4: 2.5}, ranks=4))
        text = collectives_page.page(found, {"host": "collectives.svg"})
        self.assertIn("| 4 B | 1 | 3 | Peer | 3.00 |", text)
        self.assertIn("| 64 B | 4 | 2 | Peer | **0.50** |", text)
        self.assertIn("2 of 3 (67 %) | **missed**", text)
        self.assertIn("The figures of 4 ranks are of more ranks than this machine has processors (2).", text)
        self.assertIn("UCC: no package.", text)

    def test_each_scene_of_emulated_hosts_has_a_section_that_says_where_the_ranks_are(self):
        found = results(*(run(library, "allreduce", {4: time}, ranks=4, scene=scene) for library, time in (("tombolo", 1.0), ("peer", 2.0))
                          for scene in ("clusters", "interleaved")))
        text = collectives_page.page(found, {"clusters": "one.svg"})
        block, interleaved = text.split("## Two clusters\n")[1].split("## Two clusters, ranks interleaved\n")
        self.assertIn("`--emulate two-clusters:rate=1gbit,hosts=2` for 4 ranks", block)
        self.assertIn("The ranks of a host follow each other", block)
        self.assertIn("(one.svg)", block)
        self.assertIn("the hosts take turns", interleaved)
        self.assertNotIn("svg", interleaved)
        self.assertEqual(len(collectives_page.wanted(found).splitlines()), 2)

    def test_it_names_wrong_results_and_failures(self):
        found = results(run("tombolo", "broadcast", {4: 1.0}, wrong={4}))
        found["failures"] = [{"library": "peer", "collective": "alltoall", "ranks": 8, "round": 2, "scene": "host", "reason": "a\nno luck"}]
        text = collectives_page.page(found, {})
        self.assertIn("Tombolo, Broadcast, 2 ranks, 4 B, round 1: **wrong result**", text)
        self.assertIn("Peer, All-to-all, 8 ranks, round 2 failed: no luck", text)

    def test_uneven_parts_have_a_section_of_their_own_and_count_in_no_other_figure(self):
        found = results(run("tombolo", "gather", {4: 1.0}), run("peer", "gather", {4: 3.0}),
                        run("tombolo", "gatherv", {4: 5.0}), run("peer", "gatherv", {4: 4.0}))
        text = collectives_page.page(found, {})
        self.assertIn("1 of 1 (100 %) | met", text)
        even, uneven = text.split("## Parts of unequal size, one host")
        self.assertNotIn("uneven", even)
        self.assertIn("### Gather of uneven parts, 2 ranks", uneven)
        self.assertIn("| 4 B | 5 | 4 | Peer | **0.80** |", uneven)
        self.assertEqual(collectives_page.wanted(found), "one host: faster than the best other library in 1 of 1 (100 %); "
                         "geometric mean of the ratios 3.00")

    def test_the_picture_has_a_panel_for_each_collective_and_a_line_for_each_number_of_ranks(self):
        runs = [run(library, collective, {4: time, 4096: 3.0}, ranks=ranks) for library, time in (("tombolo", 1.0), ("peer", 400.0))
                for collective in ("allreduce", "alltoall") for ranks in (2, 8)]
        root = tree.fromstring(collectives_picture.picture(results(*runs), "host"))
        space = "{http://www.w3.org/2000/svg}"
        texts = [text.text for text in root.iter(f"{space}text")]
        self.assertTrue({"All-reduce", "All-to-all", "2 ranks", "8 ranks"} <= set(texts), texts)
        self.assertEqual(len(list(root.iter(f"{space}polyline"))), 4)
        _, _, width, height = map(float, root.get("viewBox").split())
        for dot in root.iter(f"{space}circle"):
            self.assertTrue(0 < float(dot.get("cx")) < width and 0 < float(dot.get("cy")) < height)
        self.assertIsNone(collectives_picture.picture(results(run("tombolo", "allreduce", {4: 1.0})), "host"))
        self.assertIsNone(collectives_picture.picture(results(*runs), "clusters"))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, *options, build=BUILD, code=0, environment=None):
        done = subprocess.run([sys.executable, HERE / "compare.py", "--build", build, "--out", self.folder / "out", "--rounds", "1", "--seconds",
                               "0.002", "--seed", "5", *options], capture_output=True, text=True, timeout=500, check=False,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.said = done.stdout + done.stderr
        return json.loads((self.folder / "out" / "collectives.json").read_text(encoding="utf-8"))

    def check(self, found, collectives, ranks):
        """Every run has every size, and every result is right."""
        self.assertEqual(found["failures"], [])
        for one in found["runs"]:
            self.assertTrue(all(one["right"]), one)
            self.assertTrue(all(time > 0 for time in one["median_us"]), one)
            self.assertEqual(len(one["bytes"]), 1 if one["collective"] == "barrier" else 2, one)
        self.assertEqual({(one["collective"], one["ranks"]) for one in found["runs"]}, {(one, n) for one in collectives for n in ranks})


class Alone(Runs):
    def test_tombolo_alone_gives_a_page(self):
        found = self.compare("--libraries", "tombolo", "--sizes", "4,100000", "--ranks", "2,3")
        self.check(found, libraries.COLLECTIVES, (2, 3))
        text = (self.folder / "out" / "collectives.md").read_text(encoding="utf-8")
        self.assertIn("### Reduce-scatter, 3 ranks", text)
        self.assertFalse((self.folder / "out" / "collectives.svg").exists())
        self.assertIn("no other library was measured", self.said)

    def test_uneven_parts_arrive_right_also_where_some_are_empty(self):
        found = self.compare("--libraries", "tombolo", "--collectives", *libraries.UNEVEN, "--sizes", "4,100000", "--ranks", "2,3")
        self.check(found, libraries.UNEVEN, (2, 3))

    def test_wrong_results_and_failures_end_with_1(self):
        for name, text in (("bin/tombolo", PROGRAM), ("compiler", COMPILER)):
            path = self.folder / "build" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        found = self.compare("--libraries", "tombolo", "--collectives", "allreduce", "allgather", "--ranks", "2", "--sizes", "4,64",
                             build=self.folder / "build", code=1, environment={"CXX": str(self.folder / "build" / "compiler")})
        self.assertEqual([(one["median_us"], one["right"]) for one in found["runs"]], [([2, 5], [True, False])])
        self.assertIn("no <luck>", found["failures"][0]["reason"])
        self.assertIn("WRONG: tombolo, allreduce, 2 ranks, round 1", self.said)

    def test_it_says_what_to_build(self):
        done = subprocess.run([sys.executable, HERE / "compare.py", "--build", self.folder], capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Build it first", done.stderr)


class Peers(Runs):
    def test_every_library_gives_right_results(self):
        here, _ = libraries.find(BUILD)
        every = libraries.COLLECTIVES + libraries.UNEVEN
        found = self.compare("--sizes", "4,100000", "--ranks", "2,4", "--collectives", *every)
        self.check(found, every, (2, 4))
        self.assertEqual({one["library"] for one in found["runs"]}, {one.key for one in here if not one.only_on_hosts})
        self.assertTrue((self.folder / "out" / "collectives.svg").exists())

    @unittest.skipUnless(subprocess.run(["unshare", "-rnu", "true"], check=False).returncode == 0, "namespaces are not permitted here")
    def test_every_library_gives_right_results_on_emulated_hosts(self):
        here, _ = libraries.find(BUILD)
        found = self.compare("--scenes", "clusters", "interleaved", "--collectives", "allreduce", "broadcast", "--sizes", "4,65536")
        self.check(found, ("allreduce", "broadcast"), (4, 8))
        self.assertEqual({(one["scene"], one["library"]) for one in found["runs"]},
                         {(scene, one.key) for one in here for scene in ("clusters", "interleaved")})
        self.assertTrue((self.folder / "out" / "collectives_clusters.svg").exists())

    @unittest.skipUnless(subprocess.run(["unshare", "-rnu", "true"], check=False).returncode == 0, "namespaces are not permitted here")
    def test_open_mpi_takes_shared_memory_inside_a_host_and_its_hierarchical_collectives(self):
        here, _ = libraries.find(BUILD)
        if not any(one.key == "openmpi" for one in here):
            self.skipTest("Open MPI is not installed")
        for library in (one for one in here if one.key.startswith("openmpi")):
            text = compare.run_driver(BUILD, scenes.SCENES["clusters"], library, 4, ["allreduce", "--sizes", "4", "--seconds", "0.002"],
                                      {"OMPI_MCA_coll_base_verbose": "20", "OMPI_MCA_btl_base_verbose": "30"})
            chosen = len(re.findall(r"comm_select: selecting +han, priority 100, Enabled", text))
            self.assertEqual(chosen, 0 if library.key == "openmpi" else 4)
            # An MPI's ranks call another host by its address, and their own by its name.
            used = re.findall(r"\[(host\d):\d+\] mca: bml: Using (\w+) btl for send to \[\[\d+,1\],(\d)\]", text)
            for host, ranks in (("host0", "01"), ("host1", "23")):
                self.assertEqual({peer for here, way, peer in used if here == host and way == "vader"}, set(ranks), used)
                self.assertFalse({peer for here, way, peer in used if here == host and way == "tcp"} & set(ranks), used)


if __name__ == "__main__":
    if PART == "peers" and len(libraries.find(BUILD)[0]) == 1:
        print("no other library is installed: apt install openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev")
        sys.exit(77)
    tests = [Peers] if PART == "peers" else [Figures, Page, Alone]
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(one) for one in tests)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
