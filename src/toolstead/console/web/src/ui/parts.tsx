/** The small parts that screens are built of. */
import { useEffect, useId, useState, type ButtonHTMLAttributes, type ReactNode } from "react";
import { Link } from "wouter";

import { Problem } from "../api/client";
import { copyText } from "./clipboard";
import { formatAge, formatDuration, formatMoment } from "./format";
import { Icon, type IconName } from "./icons";

type Kind = "primary" | "danger" | "quiet";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: Kind;
  small?: boolean;
  icon?: IconName;
  /** With an icon alone: what the button does, for those who do not see it. */
  label?: string;
}

export function Button({ kind, small, icon, label, children, className, ...rest }: ButtonProps): ReactNode {
  const classes = ["button", kind, small && "small", !children && "icon", className].filter(Boolean).join(" ");
  return (
    <button type="button" className={classes} aria-label={label} title={label} {...rest}>
      {icon && <Icon name={icon} size={small ? 14 : 16} />}
      {children}
    </button>
  );
}

export function PageHead(props: {
  title: ReactNode;
  about?: ReactNode;
  back?: { to: string; name: string };
  actions?: ReactNode;
}): ReactNode {
  return (
    <header className="page-head">
      <div className="stack tight grow">
        {props.back && (
          <nav className="crumbs" aria-label="Where this is">
            <Link href={props.back.to}>{props.back.name}</Link> /
          </nav>
        )}
        <h1>{props.title}</h1>
        {props.about && <p className="soft">{props.about}</p>}
      </div>
      {props.actions && <div className="actions">{props.actions}</div>}
    </header>
  );
}

/** What was refused or failed, in the server's words. */
export function ErrorNotice({ error, retry }: { error: unknown; retry?: () => void }): ReactNode {
  const problem = error instanceof Problem ? error : undefined;
  return (
    <div className="problem" role="alert">
      <strong className="row">
        <Icon name="warning" /> {problem?.title ?? "Something went wrong"}
      </strong>
      <p>{problem ? problem.detail : error instanceof Error ? error.message : String(error)}</p>
      {retry && (
        <div>
          <Button small icon="retry" onClick={retry}>
            Try again
          </Button>
        </div>
      )}
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }): ReactNode {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setShown(true), 200); // what is quick does not flicker
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <p className="loading" role="status">
      {shown && (
        <>
          <Icon name="busy" spin /> {what}…
        </>
      )}
    </p>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }): ReactNode {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Card(props: { title?: ReactNode; aside?: ReactNode; children: ReactNode; className?: string }): ReactNode {
  const heading = useId();
  return (
    <section className={`card ${props.className ?? ""}`} aria-labelledby={props.title ? heading : undefined}>
      {(props.title || props.aside) && (
        <div className="card-head">
          <h2 className="grow" id={heading}>{props.title}</h2>
          {props.aside}
        </div>
      )}
      <div className="card-body">{props.children}</div>
    </section>
  );
}

/** Pairs of a word and what it is; those without a value are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }): ReactNode {
  return (
    <dl className="facts">
      {of.map(([name, value]) =>
        value === undefined || value === null || value === "" || value === false ? null : (
          <div key={name} style={{ display: "contents" }}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }): ReactNode {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = window.setTimeout(() => setCopied(false), 1500);
    return () => window.clearTimeout(timer);
  }, [copied]);
  return (
    <Button
      small
      className="copy"
      icon={copied ? "done" : "copy"}
      onClick={() => void copyText(text).then(() => setCopied(true))}
    >
      {copied ? "Copied" : label}
    </Button>
  );
}

/** Text as it is, with a button that copies it. Nothing in it is read as HTML. */
export function Code({ text, wrap = false, label }: { text: string; wrap?: boolean; label?: string }): ReactNode {
  return (
    <div className={wrap ? "code wrap" : "code"}>
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

export function Json({ value, label }: { value: unknown; label?: string }): ReactNode {
  return <Code text={JSON.stringify(value, null, 2) ?? "undefined"} wrap label={label} />;
}

/** Lines of a unified diff, each with its sign. */
export function Diff({ lines }: { lines: readonly string[] }): ReactNode {
  return (
    <div className="code diff">
      <pre tabIndex={0} aria-label="Changes">
        {lines.map((line, index) => (
          <span key={index} className={/^(\+\+\+|---|@@)/.test(line) ? "at" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : undefined}>
            {line || " "}
          </span>
        ))}
      </pre>
    </div>
  );
}

/** When something was, as an age that goes on; the moment itself is in its title. `at` is in seconds. */
export function Age({ at }: { at: number | null | undefined }): ReactNode {
  const now = useNow(10_000);
  if (at === null || at === undefined) return null;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={formatMoment(at)} className="number">
      {formatAge(now / 1000 - at)}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Duration(props: { from: number | null | undefined; to: number | null | undefined }): ReactNode {
  const isOpen = props.to === null || props.to === undefined;
  const now = useNow(isOpen ? 1000 : 3_600_000);
  if (props.from === null || props.from === undefined) return null;
  const seconds = (isOpen ? now / 1000 : (props.to as number)) - props.from;
  return <span className="number">{formatDuration(Math.max(seconds, 0) * 1000)}</span>;
}

export function useNow(every: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return now;
}
