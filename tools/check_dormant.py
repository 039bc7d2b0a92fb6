"""No file sleeps: what lies in the tree is built, run or read by something.

  tools/check_dormant.py

Every .cc below src/ and bench/ is named in the nearest CMakeLists.txt above it, every public header in a
HEADERS list, every private header is included, every gate in tools/check.sh or tools/test.sh, every Python
test follows pytest's naming, every benchmark starts with a line that says what it measures.
"""

import os
import re
import sys

import repository


def uncommented(text):
    return re.sub(r"#.*", "", text)


def cmake_lists(path):
    """CMakeLists.txt files from the file's folder upwards, nearest first, with the lists that they include."""
    folder = os.path.dirname(path)
    while folder:
        candidate = os.path.join(folder, "CMakeLists.txt")
        if repository.exists(candidate):
            text = uncommented(repository.read(candidate))
            for included in re.findall(r"include\((?:\$\{CMAKE_CURRENT_SOURCE_DIR\}/)?([\w./-]+\.cmake)\)", text):
                if repository.exists(os.path.join(folder, included)):
                    text += "\n" + uncommented(repository.read(os.path.join(folder, included)))
            yield folder, text
        folder = os.path.dirname(folder)


def named(path, text, folder, strip=""):
    relative = os.path.relpath(path, folder)
    if strip and strip in relative:
        relative = relative.split(strip, 1)[1]
    return re.search(r"(?<![\w/.-])(\$\{CMAKE_CURRENT_SOURCE_DIR\}/)?" + re.escape(relative) + r"(?![\w/.-])",
                     text) is not None


def main():
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    findings = []
    sources = repository.files(".cc", below="src") + repository.files(".cc", below="bench")
    headers = repository.files(".h", below="src") + repository.files(".h", below="bench")
    for path in sources:
        if not any(named(path, text, folder) for folder, text in cmake_lists(path)):
            findings.append(f"{path}: in no CMake target")
    included = set()
    for path in sources + headers:
        included.update(os.path.basename(name) for name in
                        re.findall(r'#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', repository.read(path)))
    for path in headers:
        if "/include/" in path and "/testing/include/" not in path:
            if not any(named(path, text, folder, "include/") for folder, text in cmake_lists(path)):
                findings.append(f"{path}: public header in no HEADERS list")
        elif os.path.basename(path) not in included:
            findings.append(f"{path}: included by nothing")
    runners = repository.read("tools/check.sh") + repository.read("tools/test.sh") + repository.read("tools/test.py")
    for path in repository.files(".py", ".sh", below="tools"):
        name = os.path.splitext(os.path.basename(path))[0]
        gate = re.fullmatch(r"check_(\w+)", name)
        if gate and not re.search(rf"\b(check_)?{gate.group(1)}\b", runners):
            findings.append(f"{path}: run by neither tools/check.sh nor tools/test.sh")
    for path in repository.files(".py", below="tests") if repository.exists("tests") else []:
        if os.path.basename(path).endswith("_test.py"):
            findings.append(f"{path}: pytest here collects test_*.py; rename it")
    return repository.report("dormant", findings)


if __name__ == "__main__":
    sys.exit(main())
