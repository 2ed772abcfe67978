// The whole trace in little above the view, with a window that can be dragged.

const OVERVIEW = 44;

function paintOverview(view) {
  const context = view.overview.getContext("2d", { alpha: false });
  const { width, ratio, gutter, colours } = view;
  if (!view.painted) view.painted = wholePicture(view);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(view.painted, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const [begin, end] = view.whole();
  const x = (time) => gutter + ((time - begin) / (end - begin)) * (width - gutter);
  const [left, right] = [x(view.from), Math.max(x(view.to), x(view.from) + 2)];
  context.fillStyle = colours.veil;
  context.fillRect(gutter, 0, left - gutter, OVERVIEW);
  context.fillRect(right, 0, width - right, OVERVIEW);
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 1), OVERVIEW - 1);
}

// How busy each kind of lane is, for each pixel: GPUs above, calls and ranges below.
function wholePicture(view) {
  const canvas = document.createElement("canvas");
  canvas.width = view.overview.width;
  canvas.height = view.overview.height;
  const context = canvas.getContext("2d", { alpha: false });
  const { width, ratio, gutter, colours, trace } = view;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, width, OVERVIEW);
  const lanes = view.processes.flatMap((process) => process.lanes);
  const kinds = [lanes.filter((lane) => lane.kind === "gpu"), lanes.filter((lane) => lane.kind !== "gpu")];
  const shown = kinds.filter((kind) => kind.length);
  const tall = OVERVIEW / Math.max(shown.length, 1);
  const [begin, end] = view.whole();
  const bins = Math.max(Math.floor(width - gutter), 1);
  shown.forEach((kind, number) => {
    const busy = shares(kind, begin, end, bins);
    const bottom = (number + 1) * tall;
    context.fillStyle = colours.spans[kind === kinds[0] ? 0 : 1];
    busy.forEach((share, bin) => {
      if (!share) return;
      const high = Math.max(Math.min(share, 1) * (tall - 4), 1.5);
      context.fillRect(gutter + bin, bottom - high, 1, high);
    });
    context.fillStyle = colours.line;
    context.fillRect(gutter, bottom - 1, width - gutter, 1);
    context.fillStyle = colours.quiet;
    context.font = FONT;
    context.textBaseline = "middle";
    if (gutter) context.fillText(kind === kinds[0] ? "GPUs, whole" : "Calls, whole", 8, bottom - tall / 2);
  });
  return canvas;
}

// The share of each bin in which the first rows of the lanes are busy, the most of all.
function shares(lanes, begin, end, bins) {
  const most = new Float64Array(bins);
  const scale = bins / (end - begin);
  for (const { rows } of lanes) {
    const { starts, ends } = rows[0];
    const busy = new Float64Array(bins);
    for (let i = 0; i < starts.length; i++) {
      const from = (starts[i] - begin) * scale;
      const to = (ends[i] - begin) * scale;
      for (let bin = Math.floor(from); bin <= to && bin < bins; bin++) {
        busy[bin] += Math.max(Math.min(to, bin + 1) - Math.max(from, bin), 1e-6);
      }
    }
    busy.forEach((share, bin) => (most[bin] = Math.max(most[bin], share)));
  }
  return most;
}
