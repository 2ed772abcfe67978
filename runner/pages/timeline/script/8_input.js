// Mouse, touch and keys.

function listen(view) {
  pointers(view);
  wheel(view);
  keys(view);
  overviewInput(view);
}

function place(view, event, canvas = view.canvas) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

const TWICE = 350; // milliseconds between two taps at most

function pointers(view) {
  const { canvas } = view;
  const down = new Map();
  let moved = false;
  let since = -Infinity;
  let anchor = null;

  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const [x, y] = place(view, event);
    down.set(event.pointerId, [x, y]);
    moved = down.size > 1;
    anchor = event.shiftKey && down.size === 1 ? view.time(x) : null;
    if (event.pointerType === "mouse") hideTip(view);
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(view, event);
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") hover(view, x, y);
      return;
    }
    if (!moved && Math.hypot(x - before[0], y - before[1]) < 4) return;
    moved = true;
    if (anchor !== null) {
      const time = view.time(Math.max(x, view.gutter));
      view.drag = [Math.min(anchor, time), Math.max(anchor, time)];
      view.repaint();
      return;
    }
    const wide = view.width - view.gutter;
    if (down.size === 2) {
      const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      pinch(view, before, [x, y], other);
    } else {
      view.pan((before[0] - x) / wide);
      view.scroll(before[1] - y);
    }
    down.set(event.pointerId, [x, y]);
  });

  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    const [x, y] = place(view, event);
    if (view.drag) {
      const [from, to] = view.drag;
      view.drag = null;
      view.show(from, to, true);
    } else if (!moved && event.type === "pointerup") {
      const twice = event.pointerType !== "mouse" && event.timeStamp - since < TWICE;
      since = twice ? -Infinity : event.timeStamp;
      if (twice) closer(view, x, y);
      else view.select(view.painter.at(x, y));
    }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  let kind = "";
  canvas.addEventListener("pointerdown", (event) => (kind = event.pointerType));
  canvas.addEventListener("dblclick", (event) => {
    if (kind === "mouse") closer(view, ...place(view, event));
  });
  canvas.addEventListener("pointerleave", () => hideTip(view));
}

// Zooms to the span at a place, or around the place.
function closer(view, x, y) {
  const span = view.painter.at(x, y);
  if (span >= 0) view.zoomTo(span);
  else view.zoom(0.5, (x - view.gutter) / (view.width - view.gutter), true);
}

// Keeps the times below two fingers below them.
function pinch(view, before, now, other) {
  const apart = Math.max(Math.abs(before[0] - other[0]), 24);
  const factor = apart / Math.max(Math.abs(now[0] - other[0]), 24);
  const middle = (now[0] + other[0]) / 2;
  const wide = view.width - view.gutter;
  view.zoom(factor, (middle - view.gutter) / wide);
  view.pan((before[0] - now[0]) / 2 / wide);
}

// The wheel zooms where the timeline has the page for itself or is in use; elsewhere it
// scrolls the page. With Shift, or sideways, it pans; over the names it scrolls lanes.
function wheel(view) {
  view.canvas.addEventListener(
    "wheel",
    (event) => {
      const used = document.activeElement === view.canvas || view.figure.classList.contains("timeline-alone");
      if (!used && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1;
      const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
      const [x] = place(view, event);
      const wide = view.width - view.gutter;
      if (x < view.gutter && !event.ctrlKey) view.scroll(event.deltaY * unit);
      else if (event.shiftKey || Math.abs(sideways) > Math.abs(event.deltaY)) view.pan((sideways * unit) / wide);
      else view.zoom(Math.exp(Math.max(Math.min(event.deltaY * unit, 400), -400) * (event.ctrlKey ? 0.008 : 0.002)), (x - view.gutter) / wide);
      hideTip(view);
    },
    { passive: false },
  );
}

const KEYS = {
  ArrowLeft: (view) => view.pan(-0.15, true),
  ArrowRight: (view) => view.pan(0.15, true),
  a: (view) => view.pan(-0.15, true),
  d: (view) => view.pan(0.15, true),
  w: (view) => view.zoom(0.6, 0.5, true),
  s: (view) => view.zoom(1 / 0.6, 0.5, true),
  "+": (view) => view.zoom(0.6, 0.5, true),
  "=": (view) => view.zoom(0.6, 0.5, true),
  "-": (view) => view.zoom(1 / 0.6, 0.5, true),
  Home: (view) => view.fit(),
  0: (view) => view.fit(),
  PageUp: (view) => view.scroll(-view.height / 2),
  PageDown: (view) => view.scroll(view.height / 2),
  ArrowUp: (view) => upDown(view, -1),
  ArrowDown: (view) => upDown(view, 1),
  Enter: (view, event) => along(view, event.shiftKey ? -1 : 1) || true,
  f: (view) => view.selected >= 0 && view.zoomTo(view.selected),
  l: (view) => {
    const [other] = view.selected < 0 ? [] : view.trace.linked(view.selected);
    if (other !== undefined) view.select(other);
  },
  n: (view) => view.finder.go(1),
  N: (view) => view.finder.go(-1),
  "/": (view) => view.finder.focus(),
  Escape: (view) => view.select(-1),
};

function keys(view) {
  view.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Tab") {
      // Only from span to span: Escape ends it, and so does the last span.
      if (view.selected >= 0 && along(view, event.shiftKey ? -1 : 1)) event.preventDefault();
      return;
    }
    const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
    if (!act) return;
    act(view, event);
    event.preventDefault();
  });
}

function upDown(view, by) {
  if (view.selected < 0) view.scroll(by * SIZES.span * 2);
  else view.select(view.across(view.selected, by));
}

function along(view, by) {
  const span = view.selected < 0 ? view.first() : view.neighbour(view.selected, by);
  if (span < 0) return false;
  view.select(span);
  return true;
}

function overviewInput(view) {
  const { overview } = view;
  let held = null;
  const go = (event) => {
    const [x] = place(view, event, overview);
    const [begin, end] = view.whole();
    const at = begin + ((x - view.gutter) / (view.width - view.gutter)) * (end - begin);
    const half = (view.to - view.from) / 2;
    held ??= Math.abs(at - view.from - half) < half ? at - view.from - half : 0;
    view.show(at - held - half, at - held + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    held = null;
    go(event);
  });
  overview.addEventListener("pointermove", (event) => {
    if (overview.hasPointerCapture(event.pointerId)) go(event);
  });
}

function hover(view, x, y) {
  const span = view.painter.at(x, y);
  const tip = view.part("tip");
  view.canvas.style.cursor = span >= 0 ? "pointer" : "";
  if (span < 0) return hideTip(view);
  tip.textContent = `${view.painter.label(span)}, ${duration(view.trace.length[span])}`;
  tip.hidden = false;
  tip.style.left = `${Math.max(Math.min(x + 14, view.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${y + 22 + tip.offsetHeight > view.height ? y - tip.offsetHeight - 8 : y + 18}px`;
}

function hideTip(view) {
  view.part("tip").hidden = true;
}
