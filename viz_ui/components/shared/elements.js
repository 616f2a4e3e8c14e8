// Elements of HTML and SVG, and what several pictures build of them: an icon button, a tooltip.

const SVG = "http://www.w3.org/2000/svg";

/**
 * A new element; text goes in as text, never as HTML.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/**
 * A button that is no submit button.
 * @param {string} className
 * @param {string} [text]
 * @param {() => void} [onclick]
 * @returns {HTMLButtonElement}
 */
export function button(className, text = "", onclick = undefined) {
  const node = element("button", className, text);
  node.type = "button";
  if (onclick) node.onclick = onclick;
  return node;
}

/**
 * A button with a picture of 16 × 16 instead of words; `name` is read aloud and shown on hover.
 * @param {string} name
 * @param {string} path
 * @param {() => void} onclick
 * @returns {HTMLButtonElement}
 */
export function iconButton(name, path, onclick) {
  const node = button("tool icon", "", onclick), icon = drawn("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  nameIt(node, name);
  icon.append(drawn("path", { d: path }));
  node.append(icon);
  return node;
}

/**
 * Name a button that shows no words, or not all of them.
 * @param {HTMLElement} node
 * @param {string} name
 */
export function nameIt(node, name) {
  node.ariaLabel = node.title = name;
}

/**
 * An SVG element with attributes.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} [attributes]
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function drawn(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return node;
}

/**
 * Words in an SVG.
 * @param {string} text
 * @param {Record<string, string | number>} attributes
 * @returns {SVGTextElement}
 */
export function written(text, attributes) {
  const node = drawn("text", attributes);
  node.textContent = text;
  return node;
}

/**
 * Set text only where it differs: the browser lays nothing out for what stays.
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Give an element its place, in CSS pixels.
 * @param {HTMLElement} node
 * @param {number} left
 * @param {number} top
 * @param {number} width
 * @param {number} height
 */
export function place(node, left, top, width, height) {
  Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}

/**
 * The element that an event came from, or the one around it that the selector names.
 * @template {Element} [Kind=HTMLElement]
 * @param {Event} event
 * @param {string} selector
 * @returns {Kind | null}
 */
export function closest(event, selector) {
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

/**
 * The button that an event came from.
 * @param {Event} event
 * @returns {HTMLButtonElement | null}
 */
export const buttonOf = (event) => closest(event, "button");

/**
 * The element of a component that has the focus.
 * @param {HTMLElement} root
 * @returns {HTMLElement | null}
 */
export function focusedIn(root) {
  const active = /** @type {ShadowRoot | Document} */ (root.getRootNode()).activeElement;
  return active instanceof HTMLElement ? active : null;
}

/**
 * The pen of a canvas.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export const penOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/** A small box beside the pointer, kept inside the window; one a component. */
export class Tooltip {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.node = root.appendChild(element("div", "tooltip"));
    this.node.setAttribute("role", "tooltip");
    this.hide();
  }

  /**
   * `lines` are texts with their classes; x and y are the point in the window that they speak of.
   * @param {string[][]} lines
   * @param {number} x
   * @param {number} y
   */
  show(lines, x, y) {
    this.node.replaceChildren(...lines.map(([text, className]) => element("div", className, text)));
    this.node.hidden = false;
    const box = this.node.getBoundingClientRect(), origin = this.root.getBoundingClientRect();
    const left = x + 16 + box.width > window.innerWidth ? x - 12 - box.width : x + 16;
    const top = y + 18 + box.height > window.innerHeight ? y - 12 - box.height : y + 18;
    this.node.style.left = `${Math.max(left, 4) - origin.left}px`;
    this.node.style.top = `${Math.max(top, 4) - origin.top}px`;
  }

  hide() {
    this.node.hidden = true;
  }
}
