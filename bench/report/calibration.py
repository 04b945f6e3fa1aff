"""How much slower this machine is now than the one on which the parts' times were taken: of waiting times, no result."""
import statistics
import time

REFERENCE_SECONDS = 0.045


def work():
    total = 0
    for number in range(1_000_000):
        total += number * number % 7
    return total


def slowness():
    """About 1 on a machine like that; above it on a slower or busier one, of which a moment says less the busier it is: at most 5."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(5, statistics.median(times) / REFERENCE_SECONDS)
