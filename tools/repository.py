"""What the gates share: the repository's files, the list of rooms, and how findings are printed."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Tests, fuzz targets, and what several tests of a room share.
TEST_FILES = ("_test.cc", "_fuzz.cc", "_fixture.h", "_fixture.cc", "_test_data.h")
SKIP = {"build", ".git", ".cache", "__pycache__", "node_modules"}


def files(*suffixes, below=""):
    """Paths relative to the root, sorted; build folders and hidden folders are left out."""
    found = []
    for folder, folders, names in os.walk(os.path.join(ROOT, below)):
        folders[:] = sorted(f for f in folders if f not in SKIP and (not f.startswith(".") or f == ".ci"))
        for name in names:
            if not suffixes or name.endswith(suffixes):
                found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as text:
        return text.read()


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


def room_order():
    match = re.search(r"set\(STOKER_ROOM_ORDER ([^)]*)\)", read("cmake/rooms.cmake"))
    return match.group(1).split()


def arrows():
    """Room -> the rooms whose headers it may include, from cmake/rooms.cmake."""
    order = room_order()
    found = {}
    for room, names in re.findall(r"set\(STOKER_ARROWS_(\w+) ([^)]*)\)", read("cmake/rooms.cmake")):
        names = names.replace("${STOKER_ROOM_ORDER}", " ".join(order)).replace('"', "")
        found[room] = names.split()
    return found


def room_of(path):
    """src/net/http/x.cc -> net; None outside src/."""
    parts = path.split(os.sep)
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def report(gate, findings, limit=60):
    """Prints the findings and returns the exit code. STOKER_CHECK_BELOW (a path) leaves out all others."""
    below = os.environ.get("STOKER_CHECK_BELOW", "")
    findings = [finding for finding in findings if finding.startswith(below)]
    for finding in findings[:limit]:
        print(finding, file=sys.stderr)
    if len(findings) > limit:
        print(f"... and {len(findings) - limit} more", file=sys.stderr)
    if findings:
        print(f"check_{gate}: {len(findings)} finding(s)", file=sys.stderr)
    return 1 if findings else 0
