/** A form from a JSON schema; loaded by the screens that need one. */
import Form from "@rjsf/core";
import type { IconButtonProps, MultiSchemaFieldTemplateProps, RJSFSchema, UiSchema, UnsupportedFieldProps } from "@rjsf/utils";
import { useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { Button } from "../parts";
import type { IconName } from "../icons";
import "./form.css";
import { validator } from "./validator";

function makeButton(icon: IconName, label: string): (props: IconButtonProps) => ReactNode {
  return function FormButton({ onClick, disabled, id }: IconButtonProps): ReactNode {
    return <Button small kind="quiet" icon={icon} label={label} id={id} disabled={disabled ?? false} onClick={onClick} />;
  };
}

const TEMPLATES = {
  MultiSchemaFieldTemplate: ({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps) => (
    <div className="stack tight">
      <label>
        <span className="visually-hidden">Which kind of value</span>
        {selector}
      </label>
      {optionSchemaField}
    </div>
  ),
  UnsupportedFieldTemplate: ({ fieldPathId }: UnsupportedFieldProps) => (
    <p className="hint-box">
      {fieldPathId && <strong>{fieldPathId.path.at(-1)}: </strong>}its schema does not say what it is, so it has no field: give it as JSON.
    </p>
  ),
  ButtonTemplates: {
    AddButton: ({ onClick, disabled, id }: IconButtonProps) => (
      <Button small icon="plus" id={id} disabled={disabled ?? false} onClick={onClick}>
        Add
      </Button>
    ),
    RemoveButton: makeButton("trash", "Remove"),
    ClearButton: makeButton("close", "Clear"),
    CopyButton: makeButton("copy", "Duplicate"),
    MoveDownButton: makeButton("down", "Move down"),
    MoveUpButton: ({ onClick, disabled, id }: IconButtonProps) => (
      <Button small kind="quiet" label="Move up" id={id} disabled={disabled ?? false} onClick={onClick}>
        ↑
      </Button>
    ),
  },
};

const DEEPEST = 6;

/** A default is shown, and not sent: the server fills it in. */
function showDefaults(schema: unknown, depth = 0): UiSchema {
  const shown: UiSchema = depth === 0 ? { "ui:label": false } : {};
  if (typeof schema !== "object" || schema === null || depth > DEEPEST) return shown;
  const { default: value, properties } = schema as Record<string, unknown>;
  if (["string", "number"].includes(typeof value) && value !== "") shown["ui:placeholder"] = String(value);
  if (typeof properties === "object" && properties !== null) {
    for (const [name, held] of Object.entries(properties)) shown[name] = showDefaults(held, depth + 1);
  }
  return shown;
}

/** The arguments whose schema allows everything: a form has no field for them, and would leave them out without a word. */
function listAnything(schema: Record<string, unknown>): string[] {
  const { properties } = schema;
  if (typeof properties !== "object" || properties === null) return [];
  return Object.entries(properties).filter(([, held]) => allowsAnything(held)).map(([name]) => name);
}

function allowsAnything(schema: unknown): boolean {
  if (typeof schema !== "object" || schema === null) return schema === true;
  return Object.entries(schema).every(([key, held]) => key === "allOf" && Array.isArray(held) && held.every(allowsAnything));
}

export default function SchemaForm(props: {
  schema: Record<string, unknown>;
  value: unknown;
  onChange: (value: unknown) => void;
  onSubmit: () => void;
  id: string;
}): ReactNode {
  const look = useMemo(() => showDefaults(props.schema), [props.schema]);
  const anything = listAnything(props.schema);
  const box = useRef<HTMLDivElement>(null);
  const [isEmpty, setEmpty] = useState(false);
  // A schema may say much and name no field: `allOf` of conditions, or a pattern of names.
  useLayoutEffect(() => setEmpty(!box.current?.querySelector("input, select, textarea, button:not([hidden])")));
  return (
    <div ref={box}>
      {isEmpty && <p className="hint-box">No form can be made of this schema: give the arguments as JSON.</p>}
      <Form
        id={props.id}
        idPrefix={props.id}
        className="schema-form"
        schema={props.schema as RJSFSchema}
        uiSchema={look}
        validator={validator}
        formData={props.value}
        templates={TEMPLATES as never}
        noHtml5Validate
        showErrorList={false}
        omitExtraData={false}
        experimental_defaultFormStateBehavior={{ arrayMinItems: { populate: "requiredOnly" }, emptyObjectFields: "skipEmptyDefaults" }}
        onChange={({ formData }) => props.onChange(formData)}
        onSubmit={() => props.onSubmit()}
      >
        <button type="submit" hidden />
      </Form>
      {anything.length > 0 && !isEmpty && (
        <p className="hint-box">Anything may be given for {anything.join(", ")}, so there is no field for it: give it as JSON.</p>
      )}
    </div>
  );
}
