"""What the project's own files say about themselves: their imports and the packages they declare."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imports(path):
    """(line, package) of every import in the Python file at `path`, at any depth.

    A package is the first part of a module's name; a relative import counts as its top folder.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module if node.level == 0 else path.relative_to(ROOT).parts[0]
            yield node.lineno, module.partition(".")[0]


def declared(requirements):
    """Names of the packages that a requirements file names itself."""
    lines = (ROOT / requirements).read_text().splitlines()
    return {match[0] for line in lines if (match := re.match(r"[a-z][\w-]*", line))}
