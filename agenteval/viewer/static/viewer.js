// What a page does beyond links and forms: keys, and a run under way. All pages work without it.
"use strict";

function lines() {
  return [...document.querySelectorAll("[data-line]")].filter((one) => one.offsetParent !== null);
}

function move(step) {
  const all = lines();
  if (!all.length) return;
  const now = all.findIndex((one) => one.classList.contains("here"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + step))];
  all.forEach((one) => one.classList.toggle("here", one === next));
  next.scrollIntoView({ block: "nearest" });
  const link = next.querySelector("a");
  if (link) link.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const search = document.querySelector("[data-search]");
  const keys = document.getElementById("keys");
  const listed = keys.open; // an Escape may still be on its way to it
  if (listed && event.key !== "/" && event.key !== "?") return;
  if (listed) keys.close();
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "/" && search) search.focus();
  else if (event.key === "?") listed || keys.showModal();
  else return;
  event.preventDefault();
});

const live = document.querySelector("[data-events]");
if (live && window.EventSource) {
  const source = new EventSource(live.dataset.events);
  const renew = () => window.htmx && window.htmx.trigger("#live", "changed");
  source.addEventListener("changed", renew);
  source.addEventListener("ended", () => {
    source.close();
    window.location.reload();
  });
}

// An anchor inside a folded part is opened, so that a link to a call shows the call.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (target) target.scrollIntoView({ block: "center" });
}
window.addEventListener("hashchange", unfold);
unfold();
