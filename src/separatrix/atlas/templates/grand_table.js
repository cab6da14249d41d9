"use strict";
(() => {
  const table = document.querySelector(".grand");
  const { rows, formulas, cells } = JSON.parse(table.dataset.laws);

  // Whole numbers of any size, exactly: the same operations as separatrix.atlas.formulas.
  const length = (x) => BigInt(x.toString(2).length);
  const ceilLog = (x) => (x <= 1n ? 0n : length(x - 1n));
  const floorDivide = (a, b) => (a < 0n && a % b !== 0n ? a / b - 1n : a / b);
  const ceilDivide = (a, b) => -floorDivide(-a, b);
  const power = (base, exponent) => base ** exponent;
  const isPowerOfTwo = (x) => (x & (x - 1n)) === 0n;

  // The binary digits of base^exponent, from the leading digits of a lower and an upper bound of it.
  const digits = (base, exponent) => {
    for (let kept = 64n + 2n * length(exponent); ; kept *= 2n) {
      let low = 1n, high = 1n, cut = 0n;
      for (const digit of exponent.toString(2)) {
        low *= low;
        high *= high;
        cut *= 2n;
        if (digit === "1") {
          low *= base;
          high *= base;
        }
        const spare = length(high) > kept ? length(high) - kept : 0n;
        low >>= spare;
        high = -(-high >> spare);
        cut += spare;
      }
      if (length(low) === length(high)) return length(low) + cut;
    }
  };
  const bits = (base, exponent, otherwise) => {
    if (base < 2n || exponent < 1n) return 0n;
    return isPowerOfTwo(base) ? exponent * (length(base) - 1n) : digits(base, exponent) - otherwise;
  };
  const choose = (total, chosen) => {
    let value = 1n;
    for (let i = 1n; i <= chosen; i++) value = (value * (total - chosen + i)) / i;
    return value;
  };
  const root = (of, degree) => {
    let low = 2n, high = of > 2n ? of : 2n;
    while (low < high) {
      const middle = (low + high) / 2n;
      if (middle ** degree < of) low = middle + 1n;
      else high = middle;
    }
    return low;
  };
  const operations = {
    "+": (...of) => of.reduce((a, b) => a + b),
    "-": (a, b) => a - b,
    "*": (...of) => of.reduce((a, b) => a * b),
    "floor/": floorDivide,
    "ceil/": ceilDivide,
    "^": power,
    min: (...of) => of.reduce((a, b) => (a < b ? a : b)),
    max: (...of) => of.reduce((a, b) => (a > b ? a : b)),
    "ceil log": ceilLog,
    "ceil bits": (base, exponent) => bits(base, exponent, 0n),
    "floor bits": (base, exponent) => bits(base, exponent, 1n),
    choose,
    root,
  };
  const evaluate = (node, names) => {
    if (typeof node === "number") return BigInt(node);
    if (typeof node === "string") return names[node];
    const [kind, ...rest] = node;
    if (kind === "steps") {
      const at = evaluate(rest[0], names);
      const step = rest[1].find(([end]) => at <= BigInt(end));
      return BigInt(step ? step[1] : rest[2]);
    }
    if (kind === "peak") {
      const [over, from, to, height, there] = rest;
      let low = evaluate(from, names), high = evaluate(to, names);
      const at = (place) => inDoubles(height, { ...names, [over]: place });
      while (low < high) {
        const middle = (low + high) / 2n;
        if (at(middle) < at(middle + 1n)) low = middle + 1n;
        else high = middle;
      }
      return evaluate(there, { ...names, [over]: low });
    }
    return operations[kind](...rest.map((each) => evaluate(each, names)));
  };
  const doubles = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "^": (a, b) => a ** b,
    min: Math.min,
    log: Math.log2,
  };
  const inDoubles = (node, names) => {
    if (!Array.isArray(node) || !(node[0] in doubles)) return Number(evaluate(node, names));
    return doubles[node[0]](...node.slice(1).map((each) => inDoubles(each, names)));
  };

  const words = {
    can: ["✓", "can"], law: ["✓", "by law"], cannot: ["✕", "cannot"], gap: ["?", "gap"],
    open: ["○", "open"], condition: ["◇", "on a condition"], nothing: ["·", "nothing"], absent: ["–", "no input"],
  };
  const holds = (row, n) => !(row.even && n % 2n) && (row.most === null || n <= BigInt(row.most));
  const standing = (cell, at, view) => {
    if (!at.present) return "absent";
    if (at.needs !== null && view.bits < at.needs) return "cannot";
    if (at.suffices !== null && view.bits >= at.suffices) return at.built ? "can" : "law";
    if (cell.asked) return "open";
    if (at.needs !== null || at.suffices !== null) return "gap";
    return cell.conditional ? "condition" : "nothing";
  };
  const valuesAt = (view) => {
    const names = rows.map((row) => {
      const own = Object.entries(row.names).map(([name, value]) => [name, BigInt(value)]);
      return { ...Object.fromEntries(own), n: view.n, p: view.p };
    });
    const known = new Map();
    const value = (number) => {
      if (!known.has(number)) {
        const [row, node] = formulas[number];
        known.set(number, evaluate(node, names[row]));
      }
      return known.get(number);
    };
    return cells.map((cell) => {
      if (!holds(rows[cell.row], view.n)) return { present: false, needs: null, suffices: null, built: false };
      const built = cell.suffices.filter(([, to]) => view.n <= BigInt(to));
      const enough = (built.length ? built : cell.suffices.filter(([, , on]) => on)).map(([law]) => value(law));
      const needs = cell.needs.map(value);
      return {
        present: true,
        needs: needs.length ? operations.max(...needs) : null,
        suffices: enough.length ? operations.min(...enough) : null,
        built: built.length > 0,
      };
    });
  };

  const grouped = (number) => number.toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const short = (number, up) => {
    if (number < 100000n) return grouped(number);
    let dropped = number.toString().length - 3;
    const unit = 10n ** BigInt(dropped);
    let kept = number / unit;
    if (up && number % unit) kept += 1n;
    if (kept === 1000n) {
      kept = 100n;
      dropped += 1;
    }
    const thousands = Math.floor((dropped + 2) / 3);
    const before = 3 - (3 * thousands - dropped);
    const text = kept.toString();
    return (before < 3 ? `${text.slice(0, before)}.${text.slice(before)}` : text) + "kMGTPEZY"[thousands - 1];
  };

  const form = document.querySelector(".dials");
  const said = document.querySelector(".said-of");
  const tallies = [...document.querySelectorAll("[data-tally]")];
  const squares = cells.map((cell) => {
    const square = document.querySelector(`[data-cell="${cell.id}"]`);
    const part = (name) => square.querySelector(`.${name}`);
    return {
      square, sign: part("sign"), word: part("word"), bound: part("bound"), enough: part("enough"),
      now: document.querySelector(`[data-now="${cell.id}"]`),
    };
  });

  const first = { n: BigInt(said.dataset.n), bits: BigInt(said.dataset.bits), p: BigInt(said.dataset.p) };
  let view = { ...first };
  const sentence = (at, quantity) => {
    const needs = at.needs === null ? "" : `: needs at least ${grouped(at.needs)}`;
    const enough = at.suffices === null ? "" : `${needs ? "," : ":"} ${grouped(at.suffices)} suffice`;
    return ` at n = ${grouped(view.n)}${needs}${enough} (${quantity})`;
  };
  const plain = (number) => (number === null ? "" : number.toString());
  const put = (place, text) => { if (place.textContent !== text) place.textContent = text; };
  const told = []; // what brings the sentence of a cell up to date, done when it opens
  const paint = () => {
    const counts = Object.fromEntries(Object.keys(words).map((stands) => [stands, 0]));
    for (const row of rows) counts[holds(row, view.n) ? "nothing" : "absent"] += row.silent;
    valuesAt(view).forEach((at, place) => {
      const cell = cells[place], { square, sign, word, bound, enough, now } = squares[place];
      const stands = standing(cell, at, view);
      counts[stands] += 1;
      if (square.dataset.standing !== stands) square.dataset.standing = stands;
      square.dataset.needs = plain(at.needs);
      square.dataset.suffices = plain(at.suffices);
      put(sign, words[stands][0]);
      put(word, stands === "nothing" ? square.dataset.silence : words[stands][1]);
      put(bound, at.needs === null ? "" : `≥ ${short(at.needs, false)}`);
      put(enough, at.suffices === null ? "" : `≤ ${short(at.suffices, true)}`);
      told[place] = () => {
        now.firstElementChild.textContent = words[stands][1];
        now.lastChild.textContent = sentence(at, now.dataset.quantity);
      };
    });
    for (const tally of tallies) tally.textContent = counts[tally.dataset.tally];
    said.textContent =
      `At n = ${grouped(view.n)} with a budget of ${grouped(view.bits)} bits and numbers of ${view.p} bits: ` +
      `${counts.can + counts.law} cells can, ${counts.cannot} cannot.`;
    show(form.n, view.n, "");
    show(form.bits, view.bits, " bits");
    form.p.value = view.p.toString();
  };
  const raised = (number) => [...number.toString()].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
  const show = (dial, value, unit) => {
    const exponent = Number(length(value) - 1n);
    dial.value = exponent;
    const exact = isPowerOfTwo(value) ? `2${raised(exponent)} = ` : "";
    dial.parentElement.querySelector(".reading").textContent = `${exact}${grouped(value)}${unit}`;
    dial.setAttribute("aria-valuetext", `${grouped(value)}${unit}`);
  };

  let asked = 0;
  const later = () => {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); });
  };
  const keep = () => history.replaceState(null, "", `#n=${view.n}&bits=${view.bits}&p=${view.p}`);
  const limits = { n: [16n, 1n << 30n], bits: [16n, 1n << 50n] };
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (!given.has("n") && !given.has("bits") && !given.has("p")) return false;
    for (const [name, [least, most]] of Object.entries(limits)) {
      const text = given.get(name) || "";
      const value = /^\d{1,16}$/.test(text) ? BigInt(text) : null;
      if (value !== null && value >= least && value <= most) view[name] = value;
    }
    if ([...form.p.options].some((option) => option.value === given.get("p"))) view.p = BigInt(given.get("p"));
    return true;
  };
  form.addEventListener("input", (event) => {
    const { name, value } = event.target;
    view[name] = name === "p" ? BigInt(value) : 1n << BigInt(value);
    later();
  });
  form.addEventListener("change", keep);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    view = { ...first };
    later();
    keep();
  });
  addEventListener("hashchange", () => { if (read()) later(); });

  const sheet = document.querySelector(".sheet"), held = sheet.querySelector(".held-cell");
  const shelf = document.querySelector(".opened-cells");
  const back = () => { while (held.firstChild) shelf.append(held.firstChild); };
  const open = (name) => {
    back();
    held.append(document.getElementById(name));
    told[cells.findIndex((cell) => cell.id === name)]();
    if (!sheet.open) sheet.showModal();
    sheet.scrollTop = 0;
  };
  table.addEventListener("click", (event) => {
    const link = event.target.closest("td a");
    if (!link) return;
    event.preventDefault();
    open(link.hash.slice(1));
  });
  sheet.addEventListener("close", back);
  sheet.addEventListener("click", (event) => {
    if (event.target === sheet || event.target.closest("a[href^='#']")) sheet.close();
  });
  for (const link of table.querySelectorAll("td a")) link.setAttribute("aria-haspopup", "dialog");

  form.hidden = false;
  const linked = read();
  paint();
  if (linked) document.getElementById("table").scrollIntoView();
})();
