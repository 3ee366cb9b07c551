import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { count, firstLine, formatCost, formatTokens } from "../../ui/format";
import { Markdown } from "../../ui/Markdown";
import { Age, Button, Duration, ErrorNotice, Facts, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { Tabs } from "../../ui/Tabs";
import { say } from "../../ui/toast";
import { RunLog } from "./RunLog";
import { RunSteps } from "./RunSteps";
import { RunTimeline } from "./RunTimeline";
import { RunTree } from "./RunTree";
import { buildTree, type Run } from "./tree";

const NONE: ReadonlySet<string> = new Set();

/** A run: what was asked, what came of it, and the tree it belongs to as tree, timeline and log. */
export function RunPage({ run: id }: { run: string }): ReactNode {
  const [tab, setTab] = useState("tree");
  const about = useQuery({
    queryKey: ["runs", id],
    queryFn: () => take(api.GET("/api/runs/{id}", { params: { path: { id } } })),
  });
  const tree = useQuery({
    queryKey: ["runs", "tree", id],
    queryFn: () => take(api.GET("/api/runs", { params: { query: { root: id } } })),
  });
  const runs = tree.data?.runs ?? [];
  const run = runs.find((one) => one.id === id);
  if (about.isPending || tree.isPending) return <div className="page"><Loading what="The run" /></div>;
  if (about.error || !about.data) {
    return (
      <div className="page">
        <PageHead title={id} back={{ to: "/runs", name: "Runs" }} />
        <ErrorNotice error={about.error} retry={() => void about.refetch()} />
      </div>
    );
  }
  const root = run?.rootRunId ?? id;
  return (
    <div className="page">
      <PageHead
        title={firstLine(run?.prompt ?? "", 120) || id}
        back={{ to: root === id ? "/runs" : `/runs/${encodeURIComponent(root)}`, name: root === id ? "Runs" : "The run at the top" }}
        about={<RunState run={{ ...about.data, prompt: run?.prompt ?? "" } as Run} />}
        actions={<RunActions run={{ ...run, ...about.data } as Run} />}
      />
      {about.data.error && <ErrorNotice error={new Error(`${about.data.error.code}: ${about.data.error.message}`)} />}
      {run?.parentRunId && (
        <p className="soft">
          Started by <Link href={`/runs/${encodeURIComponent(run.parentRunId)}`}>another run</Link>
          {run.attempt > 1 && <>, attempt {run.attempt}</>}
        </p>
      )}
      <Tabs
        label="About this run"
        selected={tab}
        onSelect={setTab}
        items={[
          { id: "tree", name: runs.length > 1 ? `Tree (${runs.length})` : "Tree", panel: () => <RunTree runs={runs} current={id} wasCut={tree.data?.cut ?? false} /> },
          { id: "timeline", name: "Timeline", panel: () => <RunTimeline runs={runs} current={id} /> },
          { id: "log", name: "Log", panel: () => <RunLog run={id} hasTree={runs.length > 1} /> },
          { id: "steps", name: "Steps", panel: () => <RunSteps run={id} /> },
          { id: "answer", name: "Answer", panel: () => <Answer run={about.data} /> },
        ]}
      />
      <Sums runs={runs} />
    </div>
  );
}

function RunState({ run }: { run: Run }): ReactNode {
  return (
    <span className="row">
      <Status of={run.status} />
      <span className="tag">{run.agent}</span>
      <span className="tag">{run.runtime}</span>
      {run.model && <span className="tag">{run.model}</span>}
      <span>
        <Duration from={run.startedAt} to={run.endedAt} />
      </span>
      <Age at={run.startedAt} />
    </span>
  );
}

function RunActions({ run }: { run: Run }): ReactNode {
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const isOpen = run.status === "running" || run.status === "queued";
  const refresh = (): void => void queries.invalidateQueries({ queryKey: ["runs"] });
  const stop = useMutation({
    mutationFn: async () => {
      // The branch below a task ends with the task; a run without one ends what it has started itself.
      if (run.taskId) return void (await take(api.POST("/api/tasks/{id}/cancel", { params: { path: { id: run.taskId } } })));
      await take(api.POST("/api/runs/{id}/cancel", { params: { path: { id: run.id } } }));
    },
    onSuccess: () => say("Stopped, with everything below it."),
    onSettled: refresh,
  });
  const retry = useMutation({
    mutationFn: async () => {
      if (run.taskId) await take(api.POST("/api/tasks/{id}/retry", { params: { path: { id: run.taskId } } }));
    },
    onSuccess: () => say("Its work is started again, as a new task."),
    onSettled: refresh,
  });
  return (
    <>
      {isOpen && (
        <Button kind="danger" icon="stop" disabled={!mayWrite || stop.isPending} onClick={() => stop.mutate()}>
          Stop this branch
        </Button>
      )}
      {!isOpen && run.taskId && run.status !== "completed" && (
        <Button icon="retry" disabled={!mayWrite || retry.isPending} onClick={() => retry.mutate()}>
          Retry
        </Button>
      )}
      <Link className="button" href={`/chat/${encodeURIComponent(run.threadId)}`}>
        Conversation
      </Link>
      {run.taskId && (
        <Link className="button" href={`/tasks/${encodeURIComponent(run.taskId)}`}>
          Task
        </Link>
      )}
      {stop.error && <ErrorNotice error={stop.error} />}
      {retry.error && <ErrorNotice error={retry.error} />}
    </>
  );
}

function Answer({ run }: { run: { result: string | null; status: string } }): ReactNode {
  if (run.result) return <Markdown text={run.result} />;
  return <p className="soft">{run.status === "running" || run.status === "queued" ? "It has not ended yet." : "It ended without an answer."}</p>;
}

function Sums({ runs }: { runs: readonly Run[] }): ReactNode {
  if (runs.length === 0) return null;
  const top = buildTree(runs, NONE)[0];
  if (!top) return null;
  return (
    <Facts
      of={[
        ["Runs", count(runs.length, "run")],
        ["Tokens", formatTokens(top.tokens)],
        ["Cost", formatCost(top.cost)],
      ]}
    />
  );
}
