// Times, numbers and names as text.

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

// A length of time with up to four digits: 16.6 ms.
function duration(ns) {
  const [unit, scale] = UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const value = ns / scale;
  const digits = Math.abs(value) >= 1000 ? 0 : 4 - String(Math.trunc(Math.abs(value))).length;
  return `${Number(value.toFixed(digits))} ${unit}`;
}

// A point in time with all its digits: 1.234567891 s.
function moment(ns) {
  const [unit, scale] = UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];
  return `${Number((ns / scale).toFixed(Math.round(Math.log10(scale))))} ${unit}`;
}

const grouped = new Intl.NumberFormat("en").format;

function count(number, noun) {
  return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// The step between two ticks of the axis: 1, 2 or 5 times a power of ten.
function step(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)) + 1e-9);
  return [1, 2, 5, 10].map((times) => times * power).find((size) => size >= least);
}

// Ticks between two times, `least` or more apart, in the largest unit in which they are
// short. Where they are short in none, they count from `origin`.
function ticks(from, to, least) {
  const apart = step(least);
  const decimals = (scale) => Math.max(Math.ceil(Math.log10(scale / apart) - 1e-9), 0);
  const digits = (scale) => String(Math.trunc(Math.max(Math.abs(from), Math.abs(to)) / scale)).length + decimals(scale);
  const suits = ([, scale]) => Math.abs(to) >= scale && decimals(scale) <= 3 && digits(scale) <= 6;
  const small = UNITS.find(([, size]) => apart >= size) ?? UNITS[3];
  const found = UNITS.find(suits);
  const [unit, scale] = found ?? small;
  const coarse = apart * 1000;
  const origin = found ? 0 : Math.floor(from / coarse) * coarse;
  const places = [];
  for (let at = Math.ceil(from / apart) * apart; at <= to; at += apart) {
    const value = ((at - origin) / scale).toFixed(decimals(scale));
    places.push([at, `${found ? "" : "+"}${Number(value) === 0 ? "0" : value} ${unit}`]);
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
