// How colours grow with numbers, by the cases of tests/support/colour_scales.json, which Python's scales must meet too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { colourPlace, valueAt } from "../../../viz_ui/components/shared/cells.js";

const CASES = JSON.parse(readFileSync(new URL("../../support/colour_scales.json", import.meta.url), "utf8"));

test("places on a table of colours are those of the scale written out", () => {
  for (const one of CASES) {
    const found = colourPlace(one.value, one);
    assert.ok(Math.abs(found - one.place) < 1e-12, JSON.stringify({ ...one, found }));
  }
});

test("the value at a place has that place", () => {
  for (const { law, low, high } of CASES) {
    for (const place of [0.1, 0.25, 0.5, 0.75, 1]) {
      assert.ok(Math.abs(colourPlace(valueAt(place, { law, low, high }), { law, low, high }) - place) < 1e-6);
    }
  }
});
