#!/usr/bin/env python3
"""Bad input at the command: a message that names what is wrong, a non-zero exit code, nothing left behind.

usage: bad_input_test.py TOMBOLO [unittest arguments]
"""
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from interrupts import take_interrupts  # noqa: E402
from left_behind import environment, nothing_left  # noqa: E402
from ports import unused_port  # noqa: E402
from randomized import test_seed  # noqa: E402

TOMBOLO = os.path.abspath(sys.argv[1])
USAGE, FAILED = 2, 1


class BadInput(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        self.mark = f"{self.id()}-{os.getpid()}"
        self.text = self.write("text.txt", "sand and sea and island and bar\n" * 200)

    def tearDown(self):
        nothing_left(self.folder, self.mark)
        self.scratch.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def start(self, *arguments, **variables):
        return subprocess.Popen([TOMBOLO, *arguments], env=environment(self.folder, self.mark, **variables),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                preexec_fn=take_interrupts)

    def run_it(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        try:
            out, error = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"{arguments} did not end")
        return process.returncode, out, error

    def refuses(self, arguments, *words, code=USAGE, **variables):
        got, _, error = self.run_it(*arguments, **variables)
        self.assertEqual(got, code, f"{arguments}: {error}")
        for word in words:
            self.assertIn(word, error, arguments)

    def cluster(self):
        nic = {"name": "eth0", "kind": "tcp", "rate_gbps": 1, "addresses": ["127.0.0.1"]}
        names = ("a0", "a1", "b0", "b1")
        links = [{"from": f"{a}/eth0", "to": f"{b}/eth0", "bytes_per_second": 1e8, "latency_seconds": 1e-4}
                 for a in names for b in names if a != b]
        return {"tombolo_cluster": 1, "links": links, "hosts": [
            {"name": name, "cluster": name[0], "nics": [nic],
             "devices": [{"name": "cpu", "kind": "cpu", "flops_per_second": 1e10, "memory_bytes": 2**30}]} for name in names]}

    JOB = ["--layers", "4", "--width", "32", "--heads", "2", "--context", "16", "--batch", "4"]

    def plan(self, cluster_path, *more):
        return ["plan", "--cluster", cluster_path, *self.JOB, *more]

    # ---- files

    def test_cluster_file(self):
        self.refuses(self.plan(self.path("none.json")), "none.json", "No such file")
        self.refuses(self.plan(self.write("half.json", '{"tombolo_cluster": 1,\n "hosts": [')), "half.json:2: ")
        self.refuses(self.plan(self.write("empty.json", "")), "empty.json")
        wrong = self.cluster()
        wrong["hosts"][1]["nics"][0]["rate_gbps"] = -4
        self.refuses(self.plan(self.write("rate.json", json.dumps(wrong, indent=1))), "rate.json:", "rate_gbps")
        wrong = self.cluster()
        wrong["hosts"][2]["name"] = "a0"
        self.refuses(self.plan(self.write("twice.json", json.dumps(wrong, indent=1))), "twice.json", "a0")
        self.refuses(["probe", "--no-compute"], "none.json", TOMBOLO_CLUSTER=self.path("none.json"), RANK="0",
                     WORLD_SIZE="1")

    def test_a_cluster_at_odds_with_itself(self):
        def refuses(change, *words):
            wrong = self.cluster()
            change(wrong)
            self.refuses(self.plan(self.write("odd.json", json.dumps(wrong, indent=1))), "odd.json", *words)

        def without_links(lost):
            def change(cluster):
                cluster["links"] = [link for link in cluster["links"] if not lost(link["from"], link["to"])]
            return change

        refuses(lambda c: c["hosts"][0]["devices"][0].pop("flops_per_second"), "device 0 of host a0", "tombolo probe")
        refuses(lambda c: c["hosts"][0]["devices"][0].update(memory_bytes=1e30), "odd.json:9", "at most")
        refuses(lambda c: c["links"][0].update(latency_seconds=1e9), "links[0].latency_seconds", "3600")
        refuses(lambda c: c["links"].append(dict(c["links"][0], bytes_per_second=1)), "links[12]", "given twice")
        refuses(lambda c: c["links"][0].update(to="a1/eth9"), "links[0].to", 'did you mean "eth0"')
        refuses(without_links(lambda here, there: here > there), "no link from a1/eth0 to a0/eth0", "4 parts")
        refuses(without_links(lambda here, there: here[0] != there[0]), "no link from a0/eth0 to b0/eth0",
                "2 parts that no links join in both directions: a0, a1 | b0, b1", "--order")
        # The rate of a link that no plan uses need not be known.
        partial = self.cluster()
        without_links(lambda here, there: {here, there} == {"a0/eth0", "b1/eth0"})(partial)
        code, _, error = self.run_it(*self.plan(self.write("partial.json", json.dumps(partial))))
        self.assertEqual(code, 0, error)

    def test_a_model_or_job_that_cannot_be(self):
        cluster = self.write("cluster.json", json.dumps(self.cluster()))

        def refuses(changes, *words, more=()):
            job = {"--layers": 4, "--width": 32, "--heads": 2, "--context": 16, "--batch": 4}
            job.update(changes)
            flags = [str(word) for item in job.items() for word in item]
            self.refuses(["plan", "--cluster", cluster, *flags, *more], *words)

        refuses({"--layers": 0}, "--layers: expected a number > 0, found 0")
        refuses({"--layers": -1}, "--layers: expected a number > 0, found -1")
        refuses({"--width": 33}, "hidden 33", "heads 2")
        refuses({"--width": 10**9}, "parameters", "at most 1e+15")
        refuses({"--batch": 10**9}, "global_batch", "at most 1000000")
        refuses({"--context": 2**31 - 1}, "activations per row", "context")
        refuses({"--width": 32768}, "no plan fits in memory", "rank 0 (host a0", "It would fit")
        refuses({}, "pipeline 3 does not divide the 4 ranks", more=["--pipeline", "3"])
        refuses({}, "no layout of 4 ranks divides", more=["--micro-batch", "3"])
        refuses({}, "gpt-9", "did you mean", more=["--model", "gpt-9"])
        good = {"layers": 4, "hidden": 32, "heads": 2, "context": 16, "vocabulary": 256}
        for change, words in (({"layers": -1}, ["model.json:2: layers", "-1"]), ({"layers": "four"}, ["layers", '"four"']),
                              ({"depth": 4}, ["depth: unknown field"]), ({"kv_heads": 5}, ["kv_heads is 5", "heads 2"])):
            path = self.write("model.json", json.dumps({**good, **change}, indent=1))
            self.refuses(["plan", "--cluster", cluster, "--model", path, "--batch", "4"], "model.json", *words)

    def test_a_plan_at_odds_with_its_cluster(self):
        cluster = self.write("cluster.json", json.dumps(self.cluster()))
        self.assertEqual(self.run_it(*self.plan(cluster, "--pipeline", "2", "-o", self.path("plan.json")))[0], 0)
        with open(self.path("plan.json"), encoding="utf-8") as file:
            good = json.load(file)

        def refuses(change, *words):
            plan = json.loads(json.dumps(good))
            change(plan)
            path = self.write("odd.json", json.dumps(plan, indent=1))
            self.refuses(["simulate", "--cluster", cluster, "--plan", path], *words)

        refuses(lambda p: p["ranks"][0].update(host="zz"), "cluster.json", 'no host "zz"', "a0, a1, b0, b1")
        refuses(lambda p: p["ranks"][0].update(device=99), "host a0 has 1 devices")
        refuses(lambda p: p["ranks"][0].update(stage=99), "odd.json", "ranks[0].stage")
        refuses(lambda p: p["ranks"][0].pop("replica"), "odd.json", '"replica" is missing')
        refuses(lambda p: p["ranks"][1].update(stage=0, replica=0), "odd.json")
        refuses(lambda p: p["stages"].pop(), "odd.json", "1 stages, but job.pipeline is 2")

    def test_plan_file(self):
        cluster = self.write("cluster.json", json.dumps(self.cluster()))
        for command in (["simulate", "--cluster", cluster], ["train", "--data", self.text]):
            self.refuses([*command, "--plan", self.path("none.json")], "none.json", "No such file")
            self.refuses([*command, "--plan", self.write("half.json", '{"tombolo_plan": 1')], "half.json:1: ")
            self.refuses([*command, "--plan", cluster], "cluster.json")
        self.assertEqual(self.run_it(*self.plan(cluster, "-o", self.path("plan.json")))[0], 0)
        self.refuses(["train", "--data", self.text, "--plan", self.path("plan.json")], "takes 4 ranks", "tombolo run -n 4")

    def test_checkpoint(self):
        good = self.path("model.bin")
        shape = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2"]
        code, _, error = self.run_it("train", "--data", self.text, *shape, "--steps", "0", "--save", good)
        self.assertEqual(code, 0, error)
        with open(good, "rb") as file:
            content = file.read()

        def refuses(name, bad, *words):
            self.refuses(["train", "--data", self.text, "--steps", "1", "--init", self.write(name, bad)], name, *words)

        self.refuses(["train", "--data", self.text, "--init", self.path("none.bin")], "none.bin", "No such file")
        refuses("magic.bin", struct.pack("<i", 7) + content[4:], "7")
        refuses("version.bin", content[:4] + struct.pack("<i", 99) + content[8:], "99")
        refuses("short.bin", content[:-5])
        refuses("long.bin", content + b"12345")
        refuses("header.bin", content[:100])
        refuses("huge.bin", content[:8] + struct.pack("<iiii", *[2**31 - 1] * 4) + content[24:])
        refuses("negative.bin", content[:8] + struct.pack("<iiii", -1, -1, -1, -1) + content[24:])

    def test_data_file(self):
        self.refuses(["train", "--data", self.path("none.txt")], "none.txt", "No such file")
        self.refuses(["train", "--data", self.folder], self.folder, "not a regular file")
        self.refuses(["train", "--data", self.write("empty.txt", "")], "empty.txt", "too few")
        self.refuses(["train", "--data", self.write("beyond.txt", b"\xff" * 9000), "--vocabulary", "128"], "beyond.txt",
                     "255")

    def test_token_files_and_tokenizers(self):
        tokens = struct.pack("<256i", 20240520, 1, 1000, *[0] * 253) + struct.pack("<1000H", *range(1000))
        shape = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2", "--steps", "1"]
        code, _, error = self.run_it("train", "--data", self.write("good.bin", tokens), *shape)
        self.assertEqual(code, 0, error)

        def refuses(name, bad, *words):
            self.refuses(["train", "--data", self.write(name, bad), *shape], name, *words)

        refuses("short.bin", tokens[:-3], "1000 tokens")
        refuses("count.bin", tokens[:8] + struct.pack("<i", -5) + tokens[12:], "-5 tokens")
        refuses("version.bin", tokens[:4] + struct.pack("<i", 7) + tokens[8:], "version 7")
        refuses("header.bin", tokens[:500], "500 bytes")
        self.refuses(["train", "--data", self.path("good.bin"), "--vocabulary", "20", *shape], "good.bin", "token 20")
        self.refuses(["train", "--data", self.path("good.bin") + "," + self.text, *shape], "1 of 2")
        self.refuses(["train", "--data", self.path("no*.bin"), *shape], "no*.bin", "no file fits")
        self.refuses(["train", "--data", self.text, "--tokenizer", self.path("none"), *shape], "none", "No such file")
        self.refuses(["train", "--data", self.text, "--tokenizer", self.text, *shape], "text.txt", "known forms")
        self.refuses(["tokenize", self.text, self.path("out"), "--tokenizer", self.text], "text.txt")
        self.refuses(["export", self.text, self.path("out.pt")], "out.pt", ".safetensors")
        self.refuses(["export", self.text, self.path("out.bin")], "text.txt", "magic number")
        self.assertFalse(os.path.exists(self.path("out")) or os.path.exists(self.path("out.bin")))

    def test_damaged_models_and_tokenizers_never_crash(self):
        folder = self.path("hf")
        os.mkdir(folder)
        model = os.path.join(folder, "model.safetensors")
        shape = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2"]
        code, _, error = self.run_it("train", "--data", self.text, *shape, "--steps", "0", "--save", model)
        self.assertEqual(code, 0, error)
        vocabulary = json.dumps({chr(letter): letter for letter in range(33, 127)} | {"an": 200, "Ġ": 32, "Ċ": 10})
        self.write("vocab.json", vocabulary)
        self.write("merges.txt", "#version: 0.2\na n\n")
        files = [os.path.join(folder, "config.json"), model, self.path("vocab.json"), self.path("merges.txt")]
        contents = [pathlib.Path(path).read_bytes() for path in files]
        command = ["train", "--data", self.text, "--tokenizer", self.path("merges.txt"), "--init", folder, "--steps", "0"]
        code, _, error = self.run_it(*command)
        self.assertEqual(code, 0, error)
        seed = test_seed()
        generator = random.Random(seed)
        for _ in range(40):
            which = generator.randrange(len(files))
            bad = bytearray(contents[which])
            for _ in range(generator.randint(1, 3)):
                if not bad:
                    break
                # The first bytes of the model are its header; what follows are numbers, of which any will do.
                at = generator.randrange(min(len(bad), 1500))
                if generator.random() < 0.5:
                    bad[at] = generator.randrange(256)
                else:
                    del bad[at:at + generator.randint(1, 40)]
            with open(files[which], "wb") as file:
                file.write(bad)
            code, _, error = self.run_it(*command)
            self.assertIn(code, (0, FAILED, USAGE), f"TOMBOLO_TEST_SEED={seed}: {error}")
            if code != 0:
                self.assertRegex(error, r"^tombolo train: ", f"TOMBOLO_TEST_SEED={seed}")
            with open(files[which], "wb") as file:
                file.write(contents[which])

    def test_damaged_files_never_crash_anything(self):
        cluster = json.dumps(self.cluster(), indent=1).encode()
        cluster_path = self.write("cluster.json", cluster)
        self.assertEqual(self.run_it(*self.plan(cluster_path, "-o", self.path("plan.json")))[0], 0)
        with open(self.path("plan.json"), "rb") as file:
            plan = file.read()
        seed = test_seed()
        generator = random.Random(seed)
        for _ in range(60):
            content, which = generator.choice([(cluster, "cluster"), (plan, "plan")])
            bad = bytearray(content)
            for _ in range(generator.randint(1, 4)):
                at = generator.randrange(len(bad))
                change = generator.randrange(4)
                if change == 0:
                    bad[at] = generator.randrange(256)
                elif change == 1:
                    del bad[at:at + generator.randint(1, 40)]
                elif change == 2:
                    bad[at:at] = generator.choice([b"-", b"9" * 30, b"null", b"[" * 200, b"1e999", b'"', b"\0"])
                else:
                    del bad[at:]
                bad = bad or bytearray(b"{")
            path = self.write("bad.json", bytes(bad))
            command = self.plan(path) if which == "cluster" else ["simulate", "--cluster", cluster_path, "--plan", path]
            code, _, error = self.run_it(*command)
            self.assertIn(code, (0, FAILED, USAGE), f"TOMBOLO_TEST_SEED={seed}: {error}\n{bytes(bad)}")
            if code != 0:
                self.assertRegex(error, r"^tombolo (plan|simulate): ", f"TOMBOLO_TEST_SEED={seed}")

    # ---- ranks

    def rank(self, number, port, secret="sesame", size=2, deadline=60):
        return self.start("train", "--data", self.text, "--steps", "1", "--replicas", "2", RANK=str(number),
                          WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TOMBOLO_SECRET=secret,
                          TOMBOLO_DEADLINE=str(deadline))

    def ends(self, process):
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, FAILED, error)
        return error

    def test_a_rank_that_never_arrives_is_named(self):
        error = self.ends(self.rank(0, unused_port(), deadline=3))
        self.assertIn("rank 1 of 2 did not arrive", error)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            error = self.ends(self.start("train", "--data", self.text, "--replicas", "2", RANK="0", WORLD_SIZE="2",
                                         MASTER_ADDR="127.0.0.1", TOMBOLO_PORT=str(port), TOMBOLO_DEADLINE="3"))
        self.assertIn(str(port), error)
        self.assertIn("in use", error)

    def test_a_wrong_secret_is_refused_on_both_ends(self):
        port = unused_port()
        first, second = self.rank(0, port), self.rank(1, port, secret="wrong")
        self.assertIn("TOMBOLO_SECRET", self.ends(second))
        # It waits for the right rank 1 meanwhile, and would for long; it says so once its answer has gone out.
        patience = threading.Timer(60, first.kill)
        patience.start()
        said = next((line for line in first.stderr if "wrong secret" in line), "")
        patience.cancel()
        first.kill()
        first.communicate(timeout=60)
        self.assertIn("wrong secret", said)

    # ---- emulation

    def test_without_namespaces_the_demand_for_them_fails_and_auto_says_so(self):
        # A user namespace in which no network namespace may be made: as in a locked-down container.
        forbid = ["unshare", "--user", "--map-root-user", "sh", "-c",
                  'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh"]
        if subprocess.run([*forbid, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("user namespaces are not permitted here")
        for mode, wanted in (("namespaces", FAILED), ("auto", 0)):
            done = subprocess.run([*forbid, TOMBOLO, "run", "--emulate", "holmes", "--emulation-mode", mode, "--", "true"],
                                  env=environment(self.folder, self.mark), capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, wanted, done.stderr)
            self.assertIn("namespace", done.stdout + done.stderr)
            nothing_left(self.folder, self.mark)

    def test_an_emulation_that_makes_no_sense(self):
        self.refuses(["run", "--emulate", "nonsense", "--", "true"], "nonsense")
        self.refuses(["run", "--emulate", "holmes:fast=-1gbit", "--", "true"], "fast")
        self.refuses(["run", "--emulate", self.path("none.json"), "--", "true"], "none.json")
        self.refuses(["run", "--emulate", self.write("bad.json", '{"name": 3}'), "--", "true"], "bad.json")

    def test_an_interrupt_while_ranks_run(self):
        # No shell: one that starts a program just when the signal comes waits for that program.
        rank = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2]); print('ready', flush=True); signal.sigwait([2])"
        process = self.start("run", "--emulate", "holmes", "--", sys.executable, "-c", rank)
        try:
            self.assertIn("ready", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        finally:
            process.kill()
            process.communicate()
        self.assertEqual(process.returncode, 130)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
