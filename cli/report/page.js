// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// Draws each chart of the JSON in #charts (cli/report/figure.cpp) with Chart.js onto the canvas that has its number. When
// all are there, the data-charts of the body is how many.
"use strict";

(() => {
  // Told apart by people who see few colours (Okabe & Ito), dark enough and light enough for both kinds of paper.
  const others = ["#0b6bb8", "#d55e00", "#009e73", "#cc79a7", "#b08900", "#56b4e9", "#8a6bd1", "#7a7f85"];
  const pointStyles = ["circle", "triangle", "rect", "rectRot", "cross", "star"];
  const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const colourFor = (role, number) => (role === "other" ? others[number % others.length] : colourOf(role));
  const faded = (colour) => `${colour}2b`;

  const binaryUnits = ["", " Ki", " Mi", " Gi", " Ti"];
  const bytesText = (value) => {
    let unit = 0;
    while (value >= 1024 && (value * 4) % 1024 === 0 && unit + 1 < binaryUnits.length) {
      value /= 1024;
      unit += 1;
    }
    return `${value.toLocaleString("en")}${binaryUnits[unit]}`;
  };
  const tickText = (axis) => (value) => (axis.title.endsWith("bytes") ? bytesText(value) : value.toLocaleString("en"));

  // Bytes have round numbers of their own.
  const powersOfTwo = (scale) => {
    const first = Math.ceil(Math.log2(scale.min) - 1e-9);
    const last = Math.floor(Math.log2(scale.max) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first) / 7));
    scale.ticks = [];
    for (let power = first; power <= last; power += step) {
      scale.ticks.push({ value: 2 ** power });
    }
  };
  const multiplesOfPowers = (scale) => {
    const step = 2 ** Math.ceil(Math.log2((scale.max - scale.min) / 6));
    scale.ticks = [];
    for (let value = Math.ceil(scale.min / step) * step; value <= scale.max; value += step) {
      scale.ticks.push({ value });
    }
  };
  const ticksOf = (axis) => {
    if (axis.scale === "log2") {
      return { afterBuildTicks: powersOfTwo };
    }
    return axis.scale === "linear" && axis.title.endsWith("bytes") ? { afterBuildTicks: multiplesOfPowers } : {};
  };

  const scaleOf = (axis, limits) => ({
    type: axis.scale === "linear" ? "linear" : "logarithmic",
    ...limits,
    title: { display: true, text: axis.title, color: colourOf("ink") },
    grid: { color: colourOf("edge") },
    ticks: { color: colourOf("faint-ink"), callback: tickText(axis), maxRotation: 45, autoSkip: true },
    ...ticksOf(axis),
  });

  // Bands behind the points, marks in front of them, each with its name.
  const bandsAndMarks = (spec) => ({
    id: "bandsAndMarks",
    beforeDatasetsDraw({ ctx, chartArea, scales }) {
      for (const band of spec.bands) {
        const top = Math.max(scales.y.getPixelForValue(band.to) - 3, chartArea.top);
        const bottom = Math.min(scales.y.getPixelForValue(band.from) + 3, chartArea.bottom);
        ctx.save();
        ctx.fillStyle = faded(colourFor(band.role, 0));
        ctx.fillRect(chartArea.left, top, chartArea.width, bottom - top);
        ctx.restore();
      }
    },
    afterDatasetsDraw({ ctx, chartArea, scales }) {
      ctx.save();
      ctx.font = "12px system-ui, sans-serif";
      ctx.textAlign = "right";
      for (const band of spec.bands) {
        ctx.fillStyle = colourFor(band.role, 0);
        ctx.fillText(band.name, chartArea.right - 4, Math.max(scales.y.getPixelForValue(band.to) - 7, chartArea.top + 12));
      }
      for (const mark of spec.marks) {
        const x = scales.x.getPixelForValue(mark.x);
        const isRight = x > (chartArea.left + chartArea.right) / 2;
        ctx.strokeStyle = ctx.fillStyle = colourOf("faint-ink");
        ctx.setLineDash([5, 4]);
        ctx.beginPath();
        ctx.moveTo(x, chartArea.top);
        ctx.lineTo(x, chartArea.bottom);
        ctx.stroke();
        ctx.textAlign = isRight ? "right" : "left";
        ctx.fillText(mark.name, x + (isRight ? -4 : 4), chartArea.top + 12);
      }
      ctx.restore();
    },
  });

  const datasetOf = (series, number) => {
    const colour = colourFor(series.role, number);
    const common = { label: series.name, borderColor: colour, backgroundColor: colour };
    if (series.shape === "bars") {
      return { ...common, data: series.points.map(([x, y]) => ({ x, y })) };
    }
    const isLine = series.shape !== "points";
    const isLong = series.points.length > 40;
    return {
      ...common,
      data: series.points.map(([x, y]) => ({ x, y })),
      showLine: isLine,
      stepped: series.shape === "steps" ? "before" : false,
      borderWidth: isLine ? 2 : 1,
      // A line of many points shows none of them.
      pointStyle: series.shape === "steps" || (isLine && isLong) ? "line" : series.role === "miss" ? "cross" : pointStyles[isLine ? number % pointStyles.length : 0],
      pointRadius: series.shape === "steps" ? 0 : isLine ? (isLong ? 0 : 3) : series.points.length > 300 ? 2 : 3.5,
      clip: 8,
      order: isLine ? 2 : 1,
    };
  };

  const categoriesOf = (spec, isStacked) => ({
    type: "category",
    labels: spec.categories,
    stacked: isStacked,
    title: { display: true, text: spec.x.title, color: colourOf("ink") },
    grid: { display: false },
    ticks: { color: colourOf("faint-ink"), autoSkip: false, maxRotation: 70 },
  });

  const yLimitsOf = (spec) => ({
    ...(spec.y.scale === "linear" ? { beginAtZero: true } : {}),
    suggestedMax: Math.max(spec.y.at_least_to ?? 0, ...spec.bands.map((band) => band.to)) || undefined,
  });

  const configurationOf = (spec) => {
    const isBars = spec.categories.length > 0;
    // Where no category has two bars, they need no room beside one another.
    const places = spec.series.flatMap((series) => series.points.map(([x]) => x));
    const isStacked = isBars && new Set(places).size === places.length;
    const values = places.filter((x) => x > 0);
    const limits = isBars || values.length === 0 ? {} : { min: Math.min(...places), max: Math.max(...places) };
    const datasets = spec.series.map(datasetOf);
    if (isBars) {
      for (const dataset of datasets) {
        dataset.data = dataset.data.map(({ x, y }) => ({ x: spec.categories[x], y }));
      }
    }
    return {
      type: isBars ? "bar" : "scatter",
      data: { datasets },
      options: {
        animation: false,
        maintainAspectRatio: false,
        interaction: { mode: "nearest", intersect: false },
        scales: {
          x: isBars ? categoriesOf(spec, isStacked) : scaleOf(spec.x, limits),
          y: { ...scaleOf(spec.y, yLimitsOf(spec)), stacked: isStacked },
        },
        plugins: {
          legend: {
            display: spec.series.length > 1,
            position: "bottom",
            labels: { color: colourOf("ink"), usePointStyle: !isBars, boxHeight: 8, boxWidth: isBars ? 12 : 30 },
          },
          tooltip: { callbacks: { title: () => "" } },
        },
      },
      plugins: [bandsAndMarks(spec)],
    };
  };

  const specs = JSON.parse(document.getElementById("charts").textContent);
  let charts = [];
  const draw = () => {
    charts.forEach((chart) => chart.destroy());
    charts = [...document.querySelectorAll("canvas[data-chart]")].map(
      (canvas) => new Chart(canvas, configurationOf(specs[Number(canvas.dataset.chart)])),
    );
    document.body.dataset.charts = String(charts.length);
  };
  draw();

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // On paper the log of the inference is open; what is in figures already is not told twice.
  let closed = [];
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.print = "";
    closed = [...document.querySelectorAll("details:not([open], figure details)")];
    closed.forEach((details) => (details.open = true));
    draw();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.print;
    closed.forEach((details) => (details.open = false));
    draw();
  });
})();
