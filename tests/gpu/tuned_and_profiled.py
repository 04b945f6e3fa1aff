"""Whether NCCL asked the plugin's tuner and told its profiler, on every rank: what they wrote in a run of tests/gpu/run.sh."""
import argparse
import json
import pathlib
import sys


def problems(folder, ranks):
    choices = [path.read_text() for path in sorted(folder.glob("tuner-*.txt"))]
    if len(choices) != ranks:
        yield f"{len(choices)} files of the tuner's choices, of {ranks} ranks"
    if len(set(choices)) > 1:
        yield "the ranks' choices differ"
    if choices and "all-reduce" not in choices[0]:
        yield "no choice for an all-reduce"
    traces = [json.loads(path.read_text()) for path in sorted(folder.glob("profile-*.json"))]
    if len(traces) != ranks:
        yield f"{len(traces)} traces of {ranks} ranks"
    for at, trace in enumerate(traces):
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        sizes = [event["args"]["bytes"] for event in events if "bytes" in event.get("args", {})]
        print(f"trace {at}: {len(events)} events, {len(sizes)} messages, {sum(sizes)} bytes")
        if not any(sizes):
            yield f"trace {at} has no message with bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, required=True)
    arguments = parser.parse_args()
    found = list(problems(arguments.folder, arguments.ranks))
    for problem in found:
        print(f"tuned_and_profiled: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
