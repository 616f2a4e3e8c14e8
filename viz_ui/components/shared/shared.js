// What every component of this folder needs: elements, the blob, numbers, the theme, masked hatching, tooltips.
// The files of a component are joined into one module, so nothing here is imported or exported.

/** A new element; text goes in as text, never as HTML. */
export function element(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/** Set text only where it differs: the browser lays nothing out for what stays. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A mount that draws the newest data. Streamlit calls it with every run's, and while the script is still on its way the
 *  calls wait for it and come in any order. One that a newer one had overtaken is taken back at once. */
export function inOrder(mount) {
  const known = new WeakMap(); // of each parent element: the calls that were not taken back, and how many stayed so
  return (call) => {
    const { parentElement } = call;
    if (!known.has(parentElement)) known.set(parentElement, { calls: [], stayed: 0 });
    const state = known.get(parentElement), { calls } = state;
    calls.push(call);
    const unmount = mount(call);
    setTimeout(() => {
      const place = calls.indexOf(call);
      if (place < 0) return;
      state.stayed += 1;
      calls.splice(0, place);
    });
    return () => {
      const drawn = calls.at(-1) === call, place = calls.indexOf(call);
      if (place >= 0) calls.splice(place, 1);
      if (!calls.length) unmount?.();
      else if (drawn && state.stayed < 2 && parentElement.isConnected) mount(calls.at(-1)); // later a newer one follows
    };
  };
}

/** A mount that keeps one object of `Kind` for each element of the class: it receives every run's data, tells by
 *  `send`, and ends with its element, where it has what to end. To be unmounted while the element stays is no end. */
export function living(Kind, selector) {
  const alive = new WeakMap();
  return inOrder(({ data, parentElement, setTriggerValue }) => {
    const root = parentElement.querySelector(selector);
    if (!alive.has(root)) alive.set(root, new Kind(root));
    const one = alive.get(root);
    one.send = setTriggerValue;
    one.receive(data);
    return () => {
      setTimeout(() => {
        if (!root.isConnected && alive.delete(root)) one.end?.();
      });
    };
  });
}

/** Runs `redraw` when zoom or another screen changes how many pixels a CSS pixel has: a box of fixed width is then no
    other size, so no ResizeObserver tells. Gives back what ends it. */
export function onZoom(redraw) {
  let query;
  const changed = () => {
    listen();
    redraw();
  };
  const listen = () => {
    query = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    query.addEventListener("change", changed, { once: true });
  };
  listen();
  return () => query.removeEventListener("change", changed);
}

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const sameList = (a, b) => a === b || (a && b && a.length === b.length && a.every((x, i) => x === b[i]));

/** The blob of packing.py: its header, and a reader that walks through the arrays behind it. */
export function unpack(data) {
  const own = data.slice(); // a buffer of its own: the message's buffer may start at any byte
  const length = new DataView(own.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(own.subarray(4, 4 + length)));
  let at = 4 + length;
  const take = (type, count) => {
    const array = new type(own.buffer, at, count);
    at += array.byteLength;
    return array;
  };
  return {
    head,
    floats: (count) => take(Float32Array, count),
    halves: (count) => floatsOfHalves(take(Uint16Array, count)),
    bytes: (count) => take(Uint8Array, count),
  };
}

let halfTable = null; // every float16 there is, filled when the first large matrix arrives

function floatsOfHalves(raw) {
  halfTable ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
  const floats = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i++) floats[i] = halfTable[raw[i]];
  return floats;
}

/** Bits of numpy.packbits, one byte a cell. */
export function spreadBits(bits, cells) {
  const bytes = new Uint8Array(cells);
  for (let i = 0; i < cells; i++) bytes[i] = (bits[i >> 3] >> (7 - (i & 7))) & 1;
  return bytes;
}

/** 256 rows of red, green, blue as one 32-bit pixel each, as ImageData holds them. */
export function pixelTable(rgb) {
  const table = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(table.buffer);
  for (let i = 0; i < 256; i++) bytes.set([rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], 255], 4 * i);
  return table;
}

/** The number with so many significant digits, e.g. 0.3312, −12.04, 35,333, 1.204×10⁻⁵. */
export function formatNumber(value, digits = 4) {
  if (value === 0) return "0";
  const size = Number(Math.abs(value).toPrecision(digits)), sign = value < 0 ? "−" : "";
  if (size >= 1e-3 && size < 1e6) {
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return sign + size.toLocaleString("en", {
      useGrouping: size >= 1e4, minimumFractionDigits: decimals, maximumFractionDigits: decimals,
    });
  }
  const [mantissa, exponent] = size.toExponential(digits - 1).split("e");
  const raised = String(+exponent).replace(/[-0-9]/g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");
  return `${sign}${mantissa}×10${raised}`;
}

/** "1 token", "12,345 tokens". */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Write data-theme on the root, from the page's own background; true when it changed. */
export function applyTheme(root) {
  const [red, green, blue] = getComputedStyle(root).backgroundColor.match(/[\d.]+/g).map(Number);
  const theme = red + green + blue < 384 ? "dark" : "light";
  const changed = root.dataset.theme !== theme;
  root.dataset.theme = theme;
  return changed;
}

/** Fill a canvas with the hatching of masked cells (shared.css has its two greys). */
export function fillHatched(context, root, width, height) {
  const style = getComputedStyle(root), size = Math.round(6 * (window.devicePixelRatio || 1));
  const tile = element("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = style.getPropertyValue("--hatch-ground");
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = style.getPropertyValue("--hatch-line");
  pen.lineWidth = size / 4;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - size, size * 2);
    pen.lineTo(shift + size * 2, -size);
  }
  pen.stroke();
  context.fillStyle = context.createPattern(tile, "repeat");
  context.fillRect(0, 0, width, height);
}

/** A small box beside the pointer, kept inside the window; one a component. */
export class Tooltip {
  constructor(root) {
    this.root = root;
    this.node = root.appendChild(element("div", "tooltip"));
    this.node.setAttribute("role", "tooltip");
    this.hide();
  }

  /** `lines` is a list of [text, class]; x and y are the point in the window it speaks of. */
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
