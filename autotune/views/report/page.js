// On paper nothing can be unfolded: what is closed is opened before the figures take their width.
const closed = [];
addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((fold) => {
  fold.open = true;
  closed.push(fold);
}));
addEventListener("afterprint", () => closed.splice(0).forEach((fold) => { fold.open = false; }));

// Unpacks plotly and draws every figure; where that fails, the tables are all there is.
(async () => {
  try {
    const packed = atob(document.getElementById("plotly").textContent.trim());
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    const plots = [...document.querySelectorAll(".plot")];
    for (const plot of plots) {
      const figure = JSON.parse(plot.querySelector("script").textContent);
      await Plotly.newPlot(plot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    }
    // What is drawn in a closed fold has no width yet.
    document.querySelectorAll("details").forEach((fold) => fold.addEventListener("toggle", () => {
      fold.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
    }));
    // A sheet of paper is narrower than a window, and nothing tells plotly so.
    const onPaper = (paper) => {
      document.body.classList.toggle("paper", paper);
      for (const plot of plots) {
        Plotly.relayout(plot, paper ? { width: plot.clientWidth } : { width: null, autosize: true });
      }
    };
    addEventListener("beforeprint", () => onPaper(true));
    addEventListener("afterprint", () => onPaper(false));
  } catch (error) {
    document.body.classList.add("bare");
    console.error(error);
  }
})();

// A copy button, and a table that sorts by its headings and filters by any text.
document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
  const text = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch (error) {
    getSelection().selectAllChildren(text); // a page from disk may not reach the clipboard
  }
}));
document.querySelectorAll("th[aria-sort] button").forEach((button) => button.addEventListener("click", () => {
  const heading = button.parentElement, body = heading.closest("table").tBodies[0];
  const up = heading.ariaSort !== "ascending", column = heading.cellIndex;
  heading.parentElement.querySelectorAll("th").forEach((other) => { other.ariaSort = "none"; });
  heading.ariaSort = up ? "ascending" : "descending";
  const key = (row) => row.cells[column].textContent;
  const compared = (a, b) => parseFloat(key(a)) - parseFloat(key(b)) || key(a).localeCompare(key(b));
  body.append(...[...body.rows].sort((a, b) => (up ? compared(a, b) : compared(b, a))));
}));
document.querySelectorAll("[data-filter]").forEach((field) => field.addEventListener("input", () => {
  const wanted = field.value.toLowerCase();
  for (const row of document.getElementById(field.dataset.filter).tBodies[0].rows) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}));
// An anchor into a closed fold opens it.
const unfold = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", unfold);
unfold();
