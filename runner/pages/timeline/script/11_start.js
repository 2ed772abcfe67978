// Begins each timeline of the page.

async function begin(figure) {
  const part = (name) => figure.querySelector(`.timeline-${name}`);
  try {
    const trace = await unpack(part("data").textContent);
    const view = new View(figure, trace);
    new Facts(view);
    new Finder(view);
    listen(view);
    part("in").addEventListener("click", () => view.zoom(0.5));
    part("out").addEventListener("click", () => view.zoom(2));
    part("whole").addEventListener("click", () => view.fit());
    onPaper(view);
    figure.timeline = view;
    figure.dataset.state = "drawn";
  } catch (error) {
    figure.dataset.state = "failed";
    part("facts").textContent = `The timeline cannot be drawn in this browser: ${error.message}`;
  }
}

const PAPER = 1000; // the width of a printed picture, before it is fitted to the paper

// A printed page shows the view that was open, on white and with all lanes.
function onPaper(view) {
  const print = (paper) => {
    view.paper = paper;
    // Before it prints a browser does not know yet that paper is white.
    view.figure.style.colorScheme = paper ? "light" : "";
    view.colours = colours(view.part("view"));
    if (paper) view.resize(PAPER);
    else view.resize();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
}

document.querySelectorAll(".timeline").forEach(begin);
