// One job: a dialog with the daemon's explanation, the learning curve and how the forecast went. Its address is #job=ID.
"use strict";

const jobState = {ref: "", opener: null, stamp: ""};

function openJob(ref) { if (jobState.ref === ref && document.getElementById("job").open) return; jobState.opener = document.activeElement; location.hash = "job=" + encodeURIComponent(ref); }

function followHash() {
  const m = /^#job=([0-9_]{1,64})$/.exec(location.hash), d = document.getElementById("job");
  if (!m) { jobState.ref = ""; if (d.open) d.close(); return; }
  jobState.ref = decodeURIComponent(m[1]); jobState.stamp = "";
  refreshJob(true);
}

async function refreshJob(fresh) {
  const ref = jobState.ref, d = document.getElementById("job"); if (!ref) return;
  try {
    const [x, h] = await Promise.all(["v1/explain/", "v1/history/"].map(async p => { const r = await fetch(p + ref, {cache: "no-store"}), b = await r.json(); if (!r.ok) throw new Error(b.error || "the daemon answered " + r.status); return b; }));
    if (jobState.ref !== ref) return;
    const at = d.scrollTop; jobPage(d, x, h); if (!fresh) d.scrollTop = at;
  } catch (e) { if (jobState.ref !== ref || !fresh) return; d.replaceChildren(jobHead("Job " + ref), el("p", "cause", e.message)); }
  if (!d.open) { d.showModal(); d.scrollTop = 0; }
}

function el(tag, cls, text) { const e = document.createElement(tag); if (cls) e.className = cls; if (text !== undefined) e.textContent = text; return e; }

function jobHead(title, pill) {
  const h = el("header"), t = el("h2", "", title), b = el("button", "", "Close"); b.type = "button"; b.id = "job-close"; b.addEventListener("click", () => document.getElementById("job").close());
  h.append(t); if (pill) h.append(pill); h.append(b); return h;
}

function when(t, now) { if (!t) return "–"; const v = Date.parse(t), d = v - now; return full.format(v) + (d >= 0 ? " (in " + span(d) + ")" : " (" + span(-d) + " ago)"); }
function interval(m, now) { if (!m) return "not foreseen yet"; const s = when(m.mid, now); return m.low === m.high ? s : s + "; 80 %: " + clock.format(Date.parse(m.low)) + " to " + clock.format(Date.parse(m.high)); }

function jobPage(d, x, h) {
  const j = x.job, now = Date.parse(x.at), pill = el("span", "pill " + (x.risk ? "bad" : j.phase === "running" || j.phase === "completed" ? "ok" : ""), j.phase), kids = [];
  kids.push(jobHead(j.ref + "  " + j.name, pill));
  kids.push(el("p", "sub", [j.user, j.account, j.class || "not managed", j.gpus + (j.gpus === 1 ? " GPU" : " GPUs"), "run " + j.restart].filter(Boolean).join(" · ")));
  kids.push(el("p", "verdict" + (x.risk ? " risk" : ""), x.verdict));
  if (x.cause && x.cause.text) kids.push(el("p", "cause", x.cause.text));
  if (x.cause && x.cause.do) kids.push(el("p", "todo", x.cause.do));
  const dl = el("dl"), fact = (k, v) => { if (v) { dl.append(el("dt", "", k)); const dd = el("dd"); if (v.nodeType) dd.append(v); else dd.textContent = v; dl.append(dd); } };
  fact("Slurm says", x.slurm);
  if (!j.ended) { if (x.start) fact("Start", interval(x.start, now)); if (x.finish || x.managed) fact("End", interval(x.finish, now)); } else fact("Ended", when(j.ended, now) + (j.exit ? ", " + j.exit : ""));
  for (const t of x.deadlines || []) fact("Deadline", deadline(t, now));
  fact("Progress", "iteration " + j.iter + ", saved " + j.saved_iter + "; stops: " + j.stop);
  if (j.preemptions || j.lost_iters) fact("Preempted", j.preemptions + " times, " + j.lost_iters + " iterations lost");
  fact("Not preempted", j.no_preempt);
  if (j.estimate && j.estimate.basis) fact("Estimate from", j.estimate.basis);
  kids.push(dl);
  const charts = el("div", "charts");
  if (h.curve.length > 1) charts.append(figure("Learning curve", curveChart(h.curve, j)));
  if (h.forecasts.length > 1) charts.append(figure("How the forecast of its end went", forecastChart(h.forecasts, j, x)));
  if (charts.children.length) kids.push(charts);
  if (x.leases && x.leases.length) { kids.push(el("h3", "", "Leases")); kids.push(table(["", "From", "To", "Where"], x.leases.slice(-30).reverse().map(l => [l.kind === "plan" ? "planned" : "run " + l.run + (l.profile ? ", measured" : ""), full.format(Date.parse(l.from)), l.kind === "now" ? "now" : full.format(Date.parse(l.to)), l.where]))); }
  if (x.audit && x.audit.length) { kids.push(el("h3", "", "What happened")); kids.push(table(["Time", "Run", "What", "Audit id"], x.audit.slice(-60).reverse().map(e => [full.format(Date.parse(e.at)), String(e.run), e.what + (e.text ? ": " + e.text : ""), e.id]))); }
  d.replaceChildren(...kids);
}

function deadline(t, now) {
  const s = el("span"), p = t.chance;
  if (p !== undefined) { const m = el("span", "meter" + (p < .5 ? " low" : p < .8 ? " some" : "")), i = el("i"); i.style.width = Math.round(p * 100) + "%"; m.append(i); s.append(m, el("b", "", (p > .99 ? "> 99" : p < .01 ? "< 1" : Math.round(p * 100)) + " %  ")); }
  s.append(document.createTextNode(when(t.at, now) + ", worth " + t.value + (t.met ? ", met" : t.counted ? ", the one counted on" : "") + (t.spare_s !== undefined ? t.spare_s >= 0 ? ", " + span(t.spare_s * 1000) + " to spare" : ", missed by " + span(-t.spare_s * 1000) : "")));
  return s;
}

function figure(title, svg) { const f = el("figure"); f.style.margin = "0"; f.append(el("h3", "", title), svg); return f; }

function table(head, body) {
  const t = el("table"), tr = (cells, tag) => { const r = el("tr"); for (const c of cells) r.append(el(tag, "", c)); return r; };
  const th = el("thead"), tb = el("tbody"); th.append(tr(head, "th")); for (const b of body) tb.append(tr(b, "td")); t.append(th, tb); return t;
}

// --- small charts ---

const SVG = "http://www.w3.org/2000/svg", W = 420, H = 210, L = 46, R = 10, T = 10, B = 26;
function node(tag, attrs, text) { const e = document.createElementNS(SVG, tag); for (const k in attrs) e.setAttribute(k, attrs[k]); if (text !== undefined) e.textContent = text; return e; }
function nice(lo, hi, n) { const raw = (hi - lo) / n || 1, p = 10 ** Math.floor(Math.log10(raw)), s = [1, 2, 5, 10].find(k => k * p >= raw) * p, out = []; for (let v = Math.ceil(lo / s) * s; v <= hi + s * 1e-9; v += s) out.push(Math.abs(v) < s * 1e-9 ? 0 : v); return out; }
function human(v) { const a = Math.abs(v); return a >= 1e6 ? +(v / 1e6).toPrecision(3) + "M" : a >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(3)); }

function frame(label, x0, x1, y0, y1, xt, yt, xf, yf) {
  const s = node("svg", {viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": label}), x = v => L + (v - x0) / (x1 - x0 || 1) * (W - L - R), y = v => H - B - (v - y0) / (y1 - y0 || 1) * (H - B - T);
  for (const v of yt) { s.append(node("line", {class: "grid", x1: L, x2: W - R, y1: y(v), y2: y(v)}), node("text", {x: L - 5, y: y(v) + 4, "text-anchor": "end"}, yf(v))); }
  for (const v of xt) s.append(node("text", {x: x(v), y: H - 9, "text-anchor": x(v) > W - R - 14 ? "end" : "middle"}, xf(v)));
  s.append(node("path", {class: "axis", fill: "none", d: "M" + L + " " + T + "V" + (H - B) + "H" + (W - R)}));
  return {s, x, y};
}

function curveChart(c, j) {
  const m = /^([\w.-]+)(>=|<=)([0-9.e+-]+)/.exec(j.stop || ""), aim = m ? parseFloat(m[3]) : NaN, e = j.estimate && j.estimate.iterations, live = e && !j.ended;
  const end = live ? [e.low, e.mid, e.high].map(v => j.iter + v) : null;
  const vals = c.map(p => p.value).concat(isNaN(aim) ? [] : [aim]).filter(Number.isFinite);
  let y0 = Math.min(...vals), y1 = Math.max(...vals); const pad = (y1 - y0) * .1 || 1; y0 -= pad; y1 += pad;
  const x1 = Math.max(c[c.length - 1].iter, end ? Math.min(end[2], end[1] * 2.2) : 0), f = frame("learning curve", 0, x1, y0, y1, nice(0, x1, 5), nice(y0, y1, 4), human, human);
  if (end) { f.s.append(node("rect", {class: "band", x: f.x(end[0]), width: Math.max(1, f.x(Math.min(end[2], x1)) - f.x(end[0])), y: T, height: H - B - T})); f.s.append(node("line", {class: "mid", x1: f.x(end[1]), x2: f.x(end[1]), y1: T, y2: H - B})); f.s.append(node("text", {x: Math.min(f.x(end[1]), W - 70), y: H - B - 6, "text-anchor": "middle"}, "end, 80 %")); }
  if (!isNaN(aim)) { f.s.append(node("line", {class: "aim", x1: L, x2: W - R, y1: f.y(aim), y2: f.y(aim)})); f.s.append(node("text", {x: L + 6, y: f.y(aim) + (f.y(aim) < 30 ? 14 : -5)}, "target " + m[1] + " " + m[2] + " " + human(aim))); }
  f.s.append(node("path", {class: "curve", d: c.map((p, i) => (i ? "L" : "M") + f.x(p.iter).toFixed(1) + " " + f.y(p.value).toFixed(1)).join("")}));
  const last = c[c.length - 1]; f.s.append(node("circle", {class: "dot", r: 3.5, cx: f.x(last.iter), cy: f.y(last.value)})); return f.s;
}

function forecastChart(list, j, x) { // the run time in all, as forecast, against the run time so far; the truth is a level line
  const pts = list.map(f => ({ran: f.ran_s, low: f.ran_s + f.left_s.low, mid: f.ran_s + f.left_s.mid, high: f.ran_s + f.left_s.high}));
  const truth = j.ended && j.phase === "completed" ? j.held_s : NaN, top = Math.max(...pts.map(p => Math.min(p.high, p.mid * 2.5)), truth || 0), x1 = Math.max(pts[pts.length - 1].ran, j.held_s || 0, 1);
  const f = frame("forecast run time against run time so far", 0, x1, 0, top * 1.06, nice(0, x1 / 60, 5).map(v => v * 60), nice(0, top / 60, 4).map(v => v * 60), v => human(v / 60) + "m", v => human(v / 60) + "m");
  const y = v => f.y(Math.min(v, top)).toFixed(1), px = p => f.x(p.ran).toFixed(1);
  f.s.append(node("path", {class: "band", d: pts.map((p, i) => (i ? "L" : "M") + px(p) + " " + y(p.high)).join("") + pts.slice().reverse().map(p => "L" + px(p) + " " + y(p.low)).join("") + "Z"}));
  f.s.append(node("path", {class: "curve", d: pts.map((p, i) => (i ? "L" : "M") + px(p) + " " + y(p.mid)).join("")}));
  if (!isNaN(truth)) { f.s.append(node("line", {class: "aim", x1: L, x2: W - R, y1: f.y(truth), y2: f.y(truth)})); f.s.append(node("text", {x: W - R - 4, y: f.y(truth) - 5, "text-anchor": "end"}, "it took " + span(truth * 1000))); }
  return f.s;
}

document.getElementById("job").addEventListener("close", () => { if (location.hash) history.replaceState(null, "", location.pathname + location.search); jobState.ref = ""; const o = jobState.opener; if (o && o.isConnected && o.focus) o.focus(); });
document.getElementById("job").addEventListener("click", e => { if (e.target === e.currentTarget) e.currentTarget.close(); });
