// A picture is saved in the format of its button, with the colours of the page, under the name that it was given.

import assert from "node:assert/strict";
import test from "node:test";

import { happens, html } from "../../support/page.js";

const { default: savePicture } = await import("../../../viz_ui/components/save_picture/save_picture.js");

/** @param {boolean} isDrawn whether the chart has its camera already */
function drawn(isDrawn) {
  /** @type {any[]} */
  const saved = [];
  const layout = { paper_bgcolor: "clear" };
  /** @type {any} */
  const plot = { _context: {}, layout, querySelector: () => (isDrawn ? camera : null) };
  const camera = { click: () => saved.push({ ...plot._context.toImageButtonOptions, colour: layout.paper_bgcolor }) };
  /** @type {string[]} */
  const asked = [];
  html.querySelector = (/** @type {string} */ selector) => {
    asked.push(selector);
    return plot;
  };
  const buttons = ["png", "svg"].map((value) => Object.assign(html.createElement("button"), { value }));
  const status = html.createElement("p"), data = { chart: "the_chart", file: "weights" };
  const parentElement = { querySelector: () => status, querySelectorAll: () => buttons, isConnected: true };
  savePicture(/** @type {any} */ ({ data, parentElement, setTriggerValue: () => {} }));
  return { saved, asked, buttons, status, layout };
}

test("each button saves in its own format", () => {
  const { saved, asked, buttons, status, layout } = drawn(true);
  for (const button of buttons) happens(/** @type {any} */ (button), "click");
  const colour = "--st-background-color"; // what the page calls its own
  assert.deepEqual(saved, [
    { format: "png", filename: "weights", scale: 3, colour }, { format: "svg", filename: "weights", scale: 1, colour },
  ]);
  assert.equal(layout.paper_bgcolor, "clear"); // as it was
  assert.equal(asked[0], ".st-key-the_chart .js-plotly-plot");
  assert.equal(status.textContent, "");
});

test("a chart that is not drawn yet is said to be that", () => {
  const { saved, buttons, status } = drawn(false);
  happens(/** @type {any} */ (buttons[0]), "click");
  assert.deepEqual(saved, []);
  assert.match(status.textContent, /still being drawn/);
});
