"""Charts as inline SVG. Colours are classes of the page's style sheet."""
import html
import math

import quantities

WIDTH, HEIGHT = 500, 290
LEFT, RIGHT, TOP, BOTTOM = 54, 92, 30, 46
BAR_HEIGHT, BAR_LEFT, BAR_RIGHT = 26, 190, 90


class Drawing:
    def __init__(self, width, height, label):
        self.parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">']

    def line(self, x1, y1, x2, y2, css):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>')

    def text(self, x, y, content, css):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{css}">{html.escape(content)}</text>')

    def finish(self):
        return "\n".join([*self.parts, "</svg>"])


def decades(low, high):
    """The powers of ten that enclose both values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def apart(wanted, least, top, bottom):
    """Heights near the wanted ones, at least `least` apart, and within the two limits."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = [0.0] * len(wanted)
    at = top - least
    for index in order:
        at = placed[index] = max(wanted[index], at + least)
    at = bottom + least
    for index in reversed(order):
        at = placed[index] = min(placed[index], at - least)
    return placed


def by_size(label, series, value_name, value):
    """Lines over message sizes, both axes logarithmic. `series`: (name, css class, [(bytes, number)]); `value` formats a
    number."""
    drawing = Drawing(WIDTH, HEIGHT, label)
    sizes = sorted({size for _, _, points in series for size, _ in points})
    numbers = [number for _, _, points in series for _, number in points if number > 0]
    marks = decades(min(numbers), max(numbers))
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    wide = math.log2(sizes[-1] / sizes[0]) or 1
    tall = math.log10(marks[-1] / marks[0])

    def x_of(size):
        return LEFT + (right - LEFT) * math.log2(size / sizes[0]) / wide

    def y_of(number):
        return bottom - (bottom - TOP) * math.log10(max(number, marks[0]) / marks[0]) / tall

    for mark in marks:
        drawing.line(LEFT, y_of(mark), right, y_of(mark), "grid")
        drawing.text(LEFT - 7, y_of(mark) + 4, value(mark), "tick end")
    drawing.line(LEFT, bottom, right, bottom, "axis")
    least_apart, last = 58, -math.inf
    for size in sizes:
        drawing.line(x_of(size), bottom, x_of(size), bottom + 4, "axis")
        if x_of(size) - last >= least_apart:
            drawing.text(x_of(size), bottom + 18, quantities.size(size), "tick middle")
            last = x_of(size)
    drawing.text((LEFT + right) / 2, HEIGHT - 6, "message size", "caption middle")
    drawing.text(0, TOP - 16, value_name, "caption")
    for _, css, points in series:
        path = " ".join(f"{x_of(size):.1f},{y_of(number):.1f}" for size, number in points)
        drawing.parts.append(f'<polyline points="{path}" class="curve {css}"/>')
        for size, number in points:
            drawing.parts.append(f'<circle cx="{x_of(size):.1f}" cy="{y_of(number):.1f}" r="3" class="dot {css}">'
                                 f"<title>{quantities.size(size)}: {html.escape(value(number))}</title></circle>")
    heights = apart([y_of(points[-1][1]) for _, _, points in series], 15, TOP + 4, bottom)
    for (name, css, points), height in zip(series, heights):
        drawing.text(right + 8, height + 4, name, f"name {css}")
    return drawing.finish()


def bars(label, rows, value, top=None):
    """Horizontal bars. `rows`: (name, css class, number); `top`: the number of the longest possible."""
    height = BAR_HEIGHT * len(rows) + 4
    drawing = Drawing(WIDTH, height, label)
    top = top or max(number for _, _, number in rows) or 1
    for index, (name, css, number) in enumerate(rows):
        y = BAR_HEIGHT * index + 3
        length = (WIDTH - BAR_LEFT - BAR_RIGHT) * min(1, number / top)
        drawing.text(BAR_LEFT - 8, y + 15, name, "end")
        drawing.parts.append(f'<rect x="{BAR_LEFT}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT - 6}" rx="2" '
                             f'class="bar {css}"/>')
        drawing.text(BAR_LEFT + length + 7, y + 15, value(number), "value")
    return drawing.finish()
