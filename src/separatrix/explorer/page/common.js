// What several views need. Everything from an answer goes into the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attrs, children) {
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "value" && "value" in element && element.tagName !== "OPTION") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// An HTML element: el("p", { class: "note" }, "text", el("b", null, "bold")). A function is a listener:
// { onclick: () => … }. null, undefined and false leave an attribute or a child out.
export function el(tag, attrs, ...children) {
  const element = document.createElement(tag);
  // A select or a text area has its value once its children are there.
  const { value, ...others } = attrs ?? {};
  fill(element, others, children);
  return value === undefined ? element : fill(element, { value }, []);
}

// An SVG element, the same way.
export function svg(tag, attrs, ...children) {
  return fill(document.createElementNS(SVG, tag), attrs, children);
}

// Replace what an element holds.
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

// A labelled control: field("Input", el("input", {…})). The label wraps it, so a click reaches it.
export function field(label, control, hint) {
  const words = el("span", { class: "field-label" }, label);
  return el("label", { class: "field" }, words, control, hint ? el("small", null, hint) : null);
}

// A menu: pairs are [value, text] or plain texts.
export function menu(pairs, value, onchange) {
  const options = pairs.map((pair) => {
    const [key, text] = Array.isArray(pair) ? pair : [pair, pair];
    return el("option", { value: key }, text);
  });
  return el("select", { value, onchange }, options);
}

// A table; a cell may be a text or an element.
export function table(caption, heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", null,
      el("caption", null, caption),
      el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", null, rows.map((row) => el("tr", null, row.map((cell, place) =>
        place === 0 ? el("th", { scope: "row" }, cell) : el("td", null, cell)))))));
}

// Facts in pairs: facts([["bits", "12"], …]).
export function facts(pairs) {
  return el("dl", { class: "facts" },
    pairs.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

// A short mark with a tone: "good", "bad" or "plain".
export function badge(text, tone = "plain") {
  return el("span", { class: `badge ${tone}` }, text);
}

// Numbers as people read them.
export function count(number) {
  return Number(number).toLocaleString("en-US");
}

export function short(number) {
  if (typeof number !== "number") return String(number);
  if (number !== 0 && (Math.abs(number) >= 1e6 || Math.abs(number) < 1e-3)) return number.toExponential(2);
  return String(Number(number.toPrecision(4)));
}

// A heat map of values from 0 to 1, one row for each reader and one column for each that is read.
// Rows take the focus: hovering or focusing one calls onrow(index); arrow keys move between rows.
// Options: rows, columns (texts), title, onrow, describe(row) (the text a screen reader has of a row).
export function heatmap(values, options) {
  const { rows, columns, title, onrow, describe } = options;
  const size = options.size ?? (columns.length > 24 ? 14 : 22);
  const left = 8 + 8.5 * Math.min(12, Math.max(...rows.map((text) => text.length), 1));
  const top = 14 + 8.5 * Math.min(12, Math.max(...columns.map((text) => text.length), 1));
  const width = left + columns.length * size + 2;
  const height = top + rows.length * size + 2;
  const cut = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);
  const heads = columns.map((text, column) => {
    const x = left + (column + 0.5) * size;
    return svg("text", { class: "tick", x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})`, dy: 4 },
      cut(text));
  });
  const groups = [];
  const markRow = (index) => groups.forEach((group, place) => {
    group.setAttribute("tabindex", place === index ? "0" : "-1");
    group.classList.toggle("on", place === index);
  });
  const chooseRow = (index) => {
    markRow(index);
    if (onrow) onrow(index);
  };
  rows.forEach((text, row) => {
    const y = top + row * size;
    const cells = values[row].map((value, column) => svg("rect", {
      class: "heat", x: left + column * size, y, width: size - 1, height: size - 1,
      "fill-opacity": Math.max(0, Math.min(1, value)).toFixed(4),
    }, svg("title", null, `${text} reads ${columns[column]}: ${short(value)}`)));
    const ground = svg("rect", { class: "heat-ground", x: left, y, width: columns.length * size - 1,
      height: size - 1 });
    const label = describe ? describe(row) : text;
    groups.push(svg("g", {
      class: "heat-row", tabindex: row === 0 ? "0" : "-1", role: "img", "aria-label": label,
      onpointerenter: () => chooseRow(row), onfocus: () => chooseRow(row),
      onkeydown: (event) => {
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        const target = { Home: 0, End: rows.length - 1 }[event.key] ?? (step ? row + step : null);
        if (target === null || !groups[target]) return;
        event.preventDefault();
        groups[target].focus();
      },
    }, svg("text", { class: "tick end", x: left - 6, y: y + size / 2 + 4 }, cut(text)), ground, cells));
  });
  const drawing = svg("svg", { class: "heatmap", width, height, viewBox: `0 0 ${width} ${height}`,
    role: "group", "aria-label": title ?? "heat map" }, heads, groups);
  drawing.markRow = markRow; // shows a row as chosen without telling anybody
  return drawing;
}

// Bits as little boxes, those that changed since `before` marked: bitstring("0110", "0100").
export function bitstring(bits, before) {
  const changed = (place) => before !== undefined && before !== null && before[place] !== bits[place];
  return el("span", { class: "bits", role: "img", "aria-label": `bits ${bits}` },
    [...bits].map((bit, place) =>
      el("span", { class: `bit ${bit === "1" ? "one" : "zero"}${changed(place) ? " changed" : ""}` }, bit)));
}

// Frames one after another: draw(frame, index) is called for the one that is shown. Buttons, a slider,
// arrow keys, Home and End, and play and pause. Returns the element, with show(index) and stop().
export function stepper(frames, draw, options = {}) {
  const label = options.label ?? "step";
  let at = 0;
  let timer = null;
  const where = el("output", { class: "stepper-where", "aria-live": "off" });
  const slider = el("input", { type: "range", min: 0, max: Math.max(0, frames.length - 1), value: 0,
    "aria-label": `Which ${label}`, oninput: () => { stop(); show(Number(slider.value)); } });
  const button = (text, name, act) => el("button", { type: "button", "aria-label": name, onclick: act }, text);
  const play = button("▶ Play", "Play", () => (timer === null ? start() : stop()));
  const show = (index) => {
    at = Math.max(0, Math.min(frames.length - 1, index));
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${label} ${at + 1} of ${frames.length}`);
    put(where, `${label} ${at + 1} of ${frames.length}`);
    if (frames.length) draw(frames[at], at);
  };
  const stop = () => {
    if (timer !== null) clearInterval(timer);
    timer = null;
    put(play, "▶ Play");
    play.setAttribute("aria-label", "Play");
  };
  const start = () => {
    if (at >= frames.length - 1) show(0);
    timer = setInterval(() => {
      if (!element.isConnected || at >= frames.length - 1) stop();
      else show(at + 1);
    }, options.pace ?? 450);
    put(play, "❚❚ Pause");
    play.setAttribute("aria-label", "Pause");
  };
  const step = (by) => { stop(); show(at + by); };
  const element = el("div", { class: "stepper", role: "group", "aria-label": `${label} by ${label}`,
    onkeydown: (event) => {
      if (event.target === slider) return; // a slider knows these keys itself
      const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: frames.length - 1 }[event.key];
      if (target === undefined) return;
      event.preventDefault();
      stop();
      show(target);
    } },
  button("|◀", "First", () => step(-frames.length)), button("◀", "Back", () => step(-1)), play,
  button("▶", "Forward", () => step(1)), button("▶|", "Last", () => step(frames.length)), slider, where);
  element.show = (index) => { stop(); show(index); };
  element.stop = stop;
  show(options.first ?? 0);
  return element;
}

// The life of a question: says in words that it is being computed, shows the answer, or says what went
// wrong. Only the newest question's answer is shown. asking(ask, show) returns { element, put }:
// `element` goes into the page, `put(payload)` asks.
export function asking(ask, show) {
  const status = el("p", { class: "status", role: "status" });
  const result = el("div", { class: "result" });
  let newest = 0;
  const question = async (payload) => {
    const mine = (newest += 1);
    element.setAttribute("aria-busy", "true");
    status.className = "status";
    put(status, "Computing…");
    try {
      const answer = await ask(payload);
      if (mine !== newest) return;
      put(status, "");
      put(result, show(answer));
    } catch (error) {
      if (mine !== newest) return;
      status.className = "status wrong";
      put(status, error.message);
    }
    element.setAttribute("aria-busy", "false");
  };
  const element = el("div", { class: "asking", "aria-busy": "false" }, status, result);
  return { element, put: question };
}
