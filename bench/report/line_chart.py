"""Lines over numbers, as inline SVG: linear on both axes, or logarithmic upwards. Colours are classes of the style sheet."""
import html
import math

from chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Drawing, apart, decades
from quantities import three


def _steps(low, high, about=5):
    """Round numbers that enclose both, about so many: multiples of 1, 2 or 5 times a power of ten."""
    span = (high - low) or abs(high) or 1
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / about * 0.99)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, max(last, first + 1) + 1)]


def lines(label, series, x_name, y_name, y_value=three, y_from=None, logarithmic=False, limit=None):
    """`series`: (name, css class, [(x, y)]), drawn in that order, each on top of those before; x are whole numbers. `y_from`: a number that
    the axis has to include. `limit`: (a height, its name), drawn as a line across. Where the axis is logarithmic, numbers must be above 0."""
    drawing = Drawing(WIDTH, HEIGHT, label)
    xs = [x for _, _, points in series for x, _ in points]
    ys = [y for _, _, points in series for _, y in points] + ([y_from] if y_from is not None else []) + ([limit[0]] if limit else [])
    marks = decades(min(ys), max(ys)) if logarithmic else _steps(min(ys), max(ys))
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    first, wide = min(xs), (max(xs) - min(xs)) or 1

    def x_of(x):
        return LEFT + (right - LEFT) * (x - first) / wide

    def y_of(y):
        share = math.log(y / marks[0]) / math.log(marks[-1] / marks[0]) if logarithmic else (y - marks[0]) / (marks[-1] - marks[0])
        return bottom - (bottom - TOP) * share

    for mark in marks[::max(1, len(marks) // 6)]:
        drawing.line(LEFT, y_of(mark), right, y_of(mark), "grid")
        drawing.text(LEFT - 7, y_of(mark) + 4, y_value(mark), "tick end")
    drawing.line(LEFT, bottom, right, bottom, "axis")
    for mark in sorted({round(mark) for mark in _steps(first, max(xs)) if first <= round(mark) <= max(xs)}):
        drawing.line(x_of(mark), bottom, x_of(mark), bottom + 4, "axis")
        drawing.text(x_of(mark), bottom + 18, str(mark), "tick middle")
    drawing.text((LEFT + right) / 2, HEIGHT - 6, x_name, "caption middle")
    drawing.text(0, TOP - 16, y_name, "caption")
    named = [(name, css, y_of(points[-1][1])) for name, css, points in series]
    if limit:
        drawing.line(LEFT, y_of(limit[0]), right, y_of(limit[0]), "limit")
        named.append((limit[1], "plain", y_of(limit[0])))
    for name, css, points in series:
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        drawing.parts.append(f'<polyline points="{path}" class="curve {css}"/>')
        for x, y in points:
            drawing.parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="{3 if len(points) <= 12 else 2}" class="dot {css}">'
                                 f"<title>{html.escape(f'{name}, {x_name} {x}: {y_value(y)}')}</title></circle>")
    heights = apart([height for _, _, height in named], 15, TOP + 4, bottom)
    for (name, css, _), height in zip(named, heights):
        drawing.text(right + 8, height + 4, name, f"name {css.split()[0]}")
    return drawing.finish()
