import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { api, take, type Shape } from "../../api/client";
import { readLog } from "../../api/log";
import { count, formatCost, formatDuration, formatNumber } from "../../ui/format";
import { Code, Empty, ErrorNotice, Facts, Json, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { Tabs } from "../../ui/Tabs";

type Step = Shape<"RunStep">;
type Held = Readonly<Record<string, unknown>>;

/** One request to a model, or one turn of a runtime: what was sent and what came back, whole. */
export function StepPage({ run, number }: { run: string; number: number }): ReactNode {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["steps", run, number],
    queryFn: () => take(api.GET("/api/runs/{id}/steps", { params: { path: { id: run }, query: { limit: "1", ...(number > 1 ? { after: String(number - 1) } : {}) } } })),
  });
  const calls = useQuery({
    queryKey: ["events", "calls", run],
    queryFn: () => readLog({ run, type: "tool_use,tool_result,approval.requested,approval.resolved", limit: "500" }),
  });
  const step = data?.steps.find((one) => one.number === number);
  const back = { to: `/runs/${encodeURIComponent(run)}`, name: "The run" };
  if (isPending) return <div className="page"><Loading what="The step" /></div>;
  if (error) return <div className="page"><PageHead title={`Step ${number}`} back={back} /><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  if (!step) return <div className="page"><PageHead title={`Step ${number}`} back={back} /><Empty title="There is no such step" /></div>;
  const base = `/runs/${encodeURIComponent(run)}/steps`;
  return (
    <div className="page">
      <PageHead
        title={`Step ${number}`}
        back={back}
        about={step.kind === "model" ? "A request to the model, as it was sent, and its answer." : "A turn of the runtime: what we gave it, and what it reported."}
        actions={
          <>
            {number > 1 && <Link className="button" href={`${base}/${number - 1}`}>Before</Link>}
            {data.next && <Link className="button" href={`${base}/${number + 1}`}>After</Link>}
          </>
        }
      />
      <Facts
        of={[
          ["State", <Status of={step.error ? "failed" : "completed"} word={step.error ? "failed" : "answered"} />],
          ["Model", step.model],
          ["Took", formatDuration(step.durationMs)],
          ["Tokens", `${formatNumber(step.usage.inputTokens)} in, ${formatNumber(step.usage.outputTokens)} out`],
          ["From cache", fromCache(step)],
          ["Cost", step.usage.cost > 0 ? formatCost(step.usage.cost) : ""],
        ]}
      />
      {step.error && <ErrorNotice error={new Error(`${step.error.code}: ${step.error.message}`)} />}
      <Tabs
        label="About this step"
        items={[
          { id: "answer", name: "Answer", panel: () => <Answer step={step} /> },
          { id: "request", name: step.kind === "model" ? "Request" : "What it was given", panel: () => <Request request={step.request} /> },
          { id: "tools", name: "Tools", panel: () => <StepTools step={step} events={calls.data?.events ?? []} /> },
          { id: "json", name: "As stored", panel: () => <Json value={step} label="The step as it is stored" /> },
        ]}
      />
    </div>
  );
}

function fromCache(step: Step): string {
  const read = (step.reply as Held | null)?.["cachedTokens"];
  return typeof read === "number" && read > 0 ? formatNumber(read) : "";
}

function Answer({ step }: { step: Step }): ReactNode {
  const reply = step.reply as Held | null;
  if (!reply) return <p className="soft">No whole answer came.</p>;
  const calls = Array.isArray(reply["calls"]) ? (reply["calls"] as Held[]) : [];
  const said = typeof reply["text"] === "string" ? reply["text"] : "";
  return (
    <div className="stack">
      {said && <Code text={said} wrap label="What it said" />}
      {reply["cut"] === true && <p className="hint-box">Its answer was cut at the limit of its length.</p>}
      {calls.map((call, index) => (
        <section key={index} className="stack tight">
          <h3 className="mono">{String(call["name"] ?? "")}</h3>
          <Json value={call["input"]} label="Arguments" />
        </section>
      ))}
      {!said && calls.length === 0 && <Json value={reply} />}
    </div>
  );
}

function Request({ request }: { request: Held }): ReactNode {
  const messages = Array.isArray(request["messages"]) ? (request["messages"] as (Held | null)[]) : [];
  const { messages: _, tools: __, instructions, prompt, ...rest } = request;
  return (
    <div className="stack wide">
      {typeof instructions === "string" && instructions && (
        <section className="stack tight"><h3>Instructions</h3><Code text={instructions} wrap /></section>
      )}
      {typeof prompt === "string" && <section className="stack tight"><h3>Prompt</h3><Code text={prompt} wrap /></section>}
      {messages.length > 0 && (
        <section className="stack tight">
          <h3>{count(messages.length, "message")}</h3>
          <ol className="plain stack">
            {messages.map((message, index) => (
              <li key={index} className="card sent-message">
                <div className="soft small">{String(message?.["role"] ?? "left out")}</div>
                <SentMessage message={message} />
              </li>
            ))}
          </ol>
        </section>
      )}
      {Object.keys(rest).length > 0 && <section className="stack tight"><h3>And</h3><Json value={rest} /></section>}
    </div>
  );
}

function SentMessage({ message }: { message: Held | null }): ReactNode {
  if (message === null) return <p className="soft">It was too much to store.</p>;
  const { role: _, text, ...rest } = message;
  return (
    <div className="stack tight">
      {typeof text === "string" && text && <p className="typed">{text}</p>}
      {Object.keys(rest).length > 0 && <Json value={rest} />}
    </div>
  );
}

/** What was changed in the schemas of tools, because this API does not take them as they are. */
function Adapted({ reply, offered }: { reply: Held | null; offered: readonly string[] }): ReactNode {
  const adapted = Object.entries((reply?.["adapted"] ?? {}) as Record<string, readonly string[]>).filter(([name]) => offered.includes(name));
  if (adapted.length === 0) return null;
  return (
    <details>
      <summary>{count(adapted.length, "schema")} adapted for this API; arguments are checked against the original</summary>
      <dl className="facts">
        {adapted.map(([name, changes]) => (
          <div key={name} className="contents">
            <dt className="mono">{name}</dt>
            <dd>{changes.map((change) => <div key={change}>{change}</div>)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** The tools that were offered, those that were called in the run, and what the gates said. */
function StepTools({ step, events }: { step: Step; events: readonly Shape<"Event">[] }): ReactNode {
  const held = (step.request as Held)["tools"];
  const offered = Array.isArray(held) ? held.map((tool) => (typeof tool === "string" ? tool : String((tool as Held)["name"] ?? ""))) : [];
  const replied = (step.reply as Held | null)?.["calls"];
  const called = new Map((Array.isArray(replied) ? (replied as Held[]) : []).map((call) => [String(call["name"]), call]));
  const ends = new Map(events.filter((event) => event.type === "tool_result").map((event) => [String(event.data["callId"]), event]));
  const asked = events.filter((event) => event.type === "approval.requested");
  return (
    <div className="stack wide">
      <section className="stack tight">
        <h3>{count(offered.length, "tool")} offered, {called.size} called</h3>
        <ul className="plain tool-chips">
          {offered.map((name) => (
            <li key={name}>
              <Link href={`/tools/${encodeURIComponent(name.replace(/^mcp__toolstead__/, ""))}`} className={called.has(name) ? "tag good" : "tag"}>
                {called.has(name) ? "✓ called: " : ""}{name}
              </Link>
            </li>
          ))}
        </ul>
      </section>
      <Adapted reply={step.reply as Held | null} offered={offered} />
      {[...called.values()].map((call) => {
        const end = ends.get(String(call["id"]));
        return end ? (
          <section key={String(call["id"])} className="stack tight">
            <h3 className="row"><Status of={end.data["isError"] ? "failed" : "completed"} /> <span className="mono">{String(call["name"])}</span> <span className="soft">{formatDuration(Number(end.data["durationMs"] ?? 0))}</span></h3>
            <Code text={String(end.data["content"] ?? "")} wrap />
          </section>
        ) : null;
      })}
      {asked.length > 0 && (
        <section className="stack tight">
          <h3>What a person was asked in this run</h3>
          <ul>
            {asked.map((event) => (
              <li key={event.id}><span className="mono">{String(event.data["name"])}</span>: {String(event.data["reason"] ?? "")}</li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
