"""Writes docs/options.md from `stoker serve --help`, or checks that it is up to date.

  tools/options_doc.py [--check] [--stoker build/bin/stoker]
"""

import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE = os.path.join(ROOT, "docs", "options.md")
HEAD = """# Options of `stoker serve`

Triton's option names work, so that a start script runs unedited. Each option is in one of three classes: honoured; without
effect here (accepted, with a warning in the log); refused by name, because leaving it out would change what clients may
do or get. An unknown option is an error. This page is what `stoker serve --help` prints.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stoker", default=os.path.join(ROOT, "build", "bin", "stoker"))
    arguments = parser.parse_args()
    text = subprocess.run([arguments.stoker, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    page = HEAD + "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
    if arguments.check:
        with open(FILE, encoding="utf-8") as current:
            if current.read() != page:
                sys.exit("docs/options.md differs from stoker serve --help: run tools/options_doc.py")
        return
    with open(FILE, "w", encoding="utf-8") as out:
        out.write(page)


if __name__ == "__main__":
    main()
