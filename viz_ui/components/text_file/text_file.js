// A button that opens a text file. It is read here and sent as text: the server takes no file.

import { button, element, setText } from "../shared/elements.js";
import { inOrder } from "../shared/mounting.js";

/** @typedef {import("../shared/mounting.js").Call<{ label: string, largest: number }>} Call */

/** @param {Call} call */
function mount({ data: { label, largest }, parentElement, setTriggerValue }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".text-file"));
  const chosen = /** @type {HTMLInputElement | null} */ (root.querySelector("input")) ?? made(root);
  setText(/** @type {Element} */ (root.querySelector("button")), label);
  chosen.onchange = async () => {
    const file = chosen.files?.[0];
    if (!file) return;
    setTriggerValue("file", await read(file, largest));
    chosen.value = ""; // the same file can be opened again
  };
}

/** @param {HTMLElement} root */
function made(root) {
  const chosen = element("input");
  Object.assign(chosen, { type: "file", accept: "text/*,.txt,.md,.csv,.tsv,.json,.py", hidden: true, tabIndex: -1 });
  chosen.ariaHidden = "true"; // the button opens it
  root.append(button("open", "", () => chosen.click()), chosen);
  return chosen;
}

/**
 * The text of a file, or what is wrong with it.
 * @param {File} file
 * @param {number} largest bytes
 * @returns {Promise<{ name: string, text?: string, problem?: string }>}
 */
async function read(file, largest) {
  const { name } = file;
  if (file.size > largest) return { name, problem: "large" };
  try {
    const bytes = await file.arrayBuffer();
    try {
      return { name, text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
    } catch {
      return { name, problem: "encoding" };
    }
  } catch {
    return { name, problem: "unreadable" };
  }
}

export default inOrder(mount);
