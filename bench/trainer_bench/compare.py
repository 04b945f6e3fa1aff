"""One job on both sides, round by round in turns, so that what disturbs the machine disturbs both."""
import statistics

from trainer_bench.job import UNTIMED


def summary(job, about, runs):
    """What the runs of one side, one per round, say together. Curves are the first round's."""
    rounds = []
    for run in runs:
        timed = run["step_seconds"][UNTIMED[job.device]:]
        median = statistics.median(timed)
        rounds.append({"median_step_seconds": round(median, 7), "median_tokens_per_second": round(job.tokens_per_step / median, 1),
                       "least_step_seconds": round(min(timed), 7), "steps": len(run["losses"])})
    found = {"median_tokens_per_second": round(statistics.median(one["median_tokens_per_second"] for one in rounds), 1),
             "median_step_seconds": statistics.median(one["median_step_seconds"] for one in rounds),
             "model_flops_utilization": None, "rounds": rounds, "losses": runs[0]["losses"], **about}
    shares = [share for run in runs for share in run.get("model_flops_utilization", [])[UNTIMED[job.device]:]]
    if shares:
        found["model_flops_utilization"] = round(statistics.median(shares), 4)
    return found


def largest_difference(ours, theirs):
    """Of the losses of a step, over the steps of all rounds that both made."""
    differences = [(abs(first - second), step) for one, other in zip(ours, theirs)
                   for step, (first, second) in enumerate(zip(one["losses"], other["losses"]))]
    value, step = max(differences)
    return {"value": value, "step": step}


def compare(job, tombolo, pytorch, rounds):
    """The entry of one size in the results. `pytorch` is None where there is none to compare with."""
    runs = {"tombolo": [], "pytorch": []}
    for number in range(rounds):
        turn = [("tombolo", tombolo)] + ([("pytorch", pytorch)] if pytorch else [])
        for name, side in turn if number % 2 == 0 else reversed(turn):
            runs[name].append(side.train())
    ours = summary(job, tombolo.about, runs["tombolo"])
    found = {"name": job.name, "tombolo": ours, "pytorch": None, "ratio_of_medians": None, "largest_difference": None}
    if pytorch:
        theirs = summary(job, pytorch.about, runs["pytorch"])
        if ours["model_flops_utilization"] is not None:  # the same arithmetic, and so the same peak
            rate = theirs["median_tokens_per_second"] / ours["median_tokens_per_second"]
            theirs["model_flops_utilization"] = round(ours["model_flops_utilization"] * rate, 4)
        found |= {"pytorch": theirs, "largest_difference": largest_difference(runs["tombolo"], runs["pytorch"]),
                  "ratio_of_medians": round(statistics.median(
                      one["median_tokens_per_second"] / other["median_tokens_per_second"]
                      for one, other in zip(ours["rounds"], theirs["rounds"])), 3)}
    return found
