// Words below the picture: the selected span's facts, or what takes the time in view.

const REST = 150; // milliseconds
const KINDS = [["GPU", "gpu"], ["API calls", "api"], ["Ranges", "range"]];
const SHOWN = 5; // names of each kind
const MOST_LINKS = 20;

class Facts {
  constructor(view) {
    this.view = view;
    this.list = view.part("facts");
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
    const sums = element("div", "", "timeline-sums");
    sums.append(...KINDS.map(([title, kind]) => column(view, title, kind)).filter(Boolean));
    const time = Math.min(view.to, view.trace.end) - Math.max(view.from, view.trace.begin);
    this.list.replaceChildren(element("p", `In view: ${duration(Math.max(time, 0))}`), sums);
  }

  show(span) {
    const { trace } = this.view;
    const spoken = this.view.part("live");
    if (span < 0) {
      spoken.textContent = "Nothing is selected.";
      this.whole();
      return;
    }
    const name = trace.name[span];
    const about = this.about(span);
    const others = trace.linked(span);
    const told = about.map(([term, value]) => `${term} ${value}`);
    if (others.length) told.push(`${count(others.length, "link")}, L goes there`);
    spoken.textContent = [trace.shorts[name], ...told].join("; ");
    const list = element("dl");
    for (const [term, value] of about) {
      const pair = list.appendChild(element("div"));
      pair.append(element("dt", term), element("dd", value));
    }
    const line = element("p", "", "timeline-links");
    line.append(button("Zoom to it", () => this.view.zoomTo(span)), ...others.slice(0, MOST_LINKS).map((other) => this.link(span, other)));
    if (others.length > MOST_LINKS) line.append(`and ${others.length - MOST_LINKS} more`);
    this.list.replaceChildren(element("p", trace.names[name], "timeline-name"), list, line);
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

  link(span, other) {
    const { trace } = this.view;
    const [here, there] = [span, other].map((one) => trace.lanes[trace.lane[one]].kind === "gpu");
    const later = trace.start[other] - trace.start[span];
    const line = element("span", there ? "Launched " : here ? "Launched by " : "Belongs to ");
    const jump = button(trace.shorts[trace.name[other]], () => {
      this.view.select(other);
      this.view.canvas.focus();
    });
    line.append(jump, ` ${duration(Math.abs(later))} ${later < 0 ? "before" : "later"}`);
    return line;
  }
}

// What stands before a count that merging has made uncertain.
function about(trace) {
  return trace.leftOut ? "≈ " : "";
}

// The names of a kind of lanes that take the most time in view, as a table.
function column(view, title, kind) {
  const { trace } = view;
  const sums = [...inView(view, kind)].sort(([, a], [, b]) => b.time - a.time);
  if (!sums.length) return null;
  const table = element("table");
  table.append(element("caption", title));
  for (const [name, { time, calls }] of sums.slice(0, SHOWN)) {
    const row = table.insertRow();
    const cells = [duration(time), `${about(trace)}${grouped(calls)} ×`, trace.shorts[name]];
    for (const text of cells) row.insertCell().textContent = text;
    row.title = trace.names[name];
  }
  return table;
}

// The time and the number of spans in view, by name; spans count with what is seen.
function inView({ trace, processes, from, to }, kind) {
  const sums = new Map();
  const lanes = processes.flatMap((process) => process.lanes).filter((lane) => lane.kind === kind);
  for (const { spans, starts, ends } of lanes.flatMap((lane) => lane.rows)) {
    for (let i = search(ends, from, true); i < spans.length && starts[i] < to; i++) {
      const span = spans[i];
      const end = Math.min(starts[i] + trace.length[span], to);
      const sum = sums.get(trace.name[span]) ?? { time: 0, calls: 0 };
      sum.time += Math.max(end - Math.max(starts[i], from), 0);
      sum.calls += trace.merged[span];
      sums.set(trace.name[span], sum);
    }
  }
  return sums;
}

function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function button(text, act) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

// The search by name.
class Finder {
  constructor(view) {
    this.view = view;
    this.input = view.part("input");
    this.matches = [];
    this.wanted = "";
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), 60);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      if (event.key === "Escape") {
        this.input.value = "";
        view.canvas.focus();
      }
      this.find();
      if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
    });
    view.part("previous").addEventListener("click", () => this.go(-1));
    view.part("next").addEventListener("click", () => this.go(1));
  }

  find() {
    clearTimeout(this.timer);
    const wanted = this.input.value.trim().toLowerCase();
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    const { trace } = this.view;
    const named = wanted ? trace.names.map((name) => name.toLowerCase().includes(wanted)) : null;
    let [number, total] = [0, 0];
    this.view.named = named;
    this.matches = [];
    for (let span = 0; named && span < trace.count; span++) {
      if (!named[trace.name[span]]) continue;
      this.matches.push(span);
      number += trace.merged[span];
      total += trace.length[span];
    }
    this.matches.sort((a, b) => trace.start[a] - trace.start[b]);
    this.view.part("found").textContent = wanted ? `${about(trace)}${count(number, "match", "matches")}, ${duration(total)}` : "";
    this.view.repaint();
  }

  // Selects the next match after the selected span or the beginning of the view.
  go(by) {
    const { matches, view } = this;
    if (!matches.length) return;
    const { start } = view.trace;
    let at = matches.indexOf(view.selected);
    if (at < 0) {
      const from = view.selected >= 0 ? start[view.selected] : view.from;
      at = matches.findIndex((span) => start[span] >= from);
      if (at < 0) at = matches.length;
      if (by > 0) at -= 1;
    }
    view.select(matches.at((at + by) % matches.length));
  }
}

// Begins each timeline of the page.
async function begin(figure) {
  try {
    const view = new View(figure, await unpack(figure.querySelector(".timeline-data").textContent));
    listen(view);
    figure.timeline = view;
    figure.dataset.state = "drawn";
  } catch (error) {
    figure.dataset.state = "failed";
    figure.querySelector(".timeline-facts").textContent = `The timeline cannot be drawn in this browser: ${error.message}`;
  }
}

document.querySelectorAll(".timeline").forEach(begin);
