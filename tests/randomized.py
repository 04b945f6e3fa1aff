"""The seed of random tests in Python, as base/randomized_test.h has it for those in C++."""
import os
import random
import sys

VARIABLE = "TOMBOLO_TEST_SEED"


def test_seed():
    """TOMBOLO_TEST_SEED, or else a fresh seed; printed, so that a failure can be repeated."""
    given = os.environ.get(VARIABLE, "")
    if given and not (given.isascii() and given.isdigit() and int(given) < 2**32):
        sys.exit(f"{VARIABLE}='{given}' is no seed: give a number from 0 to 4294967295, or unset it")
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    print(f"{VARIABLE}={seed}", file=sys.stderr, flush=True)
    return seed
