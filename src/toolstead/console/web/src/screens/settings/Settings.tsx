import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { Code, Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import "./settings.css";

export default function Settings(): ReactNode {
  const { mayWrite, known, login } = useAccess();
  const [sought, setSought] = useState("");
  const [onlySet, setOnlySet] = useState(false);
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["settings"],
    queryFn: () => take(api.GET("/api/settings")),
    enabled: mayWrite,
  });
  const shown = (data?.settings ?? []).filter(
    (one) => one.key.toLowerCase().includes(sought.toLowerCase().trim()) && (!onlySet || one.origin !== "default"),
  );
  return (
    <div className="page">
      <PageHead title="Settings" about="What counts for this server, where each value comes from, and what it overrode." />
      {known && !mayWrite ? (
        <Empty title="Only a person who has logged in sees the settings"><p>{login}</p></Empty>
      ) : error ? (
        <ErrorNotice error={error} retry={() => void refetch()} />
      ) : isPending ? (
        <Loading what="The settings" />
      ) : (
        <>
          <div className="row">
            <input type="search" className="input settings-search" aria-label="Search settings" placeholder="Search" value={sought} onChange={(event) => setSought(event.target.value)} />
            <label className="row">
              <input type="checkbox" checked={onlySet} onChange={(event) => setOnlySet(event.target.checked)} /> only those that somebody set
            </label>
          </div>
          <div className="table-scroll">
            <table className="table">
              <thead>
                <tr><th>Setting</th><th>Value</th><th>From</th></tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <tr key={one.key}>
                    <td className="mono">{one.key}</td>
                    <td className="mono settings-value">{write(one.value)}</td>
                    <td>
                      <span className={one.origin === "default" ? "soft" : undefined}>{one.origin}</span>
                      {one.place && <div className="soft small">{one.place}</div>}
                      {one.overrode.map((old, index) => (
                        <div key={index} className="soft small">
                          instead of <code>{write(old.value)}</code> from {old.origin}
                        </div>
                      ))}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <section className="stack">
            <h2>To change one</h2>
            <Code text={"toolstead config set tools.timeout 120\ntoolstead config explain tools.timeout"} label="Commands" />
            <p className="soft">The server reads settings when it starts; plugins are switched and set on their own page, at once.</p>
          </section>
        </>
      )}
    </div>
  );
}

const write = (value: unknown): string => (typeof value === "string" ? `"${value}"` : JSON.stringify(value));
