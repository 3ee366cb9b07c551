import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { api, take } from "../../api/client";
import { Button, Card, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { useFilter } from "../../ui/useFilter";
import { RunRows } from "../home/Home";

const PAGE = 50;
const STATES = ["running", "queued", "completed", "failed", "timeout", "cancelled", "stopped", "lost"] as const;

export function RunList(): ReactNode {
  const [filter, change] = useFilter();
  const status = filter.get("status") ?? "";
  const all = filter.get("all") === "true";
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["runs", "list", status, all],
    queryFn: ({ pageParam }) =>
      take(
        api.GET("/api/runs", {
          params: { query: { limit: String(PAGE), ...(all ? {} : { roots: "true" }), ...(status ? { status } : {}), ...(pageParam ? { before: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next,
  });
  const runs = data?.pages.flatMap((page) => page.runs) ?? [];
  return (
    <div className="page">
      <PageHead title="Runs" about="Each answer of an agent is a run; those that it starts are below it." />
      <div className="row">
        <select className="input runs-filter" aria-label="Status" value={status} onChange={(event) => change("status", event.target.value)}>
          <option value="">every status</option>
          {STATES.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <label className="row">
          <input type="checkbox" checked={all} onChange={(event) => change("all", event.target.checked ? "true" : "")} /> also those that other runs started
        </label>
      </div>
      {error && <ErrorNotice error={error} retry={() => void refetch()} />}
      {isPending && <Loading what="The runs" />}
      {data && runs.length === 0 && (
        <Empty title={status ? `No run is ${status}` : "Nothing has run yet"}>
          <Link href="/chat">Ask an agent</Link>
        </Empty>
      )}
      {runs.length > 0 && (
        <Card>
          <RunRows runs={runs} />
        </Card>
      )}
      {hasNextPage && (
        <div>
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Older runs
          </Button>
        </div>
      )}
    </div>
  );
}
