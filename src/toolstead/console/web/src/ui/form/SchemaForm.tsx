/** A form from a JSON schema; loaded by the screens that need one. */
import Form from "@rjsf/core";
import type { IconButtonProps, RJSFSchema, UiSchema } from "@rjsf/utils";
import type { ReactNode } from "react";

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
    SubmitButton: () => null,
  },
};

const ALL: UiSchema = { "ui:submitButtonOptions": { norender: true }, "ui:label": false };

export default function SchemaForm(props: {
  schema: Record<string, unknown>;
  value: unknown;
  onChange: (value: unknown) => void;
  onSubmit: () => void;
  id: string;
}): ReactNode {
  return (
    <Form
      id={props.id}
      idPrefix={props.id}
      className="schema-form"
      schema={props.schema as RJSFSchema}
      uiSchema={ALL}
      validator={validator}
      formData={props.value}
      templates={TEMPLATES as never}
      noHtml5Validate
      showErrorList={false}
      omitExtraData={false}
      experimental_defaultFormStateBehavior={{ arrayMinItems: { populate: "requiredOnly" }, emptyObjectFields: "populateRequiredDefaults" }}
      onChange={({ formData }) => props.onChange(formData)}
      onSubmit={() => props.onSubmit()}
    />
  );
}
