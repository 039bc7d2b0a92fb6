"""Documents speak of what exists, and each room has its page.

  tools/check_docs.py

In every *.md: paths and file names in `backticks` exist, links lead somewhere, `./dev VERB` is a verb.
In every room's README.md: the same headings, at most 80 lines, and the tests it names exist.
"""

import os
import re
import sys

import repository

README_LINES = 80
# Each room's README has these, in this order (CONTRIBUTING.md).
HEADINGS = ["What it is for", "Picture", "Public headers", "Who owns what", "Invariants", "Deliberately absent",
            "Decisions that look odd", "How to add one"]
SUFFIXES = (".cc", ".h", ".py", ".sh", ".cmake", ".md", ".txt")
# Names that stand for any file of their kind, and files that users have, not this repository.
PATTERN = re.compile(r"(^|/)(x|NAME|NNN|name)[_.\-]|[*<>{}$…]|\.\.\.|NAME|KIND|GATE|VERB|ROOM")
GENERATED = ("build/",)


def fenced_out(text):
    """The text without fenced blocks: they show sessions and files of users."""
    return re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.S | re.M)


def known_names():
    return {os.path.basename(path) for path in repository.files()}


def path_finding(document, token, names):
    """A finding when the token looks like a path of ours and nothing is there."""
    token = re.sub(r":\d+$", "", token)
    if " " in token or PATTERN.search(token) or token.startswith(("/", "~", "-", "http", "$", ".")) and not token.startswith("./"):
        return None
    token = token[2:] if token.startswith("./") else token
    if token.startswith(GENERATED):
        return None
    if "/" not in token:
        if token.endswith(SUFFIXES) and token not in names and not re.match(r"^(labels|requirements)\.txt$", token):
            return f"{document}: `{token}` is no file here"
        return None
    first = token.split("/")[0]
    roots = ["", os.path.dirname(document), "src", os.path.join(os.path.dirname(document), "include"),
             os.path.join("src", first, "include")]
    if token.startswith("stoker/") and token.endswith(".h"):
        roots.append(os.path.join("src", token.split("/")[1], "include"))
        roots.append(os.path.join("src", token.split("/")[1], "testing/include"))
    ours = repository.exists(first) or repository.exists(os.path.join("src", first)) or token.startswith("stoker/")
    if not ours and not token.endswith(SUFFIXES):
        return None
    for root in roots:
        stem = os.path.join(root, token)
        if any(repository.exists(stem + suffix) for suffix in ("", ".h", ".cc", ".py", ".sh")):
            return None
    if re.search(r"\{[^}]*\}", token):
        return None
    return f"{document}: `{token}` does not exist" if ours else None


def verbs():
    return set(re.findall(r"^  ([a-z]+)\)", repository.read("dev"), re.M))


def check_document(document, names, allowed_verbs):
    findings = []
    text = fenced_out(repository.read(document))
    for token in re.findall(r"`([^`\n]+)`", text):
        finding = path_finding(document, token.strip(), names)
        if finding:
            findings.append(finding)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        if not repository.exists(os.path.join(os.path.dirname(document), target)):
            findings.append(f"{document}: link to {target} leads nowhere")
    for verb in re.findall(r"\./dev ([a-z][a-z-]*)", repository.read(document)):
        if verb not in allowed_verbs:
            findings.append(f"{document}: ./dev {verb} is no verb")
    return findings


def check_room(room, test_text):
    path = f"src/{room}/README.md"
    if not repository.exists(path):
        return [f"{path}: missing (headings: {' · '.join(HEADINGS)})"]
    findings, text = [], repository.read(path)
    lines = text.count("\n")
    if lines > README_LINES:
        findings.append(f"{path}: {lines} lines (at most {README_LINES})")
    headings = re.findall(r"^## (.+?)\s*$", text, re.M)
    wanted = iter(headings)
    for heading in HEADINGS:
        if not any(found.startswith(heading) for found in wanted):
            findings.append(f"{path}: no heading '## {heading}' (in the order {' · '.join(HEADINGS)}); "
                            f"got {' · '.join(headings)}")
            break
    for suite in re.findall(r"\b([A-Z]\w*Test)\b", text):
        if not re.search(rf"\b{suite}\b", test_text):
            findings.append(f"{path}: names the test {suite}, which does not exist")
    return findings


def main():
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    findings, names, allowed = [], known_names(), verbs()
    for document in repository.files(".md"):
        findings += check_document(document, names, allowed)
    test_text = "\n".join(repository.read(path) for path in repository.files("_test.cc") +
                          repository.files(".h", ".cc", ".py", ".pyi", below="src"))
    for room in repository.room_order() + ["apps"]:
        if repository.exists(f"src/{room}/CMakeLists.txt"):
            findings += check_room(room, test_text)
    return repository.report("docs", findings)


if __name__ == "__main__":
    sys.exit(main())
