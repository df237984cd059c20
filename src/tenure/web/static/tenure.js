/* The dashboard in the browser: refresh, keys, selection, dialogs, figures. Every page works without it. */
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js"); // before the first paint, so that nothing jumps
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const grouped = (count) => count.toLocaleString("en");
  const say = (text) => { $("#status").textContent = text; };

  /* Refresh: the page is fetched again with its ETag, and only what changed is changed. */
  const live = { seconds: 0, timer: 0, etag: null, running: false, failures: 0, share: -1 };
  let morph = null;

  const busy = () => $("[data-busy]") !== null;
  const held = () => document.hidden || $("dialog[open]") !== null || (selected().length > 0 && !busy())
    || $(".menu[open], main #confirm") !== null;

  function schedule(after) {
    clearTimeout(live.timer);
    const seconds = busy() ? 1 : live.seconds;
    if (!seconds) return;
    const wait = after ?? Math.max(seconds, Math.min(seconds * 2 ** live.failures, 5));
    live.timer = setTimeout(() => (held() ? schedule() : refresh()), wait * 1000);
  }

  async function refresh(asked = false) {
    if (live.running) return;
    live.running = true;
    const address = location.href;
    try {
      const headers = { "Tenure-Refresh": "1" };
      if (live.etag && !asked) headers["If-None-Match"] = live.etag;
      const answer = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(15000) });
      if (answer.status >= 500 && !answer.headers.get("content-type")?.includes("html")) throw new Error(answer.status);
      if (answer.redirected) return location.reload(); // the session has ended
      live.failures = 0;
      showStale(null);
      if (answer.status !== 304) {
        live.etag = answer.headers.get("etag");
        const text = await answer.text();
        if (address === location.href && (asked || !held())) update(text);
      }
      if (asked) say("Updated");
    } catch {
      live.failures += 1;
      showStale(`The dashboard does not answer. The figures are of ${$("#updated").textContent} UTC. ${live.seconds ? "This page tries again by itself." : "Refresh it to try again."}`);
    } finally {
      live.running = false;
      schedule();
    }
  }

  function update(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    if (!page.getElementById("main")) return location.reload();
    const focused = document.activeElement;
    for (const old of $$("[data-live][id]")) {
      const fresh = page.getElementById(old.id);
      if (fresh && !old.isEqualNode(fresh)) morph(old, fresh, true);
    }
    if (focused && focused !== document.body && !focused.isConnected) $("#main").focus({ preventScroll: true });
    drawFigures();
    countSelection();
    announce();
  }

  function announce() { // progress of a bulk action, every tenth
    const bulk = $("[data-busy]");
    const share = bulk ? Math.floor(bulk.dataset.share / 10) : -1;
    if (bulk && share !== live.share) say(bulk.dataset.announce);
    if (!bulk && live.share >= 0) say($(".bulk-result")?.textContent.trim() ?? "");
    live.share = share;
  }

  function showStale(text) {
    let note = $("#stale");
    if (text === null) {
      if (note) { note.remove(); showLive(); }
      return;
    }
    if (note) return;
    note = document.createElement("div");
    note.id = "stale";
    note.className = "note t-problem stale-note";
    note.setAttribute("role", "alert");
    const sign = stateOf("stale");
    note.append(sign[0].cloneNode(true), Object.assign(document.createElement("p"), { textContent: text }));
    $("#main").append(note);
    $("#live-state").replaceChildren(...sign);
  }

  const stateOf = (name) => [...$(`[data-state=${name}]`, $("#live-states").content).cloneNode(true).childNodes];

  function showLive() {
    $("#live-state").replaceChildren(...stateOf(live.seconds ? "live" : "paused"));
    for (const button of $$("#live button")) button.setAttribute("aria-pressed", String(Number(button.value) === live.seconds));
  }

  /* Preferences: the forms work by themselves; here they are sent without leaving the page. */
  function keepPreference(form, button) {
    const body = new URLSearchParams(new FormData(form, button));
    fetch(form.action, { method: "POST", body, redirect: "manual" }).catch(() => {});
    if (button.name === "live") {
      live.seconds = Number(button.value);
      live.failures = 0;
      showLive();
      schedule(live.seconds ? 0.2 : undefined);
    } else if (button.name === "theme") {
      root.dataset.theme = button.value;
      for (const each of $$("button", form)) each.setAttribute("aria-pressed", String(each === button));
      const summary = $("summary", form.parentElement);
      summary.replaceChild($(".icon", button).cloneNode(true), $(".icon", summary));
      form.parentElement.open = false;
      summary.focus();
      redraw();
    } else {
      root.dataset.keys = button.value;
      button.value = button.value === "on" ? "off" : "on";
      button.textContent = `Switch single keys ${button.value}`;
    }
  }

  /* Selection: the bar says how many of the selected rows each action would change. */
  const rows = () => $$("tbody tr").filter((row) => $(".name", row));
  const selected = () => $$("[data-pick]:checked");
  let anchor = null;

  function countSelection() {
    const bar = $("#selection-bar");
    if (!bar) return;
    const picks = selected();
    const all = $("[data-all]", bar);
    if (all && !picks.length) all.checked = false;
    const everything = Boolean(all?.checked);
    bar.classList.toggle("is-open", picks.length > 0);
    $("[data-selected]", bar).textContent = grouped(everything ? Number(all.dataset.all) : picks.length);
    for (const button of $$("[data-action]", bar)) {
      const { action, name, reason, count } = button.dataset;
      const number = everything ? (count === "" ? null : Number(count))
        : picks.filter((each) => each.dataset.may.split(" ").includes(action)).length;
      button.textContent = number === null ? name : `${name} ${grouped(number)}`;
      button.disabled = number === 0;
      button.title = number === 0 ? reason : "";
    }
    const head = $("[data-pick-all]");
    if (head) {
      head.checked = picks.length > 0 && picks.length === $$("[data-pick]").length;
      head.indeterminate = picks.length > 0 && !head.checked;
    }
  }

  function pick(box, checked) {
    box.checked = checked;
    anchor = box;
    countSelection();
  }

  function pickTo(box) {
    const boxes = $$("[data-pick]");
    const [from, to] = [boxes.indexOf(anchor), boxes.indexOf(box)].sort((a, b) => a - b);
    boxes.slice(Math.max(from, 0), to + 1).forEach((each) => { each.checked = true; });
    anchor = box;
    countSelection();
  }

  function clearSelection() {
    selected().forEach((each) => { each.checked = false; });
    countSelection();
  }

  /* Confirmations: the page that asks is shown as a dialog. */
  async function ask(address, opener) {
    let form = null;
    try {
      const answer = await fetch(address, { headers: { "Tenure-Dialog": "1" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      form = $("#confirm", page);
    } catch { /* the page itself says what is wrong */ }
    if (!form) return location.assign(address);
    const dialog = document.createElement("dialog");
    dialog.className = "dialog";
    dialog.setAttribute("aria-labelledby", "confirm-title");
    dialog.append(document.adoptNode(form));
    dialog.addEventListener("close", () => { dialog.remove(); if (opener?.isConnected) opener.focus(); schedule(); });
    document.body.append(dialog);
    dialog.showModal();
    ($("[autofocus]", dialog) ?? $("input:not([type=hidden])", dialog))?.focus();
  }

  /* Figures: drawn from the tables that the server wrote. */
  const plots = new Map();
  const colour = (name, from) => {
    const probe = document.createElement("i");
    probe.className = `line-${name}`;
    from.append(probe);
    probe.style.color = name.startsWith("--") ? `var(${name})` : "var(--stroke)";
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const ticks = (text) => text.split(";").filter(Boolean).map((each) => {
    const cut = each.indexOf("=");
    return [Number(each.slice(0, cut)), each.slice(cut + 1)];
  });

  function readTable(figure) {
    const table = $(".figure-table table", figure);
    const lines = $$("tbody tr", table);
    const times = lines.map((line) => Date.parse($("time", line).dateTime) / 1000);
    const heads = $$("thead th", table).slice(1);
    const columns = heads.map((_, at) => lines.map((line) => {
      const value = Number(line.cells[at + 1].textContent);
      return Number.isNaN(value) ? null : value;
    }));
    return { heads, data: [times, ...columns] };
  }

  function drawFigure(figure) {
    const box = $(".plot", figure);
    if (!box || !window.uPlot) return;
    const { heads, data } = readTable(figure);
    const shape = heads.map((each) => each.textContent + each.dataset.style).join();
    const labels = { x: ticks(figure.dataset.x), y: ticks(figure.dataset.y) };
    const known = plots.get(figure.id);
    if (known?.box === box && known.shape === shape) {
      Object.assign(known.labels, labels);
      return known.plot.setData(data);
    }
    known?.plot.destroy();
    const axis = (name) => ({
      splits: () => labels[name].map((pair) => pair[0]),
      values: (_, splits) => splits.map((at) => labels[name].find((pair) => pair[0] === at)?.[1] ?? ""),
    });
    const font = `11px ${getComputedStyle(root).fontFamily}`;
    const [ink, line] = [colour("--ink-3", figure), colour("--line", figure)];
    const plot = new uPlot({
      width: box.clientWidth, height: 124, padding: [8, 16, 0, 0], legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: true }, y: { range: () => [0, labels.y.at(-1)[0]] } },
      axes: [
        { stroke: ink, font, size: 28, gap: 8, grid: { show: false }, ticks: { show: false }, ...axis("x") },
        { stroke: ink, font, size: () => Math.max(...labels.y.map((pair) => pair[1].length)) * 6 + 12, gap: 6, grid: { stroke: line, width: 1 }, ticks: { show: false }, ...axis("y") },
      ],
      series: [{}, ...heads.map((head) => {
        const style = head.dataset.style;
        const area = "area" in head.dataset && !["ink", "grey", "dashed"].includes(style);
        return { label: head.textContent, width: 1.5, stroke: colour(style, figure), dash: style === "dashed" ? [4, 3] : undefined,
          fill: area ? colour(`--${style}-bg`, figure) : undefined, points: { show: false } };
      })],
      hooks: { setCursor: [(each) => readOut(figure, each, heads)] },
    }, data, box);
    plots.set(figure.id, { plot, box, shape, labels });
  }

  const short = (value) => (value == null ? "–" : String(Number(value.toPrecision(3))));
  function readOut(figure, plot, heads) {
    const out = $(".readout", figure);
    const at = plot.cursor.idx;
    if (at == null) { out.textContent = ""; return; }
    const time = new Date(plot.data[0][at] * 1000).toISOString().slice(11, 16);
    out.textContent = `${time} · ${heads.map((_, series) => short(plot.data[series + 1][at])).join(" · ")}`;
  }

  const drawFigures = () => $$("[data-figure]").forEach(drawFigure);
  function redraw() {
    plots.forEach((each) => each.plot.destroy());
    plots.clear();
    drawFigures();
  }

  /* Keys */
  const PAGES = { o: "overview", j: "jobs", d: "dead", l: "flows", q: "queues", s: "schedules", w: "workers", u: "guards" };
  let going = 0;

  const currentRow = () => document.activeElement.closest("tbody tr");
  function move(step) {
    const all = rows();
    const at = all.indexOf(currentRow());
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    if (next) { $(".name", next).focus(); next.scrollIntoView({ block: "nearest" }); }
  }
  const box = () => $("[data-pick]", currentRow() ?? document.createElement("p"));
  const press = (selector) => { const found = $(selector); if (found) found.click(); return Boolean(found); };

  function act(shortcut) { // through the confirmation: the selected rows, else the row with the focus, else the page's own
    const here = box();
    if (!selected().length && here) pick(here, true);
    if (!press(`#selection-bar.is-open [data-shortcut=${shortcut}]:not(:disabled)`)) press(`main a[data-shortcut=${shortcut}]`);
  }

  const KEYS = {
    "?": () => $("#keys").showModal(),
    "/": () => $("#search").focus(),
    f: () => ($("#filter") ?? $("#search")).focus(),
    g: () => { going = Date.now(); },
    j: () => move(1), k: () => move(-1),
    x: () => { const here = box(); if (here) pick(here, !here.checked); },
    X: () => { const here = box(); if (here) pickTo(here); },
    a: () => { const every = $("[data-pick-all]"); if (every) { every.checked = true; every.dispatchEvent(new Event("change", { bubbles: true })); } },
    n: () => press("a[rel=next]"), p: () => press("a[rel=prev]"),
    e: () => act("e"), c: () => act("c"),
    r: () => refresh(true),
  };

  function onKey(event) {
    const field = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (event.key === "Escape") return escape(field);
    if (field?.id === "filter" && event.key === "Backspace" && !field.value) {
      const last = $$(".chip a", field.form).at(-1);
      if (last) { event.preventDefault(); last.click(); }
      return;
    }
    if (field || event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off" || $("dialog[open]")) return;
    if (going && Date.now() - going < 1500 && PAGES[event.key]) {
      going = 0;
      event.preventDefault();
      press(`#pages [data-page=${PAGES[event.key]}]`);
      return;
    }
    going = 0;
    const run = KEYS[event.key];
    if (run) { event.preventDefault(); run(); }
  }

  function escape(field) {
    const open = $$(".menu[open]");
    open.forEach((each) => { each.open = false; });
    if (open.length) $("summary", open[0]).focus();
    else if (field && !field.closest("dialog")) field.blur();
    else if (selected().length && !$("dialog[open]")) clearSelection();
  }

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not a secure context: plain HTTP by address
      const area = Object.assign(document.createElement("textarea"), { value: text, className: "vh" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    say("Copied");
    const title = button.title;
    button.classList.add("is-done");
    button.title = "Copied";
    setTimeout(() => { button.classList.remove("is-done"); button.title = title; }, 1500);
  }

  function onClick(event) {
    for (const menu of $$(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    const target = event.target.closest("a, button, summary, [data-pick]");
    if (!target) return;
    if (target.matches("[data-pick]")) { if (event.shiftKey && target.checked) pickTo(target); else anchor = target; }
    else if ("copy" in target.dataset) copy(target);
    else if ("open" in target.dataset) { target.closest(".menu").open = false; document.getElementById(target.dataset.open).showModal(); }
    else if ("clear" in target.dataset) clearSelection();
    else if ("close" in target.dataset) {
      const shut = target.closest(target.dataset.close);
      if (!shut) return;
      event.preventDefault();
      if (shut.matches("dialog")) shut.close(); else shut.remove();
    } else if ("confirm" in target.dataset && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      const menu = target.closest(".menu");
      if (menu) menu.open = false;
      ask(target.href, menu ? $("summary", menu) : target);
    }
  }

  function onSubmit(event) {
    const form = event.target;
    if (form.action.endsWith("/preferences") && event.submitter) {
      event.preventDefault();
      const pressed = event.submitter.name === "live" && event.submitter.ariaPressed === "true";
      keepPreference(form, pressed ? $("button[value='0']", form) : event.submitter); // pressed again: stop
    } else if ("selection" in form.dataset) {
      event.preventDefault();
      if (!event.submitter?.dataset.action) return;
      const fields = new FormData(form);
      fields.delete(fields.has("all") ? "id" : "all");
      ask(`${event.submitter.formAction.split("?")[0]}?${new URLSearchParams(fields)}`, event.submitter);
    } else if (form.matches("dialog #confirm")) {
      for (const button of $$("button", form)) button.setAttribute("aria-busy", "true");
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    htmx.registerExtension("tenure", {
      init(api) { morph = api.morph; },
      // What the user opened stays open after an update.
      htmx_before_morph_attr: (element, { attrName }) => !(attrName === "open" && element.matches("details:has(*)")),
    });
    live.seconds = Number($("#live")?.dataset.liveSeconds ?? 0);
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", onClick);
    document.addEventListener("submit", onSubmit);
    document.addEventListener("change", (event) => {
      if (event.target.matches("[data-pick-all]")) $$("[data-pick]").forEach((each) => { each.checked = event.target.checked; });
      if (event.target.matches("[data-pick], [data-pick-all], [data-all]")) countSelection();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(0.1); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
    drawFigures();
    countSelection();
    schedule();
    const toast = $(".toast p");
    if (toast) setTimeout(() => say(toast.textContent), 300); // a region that is there from the start is not read out
  });
})();
