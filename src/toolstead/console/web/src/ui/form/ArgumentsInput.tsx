/** Arguments as a form or as JSON: two views of one value. */
import { Component, lazy, Suspense, useMemo, useState, type ReactNode } from "react";

import { parseExactly, simplify } from "../exactJson";
import { Loading } from "../parts";
import { Tabs } from "../Tabs";
import { explainNoForm } from "./formable";

const SchemaForm = lazy(() => import("./SchemaForm"));

export interface ArgumentsInputProps {
  schema: Record<string, unknown>;
  /** What the form begins with; give another `key` to begin anew. */
  value: unknown;
  /** Given what the person has typed so far; `problem` where the JSON cannot be read. */
  onChange: (value: unknown, problem: string) => void;
  onSubmit: () => void;
  id: string;
}

export function ArgumentsInput({ schema, value, onChange, onSubmit, id }: ArgumentsInputProps): ReactNode {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [tab, setTab] = useState(hasForm(schema) ? "form" : "json");
  const shown = text ?? JSON.stringify(value ?? {}, null, 2);
  const change = (typed: string): void => {
    setText(typed);
    let parsed: unknown;
    try {
      parsed = parseExactly(typed);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      setProblem(why);
      onChange(value, why);
      return;
    }
    setProblem("");
    onChange(parsed, "");
  };
  const inForm = simplify(value);
  const why = useMemo(() => explainNoForm(schema), [schema]);
  return (
    <Tabs
      label="How to give the arguments"
      selected={tab}
      onSelect={(id) => {
        if (id === "form" && problem === "") setText(null);
        setTab(id);
      }}
      items={[
        {
          id: "form",
          name: "Form",
          panel: () =>
            !hasForm(schema) ? (
              <p className="hint-box">It takes no arguments, or any: give them as JSON.</p>
            ) : why ? (
              <p className="hint-box">No form can be made of this schema, because {why}: give the arguments as JSON.</p>
            ) : problem ? (
              <p className="hint-box">The JSON cannot be read, so it cannot be shown as a form: {problem}</p>
            ) : inForm.lost !== undefined ? (
              <p className="hint-box">A form cannot keep the number {inForm.lost} exactly: change it as JSON, which sends it as it is written.</p>
            ) : (
              <NoForm>
                <Suspense fallback={<Loading what="The form" />}>
                  <SchemaForm id={id} schema={schema} value={inForm.value} onChange={(typed) => onChange(typed, "")} onSubmit={onSubmit} />
                </Suspense>
              </NoForm>
            ),
        },
        {
          id: "json",
          name: "JSON",
          panel: () => (
            <div className="field">
              <textarea
                className="input mono"
                aria-label="Arguments as JSON"
                aria-invalid={problem !== ""}
                rows={Math.min(Math.max(shown.split("\n").length + 1, 5), 24)}
                spellCheck={false}
                value={shown}
                onChange={(event) => change(event.target.value)}
                onKeyDown={(event) => {
                  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onSubmit();
                }}
              />
              {problem && <span className="error">Not JSON: {problem}</span>}
            </div>
          ),
        },
      ]}
    />
  );
}

function hasForm(schema: Record<string, unknown>): boolean {
  return ["properties", "anyOf", "oneOf", "allOf", "$ref", "patternProperties", "additionalProperties"].some((key) => {
    const held = schema[key];
    return typeof held === "object" && held !== null && Object.keys(held).length > 0;
  });
}

/** A schema that no form can be made of still has the other tab. */
class NoForm extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return <p className="hint-box">No form can be made of this schema: give the arguments as JSON.</p>;
  }
}
