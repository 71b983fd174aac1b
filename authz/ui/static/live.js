// Tells a page that something of this tenant's approvals changed. The stream is open only while the page can be
// seen: a browser has few connections to one host, and many tabs would use them up.

const STREAM = "/ui/events";
const FIRST_PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 60000;

export function onChange(changed) {
  let source = null;
  let pause = FIRST_PAUSE_MS;
  let timer = 0;

  function open() {
    if (source !== null || document.hidden) return;
    source = new EventSource(STREAM);
    source.addEventListener("ready", () => {
      pause = FIRST_PAUSE_MS;
      // Whatever happened while nobody listened.
      changed("");
    });
    source.addEventListener("approval", (event) => changed(event.data));
    source.addEventListener("error", () => {
      close();
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    });
  }

  function close() {
    clearTimeout(timer);
    if (source !== null) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}

// Words as the server writes them: `in 5 minutes`, `3 hours ago`.
export function distance(ms, nowMs) {
  const seconds = Math.floor(Math.abs(ms - nowMs) / 1000);
  if (seconds === 0) return "now";
  const [size, name] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([size]) => seconds >= size);
  const count = Math.floor(seconds / size);
  const told = `${count} ${name}${count === 1 ? "" : "s"}`;
  return ms > nowMs ? `in ${told}` : `${told} ago`;
}
