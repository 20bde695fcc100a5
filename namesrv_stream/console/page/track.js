// The track of time: every moment at which something changed is a mark, and the handle moves the whole page there.

import { h, patch } from "./dom.js";
import { ago, counted, eventsText, LOCAL, momentText, setZone, when, zone, zones } from "./words.js";

const WIDTH = 1000;
const HEIGHT = 64;
const MIDDLE = 34;
const PLAY_EVERY_MS = 220;
const SHORTEST_ZOOM_MS = 20;

export class Track {
  // `go(epoch | null, isFinal)` is called when the reader moves; null is the present. `expand(mark)` promises the marks
  // of a mark that stands for several epochs, or null. `typed(text)` is called with a moment that the reader has typed,
  // and `onZoom()` after `zoomed` has changed.
  constructor(place, go, choose, expand, typed, rezoned, onZoom) {
    this.zoomed = null; // the stretch that the reader has dragged over, in ms, null for all of it
    this.onZoom = onZoom;
    this.marks = [];
    this.range = [0, 1];
    this.epoch = null;
    this.go = go;
    this.expand = expand;
    this.oldest = 1;
    this.stopped = null; // why the present is not what it says, null if it is
    this.at = null; // the time within the epoch, null for all of it
    this.label = h("p", { class: "moment", "aria-live": "polite" });
    this.note = h("p", { class: "note", role: "alert", hidden: true });
    this.surface = h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.handle = h("div", { class: "handle" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.edges = [h("span"), h("span")];
    this.most = h("span");
    this.legend = h("span", { hidden: true }, " ", h("i", { class: "unknown" }), "unknown");
    this.band = h("div", { class: "band", hidden: true });
    this.whole = h("button", { type: "button", hidden: true, onclick: () => this.zoom(null) }, "Zoom out");
    this.rail = h(
      "div",
      {
        class: "rail",
        tabindex: "0",
        role: "slider",
        "aria-label": "Time shown",
        "aria-orientation": "horizontal",
        onkeydown: (event) => this.onKey(event),
        onpointerdown: (event) => this.onDown(event),
        onpointermove: (event) => this.onMove(event),
        onpointerup: (event) => this.onUp(event),
        onpointercancel: (event) => this.onUp(event),
        onpointerleave: () => {
          this.tip.hidden = true;
        },
      },
      this.surface,
      this.band,
      this.handle,
      this.tip,
    );
    this.play = h("button", { type: "button", onclick: () => this.togglePlay() }, "▶ Play");
    this.now = h(
      "button",
      {
        type: "button",
        onclick: () => {
          this.stop();
          go(null, true);
        },
      },
      "Now",
    );
    this.spans = h(
      "select",
      {
        "aria-label": "Length of the track",
        onchange: (event) => {
          this.zoomed = null;
          choose(event.target.value);
        },
      },
      [
        ["1h", "1 hour"],
        ["6h", "6 hours"],
        ["24h", "1 day"],
        ["7d", "1 week"],
        ["all", "30 days"],
      ].map(([value, text]) => h("option", { value }, text)),
    );
    this.typed = h("input", {
      name: "moment",
      "aria-label": "Snapshot number or time",
      autocomplete: "off",
      title: "A snapshot number, or a time in the zone beside: 03:12, 2026-11-21 03:12, 2h ago, now",
    });
    this.zones = h(
      "select",
      {
        "aria-label": "Time zone",
        onchange: (event) => {
          setZone(event.target.value);
          rezoned();
        },
      },
      zones().map((name) =>
        h("option", { value: name, selected: name === zone() }, name === LOCAL ? `${name} (local)` : name),
      ),
    );
    const onSubmit = (event) => {
      event.preventDefault();
      this.stop();
      if (this.typed.value.trim()) typed(this.typed.value.trim());
    };
    const step = (by, text, title) =>
      h(
        "button",
        {
          type: "button",
          title,
          "aria-label": title,
          onclick: () => {
            this.stop();
            this.step(by, true);
          },
        },
        text,
      );
    this.area = place;
    this.isOpen = false; // whether the reader has asked for the controls
    this.opener = h("button", { type: "button", class: "opener", onclick: () => this.open(!this.isOpen) });
    place.replaceChildren(
      h(
        "div",
        { class: "moments" },
        this.label,
        this.opener,
        h(
          "div",
          { class: "buttons" },
          step(-1, "‹", "Previous change"),
          this.play,
          step(1, "›", "Next change"),
          this.now,
          h("form", { class: "exact", onsubmit: onSubmit }, this.typed, h("button", {}, "Go")),
          this.zones,
          this.whole,
          this.spans,
        ),
      ),
      this.note,
      this.rail,
      h(
        "div",
        {
          class: "edges",
          title: "Drag here, or on the track with Shift, to zoom into a stretch of time",
          onpointerdown: (event) => this.onBand(event),
          onpointermove: (event) => this.onMove(event),
          onpointerup: (event) => this.onUp(event),
          onpointercancel: (event) => this.onUp(event),
        },
        this.edges[0],
        h(
          "span",
          { class: "legend" },
          h("i", { class: "came" }),
          "came online ",
          h("i", { class: "left" }),
          "went offline ",
          h("i", { class: "asked" }),
          "operator command ",
          h("i", { class: "up" }),
          this.most,
          this.legend,
        ),
        this.edges[1],
      ),
    );
  }

  // A strip while the present is shown and nobody asks for more.
  open(isOpen) {
    this.isOpen = isOpen;
    this.calm();
  }

  calm() {
    const isCalm = !this.isOpen && this.epoch === null && this.zoomed === null;
    this.area.classList.toggle("calm", isCalm);
    this.opener.textContent = isCalm ? "Go to a time" : "Hide";
    this.opener.hidden = this.epoch !== null;
    this.opener.setAttribute("aria-expanded", !isCalm);
  }

  show(timeline) {
    this.timeline = timeline;
    this.marks = timeline.marks;
    const last = new Date(timeline.snapshot.eventTime ?? timeline.snapshot.publishedAt).getTime();
    const known = new Date(timeline.oldest.eventTime ?? timeline.marks[0]?.eventTime ?? last).getTime();
    const first = Math.max(known, new Date(timeline.since).getTime());
    this.newest = timeline.snapshot.epoch;
    this.oldest = timeline.oldest.epoch;
    this.range = this.zoomed ?? [Math.min(first, last - 1_000), last];
    this.whole.hidden = this.zoomed === null;
    this.edges[0].textContent = when(this.range[0]);
    const changes = this.marks.reduce((sum, mark) => sum + (mark.epochs ?? 1), 0);
    this.edges[1].textContent =
      (this.zoomed ? `${when(this.range[1])} · ` : "") +
      (changes ? counted(changes, "change") : "no changes in this time");
    this.draw();
    this.place(this.epoch);
  }

  draw() {
    const most = Math.max(1, ...this.marks.map((mark) => Math.max(mark.begins, mark.ends)));
    const paths = { others: "", came: "", left: "", asked: "" };
    for (const mark of this.marks) {
      const x = this.x(mark).toFixed(1);
      const tall = (count) => (4 + (22 * Math.log2(1 + count)) / Math.log2(1 + most)).toFixed(1);
      if (mark.gaps || mark.others) paths.others += `M${x} ${MIDDLE - 3}v6`;
      if (mark.begins) paths.came += `M${x} ${MIDDLE}v-${tall(mark.begins)}`;
      if (mark.ends) paths.left += `M${x} ${MIDDLE}v${tall(mark.ends)}`;
      if (mark.commands) paths.asked += `M${x} 3v7`;
    }
    const { unknown } = this.timeline;
    const [from, until] = this.unknownRange();
    this.surface.replaceChildren(
      ...(unknown ? [h("rect", { class: "unknown", x: from, y: 0, width: until - from, height: HEIGHT })] : []),
      h("path", { class: "alive", d: this.curve() }),
      h("line", { x1: 0, x2: WIDTH, y1: MIDDLE, y2: MIDDLE, class: "base" }),
      ...Object.entries(paths).map(([kind, d]) => h("path", { class: kind, d })),
    );
  }

  // From where to where on the surface the past is not known, because rows of the history were lost; none: 0 to 0.
  unknownRange() {
    const { unknown } = this.timeline;
    this.legend.hidden = !unknown;
    this.legend.title = unknown?.text ?? "";
    if (!unknown) return [0, 0];
    const [from, until] = [unknown.since, unknown.until].map((at) => (at ? this.x({ eventTime: at }) : 0));
    return [Math.max(0, from), Math.min(WIDTH, Math.max(0, until))];
  }

  // The number of brokers that are up, as an area behind the marks. It begins where the past is known.
  curve() {
    const { aliveBefore } = this.timeline;
    const most = Math.max(1, aliveBefore, ...this.marks.map((mark) => mark.alive));
    const y = (count) => (HEIGHT - (HEIGHT * count) / most).toFixed(1);
    const steps = this.marks.map(
      (mark) => `H${this.x(mark).toFixed(1)}V${y(mark.leastAlive ?? mark.alive)}V${y(mark.alive)}`,
    );
    this.most.textContent = `brokers up, at most ${most.toLocaleString()}`;
    return `M${this.unknownRange()[1].toFixed(1)} ${HEIGHT}V${y(aliveBefore)}${steps.join("")}H${WIDTH}V${HEIGHT}Z`;
  }

  x(mark) {
    const [first, last] = this.range;
    return (WIDTH * (new Date(mark.eventTime) - first)) / Math.max(1, last - first);
  }

  // Index of the mark whose state was in force at an epoch, -1 before the first.
  index(epoch) {
    if (epoch === null) return this.marks.length;
    let low = 0,
      high = this.marks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.marks[middle].epoch <= epoch) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  place(epoch, time = null) {
    this.epoch = epoch;
    const at = this.index(epoch);
    const mark = this.marks[at];
    const share = epoch === null ? 1 : mark ? this.x(mark) / WIDTH : 0;
    this.handle.style.setProperty("inset-inline-start", `${100 * Math.min(1, Math.max(0, share))}%`);
    this.rail.classList.toggle("past", epoch !== null);
    this.calm();
    this.rail.setAttribute("aria-valuemin", 0);
    this.rail.setAttribute("aria-valuemax", this.marks.length);
    this.rail.setAttribute("aria-valuenow", Math.max(0, at));
    this.now.disabled = epoch === null;
    if (document.activeElement !== this.typed) {
      this.typed.value = "";
      this.typed.placeholder = epoch === null ? "snapshot or time" : `snapshot ${epoch}`;
    }
    const text = this.words(mark, at, time);
    patch(
      this.label,
      text.map((each) => (each instanceof Node ? each : document.createTextNode(each))),
    );
    this.rail.setAttribute("aria-valuetext", this.label.textContent);
  }

  words(mark, at, time) {
    if (this.epoch === null && this.stopped)
      return [h("strong", {}, "Last known state"), h("span", {}, ` — ${this.stopped}`)];
    if (this.epoch === null) return [h("strong", {}, "Now"), h("span", {}, " — updated with each change")];
    if (this.at)
      return [
        h("strong", {}, momentText(this.at)),
        h("span", {}, ` — all events until this time, the last one in snapshot ${this.epoch}`),
      ];
    const seen = mark?.epoch === this.epoch ? mark.eventTime : time;
    const next = this.marks[at + 1];
    if (this.holds(next))
      return [
        h("strong", {}, seen ? momentText(seen) : `Snapshot ${this.epoch}`),
        h("span", {}, ` — one of ${next.epochs} changes close together. The arrows show each.`),
      ];
    if (!seen)
      return [
        h("strong", {}, `Snapshot ${this.epoch}`),
        h("span", {}, next && at < 0 && this.zoomed === null ? " — before the first change on this track" : ""),
      ];
    const since =
      mark &&
      (mark.epoch === this.epoch ? eventsText(mark) : `no change since ${when(mark.eventTime)} (${eventsText(mark)})`);
    const then = next ? `; next change at ${when(next.eventTime)}` : this.zoomed === null ? "; no changes since" : "";
    return [h("strong", {}, momentText(seen)), h("span", {}, ` — ${ago(seen)}. ${mark ? since + then : ""}`)];
  }

  // Moves by a number of changes. Marks on the way that stand for several epochs are replaced by their own marks first.
  async step(by, isFinal) {
    for (let mark = this.thinned(by); mark; mark = this.thinned(by)) {
      const own = await this.expand(mark);
      if (own === null) break;
      const at = this.marks.indexOf(mark);
      if (at >= 0) this.marks.splice(at, 1, ...own);
    }
    this.stepMark(by, isFinal);
  }

  // Whether a mark stands for several epochs, and the page shows one of them that is not its last.
  holds(mark) {
    return mark?.epochs > 1 && this.epoch !== null && mark.firstEpoch <= this.epoch;
  }

  // The first mark that stands for several epochs and would be passed by a step, or is left by it.
  thinned(by) {
    if (!Number.isFinite(by)) return undefined;
    const here = this.index(this.epoch);
    if (this.holds(this.marks[here + 1])) return this.marks[here + 1];
    const passed =
      by > 0
        ? this.marks.slice(here + 1, here + 1 + by)
        : this.marks.slice(Math.max(0, here + by + 1), here + 1).reverse();
    return passed.find((mark) => mark.epochs > 1);
  }

  goTo(epoch) {
    this.stop();
    this.go(epoch >= this.newest ? null : Math.max(this.oldest, epoch), true);
  }

  stepMark(by, isFinal) {
    const at = Math.max(0, Math.min(this.marks.length, this.index(this.epoch) + by));
    this.go(at >= this.marks.length ? null : this.marks[at].epoch, isFinal);
    return at < this.marks.length;
  }

  togglePlay() {
    if (this.timer) return this.stop();
    if (this.epoch === null && this.marks.length) this.go(this.marks[0].epoch, false);
    this.play.textContent = "❚❚ Pause";
    this.timer = setInterval(() => {
      if (!this.stepMark(1, false)) this.stop();
    }, PLAY_EVERY_MS);
  }

  stop() {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶ Play";
  }

  onKey(event) {
    const steps = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageDown: -10,
      PageUp: 10,
      Home: -Infinity,
    };
    const oneEpoch = event.shiftKey ? { ArrowLeft: -1, ArrowRight: 1 }[event.key] : undefined;
    if (oneEpoch) this.goTo((this.epoch ?? this.newest) + oneEpoch);
    else if (event.key === "End") this.go(null, true);
    else if (event.key === " ") this.togglePlay();
    else if (event.key in steps) {
      this.stop();
      this.step(steps[event.key], true);
    } else return;
    event.preventDefault();
  }

  nearest(event) {
    const box = this.surface.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    if (share > 0.995) return this.marks.length;
    const x = share * WIDTH;
    let best = -1,
      distance = Infinity;
    for (let i = 0; i < this.marks.length; i += 1) {
      const away = Math.abs(this.x(this.marks[i]) - x);
      if (away < distance) {
        best = i;
        distance = away;
      }
    }
    return best;
  }

  zoom(range) {
    this.zoomed = range;
    this.onZoom();
  }

  // Begins to drag over a stretch of time.
  onBand(event) {
    if (!this.timeline) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.from = this.timeAt(event);
  }

  timeAt(event) {
    const box = this.surface.getBoundingClientRect(),
      [first, last] = this.range;
    return first + (last - first) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  }

  onDown(event) {
    if (event.shiftKey) return this.onBand(event);
    if (!this.marks.length) return;
    this.stop();
    this.rail.setPointerCapture(event.pointerId);
    this.isDragging = true;
    this.drag(event, false);
  }

  onMove(event) {
    if (this.from !== undefined) {
      const [first, last] = this.range,
        shares = [this.from, this.timeAt(event)]
          .sort((one, other) => one - other)
          .map((ms) => (100 * (ms - first)) / (last - first));
      this.band.hidden = false;
      this.band.style.insetInline = `${shares[0]}% ${100 - shares[1]}%`;
      return;
    }
    if (this.isDragging) this.drag(event, false);
    const mark = this.marks[this.nearest(event)];
    this.tip.hidden = !mark;
    if (!mark) return;
    this.tip.textContent = `${when(mark.eventTime)} · ${eventsText(mark)} · ${counted(mark.alive, "broker")} up after it`;
    const share = this.x(mark) / WIDTH;
    this.tip.style.setProperty("inset-inline-start", `${100 * share}%`);
    this.tip.style.setProperty("translate", `${-100 * share}% 0`);
  }

  onUp(event) {
    if (this.from !== undefined) {
      const range = [this.from, this.timeAt(event)].sort((one, other) => one - other).map(Math.round);
      this.from = undefined;
      this.band.hidden = true;
      if (event.type === "pointerup" && range[1] - range[0] > SHORTEST_ZOOM_MS) this.zoom(range);
      return;
    }
    if (!this.isDragging) return;
    this.isDragging = false;
    this.drag(event, true);
  }

  drag(event, isFinal) {
    const mark = this.marks[this.nearest(event)];
    const epoch = mark ? mark.epoch : null;
    if (isFinal || epoch !== this.epoch) this.go(epoch, isFinal);
  }
}
