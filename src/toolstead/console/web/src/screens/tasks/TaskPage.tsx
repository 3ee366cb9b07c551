import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";

import { useAccess } from "../../api/access";
import { api, take, type Shape } from "../../api/client";
import { firstLine, formatCost, formatNumber, formatSize } from "../../ui/format";
import { Markdown } from "../../ui/Markdown";
import { Age, Button, Card, Code, Duration, ErrorNotice, Facts, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { stateOf, TaskRows } from "./Tasks";

type Details = Shape<"TaskDetails">;

/** A task: what was asked, each attempt with its review, the evidence, its budget and what is below it. */
export function TaskPage({ id }: { id: string }): ReactNode {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["tasks", id],
    queryFn: () => take(api.GET("/api/tasks/{id}", { params: { path: { id } } })),
  });
  const back = { to: "/tasks", name: "Tasks" };
  if (isPending) return <div className="page"><Loading what="The task" /></div>;
  if (error) return <div className="page"><PageHead title={id} back={back} /><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  return (
    <div className="page">
      <PageHead
        title={firstLine(data.prompt, 120)}
        back={back}
        about={
          <span className="row">
            <Status of={stateOf(data)} />
            <span className="tag">{data.agent}</span>
            <span className="tag">{data.mode}</span>
            <Duration from={data.createdAt} to={data.endedAt} />
            <Age at={data.createdAt} />
          </span>
        }
        actions={<TaskActions task={data} />}
      />
      {data.error &&
        (data.outcome === "cancelled" ? <p className="hint-box">{data.error.message}</p> : <ErrorNotice error={new Error(`${data.error.code}: ${data.error.message}`)} />)}
      {data.position ? <p className="hint-box">It waits for its agent; {data.position === 1 ? "it is the next" : `${data.position - 1} are before it`}.</p> : null}
      <div className="two-columns">
        <Card title="What was asked"><p className="typed">{data.prompt}</p></Card>
        <Card title="What came of it">
          {data.summary ? <Markdown text={data.summary} /> : <p className="soft">{data.outcome === null ? "Nothing yet." : "It ended without a result."}</p>}
          {data.resultSize > 0 && <WholeResult task={data} />}
        </Card>
      </div>
      <Attempts task={data} />
      <Evidence evidence={data.evidence} />
      <Budget task={data} />
      {data.children.length > 0 && (
        <section className="stack">
          <h2>Handed on</h2>
          <TaskRows tasks={data.children} />
        </section>
      )}
      <p className="row soft">
        <Link href={`/runs/${encodeURIComponent(data.rootRunId)}`}>the whole tree</Link>
        <Link href={`/chat/${encodeURIComponent(data.threadId)}`}>its conversation</Link>
        <Link href={`/chat/${encodeURIComponent(data.parentThreadId)}`}>who asked</Link>
        {data.parentTaskId && <Link href={`/tasks/${encodeURIComponent(data.parentTaskId)}`}>the task above</Link>}
        {data.retryOf && <Link href={`/tasks/${encodeURIComponent(data.retryOf)}`}>what it retries</Link>}
      </p>
    </div>
  );
}

function TaskActions({ task }: { task: Details }): ReactNode {
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const [, go] = useLocation();
  const refresh = (): void => {
    void queries.invalidateQueries({ queryKey: ["tasks"] });
    void queries.invalidateQueries({ queryKey: ["runs"] });
  };
  const cancel = useMutation({ mutationFn: () => take(api.POST("/api/tasks/{id}/cancel", { params: { path: { id: task.id } } })), onSettled: refresh });
  const retry = useMutation({
    mutationFn: () => take(api.POST("/api/tasks/{id}/retry", { params: { path: { id: task.id } } })),
    onSuccess: (made) => go(`/tasks/${encodeURIComponent(made.id)}`),
    onSettled: refresh,
  });
  return (
    <>
      {task.outcome === null ? (
        <Button kind="danger" icon="stop" disabled={!mayWrite || cancel.isPending} onClick={() => cancel.mutate()}>
          Cancel, with all below
        </Button>
      ) : (
        <Button icon="retry" disabled={!mayWrite || retry.isPending} onClick={() => retry.mutate()}>
          Start its work again
        </Button>
      )}
      {cancel.error && <ErrorNotice error={cancel.error} />}
      {retry.error && <ErrorNotice error={retry.error} />}
    </>
  );
}

function WholeResult({ task }: { task: Details }): ReactNode {
  const [asked, setAsked] = useState(false);
  const { data, error, isFetching } = useQuery({
    queryKey: ["tasks", task.id, "result"],
    queryFn: () => take(api.GET("/api/tasks/{id}/result", { params: { path: { id: task.id }, query: {} } })),
    enabled: asked,
  });
  if (error) return <ErrorNotice error={error} />;
  if (data) {
    return (
      <div className="stack tight">
        <h3>The whole result</h3>
        <Code text={data.text} wrap />
        {data.next !== undefined && <p className="soft">The first {formatSize(data.text.length)} of {formatSize(data.size)}.</p>}
      </div>
    );
  }
  return (
    <p>
      <Button small disabled={isFetching} onClick={() => setAsked(true)}>
        The whole result ({formatSize(task.resultSize)})
      </Button>
    </p>
  );
}

function Attempts({ task }: { task: Details }): ReactNode {
  if (task.attempts.length === 0) return null;
  return (
    <section className="stack">
      <h2>Attempts: {task.attempts.length} of at most {task.maxAttempts}</h2>
      <ol className="plain stack">
        {task.attempts.map((attempt) => (
          <li key={attempt.number} className="card">
            <div className="card-head">
              <Status
                of={attempt.accepted === true ? "completed" : attempt.accepted === false ? "rejected" : attempt.endedAt ? "completed_unverified" : "running"}
                word={attempt.accepted === true ? "accepted" : attempt.accepted === false ? "rejected" : attempt.endedAt ? "not reviewed" : undefined}
              />
              <strong>attempt {attempt.number}</strong>
              <span className="grow" />
              <Link href={`/runs/${encodeURIComponent(attempt.runId)}`}>its run</Link>
            </div>
            {attempt.feedback && <div className="card-body"><Markdown text={attempt.feedback} /></div>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Evidence({ evidence }: { evidence: Details["evidence"] }): ReactNode {
  if (!evidence || (evidence.calls.length === 0 && evidence.gates.length === 0)) return null;
  return (
    <section className="stack">
      <h2>Evidence</h2>
      {evidence.gates.map((gate, index) => {
        const held = gate as Readonly<Record<string, unknown>>;
        const passed = held["passed"] === true || held["isAccepted"] === true;
        return (
          <details key={index} className="card evidence">
            <summary className="row">
              <Status of={passed ? "completed" : "failed"} word={passed ? "gate passed" : "gate failed"} /> <code>{String(held["name"] ?? held["command"] ?? held["kind"] ?? "gate")}</code>
            </summary>
            <Code text={JSON.stringify(gate, null, 2)} wrap />
          </details>
        );
      })}
      {evidence.calls.map((call, index) => (
        <details key={index} className="card evidence">
          <summary className="row">
            <Status of={call.isError ? "failed" : "completed"} word={call.isError ? "failed" : "called"} /> <strong className="mono">{call.name}</strong>{" "}
            <span className="soft truncate grow">{firstLine(call.content, 100)}</span>
          </summary>
          <Code text={call.content} wrap />
        </details>
      ))}
    </section>
  );
}

function Budget({ task }: { task: Details }): ReactNode {
  const { budget } = task;
  if (!budget) return null;
  return (
    <section className="stack">
      <h2>Budget of the whole tree</h2>
      <Meter name="Tokens" spent={budget.spentTokens} reserved={budget.reservedTokens} most={budget.tokenBudget} write={formatNumber} />
      <Meter name="Cost" spent={budget.spentCost} reserved={budget.reservedCost} most={budget.costBudget} write={formatCost} />
      <Facts of={[["Of this task", `${formatNumber(task.usage.inputTokens + task.usage.outputTokens)} tokens, ${formatCost(task.usage.cost)}`]]} />
    </section>
  );
}

function Meter(props: { name: string; spent: number; reserved: number; most: number; write: (value: number) => string }): ReactNode {
  const { name, spent, reserved, most, write } = props;
  const left = Math.max(most - spent - reserved, 0);
  return (
    <div className="meter">
      <span>{name}</span>
      <svg className="meter-bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${name}: ${write(spent)} spent, ${write(reserved)} reserved, ${write(left)} left of ${write(most)}`}>
        <rect width="100" height="6" className="meter-left" />
        <rect width={most ? Math.min((spent / most) * 100, 100) : 0} height="6" className="meter-spent" />
        <rect x={most ? (spent / most) * 100 : 0} width={most ? Math.min((reserved / most) * 100, 100) : 0} height="6" className="meter-reserved" />
      </svg>
      <span className="soft number">
        {write(spent)} spent{reserved > 0 && `, ${write(reserved)} reserved`}, {write(left)} left
      </span>
    </div>
  );
}
