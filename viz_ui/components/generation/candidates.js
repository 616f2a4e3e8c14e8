// How the next token is drawn: a table with a column for each stage, a row for each likely token (a click takes it),
// and the running sum on which chance falls.

import { button, element, focusedIn, setText } from "../shared/elements.js";
import { formatCount, formatNumber } from "../shared/numbers.js";

const STAGES = [
  "",
  "The number that the model gives to each token",
  "The logit divided by the temperature T",
  "The probability before anything is cut",
  "Only the k likeliest tokens are kept",
  "Of these, the smallest set of likeliest tokens whose probabilities add up to at least p",
  "The kept probabilities, divided by their sum; the token is drawn from these",
];

export class Candidates {
  /** @param {import("./generation.js").Generation} host */
  constructor(host) {
    this.host = host;
    this.node = element("section", "candidates");
    this.node.setAttribute("aria-label", "Candidates for the next token");
    this.head = element("div", "line head");
    this.left = element("div", "line left small");
    this.held = element("div", "line left small");
    this.rows = element("div", "rows");
    this.sum = element("div", "sum");
    this.sum.setAttribute("role", "img");
    this.mark = element("div", "mark");
    this.verdict = element("div", "verdict small");
    this.words = element("span");
    this.undo = button("tool", "Undo this branch", () => host.branch(null));
    this.verdict.append(this.words, this.undo);
    this.node.append(element("div", "title", "The next token"), this.head, this.left, this.held, this.rows);
    this.node.append(this.sum, this.verdict);
  }

  show() {
    const { now, head } = this.host, { temperature, top_k, top_p, vocabulary } = head.sampling;
    /**
     * @param {number} number
     * @param {number} whole
     */
    const off = (number, whole) => (number >= whole ? "off" : number);
    const sum = formatNumber(now.held[2], 3);
    /** @type {[name: string, value?: string | number][]} */
    const names = now.greedy
      ? [["token"], ["logit"], [""], ["softmax"], ["largest"], [""], ["left"]]
      : [["token"], ["logit"], ["÷ T", temperature], ["softmax"], ["top-k", off(top_k, vocabulary)],
        ["top-p", off(top_p, 1)], ["÷ sum", sum]];
    this.head.replaceChildren(...names.map(([name, value], column) => {
      const node = element("span", "", name);
      node.title = STAGES[column];
      if (value !== undefined) node.append(element("small", "", String(value)));
      return node;
    }));
    const [all, byTopK, kept] = now.left.map(formatCount);
    fill(this.left, ["tokens", all, now.greedy ? "" : all, all, byTopK, now.greedy ? "" : kept, kept]);
    const [, afterTopK, after] = now.held;
    const ofTopK = formatNumber(after / afterTopK, 3);
    fill(this.held, ["share kept", "", "", "1", formatNumber(afterTopK, 3), now.greedy ? "" : ofTopK, "1"]);
    this.held.title = "How much of the probability each stage keeps. For top-p, what top-k has kept counts as 100%.";
    const focused = this.rows.contains(focusedIn(this.rows));
    this.rows.replaceChildren(...now.candidates.map((candidate) => this.row(candidate)));
    const pressed = /** @type {HTMLElement | null} */ (this.rows.querySelector("[aria-pressed=true]"));
    if (focused) pressed?.focus({ preventScroll: true });
    this.showSum();
    this.showVerdict();
  }

  /** @param {import("./generation.js").Candidate} candidate */
  row(candidate) {
    const { now } = this.host, { token_id, label, logit, scaled, full } = candidate;
    const { allowed, by_top_k, kept, probability } = candidate;
    const chosen = token_id === now.chosen;
    const row = button("line candidate", "", () => {
      if (!chosen) this.host.branch(token_id);
    });
    row.value = String(token_id);
    const marks = [by_top_k ? "✓" : allowed ? "cut" : "barred", now.greedy || !by_top_k ? "" : kept ? "✓" : "cut"];
    const divided = scaled === null ? "" : formatNumber(scaled, 3), left = kept ? formatNumber(probability, 3) : "";
    fill(row, [label, formatNumber(logit), divided, formatNumber(full, 3), ...marks, left]);
    row.children[0].className = "token";
    bar(row.children[3], full);
    bar(row.children[6], probability);
    row.children[6].classList.toggle("hatched", !kept);
    row.classList.toggle("cut", !kept);
    row.ariaPressed = String(chosen);
    const fate = kept ? `${formatNumber(probability, 3)} after the cut` : allowed ? "cut" : "barred";
    const barred = allowed ? "" : "The model's files bar this token here. ";
    const take = `${barred}Take ${label} instead; the text after it is then written again`;
    row.title = chosen ? "The token that comes next" : take;
    row.ariaDescription = `logit ${formatNumber(logit)}, probability ${formatNumber(full, 3)}, ${fate}. ${row.title}`;
    return row;
  }

  /** The probabilities after the cut, laid end to end from 0 to 1, and u on them. */
  showSum() {
    const { now } = this.host;
    this.sum.hidden = now.greedy;
    let start = 0, likeliest = 0;
    const parts = now.candidates.filter(({ probability }) => probability > 0).map((candidate) => {
      const chosen = candidate.token_id === now.chosen;
      const part = element("div", chosen ? "part chosen" : "part");
      if (chosen) start = now.span[0];
      else likeliest = Math.max(likeliest, start + candidate.probability);
      Object.assign(part.style, { left: percent(start), width: percent(candidate.probability) });
      const end = start + candidate.probability;
      part.title = `${candidate.label}: from ${formatNumber(start, 3)} to ${formatNumber(end, 3)}`;
      start = end;
      return part;
    });
    const others = now.left[2] - parts.length, room = 1 - likeliest > 0.2;
    const rest = element("div", "others small", others && room ? `${formatCount(others)} more` : "");
    rest.style.left = percent(likeliest);
    this.mark.style.left = percent(now.draw);
    this.sum.replaceChildren(rest, ...parts, this.mark);
    this.sum.ariaLabel = `Running sum of the probabilities; u = ${formatNumber(now.draw)}`;
  }

  showVerdict() {
    const { now, head } = this.host, u = formatNumber(now.draw), label = `“${head.labels[now.read]}”`;
    const [from, to] = now.span.map((end) => formatNumber(end));
    this.undo.hidden = !now.forced;
    if (now.fixed) setText(this.words, `This model always writes ${label} here, whatever its logits say.`);
    else if (now.forced) {
      const drawn = now.greedy ? "Greedy takes" : `u = ${u} draws`;
      const took = now.chosen === now.drawn ? "and you took it too" : `but you took ${label}`;
      setText(this.words, `${drawn} “${now.drawn_label}”, ${took}.`);
    } else if (now.greedy) {
      const among = now.candidates.some(({ allowed }) => !allowed) ? " of the tokens that are not barred here" : "";
      setText(this.words, `Greedy: ${label} has the largest logit${among}.`);
    } else {
      const { seed } = head.sampling;
      const reach = `${label} is drawn for u from ${from} to ${to}`;
      setText(this.words, `Seed ${seed} gives the random number u = ${u}. ${reach}.`);
    }
  }
}

/** @param {number} share */
const percent = (share) => `${100 * share}%`;

/**
 * @param {HTMLElement} line
 * @param {(string | number)[]} texts one a column
 */
function fill(line, texts) {
  line.replaceChildren(...texts.map((text) => element("span", "", String(text))));
}

/**
 * A number with its probability as a bar behind it.
 * @param {Element} cell
 * @param {number} share
 */
function bar(cell, share) {
  const node = element("i", "bar");
  node.style.width = percent(share);
  cell.classList.add("barred");
  cell.prepend(node);
}
