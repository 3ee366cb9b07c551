/**
 * The page's one live connection: the server's stream of events.
 *
 *                 answered                  a frame takes too long
 *   connecting ─────────────▸ live ◂────────────────────────────▸ behind
 *       ▴                      │ the stream ended, or was silent
 *       └────── waiting ◂──────┘
 *
 * It goes on after the last event it has seen, so a reconnect, also one to a restarted server, repeats nothing and
 * leaves nothing out. Events are handed on in batches, one for each frame of the screen: a thousand a second cost one
 * update for each frame. When more arrive than can be handed on, deltas are dropped (what they say comes again as a
 * whole message), and `onGap` says that what is shown must be read again.
 */
import { createParser } from "eventsource-parser";

import type { Shape } from "../api/client";

export type LiveEvent = Shape<"Event">;
export type LiveState = "connecting" | "live" | "behind" | "waiting";

export interface LiveStatus {
  state: LiveState;
  /** Events that have arrived and were not handed on yet. */
  pending: number;
  /** Why there is no connection, in words. */
  reason: string;
}

type Take = (events: readonly LiveEvent[]) => void;

const SILENT_MS = 60_000; // the server sends a heartbeat every 15 s
const SLOWEST_RETRY_MS = 8_000;
const MOST_OF_A_FRAME = 400;
const MOST_PENDING = 20_000;
const BEHIND = 2_000;

export class LiveConnection {
  status: LiveStatus = { state: "connecting", pending: 0, reason: "" };
  lastId = "";
  private readonly takers = new Set<Take>();
  private readonly watchers = new Set<() => void>();
  private readonly gapWatchers = new Set<() => void>();
  private queue: LiveEvent[] = [];
  private hasGap = false;
  private handing = false;
  private stopped = new AbortController();
  private wake: () => void = () => undefined;

  constructor(private readonly address = "/api/events") {}

  start(): void {
    this.stopped = new AbortController();
    void this.run(this.stopped.signal);
  }

  stop(): void {
    this.stopped.abort();
  }

  /** Connect now, without waiting for the next try. */
  retry(): void {
    this.wake();
  }

  /** Be given every batch of events, until the returned function is called. */
  subscribe(take: Take): () => void {
    this.takers.add(take);
    return () => void this.takers.delete(take);
  }

  watchStatus = (watch: () => void): (() => void) => {
    this.watchers.add(watch);
    return () => void this.watchers.delete(watch);
  };

  /** Be told that events were left out, and that what is shown must be read again. */
  watchGaps(watch: () => void): () => void {
    this.gapWatchers.add(watch);
    return () => void this.gapWatchers.delete(watch);
  }

  private async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      this.setStatus("connecting");
      let reason = "the server ended the stream";
      try {
        await this.readStream(signal, () => {
          failures = 0;
          this.setStatus("live");
        });
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
      }
      if (signal.aborted) return;
      failures += 1;
      this.setStatus("waiting", reason);
      await this.pause(Math.min(250 * 2 ** (failures - 1), SLOWEST_RETRY_MS), signal);
    }
  }

  private async readStream(signal: AbortSignal, onOpen: () => void): Promise<void> {
    const silence = new AbortController();
    let timer = 0;
    const heard = (): void => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => silence.abort(new Error("the server was silent for a minute")), SILENT_MS);
    };
    heard();
    const resumed = this.lastId !== "";
    const query = resumed ? `?after=${encodeURIComponent(this.lastId)}` : "";
    try {
      const response = await fetch(this.address + query, {
        headers: { accept: "text/event-stream" },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (response.status === 400 || response.status === 410 || response.status === 422) {
        this.lastId = ""; // the database is another one: begin anew, and read everything again
        this.reportGap();
      }
      if (!response.ok || response.body === null) throw new Error(`the server answered ${response.status}`);
      if (!resumed) this.reportGap(); // what happened before the stream began is in no event
      onOpen();
      const parser = createParser({
        onComment: (comment) => {
          if (comment.includes("missed")) this.hasGap = true;
        },
        onEvent: ({ id, data }) => {
          if (id !== undefined) this.lastId = id;
          this.enqueue(data);
        },
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        heard();
        parser.feed(value);
      }
    } finally {
      window.clearTimeout(timer);
    }
  }

  private enqueue(data: string): void {
    let event: LiveEvent;
    try {
      event = JSON.parse(data) as LiveEvent;
    } catch {
      return; // not one of ours
    }
    if (this.queue.length >= MOST_PENDING) {
      this.queue = this.queue.filter((kept) => kept.type !== "message.delta");
      if (this.queue.length >= MOST_PENDING) this.queue = [];
      this.hasGap = true;
    }
    this.queue.push(event);
    if (!this.handing) {
      this.handing = true;
      nextFrame(this.handOn);
    }
  }

  private readonly handOn = (): void => {
    const batch = this.queue.splice(0, MOST_OF_A_FRAME);
    for (const take of this.takers) take(batch);
    if (this.queue.length > 0) {
      nextFrame(this.handOn);
    } else {
      this.handing = false;
      if (this.hasGap) this.reportGap();
    }
    const state = this.status.state;
    if (this.queue.length >= BEHIND && state === "live") this.setStatus("behind");
    else if (this.queue.length === 0 && state === "behind") this.setStatus("live");
  };

  private reportGap(): void {
    this.hasGap = false;
    for (const watch of this.gapWatchers) watch();
  }

  private setStatus(state: LiveState, reason = ""): void {
    this.status = { state, pending: this.queue.length, reason };
    for (const watch of this.watchers) watch();
  }

  private pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        window.clearTimeout(timer);
        window.removeEventListener("online", end);
        signal.removeEventListener("abort", end);
        this.wake = () => undefined;
        resolve();
      };
      const timer = window.setTimeout(end, milliseconds);
      window.addEventListener("online", end);
      signal.addEventListener("abort", end);
      this.wake = end;
    });
  }
}

/** The next frame; a page in the background has none, and gets a timer. */
function nextFrame(callback: () => void): void {
  if (document.visibilityState === "visible") {
    let called = false;
    const once = (): void => {
      if (called) return;
      called = true;
      callback();
    };
    requestAnimationFrame(once);
    window.setTimeout(once, 250); // the page was hidden before the frame came
  } else {
    window.setTimeout(callback, 100);
  }
}
