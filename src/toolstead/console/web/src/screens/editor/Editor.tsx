import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useRoute } from "wouter";

import { useAccess } from "../../api/access";
import { api, take } from "../../api/client";
import { Icon } from "../../ui/icons";
import { Empty, ErrorNotice, Loading, PageHead } from "../../ui/parts";
import { FileEditor } from "./FileEditor";
import { TEMPLATES } from "./templates";
import "./editor.css";

/** The user's own tool files: choose one, or a template, and edit it. */
export default function Editor(): ReactNode {
  const { mayWrite, known, login } = useAccess();
  const [isNew, made] = useRoute("/editor/new/:template");
  const [isFile, params] = useRoute("/editor/:file");
  if (known && !mayWrite) {
    return (
      <div className="page">
        <PageHead title="Tool editor" />
        <Empty title="Only a person who has logged in may write tools"><p>{login}</p></Empty>
      </div>
    );
  }
  if (isNew) {
    const template = TEMPLATES.find((one) => one.id === made.template);
    if (template) return <FileEditor key={template.id} name="" text={template.text} digest="" />;
  }
  if (isFile) return <OpenFile key={params.file} name={decodeURIComponent(params.file)} />;
  return <Choose />;
}

function Choose(): ReactNode {
  const { data, error, isPending, refetch } = useQuery({ queryKey: ["tool-files"], queryFn: () => take(api.GET("/api/tool-files")) });
  return (
    <div className="page">
      <PageHead title="Tool editor" about="A JSON file makes a tool of a command, a request or a folder. Agents have it as soon as it is saved." />
      <section className="stack">
        <h2>New</h2>
        <ul className="steps">
          {TEMPLATES.map((template) => (
            <li key={template.id}>
              <Link href={`/editor/new/${template.id}`} className="card step">
                <span className="row"><Icon name={template.icon} size={18} /> <strong>{template.name}</strong></span>
                <span className="soft">{template.about}</span>
              </Link>
            </li>
          ))}
        </ul>
      </section>
      <section className="stack">
        <h2>Yours</h2>
        {isPending && <Loading what="The files" />}
        {error && <ErrorNotice error={error} retry={() => void refetch()} />}
        {data?.files.length === 0 && <p className="soft">There is none yet.</p>}
        {data && data.files.length > 0 && (
          <ul className="list">
            {data.files.map((file) => (
              <li key={file.path}>
                <Link href={`/editor/${encodeURIComponent(file.name)}`} className="list-row">
                  <strong>{file.name}</strong>
                  <span className="grow truncate soft">{file.tools.join(", ")}</span>
                  {file.problems.length > 0 && <span className="status bad"><Icon name="failed" /> {file.problems[0]?.message}</span>}
                </Link>
              </li>
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function OpenFile({ name }: { name: string }): ReactNode {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["tool-file-text", name], // not below "tool-files", which every reload of tools makes stale
    queryFn: () => take(api.GET("/api/tool-files/{name}", { params: { path: { name } } })),
    staleTime: Infinity, // a change meanwhile is refused when it is saved; nothing that is typed is lost
    gcTime: 0,
  });
  if (isPending) return <div className="page"><Loading what={name} /></div>;
  if (error) return <div className="page"><PageHead title={name} back={{ to: "/editor", name: "Tool editor" }} /><ErrorNotice error={error} retry={() => void refetch()} /></div>;
  return <FileEditor key={data.name} name={data.name} text={data.text} digest={data.digest} path={data.path} />;
}
