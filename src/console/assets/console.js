"use strict";

// Keys: j and k move between rows, Esc leaves a field or the page, / filters, ? helps.

const rows = () => [...document.querySelectorAll("table[data-rows] tbody tr a[data-row]")];

const moveRow = (step) => {
  const links = rows();
  const current = links.indexOf(document.activeElement);
  const start = step > 0 ? 0 : links.length - 1;
  const target = links[current < 0 ? start : current + step];
  if (target) {
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  }
};

const leave = (event) => {
  const focused = document.activeElement;
  if (focused && focused.matches("input, textarea, select")) {
    // Browsers would clear the filter.
    event.preventDefault();
    focused.blur();
    return;
  }
  const up = document.querySelector("a[data-up]");
  if (up) location.assign(up.href);
};

const keys = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  "/": () => document.querySelector("[data-filter]")?.select(),
  "?": () => document.getElementById("keys").showModal(),
};

// Keys of one character can be switched off, for users who dictate (WCAG 2.1.4).
const charKeys = document.querySelector("[data-char-keys]");

const openKeys = document.querySelector("[data-open-keys]");
openKeys.addEventListener("click", keys["?"]);
openKeys.hidden = false;

// Long work: the button of a form that was sent shows it, and cannot be pressed again. Beside it
// is the time since then.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button");
  if (!button || event.target.method === "dialog") return;
  const start = Date.now();
  const elapsed = element("span", { className: "muted" });
  const progress = element("progress", { ariaLabel: "in progress" });
  const tick = () => (elapsed.textContent = ` ${Math.floor((Date.now() - start) / 1000)} s`);
  setTimeout(() => {
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    button.textContent = `${button.textContent} …`;
    button.after(element("span", { className: "nowrap" }, " ", progress, elapsed));
    tick();
    setInterval(tick, 1000);
  });
});

// A page that the browser kept has its buttons back.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    leave(event);
    return;
  }
  if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
  const action = keys[event.key];
  if (action && charKeys.checked) {
    event.preventDefault();
    action();
  }
});

// Live tail: rows of calls that end are put on top of the table. The server filters them by
// the query of the page, and they arrive as texts, which never become markup.

const MAX_ROWS = 500;
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

const escapeUnit = (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0");
const visible = (text) => text.replace(INVISIBLE, (found) => found.split("").map(escapeUnit).join(""));

const element = (name, properties, ...children) => {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
};

const makeRow = (call) => {
  const [time, verdict, ...others] = call.cells.map(visible);
  const link = element("a", { href: call.href }, time);
  link.dataset.row = "";
  const shape = element("span", {}, call.shape);
  shape.setAttribute("aria-hidden", "true");
  const badge = element("span", { className: `badge ${call.kind}` }, shape, ` ${verdict}`);
  return element(
    "tr",
    { className: `${call.kind} new` },
    element("th", { scope: "row", className: "nowrap" }, link),
    element("td", {}, badge),
    ...others.map((text) => element("td", {}, text)),
  );
};

const startLiveTail = (control) => {
  const button = control.querySelector("button");
  const status = control.querySelector("[role=status]");
  const body = document.querySelector("table[data-rows] tbody");
  const scanned = document.querySelector("[data-scanned]");
  let source = null;
  // Position of the last call that was seen, here or by the server for the filter.
  let position = control.dataset.after;
  let added = 0;
  let lost = 0;

  const announce = (state) => {
    const parts = [state, `${added} new`];
    if (lost > 0) parts.push(`${lost} skipped, because there were too many`);
    status.textContent = parts.join(", ");
  };

  const pause = () => {
    source?.close();
    source = null;
    button.setAttribute("aria-pressed", "false");
    announce("paused");
  };

  const follow = () => {
    source = new EventSource(`${control.dataset.live}&after=${position}`);
    button.setAttribute("aria-pressed", "true");
    source.addEventListener("open", () => announce("live"));
    source.addEventListener("calls", (event) => {
      position = event.lastEventId;
      const calls = JSON.parse(event.data);
      if (calls.length === 0) return;
      // It describes the rows without these.
      scanned.hidden = true;
      const newest = calls.map(makeRow).reverse();
      body.prepend(...newest);
      while (body.rows.length > MAX_ROWS) body.lastElementChild.remove();
      added += calls.length;
      announce("live");
    });
    source.addEventListener("lost", (event) => {
      lost += Number(event.data);
      announce("live");
    });
    source.addEventListener("error", () => {
      announce(source?.readyState === EventSource.CLOSED ? "disconnected; reload the page" : "connecting");
    });
  };

  button.addEventListener("click", () => (source ? pause() : follow()));
  control.hidden = false;
};

document.querySelectorAll("[data-live]").forEach(startLiveTail);

// Last, because a browser that stores nothing throws an error here.
charKeys.checked = localStorage.getItem("char-keys") !== "off";
charKeys.addEventListener("change", () => {
  localStorage.setItem("char-keys", charKeys.checked ? "on" : "off");
});
