// The root: holds all steps of a generation and draws the one that is looked at.

import { pixelTable, unpack } from "../shared/blob.js";
import { element, setText, Tooltip } from "../shared/elements.js";
import { living } from "../shared/mounting.js";
import { counted } from "../shared/numbers.js";
import { Chips, Player, Steps } from "../shared/player.js";
import { CacheStrips, SavedPicture } from "./cache_strips.js";
import { Candidates } from "./candidates.js";
import { StepNumbers } from "./step_numbers.js";

/**
 * A likely next token at each stage of the sampling.
 * @typedef {object} Candidate
 * @property {number} token_id
 * @property {string} label
 * @property {number} logit
 * @property {number | null} scaled null where nothing is drawn
 * @property {number} full the probability before anything is cut
 * @property {boolean} by_top_k
 * @property {boolean} kept
 * @property {boolean} allowed whether the model's files let it be written here
 * @property {number} probability after the cut
 */

/**
 * One step: what it reads, and how the next token was drawn.
 * @typedef {object} Step
 * @property {number} read tokens that have been read after it
 * @property {number} queries that it computes
 * @property {[what: string, cached: string, uncached: string][]} numbers
 * @property {boolean} greedy
 * @property {number} draw between 0 and 1
 * @property {[from: number, to: number]} span in which the draw fell
 * @property {number} chosen
 * @property {number} drawn
 * @property {string} drawn_label
 * @property {boolean} forced whether the reader took the token
 * @property {boolean} fixed whether the model always writes it here
 * @property {number[]} left tokens after each cut
 * @property {number[]} held probability after each cut
 * @property {Candidate[]} candidates
 */

/**
 * What generation.py tells in its header.
 * @typedef {object} Header
 * @property {string[]} labels of the text and the token after it
 * @property {string[]} source labels of what an encoder read
 * @property {boolean} of_source whether the cache holds the source's keys
 * @property {number} prompt_length
 * @property {number} asked tokens
 * @property {boolean} running
 * @property {number} step
 * @property {number} answered
 * @property {string} head_name
 * @property {number} width numbers of a key
 * @property {[keys: number, values: number]} ends of the colour scales
 * @property {{ temperature: number, top_k: number, top_p: number, vocabulary: number, seed: number }} sampling
 * @property {Step[]} steps
 */

export class Generation extends Steps {
  /** @type {Header} */
  head;
  /** @type {Step[]} */
  steps;
  length = 0; // queries
  columns = 0; // keys
  /** @type {string[]} */
  keyLabels;
  /** @type {Float32Array} */
  keys; // (D,S)
  /** @type {Float32Array} */
  values; // (D,S)
  /** @type {Float32Array} */
  rows; // weights: row i has i + 1 of them, or one for each token of a source
  /** @type {{ sequential: Uint32Array, diverging: Uint32Array }} */
  luts;
  /** @type {number | undefined} */
  width;

  /** @param {HTMLElement} root */
  constructor(root) {
    super(root);
    this.tooltip = new Tooltip(root);
    this.player = new Player(this);
    this.chips = new Chips(this);
    this.strips = new CacheStrips(this);
    this.saved = new SavedPicture(this);
    this.numbers = new StepNumbers();
    this.candidates = new Candidates(this);
    this.sentence = element("p", "sentence");
    this.sentence.setAttribute("aria-live", "polite");
    const columns = element("div", "columns"), saved = element("div", "saved");
    saved.append(this.saved.node, this.numbers.node);
    columns.append(this.strips.node, saved, this.candidates.node);
    root.prepend(this.player.node, this.chips.node, this.sentence, columns);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  /** @param {Uint8Array} data */
  read(data) {
    this.data = data;
    const { head, floats, bytes } = unpack(data), length = head.labels.length - 1;
    const columns = head.of_source ? head.source.length : length;
    // While steps are made the last one is followed, unless the reader looks at another.
    this.take(head.steps.length - 1, head.step, head.answered);
    Object.assign(this, { head, length, columns, steps: head.steps });
    this.keyLabels = head.of_source ? head.source : head.labels;
    this.keys = floats(head.width * columns);
    this.values = floats(head.width * columns);
    this.rows = floats(head.of_source ? length * columns : (length * (length + 1)) / 2);
    this.luts = { sequential: pixelTable(bytes(768)), diverging: pixelTable(bytes(768)) };
  }

  layout(fresh = false) {
    const width = this.root.clientWidth;
    if (!width || !this.steps || (!fresh && width === this.width)) return;
    this.width = width;
    this.chips.update();
    this.strips.update();
    this.saved.update();
    this.show();
  }

  get now() {
    return this.steps[this.step];
  }

  /**
   * How many keys a query sees: all of a source, or itself and those before it.
   * @param {number} query
   */
  keysOf(query) {
    return this.head.of_source ? this.columns : query + 1;
  }

  /**
   * Its weights over them.
   * @param {number} query
   */
  rowOf(query) {
    const start = this.head.of_source ? query * this.columns : (query * (query + 1)) / 2;
    return this.rows.subarray(start, start + this.keysOf(query));
  }

  get coming() {
    return this.head?.running ?? false;
  }

  get place() {
    return this.coming ? `${this.last + 1} of ${this.head.asked} tokens` : super.place;
  }

  show() {
    for (const part of [this.player, this.chips, this.strips, this.saved, this.candidates]) part.show();
    this.numbers.show(this.now.numbers);
    setText(this.sentence, this.describe());
  }

  describe() {
    const { now, step, head } = this, named = (/** @type {number} */ place) => `“${head.labels[place]}”`;
    const keys = `${counted(this.keysOf(now.read - 1), "key")} ${head.of_source ? "of the source" : "of the cache"}`;
    const source = head.source.length;
    const start = source
      ? `Step 0 reads the source (${counted(source, "token")}) and ${counted(now.queries, "token")} of the decoder, `
        + "and fills the cache with both"
      : `Step 0, prefill, reads all ${counted(now.queries, "token")} of the prompt in one pass and fills the cache`;
    const later = `Step ${step} reads one token, ${named(now.read - 1)}. Its query attends to the ${keys}`;
    const again = `Step ${step} reads all ${now.queries} tokens again: this model rotates longer texts by other angles`;
    const read = !step ? start : now.queries > 1 ? again : later;
    const took = now.fixed ? "It always writes" : now.forced ? "You took" : "Next comes";
    return `${read}. ${took} ${named(now.read)}.`;
  }

  /**
   * Take another token after this step; null: the one that was drawn.
   * @param {number | null} token
   */
  branch(token) {
    this.pause(false);
    this.tell("branch", this.step, token);
  }

  end() {
    super.end();
    this.observer.disconnect();
  }
}

export default living(Generation, ".generation");
