// Checks that a page runs on itself, each giving a list of complaints.
({
  contrast() {
    const parse = (text) => {
      const numbers = text.match(/-?[\d.]+(e-?\d+)?/g)?.map(Number) ?? [0, 0, 0, 0];
      const scale = text.startsWith("color(") ? 255 : 1;
      const [r, g, b] = numbers.slice(0, 3).map((value) => value * scale);
      return { r, g, b, a: numbers[3] ?? 1 };
    };
    const over = (top, under, opacity = 1) => {
      const a = top.a * opacity;
      const mix = (above, below) => above * a + below * (1 - a);
      return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 };
    };
    const luminance = ({ r, g, b }) => {
      const [x, y, z] = [r, g, b].map((v) => v / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const ratio = (one, other) => {
      const [light, dark] = [luminance(one), luminance(other)].sort((x, y) => y - x);
      return (light + 0.05) / (dark + 0.05);
    };
    const ancestors = (element) => {
      const found = [];
      for (let one = element; one; one = one.parentElement) found.unshift(one);
      return found;
    };
    const grounds = new Map();
    const ground = (element) => {
      if (!grounds.has(element)) {
        const canvas = parse(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "0 0 0" : "255 255 255");
        const under = element.parentElement ? ground(element.parentElement) : canvas;
        grounds.set(element, over(parse(getComputedStyle(element).backgroundColor), under));
      }
      return grounds.get(element);
    };
    const shapeUnder = (text) => {
      // Whatever was painted before these words, where their middle is.
      const svg = text.ownerSVGElement;
      const box = text.getBBox();
      const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(text.getCTM());
      let colour = ground(svg);
      for (const one of svg.querySelectorAll("rect, circle, polygon, path")) {
        if (one.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_PRECEDING || one.closest("pattern, defs")) continue;
        const style = getComputedStyle(one);
        if (style.fill === "none" || style.fill.startsWith("url")) continue;
        if (one.isPointInFill(middle.matrixTransform(one.getCTM().inverse()))) {
          colour = over(parse(style.fill), colour, Number(style.opacity) * Number(style.fillOpacity));
        }
      }
      return colour;
    };
    const complaints = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let seen = 0;
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (!node.data.trim() || element.closest("script, style, title, desc, option, [hidden]")) continue;
      if (!element.checkVisibility({ visibilityProperty: true })) continue;
      const style = getComputedStyle(element);
      const isDrawn = element instanceof SVGElement;
      const opacity = ancestors(element).reduce((all, one) => all * Number(getComputedStyle(one).opacity), 1);
      const under = isDrawn ? shapeUnder(element) : ground(element);
      const words = over(parse(isDrawn ? style.fill : style.color), under, opacity);
      const scale = isDrawn ? element.getScreenCTM().a : 1;
      const size = parseFloat(style.fontSize) * scale;
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const found = ratio(words, under);
      seen += 1;
      if (found < (large ? 3 : 4.5)) {
        const where = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
        complaints.add(`${found.toFixed(2)} ${where} in ${element.closest("[id]")?.id ?? "?"}: ${node.data.trim().slice(0, 40)}`);
      }
    }
    return { seen, complaints: [...complaints] };
  },
  headings() {
    const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => [Number(one.tagName[1]), one.textContent.trim()]);
    const skipped = levels.filter(([level], place) => level > (place ? levels[place - 1][0] : 0) + 1);
    const first = levels.filter(([level]) => level === 1);
    return { seen: levels.length, complaints: [...skipped.map(String), ...(first.length === 1 ? [] : [`${first.length} h1`])] };
  },
  pictures() {
    const complaints = [];
    const all = [...document.querySelectorAll("svg, img, canvas")];
    for (const one of all) {
      if (one.closest("[aria-hidden=true]")) continue;
      const names = (one.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
      const said = names.map((name) => document.getElementById(name)?.textContent ?? "").join(" ").trim();
      const named = said || one.getAttribute("aria-label") || one.getAttribute("alt");
      if (!named || (one.tagName === "svg" && one.getAttribute("role") !== "img")) complaints.push(one.outerHTML.slice(0, 120));
    }
    return { seen: all.length, complaints };
  },
  references() {
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    const twice = ids.filter((id, place) => ids.indexOf(id) !== place);
    const known = new Set(ids);
    const lost = [...document.querySelectorAll("a[href^='#']")].map((one) => decodeURIComponent(one.hash.slice(1))).filter((id) => id && !known.has(id));
    return { seen: ids.length, complaints: [...twice.map((id) => `twice: ${id}`), ...new Set(lost.map((id) => `nowhere: ${id}`))] };
  },
  widths() {
    const width = document.documentElement.clientWidth;
    const complaints = document.documentElement.scrollWidth > width ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
    for (const one of complaints.length ? document.body.querySelectorAll("*") : []) {
      const inFrame = one.parentElement.closest(".scroll, pre, svg");
      if (!inFrame && one.getBoundingClientRect().right > width + 1) {
        complaints.push(`${one.tagName}.${one.getAttribute("class") ?? ""} in ${one.closest("[id]")?.id}`);
      }
    }
    return { seen: width, complaints: complaints.slice(0, 20) };
  },
  prose() {
    const width = document.documentElement.clientWidth;
    const shown = [...document.querySelectorAll("p, li, dd, figcaption, .formula, .condition")].filter((one) => one.checkVisibility());
    const out = shown.filter((one) => one.getBoundingClientRect().right > width + 1);
    const complaints = out.map((one) => `${one.tagName}.${one.className} in ${one.closest("[id]")?.id}: ${one.textContent.slice(0, 40)}`);
    return { seen: shown.length, complaints: complaints.slice(0, 20) };
  },
  exponents() {
    const shown = [...document.querySelectorAll("sup, sub")].filter((one) => one.checkVisibility());
    const broken = shown.filter((one) => one.getClientRects().length > 1);
    return { seen: shown.length, complaints: broken.map((one) => `${one.parentElement.textContent.slice(0, 60)}: ${one.textContent}`) };
  },
})
