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
