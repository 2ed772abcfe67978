// Reloads the part of a page that changes, and appends a run's output as it comes.
"use strict";

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Replaces #live by that of the server, unless the reader is working in it. */
async function reload() {
  let tag = "";
  for (;;) {
    const live = document.getElementById("live");
    if (!live || "over" in live.dataset) return;
    await pause(Number(live.dataset.reload));
    if (document.hidden || live.contains(document.activeElement)) continue;
    try {
      const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 401) return location.reload(); // the session is over
      if (!answer.ok) continue; // as after no change
      tag = answer.headers.get("ETag") || "";
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("live");
      if (next) live.replaceWith(next);
    } catch {
      // The server starts again, or the network is away.
    }
  }
}

async function follow(output) {
  const most = 1 << 20; // characters that are kept
  while (!("over" in output.dataset)) {
    await pause(1);
    if (document.hidden) continue;
    try {
      const answer = await fetch(`${output.dataset.output}?after=${output.dataset.after}`);
      if (!answer.ok) continue;
      const part = await answer.json();
      const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
      if (part.text) output.append(part.text);
      if (output.textContent.length > most) output.textContent = output.textContent.slice(-most / 2);
      output.dataset.after = part.after;
      if (part.over) output.dataset.over = "";
      if (atEnd) output.scrollTop = output.scrollHeight;
    } catch {
      // As above.
    }
  }
}

document.getElementById("enter")?.submit();

const output = document.getElementById("output");
if (output) {
  output.scrollTop = output.scrollHeight;
  follow(output);
}
reload();
