"""No part of a sentence is lost: a string that stands on a line of its own, outside its brackets, is never shown."""

import ast

from tests.support.sources import ROOT


def stray_strings(source: str) -> list[int]:
    """Lines of statements that are nothing but a string, save docstrings in triple quotes."""
    lines = source.encode().splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and (isinstance(node.value, ast.JoinedStr) or isinstance(getattr(node.value, "value", None), str))
        and not lines[node.lineno - 1][node.col_offset :].lstrip(b"rR").startswith(b'"""')
    ]


def test_a_stray_string_is_found():
    assert stray_strings('"""A module."""\n\nWORDS = "one "\n"two"\nf"{WORDS}"\n') == [4, 5]


def test_no_string_stands_outside_its_sentence():
    files = [
        ROOT / "app.py",
        *(path for folder in ("pages", "viz_ui", "viz_model") for path in (ROOT / folder).rglob("*.py")),
    ]
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): lines for path in files if (lines := stray_strings(path.read_text()))}
    assert not found
