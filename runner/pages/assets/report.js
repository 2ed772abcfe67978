(() => {
  "use strict";
  const said = document.getElementById("said");
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);

  // Contents: folded on a phone; the section that is being read is the current one.
  const contents = document.querySelector(".contents details");
  const wide = matchMedia("(min-width: 64rem)");
  const fold = () => {
    if (contents) contents.open = wide.matches;
  };
  wide.addEventListener("change", fold);
  fold();
  const links = [...document.querySelectorAll(".contents a")];
  const heads = links.map((link) => document.getElementById(link.hash.slice(1)));
  let current = null;
  const follow = () => {
    const line = innerHeight / 4;
    const bottom = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    let at = heads.findLastIndex((head) => head.getBoundingClientRect().top <= line);
    if (bottom && scrollY > 0) at = links.length - 1;
    const link = links[Math.max(at, 0)];
    if (link === current) return;
    current?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "location");
    current = link;
  };
  let waiting = false;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      follow();
    });
  }, { passive: true });
  follow();
  contents?.addEventListener("click", (event) => {
    if (event.target.closest("a") && !wide.matches) contents.open = false;
  });

  // Only what scrolls is a stop for the keyboard.
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const box = target.closest(".scroll, pre");
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      if (scrolls) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  });
  each(".scroll", (box) => { watch.observe(box); watch.observe(box.firstElementChild); });
  each(".output pre", (box) => watch.observe(box));

  // Tables: sorted by a column, copied as text.
  const scales = {
    ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
    B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, KB: 1e3, MB: 1e6, GB: 1e9,
    "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "GFLOP/s": 1e9, "TFLOP/s": 1e12,
  };
  const whole = (cell) => (cell.querySelector(".whole") ?? cell).textContent.trim();
  const figure = (text) => {
    let sum = NaN;
    for (const [, number, unit] of text.matchAll(/([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*([^\s\d]*)/gi)) {
      const part = Number(number.replaceAll(",", "")) * (scales[unit] ?? 1);
      sum = Number.isNaN(sum) ? part : sum + part;
    }
    return sum;
  };
  const words = new Intl.Collator("en", { numeric: true });
  const sort = (table, column, head) => {
    const body = table.tBodies[0];
    table.first ??= [...body.rows];
    const number = head.classList.contains("number");
    const orders = number ? ["descending", "ascending"] : ["ascending", "descending"];
    const next = orders[orders.indexOf(head.getAttribute("aria-sort")) + 1];
    table.querySelector("[aria-sort]")?.removeAttribute("aria-sort");
    const rows = [...table.first];
    if (next) {
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const keys = new Map(rows.map((row) => {
        const text = whole(row.cells[column]);
        return [row, number ? figure(text) : text];
      }));
      rows.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (!number) return sign * words.compare(x, y);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return sign * (x - y);
      });
    }
    body.append(...rows);
    said.textContent = next ? `Sorted by ${head.textContent}, ${next}` : "In the first order";
  };
  each("table.sortable", (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, head));
      head.append(button);
    });
  });

  const cells = (row) => [...row.cells].map(whole);
  // GitHub reads names of people and numbers of issues even where their sign is escaped.
  const escaped = (text) =>
    text
      .replace(/[&<>`|*_~[\]\\$:#@]|(?<=www)\./gi, (sign) => `&#${sign.codePointAt()};`)
      .replace(/(&#64;|&#35;)(?=\w)/g, "$1&#8203;")
      .replace(/\n/g, "<br>");
  const line = (texts) => `| ${texts.join(" | ")} |\n`;
  const formula = /^(?:[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/;
  const quoted = (text) => {
    const plain = formula.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  const written = {
    text: (box) => box.querySelector("pre").textContent,
    markdown: (box) => {
      const [head, ...rows] = box.querySelector("table").rows;
      const rules = [...head.cells].map((each) => (each.classList.contains("number") ? "---:" : "---"));
      const lines = rows.map((row) => line(cells(row).map(escaped)));
      return line(cells(head).map(escaped)) + line(rules) + lines.join("");
    },
    csv: (box) =>
      [...box.querySelector("table").rows].map((row) => `${cells(row).map(quoted).join(",")}\r\n`).join(""),
  };
  each("[data-copy]", (button) => {
    const label = button.textContent;
    button.addEventListener("click", async () => {
      let done = "Copied";
      try {
        await navigator.clipboard.writeText(written[button.dataset.copy](button.closest("figure")));
      } catch {
        done = "Not copied";
      }
      said.textContent = done;
      button.textContent = done;
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  });

  // Paper has no buttons: all that is folded is opened, and folded again afterwards;
  // a timeline does so itself.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open], .timeline *)")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
})();
