/** Validation for forms without `eval`: the page's policy forbids what ajv does. The server validates every call itself. */
import { Validator, type Schema } from "@cfworker/json-schema";
import { toErrorSchema, type ErrorSchema, type RJSFSchema, type RJSFValidationError, type ValidationData, type ValidatorType } from "@rjsf/utils";

function check(schema: RJSFSchema | boolean, value: unknown): RJSFValidationError[] {
  const { errors } = new Validator(schema as Schema, "2020-12", false).validate(value);
  return errors
    // A keyword that holds others only repeats what they found; the leaves say what is wrong.
    .filter(({ keyword }) => !["properties", "items", "prefixItems", "$ref", "allOf", "additionalProperties"].includes(keyword))
    .map(({ instanceLocation, keyword, error }) => {
      const missing = keyword === "required" ? /"([^"]+)"/.exec(error)?.[1] : undefined;
      const place = instanceLocation.slice(1).split("/").filter(Boolean).map(unescape);
      const property = [...place, ...(missing === undefined ? [] : [missing])].map((part) => `.${part}`).join("");
      return { name: keyword, property, message: missing === undefined ? error : "is needed", stack: `${property} ${error}` };
    });
}

const unescape = (part: string): string => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");

export const validator: ValidatorType = {
  isValid(schema, value, root) {
    try {
      const whole = root.$defs || root["definitions"] ? { ...root, ...schema, $defs: root.$defs, definitions: root["definitions"] } : schema;
      return new Validator(whole as Schema, "2020-12", true).validate(value).valid;
    } catch {
      return false;
    }
  },
  rawValidation(schema, value) {
    try {
      return { errors: check(schema, value) as never[] };
    } catch (error) {
      return { validationError: error instanceof Error ? error : new Error(String(error)) };
    }
  },
  validateFormData(value, schema): ValidationData<unknown> {
    try {
      const errors = check(schema, value);
      return { errors, errorSchema: toErrorSchema(errors) as ErrorSchema<unknown> };
    } catch {
      return { errors: [], errorSchema: {} as ErrorSchema<unknown> }; // the server says what is wrong
    }
  },
};

export default validator;
