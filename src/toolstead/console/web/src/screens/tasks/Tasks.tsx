import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { firstLine, formatCost, formatTokens } from "../../ui/format";
import { Age, Duration, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { TaskPage } from "./TaskPage";
import "./tasks.css";

export default function Tasks(): ReactNode {
  const [, params] = useRoute("/tasks/:task");
  return params ? <TaskPage key={params.task} id={decodeURIComponent(params.task)} /> : <TaskList />;
}

function TaskList(): ReactNode {
  const [which, setWhich] = useState<"" | "true" | "false">("");
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["tasks", "list", which],
    queryFn: () => take(api.GET("/api/tasks", { params: { query: { limit: "200", ...(which ? { open: which } : {}) } } })),
  });
  return (
    <div className="page">
      <PageHead title="Tasks and reviews" about="Work that one agent handed to another: each has exactly one outcome." />
      <div className="row">
        <select className="input task-filter" aria-label="Which tasks" value={which} onChange={(event) => setWhich(event.target.value as "" | "true" | "false")}>
          <option value="">all</option>
          <option value="true">open</option>
          <option value="false">ended</option>
        </select>
      </div>
      {error && <ErrorNotice error={error} retry={() => void refetch()} />}
      {isPending && <Loading what="The tasks" />}
      {data && data.tasks.length === 0 && (
        <Empty title="There is no task">
          <p>Agents delegate with tools like delegate_agent, when multi_agent.agents or an agent's file allows it.</p>
        </Empty>
      )}
      {data && data.tasks.length > 0 && <TaskRows tasks={data.tasks} />}
    </div>
  );
}

export function TaskRows({ tasks }: { tasks: readonly Shape<"Task">[] }): ReactNode {
  return (
    <ul className="list">
      {tasks.map((task) => (
        <li key={task.id}>
          <Link href={`/tasks/${encodeURIComponent(task.id)}`} className="list-row task-row">
            <Status of={stateOf(task)} />
            <strong>{task.agent}</strong>
            <span className="grow truncate soft">{firstLine(task.summary || task.prompt)}</span>
            {task.attempt > 1 && <span className="tag">attempt {task.attempt} of {task.maxAttempts}</span>}
            {task.mode === "detached" && <span className="tag">detached</span>}
            <span className="soft number">
              {formatTokens(task.usage.inputTokens + task.usage.outputTokens)}
              {task.usage.cost > 0 && ` · ${formatCost(task.usage.cost)}`}
            </span>
            <span className="soft"><Duration from={task.createdAt} to={task.endedAt} /></span>
            <span className="soft"><Age at={task.createdAt} /></span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

export function stateOf(task: Pick<Shape<"Task">, "outcome" | "attempt">): string {
  return task.outcome ?? (task.attempt === 0 ? "queued" : "running");
}
