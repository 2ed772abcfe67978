// What the page carries, unpacked: the columns that packing.py wrote, as typed arrays.

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const found = {};
  let at = 4 + size;
  for (const [name, width] of header.columns) {
    const wide = name === "start" || name === "length" || name === "link";
    const column = new (wide ? Float64Array : Uint32Array)(header.count);
    for (let place = 0; place < width; place++) {
      const scale = 256 ** place;
      for (let i = 0; i < header.count; i++) column[i] += bytes[at + i] * scale;
      at += header.count;
    }
    found[name] = column;
  }
  return trace(header, found);
}

function trace(header, columns) {
  const { start, length, link } = columns;
  const count = header.count;
  const lanes = header.lanes.map(([process, title, kind, size]) => ({ process, title, kind, size }));
  const lane = new Uint32Array(count);
  let at = 0;
  lanes.forEach((one, number) => {
    one.first = at;
    for (let end = at + one.size, time = 0; at < end; at++) {
      lane[at] = number;
      time = start[at] += time;
    }
  });
  for (let i = 0, expected = 1; i < count; i++) {
    if (!link[i]) continue;
    const off = link[i] - 1;
    link[i] = expected + (off % 2 ? -(off + 1) / 2 : off / 2);
    expected = link[i] + 1;
  }
  let begin = Infinity;
  let end = -Infinity;
  for (let i = 0; i < count; i++) {
    begin = Math.min(begin, start[i]);
    end = Math.max(end, start[i] + length[i]);
  }
  if (!count) begin = end = 0;
  const notes = header.notes.map((flat) => {
    const pairs = [];
    for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
    return pairs;
  });
  const { names, leftOut } = header;
  return { ...columns, count, names, lanes, notes, leftOut, lane, begin, end, linked: joined(link) };
}

// Returns a function from a span to the others of its link.
function joined(link) {
  let most = 0;
  for (const number of link) most = Math.max(most, number);
  const from = new Uint32Array(most + 2);
  for (const number of link) if (number) from[number + 1]++;
  for (let number = 1; number < from.length; number++) from[number] += from[number - 1];
  const spans = new Uint32Array(from[most + 1]);
  const filled = from.slice();
  link.forEach((number, span) => {
    if (number) spans[filled[number]++] = span;
  });
  return (span) => {
    const number = link[span];
    const all = number ? [...spans.subarray(from[number], from[number + 1])] : [];
    return all.filter((other) => other !== span);
  };
}
