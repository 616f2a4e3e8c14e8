// @ts-nocheck: it stands in for what the browser's own types describe
// As much of a page as the components' scripts need to write what a reader sees: elements with their texts, names,
// classes and places, and canvases that note what is drawn. It lays nothing out (`room` is all that it knows of sizes),
// which is what tests/browser is for.

export const room = { width: 1000, height: 600 };

class Style {
  setProperty(name, value) {
    this[name] = value;
  }

  getPropertyValue(name) {
    return this[name] ?? "";
  }
}

/** The parts of a selector of one element: tag, .classes and [attributes]. */
function matches(node, selector) {
  return selector.split(",").some((one) => {
    const parts = one.trim().match(/\[[^\]]+\]|^[a-z]+|\.[\w-]+/g) ?? [];
    return parts.every((part) => {
      if (part[0] === ".") return node.classList.contains(part.slice(1));
      if (part[0] !== "[") return node.tagName === part.toUpperCase();
      const [name, value] = part.slice(1, -1).split("="), found = node.getAttribute(name);
      return found !== null && (value === undefined || found === value.replaceAll("\"", ""));
    });
  });
}

class Node {
  childNodes = [];
  parentNode = null;

  get parentElement() {
    return this.parentNode;
  }

  remove() {
    const there = this.parentNode?.childNodes;
    there?.splice(there.indexOf(this), 1);
    this.parentNode = null;
  }

  getRootNode() {
    return this.parentNode ? this.parentNode.getRootNode() : this;
  }

  get isConnected() {
    return true;
  }
}

class Text extends Node {
  constructor(text) {
    super();
    this.textContent = text;
  }
}

const RATHER = { ariaLabel: "aria-label", ariaPressed: "aria-pressed", ariaHidden: "aria-hidden",
  ariaCurrent: "aria-current", title: "title", id: "id", value: "value" };

class Element extends Node {
  attributes = {};
  style = new Style();
  dataset = {};
  hidden = false;
  disabled = false;
  tabIndex = -1;
  scrollTop = 0;
  scrollLeft = 0;
  listeners = {};

  constructor(tag) {
    super();
    this.tagName = tag.toUpperCase();
    const own = this;
    this.classList = {
      of: () => (own.attributes.class ?? "").split(" ").filter(Boolean),
      contains: (name) => this.classList.of().includes(name),
      toggle(name, on = !this.contains(name)) {
        own.className = [...this.of().filter((one) => one !== name), ...(on ? [name] : [])].join(" ");
        return on;
      },
      add(...names) {
        for (const name of names) this.toggle(name, true);
      },
      remove(...names) {
        for (const name of names) this.toggle(name, false);
      },
    };
    Object.defineProperty(this.classList, 0, { get: () => this.classList.of()[0] });
  }

  get className() {
    return this.attributes.class ?? "";
  }

  set className(names) {
    this.attributes.class = names;
  }

  getAttribute(name) {
    if (name.startsWith("data-")) {
      return this.dataset[name.slice(5).replace(/-(.)/g, (_, letter) => letter.toUpperCase())] ?? null;
    }
    return this.attributes[name] ?? null;
  }

  setAttribute(name, value) {
    this.attributes[name] = String(value);
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  get children() {
    return this.childNodes.filter((node) => node instanceof Element);
  }

  get childElementCount() {
    return this.children.length;
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get lastChild() {
    return this.childNodes.at(-1) ?? null;
  }

  get lastElementChild() {
    return this.children.at(-1) ?? null;
  }

  get tBodies() {
    return this.children.filter((node) => node.tagName === "TBODY");
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.replaceChildren(...(text ? [text] : []));
  }

  insertBefore(node, before) {
    node.remove();
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parentNode = this;
    return node;
  }

  appendChild(node) {
    return this.insertBefore(node, null);
  }

  append(...nodes) {
    for (const node of nodes) this.appendChild(node instanceof Node ? node : new Text(String(node)));
  }

  prepend(...nodes) {
    const before = this.firstChild;
    for (const node of nodes) this.insertBefore(node, before);
  }

  replaceChildren(...nodes) {
    for (const node of [...this.childNodes]) node.remove();
    this.append(...nodes);
  }

  replaceWith(node) {
    this.parentNode?.insertBefore(node, this);
    this.remove();
  }

  matches(selector) {
    return matches(this, selector);
  }

  closest(selector) {
    return matches(this, selector) ? this : this.parentNode?.closest?.(selector) ?? null;
  }

  contains(node) {
    return node === this || Boolean(node?.parentNode && this.contains(node.parentNode));
  }

  /** Selectors may name an element within another: ".row .token". */
  querySelectorAll(selector) {
    const [first, ...rest] = selector.trim().split(/\s+(?![^[]*\])/);
    const all = this.children.flatMap((node) =>
      [...(matches(node, first) ? [node] : []), ...node.querySelectorAll(first)]);
    return rest.length ? [...new Set(all.flatMap((node) => node.querySelectorAll(rest.join(" "))))] : all;
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }

  get clientWidth() {
    return room.width;
  }

  get clientHeight() {
    return room.height;
  }

  get scrollHeight() {
    return room.height;
  }

  get offsetWidth() {
    return parseFloat(this.style.width) || 20;
  }

  get offsetHeight() {
    return parseFloat(this.style.height) || 20;
  }

  offsetTop = 0;
  offsetLeft = 0;

  /** Where `place` put it; its parents are taken to stand at 0. */
  getBoundingClientRect() {
    const [left, top] = [parseFloat(this.style.left) || 0, parseFloat(this.style.top) || 0];
    const [width, height] = [parseFloat(this.style.width) || 20, parseFloat(this.style.height) || 20];
    return { left, top, width, height, right: left + width, bottom: top + height };
  }

  focus() {
    this.getRootNode().activeElement = this;
  }

  setPointerCapture() {}

  addEventListener(kind, listener) {
    (this.listeners[kind] ??= []).push(listener);
  }

  /** The pen of a canvas notes what is asked of it. */
  getContext() {
    this.pen ??= penOf();
    return this.pen;
  }
}

for (const [property, attribute] of Object.entries(RATHER)) {
  Object.defineProperty(Element.prototype, property, {
    get() {
      const chosen = property === "value" && this.children.find((one) => one.chosen)?.value; // of a select
      return this.attributes[attribute] ?? (property.startsWith("aria") ? null : chosen || "");
    },
    set(value) {
      this.attributes[attribute] = String(value);
    },
  });
}

function penOf() {
  const calls = [];
  const pen = { calls, measureText: (text) => ({ width: 7 * text.length }), createPattern: () => ({}) };
  return new Proxy(pen, {
    get: (target, name) => target[name] ?? ((...given) => {
      const call = [name, ...given];
      if (name === "drawImage") call.sheet = given[0].pen?.calls.findLast(([put]) => put === "putImageData")?.[1];
      calls.push(call);
    }),
    set: (_, name, value) => calls.push([name, value]),
  });
}

/**
 * What happens to a node, and then to those around it; gives the event.
 * @param {Seen} node
 * @param {string} kind
 * @param {object} [more] of the event
 */
export function happens(node, kind, more = {}) {
  const event = { type: kind, target: node, button: 0, clientX: 0, clientY: 0, key: "", composedPath: () => [node],
    preventDefault: () => { event.defaultPrevented = true; }, stopPropagation: () => { event.stopped = true; },
    ...more };
  for (let at = node; at && !event.stopped; at = at.parentNode) at[`on${kind}`]?.(event);
  return event;
}

const body = new Element("body");
Object.assign(globalThis, {
  Element,
  HTMLElement: Element,
  SVGElement: Element,
  document: {
    body,
    baseURI: "http://localhost/",
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
    addEventListener: () => {},
    removeEventListener: () => {},
  },
  window: { innerWidth: 1280, innerHeight: 720, devicePixelRatio: 1 },
  devicePixelRatio: 1,
  getComputedStyle: () => ({ backgroundColor: "rgb(255, 255, 255)", columnGap: "8px", rowGap: "4px", color: "black",
    fontFamily: "sans-serif", getPropertyValue: (name) => name }),
  matchMedia: () => ({ addEventListener: () => {}, removeEventListener: () => {} }),
  ImageData: class {
    constructor(width, height) {
      Object.assign(this, { width, height, data: new Uint8ClampedArray(4 * width * height) });
    }
  },
  ResizeObserver: class {
    observe() {}

    disconnect() {}
  },
  Option: class extends Element {
    constructor(text, value, _, chosen) {
      super("option");
      this.textContent = text;
      this.value = value;
      this.chosen = chosen;
    }
  },
});
Map.groupBy ??= (items, keyOf) => items.reduce((groups, item) =>
  groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]), new Map());

/** Two colour tables in which a colour tells its scale and step: sequential (step, 0, 0), diverging (step, 0, 1). */
const tables = [0, 1].map((blue) => Uint8Array.from({ length: 768 }, (_, i) => [i / 3, 0, blue][i % 3]));
export const colours = { sequential: tables[0], diverging: tables[1] };

/** A blob as packing.py makes it. */
export function packed(header, ...arrays) {
  const text = new TextEncoder().encode(JSON.stringify(header)), head = Math.ceil(text.length / 4) * 4;
  const parts = arrays.map((array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  const blob = new Uint8Array(4 + head + parts.reduce((sum, part) => sum + part.length, 0)).fill(32);
  new DataView(blob.buffer).setUint32(0, head, true);
  blob.set(text, 4);
  let at = 4 + head;
  for (const part of parts) {
    blob.set(part, at);
    at += part.length;
  }
  return blob;
}

/** Booleans as numpy.packbits has them. */
export function bitsOf(cells) {
  const bytes = new Uint8Array(Math.ceil(cells.length / 8));
  cells.forEach((one, i) => { if (one) bytes[i >> 3] |= 128 >> (i & 7); });
  return bytes;
}

/**
 * An element, as far as tests look at it.
 * @typedef {{ querySelectorAll: (selector: string) => Seen[], querySelector: (selector: string) => Seen,
 *   children: Seen[], style: Record<string, string>, dataset: Record<string, string>, [name: string]: any }} Seen
 */

/** @typedef {{ root: Seen, told: [event: string, value: any][], send: (data: Uint8Array) => void }} Mounted */

/**
 * A component as Streamlit mounts it: its root, what it told Python, and a way to send it other data.
 * @param {(call: any) => any} mount
 * @param {string} className of its root
 * @param {Uint8Array} data
 * @returns {Mounted}
 */
export function mounted(mount, className, data) {
  const root = new Element("div"), told = [];
  root.className = className;
  body.append(root);
  const parentElement = { querySelector: () => root, isConnected: true };
  const send = (newer) => mount({ data: newer, parentElement, setTriggerValue: (...event) => told.push(event) });
  send(data);
  return { root, told, send };
}

/**
 * The texts of all nodes that a selector names.
 * @param {Seen} root
 * @param {string} selector
 * @returns {string[]}
 */
export const textsOf = (root, selector) => root.querySelectorAll(selector).map((node) => node.textContent);

/**
 * The first node of a selector that fits.
 * @param {Seen} root
 * @param {string} selector
 * @param {(node: Seen) => boolean} fits
 * @returns {Seen}
 */
export function firstOf(root, selector, fits) {
  const found = root.querySelectorAll(selector).find(fits);
  if (!found) throw new Error(`Nothing of ${selector} fits.`);
  return found;
}

/**
 * What was asked of the pen of a canvas, and what was set on it, in order.
 * @param {Seen} canvas
 * @returns {[name: string, ...given: any[]][]}
 */
export const callsOn = (canvas) => canvas.pen.calls;

/**
 * The pixels that were enlarged onto a canvas: the step of each one's colour, null where it is clear.
 * @param {Seen} canvas
 * @returns {(number | null)[][]}
 */
export function stepsOn(canvas) {
  const { data, width, height } = canvas.pen.calls.findLast(([name]) => name === "drawImage").sheet;
  const step = (pixel) => (data[4 * pixel + 3] ? data[4 * pixel] : null);
  return Array.from({ length: height }, (_, row) =>
    Array.from({ length: width }, (_, column) => step(row * width + column)));
}

/** @type {any} the document that all scripts see */
export const html = globalThis.document;
