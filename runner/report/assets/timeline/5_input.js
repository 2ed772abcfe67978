// Mouse, touch and keys.

function listen(view) {
  pointers(view);
  wheel(view);
  dragOverview(view);
  view.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    KEYS[event.key](view, event);
    event.preventDefault();
  });
  view.part("in").addEventListener("click", () => view.zoom(0.5));
  view.part("out").addEventListener("click", () => view.zoom(2));
  view.part("whole").addEventListener("click", () => view.fit());
}

const KEYS = {
  ArrowLeft: (view) => view.pan(-0.15),
  ArrowRight: (view) => view.pan(0.15),
  "+": (view) => view.zoom(0.6),
  "=": (view) => view.zoom(0.6),
  "-": (view) => view.zoom(1 / 0.6),
  Home: (view) => view.fit(),
  ArrowUp: (view) => view.scroll(-2 * SIZES.span),
  ArrowDown: (view) => view.scroll(2 * SIZES.span),
  Enter: (view, event) => view.step(event.shiftKey ? -1 : 1),
  f: (view) => view.selected >= 0 && view.zoomTo(view.selected),
  l: (view) => view.selected >= 0 && view.select(view.trace.linked(view.selected)[0] ?? view.selected),
  n: (view) => view.finder.go(1),
  N: (view) => view.finder.go(-1),
  "/": (view) => view.finder.input.select(),
  Escape: (view) => view.select(-1),
};

function place(event, canvas) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function pointers(view) {
  const { canvas } = view;
  const tip = view.part("tip");
  let last = null; // where the one pointer was that is down
  let moved = false;
  let anchor = null;

  canvas.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    last = place(event, canvas);
    moved = false;
    anchor = event.shiftKey ? view.time(last[0]) : null;
    tip.hidden = true;
  });

  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event, canvas);
    if (!last || !event.isPrimary) {
      if (event.pointerType === "mouse") hover(view, tip, x, y);
      return;
    }
    if (!moved && Math.hypot(x - last[0], y - last[1]) < 4) return;
    moved = true;
    if (anchor !== null) {
      view.drag = [anchor, view.time(Math.max(x, view.gutter))].sort((a, b) => a - b);
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
      view.show(...view.drag);
      view.drag = null;
    } else if (!moved && event.type === "pointerup") {
      view.select(view.painter.at(...place(event, canvas)));
    }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("dblclick", (event) => {
    const [x, y] = place(event, canvas);
    const span = view.painter.at(x, y);
    if (span >= 0) view.zoomTo(span);
    else view.zoom(0.5, view.time(x));
  });
}

// The wheel zooms where the timeline has the page for itself or is in use; elsewhere it
// scrolls the page. With Shift, or sideways, it pans; over the names it scrolls lanes.
function wheel(view) {
  const { canvas } = view;
  const act = (event) => {
    const used = document.activeElement === canvas || view.alone;
    if (!used && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const unit = [1, 20, 400][event.deltaMode];
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    const [x] = place(event, canvas);
    const by = Math.max(Math.min(event.deltaY * unit, 400), -400) * (event.ctrlKey ? 0.008 : 0.002);
    if (x < view.gutter && !event.ctrlKey) view.scroll(event.deltaY * unit);
    else if (event.shiftKey || Math.abs(sideways) > Math.abs(event.deltaY)) view.pan((sideways * unit) / (view.width - view.gutter));
    else view.zoom(Math.exp(by), view.time(x));
    view.part("tip").hidden = true;
  };
  canvas.addEventListener("wheel", act, { passive: false });
}

function dragOverview(view) {
  const { overview } = view;
  let held = 0;
  const go = (event) => {
    const [begin, end] = view.whole();
    const at = begin + ((place(event, overview)[0] - view.gutter) / (view.width - view.gutter)) * (end - begin);
    const half = (view.to - view.from) / 2;
    if (event.type === "pointerdown") {
      held = at - view.from - half;
      if (Math.abs(held) > half) held = 0;
    }
    view.show(at - held - half, at - held + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    go(event);
  });
  overview.addEventListener("pointermove", (event) => overview.hasPointerCapture(event.pointerId) && go(event));
}

function hover(view, tip, x, y) {
  const span = view.painter.at(x, y);
  view.canvas.style.cursor = span >= 0 ? "pointer" : "";
  tip.hidden = span < 0;
  if (span < 0) return;
  tip.textContent = `${view.painter.label(span)}, ${duration(view.trace.length[span])}`;
  tip.style.left = `${Math.max(Math.min(x + 14, view.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${y + 22 + tip.offsetHeight > view.height ? y - tip.offsetHeight - 8 : y + 18}px`;
}
