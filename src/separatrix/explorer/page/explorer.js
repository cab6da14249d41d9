// The shell: the list of views, the one that the address names, and how a question is put.

import { el, put } from "/common.js";

const root = document.getElementById("root");
const list = document.getElementById("views");
let leave = null; // what the view that is shown wants to have called when it goes
let turn = 0;

async function fetched(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "omit", ...options });
  } catch {
    throw new Error("The explorer does not answer; see whether it still runs in its terminal.");
  }
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Error(`The explorer answered with status ${response.status} and no words.`);
  }
  if (!response.ok) throw new Error(body.error ?? `The explorer answered with status ${response.status}.`);
  return body;
}

const asker = (name) => (payload) => fetched(`/api/${name}`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(payload),
});

// What lies in the folder is asked for once, and again when a view wants to know of new files or when it
// could not be told.
let files = null;
export function folder(again = false) {
  if (files === null || again) {
    const asked = fetched("/api/files");
    asked.catch(() => { if (files === asked) files = null; });
    files = asked;
  }
  return files;
}

function plain(hash) {
  try {
    return decodeURIComponent(hash);
  } catch {
    return hash; // a stray percent sign
  }
}

function named(views) {
  const [name, ...hint] = plain(location.hash.slice(1)).split("/");
  return { about: views.find((view) => view.name === name) ?? views[0], hint: hint.join("/") };
}

async function show(views, focus) {
  const mine = (turn += 1);
  const { about, hint } = named(views);
  if (leave) leave();
  leave = null;
  for (const link of list.querySelectorAll("a")) {
    if (link.hash === `#${about.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${about.title} · Separatrix explorer`;
  put(document.getElementById("title"), about.title);
  put(document.getElementById("says"), about.says);
  put(root, el("p", { class: "status", role: "status" }, "Loading…"));
  if (focus) document.getElementById("view").focus();
  try {
    const view = await import(`/views/${about.name}.js`);
    if (mine !== turn) return;
    const place = el("div", { class: `view view-${about.name}` });
    put(root, place);
    leave = view.mount(place, asker(about.name), { ...about, hint, folder }) ?? null;
  } catch (error) {
    put(root, el("p", { class: "status wrong", role: "alert" }, `This view cannot be shown: ${error.message}`));
  }
}

function theme() {
  const button = document.getElementById("theme");
  const page = document.documentElement;
  const dark = () => page.dataset.theme
    ? page.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => put(button, dark() ? "Light theme" : "Dark theme");
  button.addEventListener("click", () => {
    page.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  label();
}

// The address names the view, so this link must not change it.
function skip() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("view").focus();
  });
}

async function start() {
  theme();
  skip();
  try {
    const { views } = await fetched("/api/views");
    put(list, views.map((view) => el("li", null, el("a", { href: `#${view.name}` }, view.title))));
    addEventListener("hashchange", () => show(views, true));
    await show(views, false);
    // Without a list of files everything that is built here still works.
    folder().then(({ folder: name }) => put(document.getElementById("folder"), name || "/"), () => {});
  } catch (error) {
    put(root, el("p", { class: "status wrong", role: "alert" }, error.message),
      el("p", null, el("button", { type: "button", onclick: () => location.reload() }, "Try again")));
  }
}

start();
