"""The planner: against published measurements, on random clusters, and on large ones."""
import html

import machine
import page
from part import Part, Section


def measure(programs, quick):
    # Measurements that are no part of the repository are looked for beside it.
    short = ["--only", "holmes", "random", "scale", "--trials", "12", "--scale", "64"] if quick else []
    return programs.printed_json(programs.bin / "planner_eval", "--json", *short, cwd=machine.ROOT)


def show(results):
    text = ""
    for section in results["planner_eval"]["sections"]:
        text += f"<h3>{html.escape(section['title'])}</h3>\n"
        if section.get("figures"):
            text += page.table(["figure", "wanted", "seen", ""],
                               [[one["name"], one["wanted"], one["seen"], "met" if one["met"] else "missed"]
                                for one in section["figures"]], numbers=4)
        text += "".join(map(page.note, section["notes"]))
    return text


SECTION = Section("Planner", "What the searches find beside what is wanted of them, and how long they take.", show)
PARTS = [Part("planner_eval", SECTION, "the planner against published measurements, random and large clusters", 40, 10, measure,
              ("planner_eval",))]
