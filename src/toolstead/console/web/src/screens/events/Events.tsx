import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Link } from "wouter";

import type { Shape } from "../../api/client";
import { readLog, type LogQuery } from "../../api/log";
import type { LiveEvent } from "../../live/connection";
import { useEvents, useGaps } from "../../live/LiveProvider";
import { count, formatClock, formatMoment } from "../../ui/format";
import { Button, ErrorNotice, Json, Loading, PageHead } from "../../ui/parts";
import { useFilter } from "../../ui/useFilter";
import "./events.css";

const PAGE = 500;
const MOST_KEPT = 10_000;
const ROW = 28;

export default function Events(): ReactNode {
  const [filter, change] = useFilter();
  const type = filter.get("type") ?? "";
  const place = filter.get("in") ?? "";
  const [words, setWords] = useState("");
  const log = useEventLog(type, place);
  const [chosen, setChosen] = useState<LiveEvent | null>(null);
  const shown = useMemo(() => {
    const sought = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (sought.length === 0) return log.events;
    return log.events.filter((event) => {
      const text = searchable(event);
      return sought.every((word) => text.includes(word));
    });
  }, [log.events, words]);
  return (
    <div className="page full events">
      <PageHead
        title="Events"
        about="Everything that happens, in the order in which it was stored."
        actions={
          <>
            <Button icon={log.isPaused ? "play" : "pause"} aria-pressed={log.isPaused} onClick={() => log.setPaused(!log.isPaused)}>
              {log.isPaused ? (log.waiting ? `Go on (${log.waiting} new)` : "Go on") : "Pause"}
            </Button>
            <Button icon="docs" disabled={shown.length === 0} onClick={() => download(shown)}>
              Download these
            </Button>
          </>
        }
      />
      <div className="row">
        <input type="search" className="input events-search" aria-label="Search the events that are loaded" placeholder="Search what is loaded" value={words} onChange={(event) => setWords(event.target.value)} />
        <input className="input events-search" aria-label="Types, with commas" placeholder="Types, such as tool_use,tool_result" list="event-types" value={type} onChange={(event) => change("type", event.target.value.trim())} />
        <input className="input events-search" aria-label="Thread, run or task" placeholder="Thread, run or task id" value={place} onChange={(event) => change("in", event.target.value.trim())} />
        <datalist id="event-types">
          {TYPES.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <span className="soft small" role="status">
          {count(shown.length, "event")}
          {log.events.length !== shown.length && ` of ${log.events.length}`}
        </span>
      </div>
      {Boolean(log.error) && <ErrorNotice error={log.error} />}
      {log.isLoading ? <Loading what="The events" /> : <EventRows events={shown} follows={!log.isPaused} chosen={chosen} onChoose={setChosen} onOlder={log.hasOlder ? log.loadOlder : undefined} />}
      {chosen && (
        <section className="card events-detail" aria-label="The chosen event">
          <div className="card-head">
            <h2 className="mono grow">{chosen.type}</h2>
            <span className="soft small">{formatMoment(chosen.time)}</span>
            {chosen.threadId && <Link href={`/chat/${encodeURIComponent(chosen.threadId)}`}>thread</Link>}
            {chosen.runId && <Link href={`/runs/${encodeURIComponent(chosen.runId)}`}>run</Link>}
            {chosen.taskId && <Link href={`/tasks/${encodeURIComponent(chosen.taskId)}`}>task</Link>}
            <Button small kind="quiet" icon="close" label="Close" onClick={() => setChosen(null)} />
          </div>
          <div className="card-body">
            <Json value={chosen} />
          </div>
        </section>
      )}
    </div>
  );
}

const searched = new WeakMap<LiveEvent, string>();

/** An event as the search reads it, written once: ten thousand are searched with each batch that comes. */
function searchable(event: LiveEvent): string {
  let text = searched.get(event);
  if (text === undefined) {
    text = JSON.stringify(event).toLowerCase();
    searched.set(event, text);
  }
  return text;
}

const TYPES = [
  "message", "tool_use", "tool_result", "run.started", "completed", "error", "cancelled", "plan.updated", "usage", "thinking", "delegate.started", "delegate.completed", "delegate.failed",
  "task.created", "task.checkin", "task.evaluated", "task.completed", "task.failed", "approval.requested", "approval.resolved", "tools.changed", "plugin.status",
];

interface EventLog {
  events: readonly LiveEvent[];
  isLoading: boolean;
  error: unknown;
  hasOlder: boolean;
  loadOlder: () => void;
  isPaused: boolean;
  setPaused: (paused: boolean) => void;
  waiting: number;
}

/** The last stored events, and those that come; deltas are left out, the messages have their text. */
function useEventLog(type: string, place: string): EventLog {
  const [events, setEvents] = useState<readonly LiveEvent[]>([]);
  const [isPaused, setPaused] = useState(false);
  const held = useRef<LiveEvent[]>([]);
  const [waiting, setWaiting] = useState(0);
  const [before, setBefore] = useState<string | undefined>();
  const types = useMemo(() => new Set(type.split(",").map((one) => one.trim()).filter(Boolean)), [type]);
  const query = { ...(type ? { type } : {}), ...placeQuery(place), limit: String(PAGE) };
  const first = useQuery({
    queryKey: ["events", "log", type, place],
    queryFn: ({ signal }) => readShown(query, signal),
    staleTime: 0,
    gcTime: 0,
  });
  useEffect(() => {
    if (!first.data) return;
    setEvents(first.data.events);
    setBefore(first.data.before);
    held.current = [];
    setWaiting(0);
  }, [first.data]);
  useGaps(() => void first.refetch());
  useEvents((batch) => {
    const ours = batch.filter((event) => isShown(event) && (types.size === 0 || types.has(event.type)) && isIn(event, place));
    if (ours.length === 0 || !first.data) return;
    if (isPaused) {
      held.current = [...held.current, ...ours].slice(-MOST_KEPT);
      setWaiting(held.current.length);
    } else {
      setEvents((old) => append(old, ours));
    }
  });
  const pause = (paused: boolean): void => {
    setPaused(paused);
    if (paused) return;
    const ours = held.current;
    held.current = [];
    setWaiting(0);
    setEvents((old) => append(old, ours));
  };
  const loadOlder = (): void => {
    if (!before) return;
    // What was dropped to make room is read again.
    const from = events.length < MOST_KEPT ? before : (events.find((event) => event.id)?.id ?? before);
    setBefore(undefined);
    readShown({ ...query, before: from }).then(
      (page) => {
        setEvents((old) => [...page.events, ...old]);
        setBefore(page.before);
      },
      () => setBefore(from),
    );
  };
  return { events, isLoading: first.isPending, error: first.error, hasOlder: before !== undefined, loadOlder, isPaused, setPaused: pause, waiting };
}

/** Pieces of a text are left out: the message has all of it. */
const isShown = (event: LiveEvent): boolean => event.type !== "message.delta" && event.type !== "delegate.delta";

const MOST_LOOKS = 20;

/** A page of events that are shown: one of pieces alone is followed by the next. */
async function readShown(query: LogQuery, signal?: AbortSignal): Promise<Shape<"EventLogPage">> {
  let page = await readLog(query, signal);
  for (let looks = 1; page.before && !page.events.some(isShown) && looks < MOST_LOOKS; looks += 1) {
    page = await readLog({ ...query, before: page.before }, signal);
  }
  return { ...page, events: page.events.filter(isShown) };
}

function append(old: readonly LiveEvent[], more: readonly LiveEvent[]): readonly LiveEvent[] {
  const last = old.findLast((event) => event.id)?.id ?? "";
  return [...old, ...more.filter((event) => !event.id || event.id > last)].slice(-Math.max(MOST_KEPT, old.length));
}

function placeQuery(place: string): Record<string, string> {
  if (!place) return {};
  const kind = place.startsWith("run") ? "run" : place.startsWith("task") ? "task" : "thread";
  return { [kind]: place };
}

const isIn = (event: LiveEvent, place: string): boolean => !place || event.threadId === place || event.runId === place || event.taskId === place;

function EventRows(props: {
  events: readonly LiveEvent[];
  follows: boolean;
  chosen: LiveEvent | null;
  onChoose: (event: LiveEvent) => void;
  onOlder: (() => void) | undefined;
}): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const rows = useVirtualizer({ count: props.events.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 12 });
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current && props.follows) box.current.scrollTop = box.current.scrollHeight;
  }, [props.events, props.follows]);
  return (
    <div
      className="event-rows"
      ref={box}
      tabIndex={0}
      role="log"
      aria-label="Events"
      aria-live="off"
      onScroll={({ currentTarget: view }) => {
        isAtEnd.current = view.scrollHeight - view.scrollTop - view.clientHeight < 60;
      }}
    >
      {props.onOlder && (
        <Button small onClick={props.onOlder}>
          Older events
        </Button>
      )}
      <div style={{ height: rows.getTotalSize(), position: "relative" }}>
        {rows.getVirtualItems().map((row) => {
          const event = props.events[row.index];
          return event ? (
            <button
              type="button"
              key={row.key}
              className="event-row"
              aria-pressed={event === props.chosen}
              style={{ transform: `translateY(${row.start}px)` }}
              onClick={() => props.onChoose(event)}
            >
              <span className="soft number">{formatClock(event.time)}</span>
              <span className={`event-type ${toneOf(event)}`}>{event.type}</span>
              <span className="truncate grow mono">{describe(event)}</span>
            </button>
          ) : null;
        })}
      </div>
    </div>
  );
}

function toneOf(event: LiveEvent): string {
  if (event.type === "error" || event.type === "task.failed" || event.type === "delegate.failed" || event.data["isError"] === true) return "bad";
  if (event.type === "approval.requested") return "warn";
  return "";
}

function describe(event: LiveEvent): string {
  const { data } = event;
  const named = [data["name"], data["agent"], data["role"], data["outcome"], data["code"]].filter((one) => typeof one === "string").join(" ");
  const said = data["content"] ?? data["text"] ?? data["message"] ?? data["prompt"] ?? data["result"] ?? data["input"] ?? (named ? "" : data);
  return `${named} ${typeof said === "string" ? said : JSON.stringify(said)}`.replace(/\s+/g, " ").slice(0, 300);
}

function download(events: readonly LiveEvent[]): void {
  const address = URL.createObjectURL(new Blob(events.map((event) => `${JSON.stringify(event)}\n`), { type: "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "toolstead-events.jsonl";
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
