// Words beside the picture: the selected span's facts, and the search.

class Facts {
  constructor(view) {
    this.view = view;
    this.list = view.part("facts");
    this.hint = this.list.textContent;
    view.announce = (span) => this.show(span);
  }

  show(span) {
    const { trace } = this.view;
    this.list.textContent = span < 0 ? this.hint : "";
    this.view.part("live").textContent = span < 0 ? "Nothing is selected." : this.spoken(span);
    if (span < 0) return;
    const name = element("p", trace.names[trace.name[span]]);
    name.className = "timeline-name";
    const zoom = button("Zoom to it", () => this.view.zoomTo(span));
    const list = element("dl");
    for (const [term, value] of this.of(span)) {
      const pair = element("div");
      pair.append(element("dt", term), element("dd", value));
      list.append(pair);
    }
    const links = this.links(span);
    const line = element("p");
    line.className = "timeline-links";
    line.append(zoom, ...links);
    this.list.append(name, list, line);
  }

  of(span) {
    const { trace } = this.view;
    const lane = trace.lanes[trace.lane[span]];
    const merged = trace.merged[span];
    return [
      ["duration", duration(trace.length[span])],
      ["start", moment(trace.start[span])],
      ...(merged > 1 ? [["stands for", `${count(merged, "span")}, too close together to be kept apart`]] : []),
      ["where", `${lane.process}, ${lane.title}`],
      ...trace.notes[trace.facts[span]],
    ];
  }

  links(span) {
    const { trace } = this.view;
    const others = trace.linked(span);
    const parts = others.slice(0, 20).map((other) => {
      const [before, after] = trace.start[other] < trace.start[span] ? [other, span] : [span, other];
      const kinds = [span, other].map((one) => trace.lanes[trace.lane[one]].kind);
      const how = kinds[1] === "gpu" ? "Launched" : kinds[0] === "gpu" ? "Launched by" : "Belongs to";
      const later = duration(trace.start[after] - trace.start[before]);
      const line = element("span", `${how} `);
      const jump = button(short(trace.names[trace.name[other]]), () => {
        this.view.select(other);
        this.view.canvas.focus();
      });
      line.append(jump, ` ${other === after ? `${later} later` : `${later} before`}`);
      return line;
    });
    if (others.length > 20) parts.push(element("span", `and ${others.length - 20} more`));
    return parts;
  }

  spoken(span) {
    const { trace } = this.view;
    const facts = this.of(span).map(([term, value]) => `${term} ${value}`);
    const others = trace.linked(span).length;
    if (others) facts.push(`${count(others, "link")}, L goes there`);
    return [short(trace.names[trace.name[span]]), ...facts].join("; ");
  }
}

class Finder {
  constructor(view) {
    this.view = view;
    view.finder = this;
    this.input = view.part("input");
    this.lower = null;
    this.matches = null;
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), 60);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        this.find();
        this.go(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.input.value = "";
        this.find();
        view.canvas.focus();
      } else return;
      event.preventDefault();
    });
    view.part("previous").addEventListener("click", () => this.go(-1));
    view.part("next").addEventListener("click", () => this.go(1));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  find() {
    clearTimeout(this.timer);
    const wanted = this.input.value.trim().toLowerCase();
    if (wanted === (this.wanted ?? "")) return;
    this.wanted = wanted;
    const { trace, processes } = this.view;
    this.lower ??= trace.names.map((name) => name.toLowerCase());
    const named = wanted ? Uint8Array.from(this.lower, (name) => Number(name.includes(wanted))) : null;
    for (const process of processes) {
      for (const lane of process.lanes) for (const row of lane.rows) row.found = named && this.inRow(row, named);
    }
    let number = 0;
    let total = 0;
    const matches = [];
    for (let i = 0; named && i < trace.count; i++) {
      if (!named[trace.name[i]]) continue;
      matches.push(i);
      number += Math.max(trace.merged[i], 1);
      total += trace.length[i];
    }
    this.matches = Uint32Array.from(matches).sort((a, b) => trace.start[a] - trace.start[b] || a - b);
    this.view.part("found").textContent = wanted ? `${count(number, "match").replace(/matchs$/, "matches")}, ${duration(total)}` : "";
    this.view.repaint();
  }

  inRow(row, named) {
    const sums = new Uint32Array(row.spans.length + 1);
    row.spans.forEach((span, i) => (sums[i + 1] = sums[i] + named[this.view.trace.name[span]]));
    return { sums, names: named };
  }

  // Selects the next match after the selected span or the beginning of the view.
  go(by) {
    const { matches, view } = this;
    if (!matches?.length) return;
    const { start } = view.trace;
    let at = matches.indexOf(view.selected);
    if (at >= 0) at = (at + by + matches.length) % matches.length;
    else {
      const from = view.selected >= 0 ? start[view.selected] : view.from;
      at = matches.findIndex((span) => start[span] >= from);
      if (by < 0) at = (at < 0 ? matches.length : at) - 1;
      if (at < 0) at = by < 0 ? matches.length - 1 : 0;
    }
    view.select(matches[at]);
  }
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function button(text, act) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
