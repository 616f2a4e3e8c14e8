"""What browser tests open of the explorer, and what its sidebar then says."""

import re
from urllib.parse import urlencode

import viz_model as vm

PROMPT = "The queen gave the girl a ring, and she thanked her."
LONG = ("The king and the queen had a daughter who was as beautiful as the day. " * 13)[:900]  # some 200 tokens


def link(base, page="", **choices):
    return f"{base}/{page}?{urlencode({'model': 'tiny-gpt'} | choices)}"


def ids(prompt):
    return vm.load("tiny-gpt").tokenizer.encode(prompt)


def chosen(page):
    """What the sidebar says is chosen."""
    return {
        name: page.get_by_role("spinbutton", name=re.compile(f"^{name}")).input_value()
        for name in ("Layer", "Head", "Query", "Key")
    }
