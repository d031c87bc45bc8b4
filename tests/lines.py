#!/usr/bin/env python3
"""Counts of the Rust sources: python3 tests/lines.py [FOLDER...] (`just lines`).

Prints for each folder the code lines (neither blank nor comment) without unit
tests, the comment words, and the lengths of functions. Then the direct
dependencies of hookgate, and those of the whole workspace.
"""

import re
import sys
import tomllib
from pathlib import Path

WORDS = ["nobody", "whoever", "told", "said", "stands"]


def is_test(path):
    return path.name == "tests.rs" or "tests" in path.parts


def without_inline_tests(text):
    before, marker, rest = text.partition("#[cfg(test)]\nmod tests {")
    return before + rest.partition("\n}\n")[2] if marker else text


def function_lengths(lines):
    """Lines from `fn` to its closing brace, by indentation as rustfmt writes it."""
    start = None
    for number, line in enumerate(lines):
        head = re.match(r"(\s*)(?:pub(?:\([^)]*\))? )?(?:default )?(?:const )?(?:async )?fn \w", line)
        if head:
            start, indent = number, head[1]
        if start is not None and (line == indent + "}" or (number == start and line.endswith("}"))):
            yield number - start + 1
            start = None
        elif start is not None and line == indent + ";":
            start = None


def count(folder):
    code, words, lengths = 0, [], []
    for path in sorted(Path(folder).rglob("*.rs")):
        if is_test(path) or "target" in path.parts:
            continue
        lines = without_inline_tests(path.read_text()).splitlines()
        for line in lines:
            text = line.strip()
            if text.startswith("//"):
                words += re.findall(r"[a-z']+", text.lstrip("/!").lower())
            elif text:
                code += 1
        lengths += function_lengths(lines)
    lengths.sort()
    percentile = lengths[int(len(lengths) * 0.95)] if lengths else 0
    print(f"{folder}: {code} code lines, {len(words)} comment words")
    print(f"  {len(lengths)} functions, p95 {percentile} lines, longest {lengths[-1] if lengths else 0}")
    rates = (f"{word} {1000 * words.count(word) / max(len(words), 1):.2f}" for word in WORDS)
    print(f"  per 1,000 comment words: {', '.join(rates)}")


def dependencies(manifest):
    """Names in [dependencies], without the crates of the workspace."""
    entries = tomllib.loads(manifest.read_text())["dependencies"].items()
    return {name for name, entry in entries if "path" not in entry}


def count_dependencies():
    manifests = [Path("Cargo.toml"), *Path("crates").glob("*/Cargo.toml")]
    own, *crates = map(dependencies, manifests)
    print(f"direct dependencies: {len(own)} of hookgate, {len(own.union(*crates))} of the workspace")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["src", "crates"]:
        count(name)
    count_dependencies()
