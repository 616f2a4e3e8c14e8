"""What the project's own files say about themselves: their imports and the packages they declare."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def imported_modules(path):
    """(line, module) of every import in the Python file at `path`, at any depth, as far as a name may be a module.

    `from a import b` counts as a.b where there is such a file, else as a; a relative import as its top folder.
    """
    return tuple(_imported_modules(path))


def _imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, path.relative_to(ROOT).parts[0]
        elif isinstance(node, ast.ImportFrom):
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            yield from {(node.lineno, name if is_own_module(name) else node.module) for name in whole.values()}


def imports(path):
    """(line, package) of every import: the first part of each module's name."""
    return {(line, module.partition(".")[0]) for line, module in imported_modules(path)}


@cache
def is_own_module(name):
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def declared(requirements):
    """Names of the packages that a requirements file names itself."""
    lines = (ROOT / requirements).read_text().splitlines()
    return {match[0] for line in lines if (match := re.match(r"[a-z][\w-]*", line))}
