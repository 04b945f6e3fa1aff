#!/usr/bin/env python3
"""Prints the names of the options that a release of a framework takes, one a line, sorted.

planner/testing/names/ holds what this printed; tests hold every emitted argument against it. To go to another release, clone the
framework's repository and run

    scripts/framework_names.py megatron /path/to/Megatron-LM core_v0.14.0 > planner/testing/names/megatron.txt

nemo takes two more pairs, as it passes on options of Lightning and of Megatron Core:

    scripts/framework_names.py nemo NeMo v2.4.0 pytorch-lightning 2.4.0 Megatron-LM core_v0.14.0

Nothing of the frameworks is run: their sources are read.
"""

import ast
import re
import subprocess
import sys


def source(repository, release, path):
    return subprocess.run(["git", "-C", repository, "show", f"{release}:{path}"], check=True, capture_output=True, text=True).stdout


def argparse_names(text):
    """What calls of add_argument in Python source name, with two dashes."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names |= {a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("-")}
    return names


def classes(text):
    return {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}


def fields(node):
    """Of a data class: its annotated fields, with the annotation's source."""
    return {one.target.id: ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)}


def parameters(node, method="__init__"):
    """Of a class: the parameters of its constructor."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == method:
            return [a.arg for a in one.args.args + one.args.kwonlyargs if a.arg != "self"]
    return []


def megatron(repository, release):
    return argparse_names(source(repository, release, "megatron/training/arguments.py"))


def megatron_groups(repository, release):
    """The process groups that --nccl-communicator-config-path names."""
    return set(re.findall(r'get_nccl_options\("([a-z_]+)"', source(repository, release, "megatron/core/parallel_state.py")))


def torchrun(repository, release):
    return argparse_names(source(repository, release, "torch/distributed/run.py"))


def torchtitan(repository, release):
    """--section.field, as tyro spells the nested data classes of JobConfig; flags of booleans have a no- form besides."""
    known = classes(source(repository, release, "torchtitan/config/job_config.py"))
    names = set()

    def walk(node, prefix):
        for name, annotation in fields(node).items():
            if annotation in known:
                walk(known[annotation], f"{prefix}{name}.")
            else:
                names.add(f"--{prefix}{name}")
                if annotation == "bool":
                    names.add(f"--{prefix}no-{name}")

    walk(known["JobConfig"], "")
    return names


def deepspeed(repository, release):
    """The launcher's options, and the keys of the configuration as section.key."""
    names = argparse_names(source(repository, release, "deepspeed/launcher/runner.py"))
    names |= argparse_names(source(repository, release, "deepspeed/__init__.py"))
    for text in (source(repository, release, "deepspeed/runtime/constants.py"),):
        names |= set(re.findall(r'^[A-Z0-9_]+ = "([a-z_0-9]+)"$', text, re.MULTILINE))
    for path, name, section in (("deepspeed/runtime/zero/config.py", "DeepSpeedZeroConfig", "zero_optimization"),
                                ("deepspeed/runtime/precision_config.py", "DeepSpeedBF16Config", "bf16"),
                                ("deepspeed/runtime/precision_config.py", "DeepSpeedFP16Config", "fp16")):
        names |= {section} | {f"{section}.{one}" for one in fields(classes(source(repository, release, path))[name])}
    checkpointing = source(repository, release, "deepspeed/runtime/activation_checkpointing/config.py")
    names |= {f"activation_checkpointing.{one}" for one in re.findall(r"^ACT_CHKPT_[A-Z_]+ = ['\"]([a-z_]+)['\"]$", checkpointing,
                                                                      re.MULTILINE)} | {"activation_checkpointing"}
    names |= {f"data_types.{one}" for one in re.findall(r'^(?:GRAD_ACCUM|PARAM|BUFFER)_DTYPE = "([a-z_]+)"$',
                                                        source(repository, release, "deepspeed/runtime/constants.py"), re.MULTILINE)}
    module = classes(source(repository, release, "deepspeed/runtime/pipe/module.py"))["PipelineModule"]
    return names | {f"PipelineModule.{one}" for one in parameters(module)}


def nemo(repository, release, lightning, lightning_release, megatron_core, core_release):
    """Keys of a recipe of nemo.collections.llm, as its command line overrides them."""

    def core(path, name):
        return fields(classes(source(megatron_core, core_release, "megatron/core/" + path))[name])

    def own(path, name):
        return classes(source(repository, release, "nemo/" + path))[name]

    names = {f"trainer.{one}" for one in parameters(
        classes(source(lightning, lightning_release, "src/lightning/pytorch/trainer/trainer.py"))["Trainer"])}
    names |= {f"trainer.strategy.{one}" for one in parameters(
        own("lightning/pytorch/strategies/megatron_strategy.py", "MegatronStrategy"))}
    names |= {f"trainer.strategy.ddp.{one}" for one in core("distributed/distributed_data_parallel_config.py",
                                                            "DistributedDataParallelConfig")}
    names |= {f"trainer.plugins.{one}" for one in parameters(
        own("lightning/pytorch/plugins/mixed_precision.py", "MegatronMixedPrecision"))}
    for found in (core("model_parallel_config.py", "ModelParallelConfig"), core("transformer/transformer_config.py", "TransformerConfig"),
                  fields(own("collections/llm/gpt/model/base.py", "GPTConfig"))):
        names |= {f"model.config.{one}" for one in found}
    names |= {f"optim.config.{one}" for one in core("optimizer/optimizer_config.py", "OptimizerConfig")}
    return names | {f"data.{one}" for one in parameters(own("collections/llm/gpt/data/pre_training.py", "PreTrainingDataModule"))}


def slurm(repository, release):
    text = source(repository, release, "src/common/slurm_opt.c")
    return {f"--{one}" for one in re.findall(r'^\t\.name = "([a-z0-9-]+)"', text, re.MULTILINE)}


def mpirun(repository, release):
    """Of Open MPI's mpirun: long names and short ones, which it takes with one dash or two."""
    text = source(repository, release, "orte/mca/schizo/ompi/schizo_ompi.c")
    names = set()
    for short, single, long in re.findall(r"\{ *[^,{}]+, *'(.|\\0)', *(NULL|\"[^\"]*\"), *(NULL|\"[^\"]*\")", text):
        names |= {f"--{long[1:-1]}"} if long != "NULL" else set()
        names |= {f"-{single[1:-1]}"} if single != "NULL" else set()
        names |= {f"-{short}"} if short != "\\0" else set()
    return names


def nccl(repository, release):
    """Environment variables."""
    found = subprocess.run(["git", "-C", repository, "grep", "-hoE", r'NCCL_PARAM\([A-Za-z0-9]+, *"[A-Z0-9_]+"|"NCCL_[A-Z0-9_]+"',
                            release, "--", "src"], check=True, capture_output=True, text=True).stdout
    names = {f"NCCL_{one}" for one in re.findall(r'NCCL_PARAM\([A-Za-z0-9]+, *"([A-Z0-9_]+)"', found)}
    return names | set(re.findall(r'^"(NCCL_[A-Z0-9_]+)"', found, re.MULTILINE))


FRAMEWORKS = {one.__name__: one for one in (megatron, megatron_groups, torchrun, torchtitan, deepspeed, nemo, slurm, mpirun, nccl)}


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in FRAMEWORKS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(FRAMEWORKS)} REPOSITORY RELEASE [REPOSITORY RELEASE ...]\n\n{__doc__}")
    pairs = zip(sys.argv[2::2], sys.argv[3::2])
    releases = ", ".join(f"{[part for part in repository.split('/') if part not in ('', 'repo')][-1].replace('+', '/')} {release}"
                         for repository, release in pairs)
    print(f"# Options of {releases}, by scripts/framework_names.py.")
    print("\n".join(sorted(FRAMEWORKS[sys.argv[1]](*sys.argv[2:]))))


if __name__ == "__main__":
    main()
