// Loads what Intl needs for time zones before a schedule does.
//
// The first date format of a process looks through the data of all locales, which takes 25 ms. The
// first `set-schedule` would do that on a thread that serves clients.

/** Starts that a script waits for, and servers that live briefly, do without. */
const AFTER_MS = 200;

/** Does so soon, in the calling thread, which should serve no clients. */
export function loadTimeZonesSoon(): void {
  setTimeout(() => new Intl.DateTimeFormat("en-US", { timeZone: "UTC" }), AFTER_MS).unref();
}
