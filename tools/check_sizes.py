"""Files and functions stay small enough to keep in one's head.

  tools/check_sizes.py             checks; prints the 90th percentiles and tests per source line
  tools/check_sizes.py --longest   also prints the ten longest functions

Caps: .cc 600 lines, public header 250, function 70 lines and 5 parameters. Tests and fuzz targets have no
function cap. A function's lines run from the one with its opening parenthesis to its closing brace.
"""

import re
import sys

import repository

FILE_CAP, HEADER_CAP, FUNCTION_CAP, PARAMETER_CAP = 600, 250, 70, 5
# Functions whose parameters a C library dictates, known by the first one.
CALLBACK = re.compile(r"^\s*nghttp2_session\s*\*")


def blank_out(text):
    """The same text with comments, literals and preprocessor lines replaced by spaces; newlines stay."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    pattern = re.compile(
        r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'       # raw string
        r"|//(?:\\\n|[^\n])*"                        # line comment
        r"|/\*.*?\*/"                                # block comment
        r'|"(?:\\.|[^"\\\n])*"'                      # string
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"      # character (not a digit separator)
        r"|^[ \t]*#(?:\\\n|[^\n])*",                 # preprocessor
        re.S | re.M)
    return pattern.sub(spaces, text)


def parameters(head):
    """(number of parameters, offset of their opening parenthesis) of a function's head; None when it has none."""
    depth = angle = 0
    for start, char in enumerate(head):
        if char == "(" and not re.search(r"\b(decltype|noexcept|__attribute__|requires|alignas)\s*$", head[:start]):
            break
        if char == "(":
            return None
    else:
        return None
    if head[start:].startswith("()") and head[:start].rstrip().endswith("operator"):
        start = head.find("(", start + 2)
        if start < 0:
            return None
    count, seen = 0, False
    for offset in range(start + 1, len(head)):
        char = head[offset]
        if char == ")" and depth == 0:
            if CALLBACK.match(head[start + 1:]):
                return 0, start
            return (count + 1 if seen else 0), start
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "<":
            angle += 1
        elif char == ">" and head[offset - 1] != "-":
            angle = max(0, angle - 1)
        elif char == "," and depth == 0 and angle == 0:
            count += 1
        if not char.isspace():
            seen = True
    return None


def classify(head):
    """What the brace after `head` opens: scope (namespace, type), function, or value (initialiser)."""
    text = head.strip()
    if re.search(r"\bnamespace\b[^()]*$", text) or re.match(r'extern\s*$', text):
        return "scope"
    if re.search(r"\b(class|struct|union|enum)\b", text) and not re.search(r"\)\s*(const|noexcept|override|final|->.*)?\s*$", text):
        return "scope"
    if "(" not in text:
        return "value"
    if re.search(r"(^|[^=!<>])=\s*$|[,(\[]\s*$|\breturn\s*$", text):
        return "value"
    # A member initialised with braces: T::T(int a) : a_
    if re.search(r"\)\s*(noexcept\s*)?:(?!:)", text) and re.search(r"[\w>]\s*$", text):
        return "value"
    return "function"


def functions(text):
    """(line, lines, parameters, name) of each function of a file; nested lambdas count into their function."""
    text = blank_out(text)
    found, stack, head_start, position = [], [], 0, 0
    while position < len(text):
        char = text[position]
        if stack and stack[-1][0] in ("function", "block"):
            if char == "{":
                stack.append(("block", 0, ""))
            elif char == "}":
                kind, start, head = stack.pop()
                if kind == "function":
                    described = parameters(head)
                    first = text.count("\n", 0, start + (described[1] if described else 0))
                    last = text.count("\n", 0, position)
                    name = re.search(r"([\w:~]+)\s*$", head[:described[1]] if described else head)
                    found.append((first + 1, last - first + 1, described[0] if described else 0,
                                  name.group(1) if name else "(lambda)"))
                    head_start = position + 1
        elif stack and stack[-1][0] == "value":
            if char == "{":
                stack.append(("value", 0, ""))
            elif char == "}":
                stack.pop()
        elif char == "{":
            head = text[head_start:position]
            lead = len(head) - len(head.lstrip())
            kind = classify(head)
            stack.append((kind, head_start + lead, head[lead:]))
            if kind == "scope":
                head_start = position + 1
        elif char == "}":
            if stack:
                stack.pop()
            head_start = position + 1
        elif char == ";":
            head_start = position + 1
        elif char == ":" and re.search(r"\b(public|private|protected)\s*$", text[head_start:position]):
            head_start = position + 1
        position += 1
    return found


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def main():
    if sys.argv[1:] not in ([], ["--longest"]):
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    findings, file_lines, all_functions = [], [], []
    source_lines = test_lines = 0
    for path in repository.files(".cc", ".h", below="src") + repository.files(".cc", ".h", below="bench"):
        text = repository.read(path)
        lines = text.count("\n")
        code = sum(1 for line in text.split("\n") if line.strip())
        test = path.endswith(repository.TEST_FILES)
        if test:
            test_lines += code
        else:
            source_lines += code
            file_lines.append(lines)
        cap = HEADER_CAP if path.endswith(".h") and "/include/" in path else FILE_CAP
        if lines > cap:
            findings.append(f"{path}: {lines} lines (at most {cap})")
        if test:
            continue
        for line, length, count, name in functions(text):
            all_functions.append((length, f"{path}:{line}: {name}"))
            if length > FUNCTION_CAP:
                findings.append(f"{path}:{line}: {name} has {length} lines (at most {FUNCTION_CAP})")
            if count > PARAMETER_CAP:
                findings.append(f"{path}:{line}: {name} takes {count} parameters (at most {PARAMETER_CAP})")
    print(f"check_sizes: {len(file_lines)} files, p90 {percentile(file_lines, 0.9)} lines; "
          f"{len(all_functions)} functions, p90 {percentile([f[0] for f in all_functions], 0.9)} lines; "
          f"test lines per source line {test_lines / max(1, source_lines):.2f}")
    if sys.argv[1:]:
        for length, name in sorted(all_functions, reverse=True)[:10]:
            print(f"{length:5d} {name}")
    return repository.report("sizes", findings)


if __name__ == "__main__":
    sys.exit(main())
