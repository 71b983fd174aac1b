// Keeps the inbox fresh: asks for it anew when something was written, and says how many wait.

import { distance, onChange } from "./live.js";

const inbox = document.getElementById("inbox");
const told = document.getElementById("told");
let asking = false;
let again = false;

async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  const answer = await fetch("/ui/", { credentials: "same-origin" }).catch(() => null);
  asking = false;
  if (answer !== null && answer.ok && !answer.redirected) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    show(page);
  } else if (answer !== null && answer.redirected) {
    // Signed out meanwhile.
    location.reload();
  }
  if (again) {
    again = false;
    refresh();
  }
}

function show(page) {
  const fresh = page.getElementById("inbox");
  if (fresh === null || fresh.innerHTML === inbox.innerHTML) return;
  const held = document.activeElement instanceof HTMLAnchorElement ? document.activeElement.getAttribute("href") : null;
  const before = inbox.dataset.count;
  inbox.replaceChildren(...fresh.childNodes);
  inbox.dataset.count = fresh.dataset.count;
  document.title = page.title;
  if (held !== null) inbox.querySelector(`a[href="${CSS.escape(held)}"]`)?.focus();
  if (before !== inbox.dataset.count) {
    told.textContent = `For you to answer: ${inbox.dataset.count}`;
  }
}

onChange(refresh);
setInterval(() => {
  for (const place of document.querySelectorAll("[data-distance]")) {
    const ends = Number(place.dataset.distance);
    place.textContent = `(${distance(ends, Date.now())})`;
    if (ends <= Date.now()) refresh();
  }
}, 5000);
