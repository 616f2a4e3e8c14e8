// What Streamlit calls late is not drawn over what is newer, in whatever order its calls come.

import assert from "node:assert/strict";
import test from "node:test";

import { inOrder } from "../../../viz_ui/components/shared/mounting.js";

const NEWEST = 3; // the call that stays; Streamlit takes the others back some microtasks after they returned

/** @typedef {import("../../../viz_ui/components/shared/mounting.js").Call<number>} Call */

/**
 * @param {number[]} rest
 * @returns {number[][]}
 */
const orders = (rest) => rest.length < 2 ? [rest]
  : rest.flatMap((one) => orders(rest.filter((other) => other !== one)).map((order) => [one, ...order]));

const pause = () => new Promise((go) => setTimeout(go, 20));

for (const order of orders([0, 1, 2, 3])) {
  test(`calls that come as ${order}`, async () => {
    /** @type {(number | "ended")[]} */
    const told = [];
    const parentElement = /** @type {ShadowRoot} */ ({ isConnected: true });
    const inTurn = inOrder((/** @type {Call} */ call) => {
      told.push(call.data);
      return () => told.push("ended");
    });
    const mount = (/** @type {number} */ data) => inTurn({ data, parentElement, setTriggerValue: () => {} });
    for (const data of order) {
      const takeBack = mount(data);
      await null;
      if (data !== NEWEST) takeBack();
      await null;
    }
    assert.equal(told.filter((one) => one !== "ended").at(-1), NEWEST);
    await pause();
    mount(NEWEST + 1);
    await pause();
    mount(NEWEST + 2)();
    assert.equal(told.at(-1), NEWEST + 2); // nor is an older one drawn again later
    mount(NEWEST + 3);
    assert.equal(told.at(-1), NEWEST + 3);
  });
}
