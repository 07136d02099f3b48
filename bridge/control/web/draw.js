// The chart: leases by node and lane, or by job, on one canvas. It draws what it is told and knows nothing of the network.
"use strict";

const MIN = 60e3, HOUR = 3600e3, DAY = 24 * HOUR;

function span(ms) { // 3h05m, 4m10s, 2d03h
  const neg = ms < 0; let s = Math.round(Math.abs(ms) / 1000);
  const two = n => String(n).padStart(2, "0");
  const out = s < 60 ? s + "s" : s < 3600 ? Math.floor(s / 60) + "m" + two(s % 60) + "s" : s < 86400 ? Math.floor(s / 3600) + "h" + two(Math.floor(s % 3600 / 60)) + "m" : Math.floor(s / 86400) + "d" + two(Math.floor(s % 86400 / 3600)) + "h";
  return (neg ? "-" : "") + out;
}
const clock = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", hour12: false});
const full = new Intl.DateTimeFormat(undefined, {weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false, timeZoneName: "shortOffset"});
const dayName = new Intl.DateTimeFormat(undefined, {weekday: "short", day: "numeric", month: "short"});

// layout gives each lease lanes on its nodes: the ones that the job had, else a free buddy block, else whatever is free. Slurm and the plan name nodes
// and numbers of GPUs, not devices: lanes are for the eye.
function layout(board) {
  const rows = new Map();
  board.nodes.forEach((n, i) => rows.set(n.name, {node: n, i, rects: [], ends: new Float64Array(Math.max(1, n.gpus)), last: new Map()}));
  const put = (row, lease, gpus) => {
    const ends = row.ends, lanes = ends.length, from = lease.t0 + 1500; // clocks of a second
    gpus = Math.min(gpus, lanes);
    let at = [];
    const before = row.last.get(lease.job);
    if (before && before.length === gpus && before.every(l => ends[l] <= from)) at = before;
    if (!at.length) {
      let size = 1; while (size < gpus) size *= 2;
      for (let s = 0; s + gpus <= lanes && !at.length; s += size) {
        let free = true;
        for (let l = s; l < s + gpus; l++) if (ends[l] > from) { free = false; break; }
        if (free) for (let l = s; l < s + gpus; l++) at.push(l);
      }
    }
    if (!at.length) at = Array.from(ends.keys()).sort((a, b) => Math.max(0, ends[a] - from) - Math.max(0, ends[b] - from) || a - b).slice(0, gpus).sort((a, b) => a - b);
    row.last.set(lease.job, at);
    for (const l of at) ends[l] = Math.max(ends[l], lease.t1);
    for (let k = 0; k < at.length;) { // neighbouring lanes are one rectangle
      let m = k + 1; while (m < at.length && at[m] === at[m - 1] + 1) m++;
      row.rects.push({lease, lane: at[k], lanes: m - k});
      k = m;
    }
  };
  for (const n of board.nodes) if (n.other > 0) {
    const until = n.other_until ? Date.parse(n.other_until) : 0;
    put(rows.get(n.name), {job: 0, kind: "other", t0: board.now - 15 * MIN, t1: Math.max(until, board.now + 15 * MIN), open: !until, gpus: n.other}, n.other);
  }
  for (const l of board.leases) for (const s of l.place || []) { const row = rows.get(s.node); if (row) put(row, l, s.gpus); }
  return Array.from(rows.values());
}

class Chart {
  constructor(canvas, tip, hooks) {
    this.c = canvas; this.tip = tip; this.hooks = hooks; this.g = canvas.getContext("2d");
    this.mode = "node"; this.rows = []; this.shown = []; this.jobs = []; this.top = 0; this.follow = true; this.t0 = 0; this.t1 = 1; this.sel = 0; this.queued = false; this.pointers = new Map();
    new ResizeObserver(() => this.resize()).observe(canvas);
    canvas.addEventListener("wheel", e => this.wheel(e), {passive: false});
    for (const k of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(k, e => this.pointer(e, k));
    this.theme(); this.resize();
  }
  theme() {
    const s = getComputedStyle(document.documentElement), v = n => s.getPropertyValue("--" + n).trim();
    this.col = {}; for (const n of ["surface", "text", "muted", "line", "row", "strict", "soft", "best", "probe", "other", "risk", "now", "accent", "pick", "ok"]) this.col[n] = v(n);
    this.fills = new Map(); this.later();
  }
  resize() {
    const r = this.c.getBoundingClientRect(), d = window.devicePixelRatio || 1;
    this.w = Math.max(1, Math.round(r.width)); this.h = Math.max(1, Math.round(r.height));
    this.c.width = this.w * d; this.c.height = this.h * d; this.d = d;
    this.gutter = this.w < 520 ? 62 : 92; this.later();
  }
  set(board, jobs) {
    const first = !this.board;
    if (board !== this.board) this.rows = layout(board);
    this.board = board; this.jobs = jobs;
    this.shown = this.hooks.filtered() ? this.rows.filter(r => r.rects.some(q => q.lease.job && this.hooks.match(q.lease.job))) : this.rows; // a filter leaves the nodes with something to see
    if (first) this.home();
    else if (this.follow) { const d = board.now - this.was; this.t0 += d; this.t1 += d; }
    this.was = board.now; this.later();
  }
  later() { if (!this.queued) { this.queued = true; requestAnimationFrame(() => { this.queued = false; performance.mark("draw-0"); this.draw(); performance.measure("draw", "draw-0"); }); } }
  x(t) { return this.gutter + (t - this.t0) / (this.t1 - this.t0) * (this.w - this.gutter); }
  t(x) { return this.t0 + (x - this.gutter) / (this.w - this.gutter) * (this.t1 - this.t0); }
  zoom(f, x) {
    const at = x === undefined ? this.board.now : this.t(x), d = Math.min(Math.max((this.t1 - this.t0) * f, MIN), 8 * DAY);
    const k = d / (this.t1 - this.t0);
    this.t0 = at - (at - this.t0) * k; this.t1 = this.t0 + d; this.later();
  }
  pan(dt) { this.t0 += dt; this.t1 += dt; this.follow = this.t0 < this.board.now && this.t1 > this.board.now; this.later(); }
  home() { const now = this.board.now, unit = (this.board.unit_s || 300) * 1000; this.t0 = now - 18 * unit; this.t1 = now + 24 * unit; // as far as the plan reaches
    this.follow = true; this.top = 0; this.later(); }
  scroll(dy) { this.top = Math.max(0, Math.min(this.top + dy, Math.max(0, this.total() - (this.h - 24)))); this.later(); }
  laneHeight() {
    let lanes = 0; for (const r of this.shown) lanes += r.ends.length;
    const fit = (this.h - 26 - this.shown.length * 3) / Math.max(1, lanes);
    return Math.max(this.w < 520 ? 4 : 3.5, Math.min(16, fit));
  }
  total() {
    if (this.mode === "job") return this.jobs.length * 20 + 8;
    const lh = this.laneHeight(); let y = 0; for (const r of this.shown) y += this.rowHeight(r, lh); return y + 4;
  }
  rowHeight(r, lh) { return Math.max(r.ends.length * lh, 11) + 3; }
  color(j) { return !j ? this.col.other : j.class === "strict" ? this.col.strict : j.class === "soft" ? this.col.soft : j.class === "profiler" ? this.col.probe : this.col.best; }
  // fill is a translucent or hatched version of a colour.
  fill(c, kind) {
    if (kind === "past") return this.mix(c, .62);
    if (kind === "plan") return this.mix(c, .26);
    if (kind !== "hatch") return c;
    const key = "h" + c; let p = this.fills.get(key);
    if (!p) {
      const t = document.createElement("canvas"); t.width = t.height = 6; const g = t.getContext("2d");
      g.strokeStyle = c; g.lineWidth = 1.2; g.beginPath(); g.moveTo(-1, 7); g.lineTo(7, -1); g.moveTo(-1, 1); g.lineTo(1, -1); g.moveTo(5, 7); g.lineTo(7, 5); g.stroke();
      p = this.g.createPattern(t, "repeat"); this.fills.set(key, p);
    }
    return p;
  }
  mix(c, a) { const key = c + a; let v = this.fills.get(key); if (!v) { v = "color-mix(in srgb, " + c + " " + a * 100 + "%, transparent)"; this.fills.set(key, v); } return v; }
  draw() {
    const g = this.g; if (!this.board) return;
    g.setTransform(this.d, 0, 0, this.d, 0, 0); g.clearRect(0, 0, this.w, this.h);
    g.font = "12px " + getComputedStyle(document.body).fontFamily; g.textBaseline = "middle";
    this.scrollClamp(); this.grid();
    g.save(); g.beginPath(); g.rect(0, 24, this.w, this.h - 24); g.clip();
    if (this.mode === "node") this.drawNodes(); else this.drawJobs();
    g.restore();
    this.axis(); this.nowLine();
  }
  scrollClamp() { this.top = Math.max(0, Math.min(this.top, Math.max(0, this.total() - (this.h - 24)))); }
  step() {
    const want = (this.t1 - this.t0) / Math.max(2, (this.w - this.gutter) / 95);
    return [MIN, 2 * MIN, 5 * MIN, 10 * MIN, 15 * MIN, 30 * MIN, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY].find(s => s >= want) || 2 * DAY;
  }
  ticks() { // on whole local hours and days
    const s = this.step(), off = new Date(this.t0).getTimezoneOffset() * MIN, out = [];
    for (let t = Math.ceil((this.t0 - off) / s) * s + off; t <= this.t1; t += s) out.push(t);
    return out;
  }
  grid() { const g = this.g; g.strokeStyle = this.col.row; g.lineWidth = 1; g.beginPath(); for (const t of this.ticks()) { const x = Math.round(this.x(t)) + .5; if (x > this.gutter) { g.moveTo(x, 24); g.lineTo(x, this.h); } } g.stroke(); }
  axis() {
    const g = this.g; g.fillStyle = this.col.surface; g.fillRect(0, 0, this.w, 24); g.strokeStyle = this.col.line; g.beginPath(); g.moveTo(0, 24.5); g.lineTo(this.w, 24.5); g.moveTo(this.gutter + .5, 0); g.lineTo(this.gutter + .5, this.h); g.stroke();
    g.fillStyle = this.col.muted; g.textAlign = "center";
    for (const t of this.ticks()) { const x = this.x(t); if (x < this.gutter + 20 || x > this.w - 18) continue; const d = new Date(t), day = d.getHours() === 0 && d.getMinutes() === 0; g.fillText(day || this.step() >= DAY ? dayName.format(d) : clock.format(d), x, 12); }
    g.textAlign = "left"; g.fillText(this.mode === "node" ? "node" : "job", 8, 12);
  }
  nowLine() { const g = this.g, x = Math.round(this.x(this.board.now)) + .5; if (x <= this.gutter || x > this.w) return; g.strokeStyle = this.col.now; g.lineWidth = 1.5; g.beginPath(); g.moveTo(x, 18); g.lineTo(x, this.h); g.stroke(); g.fillStyle = this.col.now; g.beginPath(); g.moveTo(x - 4, 17); g.lineTo(x + 4, 17); g.lineTo(x, 23); g.fill(); }
  label(text, x, y, w, color) { const g = this.g; g.fillStyle = color; let s = text; if (g.measureText(s).width > w) { while (s.length > 1 && g.measureText(s + "…").width > w) s = s.slice(0, -1); s += "…"; } g.fillText(s, x, y); }
  bar(l, x0, x1, y, h) {
    const g = this.g, j = this.hooks.job(l.job), c = l.kind === "other" ? this.col.other : l.profile ? this.col.probe : this.color(j), dim = l.kind !== "other" && !this.hooks.match(l.job) || l.kind === "other" && this.hooks.filtered();
    if (this.mode === "job" && l.kind !== "now") { g.fillStyle = l.job === this.sel ? this.col.pick : this.col.row; g.fillRect(x0, y, x1 - x0, h); } // hides the line below
    g.globalAlpha = dim ? .13 : 1;
    const w = Math.max(1.5, x1 - x0 - (h > 6 && x1 - x0 > 4 ? 1 : 0));
    g.fillStyle = l.kind === "other" ? this.fill(c, "hatch") : this.fill(c, l.kind); g.fillRect(x0, y, w, h);
    if (l.kind === "plan" && w > 3) { g.strokeStyle = c; g.lineWidth = 1; g.strokeRect(x0 + .5, y + .5, w - 1, Math.max(1, h - 1)); }
    if (j && j.risk && l.kind !== "past" && !dim) { g.strokeStyle = this.col.risk; g.lineWidth = 1.6; g.strokeRect(x0 + .8, y + .8, Math.max(1, w - 1.6), Math.max(1, h - 1.6)); }
    if (l.job && l.job === this.sel) { g.strokeStyle = this.col.text; g.lineWidth = 2; g.strokeRect(x0 + .5, y + .5, Math.max(1, w - 1), Math.max(1, h - 1)); }
    if (h >= 11 && w > 26 && !dim && this.mode === "node") this.label(l.kind === "other" ? "not managed" : (j ? j.ref + " " + j.name : "job " + l.job), x0 + 4, y + h / 2 + .5, w - 8, l.kind === "plan" || l.kind === "other" ? this.col.text : l.kind === "past" ? this.col.text : this.col.surface);
    g.globalAlpha = 1;
  }
  drawNodes() {
    const g = this.g, lh = this.laneHeight(); let y = 26 - this.top; this.at = [];
    for (const r of this.shown) {
      const rh = this.rowHeight(r, lh), hh = rh - 3;
      if (y + rh > 24 && y < this.h) {
        this.at.push({r, y, h: hh, lh});
        g.fillStyle = this.col.row; g.fillRect(this.gutter + 1, y, this.w, hh);
        if (!r.node.usable) { g.fillStyle = this.fill(this.col.risk, "hatch"); g.globalAlpha = .35; g.fillRect(this.gutter + 1, y, this.w, hh); g.globalAlpha = 1; }
        if (lh >= 5) { g.strokeStyle = this.col.surface; g.lineWidth = 1; g.beginPath(); for (let l = 1; l < r.ends.length; l++) if (l % 4 === 0 || lh >= 9) { const ly = Math.round(y + l * lh) + .5; g.moveTo(this.gutter, ly); g.lineTo(this.w, ly); } g.stroke(); } // cells
        for (const q of r.rects) {
          const l = q.lease; if (l.t1 < this.t0 || l.t0 > this.t1) continue;
          const x0 = Math.max(this.gutter + 1, this.x(l.t0)), x1 = Math.min(this.w + 4, this.x(l.t1)); if (x1 <= this.gutter + 1) continue;
          this.bar(l, x0, x1, y + q.lane * lh + (lh > 5 ? .5 : 0), q.lanes * lh - (lh > 5 ? 1 : lh > 3.9 ? .5 : .3));
        }
        g.fillStyle = this.col.surface; g.fillRect(0, y, this.gutter, hh);
        this.label((r.node.usable ? "" : "✕ ") + r.node.name, 8, y + hh / 2, this.gutter - 14, r.node.usable ? this.col.text : this.col.risk);
      }
      y += rh; if (y > this.h) break;
    }
    if (!this.shown.length) { g.fillStyle = this.col.muted; g.fillText(this.board.nodes.length ? "no lease matches" : "no nodes", this.gutter + 12, 44); }
    const j = this.hooks.job(this.sel); if (j) this.marks(j, 24, this.h);
  }
  marks(j, y0, y1) { // deadline and forecast end of one job
    const g = this.g, line = (t, c, dash) => { const x = this.x(t); if (x <= this.gutter || x > this.w) return; g.strokeStyle = c; g.lineWidth = 1.5; g.setLineDash(dash); g.beginPath(); g.moveTo(x, y0); g.lineTo(x, y1); g.stroke(); g.setLineDash([]); };
    if (j.tDue) line(j.tDue, this.col.risk, [5, 4]); if (j.tEnd) line(j.tEnd, this.col.ok, [2, 3]);
  }
  drawJobs() {
    const g = this.g; let y = 28 - this.top; this.at = [];
    for (const j of this.jobs) {
      if (y + 20 > 24 && y < this.h) {
        this.at.push({j, y, h: 17});
        g.fillStyle = j.id === this.sel ? this.col.pick : this.col.row; g.fillRect(this.gutter + 1, y, this.w, 17);
        if (j.tSub && j.tSub < this.board.now) { const x0 = Math.max(this.gutter + 1, this.x(j.tSub)), x1 = Math.min(this.w, this.x(j.tEnd || this.board.now)); if (x1 > x0) { g.fillStyle = this.col.line; g.fillRect(x0, y + 8, x1 - x0, 1.5); } } // from submission to end
        for (const l of j.leases) { if (l.t1 < this.t0 || l.t0 > this.t1) continue; const x0 = Math.max(this.gutter + 1, this.x(l.t0)); this.bar(l, x0, this.x(l.t1), y + 2, 13); }
        if (j.tDue) { const x = this.x(j.tDue); if (x > this.gutter && x < this.w) { g.fillStyle = this.col.risk; g.fillRect(x - 1, y, 2, 17); g.beginPath(); g.moveTo(x - 4, y); g.lineTo(x + 4, y); g.lineTo(x, y + 5); g.fill(); } }
        g.fillStyle = j.id === this.sel ? this.col.pick : this.col.surface; g.fillRect(0, y - 1, this.gutter, 19);
        g.fillStyle = this.color(j); g.fillRect(4, y + 5, 7, 7); this.label(j.ref + " " + j.name, 15, y + 9, this.gutter - 20, j.risk ? this.col.risk : this.col.text);
      }
      y += 20; if (y > this.h) break;
    }
    if (!this.jobs.length) { g.fillStyle = this.col.muted; g.fillText("no job matches", this.gutter + 12, 44); }
  }
  show(id) { // scroll to a job
    this.sel = id; this.later();
    if (this.mode === "job") { const i = this.jobs.findIndex(j => j.id === id); if (i >= 0) this.reveal(i * 20, 20); return; }
    const lh = this.laneHeight(); let y = 0, found = null, now = null;
    for (const r of this.shown) { const h = this.rowHeight(r, lh); for (const q of r.rects) if (q.lease.job === id) { if (q.lease.kind === "now") { now = {y, h}; break; } found = found || {y, h}; } if (now) break; y += h; }
    const f = now || found; if (f) this.reveal(f.y, f.h);
  }
  reveal(y, h) { const room = this.h - 26; if (y < this.top) this.top = y; else if (y + h > this.top + room) this.top = y + h - room; }
  hit(x, y) {
    if (!this.at || x < 0) return null;
    const t = this.t(x);
    for (const a of this.at) {
      if (y < a.y || y > a.y + a.h) continue;
      if (a.j) return {job: a.j.id, lease: x > this.gutter ? a.j.leases.find(l => l.t0 <= t && t <= l.t1) : null};
      if (x < this.gutter) return {node: a.r.node};
      const lane = Math.min(a.r.ends.length - 1, Math.floor((y - a.y) / a.lh)), slop = 2 * (this.t1 - this.t0) / this.w;
      for (let k = a.r.rects.length - 1; k >= 0; k--) { const q = a.r.rects[k]; if (lane >= q.lane && lane < q.lane + q.lanes && q.lease.t0 - slop <= t && t <= q.lease.t1 + slop) return {job: q.lease.job, lease: q.lease, node: a.r.node}; }
      return {node: a.r.node};
    }
    return null;
  }
  wheel(e) {
    if (!this.board) return; e.preventDefault();
    const k = e.deltaMode === 1 ? 16 : 1;
    if (e.ctrlKey || e.metaKey) this.zoom(Math.exp(e.deltaY * k * .002), e.offsetX);
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan((e.deltaX || e.deltaY) * k * (this.t1 - this.t0) / this.w);
    else this.scroll(e.deltaY * k);
  }
  pointer(e, kind) {
    if (!this.board) return;
    const p = {x: e.offsetX, y: e.offsetY};
    if (kind === "pointerdown") { this.c.setPointerCapture(e.pointerId); this.pointers.set(e.pointerId, p); this.moved = 0; this.hide(); return; }
    if (kind === "pointermove" && this.pointers.has(e.pointerId)) {
      const was = this.pointers.get(e.pointerId);
      if (this.pointers.size === 2) { // pinch
        const other = Array.from(this.pointers.entries()).find(([id]) => id !== e.pointerId)[1];
        const d0 = Math.abs(was.x - other.x) + 1, d1 = Math.abs(p.x - other.x) + 1; this.zoom(d0 / d1, (p.x + other.x) / 2);
      } else { this.moved += Math.abs(p.x - was.x) + Math.abs(p.y - was.y); if (this.moved > 4) { this.c.classList.add("drag"); this.pan((was.x - p.x) / (this.w - this.gutter) * (this.t1 - this.t0)); this.scroll(was.y - p.y); } }
      this.pointers.set(e.pointerId, p); return;
    }
    if (kind === "pointermove") { this.hover(p); return; }
    if (kind === "pointerup" && this.pointers.has(e.pointerId) && this.moved <= 4) { const h = this.hit(p.x, p.y); if (h && h.job) this.hooks.open(h.job); else if (h && h.node) this.hooks.node(h.node); }
    this.pointers.delete(e.pointerId); this.c.classList.remove("drag"); if (kind === "pointerleave") this.hide();
  }
  hide() { this.tip.hidden = true; }
  hover(p) {
    const h = this.hit(p.x, p.y); if (!h) { this.hide(); return; }
    const lines = this.hooks.tip(h); if (!lines) { this.hide(); return; }
    this.tip.replaceChildren(...lines.map((s, i) => { const el = document.createElement(i ? "div" : "b"); el.textContent = s; return el; }));
    this.tip.hidden = false;
    const w = this.tip.offsetWidth, hh = this.tip.offsetHeight;
    this.tip.style.left = Math.max(4, Math.min(p.x + 14, this.w - w - 6)) + "px"; this.tip.style.top = Math.max(4, p.y + 16 + hh > this.h ? p.y - hh - 10 : p.y + 16) + "px";
  }
}
