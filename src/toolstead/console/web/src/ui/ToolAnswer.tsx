/** What a tool answered: text, pictures, sound, links and values. Everything is shown as text or as data, never as HTML. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { api, take, type Shape } from "../api/client";
import { formatDuration } from "./format";
import { Button, Code, Json } from "./parts";
import { Status } from "./Status";

type Part = Shape<"CallResult">["content"][number];

const LONG = 20_000;

export function ToolAnswer({ answer }: { answer: Shape<"CallResult"> }): ReactNode {
  return (
    <div className="stack">
      <div className="row">
        <Status of={answer.isError ? "failed" : "completed"} word={answer.isError ? "the tool answered with an error" : "done"} />
        <span className="soft number">{formatDuration(answer.durationMs)}</span>
        {answer.handle && <span className="soft">shown in part; the whole is kept as <code>{answer.handle}</code></span>}
      </div>
      {answer.content.map((part, index) => (
        <ContentPart key={index} part={part} />
      ))}
      {answer.structuredContent !== undefined && answer.structuredContent !== null && (
        <details>
          <summary>As a value</summary>
          <Json value={answer.structuredContent} />
        </details>
      )}
    </div>
  );
}

export function ContentPart({ part }: { part: Part }): ReactNode {
  switch (part.type) {
    case "text":
      return <LongText text={part.text} />;
    case "image":
      return <img alt="What the tool answered" className="answer-image" src={`data:${safeType(part.mimeType, "image")};base64,${part.data}`} />;
    case "audio":
      return <audio controls src={`data:${safeType(part.mimeType, "audio")};base64,${part.data}`} />;
    case "resource_link":
      return (
        <p>
          <code>{part.uri}</code> {part.name}
        </p>
      );
    default:
      return <Json value={part} />;
  }
}

/** A result that is kept behind a handle: its pictures and sound, and all of its text. */
export function WholeResult({ handle, text, picturesOnly = false }: { handle: string; text: string; picturesOnly?: boolean }): ReactNode {
  const { data, error } = useQuery({
    queryKey: ["results", handle],
    queryFn: () => take(api.GET("/api/results/{handle}", { params: { path: { handle } } })),
    staleTime: Infinity,
  });
  if (!data) {
    if (picturesOnly) return null;
    return (
      <div className="stack tight">
        {error && <p className="soft">The whole answer is not kept any more: {error.message}</p>}
        <LongText text={text} />
      </div>
    );
  }
  const parts = picturesOnly ? data.content.filter((part) => part.type === "image" || part.type === "audio") : data.content;
  return (
    <div className="stack tight">
      {parts.map((part, index) => (
        <ContentPart key={index} part={part} />
      ))}
    </div>
  );
}

export function LongText({ text }: { text: string }): ReactNode {
  const [whole, setWhole] = useState(false);
  if (text.length <= LONG || whole) return <Code text={text} wrap />;
  return (
    <div className="stack tight">
      <Code text={`${text.slice(0, LONG)}\n…`} wrap />
      <div>
        <Button small onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString("en-US")} characters
        </Button>
      </div>
    </div>
  );
}

/** SVG is a document that may hold scripts: as an image none of them runs. Anything odd is not an image at all. */
function safeType(type: string, family: "image" | "audio"): string {
  return new RegExp(`^${family}/[a-z0-9.+-]+$`, "i").test(type) ? type : `${family}/unknown`;
}
