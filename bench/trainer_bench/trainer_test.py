#!/usr/bin/env python3
"""bench/trainer with a build's programs, beside PyTorch where an interpreter has it.  Usage: trainer_test.py BUILD"""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as tree

BENCH = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path[:0] = [str(BENCH), str(BENCH / "report")]
from line_chart import lines  # noqa: E402
from trainer_bench import compare, job, show, sides  # noqa: E402

TINY = ["--layers", "2", "--heads", "2", "--context", "32", "--batch", "4"]
# An interpreter whose rank 1 fails, and whose rank 0 waits for it for good.
BROKEN = """#!/bin/sh
[ "$1" = -c ] && exit 0
[ "$3" = 1 ] || exec sleep 300
echo 'no <luck>' >&2
exit 3
"""
PYTHON = sides.find_python("cpu")
NO_PYTORCH = sides.why_no_pytorch(PYTHON, "cpu")


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *options, code=0, **variables):
        done = subprocess.run([sys.executable, BENCH / "trainer", "--build", BUILD, "--out", self.folder, *map(str, options)],
                              capture_output=True, text=True, timeout=280, check=False, env={**os.environ, **variables})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def results(self):
        return json.loads((self.folder / "trainer.json").read_text(encoding="utf-8"))

    def page(self):
        """The page, which must be well-formed and need no other file."""
        text = (self.folder / "trainer.html").read_text(encoding="utf-8")
        root = tree.fromstring(text)
        for element in root.iter():
            self.assertFalse({"src", "href"} & set(element.attrib), element.attrib)
        self.assertNotIn("url(", text)
        return text, root

    def drawing(self, root, label):
        found, = [svg for svg in root.iter("svg") if svg.get("aria-label").startswith(label)]
        return found

    def check_side(self, side, steps, rounds, tokens_per_step):
        self.assertEqual(len(side["losses"]), steps)
        self.assertLess(side["losses"][-1], side["losses"][0])
        self.assertEqual(len(side["rounds"]), rounds)
        for one in side["rounds"]:
            self.assertEqual(one["steps"], steps)
            self.assertAlmostEqual(one["median_tokens_per_second"] * one["median_step_seconds"], tokens_per_step, delta=1e-2 * tokens_per_step)
            self.assertLessEqual(one["least_step_seconds"], one["median_step_seconds"])

    def without_pytorch(self):
        """An environment in which `import torch` fails, whatever is installed."""
        module = self.folder / "none" / "torch.py"
        module.parent.mkdir()
        module.write_text("raise ImportError('not <here>')\n", encoding="utf-8")
        return {"PYTHONPATH": str(module.parent)}

    def test_where_pytorch_is_missing_it_says_so_and_shows_tombolo(self):
        output = self.bench(*TINY, "--widths", "32,64", "--steps", 6, "--rounds", 2, **self.without_pytorch())
        self.assertIn("has no PyTorch (ImportError: not <here>)", output)
        results = self.results()
        self.assertIn("not <here>", results["why_no_pytorch"])
        self.assertIsNone(results["versions"]["pytorch"])
        self.assertTrue(results["machine"]["processor"])
        self.assertEqual([size["model"]["width"] for size in results["sizes"]], [32, 64])
        for size in results["sizes"]:
            self.check_side(size["tombolo"], 6, 2, 4 * 32)
            self.assertIsNone(size["pytorch"])
            self.assertIsNone(size["ratio_of_medians"])
            self.assertIn("kernels", size["tombolo"]["kernels"])
        text, root = self.page()
        self.assertIn("not &lt;here&gt;", text)
        self.assertEqual(len(list(self.drawing(root, "Loss by step, width 64").iter("polyline"))), 1)
        self.assertEqual(len(list(self.drawing(root, "Tokens per second by round, width 32").iter("circle"))), 2)

    @unittest.skipIf(NO_PYTORCH, NO_PYTORCH)
    def test_both_curves_are_one(self):
        self.bench(*TINY, "--width", 32, "--steps", 12, "--rounds", 2)
        size, = self.results()["sizes"]
        for name in ("tombolo", "pytorch"):
            self.check_side(size[name], 12, 2, 4 * 32)
        self.assertGreater(size["ratio_of_medians"], 0)
        self.check_parity(size)
        self.assertTrue(self.results()["versions"]["pytorch"])
        text, root = self.page()
        self.assertEqual(len(list(self.drawing(root, "Loss by step").iter("polyline"))), 2)
        self.assertIn(f"{size['largest_difference']['value']:.1e}", text)
        self.assertIn(f"{size['ratio_of_medians']:.2f} x", text)
        self.assertIn(f"PyTorch {size['pytorch']['version']}", text)

    @unittest.skipIf(NO_PYTORCH, NO_PYTORCH)
    def test_two_replicas_and_micro_batches_beside_ddp(self):
        self.bench(*TINY, "--widths", "16,32", "--steps", 8, "--rounds", 1, "--replicas", 2, "--micro-batch", 1)
        self.assertEqual(self.results()["settings"]["replicas"], 2)
        self.assertEqual(len(self.results()["sizes"]), 2)
        for size in self.results()["sizes"]:
            self.check_parity(size)

    def check_parity(self, size):
        found = size["largest_difference"]
        differences = [abs(one - other) for one, other in zip(size["tombolo"]["losses"], size["pytorch"]["losses"])]
        self.assertEqual(len(differences), len(size["tombolo"]["losses"]))
        self.assertLessEqual(found["value"], show.PARITY)
        self.assertGreaterEqual(found["value"], max(differences))

    def test_takes_a_model_and_tokens(self):
        tokens = [7 * number * number % 300 for number in range(4000)]
        data, model = self.folder / "tokens.bin", self.folder / "model.safetensors"
        data.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + struct.pack(f"<{len(tokens)}H", *tokens))
        subprocess.run([BUILD / "bin" / "tombolo", "train", "--data", data, "--steps", "0", "--layers", "1", "--width", "16", "--heads",
                        "2", "--context", "24", "--vocabulary", "300", "--save", model], check=True, stdout=subprocess.DEVNULL, timeout=120)
        self.bench("--data", data, "--init", model, "--steps", 8, "--rounds", 1)
        size, = self.results()["sizes"]
        self.assertEqual({name: size["model"][name] for name in job.SHAPE},
                         {"layers": 1, "width": 16, "heads": 2, "context": 24, "vocabulary": 300})
        self.assertAlmostEqual(size["tombolo"]["losses"][0], math.log(300), delta=0.5)
        if size["pytorch"]:
            self.check_parity(size)

    def test_refuses_what_makes_no_sense(self):
        for options, text in ((["--steps", 1], "not timed"), (["--rounds", 0], "at least 1"),
                              (["--width", 32, "--widths", "32,64"], "the shape is given by one of"),
                              (["--models", "3B"], "known are 124M, 1.5B"), (["--init", "nothing.bin"], "does not exist"),
                              (["--device", "cuda", "--replicas", 2], "one GPU")):
            self.assertIn(text, self.bench(*options, code=2))
        self.assertIn("no whole number of micro-batches", self.bench(*TINY, "--micro-batch", 3, code=1))
        self.assertFalse((self.folder / "trainer.html").exists())

    def test_is_skipped_where_there_is_no_gpu(self):
        self.assertIn("no GPU", self.bench("--device", "cuda", code=77, PATH=str(self.folder)))

    def test_names_the_rank_of_pytorch_that_fails(self):
        broken = self.folder / "python"
        broken.write_text(BROKEN, encoding="utf-8")
        broken.chmod(0o755)
        output = self.bench(*TINY, "--width", 32, "--steps", 4, "--replicas", 2, "--python", broken, code=1)
        self.assertIn("PyTorch's rank 1 of 2 ended with 3 in the job width 32", output)
        self.assertIn("no <luck>", output)


class Figures(unittest.TestCase):
    def test_rates_rise_and_fall_as_documented(self):
        one = type("Job", (), {"rate": 1.0, "smallest_rate": 0.2, "warmup": 4, "steps": 12})
        rates = [job.rate_at(one, step) for step in range(13)]
        self.assertEqual(rates[:5], [0.25, 0.5, 0.75, 1.0, 1.0])
        self.assertAlmostEqual(rates[8], 0.6)
        self.assertAlmostEqual(rates[12], 0.2)

    def test_difference_is_the_largest_of_all_rounds(self):
        ours = [{"losses": [3.0, 2.0, 1.0]}, {"losses": [3.0, 2.5, 1.0]}]
        theirs = [{"losses": [3.0, 2.0]}, {"losses": [3.25, 2.0]}]
        self.assertEqual(compare.largest_difference(ours, theirs), {"value": 0.5, "step": 1})

    def test_lines_lie_where_their_numbers_are(self):
        drawing = tree.fromstring(lines("x", [("a", "ours", [(0, 1.0), (10, 3.0)]), ("b", "other", [(0, 2.0), (10, 2.0)])], "step", "y"))
        first, second = [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
                         for line in drawing.iter("polyline")]
        self.assertAlmostEqual(first[0][1] + first[1][1], 2 * second[0][1], delta=0.2)  # 2 lies halfway between 1 and 3
        self.assertGreater(first[0][1], first[1][1])
        self.assertEqual(first[0][0], second[0][0])
        ticks = {text.text for text in drawing.iter("text") if "tick" in text.get("class")}
        self.assertLessEqual({"1", "2", "3", "0", "10"}, ticks)

    def test_a_logarithmic_axis_has_equal_steps_for_equal_factors(self):
        drawing = tree.fromstring(lines("x", [("a", "ours", [(0, 1e-7), (1, 1e-6), (2, 1e-5)])], "step", "y", show.scientific,
                                        logarithmic=True, limit=(1e-4, "bound")))
        heights = [float(circle.get("cy")) for circle in drawing.iter("circle")]
        self.assertAlmostEqual(heights[0] - heights[1], heights[1] - heights[2], delta=0.2)
        self.assertIn("bound", [text.text for text in drawing.iter("text")])


unittest.main()
