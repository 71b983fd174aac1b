// What makes the confirmation page live. Without it the page says and does the same.

import { distance, onChange } from "./live.js";

const page = document.querySelector("[data-approval]");
const address = `/ui/approvals/${page.dataset.approval}`;
const approve = document.getElementById("approve");
const alertBox = document.getElementById("alert");

// A refused answer is read first.
if (alertBox !== null) alertBox.focus();

// A value counts as read when its end was on the screen.
const ends = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    const box = document.querySelector(`input[name="opened"][value="${entry.target.dataset.end}"]`);
    if (box !== null && !box.checked) {
      box.checked = true;
      tellOpened();
    }
  }
});
for (const end of document.querySelectorAll("[data-end]")) ends.observe(end);

function tellOpened() {
  for (const item of document.querySelectorAll("[data-unopened]")) {
    const box = document.querySelector(`input[name="opened"][value="${item.dataset.unopened}"]`);
    item.querySelector(".opened-state").textContent = box !== null && box.checked ? "read" : "not yet";
  }
}
document.addEventListener("change", tellOpened);
tellOpened();

// Two clicks are one answer. (The server takes only one in any case.)
for (const form of document.querySelectorAll("form[data-once]")) {
  let sent = false;
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  window.addEventListener("pageshow", () => (sent = false));
}

// The page never changes under somebody's hand: it says that it is out of date and takes its yes away.
function outOfDate(words) {
  const box = document.getElementById("changed");
  if (!box.hidden) return;
  const link = document.createElement("a");
  link.href = address;
  link.textContent = "Look again";
  box.append(words, " ", link);
  box.hidden = false;
  for (const button of document.querySelectorAll("button.approve")) button.disabled = true;
}

async function compare(id) {
  if (id !== "" && id !== page.dataset.approval) return;
  const answer = await fetch(`${address}/state`, { credentials: "same-origin" }).catch(() => null);
  if (answer === null || !answer.ok) return;
  const now = await answer.json();
  if (now.version !== Number(page.dataset.version) || now.state !== page.dataset.state) {
    outOfDate("This request is no longer as this page shows it.");
  }
}

if (page.dataset.state === "pending") {
  onChange(compare);
  setInterval(() => {
    const left = Number(page.dataset.expires) - Date.now();
    for (const place of document.querySelectorAll("[data-distance]")) {
      place.textContent = `(${distance(Number(place.dataset.distance), Date.now())})`;
    }
    if (left <= 0) outOfDate("The time to answer is over.");
  }, 1000);
}

if (approve !== null && approve.dataset.passkey !== undefined) {
  import("./passkey.js").then((passkey) => {
    passkey.approveWith(approve);
    for (const button of approve.querySelectorAll("[data-needs-script]")) button.disabled = false;
    for (const note of approve.querySelectorAll("[data-without-script]")) note.hidden = true;
  });
}
