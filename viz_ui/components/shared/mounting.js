// How a component lives: Streamlit calls its script with each run's data, and takes it away when its page is left.

/**
 * What Streamlit calls a component's script with.
 * @template [Data=Uint8Array]
 * @typedef {object} Call
 * @property {Data} data
 * @property {ShadowRoot} parentElement
 * @property {Send} setTriggerValue
 */

/**
 * Tells Python of an event, once.
 * @callback Send
 * @param {string} event
 * @param {any} value
 * @returns {void}
 */

/**
 * What a component is made of: an object that draws into its root.
 * @typedef {object} Living
 * @property {Send} send
 * @property {(data: Uint8Array) => void} receive
 * @property {() => void} [end]
 */

/**
 * A mount that draws the newest data. Streamlit calls it with every run's, and while the script is still on its way the
 * calls wait for it and come in any order. One that a newer one had overtaken is taken back at once.
 * @template [Data=Uint8Array]
 * @param {(call: Call<Data>) => (() => void) | void} mount
 * @returns {(call: Call<Data>) => () => void}
 */
export function inOrder(mount) {
  /** @type {WeakMap<ShadowRoot, { calls: Call<Data>[], stayed: number }>} */
  const known = new WeakMap(); // the calls that were not taken back, and how many stayed so
  return (call) => {
    const { parentElement } = call, state = known.get(parentElement) ?? { calls: [], stayed: 0 }, { calls } = state;
    known.set(parentElement, state);
    calls.push(call);
    const unmount = mount(call);
    setTimeout(() => {
      const place = calls.indexOf(call);
      if (place < 0) return;
      state.stayed += 1;
      calls.splice(0, place);
    });
    return () => {
      const newest = calls.at(-1) === call, place = calls.indexOf(call);
      if (place >= 0) calls.splice(place, 1);
      const last = calls.at(-1);
      if (!last) unmount?.();
      else if (newest && state.stayed < 2 && parentElement.isConnected) mount(last); // later a newer one follows
    };
  };
}

/**
 * A mount that keeps one object of `Kind` for each element of the class: it receives every run's data, tells by
 * `send`, and ends with its element, where it has what to end. To be unmounted while the element stays is no end.
 * @param {new (root: HTMLElement) => Living} Kind
 * @param {string} selector
 */
export function living(Kind, selector) {
  /** @type {WeakMap<HTMLElement, Living>} */
  const alive = new WeakMap();
  return inOrder(({ data, parentElement, setTriggerValue }) => {
    const root = /** @type {HTMLElement} */ (parentElement.querySelector(selector));
    const one = alive.get(root) ?? new Kind(root);
    alive.set(root, one);
    one.send = setTriggerValue;
    one.receive(data);
    return () => {
      setTimeout(() => {
        if (!root.isConnected && alive.delete(root)) one.end?.();
      });
    };
  });
}

/**
 * Runs `redraw` when zoom or another screen changes how many pixels a CSS pixel has: a box of fixed width is then no
 * other size, so no ResizeObserver tells. Gives back what ends it.
 * @param {() => void} redraw
 */
export function onZoom(redraw) {
  /** @type {MediaQueryList} */
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
