// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// What a page adds to its drawings: the values under the pointer, their files, and sections that open where a link leads.
"use strict";

(() => {
  const numberOf = (text) => Number(text.replaceAll(",", ""));
  const rowsOf = (figure) => [...figure.querySelectorAll("table tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
  const headOf = (figure) => [...figure.querySelectorAll("table thead th")].map((cell) => cell.textContent);

  // data-x is "SCALE FROM TO LEFT RIGHT" in units of the drawing, or "categories COUNT LEFT RIGHT". The names of
  // categories come in the order of the chart; some have several rows.
  const placeOf = (places, names) => {
    const [scale, ...numbers] = places.split(" ");
    const [from, to, left, right] = numbers.map(Number);
    if (scale === "categories") {
      const order = [...new Set(names)];
      return (name) => to + ((order.indexOf(name) + 0.5) / from) * (left - to);
    }
    const of = { linear: (x) => x, log2: Math.log2, log10: Math.log10 }[scale];
    return (text) => left + ((of(numberOf(text)) - of(from)) / (of(to) - of(from))) * (right - left);
  };

  const showValues = (figure) => {
    const drawing = figure.querySelector("svg");
    const shown = figure.querySelector("output");
    let rows;
    drawing.addEventListener("pointermove", (event) => {
      if (!rows) {
        const read = rowsOf(figure);
        const place = placeOf(figure.dataset.x, read.map((row) => row[0]));
        rows = read.map((row) => ({ row, x: place(row[0]) }));
      }
      const pointer = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse()).x;
      const nearest = rows.reduce((best, each) => (Math.abs(each.x - pointer) < Math.abs(best.x - pointer) ? each : best));
      const head = headOf(figure);
      const textOf = ({ row }) => row.map((text, i) => (text === "" ? "" : `${head[i]}: ${text}`)).filter(Boolean).join("; ");
      shown.textContent = rows.filter((each) => each.x === nearest.x).map(textOf).join(" | ");
    });
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const svgOf = (figure) => {
    const drawing = figure.querySelector("svg").cloneNode(true);
    const [x, y, width, height] = drawing.getAttribute("viewBox").split(" ");
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    Object.entries({ x, y, width, height, fill: "#ffffff" }).forEach(([name, value]) => paper.setAttribute(name, value));
    drawing.prepend(paper);
    return new XMLSerializer().serializeToString(drawing);
  };
  const csvOf = (figure) => {
    const cell = (text) => (/^[\d,]+(\.\d+)?$/.test(text) ? text.replaceAll(",", "") : /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    return [headOf(figure), ...rowsOf(figure)].map((row) => row.map(cell).join(",") + "\n").join("");
  };
  const savePng = (figure, name) => {
    const image = new Image();
    const sharper = 2;
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.width * sharper;
      canvas.height = image.height * sharper;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${name}.png`));
    };
    image.src = URL.createObjectURL(new Blob([svgOf(figure)], { type: "image/svg+xml" }));
  };

  const figures = [...document.querySelectorAll("figure:has(svg)")];
  for (const figure of figures) {
    const name = figure.dataset.name;
    const kinds = {
      SVG: () => save(new Blob([svgOf(figure)], { type: "image/svg+xml" }), `${name}.svg`),
      PNG: () => savePng(figure, name),
      CSV: () => save(new Blob([csvOf(figure)], { type: "text/csv" }), `${name}.csv`),
    };
    const tools = document.createElement("p");
    tools.className = "tools";
    for (const [kind, action] of Object.entries(kinds)) {
      if (kind !== "CSV" || figure.querySelector("table")) {
        const button = document.createElement("button");
        button.textContent = kind;
        button.title = `Save this figure as ${kind}`;
        button.addEventListener("click", action);
        tools.append(button);
      }
    }
    figure.prepend(tools);
    if (figure.dataset.x) {
      showValues(figure);
    }
  }

  const openTarget = () => {
    const section = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details");
    if (section) {
      section.open = true;
      section.scrollIntoView();
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  document.body.dataset.figures = String(figures.length);
})();
