import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useLocation } from "wouter";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { Button, ErrorNotice } from "../../ui/parts";
import { PromptInput } from "./PromptInput";

const IDEAS = ["What tools do you have?", "What has changed in this project?", "Find every TODO, and say which one matters most."];

export function NewConversation(): ReactNode {
  const [, go] = useLocation();
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const [agent, setAgent] = useState("");
  const [model, setModel] = useState("");
  const [prompt, setPrompt] = useState("");
  const health = useQuery({
    queryKey: ["health", model],
    queryFn: () => take(api.GET("/api/health", { params: { query: model ? { model } : {} } })),
  });
  const agents = useQuery({ queryKey: ["agents"], queryFn: () => take(api.GET("/api/agents")) });
  const start = useMutation({
    mutationFn: (asked: string) =>
      take(api.POST("/api/runs", { body: { prompt: asked, ...(agent ? { agent } : {}), ...(model.trim() ? { model: model.trim() } : {}) } })),
    onSuccess: ({ threadId }) => {
      void queries.invalidateQueries({ queryKey: ["threads"] });
      go(`/chat/${encodeURIComponent(threadId)}`);
    },
  });
  const cannot = health.data && !health.data.runtime;
  return (
    <div className="chat-new stack wide">
      <div className="stack tight">
        <h1>Ask an agent</h1>
        {health.data && (
          <p className="soft">
            {cannot ? <>Nothing can answer yet: {health.data.runtimeReason}</> : <>{agent || health.data.agent} answers: {health.data.runtimeReason || health.data.runtime}</>}
          </p>
        )}
      </div>
      <div className="row">
        <label className="field">
          <span className="label">Agent</span>
          <select className="input" value={agent} onChange={(event) => setAgent(event.target.value)}>
            <option value="">{health.data ? `${health.data.agent} (as the settings say)` : "as the settings say"}</option>
            {agents.data?.agents.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span className="label">Model</span>
          <input className="input" placeholder={health.data?.model || "as the settings say"} value={model} onChange={(event) => setModel(event.target.value)} />
        </label>
      </div>
      {start.error && <ErrorNotice error={start.error} />}
      <PromptInput
        label="What should it do?"
        value={prompt}
        onChange={setPrompt}
        onSend={(asked) => start.mutate(asked)}
        disabled={!mayWrite || start.isPending}
        autoFocus
      />
      <div className="row">
        {IDEAS.map((idea) => (
          <Button key={idea} small className="wrap" disabled={!mayWrite || start.isPending} onClick={() => start.mutate(idea)}>
            {idea}
          </Button>
        ))}
      </div>
    </div>
  );
}
