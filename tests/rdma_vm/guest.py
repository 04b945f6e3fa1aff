#!/usr/bin/env python3
"""Runs inside the virtual machine: everything that is tested over RDMA there, one named case after the other.

usage: guest.py BUILD RESULTS [GROUP...]

Writes RESULTS/cases.json: {"group": [{"name", "ok", "seconds", "text"}]}, again after every case, and RESULTS/running, the name
of what runs now: whatever stops the machine leaves what was found out. TOMBOLO_TEST_RDMA and the network are network.sh's.
"""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from randomized import test_seed  # noqa: E402

BUILD, RESULTS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
BIN = BUILD / "bin"
WORK = pathlib.Path("/tmp/rdma_vm")
# Generous, since an emulated processor on a busy machine is slow; only a case that hangs reaches it.
PATIENCE = 300
CASES = {}


def record(group, name, ok, seconds, text=""):
    CASES.setdefault(group, []).append({"name": name, "ok": ok, "seconds": round(seconds, 1), "text": text[-6000:]})
    partial = RESULTS / "cases.new"
    partial.write_text(json.dumps(CASES, indent=1))
    partial.rename(RESULTS / "cases.json")


def running(group, name):
    (RESULTS / "running").write_text(f"{group}: {name}\n")


def run(command, environment=None, patience=PATIENCE):
    """(exit code, output)."""
    try:
        done = subprocess.run([str(word) for word in command], env={**os.environ, **(environment or {})},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patience, check=False)
    except subprocess.TimeoutExpired as late:
        return f"killed after {patience} s", (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def case(group, name, body):
    running(group, name)
    begin = time.monotonic()
    try:
        text = body() or ""
        record(group, name, True, time.monotonic() - begin, text)
    except Exception as error:  # pylint: disable=broad-except  # whatever it is, the case failed and the next is run
        record(group, name, False, time.monotonic() - begin, str(error) or repr(error))


class Stillness:
    """How much of a second this machine let nothing run, as a thread sees it that wants to every 20 ms. An emulated machine on a
    busy host stands still for a second at times: a pause that a test measures is then not the program's.
    """
    EVERY = 0.02

    def __init__(self):
        self.most = 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        before = time.monotonic()
        missed = []  # (when it woke, how much later than it wanted), of the last second
        while True:
            time.sleep(self.EVERY)
            now = time.monotonic()
            missed = [one for one in missed if one[0] > now - 1] + [(now, now - before - self.EVERY)]
            self.most = max(self.most, sum(late for _, late in missed))
            before = now

    def told(self):
        """One line of the most since this was asked before."""
        most, self.most = self.most, 0.0
        return f"the machine stood still for at most {most * 1e3:.0f} ms of a second"


def tests_of(listing):
    """The full names in what --gtest_list_tests prints."""
    suite, names = "", []
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def unmatched(filters, names):
    """The patterns of a filter, those of what it leaves out too, by which no test is named: one was renamed, or has gone."""
    patterns = [one for half in filters.split(":-", 1) for one in half.lstrip("-").split(":")]
    return [one for one in patterns if not fnmatch.filter(names, one)]


def filtered(group, program, filters, environment=None):
    """The command line; a pattern that names no test is a case that failed."""
    code, listing = run([BIN / program, "--gtest_list_tests"], environment)
    missing = unmatched(filters, tests_of(listing))
    if code != 0 or missing:
        record(group, f"{program} has the tests that the group names", False, 0,
               f"exit code {code}; no test is named by: {' '.join(missing)}")
    return [str(BIN / program), f"--gtest_filter={filters}", "--gtest_color=no"]


def googletest(group, program, filters, environment=None, stillness=None):
    """Every test of the program as a case of its own. They are reported as they end: a hang names itself."""
    running(group, f"the list of {program}'s tests")
    command = filtered(group, program, filters, environment)
    begin = time.monotonic()
    with subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        text, seen, now = "", 0, time.monotonic()
        for line in process.stdout:
            text += line
            ended = re.match(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+)(?:, where .*)? \(\d+ ms\)$", line.strip())
            if re.match(r"\[ RUN ", line):
                running(group, line[len("[ RUN      ]"):].strip())
                text, now = "", time.monotonic()
            elif ended:
                seen += 1
                passed = ended.group(1) == "OK"
                told = "".join(re.findall(r"(?:the longest time|DMA-BUF:) .*\n", text)) + (stillness.told() if stillness else "")
                record(group, ended.group(2), passed, time.monotonic() - now, told if passed else text)
    if process.returncode != 0 or seen == 0:
        record(group, f"{program} as a whole", False, time.monotonic() - begin,
               f"exit code {process.returncode} after {seen} tests\n{text}")


def cluster_file(name, left_kind="roce", right_kind="roce", require=False):
    """Two hosts on one machine, each with one RDMA NIC and one Ethernet NIC."""
    def host(host_name, side, last, kind):
        rail = {"name": f"{side}0", "kind": kind, "fabric": "fast", "address": f"10.77.0.{last}", "rate_gbps": 100}
        if kind == "roce":
            rail["rdma_device"] = f"rxe{side}0"
        else:
            rail.pop("fabric")
        ethernet = {"name": f"e{side}", "kind": "tcp", "address": f"10.78.0.{last}", "rate_gbps": 10}
        return {"name": host_name, "cluster": "A", "nics": [rail, ethernet], "devices": [{"name": "cpu", "kind": "cpu"}]}
    file = {"tombolo_cluster": 1,
            "hosts": [host("left", "a", 1, left_kind), host("right", "b", 2, right_kind)]}
    if require:
        file["require"] = "rdma"
    path = WORK / f"{name}.json"
    path.write_text(json.dumps(file))
    return path


def ranks(program, cluster, environment=None, patience=PATIENCE, per_host=1):
    """Runs the program as rank 0 on host left and as rank 1 on host right, or as the first and the last `per_host` ranks; returns
    (exit codes, outputs).

    {rank} in a word of it becomes the rank.
    """
    ranks.port = getattr(ranks, "port", 29400) + 1
    started = []
    for rank in range(2 * per_host):
        host = "left" if rank < per_host else "right"
        own = {"RANK": str(rank), "WORLD_SIZE": str(2 * per_host), "LOCAL_RANK": str(rank % per_host), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(ranks.port), "TOMBOLO_SECRET": "the virtual machine's", "TOMBOLO_LOG": "info",
               "TOMBOLO_CLUSTER": str(cluster), "TOMBOLO_HOST": host, **(environment or {})}
        log = open(WORK / f"rank{rank}.log", "w+", encoding="utf-8", errors="replace")  # pylint: disable=consider-using-with
        words = [str(word).replace("{rank}", str(rank)) for word in program]
        started.append((subprocess.Popen(words, env={**os.environ, **own},  # pylint: disable=consider-using-with
                                         stdout=log, stderr=subprocess.STDOUT), log))
    until = time.monotonic() + patience
    codes, outputs = [], []
    for process, _ in started:
        try:
            codes.append(process.wait(max(1, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            codes.append(f"killed after {patience} s")
    for _, log in started:
        log.seek(0)
        outputs.append(log.read())
        log.close()
    return codes, outputs


def expect(condition, *what):
    if not condition:
        raise AssertionError("\n".join(str(one) for one in what))


def all_reduce():
    cluster = cluster_file("all_reduce", require=True)

    def exact(types, operations, largest, factor, variables):
        codes, outputs = ranks([BIN / "all_reduce_perf", "-b", "4", "-e", largest, "-f", factor, "-n", "1", "-w", "1",
                                "-d", types, "-o", operations], cluster, variables)
        expect(codes == [0, 0], codes, *outputs)
        expect("Out of bounds values : 0 OK" in outputs[0], outputs[0])
        expect("rdma" in outputs[0] + outputs[1] and "queue pair(s) for payload over rxe" in outputs[0] + outputs[1],
               "the log names no RDMA connection", *outputs)

    case("all_reduce", "the sum of every type is exact over one queue pair", lambda: exact("all", "sum", "256K", "256", {}))
    case("all_reduce", "every operation is exact over four queue pairs, nothing copied",
         lambda: exact("float", "all", "1M", "64", {"TOMBOLO_RDMA_QPS": "4", "TOMBOLO_RDMA_EAGER": "0"}))


def collectives():
    """Calls of all kinds in a random order, some under way at once on several communicators, each result compared on each rank."""
    cluster = cluster_file("collectives", require=True)
    seed = test_seed()

    def right(per_host, rounds, variables):
        codes, outputs = ranks([BIN / "mixed_ranks", seed, "--rounds", rounds], cluster, variables, per_host=per_host)
        expect(codes == [0] * len(codes), f"TOMBOLO_TEST_SEED={seed}", codes, *outputs)
        expect(all(f"right: {rounds} rounds as rank {rank} of {len(codes)}, seed {seed}" in text for rank, text in enumerate(outputs)),
               *outputs)
        expect("queue pair(s) for payload over rxe" in "".join(outputs), "the log names no RDMA connection", *outputs)
        return f"{3 * rounds} calls on {len(codes)} ranks, TOMBOLO_TEST_SEED={seed}"

    case("collectives", "mixed calls of two ranks give right results over one queue pair", lambda: right(1, 120, {}))
    case("collectives", "they do over four queue pairs, nothing copied",
         lambda: right(1, 120, {"TOMBOLO_RDMA_QPS": "4", "TOMBOLO_RDMA_EAGER": "0"}))
    case("collectives", "they do where two ranks of each host share memory", lambda: right(2, 60, {}))


class Flapping:
    """Takes the link of one of the NICs down and up again, for as long as the block runs; afterwards it is up.

    It is down for the first time `first` seconds after begins() was true.
    """
    def __init__(self, nics, first, up, down, begins=lambda: True):
        self.nics, self.first, self.up, self.down, self.begins = nics, first, up, down, begins
        self.over, self.times = threading.Event(), 0
        self.thread = threading.Thread(target=self.flap)

    def flap(self):
        while not self.begins() and not self.over.wait(0.05):
            pass
        while not self.over.wait(self.up if self.times > 0 else self.first):
            nic = self.nics[self.times % len(self.nics)]
            self.times += 1
            run(["ip", "link", "set", nic, "down"])
            self.over.wait(self.down)
            run(["bash", "-c", f'. "$TOMBOLO_TEST_NETWORK" && ip link set {nic} up && rail_again {nic[1:]}'])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def moves(text):
    """How many ends went over to each way, and the longest time that this took, as the log says it."""
    seconds = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    told = []
    for way in ("tcp", "rdma"):
        took = [float(number) * seconds[unit] for number, unit in
                re.findall(rf"goes on over {way}[^\n]*?, ([\d.]+) (us|ms|s) later", text)]
        told.append(f"{len(took)} to {way} within {max(took, default=0) * 1e3:.0f} ms")
    return "ends that moved: " + ", ".join(told)


def failover():
    stillness = Stillness()
    googletest("failover", "test_rdma_vm", "*GoesOn*", stillness=stillness)
    stillness.told()

    def all_reduce_goes_on():
        """Over a NIC that goes down and comes back: exact, and back in the end. Tells the longest iteration."""
        log, report = WORK / "rank0.log", WORK / "failover0.json"
        for old in WORK.glob("failover?.json"):
            old.unlink()
        log.unlink(missing_ok=True)
        with Flapping(["a0"], first=2, up=8, down=2,
                      begins=lambda: log.exists() and "queue pair(s) for payload" in log.read_text(errors="replace")):
            codes, outputs = ranks([BIN / "all_reduce_perf", "-b", "64K", "-e", "64K", "-n", "3000", "-w", "1", "-I", "1", "-J",
                                    WORK / "failover{rank}.json"], cluster_file("failover"))
        expect(codes == [0, 0], codes, *outputs)
        expect("Out of bounds values : 0 OK" in outputs[0], outputs[0])
        expect("goes on over tcp" in outputs[0] + outputs[1], "nothing moved", *outputs)
        expect("goes on over rdma" in outputs[0] + outputs[1], "nothing returned", *outputs)
        return stalls(report, outputs)

    def stalls(report, outputs):
        result = json.loads(report.read_text())["results"][0]
        both = [result[f"{place}_per_iter"] for place in ("in_place", "out_of_place")]
        return (f"the longest time of an all-reduce: {max(one['max_us'] for one in both) / 1e3:.1f} ms, the median "
                f"{both[0]['p50_us'] / 1e3:.2f} ms; {moves(outputs[0] + outputs[1])}; {stillness.told()}")

    def plugin_goes_on():
        """Messages of the plugin between two hosts, whose contents the tests compare, over a NIC that flaps."""
        command = filtered("failover", "net_conformance", "Abi/*HundredsOfRandomMessages*/v12:Abi/*RandomGroupsArrive*/v12:"
                           "Abi/*MatchInPostingOrder*/v12")
        with Flapping(["a0", "b0"], first=6, up=12, down=1) as flapping:
            begin = time.monotonic()
            code, text = run(command,
                             {"TOMBOLO_CLUSTER": str(cluster_file("flapping")), "TOMBOLO_HOST": "left",
                              "TOMBOLO_TEST_PEER_HOST": "right", "TOMBOLO_TEST_TIMES": "12",
                              "TOMBOLO_TEST_SHOW": "goes on over"})
        expect(code == 0 and "SKIPPED" not in text and "[  PASSED  ] 3 tests" in text, text)
        expect("goes on over tcp" in text, f"nothing moved in {time.monotonic() - begin:.0f} s", text)
        expect("goes on over rdma" in text, f"nothing returned in {time.monotonic() - begin:.0f} s", text)
        return f"{flapping.times} times down; {moves(text)}; {stillness.told()}"

    case("failover", "an all-reduce goes on over Ethernet when a NIC goes down, and returns", all_reduce_goes_on)
    case("failover", "the plugin's messages arrive over NICs that flap", plugin_goes_on)


def trainer():
    text = WORK / "text"
    text.write_text("".join(f"In the beginning was line {line * 7919 % 1000}.\n" for line in range(800)))
    cluster = cluster_file("trainer")

    def losses(transport, layout):
        log = WORK / f"{transport}.jsonl"
        codes, outputs = ranks([BIN / "tombolo", "train", "--data", text, "--layers", "2", "--width", "16", "--heads",
                                "2", "--context", "16", "--batch", "8", "--lr", "0.003", "--steps", "5", "--log", log,
                                *layout], cluster, {"TOMBOLO_TRANSPORTS": transport})
        expect(codes == [0, 0], codes, *outputs)
        expect((f": {transport}" in outputs[0] + outputs[1]), f"no line names {transport}", *outputs)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def same(layout):
        over_rdma, over_tcp = losses("rdma", layout), losses("tcp", layout)
        expect(len(over_rdma) == 5 and over_rdma == over_tcp, over_rdma, over_tcp)

    case("trainer", "two stages lose the same over RDMA as over TCP", lambda: same(["--pipeline", "2"]))
    case("trainer", "two replicas lose the same over RDMA as over TCP", lambda: same(["--replicas", "2"]))


def choice():
    def unlike():
        codes, outputs = ranks([BIN / "all_reduce_perf", "-b", "1K", "-e", "64K", "-f", "8", "-n", "1", "-w", "0"],
                               cluster_file("unlike", right_kind="tcp"))
        expect(codes == [0, 0], codes, *outputs)
        expect("0 OK" in outputs[0], outputs[0])
        expect("queue pair" not in outputs[0] + outputs[1], *outputs)

    def forbidden():
        codes, outputs = ranks([BIN / "all_reduce_perf", "-b", "1K", "-e", "64K", "-f", "8", "-n", "1", "-w", "0"],
                               cluster_file("forbidden"), {"TOMBOLO_TRANSPORTS": "tcp"})
        expect(codes == [0, 0], codes, *outputs)
        expect("TOMBOLO_TRANSPORTS does not allow rdma" in outputs[0] + outputs[1], *outputs)

    def required():
        codes, outputs = ranks([BIN / "all_reduce_perf", "-b", "1K", "-e", "64K", "-f", "8", "-n", "1", "-w", "0"],
                               cluster_file("required", require=True), {"TOMBOLO_TRANSPORTS": "tcp"})
        expect(0 not in codes, codes, *outputs)
        expect("TOMBOLO_TRANSPORTS does not allow rdma" in outputs[0] + outputs[1], *outputs)

    case("choice", "an RDMA NIC and a plain one meet over Ethernet", unlike)
    case("choice", "where the environment forbids RDMA the log says so", forbidden)
    case("choice", "where the cluster file requires RDMA its absence is an error with the reason", required)


def plugin():
    # Both processes of these tests are on one host: it has both ends of a rail, and only RDMA is allowed.
    nics = [{"name": f"{side}0", "kind": "roce", "fabric": "fast", "rdma_device": f"rxe{side}0",
             "address": f"10.77.0.{last}", "rate_gbps": 100} for side, last in (("a", 1), ("b", 2))]
    path = WORK / "plugin.json"
    path.write_text(json.dumps({"tombolo_cluster": 1, "hosts": [
        {"name": "both", "cluster": "A", "nics": nics, "devices": [{"name": "cpu", "kind": "cpu"}]}]}))
    environment = {"TOMBOLO_CLUSTER": str(path), "TOMBOLO_HOST": "both", "TOMBOLO_TRANSPORTS": "rdma"}
    googletest("plugin", "net_conformance", NEWEST_ABI_TESTS, environment)
    googletest("plugin", "net_conformance", OLDER_ABI_TESTS, environment)


def rma():
    """NCCL's one-sided operations between two hosts; the tests take links down themselves."""
    googletest("rma", "net_plugin_rma", "*ByNics*",
               {"TOMBOLO_CLUSTER": str(cluster_file("rma")), "TOMBOLO_HOST": "left", "TOMBOLO_TEST_PEER_HOST": "right"})


# The newest ABI. Two tests bring cluster files of their own, which have nothing to do with the network here, and RDMA cuts no
# message to its receive.
NEWEST_ABI_TESTS = ("Abi/*/v12:"
                    "-*EveryConnectionChoosesItsOwnTransport*:*AForbiddenFallbackToTcpIsAnErrorThatSaysWhy*"
                    ":*WhereTheEnvironmentAsksForIt/*")
# Of the oldest and of the newest older one what its own table and its translation into the newest take part in, several threads
# among it; of those between what differs from one table to the next. What is left out (peers that are killed, memory that is
# deregistered, larger messages, ...) goes its way beneath the tables. An emulated machine takes half a minute for all of one.
EACH_OLDER_ABI = (
    "NetSetup.PresentsADeviceWithTheProperties", "NetConnect.TwoConnectsToOneListenGiveTwoConnections",
    "NetMessages.MessagesMatchInPostingOrder", "NetMessages.RequestsMayBeTestedInAnyOrder",
    "NetMessages.OnlyHostMemoryIsRegisteredAndAFlushOfItIsNothing", "NetGroups.RandomGroupsArriveByteForByte",
    "NetLifetime.SeveralCommunicatorsRunInSeveralThreads")
V6_AND_V11 = (
    "NetConnect.ConnectAndAcceptNeverBlockAndAreAskedAgain", "NetConnect.AForeignHandleIsRefusedWithAReason",
    "NetMessages.MemoryThatOneCommRegisteredServesAnother", "NetMessages.ZeroByteMessagesArriveInTheirPlace",
    "NetMessages.ANullRequestSaysTryAgainWhenAllAreInFlight",
    "NetMessages.ThePresetOfAnOptionalReceiveCompletionIsOverwritten",
    "NetMessages.HundredsOfRandomMessagesArriveByteForByte", "NetGroups.EqualTagsMeetInTheOrderOfTheirSlots",
    "NetGroups.ThirtyTwoGroupsOfEightAreInFlight", "NetLifetime.EachCommunicatorHasItsOwnContextAndEnd",
    "NetLifetime.MemoryIsRegisteredFromAnotherThreadWhileMessagesFlow",
    "NetLifetime.UnloadingLeavesNothingBehindAndTheLibraryLoadsAgain")
OLDER_ABI_TESTS = ":".join(f"Abi/{name}/v{abi}" for abi in range(6, 12)
                           for name in EACH_OLDER_ABI + (V6_AND_V11 if abi in (6, 11) else ()))

GROUPS = {
    # Tracing stands above the transport, so that one kind with it is enough.
    "conformance": lambda: googletest("conformance", "test_transport", "Verbs/*:-*/RdmaTraced:*PairsTraced:*EagerTraced"),
    "verbs": lambda: googletest("verbs", "test_rdma_vm", "-*GoesOn*"),
    "failover": failover,
    "plugin": plugin,
    "rma": rma,
    "all_reduce": all_reduce,
    "collectives": collectives,
    "trainer": trainer,
    "choice": choice,
}


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or GROUPS:
        GROUPS[name]()
        sys.stdout.flush()


main()
