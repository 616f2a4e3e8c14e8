// The player of every component with steps: which step is looked at, playing, keys, and telling Python; its buttons and
// slider; and the row of tokens that leads to each step.

import { button, buttonOf, closest, element, iconButton, nameIt, setText } from "./elements.js";
import { applyTheme, clamp, sameList } from "./look.js";

const REST_MS = 250; // a step that was passed through faster is not told
/** @type {Record<string, number>} */
const NEXT = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
/** @type {Record<string, number>} */
const SPEEDS = { "½×": 2000, "1×": 1000, "2×": 500, "4×": 250 }; // milliseconds a step
const PLAY = "M4 2l10 6-10 6z", PAUSE = "M4 3h3v10H4zM9 3h3v10H9z";

/** A root with steps 0 … last. */
export class Steps {
  /** @type {Player} */
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

export class Player {
  /** @param {Steps} host */
  constructor(host) {
    this.host = host;
    this.node = element("div", "player");
    this.node.setAttribute("role", "toolbar");
    this.node.setAttribute("aria-label", "Player: space plays and pauses, arrow keys step");
    /** @param {() => number} step */
    const stepTo = (step) => () => {
      host.pause(false);
      host.go(step());
    };
    this.first = iconButton("First step", "M4 3v10M13 3 6 8l7 5z", stepTo(() => 0));
    this.back = iconButton("Step back", "M11 3 4 8l7 5z", stepTo(() => host.step - 1));
    this.toggle = iconButton("Play", PLAY, () => host.toggle());
    this.forward = iconButton("Step forward", "M5 3l7 5-7 5z", stepTo(() => host.step + 1));
    this.end = iconButton("Last step", "M3 3l7 5-7 5zM12 3v10", stepTo(() => host.last));
    this.slider = element("input", "slider");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.oninput = () => stepTo(() => Number(this.slider.value))();
    this.place = element("span", "place");
    this.speed = element("select", "tool");
    this.speed.setAttribute("aria-label", "Speed");
    this.speed.title = "Speed of playing";
    for (const name of Object.keys(SPEEDS)) this.speed.append(new Option(name, name, false, name === "1×"));
    this.speed.onchange = () => {
      if (!host.playing) return;
      host.pause(false);
      host.play();
    };
    this.node.append(this.first, this.back, this.toggle, this.forward, this.end, this.slider, this.place, this.speed);
  }

  get milliseconds() {
    return SPEEDS[this.speed.value];
  }

  show() {
    const { step, last, playing, place } = this.host;
    nameIt(this.toggle, playing ? "Pause" : "Play");
    this.toggle.querySelector("path")?.setAttribute("d", playing ? PAUSE : PLAY);
    this.first.disabled = this.back.disabled = step === 0;
    this.forward.disabled = this.end.disabled = step === last;
    this.slider.max = String(last);
    this.slider.value = String(step);
    this.slider.setAttribute("aria-valuetext", `step ${step} of ${last}`);
    setText(this.place, place);
  }
}

/**
 * What chips stand for: the tokens of a text, of which each step has read some.
 * @typedef {object} Text
 * @property {{ labels: string[], prompt_length: number }} head
 * @property {{ forced: boolean }[]} steps
 * @property {{ read: number, queries: number }} now
 */

/** The text so far as tokens: those of the prompt lead to the prefill, each other one to the step that chose it. */
export class Chips {
  /** @type {HTMLButtonElement[]} */
  chips = [];
  /** @type {string[]} */
  labels;

  /** @param {Steps & Text} host */
  constructor(host) {
    this.host = host;
    this.node = element("div", "chips");
    this.node.setAttribute("role", "group");
    this.node.ariaLabel = "The text so far: a token leads to the step that chose it";
    this.node.onclick = (event) => {
      const chip = buttonOf(event);
      if (!chip) return;
      host.pause(false);
      host.go(Math.max(0, Number(chip.value) - host.head.prompt_length));
    };
  }

  update() {
    const { labels, prompt_length } = this.host.head;
    if (sameList(labels, this.labels)) return;
    this.labels = labels;
    this.chips = labels.map((label, place) => this.chips[place] ?? this.chip(place));
    labels.forEach((label, place) => {
      const step = place - prompt_length, text = label.slice(label.indexOf(" ") + 1);
      setText(this.chips[place], text);
      nameIt(this.chips[place], step < 0 ? `${label}, of the prompt` : `${label}, chosen in step ${step}`);
    });
    this.node.replaceChildren(...this.chips);
  }

  /** @param {number} place */
  chip(place) {
    const chip = button("chip token");
    chip.value = String(place);
    chip.tabIndex = -1; // the arrow keys lead there; hundreds of stops on Tab's way would be none
    return chip;
  }

  show() {
    const { now, head, steps } = this.host;
    this.chips.forEach((chip, place) => {
      const step = place - head.prompt_length;
      chip.classList.toggle("of-prompt", step < 0);
      chip.classList.toggle("forced", step >= 0 && steps[step].forced);
      chip.classList.toggle("later", place > now.read);
      chip.classList.toggle("reading", place < now.read && place >= now.read - now.queries);
      if (place === now.read) chip.setAttribute("aria-current", "step");
      else chip.removeAttribute("aria-current");
    });
    const line = this.chips[now.read].offsetTop - this.chips[0].offsetTop; // the chosen token in the second line
    const pitch = this.chips[0].offsetHeight + parseFloat(getComputedStyle(this.node).rowGap);
    if (line < this.node.scrollTop || line > this.node.scrollTop + pitch) this.node.scrollTop = line - pitch;
  }
}
