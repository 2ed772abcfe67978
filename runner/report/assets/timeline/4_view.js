// What of a trace is seen, which span is selected, and the whole in little above it.

const LEAST = 20; // the shortest time that is shown, in nanoseconds
const MARGIN = 0.02;
const OVERVIEW = 44;
const PAPER = 1000; // the width of a printed picture, before it is fitted to the paper

class View {
  constructor(figure, trace) {
    const part = (name) => figure.querySelector(`.timeline-${name}`);
    const processes = arrange(trace);
    Object.assign(this, { figure, part, trace, processes, selected: -1, named: null, drag: null, top: 0, paper: false });
    this.alone = figure.classList.contains("timeline-alone");
    this.canvas = part("canvas");
    this.overview = part("overview");
    this.painter = new Painter(trace, processes);
    this.facts = new Facts(this);
    this.finder = new Finder(this);
    [this.from, this.to] = this.work();
    this.colours = colours(part("view"));
    this.resize();
    new ResizeObserver(() => this.paper || this.resize()).observe(part("stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.print(false));
    // A printed page shows the view that was open, on white and with all lanes.
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
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

  print(paper) {
    this.paper = paper;
    // Before it prints a browser does not know yet that paper is white.
    this.figure.style.colorScheme = paper ? "light" : "";
    this.colours = colours(this.part("view"));
    this.resize();
  }

  resize() {
    const stage = this.part("stage");
    this.width = this.paper ? PAPER : Math.max(stage.clientWidth, 50);
    const narrow = this.width < 640;
    this.gutter = narrow ? 0 : Math.round(Math.min(this.width * 0.22, 230));
    this.tall = AXIS + stack(this.processes, narrow) + 6;
    if (!this.alone) stage.style.height = `${Math.max(Math.min(this.tall, window.innerHeight * 0.7), 120)}px`;
    this.height = this.paper ? Math.min(this.tall, 2400) : Math.max(stage.clientHeight, 60);
    this.ratio = this.paper ? 2 : Math.min(window.devicePixelRatio || 1, 3);
    for (const [canvas, height] of [[this.canvas, this.height], [this.overview, OVERVIEW]]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
      canvas.style.height = `${height}px`;
    }
    this.canvas.style.touchAction = this.tall > this.height ? "none" : "pan-y";
    this.little = null;
    this.scroll(0);
    this.paint();
  }

  repaint() {
    this.asked ??= requestAnimationFrame(() => this.paint());
  }

  context(canvas) {
    const context = canvas.getContext("2d", { alpha: false });
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    return context;
  }

  paint() {
    if (this.asked) cancelAnimationFrame(this.asked);
    this.asked = null;
    const { width, height, gutter, from, to, top, selected, named, drag, colours } = this;
    this.painter.paint(this.context(this.canvas), { width, height, gutter, from, to, top, selected, named, drag, colours });
    const [begin, end] = this.whole();
    const scale = (width - gutter) / (end - begin);
    this.little ??= this.paintWhole(begin, scale);
    const context = this.context(this.overview);
    context.drawImage(this.little, 0, 0, width, OVERVIEW);
    const left = gutter + (from - begin) * scale;
    const right = Math.max(gutter + (to - begin) * scale, left + 2);
    context.fillStyle = colours.veil;
    context.fillRect(gutter, 0, left - gutter, OVERVIEW);
    context.fillRect(right, 0, width - right, OVERVIEW);
    context.strokeStyle = colours.ink;
    context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 1), OVERVIEW - 1);
    this.facts.later();
  }

  // The first row of each lane, darker the busier: GPUs above, calls and ranges below.
  paintWhole(begin, scale) {
    const { width, gutter, colours } = this;
    const canvas = document.createElement("canvas");
    canvas.width = this.overview.width;
    canvas.height = this.overview.height;
    const context = this.context(canvas);
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = colours.ground;
    context.fillRect(0, 0, width, OVERVIEW);
    const half = OVERVIEW / 2;
    for (const lane of this.processes.flatMap((process) => process.lanes)) {
      const gpu = lane.kind === "gpu";
      const { starts, ends } = lane.rows[0];
      context.fillStyle = colours.spans[gpu ? 0 : 1];
      for (let i = 0; i < starts.length; ) {
        const pixel = Math.floor((starts[i] - begin) * scale);
        let busy = 0;
        do busy += (ends[i] - starts[i]) * scale;
        while (++i < starts.length && starts[i] < begin + (pixel + 1) / scale);
        context.globalAlpha = Math.min(Math.max(busy, 0.2), 1);
        context.fillRect(gutter + pixel, gpu ? 2 : half + 2, Math.max(busy, 1), half - 4);
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.quiet;
    if (gutter) ["GPUs, whole", "Calls, whole"].forEach((title, i) => context.fillText(title, 8, (i + 0.5) * half));
    return canvas;
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

  // Zooms so that what is at a time stays where it is.
  zoom(factor, fixed = (this.from + this.to) / 2) {
    const [begin, end] = this.whole();
    const within = Math.min(Math.max(factor, LEAST / (this.to - this.from)), (end - begin) / (this.to - this.from));
    this.show(fixed - (fixed - this.from) * within, fixed + (this.to - fixed) * within);
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
    this.facts.show(span);
    if (span >= 0) this.reveal(span);
    this.repaint();
  }

  // Moves the view, if it must, to where a span is.
  reveal(span) {
    const { start, length } = this.trace;
    const seen = this.to - this.from;
    if (start[span] + length[span] < this.from || start[span] > this.to) {
      const middle = start[span] + Math.min(length[span], seen) / 2;
      this.show(middle - seen / 2, middle + seen / 2);
    }
    const [lane, row] = this.painter.place(span);
    const above = lane.top + row * SIZES.span - SIZES.process;
    const below = lane.top + (row + 1) * SIZES.span + SIZES.gap - (this.height - AXIS);
    if (above < this.top) this.scroll(above - this.top);
    else if (below > this.top) this.scroll(below - this.top);
  }

  // Selects the span after the selected one (or before), through the lanes as they are
  // drawn; at first the first that is seen, from above.
  step(by) {
    const lanes = this.processes.flatMap((process) => process.lanes);
    let span = this.selected + by;
    if (this.selected < 0) {
      const rows = lanes.flatMap((lane) => lane.rows);
      const seen = rows.map(({ spans, starts, ends }) => {
        const place = search(ends, this.from, true);
        return starts[place] < this.to ? spans[place] : -1;
      });
      span = seen.find((one) => one >= 0);
    } else if (this.trace.lane[span] !== this.trace.lane[this.selected]) {
      const at = lanes.findIndex((lane) => lane.number === this.trace.lane[this.selected]);
      const lane = lanes[at + by];
      span = lane && (by > 0 ? lane.first : lane.first + lane.size - 1);
    }
    if (span !== undefined) this.select(span);
  }
}
