import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { readLog } from "../../api/log";
import { firstLine, formatDuration } from "../../ui/format";
import { Age, Empty, ErrorNotice, Loading } from "../../ui/parts";
import { Status } from "../../ui/Status";

const CALLS = 50;

/** The last calls that were stored: those of runs, and of others those that failed. */
export function ToolHistory({ name }: { name: string }): ReactNode {
  const { data, error, isPending } = useQuery({
    queryKey: ["events", "tool", name],
    queryFn: () => readLog({ tool: name, type: "tool_result", limit: String(CALLS) }),
    staleTime: 0,
  });
  if (isPending) return <Loading what="The calls" />;
  if (error) return <ErrorNotice error={error} />;
  if (data.events.length === 0) {
    return (
      <Empty title="No call of it is stored">
        <p>Calls of agents are stored; calls outside a run only when they fail.</p>
      </Empty>
    );
  }
  return (
    <ul className="list">
      {[...data.events].reverse().map((event) => (
        <li key={event.id} className="list-row">
          <Status of={event.data["isError"] ? "failed" : "completed"} />
          <span className="grow truncate mono">{firstLine(String(event.data["content"] ?? ""))}</span>
          <span className="soft number">{formatDuration(Number(event.data["durationMs"] ?? 0))}</span>
          {event.runId && <Link href={`/runs/${encodeURIComponent(event.runId)}`}>run</Link>}
          <span className="soft">
            <Age at={event.time} />
          </span>
        </li>
      ))}
    </ul>
  );
}
