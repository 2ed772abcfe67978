// Colours: the names that take the most time have one of their own each.

const HUES = [255, 55, 150, 320, 95, 200, 25, 290, 125, 230, 350, 75];
const WAITING = HUES.length;

function palette(trace) {
  const { names, name, length } = trace;
  const totals = new Float64Array(names.length);
  for (let i = 0; i < trace.count; i++) totals[name[i]] += length[i];
  const waits = names.map((text) => /synchroni[sz]e|\bwait/i.test(text));
  const order = Array.from(totals.keys()).filter((number) => !waits[number]);
  const hue = new Uint8Array(names.length).fill(WAITING);
  order.sort((a, b) => totals[b] - totals[a]);
  order.forEach((number, rank) => (hue[number] = rank % HUES.length));
  return hue;
}

// The colours of the theme that holds for an element, as a canvas takes them.
function colours(parent) {
  const probe = parent.appendChild(document.createElement("span"));
  const value = (colour) => {
    probe.style.color = "";
    probe.style.color = colour;
    return getComputedStyle(probe).color;
  };
  const two = (light, dark) => value(`light-dark(${light}, ${dark})`);
  const spans = HUES.map((hue) => two(`oklch(0.83 0.09 ${hue})`, `oklch(0.45 0.09 ${hue})`));
  const found = {
    spans: [...spans, two("oklch(0.88 0.01 260)", "oklch(0.38 0.015 260)")],
    faint: new Array(HUES.length + 1).fill(two("#e6eaee", "#2e343c")),
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
