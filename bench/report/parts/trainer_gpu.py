"""The bundled trainer beside PyTorch on a GPU, by bench/trainer."""
import machine
from part import Part
from parts.trainer import measure, section

SECTION = section("trainer_gpu", "Trainer on a GPU", "The bundled trainer and PyTorch (torch.compile, its fastest attention) with the same "
                  "model, rows and initial weights, in turns on one GPU.")
PARTS = [Part("trainer_gpu", SECTION, "the bundled trainer beside PyTorch on a GPU", 900, 240,
              measure(["--device", "cuda"], ["--device", "cuda", "--models", "124M", "--rounds", "1"]), ("tombolo",),
              machine.why_no_gpu)]
