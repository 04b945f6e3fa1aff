"""Formats quantities for readers."""
import math


def size(count):
    """Binary, as messages are sized: "64 KiB"."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{three(count / unit)} {name}"
    return f"{count} B"


def three(value):
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    text = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def scaled(value, unit, steps):
    for factor, prefix in steps:
        if abs(value) >= factor:
            return f"{three(value / factor)} {prefix}{unit}"
    factor, prefix = steps[-1]
    return f"{three(value / factor)} {prefix}{unit}"


def duration(seconds):
    """A measured time: "3.2 us"."""
    return scaled(seconds, "s", ((1, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")))


def rate(per_second, unit):
    """Decimal: "3.4 GB/s"."""
    return scaled(per_second, unit, ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, "")))


def wait(seconds):
    """An estimated duration: "40 s", "3 min"."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
