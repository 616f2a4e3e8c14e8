"""Every page by those rules of WCAG 2.2 AA that a program can check (axe-core), and its smallest text.

All of it holds today. What Streamlit draws and we could not change would stand in `EXCUSED`, and nowhere else.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import REPOSITORY, browser_required, eventually, looks, open_page, settle

AXE = REPOSITORY / "node_modules/axe-core/axe.min.js"
PAGES = sorted(path.parent.name for path in REPOSITORY.glob("pages/*/page.py"))
SMALLEST = 12  # pixels

# What stays, and why: the name of a rule, and a part of the element's HTML.
EXCUSED: dict[tuple[str, str], str] = {}

RULES = """async () => {
  const { violations } = await axe.run(document, {
    runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
    rules: { "target-size": { enabled: true } },
    resultTypes: ["violations"],
  });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ any, all, none, html }) =>
    [id, html.slice(0, 200), [...any, ...all, ...none].map(({ message }) => message).join(" ")]));
}"""

# Text that is seen and smaller, in components too, and in a picture (SVG) with its enlargement. Indices and exponents
# are small, as in print.
SMALL_TEXT = """smallest => {
  const found = [];
  const isSmall = (node) => {
    const parent = node.parentElement, range = document.createRange();
    if (!node.data.trim() || !parent || parent.closest(".katex, sup, style, script, .unseen")) return false;
    if (parent.tagName === "tspan" && parent.style.fontSize.endsWith("%")) return false;
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
    range.selectNodeContents(node);
    const { width, height } = range.getBoundingClientRect();
    const matrix = parent instanceof SVGElement ? parent.getScreenCTM() : null;
    const scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
    return width > 1 && height > 1 && parseFloat(getComputedStyle(parent).fontSize) * scale < smallest - 0.05;
  };
  const visit = (node) => {
    if (node.nodeType === Node.TEXT_NODE && isSmall(node)) {
      const { outerHTML } = node.parentElement;
      found.push(["small text", outerHTML.slice(0, 200), getComputedStyle(node.parentElement).fontSize]);
    }
    for (const child of [...(node.shadowRoot?.childNodes ?? []), ...node.childNodes]) visit(child);
  };
  visit(document.body);
  return found;
}"""


def faults(page):
    """What is wrong with the page as it is: the rule, the element, and why."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.add_script_tag(path=AXE)
    found = [*page.evaluate(RULES), *page.evaluate(SMALL_TEXT, SMALLEST)]
    return [fault for fault in found if not any(fault[0] == rule and part in fault[1] for rule, part in EXCUSED)]


def sections(page):
    """The page as it opens, then what else its own switch leads to."""
    choices = page.get_by_role("radiogroup", name="What is shown").get_by_role("radio")
    yield "at first"
    for n in range(1, choices.count()):
        choices.nth(n).click()
        settle(page)
        yield choices.nth(n).inner_text()


@pytest.fixture(autouse=True)
def axe():
    if not AXE.exists():
        message = "needs axe-core: npm ci"
        pytest.fail(message) if browser_required() else pytest.skip(message)


@pytest.mark.slow
@pytest.mark.own_tab  # in which a large script is left
@pytest.mark.parametrize("name", PAGES)
def test_every_section_of_a_page_meets_wcag_22_aa(page, app_url, name):
    open_page(page, f"{app_url}/{'' if name == 'heads' else name}")  # the page that an address without a name opens
    for section in sections(page):
        for look in looks(page, wide=1280):
            assert not faults(page), f"{section}, {look}"


@pytest.mark.slow
@pytest.mark.own_tab
def test_what_opens_on_top_meets_it_too(page, app_url):
    open_page(page, f"{app_url}/masks?mask_b=drawn+by+hand")
    for look in looks(page, wide=1280):
        assert not faults(page), f"a mask drawn by hand, {look}"
    page.get_by_role("button", name=re.compile("^Open .* large")).first.click()
    expect(page.locator("[role=dialog] .heatmaplayer image").first).to_be_visible()
    settle(page)
    eventually(lambda: faults(page), [])


@pytest.mark.slow
@pytest.mark.own_tab
def test_examples_over_a_text_and_cells_to_look_for_meet_it_too(page, app_url):
    open_page(page, f"{app_url}/over_a_text?head=1.0&pattern=induction&examples=true&find=cells+that+you+draw")
    expect(page.locator(".shaded-texts .text")).to_have_count(15)
    for look in looks(page, wide=1280):
        assert not faults(page), f"examples, {look}"
    page.get_by_text("a text of yours", exact=True).click()
    page.get_by_role("button", name=re.compile("characters")).click()
    expect(page.get_by_role("button", name="Open a text file")).to_be_visible()
    settle(page)
    assert not faults(page), "a text file"


@pytest.mark.slow
@pytest.mark.own_tab
def test_the_list_of_edits_and_its_forms_meet_it_too(page, app_url):
    edits = "&".join(f"edits={edit}" for edit in ("off:1.0", "!scale:2.6:0.5", "off:9.0", "junk"))
    open_page(page, f"{app_url}/switch_off?{edits}")
    page.get_by_text("Change something else").click()
    page.get_by_role("button", name=re.compile("^List of edits")).click()
    settle(page)
    for look in looks(page, wide=1280):
        assert not faults(page), look
