// Words below the picture: the selected span's facts, or what takes the time in view.

const REST = 150; // milliseconds
const KINDS = [["GPU", "gpu"], ["API calls", "api"], ["Ranges", "range"]];
const SHOWN = 5; // names of each kind

class Facts {
  constructor(view) {
    this.view = view;
    this.list = view.part("facts");
    view.announce = (span) => this.show(span);
    view.listeners.push(() => this.later());
  }

  // What is in view is summed up once the view stands still.
  later() {
    const { from, to, selected } = this.view;
    if (selected >= 0 || (this.seen?.[0] === from && this.seen[1] === to)) return;
    this.seen = [from, to];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.view.selected < 0 && this.whole(), REST);
  }

  whole() {
    const { view } = this;
    const columns = KINDS.map(([title, ...kinds]) => column(view, title, kinds)).filter(Boolean);
    const box = element("div");
    box.className = "timeline-sums";
    box.append(...columns);
    const from = Math.max(view.from, view.trace.begin);
    const to = Math.min(view.to, view.trace.end);
    this.list.replaceChildren(element("p", `In view: ${duration(Math.max(to - from, 0))}`), box);
  }

  show(span) {
    const { trace } = this.view;
    this.view.part("live").textContent = span < 0 ? "Nothing is selected." : this.spoken(span);
    if (span < 0) {
      this.whole();
      return;
    }
    const name = element("p", trace.names[trace.name[span]]);
    name.className = "timeline-name";
    const zoom = button("Zoom to it", () => this.view.zoomTo(span));
    const list = element("dl");
    for (const [term, value] of this.about(span)) {
      const pair = element("div");
      pair.append(element("dt", term), element("dd", value));
      list.append(pair);
    }
    const links = this.links(span);
    const line = element("p");
    line.className = "timeline-links";
    line.append(zoom, ...links);
    this.list.replaceChildren(name, list, line);
  }

  about(span) {
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
    const facts = this.about(span).map(([term, value]) => `${term} ${value}`);
    const others = trace.linked(span).length;
    if (others) facts.push(`${count(others, "link")}, L goes there`);
    return [short(trace.names[trace.name[span]]), ...facts].join("; ");
  }
}

// What stands before a count that merging has made uncertain.
function about(trace) {
  return trace.leftOut ? "≈ " : "";
}

// The names of some kinds of lanes that take the most time in view, as a table.
function column(view, title, kinds) {
  const sums = inView(view, kinds);
  if (!sums.size) return null;
  const ordered = [...sums].sort(([, a], [, b]) => b.time - a.time);
  const table = element("table");
  table.append(element("caption", title));
  for (const [name, { time, calls }] of ordered.slice(0, SHOWN)) {
    const row = table.insertRow();
    row.insertCell().textContent = duration(time);
    row.insertCell().textContent = `${about(view.trace)}${grouped(calls)} ×`;
    const label = row.insertCell();
    label.textContent = short(view.trace.names[name]);
    label.title = view.trace.names[name];
  }
  return table;
}

// The time and the number of spans in view, by name; spans count with what is seen.
function inView(view, kinds) {
  const { trace, from, to } = view;
  const sums = new Map();
  for (const { lanes } of view.processes) {
    for (const lane of lanes) {
      if (!kinds.includes(lane.kind)) continue;
      for (const row of lane.rows) {
        const last = search(row.starts, to);
        for (let i = search(row.ends, from, true); i < last; i++) {
          const span = row.spans[i];
          const end = Math.min(trace.start[span] + trace.length[span], to);
          const name = trace.name[span];
          const sum = sums.get(name) ?? { time: 0, calls: 0 };
          sum.time += Math.max(end - Math.max(trace.start[span], from), 0);
          sum.calls += Math.max(trace.merged[span], 1);
          sums.set(name, sum);
        }
      }
    }
  }
  return sums;
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
