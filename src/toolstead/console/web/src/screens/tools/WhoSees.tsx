import { useQueries, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";

import { api, take } from "../../api/client";
import { ErrorNotice, Loading } from "../../ui/parts";
import { Status } from "../../ui/Status";

/** For each agent, whether it can see a tool, and why it cannot. */
export function WhoSees({ name }: { name: string }): ReactNode {
  const agents = useQuery({ queryKey: ["agents"], queryFn: () => take(api.GET("/api/agents")) });
  const names = agents.data?.agents.map((agent) => agent.name) ?? [];
  const views = useQueries({
    queries: names.map((agent) => ({
      queryKey: ["agents", agent, "tools"],
      queryFn: () => take(api.GET("/api/agents/{name}/tools", { params: { path: { name: agent } } })),
    })),
  });
  if (agents.isPending) return <Loading what="The agents" />;
  if (agents.error) return <ErrorNotice error={agents.error} />;
  return (
    <ul className="list">
      {names.map((agent, index) => {
        const view = views[index];
        const found = view?.data?.tools.find((tool) => tool.name === name);
        return (
          <li key={agent} className="list-row">
            <Link href={`/agents/${encodeURIComponent(agent)}`}>
              <strong>{agent}</strong>
            </Link>
            {view?.isPending ? (
              <Loading what="Its view" />
            ) : view?.error ? (
              <span className="status bad">{view.error.message}</span>
            ) : (
              <>
                <Status of={found?.visible ? "completed" : "disabled"} word={found?.visible ? "sees it" : "does not see it"} />
                <span className="grow soft">{found?.visible ? "" : (found?.reason ?? "It belongs to another agent.")}</span>
              </>
            )}
          </li>
        );
      })}
    </ul>
  );
}
