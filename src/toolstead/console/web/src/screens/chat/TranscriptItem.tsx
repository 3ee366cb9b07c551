import { memo, useMemo, useState, type ReactNode } from "react";
import { Link } from "wouter";

import { firstLine, formatClock, formatDuration, formatMoment } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Markdown } from "../../ui/Markdown";
import { Code, CopyButton, Json } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { LongText, WholeResult } from "../../ui/ToolAnswer";
import { CallLines } from "../tools/CallLines";
import { splitBlocks } from "./blocks";
import type { CallItem, Item, MessageItem, StreamItem } from "./transcript";

/** One entry; it is drawn again only when it is another object. */
export const TranscriptItem = memo(function TranscriptItem({ item }: { item: Item }): ReactNode {
  switch (item.kind) {
    case "message":
    case "stream":
      return <Message item={item} />;
    case "thinking":
      return (
        <details className="thinking">
          <summary className="soft">Thinking: {firstLine(item.text, 90)}</summary>
          <p className="soft">{item.text}</p>
        </details>
      );
    case "call":
      return <Call item={item} />;
    case "note":
      return (
        <p className={`note ${item.tone}`}>
          <Icon name={item.tone === "bad" ? "failed" : item.tone === "warn" ? "warning" : "stopped"} size={14} /> {item.text}
        </p>
      );
  }
});

const SORTS: Readonly<Record<string, string>> = { checkin: "check-in of a sub-agent", result: "result of a sub-agent", signal: "signal of a sub-agent" };

/** A message, or the text that becomes one: when it has ended, its head is added and nothing else is drawn again. */
function Message({ item }: { item: MessageItem | StreamItem }): ReactNode {
  if (item.kind === "stream") {
    return (
      <article className="message assistant" aria-busy="true" data-streaming="">
        {null}
        <Blocks text={item.text} />
      </article>
    );
  }
  const sort = SORTS[item.sort];
  return (
    <article className={`message ${item.role}${sort ? " sent" : ""}`} aria-label={sort ?? item.role}>
      <header className="row small soft">
        <strong>{sort ?? (item.role === "user" ? "You" : item.role === "assistant" ? "Agent" : item.role)}</strong>
        <time title={formatMoment(item.at)}>{formatClock(item.at).slice(0, 8)}</time>
        <span className="grow" />
        <CopyButton text={item.text} />
      </header>
      {item.role === "user" ? <p className="typed">{item.text}</p> : <Blocks text={item.text} />}
    </article>
  );
}

/** Text that grows: the paragraphs that are complete are rendered once. */
function Blocks({ text }: { text: string }): ReactNode {
  const blocks = useMemo(() => splitBlocks(text), [text]);
  return (
    <div className="stack tight">
      {blocks.map((block, index) => (
        <Markdown key={index} text={block} />
      ))}
    </div>
  );
}

function Call({ item }: { item: CallItem }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const state = item.result ? (item.result.isError ? "failed" : "completed") : "running";
  return (
    <section className={`call card ${state}`} aria-label={`Call of ${item.name}`}>
      <button type="button" className="call-head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name={isOpen ? "down" : "right"} size={13} />
        <Status of={state} word={state === "completed" ? "done" : undefined} />
        <strong className="mono">{item.name}</strong>
        <span className="grow truncate soft mono">{summarise(item.input)}</span>
        {item.result && <span className="soft number small">{formatDuration(item.result.durationMs)}</span>}
      </button>
      {item.tasks.length > 0 && (
        <ul className="plain call-tasks">
          {item.tasks.map((task) => (
            <li key={task.id} className="row">
              <Status of={task.state} />
              <Link href={`/tasks/${encodeURIComponent(task.id)}`}>{task.agent || task.id}</Link>
            </li>
          ))}
        </ul>
      )}
      {isOpen && (
        <div className="card-body stack">
          {item.input !== undefined && <Json value={item.input} label="Arguments" />}
          {item.edited !== undefined && (
            <>
              <h3>It ran with other arguments, which a person or a gate gave</h3>
              <Json value={item.edited} label="Arguments that were used" />
            </>
          )}
          {item.result ? item.result.handle ? <WholeResult handle={item.result.handle} text={item.result.text} /> : <LongText text={item.result.text} /> : <p className="soft">It has not answered yet.</p>}
          <div className="row">
            <Link href={`/tools/${encodeURIComponent(item.name)}`}>the tool</Link>
            {item.runId && <Link href={`/runs/${encodeURIComponent(item.runId)}`}>the run</Link>}
          </div>
          <CallLines tool={item.name} input={item.input ?? {}} />
        </div>
      )}
      {!isOpen && item.result?.handle && !item.result.isError && (
        <div className="call-pictures">
          <WholeResult handle={item.result.handle} text="" picturesOnly />
        </div>
      )}
      {!isOpen && item.result?.isError && <Code text={firstLine(item.result.text, 300)} wrap />}
    </section>
  );
}

function summarise(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  return Object.entries(input)
    .map(([key, value]) => `${key}=${firstLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), 60)}`)
    .join("  ");
}
