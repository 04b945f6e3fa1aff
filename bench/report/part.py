"""The types of a part and of a section of `bench/run`."""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Part:
    """`measure(programs, quick)` returns what goes into the file of results, from which the section's show() makes HTML."""

    name: str
    section: "Section"
    what: str  # for --list
    seconds: float  # duration on the machine of REFERENCE_SECONDS (calibration.py)
    quick_seconds: float
    measure: typing.Callable
    programs: tuple = ()  # programs in build/bin that it runs
    why_not: typing.Callable = lambda: None  # a reason to skip it on this machine, or None

    def estimate(self, quick):
        return self.quick_seconds if quick else self.seconds


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the page. Its functions take the results of its parts by name, without those that failed or were skipped."""

    title: str
    text: str  # what is measured and how, HTML
    show: typing.Callable  # HTML
    headline: typing.Callable = lambda results: None  # (a figure, what it is), texts; or None
