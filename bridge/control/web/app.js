// The page: asks the daemon for the board every few seconds, and keeps chart, list and events in step. It only reads. Everything that people wrote is set as
// text, never as markup.
"use strict";

const $ = id => document.getElementById(id);
const PERIOD = 5000, ROW = () => matchMedia("(max-width: 760px)").matches ? 36 : 28;
const state = {board: null, byId: new Map(), filter: [], text: "", show: "waiting", sel: 0, list: [], etag: "", failed: 0, lists: {}};
const chart = new Chart($("chart"), $("tip"), {
  job: id => state.byId.get(id), match: id => matches(state.byId.get(id)), filtered: () => state.filter.length > 0,
  open: id => { const j = state.byId.get(id); if (j) openJob(j.ref); }, node: n => setFilter("node:" + n.name), tip: tipOf,
});

// --- data ---

function ms(t) { return t ? Date.parse(t) : 0; }

function take(board) {
  performance.mark("update-0");
  board.now = ms(board.at);
  const byId = new Map();
  for (const j of board.jobs) {
    j.tDue = ms(j.due); j.tEnd = ms(j.ended) || ms(j.forecast); j.tSub = ms(j.submitted); j.tStart = ms(j.start_by); j.leases = []; j.nodes = "";
    j.hay = (j.ref + " " + j.name + " " + j.user + " " + j.account + " " + j.class + " " + j.phase + " " + (j.where || "") + " " + (j.code || "")).toLowerCase();
    byId.set(j.id, j);
  }
  for (const l of board.leases) {
    l.t0 = ms(l.from); l.t1 = ms(l.to);
    const j = byId.get(l.job); if (!j) continue;
    j.leases.push(l);
    if (l.kind !== "past") for (const s of l.place || []) if (!j.nodes.includes(" " + s.node.toLowerCase() + " ")) j.nodes += " " + s.node.toLowerCase() + " ";
  }
  state.board = board; state.byId = byId;
  sortLists(); refilter(); tiles(); spark(); events();
  performance.measure("update", "update-0");
}

function sortLists() {
  const jobs = state.board.jobs, ours = j => !["unmanaged", "released", "completed", "failed", "cancelled"].includes(j.phase), on = j => ["running", "profiling", "checkpointing"].includes(j.phase);
  state.lists.running = jobs.filter(on).sort((a, b) => (a.tEnd || Infinity) - (b.tEnd || Infinity) || a.id - b.id);
  state.lists.waiting = jobs.filter(j => ours(j) && !on(j)).sort((a, b) => (a.tStart || Infinity) - (b.tStart || Infinity) || a.rank - b.rank || a.id - b.id);
  state.lists.risk = jobs.filter(j => j.risk && ours(j)).sort((a, b) => (a.slack_s ?? 0) - (b.slack_s ?? 0) || a.id - b.id);
  state.lists.ended = jobs.filter(j => !ours(j)).sort((a, b) => b.tEnd - a.tEnd || b.id - a.id);
}

// --- filter ---

function setFilter(text) { $("filter").value = text; state.text = text; parseFilter(); refilter(); }

function parseFilter() {
  state.filter = state.text.toLowerCase().split(/\s+/).filter(Boolean).map(w => {
    const not = w.length > 1 && w[0] === "-"; if (not) w = w.slice(1);
    const i = w.indexOf(":"), key = i > 0 ? w.slice(0, i) : "", v = w.slice(i + 1);
    let test;
    switch (key) {
      case "user": test = j => j.user.toLowerCase().startsWith(v); break;
      case "account": test = j => j.account.toLowerCase().startsWith(v); break;
      case "class": test = j => j.class.startsWith(v); break;
      case "phase": test = j => j.phase.startsWith(v); break;
      case "job": test = j => j.ref === v || j.ref.startsWith(v + "_"); break;
      case "gpus": test = j => String(j.gpus) === v; break;
      case "node": test = j => j.nodes.includes(" " + v + " ") || !v; break;
      default: test = w === "risk" ? j => !!j.risk : j => j.hay.includes(w);
    }
    return not ? j => !test(j) : test;
  });
}

function matches(j) { return !!j && state.filter.every(f => f(j)); }

function refilter() {
  if (!state.board) return;
  const all = state.lists;
  for (const b of document.querySelectorAll("[data-show]")) { b.querySelector("i").textContent = all[b.dataset.show].filter(matches).length; b.setAttribute("aria-pressed", b.dataset.show === state.show); }
  state.list = all[state.show].filter(matches);
  const shown = [...all.running, ...all.waiting].filter(matches);
  chart.set(state.board, shown.concat(all.ended.filter(j => j.leases.length && matches(j)).slice(0, 200)));
  rows();
}

// --- list: only the rows in sight are in the page ---

function rows() {
  const box = $("rows"), h = ROW(), n = state.list.length, first = Math.max(0, Math.floor(box.scrollTop / h) - 4), last = Math.min(n, Math.ceil((box.scrollTop + box.clientHeight) / h) + 4);
  const space = $("space"); space.style.height = n * h + "px";
  const kids = space.children;
  while (kids.length > last - first) kids[kids.length - 1].remove();
  while (kids.length < last - first) space.append(rowEl());
  for (let i = first; i < last; i++) fillRow(kids[i - first], state.list[i], i * h);
  if (!n) { const e = document.createElement("div"); e.className = "empty"; e.textContent = state.filter.length ? "No job matches the filter." : "No job here."; space.replaceChildren(e); space.style.height = "auto"; }
  const sel = state.list.findIndex(j => j.id === state.sel);
  if (sel >= first && sel < last) box.setAttribute("aria-activedescendant", "r" + state.sel); else box.removeAttribute("aria-activedescendant");
}

function rowEl() {
  const r = document.createElement("div"); r.className = "row"; r.setAttribute("role", "option");
  for (const c of ["j", "", "num", "num", "num", "num"]) { const s = document.createElement("span"); s.className = c; r.append(s); }
  r.addEventListener("click", () => { const j = state.byId.get(Number(r.dataset.id)); if (j) { select(j.id, false); openJob(j.ref); } });
  return r;
}

const kindOf = {strict: "k-strict", soft: "k-soft", besteffort: "k-best", profiler: "k-probe"};

function fillRow(r, j, top) {
  if (!r.classList.contains("row")) { const f = rowEl(); r.replaceWith(f); r = f; }
  const c = r.children, now = state.board.now, at = t => !t ? "–" : t < now + 30e3 && t > now - 30e3 ? "now" : t > now ? short(t - now) : clock.format(t);
  r.id = "r" + j.id; r.dataset.id = j.id; r.style.top = top + "px"; r.style.height = ROW() + "px"; r.setAttribute("aria-selected", j.id === state.sel);
  c[0].className = "j " + (kindOf[j.class] || "k-other");
  set(c[0], j.ref + " "); const em = document.createElement("em"); em.textContent = j.name; c[0].append(em);
  set(c[1], j.user); set(c[2], j.gpus);
  set(c[3], j.ended ? clock.format(j.tEnd) : ["running", "profiling", "checkpointing"].includes(j.phase) ? "runs" : at(j.tStart));
  set(c[4], j.ended ? j.phase.slice(0, 9) : at(j.tEnd));
  set(c[5], j.slack_s === undefined ? (j.risk ? "at risk" : j.tDue ? "?" : "–") : short(j.slack_s * 1000));
  c[5].className = "num " + (j.risk || j.slack_s < 0 ? "late" : j.slack_s !== undefined ? "good" : "");
  r.setAttribute("aria-label", "job " + j.ref + " " + j.name + " of " + j.user + ", " + j.class + ", " + j.phase + (j.risk ? ", at risk" : ""));
}

function short(v) { return span(v).replace(/^(-?\d+m)\d\ds$/, "$1").replace(/([hd])00?[mh]$/, "$1"); }
function set(el, s) { s = String(s); if (el.textContent !== s) el.textContent = s; }

function select(id, move) {
  state.sel = id; chart.show(id);
  const i = state.list.findIndex(j => j.id === id), box = $("rows"), h = ROW();
  if (move && i >= 0) { if (i * h < box.scrollTop) box.scrollTop = i * h; else if ((i + 1) * h > box.scrollTop + box.clientHeight) box.scrollTop = (i + 1) * h - box.clientHeight; }
  rows();
}

function step(d) {
  if (!state.list.length) return;
  if (document.activeElement !== $("chart")) $("rows").focus({preventScroll: true}); // Enter is for the job then, not for the button pressed before
  const i = state.list.findIndex(j => j.id === state.sel);
  select(state.list[Math.max(0, Math.min(state.list.length - 1, i < 0 ? 0 : i + d))].id, true);
}

// --- tiles, events, tips ---

function tiles() {
  const b = state.board, g = b.gpus, p = Object.fromEntries((b.phases || []).map(x => [x.phase, x.jobs])), late = Date.now() - b.now;
  set($("cluster"), b.cluster + (b.slurm_release ? " · Slurm " + b.slurm_release : ""));
  const s = $("state"), word = b.trouble ? "Slurm unreachable" : b.suspect ? "careful" : b.paused ? "paused" : b.stage === "shadow" ? "shadow: only watches" : "well · " + b.stage;
  set(s, word); s.className = "pill " + (b.trouble ? "bad" : b.suspect || b.paused || b.stage === "shadow" ? "warn" : "ok");
  trouble(b.trouble ? "Slurm: " + b.trouble : b.suspect ? "Nothing disruptive is done now: " + b.suspect : b.paused ? "Paused: jobs are plain Slurm jobs until `unisched resume`." : "");
  set($("t-gpus"), (g.managed + g.other) + " / " + g.total);
  set($("t-jobs"), (p.running || 0) + (p.profiling || 0) + (p.checkpointing || 0) + " : " + state.lists.waiting.length); set($("t-jobs2"), "jobs run : wait");
  set($("t-risk"), state.lists.risk.length); $("t-risk").className = state.lists.risk.length ? "bad" : "";
  const made = ms(b.plan.made); set($("t-plan"), made ? clock.format(made) : "–"); set($("t-plan2"), "newest plan" + (b.plan.next ? ", next " + clock.format(ms(b.plan.next)) : ""));
  const f = b.forecast; set($("t-error"), f && f.n ? Math.round(f.mean_rel_error * 100) + " %" : "–"); set($("t-error2"), f && f.n ? "forecast error at mid-run" : "forecast error");
  $("t-error").title = f && f.n ? f.n + " forecasts of the time left, made at mid-run of jobs that ended within a day; " + Math.round(f.coverage_80 * 100) + " % of them fell into their 80 % interval" : "no job has ended within a day";
  state.skew = late;
}

function trouble(text) { const t = $("trouble"); t.hidden = !text; set(t, text); }

function spark() {
  const c = $("spark"), d = window.devicePixelRatio || 1, r = c.getBoundingClientRect(), loads = (state.board.loads || []).slice(); if (r.width < 40) return;
  c.width = r.width * d; c.height = r.height * d; const g = c.getContext("2d"); g.scale(d, d);
  loads.push({at: state.board.at, total: state.board.gpus.total, managed: state.board.gpus.managed, other: state.board.gpus.other});
  if (loads.length < 2) return;
  const t0 = ms(loads[0].at), t1 = Math.max(state.board.now, t0 + 1), top = Math.max(1, ...loads.map(l => l.total)), x = l => (ms(l.at) - t0) / (t1 - t0) * r.width, y = v => r.height - 1 - v / top * (r.height - 3);
  const area = (f, color, alpha) => { g.fillStyle = color; g.globalAlpha = alpha; g.beginPath(); g.moveTo(0, r.height); for (const l of loads) g.lineTo(x(l), y(f(l))); g.lineTo(r.width, r.height); g.fill(); g.globalAlpha = 1; };
  area(l => l.managed + l.other, chart.col.other, .5); area(l => l.managed, chart.col.accent, .55);
  g.strokeStyle = chart.col.line; g.beginPath(); for (const l of loads) g.lineTo(x(l), y(l.total)); g.stroke();
}

function events() {
  const list = state.board.events.filter(e => !state.filter.length || matches(state.byId.get(e.job))).slice(0, 120), key = list.length + "|" + (list[0] ? list[0].at + list[0].ref + list[0].what : "") + state.text;
  if (key === state.eventsKey) return; state.eventsKey = key;
  $("log").replaceChildren(...(list.length ? list.map(e => {
    const li = document.createElement("li"), b = document.createElement("button"); b.type = "button"; b.dataset.ref = e.ref;
    const t = document.createElement("time"), r = document.createElement("b"), s = document.createElement("span");
    t.textContent = clock.format(ms(e.at)); t.dateTime = e.at; t.title = full.format(ms(e.at)); r.textContent = e.ref; s.textContent = e.what + (e.text ? ": " + e.text : ""); s.title = s.textContent;
    b.append(t, r, s); b.addEventListener("click", () => { const j = state.byId.get(e.job); if (j) select(j.id, true); openJob(e.ref); }); li.append(b); return li;
  }) : [Object.assign(document.createElement("li"), {className: "empty", textContent: "Nothing yet."})]));
}

function tipOf(h) {
  const now = state.board.now, j = state.byId.get(h.job), l = h.lease, out = [];
  if (l && l.kind === "other") return [l.gpus + " GPUs: not managed", l.open ? "end unknown" : "first end expected " + clock.format(l.t1)];
  if (j) {
    out.push(j.ref + " " + j.name, j.user + ", " + j.class + ", " + j.gpus + (j.gpus === 1 ? " GPU, " : " GPUs, ") + j.phase);
    if (l) out.push((l.kind === "plan" ? "planned " : "run " + l.run + ": ") + clock.format(l.t0) + " – " + (l.kind === "now" ? "now" : clock.format(l.t1)) + " (" + span(l.t1 - l.t0) + ")" + (l.profile ? ", measured" : ""));
    if (j.tEnd && !j.ended) out.push("end expected " + clock.format(j.tEnd) + (j.tEnd > now ? ", in " + short(j.tEnd - now) : ""));
    if (j.tDue) out.push("deadline " + clock.format(j.tDue) + (j.slack_s !== undefined ? j.slack_s >= 0 ? ", " + short(j.slack_s * 1000) + " to spare" : ", " + short(-j.slack_s * 1000) + " late" : ""));
    if (j.risk) out.push("at risk"); return out;
  }
  if (h.job) return ["job " + h.job];
  const n = h.node; if (!n) return null;
  out.push(n.name, n.gpus + " GPUs" + (n.gpu_type ? " " + n.gpu_type : "") + ": " + n.managed + " managed, " + n.other + " other"); if (!n.usable) out.push("not usable: " + (n.why || "")); return out;
}

// --- polling ---

async function look() {
  try {
    const r = await fetch("v1/board", {headers: state.etag ? {"If-None-Match": state.etag} : {}, cache: "no-store"});
    if (r.status === 200) { const raw = await r.text(); performance.mark("parse-0"); const b = JSON.parse(raw); performance.measure("parse", "parse-0"); state.etag = r.headers.get("ETag") || ""; take(b); refreshJob(); }
    else if (r.status !== 304) { const p = await r.json().catch(() => ({})); throw new Error(p.error || "the daemon answered " + r.status); }
    if (state.failed) { state.failed = 0; tiles(); }
  } catch (e) {
    state.failed++; const s = $("state"); set(s, "no answer"); s.className = "pill bad";
    trouble("The daemon does not answer (" + e.message + "). Jobs run on; what is shown is from " + (state.board ? clock.format(state.board.now) : "never") + ".");
  }
}

async function poll() {
  if (!document.hidden) await look();
  setTimeout(poll, state.failed ? Math.min(60e3, PERIOD * 2 ** Math.min(state.failed, 4)) : PERIOD);
}

// --- keys and buttons ---

function mode(m) { chart.mode = m; chart.top = 0; $("by-node").setAttribute("aria-pressed", m === "node"); $("by-job").setAttribute("aria-pressed", m === "job"); chart.later(); }
function theme() { const o = ["", "dark", "light"], r = document.documentElement, n = o[(o.indexOf(r.dataset.theme || "") + 1) % 3]; if (n) r.dataset.theme = n; else delete r.dataset.theme; try { localStorage.setItem("unisched-theme", n); } catch { /* private mode */ } chart.theme(); if (state.board) spark(); }

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || !state.board) return;
  const typing = e.target === $("filter"), box = $("job").open || $("keys").open;
  if (e.key === "Escape") { if (typing) { setFilter(""); $("filter").blur(); events(); } else if (!box) { state.sel = 0; select(0, false); } return; }
  if (typing) { if (e.key === "Enter" || e.key === "ArrowDown") { e.preventDefault(); if (!state.list.some(j => j.id === state.sel)) step(0); if (e.key === "Enter" && state.list.length) openSelected(); else $("rows").focus(); } return; }
  if (box) return;
  const quarter = (chart.t1 - chart.t0) / 8, onButton = e.target.tagName === "BUTTON";
  const act = {"/": () => $("filter").focus(), ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1), ArrowLeft: () => chart.pan(-quarter), ArrowRight: () => chart.pan(quarter), "+": () => chart.zoom(.6), "=": () => chart.zoom(.6), "-": () => chart.zoom(1 / .6), "0": () => chart.home(),
    PageDown: () => step(12), PageUp: () => step(-12), Home: () => step(-1e9), End: () => step(1e9), g: () => mode(chart.mode === "node" ? "job" : "node"), t: theme, "?": () => $("keys").showModal(), Enter: onButton ? null : openSelected}[e.key];
  if (act) { e.preventDefault(); act(); }
});

function openSelected() { const j = state.byId.get(state.sel); if (j) openJob(j.ref); }

$("filter").addEventListener("input", e => { state.text = e.target.value; parseFilter(); refilter(); events(); });
$("rows").addEventListener("scroll", () => requestAnimationFrame(rows), {passive: true});
$("by-node").addEventListener("click", () => mode("node")); $("by-job").addEventListener("click", () => mode("job"));
$("zoom-in").addEventListener("click", () => chart.zoom(.6)); $("zoom-out").addEventListener("click", () => chart.zoom(1 / .6)); $("zoom-now").addEventListener("click", () => chart.home());
$("theme").addEventListener("click", theme); $("help").addEventListener("click", () => $("keys").showModal());
for (const b of document.querySelectorAll("[data-show]")) b.addEventListener("click", () => { state.show = b.dataset.show; $("rows").scrollTop = 0; refilter(); });
new ResizeObserver(() => { if (state.board) { rows(); spark(); } }).observe($("rows"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { chart.theme(); if (state.board) spark(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) chart.later(); });
try { const t = localStorage.getItem("unisched-theme"); if (t === "dark" || t === "light") { document.documentElement.dataset.theme = t; chart.theme(); } } catch { /* private mode */ }
poll().then(followHash);
addEventListener("hashchange", followHash);
