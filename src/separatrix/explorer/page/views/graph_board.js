// A graph to draw: a click is a vertex, a click on two vertices or a drag between them is an edge. The same
// by keys: vertices and edges take the focus, Enter picks and joins, Delete removes. A line of text beside it
// says the same graph in words and can be typed into.

import { el, put, svg } from "/common.js";

const WIDTH = 400;
const HEIGHT = 250;
const RADIUS = 16;
const NEAR = 22; // a pointer so close to a vertex means it
const MOVED = 8; // a pointer that went less far was a click

const joins = (edge, u, v) => edge[0] === Math.min(u, v) && edge[1] === Math.max(u, v);

export function written({ vertices, edges }) {
  const joined = new Set(edges.flat());
  const alone = [];
  for (let v = 1; v <= vertices; v += 1) if (!joined.has(v)) alone.push(String(v));
  return [...edges.map(([u, v]) => `${u} ~ ${v}`), ...alone].join("  ");
}

// The graph that a text says: edges `1 ~ 3`, and vertices alone. An Error says what is wrong.
export function parsed(text, most) {
  const rest = text.replace(/(\d+)\s*[~-]\s*(\d+)|\d+/g, " ").replace(/[\s,;]+/g, "");
  if (rest) throw new Error(`A graph is edges such as 1 ~ 3, and vertices alone; got “${rest.slice(0, 20)}”.`);
  const edges = [];
  let vertices = 0;
  for (const found of text.matchAll(/(\d+)\s*[~-]\s*(\d+)|(\d+)/g)) {
    const ends = found[3] === undefined ? [Number(found[1]), Number(found[2])] : [Number(found[3])];
    const strange = ends.find((end) => end < 1 || end > most);
    if (strange !== undefined) throw new Error(`Vertices are numbered 1 to ${most}; got ${strange}.`);
    vertices = Math.max(vertices, ...ends);
    if (ends.length === 1) continue;
    const [u, v] = ends;
    if (u === v) throw new Error(`An edge joins two different vertices; got ${u} ~ ${v}.`);
    if (edges.some((edge) => joins(edge, u, v))) throw new Error(`Every edge stands once; got ${u} ~ ${v} twice.`);
    edges.push([Math.min(u, v), Math.max(u, v)]);
  }
  if (vertices === 0) throw new Error("A graph has a vertex at least; write 1, or draw one.");
  return { vertices, edges };
}

function neighboursOf({ vertices, edges }) {
  const found = Array.from({ length: vertices + 1 }, () => []);
  for (const [u, v] of edges) {
    found[u].push(v);
    found[v].push(u);
  }
  return found;
}

// Trees hang from their least vertex; a graph with a cycle stands on an ellipse, where no three are in line.
function placed(graph) {
  const beside = neighboursOf(graph);
  const level = new Map();
  const column = new Map();
  let leaves = 0;
  let cycle = false;
  const settle = (vertex, depth, parent) => {
    level.set(vertex, depth);
    const below = [];
    for (const other of beside[vertex]) {
      if (other === parent) continue;
      if (level.has(other)) cycle = true;
      else below.push(settle(other, depth + 1, vertex));
    }
    column.set(vertex, below.length ? below.reduce((sum, each) => sum + each, 0) / below.length : leaves++);
    return column.get(vertex);
  };
  for (let v = 1; v <= graph.vertices; v += 1) if (!level.has(v)) settle(v, 0, null);
  const places = [];
  if (cycle) {
    for (let v = 1; v <= graph.vertices; v += 1) {
      const turn = (2 * Math.PI * (v - 1)) / graph.vertices - Math.PI / 2;
      places[v] = [WIDTH / 2 + 150 * Math.cos(turn), HEIGHT / 2 + 95 * Math.sin(turn)];
    }
    return places;
  }
  const across = Math.min(62, (WIDTH - 60) / Math.max(1, leaves - 1));
  const down = Math.min(58, (HEIGHT - 50) / Math.max(1, Math.max(...level.values())));
  const left = (WIDTH - across * (leaves - 1)) / 2;
  const top = (HEIGHT - down * Math.max(...level.values())) / 2;
  for (const [v, depth] of level) places[v] = [left + across * column.get(v), top + down * depth];
  return places;
}

export function graphBoard({ graph, most, onchange }) {
  let now = graph;
  let places = placed(now);
  let picked = null; // a vertex that waits for the one it is joined to
  let chosen = null; // what Delete removes: a vertex's number or an edge
  let drag = null;
  let marks = {};

  const lines = svg("g");
  const dots = svg("g");
  const rubber = svg("line", { class: "board-rubber", visibility: "hidden" });
  const ground = svg("rect", { class: "board-ground", width: WIDTH, height: HEIGHT });
  const drawing = svg("svg", { class: "board", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group",
    "aria-label": "Drawing of the graph" }, ground, lines, rubber, dots);
  const said = el("p", { class: "status", role: "status" });
  const text = el("input", { class: "typed", spellcheck: "false", autocomplete: "off", value: written(now) });
  const remove = el("button", { type: "button", onclick: () => removeChosen() }, "Delete");

  const changed = (words) => {
    text.value = written(now);
    marks = {};
    draw();
    said.className = "status";
    put(said, words);
    onchange(now);
  };

  const free = () => { // the roomiest of a few places
    let best = [WIDTH / 2, HEIGHT / 2];
    let most = -1;
    for (let x = 40; x <= WIDTH - 40; x += 40) {
      for (let y = 35; y <= HEIGHT - 35; y += 36) {
        const near = Math.min(...places.filter(Boolean).map(([a, b]) => Math.hypot(a - x, b - y)), 400);
        if (near > most) [best, most] = [[x, y], near];
      }
    }
    return best;
  };

  const addVertex = (place) => {
    if (now.vertices >= most) {
      put(said, `There are at most ${most} vertices here.`);
      return;
    }
    now = { vertices: now.vertices + 1, edges: now.edges };
    places[now.vertices] = place;
    chosen = now.vertices;
    changed(`Vertex ${now.vertices} is there.`);
  };

  const toggle = (u, v) => {
    const there = now.edges.some((edge) => joins(edge, u, v));
    const edges = there
      ? now.edges.filter((edge) => !joins(edge, u, v))
      : [...now.edges, [Math.min(u, v), Math.max(u, v)]];
    now = { vertices: now.vertices, edges };
    picked = null;
    chosen = v;
    changed(there ? `${u} and ${v} are no longer joined.` : `${u} and ${v} are joined.`);
  };

  const removeVertex = (gone) => {
    if (now.vertices === 1) {
      put(said, "A graph has a vertex at least.");
      return;
    }
    const renamed = (v) => (v > gone ? v - 1 : v);
    const edges = now.edges.filter((edge) => !edge.includes(gone)).map((edge) => edge.map(renamed));
    now = { vertices: now.vertices - 1, edges };
    places.splice(gone, 1);
    picked = null;
    chosen = null;
    changed(`Vertex ${gone} is gone${gone <= now.vertices ? "; those behind it have moved up by one" : ""}.`);
  };

  const removeChosen = () => {
    if (Array.isArray(chosen)) {
      const [u, v] = chosen;
      toggle(u, v);
      chosen = null;
      draw();
    } else if (chosen !== null) removeVertex(chosen);
    else put(said, "Choose a vertex or an edge first.");
  };

  const pick = (vertex) => {
    chosen = vertex;
    if (picked === null) {
      picked = vertex;
      put(said, `${vertex} is picked: choose another vertex to join it with.`);
    } else if (picked === vertex) {
      picked = null;
      put(said, "");
    } else {
      toggle(picked, vertex);
      focusOn(vertex);
      return;
    }
    draw();
    focusOn(vertex);
  };

  const focusOn = (key) => drawing.querySelector(`[data-key="${key}"]`)?.focus({ preventScroll: true });

  const keys = (event, what) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (Array.isArray(what)) { chosen = what; draw(); } else pick(what);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      chosen = what;
      removeChosen();
      drawing.querySelector("[data-vertex]")?.focus({ preventScroll: true });
    } else if (event.key === "Escape" && picked !== null) {
      picked = null;
      put(said, "");
      draw();
      if (!Array.isArray(what)) focusOn(what);
    } else if (!Array.isArray(what) && event.key.startsWith("Arrow")) {
      event.preventDefault();
      const step = event.key === "ArrowRight" || event.key === "ArrowDown" ? 1 : now.vertices - 1;
      focusOn(((what - 1 + step) % now.vertices) + 1);
    }
  };

  const same = (a, b) => Array.isArray(a) && Array.isArray(b) && a[0] === b[0] && a[1] === b[1];
  const has = (edges, [u, v]) => (edges ?? []).some(([a, b]) => (a === u && b === v) || (a === v && b === u));

  // Everything is drawn anew, and who had the focus has it again.
  function draw() {
    const focused = drawing.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const beside = neighboursOf(now);
    put(lines, now.edges.map((edge) => {
      const [[x1, y1], [x2, y2]] = edge.map((v) => places[v]);
      const classes = ["board-edge", has(marks.used, edge) && "used", marks.looks && has([marks.looks], edge) && "looks",
        same(chosen, edge) && "chosen"].filter(Boolean).join(" ");
      return svg("g", { class: classes, tabindex: "0", role: "button", "data-key": edge.join("-"),
        "aria-label": `Edge ${edge[0]} ~ ${edge[1]}`, "aria-pressed": same(chosen, edge) ? "true" : "false",
        onclick: () => { chosen = edge; picked = null; draw(); focusOn(edge.join("-")); },
        onkeydown: (event) => keys(event, edge) },
      svg("line", { class: "board-reach", x1, y1, x2, y2 }), svg("line", { class: "board-line", x1, y1, x2, y2 }));
    }));
    const vertices = Array.from({ length: now.vertices }, (_, place) => place + 1);
    put(dots, vertices.map((v) => {
      const classes = ["board-vertex", marks.met?.has(v) && "met", marks.at === v && "at", picked === v && "picked",
        chosen === v && "chosen"].filter(Boolean).join(" ");
      const label = `Vertex ${v}, ${beside[v].length ? `joined to ${beside[v].join(", ")}` : "alone"}` +
        (marks.at === v ? "; the walk is here" : "");
      return svg("g", { class: classes, tabindex: "0", role: "button", "data-vertex": v, "data-key": v, "aria-label": label,
        "aria-pressed": picked === v ? "true" : "false",
        onpointerdown: (event) => begin(event, v), onkeydown: (event) => keys(event, v) },
      svg("circle", { class: "board-reach", cx: places[v][0], cy: places[v][1], r: NEAR }),
      svg("circle", { class: "board-dot", cx: places[v][0], cy: places[v][1], r: RADIUS }),
      svg("text", { class: "board-name", x: places[v][0], y: places[v][1], dy: "0.36em" }, v));
    }));
    if (focused) focusOn(focused);
  }

  const point = (event) => {
    const box = drawing.getBoundingClientRect();
    return [((event.clientX - box.left) * WIDTH) / box.width, ((event.clientY - box.top) * HEIGHT) / box.height];
  };
  const inside = ([x, y]) => [Math.max(RADIUS + 4, Math.min(WIDTH - RADIUS - 4, x)),
    Math.max(RADIUS + 4, Math.min(HEIGHT - RADIUS - 4, y))];
  const vertexAt = ([x, y]) => {
    for (let v = 1; v <= now.vertices; v += 1) {
      if (Math.hypot(places[v][0] - x, places[v][1] - y) <= NEAR) return v;
    }
    return null;
  };
  const begin = (event, vertex) => {
    event.preventDefault();
    drag = { vertex, from: point(event), far: false };
    drawing.setPointerCapture(event.pointerId);
  };
  drawing.addEventListener("pointermove", (event) => {
    if (drag === null) return;
    const [x, y] = point(event);
    drag.far = drag.far || Math.hypot(x - drag.from[0], y - drag.from[1]) > MOVED;
    if (!drag.far) return;
    const [x1, y1] = places[drag.vertex];
    for (const [name, value] of Object.entries({ x1, y1, x2: x, y2: y, visibility: "visible" })) {
      rubber.setAttribute(name, value);
    }
  });
  const finish = (event) => {
    if (drag === null) return;
    const { vertex, far } = drag;
    drag = null;
    rubber.setAttribute("visibility", "hidden");
    if (event.type === "pointercancel") return;
    const other = vertexAt(point(event));
    if (!far) pick(vertex);
    else if (other !== null && other !== vertex) toggle(vertex, other);
    else {
      places[vertex] = inside(point(event));
      draw();
    }
  };
  drawing.addEventListener("pointerup", finish);
  drawing.addEventListener("pointercancel", finish);
  ground.addEventListener("click", (event) => {
    picked = null;
    addVertex(inside(point(event)));
  });

  text.addEventListener("input", () => {
    try {
      const next = parsed(text.value, most);
      // What is drawn already stays where it is, unless another number of vertices wants another order.
      if (next.vertices !== now.vertices) places = placed(next);
      now = next;
      [picked, chosen, marks] = [null, null, {}];
      draw();
      said.className = "status";
      put(said, "");
      onchange(now);
    } catch (error) {
      said.className = "status wrong";
      put(said, error.message);
    }
  });

  draw();
  const tools = el("div", { class: "board-tools" },
    el("div", { class: "controls" },
      el("button", { type: "button", onclick: () => addVertex(free()) }, "Add vertex"), remove,
      el("button", { type: "button", onclick: () => {
        now = { vertices: 1, edges: [] };
        places = placed(now);
        [picked, chosen] = [null, null];
        changed("One vertex is left.");
      } }, "Clear"),
      el("button", { type: "button", onclick: () => { places = placed(now); draw(); } }, "Tidy")),
    el("label", { class: "field" }, el("span", { class: "field-label" }, "The same graph in words"), text),
    said,
    el("p", { class: "note" }, `Click the ground for a vertex, at most ${most}; click two vertices, or drag from one to ` +
      "the other, for an edge. By keys: Tab or arrows to a vertex, Enter on two of them, Delete."));
  return {
    drawing,
    tools,
    graph: () => now,
    mark: (next) => { marks = next; draw(); },
  };
}
