// The search by name.

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
    this.view.part("found").textContent = wanted ? `${about(trace)}${count(number, "match").replace(/matchs$/, "matches")}, ${duration(total)}` : "";
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
