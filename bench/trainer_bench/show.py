"""The results for people: charts and tables of one size, and the page of all."""
import html

import page
from chart import bars
from line_chart import lines
from quantities import duration, three

# Losses of both sides in fp32 stay within this of each other; tests/process/pytorch_parity.py holds every build to it.
PARITY = 1e-4
LEAST = 1e-9  # where the logarithmic axis of differences begins


def per_second(value):
    return f"{value:,.0f}"


def scientific(value):
    return f"{value:.0e}"


def shape(size):
    model = size["model"]
    text = (f"{model['layers']} layers, width {model['width']}, {model['heads']} heads, context {model['context']}, vocabulary "
            f"{model['vocabulary']}")
    if size["tombolo"].get("parameters"):
        text += f": {size['tombolo']['parameters'] / 1e6:.3g} M parameters"
    return f"{text}; batch {model['batch']}" + (f" in micro-batches of {model['micro_batch']}" if model["micro_batch"] else "")


def difference(size):
    """A sentence; None where nothing was compared."""
    found = size["largest_difference"]
    return found and f"The losses differ by {found['value']:.1e} at most, at step {found['step']}."


def curves(size):
    """The two curves over each other: the wide pale line is PyTorch's."""
    series = [("Tombolo", "ours", list(enumerate(size["tombolo"]["losses"])))]
    note = f"{difference(size)} The wide, pale line is PyTorch's." if size["pytorch"] else "Tombolo's alone."
    if size["pytorch"]:
        losses = size["pytorch"]["losses"]
        series.insert(0, ("PyTorch", "other under", list(enumerate(losses))))
        if len(losses) < len(size["tombolo"]["losses"]):
            note += f" PyTorch was slow: it made the first {len(losses)} steps only."
    return page.figure(lines(f"Loss by step, {size['name']}", series, "step", "loss"), "Loss", note)


def differences(size):
    ours, theirs = size["tombolo"]["losses"], size["pytorch"]["losses"]
    points = [(step, max(abs(one - other), LEAST)) for step, (one, other) in enumerate(zip(ours, theirs))]
    limit = (PARITY, "bound, fp32") if size["model"]["dtype"] == "fp32" else None
    note = "In the first round. Both add up in another order, and the rounding grows from step to step."
    return page.figure(lines(f"Difference of the losses by step, {size['name']}", [("difference", "third", points)], "step",
                             "|loss here - loss of PyTorch|", scientific, logarithmic=True, limit=limit),
                       "How far the curves are apart", note)


def speeds(size):
    ours, theirs = size["tombolo"], size["pytorch"]
    sides = [(name, css, side) for name, css, side in (("Tombolo's trainer", "ours", ours), ("PyTorch", "other", theirs)) if side]
    count = len(ours["rounds"])
    note = f"Median over {count} round{'s' if count > 1 else ''} of each round's median step."
    if theirs:
        note += f" Ratio: {size['ratio_of_medians']:.2f}."
    utilization = [f"{side['model_flops_utilization']:.1%} ({name})" for name, _, side in sides
                   if side["model_flops_utilization"] is not None]
    if utilization:
        note += f" MFU: {', '.join(utilization)}."
    drawn = bars(f"Tokens per second, {size['name']}", [(name, css, side["median_tokens_per_second"]) for name, css, side in sides],
                 per_second)
    times = bars(f"Time per step, {size['name']}", [(name, css, side["median_step_seconds"]) for name, css, side in sides], duration)
    return page.figure(f"{drawn}\n<h3>Time per step</h3>\n{times}", "Tokens per second", note)


def rounds(size):
    """Tokens per second of every round: where a round was disturbed, both fall."""
    series = [(name, css, [(number, one["median_tokens_per_second"] / 1e3) for number, one in enumerate(size[key]["rounds"], 1)])
              for key, name, css in (("pytorch", "PyTorch", "other"), ("tombolo", "Tombolo", "ours")) if size[key]]
    return page.figure(lines(f"Tokens per second by round, {size['name']}", series, "round", "1,000 tokens/s", y_from=0),
                       "Every round", "The sides take turns; the other one begins in every second round.")


def round_table(size):
    head, rows = ["round", "Tombolo, tokens/s", "step", "fastest step"], []
    if size["pytorch"]:
        head += ["PyTorch, tokens/s", "step", "fastest step", "ratio"]
    for number, ours in enumerate(size["tombolo"]["rounds"]):
        sides = [ours] + ([size["pytorch"]["rounds"][number]] if size["pytorch"] else [])
        row = [number + 1]
        for side in sides:
            row += [f"{side['median_tokens_per_second']:,.0f}", duration(side["median_step_seconds"]), duration(side["least_step_seconds"])]
        if len(sides) == 2:
            row.append(f"{sides[0]['median_tokens_per_second'] / sides[1]['median_tokens_per_second']:.2f}")
        rows.append(row)
    return page.table(head, rows)


def summary_table(results):
    head = ["size", "Tombolo, tokens/s", "step", "MFU", "PyTorch, tokens/s", "step", "MFU", "ratio", "largest difference of losses"]
    rows = []
    for size in results["sizes"]:
        row = [size["name"]]
        for side in (size["tombolo"], size["pytorch"]):
            row += [f"{side['median_tokens_per_second']:,.0f}", duration(side["median_step_seconds"]),
                    "-" if side["model_flops_utilization"] is None else f"{side['model_flops_utilization']:.1%}"] if side else ["-"] * 3
        row += [f"{size['ratio_of_medians']:.2f}", f"{size['largest_difference']['value']:.1e}"] if size["pytorch"] else ["-", "-"]
        rows.append(row)
    return page.table(head, rows)


def peer(side):
    """Which PyTorch; on a processor with the speed of its products, without which the comparison would say little."""
    text = f"PyTorch {side['version']}" + (", torch.compile" if side["compiled"] else ", eager") + f", attention: {side['attention']}"
    if side.get("gpu"):
        return f"{text}, on {side['gpu']}"
    if side.get("instructions"):
        text += f", {side['instructions']} kernels"
    return f"{text}, matrix products of {three(side['matrix_product_flops_per_second'] / 1e9)} GFLOP/s"


def peer_note(results):
    """What Tombolo is compared with, or why with nothing; HTML."""
    size = results["sizes"][-1]
    return page.note(f"Beside {peer(size['pytorch'])}." if size["pytorch"] else results["why_no_pytorch"])


def conditions(results):
    """Rows for page.conditions()."""
    settings, size = results["settings"], results["sizes"][-1]
    ranks = f"{settings['replicas']} replicas" if settings["replicas"] > 1 else "one rank"
    threads = f"{settings['threads']} thread{'s' if settings['threads'] > 1 else ''} each" if settings["device"] == "cpu" else "one GPU"
    reduced = "; gradients over Tombolo's engine and over DDP with Gloo" if settings["replicas"] > 1 else ""
    rows = [("Run", f"{settings['device']}, {settings['dtype']}, {ranks}, {threads}{reduced}; {settings['steps']} steps, rounds: "
             f"{settings['rounds']}"),
            ("Optimizer", f"AdamW, rate {settings['rate']:g} after {settings['warmup']} step{'s' if settings['warmup'] > 1 else ''}, "
             f"half a cosine down to {settings['smallest_rate']:g}, decay {settings['weight_decay']:g} of matrices, gradient norm clipped at {settings['clip']:g}"),
            ("Instruction sets", ", ".join(results["machine"]["instruction_sets"]) or "not told"),
            ("Tombolo's kernels", size["tombolo"].get("kernels") or "not told")]
    return rows + [("PyTorch", peer(size["pytorch"]) if size["pytorch"] else results["why_no_pytorch"])]


def size_section(size):
    """The figures of one size, as HTML."""
    drawn = [curves(size)] + ([differences(size)] if size["pytorch"] else []) + [speeds(size)]
    if len(size["tombolo"]["rounds"]) > 1:
        drawn.append(rounds(size))
    return page.note(shape(size)) + page.side_by_side(drawn) + page.folded("Rounds as numbers", round_table(size))


def tiles(results):
    found = []
    for size in results["sizes"]:
        if size["pytorch"]:
            found.append((f"{size['ratio_of_medians']:.2f} x", f"PyTorch's tokens per second, {size['name']}"))
            found.append((f"{size['largest_difference']['value']:.1e}", f"largest difference of the losses, {size['name']}"))
        else:
            found.append((per_second(size["tombolo"]["median_tokens_per_second"]), f"tokens per second, {size['name']}"))
    return page.tiles(found)


def document(results):
    warning = "" if results["why_no_pytorch"] is None else \
        f'<section class="warning"><p>{html.escape(results["why_no_pytorch"])}</p></section>\n'
    sections = "".join(f"<section>\n<h2>{html.escape(size['name'][:1].upper() + size['name'][1:])}</h2>\n{size_section(size)}</section>\n"
                       for size in results["sizes"])
    lead = ("The same model, data, initial weights, optimizer and learning rates here and in PyTorch, in turns on the same machine, by "
            "<code>bench/trainer</code>. Ratios carry to other machines, absolute times do not.")
    return page.document("Tombolo: the trainer beside PyTorch", "The trainer beside PyTorch", lead,
                         f"<section>{page.conditions(results, conditions(results))}</section>\n{warning}{tiles(results)}"
                         f"<section>\n<h2>All sizes</h2>\n{summary_table(results)}</section>\n{sections}")
