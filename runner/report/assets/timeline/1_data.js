// What the page carries, unpacked; its times, numbers and names as text.

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const trace = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const { count } = trace;
  let at = 4 + size;
  for (const [name, width] of trace.columns) {
    const column = (trace[name] = new Float64Array(count));
    for (let place = 0; place < width; place++) {
      const scale = 256 ** place;
      for (let i = 0; i < count; i++) column[i] += bytes[at + i] * scale;
      at += count;
    }
  }
  const { start, length, link } = trace;
  trace.lane = new Uint32Array(count);
  [trace.begin, trace.end] = count ? [Infinity, -Infinity] : [0, 0];
  let span = 0;
  trace.lanes.forEach((lane, number) => {
    lane.first = span;
    for (let time = 0; span < lane.first + lane.size; span++) {
      trace.lane[span] = number;
      time = start[span] += time;
      trace.begin = Math.min(trace.begin, time);
      trace.end = Math.max(trace.end, time + length[span]);
    }
  });
  trace.shorts = trace.names.map(short);
  trace.linked = (span) => {
    const others = [];
    link.forEach((number, other) => number && number === link[span] && other !== span && others.push(other));
    return others;
  };
  return trace;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const unit = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];

// A length of time with up to four digits: 16.6 ms.
function duration(ns) {
  const [word, scale] = unit(ns);
  const value = ns / scale;
  const digits = Math.abs(value) >= 1000 ? 0 : 4 - String(Math.trunc(Math.abs(value))).length;
  return `${Number(value.toFixed(digits))} ${word}`;
}

// A point in time with all its digits: 1.234567891 s.
function moment(ns) {
  const [word, scale] = unit(ns);
  return `${Number((ns / scale).toFixed(Math.round(Math.log10(scale))))} ${word}`;
}

const grouped = new Intl.NumberFormat("en").format;

function count(number, noun, many = `${noun}s`) {
  return `${grouped(number)} ${number === 1 ? noun : many}`;
}

// Ticks between two times, `least` or more apart, each 1, 2 or 5 times a power of ten.
// Where four digits do not tell them apart, they count from `origin`.
function ticks(from, to, least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)) + 1e-9);
  const apart = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= least);
  const coarse = apart * 1000;
  const origin = Math.max(Math.floor(from / coarse), 0) * coarse;
  const places = [];
  for (let at = Math.ceil(from / apart) * apart; at <= to; at += apart) {
    places.push([at, at === origin ? "0" : (origin ? "+" : "") + duration(at - origin)]);
  }
  return { places, origin: origin ? moment(origin) : "" };
}

// A function's name without its arguments, its template's and what it returns.
function short(name) {
  const plain = name.replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "");
  let depth = 0;
  let kept = "";
  for (const char of plain) {
    if (char === "<") depth++;
    if (!depth && char === "(" && kept) break;
    if (!depth) kept += char;
    if (char === ">" && depth) depth--;
  }
  return depth || !kept.trim() ? plain : kept.trim();
}
