// A menu of weights: those that are built by name, and behind them what lies in the folder.

import { el, put } from "/common.js";

// `fits(entry)` says of a witness in the folder, `fitsRun(run)` of a run in a store, whether the view can
// show it. offer(names) fills in the names once an answer has brought them; payload() is what to send.
export function choosing(about, { fits, fitsRun, onchange }) {
  let names = [about.default.witness];
  let found = []; // [value, text, payload]
  const select = el("select", { onchange });
  const fill = () => {
    const before = select.value || about.default.witness;
    put(select,
      el("optgroup", { label: "Built here" }, names.map((name) => el("option", { value: name }, name))),
      found.length ? el("optgroup", { label: "From the folder" },
        found.map(([value, text]) => el("option", { value }, text))) : null);
    select.value = [...select.options].some((option) => option.value === before) ? before : names[0];
  };
  fill();
  about.folder().then(({ entries }) => {
    for (const entry of entries) {
      if (entry.kind === "witness" && !entry.problem && fits(entry)) {
        found.push([`path:${entry.path}`, `${entry.path} (${entry.task}, ${entry.family})`, { path: entry.path }]);
      }
      for (const run of entry.runs ?? []) {
        if (!fitsRun || !fitsRun(run)) continue;
        found.push([`run:${entry.path}:${run.key}`, `${entry.path}: ${run.short} (${run.task}, ${run.model})`,
          { path: entry.path, run: run.key }]);
      }
    }
    fill();
  }, () => {}); // without a list of files the names built here still serve
  return {
    element: select,
    offer(newest) {
      if (newest.join("\n") === names.join("\n")) return;
      names = newest;
      fill();
    },
    payload() {
      const file = found.find(([value]) => value === select.value);
      return file ? file[2] : { witness: select.value };
    },
  };
}
