"""The picture: by how much Tombolo is faster, over the size, one panel for each collective and one line for each number of ranks."""
import html
import math

import figures
import quantities
from chart import apart
from collectives_page import EVEN

WIDTH, PANEL_HEIGHT, COLUMNS = 960, 236, 3
LEFT, RIGHT, TOP, BOTTOM = 42, 62, 34, 34
MARKS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64, 128]
STYLE = """.bg{fill:#fff}.t{fill:#1f2328}.s{fill:#57606a;font-size:11px}.g{stroke:#d8dee4;fill:none}.e{stroke:#57606a;stroke-dasharray:5 4;fill:none}
.c0{stroke:#0969da}.c1{stroke:#1a7f37}.c2{stroke:#bc4c00}.c3{stroke:#8250df}.k0{fill:#0969da}.k1{fill:#1a7f37}.k2{fill:#bc4c00}.k3{fill:#8250df}
.l{fill:none;stroke-width:2}.n{font-size:11px}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.t{fill:#e6edf3}.s{fill:#9da7b3}.g{stroke:#30363d}.e{stroke:#8b949e}
.c0{stroke:#58a6ff}.c1{stroke:#3fb950}.c2{stroke:#f0883e}.c3{stroke:#bc8cff}.k0{fill:#58a6ff}.k1{fill:#3fb950}.k2{fill:#f0883e}.k3{fill:#bc8cff}}"""


def _times(number):
    return f"{number:g}" if number >= 1 else f"1/{1 / number:g}"


class _Panel:
    def __init__(self, left, top, sizes, least, most):
        self.left, self.right = left + LEFT, left + WIDTH / COLUMNS - RIGHT
        self.top, self.bottom = top + TOP, top + PANEL_HEIGHT - BOTTOM
        self.sizes, self.least, self.most = sizes, least, most

    def x(self, size):
        wide = math.log(self.sizes[-1] / self.sizes[0]) or 1
        return self.left + (self.right - self.left) * math.log(size / self.sizes[0]) / wide

    def y(self, number):
        return self.bottom - (self.bottom - self.top) * math.log(number / self.least) / math.log(self.most / self.least)

    def frame(self, title):
        yield f'<text class="t" x="{self.left:.0f}" y="{self.top - 14:.0f}">{html.escape(title)}</text>'
        for mark in MARKS:
            if self.least <= mark <= self.most:
                css = "e" if mark == 1 else "g"
                yield f'<path class="{css}" d="M{self.left:.1f} {self.y(mark):.1f}H{self.right:.1f}"/>'
                yield f'<text class="s" x="{self.left - 6:.1f}" y="{self.y(mark) + 4:.1f}" text-anchor="end">{_times(mark)}</text>'
        for size in self.sizes[::4]:
            yield (f'<text class="s" x="{self.x(size):.1f}" y="{self.bottom + 16:.1f}" text-anchor="middle">'
                   f"{quantities.size(size)}</text>")

    def line(self, points, colour):
        path = " ".join(f"{self.x(size):.1f},{self.y(number):.1f}" for size, number in points)
        yield f'<polyline class="l c{colour}" points="{path}"/>'
        for size, number in points:
            yield (f'<circle class="k{colour}" cx="{self.x(size):.1f}" cy="{self.y(number):.1f}" r="2.5">'
                   f"<title>{quantities.size(size)}: {number:.2f}</title></circle>")


def picture(results, scene):
    """SVG, or None where no other library was measured in that scene."""
    cells = figures.cells(results["runs"], scene, EVEN)
    ratios = {cell: figures.ratio(times) for cell, times in cells.items() if cell[0] != "barrier"}
    ratios = {cell: number for cell, number in ratios.items() if number is not None}
    if not ratios:
        return None
    collectives = [one for one in EVEN if any(cell[0] == one for cell in ratios)]
    ranks, sizes = sorted({cell[1] for cell in ratios}), sorted({cell[2] for cell in ratios})
    least = max([mark for mark in MARKS if mark <= min(ratios.values())], default=MARKS[0])
    most = min([mark for mark in MARKS if mark >= max(*ratios.values(), 2)], default=MARKS[-1])
    rows = -(-(len(collectives) + 1) // COLUMNS)
    height = rows * PANEL_HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="14" '
             'role="img" aria-label="Ratio of the best other library\'s time to Tombolo\'s">', f"<style>{STYLE}</style>",
             f'<rect class="bg" width="{WIDTH}" height="{height}"/>']
    for index, collective in enumerate(collectives):
        panel = _Panel(index % COLUMNS * WIDTH / COLUMNS, index // COLUMNS * PANEL_HEIGHT, sizes, least, most)
        parts += panel.frame(EVEN[collective])
        named = []
        for colour, number in enumerate(ranks):
            points = [(cell[2], min(max(one, least), most)) for cell, one in ratios.items() if cell[:2] == (collective, number)]
            if points:
                parts += panel.line(points, colour % 4)
                named.append((number, colour % 4, panel.y(points[-1][1])))
        heights = apart([at for _, _, at in named], 13, panel.top, panel.bottom)
        parts += [f'<text class="n k{colour}" x="{panel.right + 7:.1f}" y="{at + 4:.1f}">{number} ranks</text>'
                  for (number, colour, _), at in zip(named, heights)]
    left, top = len(collectives) % COLUMNS * WIDTH / COLUMNS + LEFT, len(collectives) // COLUMNS * PANEL_HEIGHT + TOP
    found = figures.summary(cells.values())
    told = ["How many times faster than the best", "of the other libraries, by size.", "Below the dashed line Tombolo is slower.", "",
            f"Faster in {found['won']} of {found['cells']} cells,", f"geometric mean {found['mean']:.2f} times."]
    for line, text in enumerate(told):
        css = "t" if line > 3 else "s"
        parts.append(f'<text class="{css}" style="font-size:13px" x="{left:.0f}" y="{top + 20 * line:.0f}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])
