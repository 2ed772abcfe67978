// What of a trace is seen, and which span is selected.

const LEAST = 20; // the shortest time that is shown, in nanoseconds
const MARGIN = 0.02;

class View {
  constructor(figure, trace) {
    const part = (name) => figure.querySelector(`.timeline-${name}`);
    Object.assign(this, { figure, part, trace });
    this.canvas = part("canvas");
    this.overview = part("overview");
    this.processes = arrange(trace);
    this.painter = new Painter(trace, this.processes, palette(trace));
    this.selected = -1;
    this.drag = null;
    this.top = 0;
    this.paper = false;
    this.listeners = [];
    [this.from, this.to] = this.work();
    this.recolour();
    this.resize();
    new ResizeObserver(() => this.paper || this.resize()).observe(part("stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
  }

  whole() {
    const { begin, end } = this.trace;
    const margin = Math.max((end - begin) * MARGIN, LEAST);
    return [begin - margin, end + margin];
  }

  // When the GPUs work, which is what one looks for; all, if there is no GPU.
  work() {
    const { start, length, lanes } = this.trace;
    let [from, to] = [Infinity, -Infinity];
    for (const { kind, first, size } of lanes) {
      for (let i = first; kind === "gpu" && i < first + size; i++) {
        from = Math.min(from, start[i]);
        to = Math.max(to, start[i] + length[i]);
      }
    }
    const margin = Math.max((to - from) * MARGIN, LEAST);
    return to > from ? [from - margin, to + margin] : this.whole();
  }

  recolour() {
    this.colours = colours(this.part("view"));
    this.painted = null;
    this.repaint();
  }

  resize(width = this.part("stage").clientWidth) {
    const print = this.paper;
    this.narrow = width < 640;
    this.gutter = this.narrow ? 0 : Math.round(Math.min(width * 0.22, 230));
    this.tall = AXIS + stack(this.processes, this.narrow) + 6;
    const stage = this.part("stage");
    const alone = this.figure.classList.contains("timeline-alone");
    if (!alone) {
      const tall = `${Math.max(Math.min(this.tall, window.innerHeight * 0.7), 120)}px`;
      if (stage.style.height !== tall) stage.style.height = tall;
    }
    this.width = Math.max(width, 50);
    this.height = print ? Math.min(this.tall, 2400) : Math.max(stage.clientHeight, 60);
    this.ratio = print ? 2 : Math.min(window.devicePixelRatio || 1, 3);
    for (const [canvas, height] of [[this.canvas, this.height], [this.overview, OVERVIEW]]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
      canvas.style.height = `${height}px`;
    }
    this.canvas.style.touchAction = this.tall > this.height ? "none" : "pan-y";
    this.scroll(0);
    this.painted = null;
    this.paint();
  }

  repaint() {
    this.asked ??= requestAnimationFrame(() => this.paint());
  }

  paint() {
    if (this.asked) cancelAnimationFrame(this.asked);
    this.asked = null;
    const context = this.canvas.getContext("2d", { alpha: false });
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const { width, height, gutter, narrow, from, to, top, selected, drag } = this;
    this.painter.paint(context, { width, height, gutter, narrow, from, to, top, selected, drag, colours: this.colours });
    paintOverview(this);
    this.listeners.forEach((listener) => listener());
  }

  // Shows the time between two points, as far as there is any.
  show(from, to) {
    const [begin, end] = this.whole();
    const span = Math.min(Math.max(to - from, LEAST), end - begin);
    this.from = Math.min(Math.max((from + to - span) / 2, begin), end - span);
    this.to = this.from + span;
    this.repaint();
  }

  time(x) {
    return this.from + ((x - this.gutter) / (this.width - this.gutter)) * (this.to - this.from);
  }

  // Zooms so that what is at a place stays there; the place is a share of the view.
  zoom(factor, place = 0.5) {
    const [begin, end] = this.whole();
    const span = Math.min(Math.max((this.to - this.from) * factor, LEAST), end - begin);
    const fixed = this.from + (this.to - this.from) * place;
    this.show(fixed - span * place, fixed + span * (1 - place));
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  scroll(by) {
    this.top = Math.min(Math.max(this.top + by, 0), Math.max(this.tall - this.height, 0));
    this.repaint();
  }

  fit() {
    this.show(...this.whole());
  }

  zoomTo(span) {
    const { start, length } = this.trace;
    const room = Math.max(length[span], LEAST) * 0.4;
    this.show(start[span] - room, start[span] + length[span] + room);
  }

  select(span) {
    this.selected = span;
    this.announce(span);
    if (span >= 0) this.reveal(span);
    this.repaint();
  }

  // Moves the view, if it must, to where a span is.
  reveal(span) {
    const { start, length } = this.trace;
    const { from, to } = this;
    if (start[span] + length[span] < from || start[span] > to) {
      const middle = start[span] + Math.min(length[span], to - from) / 2;
      this.show(middle - (to - from) / 2, middle + (to - from) / 2);
    }
    const [lane, row] = this.painter.place(span);
    const y = lane.top + row * SIZES.span;
    const room = this.height - AXIS;
    if (y - SIZES.process < this.top) this.scroll(y - SIZES.process - this.top);
    else if (y + SIZES.span + SIZES.gap > this.top + room) this.scroll(y + SIZES.span + SIZES.gap - this.top - room);
  }

  // The span after one (or before), through the lanes as they are drawn; -1 at the end.
  neighbour(span, by) {
    const lanes = this.processes.flatMap((process) => process.lanes);
    const at = lanes.findIndex((lane) => lane.number === this.trace.lane[span]);
    const { first, size } = lanes[at];
    if (span + by >= first && span + by < first + size) return span + by;
    const lane = lanes[at + by];
    return lane ? (by > 0 ? lane.first : lane.first + lane.size - 1) : -1;
  }

  // The first span that is seen, from above.
  first() {
    for (const process of this.processes) {
      for (const lane of process.lanes) {
        for (const row of lane.rows) {
          const place = search(row.ends, this.from, true);
          if (place < row.spans.length && row.starts[place] < this.to) return row.spans[place];
        }
      }
    }
    return -1;
  }
}
