import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useLocation } from "wouter";

import { firstLine, formatCost, formatTokens } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Duration } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { buildTree, type Run } from "./tree";

const ROW = 34;

/** The tree of runs, live. Arrow keys move in it: left and right fold and unfold, Enter opens. */
export function RunTree({ runs, current, wasCut }: { runs: readonly Run[]; current: string; wasCut: boolean }): ReactNode {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState(current);
  const [, go] = useLocation();
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => buildTree(runs, folded), [runs, folded]);
  const list = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 10, getItemKey: (index) => rows[index]?.run.id ?? index });
  const fold = (id: string, isFolded: boolean): void =>
    setFolded((old) => {
      const next = new Set(old);
      if (isFolded) next.add(id);
      else next.delete(id);
      return next;
    });
  const onKey = (event: KeyboardEvent): void => {
    const index = Math.max(rows.findIndex((row) => row.run.id === active), 0);
    const row = rows[index];
    const move = (to: number): void => {
      const next = rows[Math.min(Math.max(to, 0), rows.length - 1)];
      if (!next) return;
      setActive(next.run.id);
      list.scrollToIndex(rows.indexOf(next));
    };
    switch (event.key) {
      case "ArrowDown": move(index + 1); break;
      case "ArrowUp": move(index - 1); break;
      case "Home": move(0); break;
      case "End": move(rows.length - 1); break;
      case "ArrowRight": if (row) fold(row.run.id, false); break;
      case "ArrowLeft":
        if (row && row.children > 0 && !folded.has(row.run.id)) fold(row.run.id, true);
        else move(rows.findIndex((one) => one.run.id === row?.run.parentRunId));
        break;
      case "Enter": go(`/runs/${encodeURIComponent(active)}`); break;
      default: return;
    }
    event.preventDefault();
  };
  return (
    <div className="stack tight">
      {wasCut && <p className="hint-box">Only the first 2,000 runs of this tree are shown.</p>}
      <div className="tree" ref={box} role="tree" aria-label="Runs" tabIndex={0} aria-activedescendant={`run-${active}`} onKeyDown={onKey}>
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {list.getVirtualItems().map((place) => {
            const row = rows[place.index];
            if (!row) return null;
            const { run } = row;
            return (
              <div
                key={place.key}
                id={`run-${run.id}`}
                role="treeitem"
                aria-level={row.depth + 1}
                aria-expanded={row.children > 0 ? !folded.has(run.id) : undefined}
                aria-selected={run.id === current}
                className={`tree-row${run.id === active ? " active" : ""}`}
                style={{ transform: `translateY(${place.start}px)`, paddingLeft: `${0.6 + Math.min(row.depth, 12) * 1.25}rem` }}
                onClick={() => {
                  setActive(run.id);
                  go(`/runs/${encodeURIComponent(run.id)}`);
                }}
              >
                <span
                  className="tree-fold"
                  aria-hidden="true"
                  onClick={(event) => {
                    event.stopPropagation();
                    if (row.children > 0) fold(run.id, !folded.has(run.id));
                  }}
                >
                  {row.children > 0 && <Icon name={folded.has(run.id) ? "right" : "down"} size={12} />}
                </span>
                <Status of={run.status} />
                <strong>{run.agent}</strong>
                {run.attempt > 1 && <span className="tag">attempt {run.attempt}</span>}
                <span className="grow truncate soft">{firstLine(run.prompt)}</span>
                <span className="soft number tree-figures">
                  {formatTokens(row.tokens)}
                  {row.cost > 0 && ` · ${formatCost(row.cost)}`}
                </span>
                <span className="soft tree-time">
                  <Duration from={run.startedAt} to={run.endedAt} />
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
