import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { count, firstLine } from "../../ui/format";
import { Card, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { AgentPage } from "./AgentPage";
import "./agents.css";

/** No event says that an agent's file has changed, so its screens look. */
export const FILES_MS = 4_000;

export default function Agents(): ReactNode {
  const [, params] = useRoute("/agents/:agent");
  return params ? <AgentPage key={params.agent} name={decodeURIComponent(params.agent)} /> : <AgentList />;
}

function AgentList(): ReactNode {
  const { data, error, isPending, refetch } = useQuery({ queryKey: ["agents"], queryFn: () => take(api.GET("/api/agents")), refetchInterval: FILES_MS });
  return (
    <div className="page">
      <PageHead title="Agents" about="Who answers: a markdown file each, with instructions, a model, limits and a view of the tools." />
      {error && <ErrorNotice error={error} retry={() => void refetch()} />}
      {isPending && <Loading what="The agents" />}
      {data && data.findings.length > 0 && (
        <Card title={`${count(data.findings.length, "finding")} in the files`}>
          <Findings of={data.findings} />
        </Card>
      )}
      {data && (
        <ul className="list">
          {data.agents.map((agent) => (
            <li key={agent.name}>
              <Link href={`/agents/${encodeURIComponent(agent.name)}`} className="list-row agent-row">
                <strong>{agent.name}</strong>
                <span className="grow truncate soft">{firstLine(agent.description)}</span>
                {agent.stale && <span className="tag warn">stale</span>}
                {agent.model && <span className="tag">{agent.model}</span>}
                <span className="tag">{agent.scope}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
      {data && data.agents.length === 0 && <Empty title="There is no agent" />}
      <p className="soft">
        <code>toolstead agents new NAME</code> writes one; it is read as soon as it is saved.
      </p>
    </div>
  );
}

const STATES: Readonly<Record<string, string>> = { error: "failed", warning: "waiting", note: "idle" };

export function Findings({ of }: { of: readonly Shape<"Finding">[] }): ReactNode {
  return (
    <ul className="plain stack tight">
      {of.map((finding, index) => (
        <li key={index}>
          <Status of={STATES[finding.severity] ?? "idle"} word={finding.severity} />{" "}
          <code>
            {finding.source}
            {finding.line ? `:${finding.line}` : ""}
          </code>{" "}
          {finding.message}
        </li>
      ))}
    </ul>
  );
}
