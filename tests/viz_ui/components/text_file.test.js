// A text file: what the browser makes of it before anything is sent.

import assert from "node:assert/strict";
import test from "node:test";

import { happens, mounted } from "../../support/page.js";

const { default: textFile } = await import("../../../viz_ui/components/text_file/text_file.js");

/** @param {number[]} bytes */
const fileOf = (bytes) => ({ name: "a.txt", size: bytes.length, arrayBuffer: async () => new Uint8Array(bytes) });

/** @param {any} file */
async function opened(file, largest = 10) {
  const one = mounted(textFile, "text-file", /** @type {any} */ ({ label: "Open a file", largest }));
  const chosen = one.root.querySelector("input");
  chosen.files = file ? [file] : [];
  await chosen.onchange();
  return one;
}

test("the text of a file is sent once, with its name", async () => {
  const one = await opened(fileOf([...new TextEncoder().encode("Grüße")]));
  assert.deepEqual(one.told, [["file", { name: "a.txt", text: "Grüße" }]]);
  assert.equal(one.root.querySelector("input").value, "", "the same file can be opened again");
  assert.equal(one.root.querySelector("button").textContent, "Open a file");
});

test("what is too large is not read, and what is no text is said to be none", async () => {
  assert.deepEqual((await opened({ name: "b", size: 11 })).told, [["file", { name: "b", problem: "large" }]]);
  assert.deepEqual((await opened(fileOf([0x89, 0x50, 0xff]))).told,
    [["file", { name: "a.txt", problem: "encoding" }]]);
  const gone = { name: "c", size: 1, arrayBuffer: async () => { throw new Error("gone"); } };
  assert.deepEqual((await opened(gone)).told, [["file", { name: "c", problem: "unreadable" }]]);
  assert.deepEqual((await opened(null)).told, []);
});

test("the button opens the browser's own choice of files", async () => {
  const one = await opened(null);
  let clicks = 0;
  one.root.querySelector("input").click = () => { clicks += 1; };
  happens(one.root.querySelector("button"), "click");
  assert.equal(clicks, 1);
});
