// How the next token is drawn: a table with a column for each stage, a row for each likely token (a click takes it),
// and the running sum on which chance falls.

import { element, formatNumber, setText } from "../shared/shared.js";
import { place } from "./cache_strips.js";

const STAGES = [
  "",
  "The number that the model gives to each token",
  "The logit divided by the temperature T",
  "The probability before anything is cut",
  "Only the k likeliest tokens are kept",
  "Of these, the likeliest are kept: as few as together have the share p",
  "The kept probabilities, divided by their sum; the token is drawn from these",
];

export class Candidates {
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
    this.undo = element("button", "tool", "Undo this branch");
    this.undo.type = "button";
    this.undo.onclick = () => host.branch(null);
    this.verdict.append(this.words, this.undo);
    this.node.append(element("div", "title", "The next token"), this.head, this.left, this.held, this.rows);
    this.node.append(this.sum, this.verdict);
  }

  show() {
    const { now, head } = this.host, { temperature, top_k, top_p, vocabulary } = head.sampling;
    const off = (number, whole) => (number >= whole ? "off" : number), sum = formatNumber(now.held[2], 3);
    const names = now.greedy
      ? [["token"], ["logit"], [""], ["softmax"], ["largest"], [""], ["left"]]
      : [["token"], ["logit"], ["÷ T", temperature], ["softmax"], ["top-k", off(top_k, vocabulary)],
        ["top-p", off(top_p, 1)], ["÷ sum", sum]];
    this.head.replaceChildren(...names.map(([name, value], column) => {
      const node = element("span", "", name);
      node.title = STAGES[column];
      if (value != null) node.append(element("small", "", String(value)));
      return node;
    }));
    const [all, byTopK, kept] = now.left.map((count) => count.toLocaleString("en"));
    fill(this.left, ["tokens", all, now.greedy ? "" : all, all, byTopK, now.greedy ? "" : kept, kept]);
    const [, afterTopK, after] = now.held;
    const ofTopK = formatNumber(after / afterTopK, 3);
    fill(this.held, ["share kept", "", "", "1", formatNumber(afterTopK, 3), now.greedy ? "" : ofTopK, "1"]);
    this.held.title = "How much of the probability each stage keeps. Top-p counts its p from what top-k has kept.";
    const focused = this.rows.contains(this.rows.getRootNode().activeElement);
    this.rows.replaceChildren(...now.candidates.map((candidate) => this.row(candidate)));
    if (focused) this.rows.querySelector("[aria-pressed=true]").focus({ preventScroll: true });
    this.showSum();
    this.showVerdict();
  }

  row(candidate) {
    const { now } = this.host, { token_id, label, logit, scaled, full, by_top_k, kept, probability } = candidate;
    const row = element("button", "line candidate"), chosen = token_id === now.chosen;
    row.type = "button";
    row.value = token_id;
    const marks = [by_top_k ? "✓" : "cut", now.greedy || !by_top_k ? "" : kept ? "✓" : "cut"];
    const number = scaled == null ? "" : formatNumber(scaled, 3);
    fill(row, [label, formatNumber(logit, 4), number, formatNumber(full, 3), ...marks, kept ? formatNumber(probability, 3) : ""]);
    row.children[0].className = "token";
    bar(row.children[3], full);
    bar(row.children[6], probability);
    row.children[6].classList.toggle("hatched", !kept);
    row.classList.toggle("cut", !kept);
    row.ariaPressed = String(chosen);
    const fate = kept ? `${formatNumber(probability, 3)} after the cut` : "cut";
    row.ariaLabel = `${label}, logit ${formatNumber(logit, 4)}, probability ${formatNumber(full, 3)}, ${fate}`;
    row.title = chosen ? "The token that comes next" : `Take ${label} instead; the text after it is then written again`;
    row.onclick = () => !chosen && this.host.branch(token_id);
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
      place(part, 0, 0, 0, 0);
      Object.assign(part.style, { left: percent(start), width: percent(candidate.probability), height: "" });
      part.title = `${candidate.label}: from ${formatNumber(start, 3)} to ${formatNumber(start + candidate.probability, 3)}`;
      start += candidate.probability;
      return part;
    });
    const others = now.left[2] - parts.length, room = 1 - likeliest > 0.2;
    const rest = element("div", "others small", others && room ? `${others.toLocaleString("en")} more` : "");
    rest.style.left = percent(likeliest);
    this.mark.style.left = percent(now.draw);
    this.sum.replaceChildren(rest, ...parts, this.mark);
    this.sum.ariaLabel = `Running sum of the probabilities; u = ${formatNumber(now.draw)}`;
  }

  showVerdict() {
    const { now, head } = this.host, u = formatNumber(now.draw), label = `“${head.labels[now.read]}”`;
    const [from, to] = now.span.map((end) => formatNumber(end));
    this.undo.hidden = !now.forced;
    if (now.fixed) setText(this.words, `This model always begins with ${label}, whatever its logits say.`);
    else if (now.forced) {
      const drawn = now.greedy ? "Greedy takes" : `u = ${u} draws`;
      const took = now.chosen === now.drawn ? "and you took it too" : `but you took ${label}`;
      setText(this.words, `${drawn} “${now.drawn_label}”, ${took}.`);
    } else if (now.greedy) setText(this.words, `Greedy: ${label} has the largest logit.`);
    else setText(this.words, `Seed ${head.sampling.seed} gives u = ${u}. It falls on ${label}, which reaches from ${from} to ${to}.`);
  }
}

const percent = (share) => `${100 * share}%`;

function fill(line, texts) {
  line.replaceChildren(...texts.map((text) => element("span", "", String(text))));
}

/** A number with its probability as a bar behind it. */
function bar(cell, share) {
  const node = element("i", "bar");
  node.style.width = percent(share);
  cell.classList.add("barred");
  cell.prepend(node);
}
