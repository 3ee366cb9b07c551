/** Numbers and times as people read them. */

// To make one of these takes as long as to draw a row: lists need several for each of theirs.
const MOMENTS = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const NUMBERS = new Intl.NumberFormat("en-US");

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1) return `${milliseconds.toFixed(2)} ms`;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function formatAge(seconds: number): string {
  if (seconds < 10) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86_400);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

export function formatMoment(seconds: number): string {
  return MOMENTS.format(seconds * 1000);
}

export function formatClock(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${CLOCK.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function formatNumber(value: number): string {
  return NUMBERS.format(value).replaceAll(",", " ");
}

export function formatTokens(value: number): string {
  if (value < 10_000) return formatNumber(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)} k`;
  return `${(value / 1_000_000).toFixed(2)} M`;
}

export function formatCost(dollars: number): string {
  return dollars === 0 ? "$0" : dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

export function formatSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1_048_576) return `${(bytes / 1024).toFixed(1)} kB`;
  return `${(bytes / 1_048_576).toFixed(1)} MB`;
}

export function count(number: number, noun: string): string {
  return `${formatNumber(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** `1 call waits`, `2 calls wait`. */
export function countWith(number: number, noun: string, verb: string): string {
  return `${count(number, noun)} ${verb}${number === 1 ? "s" : ""}`;
}

/** The first line of a text, at most so long. */
export function firstLine(text: string, most = 200): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
