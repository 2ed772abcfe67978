(() => {
  "use strict";
  // A link to a folded part unfolds it; on paper nothing is folded but output.
  const folds = [...document.querySelectorAll("main details:not(.output, .timeline details)")];
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const inner = target.querySelector(":scope > details");
    if (inner) inner.open = true;
    target.scrollIntoView();
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest('a[href^="#"]')) setTimeout(follow);
  });
  addEventListener("hashchange", follow);
  follow();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    closed.forEach((fold) => (fold.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((fold) => (fold.open = false)));
})();
