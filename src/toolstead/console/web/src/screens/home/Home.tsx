import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, take, type Shape } from "../../api/client";
import { count, countWith, firstLine, formatCost, formatTokens } from "../../ui/format";
import { Icon, type IconName } from "../../ui/icons";
import { Age, Card, Duration, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { ApprovalCard } from "../approvals/ApprovalCard";
import "./home.css";

type Run = Shape<"ListedRun">;

/** What runs, what waits for a person, what failed; and on an empty installation, what to try. */
export default function Home(): ReactNode {
  const running = useQuery({ queryKey: ["runs", "active"], queryFn: () => take(api.GET("/api/runs", { params: { query: { active: "true", roots: "true", limit: "20" } } })) });
  const ended = useQuery({ queryKey: ["runs", "ended"], queryFn: () => take(api.GET("/api/runs", { params: { query: { active: "false", roots: "true", limit: "12" } } })) });
  const health = useQuery({ queryKey: ["health"], queryFn: () => take(api.GET("/api/health")) });
  const failed = ended.data?.runs.filter((run) => !["completed", "cancelled"].includes(run.status)) ?? [];
  const isNew = running.data?.runs.length === 0 && ended.data?.runs.length === 0;
  return (
    <div className="page">
      <PageHead title="Home" about={<Answering health={health.data} />} />
      {ended.error && <ErrorNotice error={ended.error} retry={() => void ended.refetch()} />}
      <Waiting />
      {isNew && <FirstSteps />}
      {running.isPending && <Loading what="What runs" />}
      {running.data && running.data.runs.length > 0 && (
        <Card title={`${count(running.data.runs.length, "run")} under way`}>
          <RunRows runs={running.data.runs} />
        </Card>
      )}
      {failed.length > 0 && (
        <Card title="Did not succeed lately">
          <RunRows runs={failed} />
        </Card>
      )}
      <Problems />
      {ended.data && ended.data.runs.length > 0 && (
        <Card title="Ended last" aside={<Link href="/runs">all runs</Link>}>
          <RunRows runs={ended.data.runs.slice(0, 6)} />
        </Card>
      )}
    </div>
  );
}

function Answering({ health }: { health: Shape<"Health"> | undefined }): ReactNode {
  if (!health) return null;
  if (!health.runtime) return <>No agent can answer yet: {health.runtimeReason}</>;
  return (
    <>
      <strong>{health.agent}</strong> answers{health.model && <> with <strong>{health.model}</strong></>}: {health.runtimeReason || health.runtime}
    </>
  );
}

function Waiting(): ReactNode {
  const { mayWrite } = useAccess();
  const { data } = useQuery({ queryKey: ["approvals"], queryFn: () => take(api.GET("/api/approvals")), enabled: mayWrite });
  const waiting = data?.approvals.filter((approval) => !approval.decision) ?? [];
  if (waiting.length === 0) return null;
  return (
    <section className="stack" aria-label="Waiting for a person">
      <h2>{countWith(waiting.length, "call", "wait")} for you</h2>
      {waiting.slice(0, 3).map((approval) => (
        <ApprovalCard key={approval.id} approval={approval} />
      ))}
      {waiting.length > 3 && <Link href="/approvals">all {waiting.length}</Link>}
    </section>
  );
}

/** Files that are kept out: the tools of the others go on, so this is easily missed. */
function Problems(): ReactNode {
  const { data } = useQuery({ queryKey: ["tools"], queryFn: () => take(api.GET("/api/tools")) });
  if (!data || data.quarantined.length === 0) return null;
  return (
    <Card title={`${count(data.quarantined.length, "problem")} in files`} aside={<Link href="/tools">tools</Link>}>
      <ul className="stack tight plain">
        {data.quarantined.slice(0, 5).map((problem, index) => (
          <li key={index}>
            <span className="status place bad">
              <Icon name="failed" /> <code>{problem.source}{problem.line ? `:${problem.line}` : ""}</code>
            </span>{" "}
            {problem.message}
          </li>
        ))}
      </ul>
    </Card>
  );
}

export function RunRows({ runs }: { runs: readonly Run[] }): ReactNode {
  return (
    <ul className="list flush">
      {runs.map((run) => (
        <li key={run.id}>
          <Link href={`/runs/${encodeURIComponent(run.id)}`} className="list-row run-row">
            <Status of={run.status} />
            <span className="grow truncate">{firstLine(run.prompt ?? "") || run.id}</span>
            <span className="tag">{run.agent}</span>
            <span className="soft number run-figures">
              {formatTokens(run.usage.inputTokens + run.usage.outputTokens)} tokens
              {run.usage.cost > 0 && ` · ${formatCost(run.usage.cost)}`}
            </span>
            <span className="soft"><Duration from={run.startedAt} to={run.endedAt} /></span>
            <span className="soft run-age"><Age at={run.startedAt} /></span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

const STEPS: readonly (readonly [IconName, string, string, string])[] = [
  ["tools", "/tools/git-status", "Call a tool", "git-status says what changed in this project: one click, no model."],
  ["edit", "/editor/new/command", "Make a tool", "Six lines of JSON around a command you know; agents have it as soon as it is saved."],
  ["chat", "/chat", "Ask an agent", "It finds the tools by itself, and you see each call, what it was given and what it answered."],
];

function FirstSteps(): ReactNode {
  return (
    <section className="stack" aria-label="Three things to try">
      <h2>Nothing has run here yet. Three things to try:</h2>
      <ul className="steps">
        {STEPS.map(([icon, address, name, about]) => (
          <li key={name}>
            <Link href={address} className="card step">
              <span className="row">
                <Icon name={icon} size={20} /> <strong>{name}</strong>
              </span>
              <span className="soft">{about}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
