"""Compares the losses of two runs of the trainer, step by step, and adds the result to a file of JSON lines."""
import argparse
import json
import sys

# The same sums in other orders, in fp32, over a few steps.
TOLERANCE = 1e-3


def losses(path):
    with open(path) as file:
        return [json.loads(line)["loss"] for line in file if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("expected")
    parser.add_argument("found")
    arguments = parser.parse_args()
    expected, found = losses(arguments.expected), losses(arguments.found)
    if not expected or len(expected) != len(found):
        sys.exit(f"same_losses.py: {arguments.expected} has {len(expected)} steps, {arguments.found} has {len(found)}")
    difference = max(abs(one - other) / abs(one) for one, other in zip(expected, found))
    learnt = expected[-1] < expected[0]
    correct = learnt and difference <= TOLERANCE
    with open(arguments.results, "a") as file:
        print(json.dumps({"test": arguments.case, "steps": len(found), "largest_relative_difference": difference,
                          "correct": correct}), file=file)
    if not correct:
        sys.exit(f"same_losses.py: {arguments.case}: the losses differ by up to {difference:.2e} of themselves "
                 f"(allowed: {TOLERANCE}), and {'fall' if learnt else 'do not fall'}")


if __name__ == "__main__":
    main()
