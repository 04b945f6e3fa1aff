"""What the measured times say: pure functions of the runs, each a dict with scene, library, collective, ranks, round, and lists over the
sizes: bytes, median_us, right."""
import math
import statistics


def cells(runs, scene, collectives):
    """{(collective, ranks, bytes): {library: median over the rounds of the medians of a round, in us}}. Wrong results have no time."""
    times = {}
    for run in runs:
        if run["scene"] != scene or run["collective"] not in collectives:
            continue
        for size, median, right in zip(run["bytes"], run["median_us"], run["right"]):
            if right:
                times.setdefault((run["collective"], run["ranks"], size), {}).setdefault(run["library"], []).append(median)
    return {cell: {library: statistics.median(found) for library, found in by_library.items()}
            for cell, by_library in sorted(times.items(), key=lambda item: item[0])}


def best_peer(by_library, ours="tombolo"):
    """(The other library that took least time, that time), or None without another one."""
    others = [(time, library) for library, time in by_library.items() if library != ours]
    if not others:
        return None
    time, library = min(others)
    return library, time


def ratio(by_library, ours="tombolo"):
    """The best other library's time over ours: above 1 where ours is faster. None where one of the two is missing."""
    best = best_peer(by_library, ours)
    return best[1] / by_library[ours] if best and ours in by_library else None


def left_behind(runs, factor, ours="tombolo"):
    """{(scene, library, collective, ranks)} of the other libraries that in these runs took `factor` times as long as the fastest, or longer,
    at every size."""
    best = {}
    for run in runs:
        for size, median in zip(run["bytes"], run["median_us"]):
            cell = run["scene"], run["collective"], run["ranks"], size
            best[cell] = min(median, best.get(cell, math.inf))
    return {(run["scene"], run["library"], run["collective"], run["ranks"]) for run in runs if run["library"] != ours and
            all(median >= factor * best[run["scene"], run["collective"], run["ranks"], size]
                for size, median in zip(run["bytes"], run["median_us"]))}


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def summary(found):
    """Of cells: how many could be compared, in how many ours was faster, and the geometric mean of the ratios (None without any)."""
    ratios = [one for one in map(ratio, found) if one is not None]
    return {"cells": len(ratios), "won": sum(one > 1 for one in ratios), "mean": geometric_mean(ratios) if ratios else None}
