// What Streamlit calls late is not drawn over what is newer, in whatever order its calls come.

import assert from "node:assert/strict";
import test from "node:test";

import { inOrder } from "../../../viz_ui/components/shared/shared.js";

const NEWEST = 3; // the call that stays; the others are taken back as Streamlit does it: some microtasks after they returned

const orders = (rest) => rest.length < 2 ? [rest]
  : rest.flatMap((one) => orders(rest.filter((other) => other !== one)).map((order) => [one, ...order]));
const pause = () => new Promise((go) => setTimeout(go, 20));

for (const order of orders([0, 1, 2, 3])) {
  test(`calls that come as ${order}`, async () => {
    const told = [], parentElement = { isConnected: true };
    const mount = inOrder(({ data }) => {
      told.push(data);
      return () => told.push("ended");
    });
    for (const data of order) {
      const takeBack = mount({ data, parentElement });
      await null;
      if (data !== NEWEST) takeBack();
      await null;
    }
    assert.equal(told.filter((one) => one !== "ended").at(-1), NEWEST);
    await pause();
    const unmount = mount({ data: NEWEST + 1, parentElement });
    await pause();
    mount({ data: NEWEST + 2, parentElement })();
    assert.equal(told.at(-1), NEWEST + 2); // nor is an older one drawn again later
    unmount();
    mount({ data: NEWEST + 3, parentElement });
    assert.equal(told.at(-1), NEWEST + 3);
  });
}
