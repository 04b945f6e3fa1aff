#!/usr/bin/env python3
"""The demo's page is well-formed as XML and as HTML, and draws what it should."""

import html.parser
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

SVG_TAGS = {"rect", "circle", "line", "polyline"}
VOID_TAGS = {"meta"} | SVG_TAGS


class Nesting(html.parser.HTMLParser):
    """Fails on a tag that is closed in the wrong order or never."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> states an attribute twice: {names}"
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID_TAGS, f"<{tag}/> is not closed for an HTML parser"

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> while {self.open[-3:]} are open"
        self.open.pop()


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        subprocess.run([program, "--gtest_filter=DemoReport.WritesThePage*"], check=True, timeout=60,
                       env=dict(os.environ, TOMBOLO_TEST_PAGE=path), stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            page = file.read()
    root = tree.fromstring(page)  # throws where it is not well-formed
    nesting = Nesting()
    nesting.feed(page)
    nesting.close()
    assert not nesting.open, f"never closed: {nesting.open}"
    drawings = list(root.iter("svg"))
    assert len(drawings) >= 8, f"{len(drawings)} drawings"
    for drawing in drawings:
        assert drawing.get("aria-label"), "a drawing without a label"
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for box in drawing.iter("rect"):
            right = float(box.get("x")) + float(box.get("width"))
            bottom = float(box.get("y")) + float(box.get("height"))
            label = drawing.get("aria-label")
            assert 0 <= right <= width + 0.5 and 0 <= bottom <= height + 0.5, f"'{label}' is clipped: {box.attrib}"


main()
