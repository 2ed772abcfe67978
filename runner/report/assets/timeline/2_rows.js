// Where the spans of a trace are drawn, rows in lanes below their process, and how.

const DEEPEST = 24; // rows of a lane; what is nested deeper is drawn in the last one
const SIZES = { span: 20, gap: 8, process: 28, title: 18 };

function arrange(trace) {
  const processes = new Map();
  trace.lanes.forEach((lane, number) => {
    if (!lane.size) return;
    const lanes = processes.get(lane.process) ?? [];
    lanes.push({ ...lane, number, rows: rowsOf(trace, lane) });
    processes.set(lane.process, lanes);
  });
  const order = { gpu: 0, range: 1, api: 2 };
  return [...processes].map(([title, lanes]) => ({
    title,
    lanes: lanes.sort((a, b) => order[a.kind] - order[b.kind] || a.number - b.number),
  }));
}

// Puts each span of a lane into the first row that is free when it starts, so that a
// call lies below the one that made it. The ends of a row never fall.
function rowsOf({ start, length }, { first, size }) {
  const free = [];
  const rows = [];
  for (let span = first; span < first + size; span++) {
    let row = free.findIndex((end) => end <= start[span]);
    if (row < 0) row = Math.min(free.length, DEEPEST - 1);
    free[row] = Math.max(free[row] ?? 0, start[span] + length[span]);
    const { spans, ends } = (rows[row] ??= { spans: [], ends: [] });
    spans.push(span);
    ends.push(free[row]);
  }
  return rows.map(({ spans, ends }) => ({ spans, ends, starts: Float64Array.from(spans, (span) => start[span]) }));
}

// The first place from which on values are at least (or, `above`, over) a bound.
function search(values, bound, above = false) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (above ? values[middle] > bound : values[middle] >= bound) high = middle;
    else low = middle + 1;
  }
  return low;
}

function holds(row, span) {
  return row.spans[search(row.spans, span)] === span;
}

// Gives every process and lane its place from the top; returns the whole height.
function stack(processes, narrow) {
  let y = 0;
  for (const process of processes) {
    process.y = y;
    y += SIZES.process;
    for (const lane of process.lanes) {
      lane.y = y;
      lane.top = y + (narrow ? SIZES.title : 0);
      lane.bottom = lane.top + lane.rows.length * SIZES.span;
      y = lane.bottom + SIZES.gap;
    }
  }
  return y;
}

// The names that take the most time have a colour of their own each.
const HUES = [255, 55, 150, 320, 95, 200, 25, 290, 125, 230, 350, 75];

function palette({ names, name, length }) {
  const totals = new Float64Array(names.length);
  name.forEach((number, span) => (totals[number] += length[span]));
  const hue = new Uint8Array(names.length).fill(HUES.length); // of those that wait
  const order = [...names.keys()].filter((number) => !/synchroni[sz]e|\bwait/i.test(names[number]));
  order.sort((a, b) => totals[b] - totals[a]);
  order.forEach((number, rank) => (hue[number] = rank % HUES.length));
  return hue;
}

// The colours of the theme that holds for an element, as a canvas takes them.
function colours(parent) {
  const probe = parent.appendChild(document.createElement("span"));
  const value = (colour) => {
    probe.style.color = colour;
    return getComputedStyle(probe).color;
  };
  const two = (light, dark) => value(`light-dark(${light}, ${dark})`);
  const spans = HUES.map((hue) => two(`oklch(0.83 0.09 ${hue})`, `oklch(0.45 0.09 ${hue})`));
  const found = {
    spans: [...spans, two("oklch(0.88 0.01 260)", "oklch(0.38 0.015 260)")],
    faint: two("#e6eaee", "#2e343c"),
    label: two("#15181d", "#f4f6f8"),
    band: value("var(--surface)"),
    ink: value("var(--ink)"),
    quiet: value("var(--quiet)"),
    line: value("var(--line)"),
    ground: value("var(--ground)"),
    mark: two("rgb(0 0 0 / 0.3)", "rgb(255 255 255 / 0.4)"),
    veil: two("rgb(20 40 70 / 0.14)", "rgb(170 200 240 / 0.18)"),
  };
  probe.remove();
  return found;
}
