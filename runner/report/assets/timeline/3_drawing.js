// Drawing a view of a trace on a canvas.

const AXIS = 26;
const FONT = "12px system-ui, sans-serif";
const WIDE = 2; // pixels from which on a span is drawn by itself
const SHADES = [0.6, 0.75, 0.9, 1];

class Painter {
  constructor(trace, processes) {
    Object.assign(this, { trace, processes, hue: palette(trace) });
  }

  // `scene` has: width, height, gutter, from, to, top, selected, named, drag, colours.
  paint(context, scene) {
    Object.assign(this, { context, ...scene });
    this.scale = (this.width - this.gutter) / (this.to - this.from);
    context.font = FONT;
    context.textBaseline = "middle";
    this.rect(this.colours.ground, 0, 0, this.width, this.height);
    this.found = ticks(this.from, this.to, 110 / this.scale);
    this.inside(0, AXIS, this.width, this.height - AXIS, () => this.lanes());
    this.axis();
    this.range();
  }

  x(time) {
    return this.gutter + (time - this.from) * this.scale;
  }

  y(place) {
    return AXIS + place - this.top;
  }

  inside(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  rect(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  // As much of a text as is narrower than `most`; nothing if that is hardly any.
  text(text, x, y, most, colour = this.colours.ink) {
    const wide = this.context.measureText(text).width;
    const characters = Math.floor((text.length * most) / wide) - 2;
    if (wide > most && characters < 2) return;
    this.context.fillStyle = colour;
    this.context.fillText(wide > most ? `${text.slice(0, characters)}…` : text, x, y);
  }

  label(span) {
    const label = this.trace.shorts[this.trace.name[span]];
    const merged = this.trace.merged[span];
    return merged > 1 ? `${grouped(merged)} × ${label}` : label;
  }

  colour(span, shown) {
    return shown ? this.colours.spans[this.hue[this.trace.name[span]]] : this.colours.faint;
  }

  lanes() {
    const { context, colours, gutter, width, height } = this;
    this.seen((lane) => this.rect(colours.band, 0, this.y(lane.y) - 2, width, lane.bottom - lane.y + 4));
    this.inside(gutter, AXIS, width - gutter, height, () => {
      for (const [at] of this.found.places) this.rect(colours.line, Math.round(this.x(at)), AXIS, 1, height);
      this.each((row, y) => this.row(row, y));
    });
    context.font = `600 ${FONT}`;
    for (const { title, y } of this.processes) this.text(title, 8, this.y(y) + SIZES.process / 2, width - 16);
    context.font = FONT;
    this.seen((lane) => {
      const y = this.y(lane.y);
      if (gutter) this.text(lane.title, 16, y + SIZES.span / 2, gutter - 26, colours.quiet);
      else this.text(lane.title, 8, y + SIZES.title / 2, width - 16, colours.quiet);
    });
    if (gutter) this.rect(colours.line, gutter - 1, AXIS, 1, height);
  }

  // Calls draw with each lane that can be seen.
  seen(draw) {
    for (const { lanes } of this.processes) {
      for (const lane of lanes) if (this.y(lane.bottom) >= AXIS && this.y(lane.y) <= this.height) draw(lane);
    }
  }

  // Calls draw with each row that can be seen, and its place.
  each(draw) {
    this.seen((lane) =>
      lane.rows.forEach((row, number) => {
        const y = this.y(lane.top + number * SIZES.span);
        if (y > AXIS - SIZES.span && y < this.height) draw(row, y);
      }),
    );
  }

  // Spans too narrow to be seen are drawn as one for each pixel, darker the busier it
  // was, and neighbours alike at once: a frame costs pixels, however many spans.
  row(row, y) {
    const { starts, ends, spans } = row;
    const { scale, from, to, gutter, context, named } = this;
    const { name, length } = this.trace;
    const tall = SIZES.span - 2;
    let [since, until, style, shade] = [0, -1, null, 0];
    const flush = () => {
      if (style === null) return;
      context.globalAlpha = SHADES[shade];
      this.rect(style, since, y, until - since, tall);
      context.globalAlpha = 1;
      style = null;
    };
    for (let i = search(ends, from, true); i < spans.length && starts[i] < to; ) {
      const x = gutter + (starts[i] - from) * scale;
      if (length[spans[i]] * scale >= WIDE) {
        flush();
        this.span(spans[i], x, y, tall);
        i++;
        continue;
      }
      const pixel = Math.floor(x);
      const edge = from + (pixel + 1 - gutter) / scale;
      let [main, time, shown] = [spans[i], 0, !named];
      do {
        const span = spans[i];
        time += length[span];
        if (length[span] > length[main]) main = span;
        if (named?.[name[span]]) shown = true;
        i++;
      } while (i < spans.length && starts[i] < edge && length[spans[i]] * scale < WIDE);
      const colour = this.colour(main, shown);
      const level = Math.floor(Math.min(time * scale, 1) * 3.99);
      if (colour !== style || level !== shade || pixel > until) {
        flush();
        [since, style, shade] = [pixel, colour, level];
      }
      until = pixel + 1;
    }
    flush();
    if (this.selected >= 0 && holds(row, this.selected)) this.outline(this.selected, y, tall);
  }

  span(span, x, y, tall) {
    const { gutter, width, colours } = this;
    const wide = this.trace.length[span] * this.scale;
    const shown = !this.named || this.named[this.trace.name[span]];
    const left = Math.max(x, gutter - 2);
    const right = Math.min(x + wide, width + 2);
    this.rect(this.colour(span, shown), left, y, right - left - (wide > 4 ? 1 : 0), tall);
    if (this.trace.merged[span] > 1) this.rect(colours.mark, left, y + tall - 3, right - left - 1, 3);
    const begin = Math.max(left, gutter);
    if (right - begin > 28) {
      this.text(this.label(span), begin + 4, y + tall / 2 + 1, right - begin - 8, shown ? colours.label : colours.quiet);
    }
  }

  outline(span, y, tall) {
    const x = this.x(this.trace.start[span]);
    const left = Math.max(x, this.gutter - 4);
    const right = Math.min(x + Math.max(this.trace.length[span] * this.scale, 4), this.width + 4);
    this.context.strokeStyle = this.colours.ink;
    this.context.lineWidth = 2;
    if (right >= left) this.context.strokeRect(left, y, right - left, tall);
  }

  // The lane of a span, and the number of its row.
  place(span) {
    const number = this.trace.lane[span];
    const lane = this.processes.flatMap((process) => process.lanes).find((one) => one.number === number);
    return [lane, lane.rows.findIndex((row) => holds(row, span))];
  }

  axis() {
    const { colours, gutter, width } = this;
    const { places, origin } = this.found;
    this.rect(colours.ground, 0, 0, width, AXIS);
    this.rect(colours.line, 0, AXIS - 1, width, 1);
    if (gutter) this.text(origin || "time", 8, AXIS / 2, gutter - 16, colours.quiet);
    this.inside(gutter, 0, width - gutter, AXIS, () => {
      for (const [at, label] of places) {
        const x = Math.round(this.x(at));
        this.rect(colours.quiet, x, AXIS - 6, 1, 5);
        this.text(label, x + 4, AXIS / 2 - 1, 106, colours.quiet);
      }
      if (!gutter) this.text(origin, 4, AXIS / 2 - 1, 120);
    });
  }

  // The range that Shift and the mouse mark.
  range() {
    if (!this.drag) return;
    const [from, to] = this.drag;
    const left = Math.max(this.x(from), this.gutter);
    this.rect(this.colours.veil, left, AXIS, this.x(to) - left, this.height);
    this.text(duration(to - from), left + 6, AXIS + 12, 200);
  }

  // The span at a place of the canvas, or nearly; -1 if there is none.
  at(x, y) {
    if (y < AXIS || x < this.gutter) return -1;
    const time = this.from + (x - this.gutter) / this.scale;
    let [hit, least] = [-1, 4 / this.scale];
    this.each(({ spans, starts, ends }, top) => {
      if (y < top || y >= top + SIZES.span) return;
      const next = search(starts, time, true);
      for (const place of [next - 1, next]) {
        const away = Math.max(starts[place] - time, time - ends[place], 0);
        if (away < least) [hit, least] = [spans[place], away];
      }
    });
    return hit;
  }
}
