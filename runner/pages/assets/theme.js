// Before anything is drawn: the theme that the reader chose last, and that scripts run.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("scripted");
  try {
    const chosen = localStorage.getItem("rai-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch {
    // A browser may keep nothing for files; the system's theme is used.
  }
})();
