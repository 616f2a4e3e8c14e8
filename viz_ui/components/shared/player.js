// The buttons and the slider that move through steps, and the row of tokens that leads to each step.

import { button, buttonOf, element, iconButton, nameIt, setText } from "./elements.js";
import { sameList } from "./look.js";

/** @type {Record<string, number>} */
const SPEEDS = { "½×": 2000, "1×": 1000, "2×": 500, "4×": 250 }; // milliseconds a step
const PLAY = "M4 2l10 6-10 6z", PAUSE = "M4 3h3v10H4zM9 3h3v10H9z";

export class Player {
  /** @param {import("./steps.js").Steps} host */
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

  /** @param {import("./steps.js").Steps & Text} host */
  constructor(host) {
    this.host = host;
    this.node = element("div", "chips");
    this.node.setAttribute("role", "list");
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
