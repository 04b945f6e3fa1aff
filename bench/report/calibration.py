"""How much slower this machine is now than the one on which the parts' times were taken. Used for estimates, never in results."""
import statistics
import time

REFERENCE_SECONDS = 0.045


def work():
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
    return total


def slowness():
    """About 1 on a machine like that, more on a slower or busier one; at most 5, since one moment says little of a busy machine."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(5, statistics.median(times) / REFERENCE_SECONDS)
