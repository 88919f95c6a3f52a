"use strict";
// Keys, theme and live pages. Every page works without it.
(() => {
  const root = document.documentElement;
  let stored = null;
  try { stored = localStorage.getItem("swerl-theme"); } catch { /* storage is off */ }
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const switchTheme = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("swerl-theme", root.dataset.theme); } catch { /* storage is off */ }
  };

  const all = (selector) => [...document.querySelectorAll(selector)];
  const follow = (selector) => { const link = document.querySelector(selector); if (link) location.href = link.href; };

  const move = (by) => {
    const items = all("[data-item]");
    if (!items.length) return;
    const now = items.findIndex((item) => item.classList.contains("selected"));
    const next = Math.max(0, Math.min(items.length - 1, now < 0 ? (by > 0 ? 0 : items.length - 1) : now + by));
    items.forEach((item, place) => item.classList.toggle("selected", place === next));
    items[next].scrollIntoView({ block: "nearest" });
    const link = items[next].querySelector("a");
    if (link) link.focus({ preventScroll: true });
  };

  const openAll = () => {
    const folded = all("main details");
    const open = folded.some((each) => !each.open);
    folded.forEach((each) => { each.open = open; });
  };

  const keys = {
    j: () => move(1), k: () => move(-1), "/": () => document.querySelector("input[type=search]")?.focus(),
    "[": () => follow("a[rel=prev]"), "]": () => follow("a[rel=next]"), u: () => follow("a[data-up]"),
    g: () => follow("a[data-group]"), n: () => follow("a[data-more]"), e: openAll, t: switchTheme,
    d: () => document.getElementById("patch")?.scrollIntoView(), "?": () => document.getElementById("keys")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const action = keys[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  // Makes `old` equal to `fresh` and leaves the elements that did not change: place, focus and folds stay.
  const update = (old, fresh) => {
    if (old.tagName === "DETAILS" && fresh.tagName === "DETAILS") fresh.open = old.open;
    if (old.classList?.contains("selected")) fresh.classList?.add("selected");
    const alike = old.nodeName === fresh.nodeName && (old.id ?? "") === (fresh.id ?? "");
    if (!alike || !old.firstElementChild || !fresh.firstElementChild) {
      if (!old.isEqualNode(fresh)) old.replaceWith(fresh);
      return;
    }
    for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
    after.forEach((node, place) => { if (before[place]) update(before[place], node); else old.append(node); });
    before.slice(after.length).forEach((node) => node.remove());
  };

  // A live page brings its content up to date unless the user types or selects in it.
  const refresh = async () => {
    const main = document.querySelector("main[data-live]");
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName) || getSelection()?.toString();
    if (!main || document.hidden || typing) return;
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok) return;
    if (answer.redirected) { location.replace(answer.url); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (fresh) update(main, fresh);
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", switchTheme);
    document.getElementById("help")?.addEventListener("click", keys["?"]);
    if (document.querySelector("main[data-live]")) setInterval(refresh, 5000);
    all("select[data-submit]").forEach((each) => each.addEventListener("change", () => each.form.requestSubmit()));
  });
})();
