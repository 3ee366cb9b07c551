import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, Problem, take } from "../../api/client";
import { Button, ErrorNotice, Loading } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { ApprovalCard } from "../approvals/ApprovalCard";
import { Plan } from "./Plan";
import { PromptInput } from "./PromptInput";
import { TranscriptView } from "./TranscriptView";
import { useTranscript } from "./useTranscript";

export function Conversation({ thread }: { thread: string }): ReactNode {
  const loaded = useTranscript(thread);
  const { transcript } = loaded;
  const about = useQuery({
    queryKey: ["threads", thread],
    queryFn: () => take(api.GET("/api/threads/{id}", { params: { path: { id: thread }, query: { limit: "1" } } })),
  });
  if (about.error instanceof Problem && about.error.status === 404) {
    return (
      <div className="page">
        <ErrorNotice error={new Problem(404, "There is no such conversation", "It was deleted, or its address is wrong: the others are in the list.")} />
      </div>
    );
  }
  return (
    <>
      <header className="chat-head row">
        <h1 className="truncate grow">{about.data?.title || thread}</h1>
        {about.data?.parentThreadId && <Link href={`/chat/${encodeURIComponent(about.data.parentThreadId)}`}>who started it</Link>}
        {transcript.agent && <span className="tag">{transcript.agent}</span>}
        {transcript.model && <span className="tag">{transcript.model}</span>}
        {transcript.runId && <Status of="running" />}
      </header>
      {about.error && <ErrorNotice error={about.error} />}
      {Boolean(loaded.error) && <ErrorNotice error={loaded.error} retry={loaded.reload} />}
      {loaded.isLoading && transcript.items.length === 0 ? <Loading what="The conversation" /> : <TranscriptView loaded={loaded} />}
      <Foot thread={thread} runId={transcript.runId} plan={<Plan steps={transcript.plan} isOpen={transcript.runId !== ""} />} />
    </>
  );
}

function Foot({ thread, runId, plan }: { thread: string; runId: string; plan: ReactNode }): ReactNode {
  const { mayWrite } = useAccess();
  const [typed, setTyped] = useState("");
  const [steers, setSteers] = useState(true);
  const queries = useQueryClient();
  const send = useMutation({
    mutationFn: (content: string) =>
      take(
        api.POST("/api/threads/{id}/messages", {
          params: { path: { id: thread } },
          body: { content, ...(runId && steers ? { steer: true } : {}) },
        }),
      ),
    onMutate: () => setTyped(""),
    onError: (_, content) => setTyped((now) => now || content),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["threads"] }),
  });
  const stop = useMutation({ mutationFn: () => take(api.POST("/api/runs/{id}/cancel", { params: { path: { id: runId } } })) });
  return (
    <footer className="chat-foot stack">
      <ThreadApprovals thread={thread} runId={runId} />
      {plan}
      {send.error && <ErrorNotice error={send.error} />}
      {stop.error && <ErrorNotice error={stop.error} />}
      <PromptInput
        label={runId ? (steers ? "Say something to the run under way" : "The next message, when this run has ended") : "Message"}
        value={typed}
        onChange={setTyped}
        onSend={(content) => send.mutate(content)}
        disabled={!mayWrite}
        sendName={runId ? (steers ? "Steer" : "Queue") : "Send"}
        autoFocus
      >
        {runId && (
          <>
            <Button small kind="danger" icon="stop" disabled={!mayWrite || stop.isPending} onClick={() => stop.mutate()}>
              Stop
            </Button>
            <label className="row small">
              <input type="checkbox" checked={steers} onChange={(event) => setSteers(event.target.checked)} /> to the run under way
            </label>
          </>
        )}
      </PromptInput>
    </footer>
  );
}

/** What waits for a person in this conversation, the work it has handed on included. */
function ThreadApprovals({ thread, runId }: { thread: string; runId: string }): ReactNode {
  const { mayWrite } = useAccess();
  const { data } = useQuery({ queryKey: ["approvals"], queryFn: () => take(api.GET("/api/approvals")), enabled: mayWrite });
  const open = data?.approvals.filter((approval) => !approval.decision) ?? [];
  const below = useQuery({
    queryKey: ["tasks", "root", runId],
    queryFn: () => take(api.GET("/api/tasks", { params: { query: { root: runId, open: "true", limit: "500" } } })),
    enabled: runId !== "" && open.some((approval) => approval.taskId && approval.threadId !== thread),
  });
  const tasks = new Set(below.data?.tasks.map((task) => task.id));
  const waiting = open.filter((approval) => approval.threadId === thread || (approval.taskId && tasks.has(approval.taskId)));
  if (waiting.length === 0) return null;
  return (
    <div className="stack chat-approvals">
      {waiting.map((approval) => (
        <ApprovalCard key={approval.id} approval={approval} isShort />
      ))}
    </div>
  );
}
