// Puts what the server sends into the page. All of it works without this script too, but
// does not change by itself then. Nothing here makes HTML of text.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // The session. Its path is known to this browser alone, and is kept where pages of this
  // very address can read it, so that an address without it leads into the session.
  const form = $("login"), session = (location.pathname.match(/^\/s\/[^/]+\//) || [""])[0];
  const keep = {
    get() { // the browser may keep nothing, or what another server has left at this address
      try { return (localStorage.getItem("session") || "").match(/^\/s\/[A-Z2-7]{26}\/$/)?.[0] || ""; } catch { return ""; }
    },
    set(path) { try { if (path) localStorage.setItem("session", path); else localStorage.removeItem("session"); } catch { /* the same */ } },
  };
  if (!form && session && document.body.dataset.session) keep.set(session);
  if (form && session && keep.get() === session) keep.set(""); // it is over

  // A token may come behind the #, which browsers send to nobody. It is used at once and
  // does not stay in the address.
  if (location.hash.startsWith("#token=")) {
    const token = decodeURIComponent(location.hash.slice("#token=".length));
    history.replaceState(null, "", location.pathname + location.search);
    if (form) {
      $("token").value = token;
      form.requestSubmit();
    }
  } else if (form && !$("wrong") && keep.get()) {
    location.replace(keep.get() + form.elements.next.value.slice(1) + location.hash);
  }

  // Times since.
  function ago(t) {
    const s = Math.max(0, Math.round((Date.now() - new Date(t.dateTime)) / 1000));
    const unit = s < 60 ? [s, "s"] : s < 3600 ? [Math.floor(s / 60), "min"] : s < 86400 ? [Math.floor(s / 3600), "h"] : [Math.floor(s / 86400), "d"];
    const text = t.dataset.ago === "for" ? "for " + unit.join(" ") : unit.join(" ") + " ago";
    if (t.textContent !== text) {
      t.title = t.title || t.textContent + " UTC";
      t.textContent = text;
    }
  }
  const agoAll = (within) => { for (const t of within.querySelectorAll("time[data-ago]")) ago(t); };
  agoAll(document);
  // How long ago something was is not known of a box that cannot be reached.
  setInterval(() => { if (!document.hidden && !document.body.dataset.away) agoAll(document); }, 5000);

  // The filter of the overview, and of the fleet.
  const rows = $("rows"), query = $("q"), state = $("state"), of = rows && rows.dataset.of || "service";
  const fitsRow = (row) => {
    const words = query.value.trim().toLowerCase(), want = state.value;
    return row.dataset.find.includes(words) && (!want || row.dataset.word === want || want === "ill" && row.dataset.tone === "ill");
  };
  let counting = 0;
  function count() {
    counting = 0;
    let shown = 0;
    for (const row of rows.children) if (!row.hidden) shown++;
    $("none").hidden = shown > 0;
    $("fits").textContent = query.value.trim() || state.value ? shown + " " + of + (shown === 1 ? " fits" : "s fit") : "";
  }
  const countSoon = () => { counting = counting || requestAnimationFrame(count); };
  if (rows) {
    const filter = () => { for (const row of rows.children) row.hidden = !fitsRow(row); countSoon(); };
    query.addEventListener("input", filter);
    state.addEventListener("change", filter);
    query.form.addEventListener("submit", (e) => { e.preventDefault(); filter(); });
    filter();
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && query && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
      e.preventDefault();
      query.focus();
      query.select();
    }
  });

  // Fragments: each has an id, and takes the place of what has that id, or goes into the
  // list that it names.
  const figures = {};
  function figure(name) {
    const f = figures[name], row = $("s-" + name);
    if (!f || !row) return;
    const memory = row.querySelector("[data-memory]"), cpu = row.querySelector("[data-cpu]");
    if (memory) memory.textContent = size(f[0]);
    if (cpu) cpu.textContent = f[1] < 0 ? "–" : f[1] + " %";
  }
  function size(n) {
    if (n < 0) return "–";
    let unit = 0;
    for (; n >= 999.5 && unit < 4; unit++) n /= 1024;
    return (n < 9.95 && unit ? n.toFixed(1) : n.toFixed(0)) + " " + ["B", "KB", "MB", "GB", "TB"][unit];
  }
  function place(list, el) {
    if (list.dataset.order !== "key") return list.dataset.order === "top" ? list.firstElementChild : null;
    let low = 0, high = list.children.length;
    const key = el.dataset.key;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list.children[middle].dataset.key < key) low = middle + 1; else high = middle;
    }
    return list.children[low] || null;
  }
  const sent = new WeakMap(); // what the server has sent for an element
  function put(el) {
    const html = el.outerHTML, old = $(el.id), list = el.dataset.into && $(el.dataset.into);
    if (list === null) return;
    sent.set(el, html);
    agoAll(el);
    let fresh = !old;
    if (old) {
      if (list && list.dataset.order === "top") return; // it is there already
      if (sent.get(old) === html) return;
      fresh = old.dataset.word !== el.dataset.word;
      const had = old.contains(document.activeElement) ? document.activeElement : null;
      if (list && list.dataset.order === "key" && old.dataset.key !== el.dataset.key) {
        old.remove();
        list.insertBefore(el, place(list, el));
      } else {
        old.replaceWith(el);
      }
      if (had) refocus(el, had);
    } else if (list) {
      list.insertBefore(el, place(list, el));
      for (const most = Number(el.dataset.most); most && list.children.length > most;) list.lastElementChild.remove();
    } else {
      return;
    }
    if (list === rows && rows) {
      el.hidden = !fitsRow(el);
      countSoon();
      figure(el.id.slice(2));
    }
    if (el.id === "head") entitle(el);
    if (fresh) el.classList.add("fresh");
  }
  // The title and the icon say how many services are ill, for a tab that is not looked at.
  function entitle(head) {
    const ill = Number(head.dataset.ill), icon = $("icon");
    document.title = (ill ? "✖ " + ill + " ill · " : "") + document.body.dataset.title;
    if (icon.getAttribute("href") !== head.dataset.icon) icon.href = head.dataset.icon;
  }
  // What had the focus gets it again: by data-focus, or as the link to the same place.
  function refocus(el, had) {
    const all = [...el.querySelectorAll("a, button, input, select, [tabindex]")];
    const same = all.find((o) => had.dataset.focus ? o.dataset.focus === had.dataset.focus : had.id ? o.id === had.id : o.href === had.href);
    (same || all[0] || $("main")).focus({ preventScroll: true });
  }
  const parse = (html) => { const t = document.createElement("template"); t.innerHTML = html; return t.content; };
  function swap(html) {
    for (const el of [...parse(html).children]) {
      if ("rows" in el.dataset) {
        for (const row of [...el.tBodies[0].rows]) put(row);
      } else if (el.dataset.gone) {
        const gone = $(el.dataset.gone);
        if (gone) gone.remove();
        if (rows) countSoon();
      } else if (el.dataset.only) {
        const ids = new Set(el.dataset.ids.trim().split(" "));
        for (const row of [...$(el.dataset.only).children]) if (!ids.has(row.id)) row.remove();
        if (rows) countSoon();
      } else {
        put(el);
      }
    }
  }

  // The log: it stays at its end, unless somebody has scrolled away from there.
  const log = $("log"), linesMost = 1000;
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  function lines(html, all) {
    const end = atEnd();
    if (all) log.replaceChildren(parse(html)); else log.append(parse(html));
    while (log.children.length > linesMost) log.firstElementChild.remove();
    if (end) log.scrollTop = log.scrollHeight;
  }
  if (log) log.scrollTop = log.scrollHeight;

  // The stream of events.
  const link = $("link");
  // A page that was asked for with a filter lacks rows: then all are sent.
  let source = null, last = rows && location.search ? "" : document.body.dataset.after || "", timer = 0, pause = 1000;
  // When the page was heard last, which it is each second, and since when the supervisor does
  // not answer it, and why; in milliseconds. A supervisor that is replaced is back before
  // anybody need know. The clock stands still for a tab that nobody sees, or is asleep.
  const silence = 2500, again = 5000, every = 250;
  let silent = 0, down = 0, why = "", looked = Date.now();
  function heard() { silent = 0; judge(); }
  function judge() {
    const away = silent >= silence, text = away ? "The page does not answer, and is tried again. What is shown may have changed." : why && down >= silence ? why : "";
    if (link.textContent !== text) link.textContent = text;
    link.hidden = !text;
    if (text) document.body.dataset.away = "yes"; else delete document.body.dataset.away;
  }
  function look() {
    const passed = Math.min(Date.now() - looked, 2 * every);
    looked = Date.now();
    if (document.hidden) return;
    if (why) down += passed;
    const before = silent;
    silent += passed;
    judge();
    // A connection that leads nowhere is given up, for one that may lead somewhere.
    if (source && Math.floor(silent / again) > Math.floor(before / again)) { close(); open(); }
  }
  function open() {
    clearTimeout(timer);
    if (source || document.hidden) return;
    const follow = log && "follow" in log.dataset ? "&log=yes" : "";
    source = new EventSource(document.body.dataset.live + follow + "&after=" + encodeURIComponent(last));
    const on = (name, does) => source.addEventListener(name, (e) => {
      if (e.lastEventId) last = e.lastEventId;
      heard();
      does(e.data);
      document.body.dataset.after = last;
    });
    on("swap", swap);
    on("lines", (html) => lines(html, false));
    on("alllines", (html) => lines(html, true));
    on("still", () => {});
    on("link", (text) => {
      const t = JSON.parse(text);
      if (!t) down = 0;
      why = t && "The supervisor does not answer, and is tried again: " + t;
      judge();
    });
    on("usage", (text) => {
      const all = JSON.parse(text);
      for (const name in all) { figures[name] = all[name]; figure(name); }
    });
    on("over", () => location.reload());
    source.onopen = () => { pause = 1000; document.body.dataset.open = "yes"; why = ""; down = 0; heard(); };
    source.onerror = () => {
      delete document.body.dataset.open;
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again, with the last id
      close();
      pause = Math.min(2 * pause, 10000);
      timer = setTimeout(() => {
        // A session that is over is told from a page that is away by asking for it.
        fetch(location.href, { method: "HEAD", credentials: "same-origin" }).then((r) => { if (r.status === 401) location.reload(); else open(); }, open);
      }, pause);
    };
  }
  function close() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
    delete document.body.dataset.open;
  }
  if (document.body.dataset.live) {
    open();
    setInterval(look, every);
    // A browser has few connections for one place: a tab that nobody sees gives its back
    // after a while, and is sent what it missed when it is seen again.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) { open(); return; }
      clearTimeout(timer);
      timer = setTimeout(() => { if (document.hidden) close(); }, 10000);
    });
    // A page that goes into the browser's history must not keep a connection there.
    addEventListener("pagehide", close);
    addEventListener("pageshow", (e) => { if (e.persisted) open(); });
  }
})();
