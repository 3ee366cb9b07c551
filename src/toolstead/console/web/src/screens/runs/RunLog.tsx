import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState, type ReactNode } from "react";
import { Link } from "wouter";

import { readLog } from "../../api/log";
import type { LiveEvent } from "../../live/connection";
import { useEvents, useGaps } from "../../live/LiveProvider";
import { formatClock } from "../../ui/format";
import { Button, Empty, ErrorNotice, Json, Loading } from "../../ui/parts";

const PAGE = 300;

/** What happened in a run, or in all runs below it, from its beginning. */
export function RunLog({ run, hasTree }: { run: string; hasTree: boolean }): ReactNode {
  const [whole, setWhole] = useState(hasTree);
  const place = whole ? { root: run } : { run };
  const [fresh, setFresh] = useState<readonly LiveEvent[]>([]);
  const { data, error, isPending, hasNextPage, fetchNextPage, isFetchingNextPage, refetch } = useInfiniteQuery({
    queryKey: ["events", "run", run, whole],
    queryFn: ({ pageParam }) => readLog({ ...place, after: pageParam, limit: String(PAGE) }),
    initialPageParam: "0",
    getNextPageParam: (last, _, asked) => (last.events.length === 0 || last.after === asked ? undefined : last.after),
    staleTime: 0,
  });
  const last = data?.pages.at(-1);
  useEffect(() => {
    if (last && last.events.length < PAGE && hasNextPage && !isFetchingNextPage) void fetchNextPage(); // it was nearly the end
  }, [last, hasNextPage, isFetchingNextPage, fetchNextPage]);
  useGaps(() => {
    setFresh([]);
    void refetch();
  });
  useEvents((batch) => {
    const ours = batch.filter((event) => event.runId === run && event.type !== "message.delta" && event.id);
    if (ours.length > 0) setFresh((old) => [...old, ...ours]);
  });
  const events = useMemo(() => {
    const stored = data?.pages.flatMap((page) => page.events).filter((event) => event.type !== "message.delta") ?? [];
    const end = stored.at(-1)?.id ?? "";
    return hasNextPage ? stored : [...stored, ...fresh.filter((event) => (event.id ?? "") > end)];
  }, [data, fresh, hasNextPage]);
  return (
    <div className="stack">
      {hasTree && (
        <label className="row">
          <input type="checkbox" checked={whole} onChange={(event) => setWhole(event.target.checked)} /> with the runs below it
        </label>
      )}
      {error && <ErrorNotice error={error} retry={() => void refetch()} />}
      {isPending && <Loading what="The events" />}
      {data && events.length === 0 && <Empty title="No event of it is stored" />}
      {events.length > 0 && (
        <ul className="list log-list">
          {events.map((event) => (
            <LogLine key={event.id} event={event} showsRun={whole} run={run} />
          ))}
        </ul>
      )}
      {hasNextPage && (
        <div>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            What came next
          </Button>
        </div>
      )}
    </div>
  );
}

function LogLine({ event, showsRun, run }: { event: LiveEvent; showsRun: boolean; run: string }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const isBad = event.type === "error" || event.type === "task.failed" || event.type === "delegate.failed" || event.data["isError"] === true;
  return (
    <li>
      <button type="button" className="list-row" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="soft number log-time">{formatClock(event.time)}</span>
        <span className={isBad ? "log-type status bad" : "log-type"}>{event.type}</span>
        <span className="grow truncate mono">{summarise(event)}</span>
      </button>
      {isOpen && (
        <div className="log-detail stack tight">
          {showsRun && event.runId && event.runId !== run && <Link href={`/runs/${encodeURIComponent(event.runId)}`}>its run</Link>}
          <Json value={event.data} />
        </div>
      )}
    </li>
  );
}

function summarise({ data }: LiveEvent): string {
  const parts = ["name", "agent", "outcome", "role", "code", "content", "text", "message", "prompt", "result", "input", "summary"].map((key) => data[key]).filter((one) => one !== undefined && one !== null && one !== "");
  return parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join("  ").replace(/\s+/g, " ").slice(0, 240);
}
