// The root: holds all steps and which one is looked at, plays them, and tells Python where the reader rests.

const REST_MS = 250; // a step that was passed through faster is not told
const NEXT = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

class Generation {
  constructor(root) {
    this.root = root;
    this.events = 0;
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
    root.onkeydown = (event) => this.onKey(event);
    this.onBodyKey = (event) => {
      const path = event.composedPath(), busy = path[0].closest?.("input, textarea, select, button, a, [role]");
      if (!busy && !path.includes(root) && !event.defaultPrevented) this.onKey(event, true);
    };
    document.addEventListener("keydown", this.onBodyKey);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  /** Called for each new data and each change of the theme. */
  receive(data) {
    const themed = applyTheme(this.root);
    if (data !== this.data) this.read(data);
    else if (!themed) return;
    this.layout(true);
  }

  read(data) {
    this.data = data;
    const { head, floats, bytes } = unpack(data), length = head.labels.length - 1;
    const following = !this.head || (this.step === this.last && this.head.running);
    Object.assign(this, { head, length, steps: head.steps, last: head.steps.length - 1 });
    this.keys = floats(head.width * length); // (D,S)
    this.values = floats(head.width * length);
    this.rows = floats((length * (length + 1)) / 2); // row i has i + 1 weights
    this.luts = { sequential: pixelTable(bytes(768)), diverging: pixelTable(bytes(768)) };
    if (!this.events) this.events = head.answered;
    // While steps are made the last one is followed, unless the reader looks at another.
    const told = head.answered >= this.events && !this.playing && !this.timer;
    if (told) this.step = head.step;
    else if (following && !this.playing) this.step = this.last;
    this.step = clamp(this.step ?? head.step, 0, this.last);
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

  show() {
    for (const part of [this.player, this.chips, this.strips, this.saved, this.candidates]) part.show();
    this.numbers.show(this.now.numbers);
    setText(this.sentence, this.describe());
  }

  describe() {
    const { now, step, head } = this, named = (place) => `“${head.labels[place]}”`;
    const read = step
      ? `Step ${step} reads one token, ${named(now.read - 1)}: its query attends to the ${now.read} keys of the cache`
      : `Step 0, prefill, reads all ${now.queries} tokens of the prompt in one pass and fills the cache`;
    return `${read}. ${now.forced ? "You took" : "Next comes"} ${named(now.read)}.`;
  }

  /** Look at a step at once; Python hears of it when the reader stays. */
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

  tell(event, ...values) {
    this.events += 1;
    this.send(event, [...values, this.events]);
  }

  branch(token) {
    this.pause(false);
    clearTimeout(this.timer);
    this.timer = undefined;
    this.tell("branch", this.step, token);
  }

  play() {
    if (this.step === this.last && !this.head.running) this.go(0);
    this.playing = setInterval(() => this.tick(), this.player.milliseconds);
    this.player.show();
  }

  tick() {
    if (this.step < this.last) this.go(this.step + 1);
    if (this.step === this.last && !this.head.running) this.pause();
  }

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

  /** Space plays and pauses, arrows step. On the page itself Home, End and a held Shift keep their use. */
  onKey(event, onBody = false) {
    if (!this.steps || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const kind = event.target.closest?.("button, select, input")?.tagName;
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
    this.observer.disconnect();
    document.removeEventListener("keydown", this.onBodyKey);
  }
}

const alive = new WeakMap();

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".generation");
  if (!alive.has(root)) alive.set(root, new Generation(root));
  const generation = alive.get(root);
  generation.send = setTriggerValue;
  generation.receive(data);
  return () => generation.end();
}
