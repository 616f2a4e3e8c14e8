// What every component with a player has in common: which step is looked at, playing, keys, and telling Python.

import { closest } from "./elements.js";
import { applyTheme, clamp } from "./look.js";

const REST_MS = 250; // a step that was passed through faster is not told
/** @type {Record<string, number>} */
const NEXT = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** A root with steps 0 … last. */
export class Steps {
  /** @type {import("./player.js").Player} */
  player;
  /** @type {import("./mounting.js").Send} */
  send;
  /** @type {number} */
  step; // that is looked at; undefined before the first data
  last = 0;
  events = 0; // that were told
  /** @type {Uint8Array | undefined} */
  data;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  playing;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    root.onkeydown = (event) => this.onKey(event);
    /** @param {KeyboardEvent} event */
    this.onBodyKey = (event) => {
      const path = event.composedPath(), [from] = path;
      const busy = from instanceof Element && from.closest("input, textarea, select, button, a, [role]");
      if (!busy && !path.includes(root) && !event.defaultPrevented) this.onKey(event, true);
    };
    document.addEventListener("keydown", this.onBodyKey);
  }

  /**
   * Take what Python sent.
   * @abstract
   * @param {Uint8Array} _data
   */
  read(_data) {
    throw new Error("A class with steps reads its data.");
  }

  /**
   * Fit everything to the root.
   * @abstract
   * @param {boolean} [_fresh] whether the data or the theme are new
   */
  layout(_fresh) {
    throw new Error("A class with steps has a layout.");
  }

  /**
   * Draw `step`.
   * @abstract
   */
  show() {
    throw new Error("A class with steps shows one.");
  }

  /**
   * Called for each new data and each change of the theme.
   * @param {Uint8Array} data
   */
  receive(data) {
    const themed = applyTheme(this.root);
    if (data !== this.data) this.read(data);
    else if (!themed) return;
    this.layout(true);
  }

  /** What stands beside the slider. */
  get place() {
    return `step ${this.step} of ${this.last}`;
  }

  /** Whether more steps are being made. */
  get coming() {
    return false;
  }

  /**
   * Take steps 0 … last and the one that Python asks for; not where the reader has gone on since it was told.
   * @param {number} last
   * @param {number} asked
   * @param {number} answered events that Python had heard of
   * @returns {boolean} whether Python knows all that the reader did
   */
  take(last, asked, answered) {
    const following = this.step === undefined || (this.step === this.last && this.coming);
    this.last = last;
    if (!this.events) this.events = answered;
    const told = answered >= this.events && !this.playing && !this.timer;
    if (told) this.step = asked;
    else if (following && !this.playing) this.step = last;
    this.step = clamp(this.step ?? asked, 0, last);
    return told;
  }

  /**
   * Look at a step at once; Python hears of it when the reader stays.
   * @param {number} step
   */
  go(step) {
    step = clamp(step, 0, this.last);
    if (step === this.step) return;
    this.step = step;
    this.show();
    this.rest();
  }

  rest() {
    clearTimeout(this.timer);
    if (this.playing) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.tell("step", this.step === this.last ? -1 : this.step);
    }, REST_MS);
  }

  /**
   * @param {string} event
   * @param {unknown[]} values
   */
  tell(event, ...values) {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.events += 1;
    this.send(event, [...values, this.events]);
  }

  play() {
    if (this.step === this.last && !this.coming) this.go(0);
    this.playing = setInterval(() => this.tick(), this.player.milliseconds);
    this.player.show();
  }

  tick() {
    if (this.step < this.last) this.go(this.step + 1);
    if (this.step === this.last && !this.coming) this.pause();
  }

  /** @param {boolean} [rest] whether the reader stays where they are */
  pause(rest = true) {
    if (!this.playing) return;
    clearInterval(this.playing);
    this.playing = undefined;
    this.player.show();
    if (rest) this.rest();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /**
   * Space plays and pauses, arrows step. On the page itself Home, End and a held Shift keep their use.
   * @param {KeyboardEvent} event
   * @param {boolean} [onBody]
   */
  onKey(event, onBody = false) {
    if (this.step === undefined || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const kind = closest(event, "button, select, input")?.tagName;
    if (event.key === " " && kind !== "BUTTON" && kind !== "SELECT") this.toggle();
    else if (event.key in NEXT && kind !== "SELECT" && !(onBody && !Number.isFinite(NEXT[event.key]))) {
      this.pause(false);
      this.go(this.step + NEXT[event.key]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  end() {
    clearInterval(this.playing);
    clearTimeout(this.timer);
    document.removeEventListener("keydown", this.onBodyKey);
  }
}
