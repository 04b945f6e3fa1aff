"""Finds what a command leaves behind: processes that it started, and temporary files."""
import os
import time


def environment(folder, mark, **more):
    """Variables under which everything a command starts carries the mark, and makes its temporary files in
    folder/tmp, so that what is left shows."""
    temporary = os.path.join(folder, "tmp")
    os.makedirs(temporary, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMBOLO_")}
    return dict(kept, TMPDIR=temporary, XDG_RUNTIME_DIR=temporary, TOMBOLO_TEST_MARK=mark, **more)


def marked(mark):
    """Running processes that carry the mark, as (process id, command line)."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"TOMBOLO_TEST_MARK={mark}\0".encode() in file.read():
                    with open(f"/proc/{name}/cmdline", "rb") as line:
                        found.append((int(name), line.read().replace(b"\0", b" ").decode()))
        except OSError:
            pass  # ended meanwhile
    return found


def nothing_left(folder, mark):
    deadline = time.monotonic() + 20
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not marked(mark), f"still running: {marked(mark)}"
    left = os.listdir(os.path.join(folder, "tmp"))
    assert not left, f"left behind: {left}"
