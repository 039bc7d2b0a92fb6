"""Includes follow the list of arrows in cmake/rooms.cmake; heavy libraries stay in the rooms that wrap them.

  tools/check_arrows.py            checks; prints each room's largest knot
  tools/check_arrows.py --table    prints the table that ARCHITECTURE.md must carry

A knot is the largest set of header-and-source units of a room that include each other in a circle.
"""

import os
import re
import sys

import repository

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)

# Third-party headers (by prefix) and the rooms that may see them; apps wires and sees none.
THIRD_PARTY = {
    "nghttp2/": {"net"},
    "zlib.h": {"net", "serve"},
    "google/protobuf/": {"host", "serve"},
    "openvino/": {"engines"},
    "gtest/": "tests",
    "gmock/": "tests",
}
# What a public header may include besides stoker/ and the C++ standard library.
SYSTEM = re.compile(r"^(sys/|netinet/|arpa/|unistd\.h|fcntl\.h|errno\.h|signal\.h|poll\.h|immintrin\.h)")
STANDARD = re.compile(r"^[a-z_]+$")
KNOT_AIM, KNOT_CAP = 4, 10
TABLE = ("<!-- rooms: checked by tools/check_arrows.py -->", "<!-- /rooms -->")


def is_test(path):
    return path.endswith(repository.TEST_FILES) or "/testing/" in path or "_testing/" in path


def is_public_header(path):
    return path.endswith(".h") and "/include/stoker/" in path


def check_include(path, room, target, allowed):
    """The finding for one include, or None."""
    if target.startswith("stoker/"):
        other = target.split("/")[1]
        if other != room and other not in allowed:
            return f"{path}: {room} may not include <{target}> (arrows of {room}: {' '.join(allowed) or 'none'})"
        return None
    for prefix, rooms in THIRD_PARTY.items():
        if not target.startswith(prefix):
            continue
        if rooms == "tests":
            return None if is_test(path) else f"{path}: <{target}> belongs in tests"
        if room not in rooms:
            return f"{path}: <{target}> is wrapped by {', '.join(sorted(rooms))} only"
        if is_public_header(path):
            return f"{path}: a public header may not include <{target}>; hide it in the .cc"
        return None
    if is_public_header(path) and not STANDARD.match(target) and not SYSTEM.match(target):
        return f"{path}: a public header includes only stoker/, the C++ library and the system, got <{target}>"
    return None


def unit(path):
    """Header and source of one thing are one unit: net/http_parser."""
    path = re.sub(r"^src/", "", path)
    path = re.sub(r"/(testing/)?include/stoker/[^/]+/", "/", path)
    return os.path.splitext(path)[0]


def knots(graph):
    """Largest strongly connected set of a graph (name -> set of names), by Tarjan's algorithm without recursion."""
    index, low, on_stack, stack, best = {}, {}, set(), [], []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, edges = work[-1]
            step = next((e for e in edges if e in graph and (e not in index or e in on_stack)), None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.append(member)
                        if member == node:
                            break
                    best = max(best, members, key=len)
            elif step in index:
                low[node] = min(low[node], index[step])
            else:
                index[step] = low[step] = len(index)
                stack.append(step)
                on_stack.add(step)
                work.append((step, iter(sorted(graph[step]))))
    return best


def resolve(path, bracket, target):
    """The unit that an include names, for knots within a room."""
    if target.startswith("stoker/"):
        _, room, rest = target.split("/", 2)
        return os.path.splitext(f"{room}/{rest}")[0]
    if bracket == '"':
        room = repository.room_of(path)
        beside = os.path.normpath(os.path.join(os.path.dirname(path), target))
        found = beside if repository.exists(beside) else os.path.join("src", room, target)
        return unit(found)
    return None


def table(order, allowed):
    lines = ["| Room | May include |", "|---|---|"]
    lines += [f"| {room} | {', '.join(allowed[room]) or '—'} |" for room in order]
    lines.append("| apps | all |")
    return "\n".join(lines)


def check_table(order, allowed):
    if not repository.exists("ARCHITECTURE.md"):
        return ["ARCHITECTURE.md: missing"]
    text = repository.read("ARCHITECTURE.md")
    start, end = text.find(TABLE[0]), text.find(TABLE[1])
    if start < 0 or end < 0 or text[start + len(TABLE[0]):end].strip() != table(order, allowed):
        return ["ARCHITECTURE.md: the table of rooms differs from cmake/rooms.cmake; "
                "paste what 'tools/check_arrows.py --table' prints between the two marks"]
    return []


def check_order(order, allowed):
    """Arrows point down: a room sees only rooms before it in the order."""
    findings = []
    for position, room in enumerate(order):
        for other in allowed.get(room, []):
            if other not in order[:position]:
                findings.append(f"cmake/rooms.cmake: {room} -> {other} does not point down")
    return findings


def main():
    order, allowed = repository.room_order(), repository.arrows()
    if "--table" in sys.argv[1:]:
        print(table(order, allowed))
        return 0
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    findings = check_order(order, allowed) + check_table(order, allowed)
    graphs = {}
    for path in repository.files(".cc", ".h", below="src"):
        room = repository.room_of(path)
        if room is None:
            continue
        if room not in allowed:
            findings.append(f"{path}: room '{room}' is not in cmake/rooms.cmake")
            continue
        own = graphs.setdefault(room, {}).setdefault(unit(path), set())
        for bracket, target in INCLUDE.findall(repository.read(path)):
            finding = check_include(path, room, target, allowed[room])
            if finding:
                findings.append(finding)
            named = resolve(path, bracket, target)
            if named and named != unit(path) and not is_test(path):
                own.add(named)
    knot_sizes = []
    for room in order + ["apps"]:
        if room in graphs:
            members = knots(graphs[room])
            knot_sizes.append(f"{room} {len(members)}/{len(graphs[room])}")
            if len(members) > KNOT_CAP:
                findings.append(f"src/{room}: a knot of {len(members)} units (at most {KNOT_CAP}): "
                                f"{' '.join(sorted(members))}")
    print(f"check_arrows: largest knot / units (aim {KNOT_AIM}): " + ", ".join(knot_sizes))
    return repository.report("arrows", findings)


if __name__ == "__main__":
    sys.exit(main())
