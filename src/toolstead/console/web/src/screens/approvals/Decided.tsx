import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { readLog } from "../../api/log";
import { Age, Card } from "../../ui/parts";
import { Status } from "../../ui/Status";

/** The last decisions, so that one can look up what was allowed. */
export function Decided(): ReactNode {
  const { data } = useQuery({
    queryKey: ["approvals", "log"],
    queryFn: () => readLog({ type: "approval.requested,approval.resolved", limit: "100" }),
  });
  const asked = new Map(data?.events.filter((event) => event.type === "approval.requested").map((event) => [event.data["approvalId"], event]));
  const resolved = data?.events.filter((event) => event.type === "approval.resolved").reverse() ?? [];
  if (resolved.length === 0) return null;
  return (
    <Card title="Decided">
      <ul className="stack tight plain">
        {resolved.map((event) => (
          <li key={event.id} className="row">
            <Status of={event.data["decision"] === "allow" ? "completed" : "refused"} word={event.data["decision"] === "allow" ? (event.data["edited"] ? "allowed, edited" : "allowed") : "denied"} />
            <strong className="mono">{String(asked.get(event.data["approvalId"])?.data["name"] ?? event.data["approvalId"])}</strong>
            <span className="grow soft">{String(event.data["reason"] ?? "")}</span>
            <span className="soft">
              <Age at={event.time} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
