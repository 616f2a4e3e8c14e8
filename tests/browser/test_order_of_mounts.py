"""What Streamlit calls late is not drawn over what is newer, in whatever order its calls come."""

import itertools

from viz_ui.components.shared.packing import read_assets

# `newest` is the call that stays; the others are taken back as Streamlit does it: some microtasks after they returned.
CALLS = """async ([order, newest]) => {
  const told = [], parentElement = document.body;
  const mount = inOrder(({ data }) => { told.push(data); return () => told.push("ended"); });
  for (const data of order) {
    const takeBack = mount({ data, parentElement });
    await null;
    if (data !== newest) takeBack();
    await null;
  }
  const drawn = told.filter((one) => one !== "ended").at(-1);
  await new Promise((go) => setTimeout(go, 20));
  const unmount = mount({ data: newest + 1, parentElement });
  await new Promise((go) => setTimeout(go, 20));
  mount({ data: newest + 2, parentElement })();
  const after = told.at(-1);
  mount({ data: newest + 3, parentElement });
  return [drawn, after, told.at(-1)];
}"""


def test_the_newest_data_is_drawn_in_whatever_order_the_calls_come(page):
    page.add_script_tag(content=read_assets("shared/shared.js"))
    for order in itertools.permutations(range(4)):
        assert page.evaluate(CALLS, [order, 3]) == [3, 5, 6], order  # nor is an older one drawn again later
