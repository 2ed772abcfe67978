// Where the spans of a trace are drawn: rows in lanes, lanes below their process.

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
// call lies below the one that made it.
function rowsOf(trace, lane) {
  const { start, length } = trace;
  const ends = [];
  const rows = [];
  const place = (span) => {
    let row = ends.findIndex((end) => end <= start[span]);
    if (row < 0) row = Math.min(ends.length, DEEPEST - 1);
    ends[row] = Math.max(ends[row] ?? 0, start[span] + length[span]);
    (rows[row] ??= []).push(span);
  };
  const last = lane.first + lane.size;
  for (let first = lane.first, end; first < last; first = end) {
    for (end = first + 1; end < last && start[end] === start[first]; ) end++;
    if (end === first + 1) {
      place(first);
      continue;
    }
    // Of those that start together the longest is the outer one.
    const together = Array.from({ length: end - first }, (_, i) => first + i);
    together.sort((a, b) => length[b] - length[a]).forEach(place);
  }
  return rows.map((spans) => row(trace, spans));
}

// A row has what drawing searches in: starts, ends that never fall, and sums of lengths.
function row(trace, spans) {
  const starts = new Float64Array(spans.length);
  const ends = new Float64Array(spans.length);
  const sums = new Float64Array(spans.length + 1);
  spans.forEach((span, i) => {
    starts[i] = trace.start[span];
    ends[i] = Math.max(starts[i] + trace.length[span], i ? ends[i - 1] : 0);
    sums[i + 1] = sums[i] + trace.length[span];
  });
  const holds = (span) => {
    // Not by number alone: of spans that start together the longest comes first.
    for (let i = search(starts, trace.start[span]); starts[i] === trace.start[span]; i++) {
      if (spans[i] === span) return true;
    }
    return false;
  };
  return { spans: Uint32Array.from(spans), starts, ends, sums, holds, found: null };
}

// The first place from `low` on whose value is at least (or, `above`, over) the time.
function search(values, time, above = false, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (above ? values[middle] > time : values[middle] >= time) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Gives every process, lane and row its place from the top; returns the whole height.
function stack(processes, narrow) {
  let y = 0;
  for (const process of processes) {
    process.y = y;
    y += SIZES.process;
    for (const lane of process.lanes) {
      lane.y = y;
      lane.top = y + (narrow ? SIZES.title : 0);
      y = lane.top + lane.rows.length * SIZES.span;
      lane.bottom = y;
      y += SIZES.gap;
    }
  }
  return y;
}
