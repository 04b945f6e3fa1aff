#!/usr/bin/env python3
"""The `tombolo` command as a script sees it: its JSON, its exit codes, what goes where.

Usage: command_test.py TOMBOLO SOURCE_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOMBOLO, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2])
ROOMS = ["base", "compute", "topology", "transport", "collectives", "probe", "net_plugin", "planner", "trainer", "tools"]


def tombolo(*arguments, **variables):
    """Runs the command with only the given TOMBOLO_ variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
    environment.update(variables)
    return subprocess.run([TOMBOLO, *arguments], env=environment, capture_output=True, text=True, timeout=60,
                          check=False)


class Topo(unittest.TestCase):
    def test_json_lists_every_interface_with_a_reason(self):
        done = tombolo("topo", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        machine = json.loads(done.stdout)
        self.assertLessEqual({"host", "cores", "numa_nodes", "memory_bytes", "nics", "gpus"}, machine.keys())
        self.assertEqual(machine["host"], socket.gethostname())
        self.assertEqual(machine["cores"], len(os.sched_getaffinity(0)))
        names = {nic["name"] for nic in machine["nics"]}
        self.assertLessEqual({name for _, name in socket.if_nameindex()}, names)
        for nic in machine["nics"]:
            self.assertIn(nic["kind"], ("infiniband", "roce", "iwarp", "tcp"))
            self.assertIn(nic["state"], ("up", "down", "unknown"))
            self.assertIs(type(nic["usable"]), bool)
            self.assertTrue(nic["reason"])
        self.assertTrue(any(nic["usable"] for nic in machine["nics"]))

    def test_the_table_names_what_the_json_names(self):
        table = tombolo("topo").stdout
        for nic in json.loads(tombolo("topo", "--json").stdout)["nics"]:
            self.assertRegex(table, rf"(?m)^{re.escape(nic['name'])} .*{re.escape(nic['reason'])}$")

    def test_the_cluster_file_holds_the_usable_nics(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "host.json")
            done = tombolo("topo", "--json", "--cluster-out", path, "--cluster", "Z")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path, encoding="utf-8") as file:
                cluster = json.load(file)
            self.assertEqual(os.listdir(folder), ["host.json"])
        usable = [nic["name"] for nic in json.loads(done.stdout)["nics"] if nic["usable"]]
        self.assertEqual(cluster["tombolo_cluster"], 1)
        self.assertEqual(len(cluster["hosts"]), 1)
        self.assertEqual(cluster["hosts"][0]["cluster"], "Z")
        self.assertEqual([nic["name"] for nic in cluster["hosts"][0]["nics"]], usable)
        self.assertGreaterEqual(len(cluster["hosts"][0]["devices"]), 1)

    def test_reads_a_recorded_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            port = pathlib.Path(folder, "sys/class/infiniband/mlx5_0/ports/1")
            port.mkdir(parents=True)
            for name, text in {"link_layer": "InfiniBand", "state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)"}.items():
                (port / name).write_text(text + "\n")
            done = tombolo("topo", "--json", "--root", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        nic, = json.loads(done.stdout)["nics"]
        self.assertEqual((nic["name"], nic["kind"], nic["rate_gbps"]), ("mlx5_0/1", "infiniband", 400))

    def test_tells_distances_and_pictures_of_a_recorded_machine(self):
        tree = str(SOURCES / "topology/recorded/gpu-server.tree")
        machine = json.loads(tombolo("topo", "--root", tree, "--format", "json").stdout)
        labels = machine["distances"]["devices"]
        cells = dict(zip(labels, machine["distances"]["cells"]))
        self.assertEqual(cells["GPU0"][labels.index("ib0")], "PIX")
        self.assertEqual(cells["GPU0"][labels.index("ib3")], "SYS")
        table = tombolo("topo", "--root", tree).stdout
        for label in labels:
            self.assertRegex(table, rf"(?m)^{label}  +{' +'.join(cells[label])} ")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "topo.xml")
            done = tombolo("topo", "--root", tree, "--format", "nccl-xml", "-o", path)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            system = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(system.tag, "system")
        self.assertEqual(len(system.findall(".//gpu")), 4)
        self.assertTrue(tombolo("topo", "--root", tree, "--format", "dot").stdout.startswith("graph machine {"))

    @unittest.skipUnless(shutil.which("dot"), "Graphviz is not installed")
    def test_draws_every_recorded_machine(self):
        for tree in sorted((SOURCES / "topology/recorded").glob("*.tree")):
            done = tombolo("topo", "--root", str(tree), "--format", "svg")
            self.assertEqual((done.returncode, done.stderr), (0, ""), tree)
            self.assertTrue(xml.etree.ElementTree.fromstring(done.stdout).tag.endswith("svg"), tree)

    def test_says_what_to_install_for_a_picture(self):
        done = tombolo("topo", "--format", "svg", PATH="/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install graphviz", done.stderr)

    def test_says_which_nics_of_other_hosts_can_be_reached(self):
        recorded = SOURCES / "topology/recorded"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other.json")
            tombolo("topo", "--root", str(recorded / "roce-v2.tree"), "--cluster-out", path)
            arguments = ["topo", "--root", str(recorded / "roce-vlan.tree"), "--reach", path]
            table = tombolo(*arguments).stdout
            pairs = json.loads(tombolo(*arguments, "--json").stdout)["reach"]
            self.assertEqual(tombolo(*arguments, "--format", "dot").returncode, 2)
        answers = {(pair["from"], pair["to"]): (pair["by"], pair["reaches"]) for pair in pairs}
        self.assertEqual(answers["eno1", "roce-host/eno1"], ("tcp", "yes"))
        self.assertEqual(answers["ens7np0.100", "roce-host/ens3f0np0"], ("roce", "no"))
        self.assertEqual(len(answers), 4)
        self.assertRegex(table, r"(?m)^eno1 +roce-host +eno1 +tcp +yes +")

    def test_names_the_line_of_a_recorded_tree_that_it_cannot_read(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tree") as tree:
            tree.write("/sys/a = 1\nnonsense\n")
            tree.flush()
            done = tombolo("topo", "--root", tree.name)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{tree.name}:2: expected", done.stderr)

    def test_names_a_root_that_is_not_there(self):
        done = tombolo("topo", "--root", "/no/such/folder")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^tombolo topo: .*/no/such/folder")
        self.assertEqual(done.stdout, "")


class Env(unittest.TestCase):
    def test_json_describes_every_declared_parameter(self):
        done = tombolo("env", "--json", TOMBOLO_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        parameters = {entry["name"]: entry for entry in json.loads(done.stdout)["parameters"]}
        for entry in parameters.values():
            self.assertLessEqual({"name", "room", "type", "default", "meaning", "value", "set", "valid"}, entry.keys())
            self.assertTrue(entry["meaning"].endswith("."), entry)
            if not entry["set"]:
                self.assertEqual(entry["value"], entry["default"])
        self.assertTrue(parameters["TOMBOLO_LOG"]["set"])
        self.assertEqual(parameters["TOMBOLO_LOG"]["value"], "info")
        declared = set()
        for room in ROOMS:
            for path in (SOURCES / room).rglob("*.cpp"):
                if not path.name.endswith("_test.cpp"):
                    declared |= set(re.findall(r'"(TOMBOLO_\w+)",\s*ParameterType::', path.read_text(encoding="utf-8")))
        self.assertEqual(set(parameters), declared, "tools/cli/parameters.cpp must list every room's parameters")

    def test_every_default_is_itself_a_value(self):
        parameters = json.loads(tombolo("env", "--json").stdout)["parameters"]
        defaults = {entry["name"]: entry["default"] for entry in parameters if entry["default"]}
        done = tombolo("env", "--json", **defaults)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_reports_a_value_that_cannot_be_used_and_a_variable_that_nothing_reads(self):
        done = tombolo("env", "--json", TOMBOLO_LOG="loud", TOMBOLO_HOTS="x")
        self.assertEqual(done.returncode, 1)
        entry, = (entry for entry in json.loads(done.stdout)["parameters"] if not entry["valid"])
        self.assertEqual(entry["name"], "TOMBOLO_LOG")
        self.assertIn("error|warning|info|trace", entry["problem"])
        self.assertIn("TOMBOLO_LOG='loud'", done.stderr)
        self.assertIn("did you mean TOMBOLO_HOST?", done.stderr)

    def test_a_secret_is_not_shown(self):
        for arguments in ["env"], ["env", "--json"]:
            done = tombolo(*arguments, TOMBOLO_SECRET="abracadabra")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("(hidden)", done.stdout)
            self.assertNotIn("abracadabra", done.stdout + done.stderr)

    def test_the_table_is_aligned(self):
        lines = tombolo("env").stdout.splitlines()
        column = lines[0].index("MEANING")
        self.assertTrue(all(line[column - 2:column] == "  " and line[column] != " " for line in lines), lines)


class Commands(unittest.TestCase):
    def names(self):
        text = (SOURCES / "tools/cli/commands.inc").read_text(encoding="utf-8")
        return re.findall(r"^TOMBOLO_COMMAND\((\w+)\)", text, re.M)

    def test_each_is_listed_and_teaches_with_an_example(self):
        overview = tombolo("--help")
        self.assertEqual(overview.returncode, 0)
        for name in self.names():
            self.assertRegex(overview.stdout, rf"(?m)^  {name}  +\w")
            done = tombolo(name, "--help")
            self.assertEqual(done.returncode, 0, name)
            self.assertRegex(done.stdout, rf"(?m)^  .*\btombolo {name}\b", f"no example in the help of {name}")

    def test_bad_usage_has_its_own_exit_code(self):
        for arguments in [], ["nonsense"], ["topo", "--nonsense"], ["topo", "--root"]:
            done = tombolo(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "", arguments)
            self.assertTrue(done.stderr, arguments)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOMBOLO, "env"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^tombolo env: (cannot write to file|writing to standard output): ")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
