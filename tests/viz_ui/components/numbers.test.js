// Numbers are written as tests/support/numbers.json says, which tests/viz_ui/look/test_text.py reads too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import {
  counted, formatBytes, formatEnd, formatInCell, formatNumber, formatParameters,
} from "../../../viz_ui/components/shared/numbers.js";

const cases = JSON.parse(readFileSync(new URL("../../support/numbers.json", import.meta.url), "utf8"));

for (const [value, digits, text] of cases.measured) {
  test(`${value} to ${digits} digits`, () => assert.equal(formatNumber(Number(value), digits), text));
}

for (const [count, noun, text] of cases.counted) {
  test(`counted: ${text}`, () => assert.equal(counted(count, noun), text));
}

for (const [count, text] of cases.bytes) {
  test(`${count} bytes`, () => assert.equal(formatBytes(count), text));
}

const ENDS = {
  0: "0", 0.5: "0.5", 1: "1", "-3.25": "−3.25", 12: "12", 1234: "1,230", 0.0005: "5×10⁻⁴", 1.2e7: "1.2×10⁷",
};
for (const [value, text] of Object.entries(ENDS)) {
  test(`${value} at an end of a colour bar`, () => assert.equal(formatEnd(Number(value)), text));
}

const IN_CELLS = { 0.333: "0.33", "-1.234": "−1.23", 12.34: "12.3", 123.4: "123", "-0.001": "0.00" };
for (const [value, text] of Object.entries(IN_CELLS)) {
  test(`${value} in a cell`, () => assert.equal(formatInCell(Number(value)), text));
}

const PARAMETERS = { 65792: "65,792", 1000000: "1.00 M", 12345678: "12.3 M", 124439808: "124 M", 7241732096: "7.24 G" };
for (const [count, text] of Object.entries(PARAMETERS)) {
  test(`${count} parameters`, () => assert.equal(formatParameters(Number(count)), text));
}
