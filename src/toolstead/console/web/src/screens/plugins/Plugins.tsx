import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { useAccess } from "../../api/access";
import { api, take, type Shape } from "../../api/client";
import { count } from "../../ui/format";
import { Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { Status } from "../../ui/Status";
import { say } from "../../ui/toast";
import { PluginPage } from "./PluginPage";
import "./plugins.css";

type Plugin = Shape<"Plugin">;

export default function Plugins(): ReactNode {
  const [, params] = useRoute("/plugins/:plugin");
  const plugins = useQuery({ queryKey: ["plugins"], queryFn: () => take(api.GET("/api/plugins")) });
  const name = params ? decodeURIComponent(params.plugin) : "";
  const chosen = plugins.data?.plugins.find((plugin) => plugin.name === name);
  if (params && plugins.data) {
    if (chosen) return <PluginPage key={name} plugin={chosen} />;
    return <div className="page"><PageHead title={name} back={{ to: "/plugins", name: "Plugins" }} /><Empty title="There is no such plugin" /></div>;
  }
  return (
    <div className="page">
      <PageHead title="Plugins" about="A switch takes effect at once, in every process that uses this project's data." />
      {plugins.error && <ErrorNotice error={plugins.error} retry={() => void plugins.refetch()} />}
      {plugins.isPending && <Loading what="The plugins" />}
      {plugins.data?.plugins.length === 0 && <Empty title="There is no plugin" />}
      {plugins.data && (
        <ul className="list">
          {plugins.data.plugins.map((plugin) => (
            <li key={plugin.name} className="list-row plugin-row">
              <PluginSwitch plugin={plugin} />
              <Link className="plugin-name" href={`/plugins/${encodeURIComponent(plugin.name)}`}><strong>{plugin.name}</strong></Link>
              <PluginState plugin={plugin} />
              <span className="grow truncate soft">{plugin.error || describe(plugin)}</span>
              <span className="soft">{plugin.version}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function describe(plugin: Plugin): string {
  return [plugin.tools.length > 0 ? count(plugin.tools.length, "tool") : "", plugin.hooks.join(", ")].filter(Boolean).join(" · ");
}

const STATES: Readonly<Record<string, string>> = { running: "active", loaded: "active", degraded: "stale", failed: "failed", disabled: "disabled" };

export function PluginState({ plugin }: { plugin: Plugin }): ReactNode {
  return <Status of={STATES[plugin.state] ?? "idle"} word={plugin.state} />;
}

export function PluginSwitch({ plugin }: { plugin: Plugin }): ReactNode {
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (enabled: boolean) => take(api.PATCH("/api/plugins/{name}", { params: { path: { name: plugin.name } }, body: { enabled } })),
    onSuccess: (changed) => say(changed.error ? `${changed.name}: ${changed.error}` : `${changed.name} is ${changed.enabled ? "on" : "off"}.`),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["tools"] });
      return queries.invalidateQueries({ queryKey: ["plugins"] }); // until they are read, the switch stays where it was put
    },
  });
  return (
    <>
      <label className="switch">
        <input
          type="checkbox"
          role="switch"
          aria-label={`${plugin.name} is on`}
          checked={change.isPending ? change.variables : plugin.enabled}
          disabled={!mayWrite || change.isPending}
          onChange={(event) => change.mutate(event.target.checked)}
        />
      </label>
      {change.error && <ErrorNotice error={change.error} />}
    </>
  );
}
