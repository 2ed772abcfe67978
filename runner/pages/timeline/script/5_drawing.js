// Drawing a view of a trace on a canvas.

const AXIS = 26;
const FONT = "12px system-ui, sans-serif";
const BOLD = "600 12px system-ui, sans-serif";
const WIDE = 2; // pixels from which on a span is drawn by itself
const SHADES = [0.6, 0.75, 0.9, 1];

class Painter {
  constructor(trace, processes, hue) {
    Object.assign(this, { trace, processes, hue });
    this.shorts = new Map();
  }

  // `scene` has: width, height, gutter, narrow, from, to, top, selected, drag, colours.
  paint(context, scene) {
    Object.assign(this, { context, ...scene });
    this.scale = (this.width - this.gutter) / (this.to - this.from);
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = this.colours.ground;
    context.fillRect(0, 0, this.width, this.height);
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

  text(text, x, y, most, colour = this.colours.ink) {
    const fitting = this.fitting(text, most);
    if (!fitting) return;
    this.context.fillStyle = colour;
    this.context.fillText(fitting, x, y);
  }

  // As much of a text as is narrower than `most`; "" if that is hardly any.
  fitting(text, most) {
    const wide = this.context.measureText(text).width;
    if (wide <= most) return text;
    const characters = Math.floor((text.length * most) / wide) - 2;
    return characters < 2 ? "" : `${text.slice(0, characters)}…`;
  }

  label(span) {
    const name = this.trace.name[span];
    let label = this.shorts.get(name);
    if (label === undefined) this.shorts.set(name, (label = short(this.trace.names[name])));
    const merged = this.trace.merged[span];
    return merged > 1 ? `${grouped(merged)} × ${label}` : label;
  }

  lanes() {
    const { context, colours, gutter, width, height } = this;
    for (const process of this.processes) {
      for (const lane of process.lanes) {
        const y = this.y(lane.y);
        const bottom = this.y(lane.bottom);
        if (bottom < AXIS || y > height) continue;
        this.rect(colours.band, 0, y - 2, width, bottom - y + 4);
      }
    }
    this.inside(gutter, AXIS, width - gutter, height, () => {
      for (const [at] of this.found.places) this.rect(colours.line, Math.round(this.x(at)), AXIS, 1, height);
      this.each((row, y) => this.row(row, y));
    });
    for (const process of this.processes) {
      const y = this.y(process.y);
      if (y < height && y > -SIZES.process) {
        context.font = BOLD;
        this.text(process.title, 8, y + SIZES.process / 2, width - 16);
        context.font = FONT;
      }
      for (const lane of process.lanes) this.title(lane);
    }
    if (gutter) this.rect(colours.line, gutter - 1, AXIS, 1, height);
  }

  title(lane) {
    const y = this.y(lane.y);
    if (this.y(lane.bottom) < AXIS || y > this.height) return;
    if (!this.gutter) {
      this.text(lane.title, 8, y + SIZES.title / 2, this.width - 16, this.colours.quiet);
    } else {
      this.text(lane.title, 16, y + SIZES.span / 2, this.gutter - 26, this.colours.quiet);
    }
  }

  // Calls draw with each row that can be seen, and its place.
  each(draw) {
    for (const process of this.processes) {
      for (const lane of process.lanes) {
        if (this.y(lane.bottom) < AXIS || this.y(lane.y) > this.height) continue;
        lane.rows.forEach((row, number) => {
          const y = this.y(lane.top + number * SIZES.span);
          if (y > AXIS - SIZES.span && y < this.height) draw(row, y);
        });
      }
    }
  }

  // Spans too narrow to be seen are drawn as one for each pixel, darker the busier it
  // was, and neighbours alike at once: a frame costs pixels, however many spans.
  row(row, y) {
    const { starts, ends, sums, spans, found } = row;
    const { scale, from, to, gutter, context } = this;
    const { name } = this.trace;
    const selected = this.selected;
    const tall = SIZES.span - 2;
    let drawn = -1;
    let since = 0;
    let until = -1;
    let style = null;
    let shade = 0;
    const flush = () => {
      if (style === null) return;
      context.globalAlpha = SHADES[shade];
      context.fillStyle = style;
      context.fillRect(since, y, until - since, tall);
      style = null;
    };
    for (let i = search(ends, from, true); i < spans.length && starts[i] < to; ) {
      const span = spans[i];
      const x = gutter + (starts[i] - from) * scale;
      const wide = this.trace.length[span] * scale;
      if (wide >= WIDE) {
        flush();
        this.span(span, x, y, wide, tall, found);
        i++;
        continue;
      }
      const pixel = Math.floor(x);
      let next = search(starts, from + (pixel + 1 - gutter) / scale, false, i + 1);
      if (next > i + 1 && this.trace.length[spans[next - 1]] * scale >= WIDE) next--;
      let main = span;
      for (let k = i + 1, end = Math.min(next, i + 8); k < end; k++) {
        if (this.trace.length[spans[k]] > this.trace.length[main]) main = spans[k];
      }
      const shown = !found || found.sums[next] > found.sums[i];
      const colour = (shown ? this.colours.spans : this.colours.faint)[this.hue[name[main]]];
      const busy = Math.min((sums[next] - sums[i]) * scale, 1);
      const level = Math.floor(busy * 3.99);
      if (colour !== style || level !== shade || pixel > until) {
        flush();
        [since, style, shade] = [pixel, colour, level];
      }
      until = pixel + 1;
      i = next;
    }
    flush();
    context.globalAlpha = 1;
    if (selected >= 0 && row.holds(selected)) this.outline(selected, y, tall);
  }

  span(span, x, y, wide, tall, found) {
    const { context, gutter, width } = this;
    const shown = !found || found.names[this.trace.name[span]];
    const left = Math.max(x, gutter - 2);
    const right = Math.min(x + wide, width + 2);
    context.globalAlpha = 1;
    context.fillStyle = (shown ? this.colours.spans : this.colours.faint)[this.hue[this.trace.name[span]]];
    context.fillRect(left, y, right - left - (wide > 4 ? 1 : 0), tall);
    if (this.trace.merged[span] > 1) this.rect(this.colours.mark, left, y + tall - 3, right - left - 1, 3);
    const room = right - Math.max(left, gutter) - 8;
    if (room > 20) {
      this.text(this.label(span), Math.max(left, gutter) + 4, y + tall / 2 + 1, room, shown ? this.colours.label : this.colours.quiet);
    }
  }

  outline(span, y, tall) {
    const x = this.x(this.trace.start[span]);
    const wide = Math.max(this.trace.length[span] * this.scale, 4);
    const left = Math.max(x, this.gutter - 4);
    const right = Math.min(x + wide, this.width + 4);
    if (right < left) return;
    this.context.strokeStyle = this.colours.ink;
    this.context.lineWidth = 2;
    this.context.strokeRect(left, y, right - left, tall);
  }

  middle(span) {
    const [lane, row] = this.place(span);
    return this.y(lane.top + (row + 0.5) * SIZES.span) - 1;
  }

  // The lane of a span, and the number of its row.
  place(span) {
    const number = this.trace.lane[span];
    const lane = this.processes.flatMap((process) => process.lanes).find((one) => one.number === number);
    return [lane, lane.rows.findIndex((row) => row.holds(span))];
  }

  axis() {
    const { colours, gutter, width } = this;
    this.rect(colours.ground, 0, 0, width, AXIS);
    this.rect(colours.line, 0, AXIS - 1, width, 1);
    const { places, origin } = this.found;
    if (gutter) {
      this.text(origin || "time", 8, AXIS / 2, gutter - 16, colours.quiet);
    }
    this.inside(gutter, 0, width - gutter, AXIS, () => {
      for (const [at, label] of places) {
        const x = Math.round(this.x(at));
        this.rect(colours.quiet, x, AXIS - 6, 1, 5);
        this.text(label, x + 4, AXIS / 2 - 1, 106, colours.quiet);
      }
      if (!gutter && origin) this.text(origin, 4, AXIS / 2 - 1, 120, colours.ink);
    });
  }

  // The range that shift and the mouse mark.
  range() {
    if (!this.drag) return;
    const [from, to] = this.drag;
    const left = Math.max(this.x(from), this.gutter);
    const wide = this.x(to) - left;
    this.rect(this.colours.veil, left, AXIS, wide, this.height);
    this.text(duration(to - from), left + 6, AXIS + 12, 200);
  }

  // The span at a place of the canvas, or nearly; -1 if there is none.
  at(x, y) {
    if (y < AXIS || x < this.gutter) return -1;
    const time = this.from + (x - this.gutter) / this.scale;
    const near = 4 / this.scale;
    let hit = -1;
    this.each((row, top) => {
      if (y < top || y >= top + SIZES.span) return;
      const place = search(row.starts, time, true) - 1;
      if (place >= 0 && time < row.ends[place]) hit = row.spans[place];
      else if (place >= 0 && time - row.ends[place] < near) hit = row.spans[place];
      if (place + 1 < row.spans.length && time >= (place < 0 ? 0 : row.ends[place]) && row.starts[place + 1] - time < near) {
        if (hit < 0 || row.starts[place + 1] - time < time - row.ends[place]) hit = row.spans[place + 1];
      }
    });
    return hit;
  }
}
