"""One choice is one step of Back: Back and Forward give exactly the states that were on screen."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import address, choose_page, eventually, open_page, settle

NUMBERS = ("Layer", "Head", "Query", "Key")


def state(page):
    """Where the reader is, what the address says, and what the sidebar shows."""
    settle(page)
    boxes = [page.get_by_role("spinbutton", name=re.compile(rf"^{name} \(")) for name in NUMBERS]
    return {
        "page": page.evaluate("location.pathname"),
        "address": address(page),
        "numbers": [box.input_value() if box.count() else None for box in boxes],
        "prompt": page.get_by_role("textbox", name="Prompt").input_value(),
        "mask": page.get_by_role("radio", name="bidirectional").is_checked(),
        "heading": page.get_by_role("heading", level=1).inner_text(),
    }


def click_head(page, layer, head):
    page.get_by_role("button", name=re.compile(f"^Layer {layer}, head {head}")).click()
    expect(page.get_by_text(f"Layer {layer}, head {head}: weights")).to_be_visible()
    eventually(lambda: address(page)["head"], f"{layer}.{head}")


def click_row(page, query):
    """Another cell of the same key, by the list of the tokens."""
    page.get_by_role("listbox", name="Who reads whom: query tokens").get_by_role("option").nth(query).click()
    eventually(lambda: address(page)["cell"].split(".")[0], str(query))


def go_to(page, title):
    choose_page(page, title)
    expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()


def type_prompt(page, text):
    box = page.get_by_role("textbox", name="Prompt")
    box.fill(text)
    box.press("Control+Enter")
    eventually(lambda: address(page).get("prompt", ""), text)


def type_layer(page, number, becomes):
    box = page.get_by_role("spinbutton", name=re.compile(r"^Layer \("))
    box.fill(number)
    box.press("Enter")
    expect(box).to_have_value(becomes)
    eventually(lambda: address(page)["head"].split(".")[0], becomes)


def choose_mask(page):
    page.get_by_role("radio", name="bidirectional").click()
    eventually(lambda: address(page).get("mask"), "bidirectional")


@pytest.mark.own_tab  # history.length counts no more than fifty steps of all tests of a tab
def test_each_choice_is_one_step_of_back(page, app_url):
    open_page(page, app_url)
    eventually(lambda: "cell" in address(page), True)  # the address is made whole without a step
    entries = page.evaluate("history.length")
    choices = [
        lambda: click_head(page, 2, 6),
        lambda: click_head(page, 3, 2),
        lambda: click_row(page, 9),
        lambda: click_row(page, 5),
        lambda: choose_mask(page),
        lambda: go_to(page, "Inside a head"),
        lambda: go_to(page, "Masks"),
        lambda: go_to(page, "Heads"),
        lambda: type_layer(page, "99", "3"),  # it is the layer already, so this is no choice
        lambda: type_layer(page, "-1", "0"),
        lambda: type_prompt(page, "The queen gave the girl a ring."),
        lambda: type_prompt(page, ""),
    ]
    states = [state(page)]
    for number, choice in enumerate(choices):
        choice()
        after = state(page)
        if after != states[-1]:
            states.append(after)
        assert page.evaluate("history.length") == entries + len(states) - 1, f"choice {number}: {after}"
    assert len(states) == len(choices)  # all but one
    assert states[-1]["address"] == {"prompt": ""} | {
        name: text for name, text in states[-2]["address"].items() if name != "prompt"
    }
    for step, before in enumerate(reversed(states[:-1])):
        page.go_back()
        eventually(lambda: state(page), before)
        assert page.evaluate("history.length") == entries + len(states) - 1, f"Back {step}"
    for after in states[1:]:
        page.go_forward()
        eventually(lambda: state(page), after)
