import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { firstLine, formatCost, formatDuration, formatTokens } from "../../ui/format";
import { Button, Empty, ErrorNotice, Loading } from "../../ui/parts";
import { Status } from "../../ui/Status";

export function useSteps(run: string) {
  return useInfiniteQuery({
    queryKey: ["steps", run],
    queryFn: ({ pageParam }) => take(api.GET("/api/runs/{id}/steps", { params: { path: { id: run }, query: { limit: "50", ...(pageParam ? { after: String(pageParam) } : {}) } } })),
    initialPageParam: 0,
    getNextPageParam: (last) => last.next ?? undefined,
    staleTime: 0,
  });
}

/** Each request to the model, or each turn of a runtime that asks its model itself. */
export function RunSteps({ run }: { run: string }): ReactNode {
  const { data, error, isPending, hasNextPage, fetchNextPage, isFetchingNextPage } = useSteps(run);
  if (isPending) return <Loading what="The steps" />;
  if (error) return <ErrorNotice error={error} />;
  const steps = data.pages.flatMap((page) => page.steps);
  if (steps.length === 0) return <Empty title="No step is stored"><p>A step is stored when the model is asked; old ones are deleted with the run's events.</p></Empty>;
  return (
    <div className="stack">
      <ul className="list">
        {steps.map((step) => (
          <li key={step.number}>
            <Link href={`/runs/${encodeURIComponent(run)}/steps/${step.number}`} className="list-row">
              <span className="number soft">{step.number}</span>
              <Status of={step.error ? "failed" : step.reply ? "completed" : "running"} word={step.error ? "failed" : step.reply ? "answered" : "no answer"} />
              <span className="grow truncate">{describeReply(step)}</span>
              <span className="tag">{step.model || step.kind}</span>
              <span className="soft number">
                {formatTokens(step.usage.inputTokens)} in, {formatTokens(step.usage.outputTokens)} out
                {step.usage.cost > 0 && ` · ${formatCost(step.usage.cost)}`}
              </span>
              <span className="soft number">{formatDuration(step.durationMs)}</span>
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <div>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            More steps
          </Button>
        </div>
      )}
    </div>
  );
}

export function describeReply(step: Shape<"RunStep">): string {
  if (step.error) return `${step.error.code}: ${step.error.message}`;
  const reply = step.reply ?? {};
  const calls = Array.isArray(reply["calls"]) ? (reply["calls"] as { name?: string }[]) : [];
  const said = typeof reply["text"] === "string" ? firstLine(reply["text"], 160) : "";
  return [calls.length > 0 ? `calls ${calls.map((call) => call.name).join(", ")}` : "", said].filter(Boolean).join(" · ");
}
