"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.querySelector(".theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const name = () => (theme.textContent = isDark() ? "Light" : "Dark");
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  prefersDark.addEventListener("change", name);
  name();
  theme.hidden = false;

  const filters = document.querySelector(".filters");
  const count = filters.querySelector("output");
  const rows = [...document.querySelectorAll("tr[data-work]")];
  const bodies = new Set(rows.map((row) => row.parentElement));
  const fits = (row, select) => {
    const named = row.dataset[select.name].split(" ");
    return select.value === "" || named.includes("*") || named.includes(select.value);
  };
  const apply = () => {
    const selects = [...filters.querySelectorAll("select")];
    for (const row of rows) row.hidden = !selects.every((select) => fits(row, select));
    for (const body of bodies) {
      body.hidden = ![...body.querySelectorAll("tr[data-work]")].some((row) => !row.hidden);
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.value = shown === rows.length ? `${rows.length} results` : `${shown} of ${rows.length} results`;
  };
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.hidden) {
      filters.reset();
      apply();
      target.scrollIntoView();
    }
  };
  filters.addEventListener("change", apply);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => setTimeout(apply));
  addEventListener("hashchange", reveal);
  filters.hidden = false;
  apply();
})();
