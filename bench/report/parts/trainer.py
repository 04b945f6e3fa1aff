"""The bundled trainer beside PyTorch, by bench/trainer."""
import html
import json
import pathlib
import tempfile

import machine
from part import Part, Section
from trainer_bench import show as sizes


def measure(options, quick_options):
    """A part's measure(), which runs bench/trainer with these options."""
    def run(programs, quick):
        with tempfile.TemporaryDirectory() as folder:
            programs.run([machine.ROOT / "bench" / "trainer", "--build", programs.bin.parent, "--out", folder,
                          *(quick_options if quick else options)])
            return json.loads((pathlib.Path(folder) / "trainer.json").read_text(encoding="utf-8"))
    return run


def section(name, title, text):
    """The section of one such part."""
    def show(results):
        found = results[name]
        return sizes.peer_note(found) + "".join(f"<h3>{html.escape(size['name'].capitalize())}</h3>\n{sizes.size_section(size)}"
                                                for size in found["sizes"])

    def headline(results):
        size = results[name]["sizes"][0]
        if size["pytorch"] is None:
            return sizes.per_second(size["tombolo"]["median_tokens_per_second"]), f"the bundled trainer's tokens per second, {size['name']}"
        return f"{size['ratio_of_medians']:.2f} x", f"the bundled trainer's tokens per second beside {sizes.peer(size['pytorch'])}"

    return Section(title, text, show, headline)


SECTION = section("trainer", "Trainer", "One rank of the bundled trainer and PyTorch with the same model, rows and initial weights, in "
                  "turns, one thread each.")
PARTS = [Part("trainer", SECTION, "the bundled trainer beside PyTorch, where there is one", 140, 15,
              measure(["--widths", "128,256"], ["--layers", "2", "--steps", "6", "--rounds", "1"]), ("tombolo",))]
