(() => {
  "use strict";
  const DRAWN = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "shape-rendering", "visibility",
  ];
  const WRITTEN = ["font-family", "font-size", "font-weight", "font-style", "font-variant-numeric", "text-anchor"];
  const INITIAL = {
    "fill-opacity": "1", "stroke-opacity": "1", "stroke-dasharray": "none", "stroke-linecap": "butt",
    "stroke-linejoin": "miter", opacity: "1", "shape-rendering": "auto", visibility: "visible",
    "font-style": "normal", "font-variant-numeric": "normal", "text-anchor": "start",
  };
  const NUMBER = /^[-−]?\d{1,3}(,\d{3})*(\.\d+)?$/;
  const UNSAID = "svg, summary, button, .unseen, [aria-hidden=true]";
  const SHARPNESS = 3;

  // A drawing alone: what the page's style gave it becomes attributes, which every program that reads SVG knows.
  const plain = (drawing) => {
    const copy = drawing.cloneNode(true);
    const copies = [copy, ...copy.querySelectorAll("*")];
    [drawing, ...drawing.querySelectorAll("*")].forEach((one, place) => settle(one, copies[place]));
    const { x, y, width, height } = drawing.viewBox.baseVal;
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const ground = document.createElementNS(drawing.namespaceURI, "rect");
    const sides = { x, y, width, height, fill: groundOf(drawing) };
    for (const [name, value] of Object.entries(sides)) ground.setAttribute(name, value);
    copy.querySelector("desc").after(ground);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const settle = (one, copy) => {
    copy.removeAttribute("class");
    if (/^(title|desc|svg|pattern|defs)$/.test(one.tagName)) return;
    const style = getComputedStyle(one);
    const isText = /^(text|tspan)$/.test(one.tagName);
    for (const name of isText ? [...DRAWN, ...WRITTEN] : DRAWN) {
      const value = style.getPropertyValue(name);
      if (value && value !== INITIAL[name]) copy.setAttribute(name, value);
      else copy.removeAttribute(name);
    }
    // Not every program knows other baselines than the letters' own.
    if (isText && style.dominantBaseline === "central") copy.setAttribute("dy", "0.35em");
  };
  const groundOf = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
    }
    return "white";
  };

  const pixels = async ({ text, width, height }) => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(SHARPNESS * width);
    canvas.height = Math.round(SHARPNESS * height);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };

  // A table as it is shown: rows that a filter hides stay out, and a cell across several columns leaves blanks.
  const comma = (table) => {
    const lines = [...table.rows].filter((row) => !row.closest("[hidden]")).map((row) =>
      [...row.cells].flatMap((cell) => [quoted(said(cell)), ...Array(cell.colSpan - 1).fill("")]).join(","),
    );
    return `\ufeff${lines.join("\r\n")}\r\n`;
  };
  const said = (cell) => {
    const words = spoken(cell).replace(/\u200b/g, "").replace(/\u2011/g, "-").replace(/\s+/g, " ").trim();
    return NUMBER.test(words) ? words.replace(/,/g, "").replace("−", "-") : words;
  };
  const spoken = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(UNSAID)) return "";
    const inside = [...node.childNodes].map(spoken).join("");
    const power = { SUP: "^", SUB: "_" }[node.tagName];
    if (power) return inside.length > 1 ? `${power}(${inside})` : `${power}${inside}`;
    if (node.tagName === "LI" && node.nextElementSibling) return `${inside.trim()}; `;
    const inline = getComputedStyle(node).display.startsWith("inline");
    return inline ? inside : ` ${inside} `;
  };
  const quoted = (words) => (/[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words);

  const hand = (content, name, kind) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  const taken = new Set();
  const fileName = (words) => {
    const stem = `separatrix-${words.toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^-+|-+$/g, "")}`;
    let name = stem;
    for (let number = 2; taken.has(name); number += 1) name = `${stem}-${number}`;
    taken.add(name);
    return name;
  };
  const button = (what, of, act) => {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = what;
    one.setAttribute("aria-label", `Save as ${what}: ${of}`);
    one.addEventListener("click", act);
    return one;
  };
  const bar = (...buttons) => {
    const all = document.createElement("div");
    all.className = "export";
    all.append(...buttons);
    return all;
  };

  for (const drawing of document.querySelectorAll("svg.drawing")) {
    const [title] = (drawing.getAttribute("aria-labelledby") || "").split(" ");
    const of = drawing.querySelector("title")?.textContent || "drawing";
    const name = fileName(title.replace(/-title$/, "") || of);
    drawing.parentElement.classList.add("exportable");
    drawing.after(
      bar(
        button("SVG", of, () => hand(plain(drawing).text, `${name}.svg`, "image/svg+xml")),
        button("PNG", of, async () => hand(await pixels(plain(drawing)), `${name}.png`, "image/png")),
      ),
    );
  }
  for (const table of document.querySelectorAll("table")) {
    const frame = table.closest(".scroll");
    const section = table.closest("section[aria-labelledby]")?.getAttribute("aria-labelledby") || "table";
    const of = table.caption?.textContent.trim() || frame?.getAttribute("aria-label") || section;
    const name = fileName(table.dataset.export || of.replace(/-heading$/, ""));
    const save = bar(button("CSV", of, () => hand(comma(table), `${name}.csv`, "text/csv")));
    save.classList.add("of-table");
    if (frame) frame.before(save);
    else {
      const holder = document.createElement("div");
      table.replaceWith(holder);
      holder.append(save, table);
    }
  }
})();
