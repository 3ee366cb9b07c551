import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Link } from "wouter";

import { useAccess } from "../../api/access";
import { api, take, type Shape } from "../../api/client";
import { ArgumentsInput } from "../../ui/form/ArgumentsInput";
import { Button, Card, ErrorNotice, Facts, PageHead } from "../../ui/parts";
import { say } from "../../ui/toast";
import { PluginState, PluginSwitch } from "./Plugins";

type Plugin = Shape<"Plugin">;

export function PluginPage({ plugin }: { plugin: Plugin }): ReactNode {
  return (
    <div className="page">
      <PageHead
        title={plugin.name}
        back={{ to: "/plugins", name: "Plugins" }}
        about={<span className="row"><PluginState plugin={plugin} /> {plugin.version}</span>}
        actions={<PluginSwitch plugin={plugin} />}
      />
      {plugin.error && <ErrorNotice error={new Error(plugin.error)} />}
      <Facts
        of={[
          ["Where", <code>{plugin.origin}</code>],
          ["Tools", plugin.tools.length > 0 && plugin.tools.map((tool, index) => <span key={tool}>{index > 0 && ", "}<Link className="mono" href={`/tools/${encodeURIComponent(tool)}`}>{tool}</Link></span>)],
          ["Hooks", plugin.hooks.join(", ")],
        ]}
      />
      <SettingsForm plugin={plugin} />
    </div>
  );
}

function SettingsForm({ plugin }: { plugin: Plugin }): ReactNode {
  const { mayWrite } = useAccess();
  const queries = useQueryClient();
  const before = plugin.settings as Record<string, unknown>;
  const [turn, setTurn] = useState(0);
  const [value, setValue] = useState<unknown>(before);
  const [problem, setProblem] = useState("");
  const refresh = (): void => void queries.invalidateQueries({ queryKey: ["plugins"] });
  const save = useMutation({
    mutationFn: () => take(api.PATCH("/api/plugins/{name}", { params: { path: { name: plugin.name } }, body: { settings: changes(before, value) } })),
    onSuccess: () => say(`${plugin.name}: stored, and in effect in every process.`),
    onSettled: refresh,
  });
  const reset = useMutation({
    mutationFn: () => take(api.POST("/api/plugins/{name}/reset", { params: { path: { name: plugin.name } } })),
    onSuccess: (now) => {
      setValue(now.settings);
      setTurn(turn + 1);
      say(`${plugin.name}: what was stored is forgotten; the files count again.`);
    },
    onSettled: refresh,
  });
  const schema = plugin.settingsSchema as Record<string, unknown> | undefined;
  if (!schema) return <p className="soft">It has no settings.</p>;
  const start = (): void => {
    if (mayWrite && !problem) save.mutate();
  };
  return (
    <Card title="Settings">
      <div className="stack">
        <ArgumentsInput
          key={turn}
          id="settings"
          schema={schema}
          value={value}
          onChange={(typed, why) => {
            setValue(typed);
            setProblem(why);
          }}
          onSubmit={start}
        />
        {save.error && <ErrorNotice error={save.error} />}
        {reset.error && <ErrorNotice error={reset.error} />}
        <div className="row">
          <Button kind="primary" disabled={!mayWrite || problem !== "" || save.isPending} onClick={start}>
            Save
          </Button>
          <Button disabled={!mayWrite || reset.isPending} onClick={() => reset.mutate()}>
            Forget what is stored
          </Button>
        </div>
      </div>
    </Card>
  );
}

/** What differs: a member that was not touched stays as it is stored, a secret that is shown masked too; null removes one. */
function changes(before: Record<string, unknown>, now: unknown): Record<string, unknown> {
  const after = (typeof now === "object" && now !== null ? now : {}) as Record<string, unknown>;
  const changed: Record<string, unknown> = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (JSON.stringify(before[key]) !== JSON.stringify(after[key])) changed[key] = after[key] ?? null;
  }
  return changed;
}
