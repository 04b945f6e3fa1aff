"""The page: one HTML file that needs no other, and no network."""
import html
import pathlib

import quantities

NUMBER = ' class="number"'
STYLE = pathlib.Path(__file__).with_name("style.css")


def table(head, rows, numbers=1):
    """Cells are texts, not HTML. Columns from number `numbers` on are right-aligned."""
    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}{NUMBER if index >= numbers else ''}>{html.escape(str(cell))}</{tag}>"
                                for index, cell in enumerate(cells)) + "</tr>"
    body = "\n".join(row(cells, "td") for cells in rows)
    return f'<div class="wide"><table><thead>{row(head, "th")}</thead><tbody>\n{body}\n</tbody></table></div>\n'


def figure(drawing, title, note=""):
    note = f"<small>{html.escape(note)}</small>" if note else ""
    return f"<figure><figcaption>{html.escape(title)}{note}</figcaption>\n{drawing}\n</figure>\n"


def side_by_side(figures):
    return f'<div class="figures">\n{"".join(figures)}</div>\n'


def folded(summary, content):
    return f"<details><summary>{html.escape(summary)}</summary>\n{content}</details>\n"


def note(text):
    return f'<p class="note">{html.escape(text)}</p>\n'


def conditions(results, more=()):
    """The machine, the source and the date of results as bench/run writes them; `more`: further rows, (name, text)."""
    machine, source, versions = results["machine"], results["source"], results["versions"]
    commit = source["commit"] or "not a clone"
    rows = [("Machine", f"{machine['processor']}, {machine['cores']} cores"
             + (f", {machine['memory_bytes'] / (1 << 30):.0f} GiB" if machine["memory_bytes"] else "")),
            ("Kernel", f"Linux {machine['kernel']}, frequency governor: {machine['governor'] or 'not told'}"),
            ("Load when it began", f"{machine['load_average']} processes running on average over a minute"),
            ("Commit", commit + (", with changes that were not committed" if source["changed"] else "")),
            ("Build", ", ".join(str(versions[name]) for name in ("tombolo", "compiler", "build_type") if versions[name])),
            ("Date", results["date"] + (", a quick run: its figures are rough" if results.get("quick") else "")), *more]
    return "<dl>\n" + "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>\n" for name, text in rows) + "</dl>\n"


def tiles(headlines):
    """`headlines`: (a figure, what it is), texts."""
    drawn = "".join(f'<div class="tile"><b>{html.escape(value)}</b><span>{html.escape(text)}</span></div>\n' for value, text in headlines)
    return f'<div class="tiles">\n{drawn}</div>\n' if drawn else ""


def _outcomes(parts):
    """Which parts ran, and why others have no figures."""
    rows = []
    for name, part in parts.items():
        how = {"ran": f"ran in {quantities.wait(part['seconds'])}" if "seconds" in part else "",
               "skipped": f"skipped: {part.get('reason')}", "failed": f"failed: {part.get('reason')}"}[part["outcome"]]
        rows.append(f'<tr class="{part["outcome"]}"><td>{html.escape(name)}</td><td>{html.escape(how)}</td></tr>')
    return '<div class="wide"><table class="outcomes"><tbody>\n' + "\n".join(rows) + "\n</tbody></table></div>\n"


def document(title, heading, lead, body):
    """A whole file. `title` and `heading` are texts, the others HTML."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{html.escape(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<h1>{html.escape(heading)}</h1>
<p class="lead">{lead}</p>
{body}</main>
</body>
</html>
"""


def page(results, sections):
    """Of bench/run. `sections`: (Section, {part: found}) in order."""
    failed = [name for name, part in results["parts"].items() if part["outcome"] == "failed"]
    warning = (f'<section class="warning"><h2>Failed: {html.escape(", ".join(failed))}</h2>\n<p>The last section says why. '
               "What ran beside is below.</p></section>\n") if failed else ""
    body = "".join(f"<section>\n<h2>{html.escape(section.title)}</h2>\n<p>{section.text}</p>\n{section.show(found)}</section>\n"
                   for section, found in sections if found)
    headlines = filter(None, (section.headline(found) for section, found in sections if found))
    lead = """Every benchmark that this machine can run, by <code>bench/run</code>. Rates are decimal (1 GB/s is 10⁹ bytes per
second), sizes binary (1 KiB is 1,024 bytes)."""
    return document("Tombolo: all benchmarks", "What Tombolo attains on this machine", lead,
                    f"""<section>{conditions(results)}</section>
{warning}{tiles(headlines)}{body}<section>
<h2>What ran</h2>
{_outcomes(results["parts"])}</section>
""")
