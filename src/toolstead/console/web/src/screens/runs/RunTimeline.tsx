import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, type ReactNode } from "react";
import { Link } from "wouter";

import { firstLine, formatDuration } from "../../ui/format";
import { useNow } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { buildTree, type Run } from "./tree";

const NONE: ReadonlySet<string> = new Set();
const ROW = 30;

/** When each run of the tree waited and worked, on one scale. */
export function RunTimeline({ runs, current }: { runs: readonly Run[]; current: string }): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => buildTree(runs, NONE), [runs]);
  const isOpen = runs.some((run) => run.endedAt === null);
  const now = useNow(isOpen ? 1000 : 3_600_000) / 1000;
  const begin = Math.min(...runs.map((run) => run.createdAt));
  const end = Math.max(begin + 0.001, ...runs.map((run) => run.endedAt ?? now));
  const list = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 10 });
  const percent = (at: number): number => ((at - begin) / (end - begin)) * 100;
  return (
    <div className="stack tight">
      <div className="timeline-scale soft small number">
        <span>0</span>
        <span>{formatDuration(((end - begin) * 1000) / 2)}</span>
        <span>{formatDuration((end - begin) * 1000)}</span>
      </div>
      <div className="tree" ref={box} tabIndex={0} aria-label="Timeline" role="list">
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {list.getVirtualItems().map((place) => {
            const row = rows[place.index];
            if (!row) return null;
            const { run, depth } = row;
            const started = run.startedAt ?? run.endedAt ?? now;
            const ended = run.endedAt ?? now;
            return (
              <div key={place.key} role="listitem" className="timeline-row" style={{ transform: `translateY(${place.start}px)` }}>
                <Link href={`/runs/${encodeURIComponent(run.id)}`} className="timeline-name truncate" aria-current={run.id === current ? "true" : undefined} style={{ paddingLeft: `${Math.min(depth, 8) * 0.9}rem` }}>
                  {run.agent}: {firstLine(run.prompt, 60)}
                </Link>
                <span className="timeline-lane" title={`${run.agent}: ${run.status}, ${formatDuration((ended - started) * 1000)}`}>
                  <span className="timeline-wait" style={{ left: `${percent(run.createdAt)}%`, width: `${Math.max(percent(started) - percent(run.createdAt), 0)}%` }} />
                  <span className={`timeline-work ${run.status}`} style={{ left: `${percent(started)}%`, width: `${Math.max(percent(ended) - percent(started), 0.3)}%` }} />
                </span>
                <span className="timeline-state">
                  <Status of={run.status} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
