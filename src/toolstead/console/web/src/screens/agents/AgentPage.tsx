import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { count } from "../../ui/format";
import { Card, Code, Empty, ErrorNotice, Facts, Json, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { Tabs } from "../../ui/Tabs";
import { FILES_MS, Findings } from "./Agents";

type Agent = Shape<"AgentDetails">;

export function AgentPage({ name }: { name: string }): ReactNode {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["agents", name],
    queryFn: () => take(api.GET("/api/agents/{name}", { params: { path: { name } } })),
    refetchInterval: FILES_MS,
  });
  const back = { to: "/agents", name: "Agents" };
  if (isPending) return <div className="page"><Loading what={name} /></div>;
  if (error) return <div className="page"><PageHead title={name} back={back} /><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  return (
    <div className="page">
      <PageHead title={data.name} about={data.description} back={back} actions={data.stale ? <span className="tag warn">stale: its file is broken, the last good version answers</span> : undefined} />
      {data.findings.length > 0 && <Card title="Findings"><Findings of={data.findings} /></Card>}
      <Tabs
        label="About this agent"
        items={[
          { id: "about", name: "Instructions", panel: () => <About agent={data} /> },
          { id: "tools", name: "What it can see", panel: () => <SeenTools name={name} /> },
          { id: "custom", name: `Custom tools (${data.customTools.length})`, panel: () => <CustomTools agent={data} /> },
          { id: "limits", name: "Limits and gates", panel: () => <Limits agent={data} /> },
        ]}
      />
    </div>
  );
}

function About({ agent }: { agent: Agent }): ReactNode {
  return (
    <div className="stack wide">
      <Facts
        of={[
          ["File", <code>{agent.origin}</code>],
          ["Model", agent.model || "as the settings say"],
          ["Runtime", agent.runtime || "as the settings say"],
          ["May delegate to", agent.agents === null ? (agent.delegates.length ? `${agent.delegates.join(", ")} (the settings' list)` : "nobody") : agent.agents.join(", ") || "nobody"],
        ]}
      />
      {agent.instructions ? <Code text={agent.instructions} wrap label="Instructions" /> : <p className="soft">It has no instructions.</p>}
    </div>
  );
}

function SeenTools({ name }: { name: string }): ReactNode {
  const [which, setWhich] = useState<"all" | "seen" | "hidden">("all");
  const { data, error, isPending } = useQuery({
    queryKey: ["agents", name, "tools"],
    queryFn: () => take(api.GET("/api/agents/{name}/tools", { params: { path: { name } } })),
  });
  if (isPending) return <Loading what="Its view" />;
  if (error) return <ErrorNotice error={error} />;
  const seen = data.tools.filter((tool) => tool.visible);
  const shown = data.tools.filter((tool) => which === "all" || tool.visible === (which === "seen"));
  return (
    <div className="stack">
      <div className="row">
        <span>{count(seen.length, "tool")} of {data.tools.length}</span>
        <select className="input agent-filter" aria-label="Which tools" value={which} onChange={(event) => setWhich(event.target.value as "all")}>
          <option value="all">all</option>
          <option value="seen">those that it sees</option>
          <option value="hidden">those that it does not see</option>
        </select>
      </div>
      {shown.length === 0 && <Empty title="None" />}
      <ul className="list">
        {shown.map((tool) => (
          <li key={tool.name} className="list-row seen-row">
            <Status of={tool.visible ? "completed" : "disabled"} word={tool.visible ? "seen" : "not seen"} />
            <Link className="mono" href={`/tools/${encodeURIComponent(tool.name)}`}>{tool.name}</Link>
            <span className="grow soft">{tool.reason}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function CustomTools({ agent }: { agent: Agent }): ReactNode {
  if (agent.customTools.length === 0) return <Empty title="It has none"><p>A custom tool is a prompt in its frontmatter: calling it runs a sub-agent.</p></Empty>;
  const prompts = agent.prompts as Readonly<Record<string, string>>;
  return (
    <div className="stack wide">
      {agent.customTools.map((tool) => (
        <Card key={tool.name} title={<span className="mono">{tool.name}</span>}>
          <div className="stack">
            <p>{tool.description}</p>
            {prompts[tool.name] !== undefined && <Code text={prompts[tool.name] ?? ""} wrap label="Its prompt" />}
            <details><summary>Its schema</summary><Json value={tool.inputSchema} /></details>
          </div>
        </Card>
      ))}
    </div>
  );
}

function Limits({ agent }: { agent: Agent }): ReactNode {
  return (
    <div className="stack wide">
      <div className="table-scroll">
        <table className="table">
          <thead><tr><th>What</th><th>Value</th><th>From</th></tr></thead>
          <tbody>
            {agent.effective.map((one) => {
              const held = one as Readonly<Record<string, unknown>>;
              return (
                <tr key={String(held["key"])}>
                  <td className="mono">{String(held["key"])}</td>
                  <td className="mono">{typeof held["value"] === "string" ? held["value"] : JSON.stringify(held["value"])}</td>
                  <td className="soft">{String(held["origin"] ?? "")}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <section className="stack tight">
        <h2>Gates of its results</h2>
        {agent.gates.length > 0 ? <Json value={agent.gates} /> : <p className="soft">None of its own.</p>}
      </section>
      {agent.resultSchema && <section className="stack tight"><h2>Schema of its results</h2><Json value={agent.resultSchema} /></section>}
    </div>
  );
}
