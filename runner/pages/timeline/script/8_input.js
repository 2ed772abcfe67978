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

function pointers(view) {
  const { canvas } = view;
  let last = null; // where the one pointer was that is down
  let moved = false;
  let anchor = null;

  canvas.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    last = place(view, event);
    moved = false;
    anchor = event.shiftKey ? view.time(last[0]) : null;
    hideTip(view);
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(view, event);
    if (!last || !event.isPrimary) {
      if (event.pointerType === "mouse") hover(view, x, y);
      return;
    }
    if (!moved && Math.hypot(x - last[0], y - last[1]) < 4) return;
    moved = true;
    if (anchor !== null) {
      const time = view.time(Math.max(x, view.gutter));
      view.drag = [Math.min(anchor, time), Math.max(anchor, time)];
      view.repaint();
      return;
    }
    view.pan((last[0] - x) / (view.width - view.gutter));
    view.scroll(last[1] - y);
    last = [x, y];
  });

  const up = (event) => {
    if (!last || !event.isPrimary) return;
    last = null;
    if (view.drag) {
      const [from, to] = view.drag;
      view.drag = null;
      view.show(from, to);
    } else if (!moved && event.type === "pointerup") {
      view.select(view.painter.at(...place(view, event)));
    }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("dblclick", (event) => closer(view, ...place(view, event)));
  canvas.addEventListener("pointerleave", () => hideTip(view));
}

// Zooms to the span at a place, or around the place.
function closer(view, x, y) {
  const span = view.painter.at(x, y);
  if (span >= 0) view.zoomTo(span);
  else view.zoom(0.5, (x - view.gutter) / (view.width - view.gutter));
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
  ArrowLeft: (view) => view.pan(-0.15),
  ArrowRight: (view) => view.pan(0.15),
  "+": (view) => view.zoom(0.6),
  "=": (view) => view.zoom(0.6),
  "-": (view) => view.zoom(1 / 0.6),
  Home: (view) => view.fit(),
  PageUp: (view) => view.scroll(-view.height / 2),
  PageDown: (view) => view.scroll(view.height / 2),
  ArrowUp: (view) => view.scroll(-2 * SIZES.span),
  ArrowDown: (view) => view.scroll(2 * SIZES.span),
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
