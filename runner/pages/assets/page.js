(() => {
  "use strict";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const changed = () => document.dispatchEvent(new Event("themechange"));

  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    if (!button) return;
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} theme`);
  };
  button?.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("rai-theme", root.dataset.theme);
    } catch {
      // It then holds until the page is closed.
    }
    changed();
  });
  system.addEventListener("change", changed);
  document.addEventListener("themechange", label);
  label();
})();
