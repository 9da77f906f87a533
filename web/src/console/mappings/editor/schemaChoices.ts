// The keys and values that the published JSON Schema permits at a path, with their descriptions.
import type { KeyStep } from "./cursorContext";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  pattern?: string;
  if?: Schema;
  then?: Schema;
  propertyNames?: Schema;
  $defs?: Record<string, Schema>;
}

export interface Choice {
  label: string;
  detail: string;
  /** A key is followed by a colon. */
  key: boolean;
}

/** Returns the keys and values permitted at a path in a definition of a kind. */
export function choicesAt(root: Schema, path: readonly KeyStep[], kind: string): Choice[] {
  let here = [root];
  for (const step of path) here = here.flatMap((each) => below(root, each, step, kind));
  const found = new Map<string, Choice>();
  const note = (label: string, detail: string, key: boolean) => {
    if (!found.has(label)) found.set(label, { label, detail, key });
  };
  for (const each of here.flatMap((one) => every(root, one, kind))) {
    for (const [name, member] of Object.entries(each.properties ?? {})) {
      note(name, descriptionOf(root, member), true);
    }
    for (const word of each.enum ?? []) note(String(word), each.description ?? "", false);
    if (each.const !== undefined) note(String(each.const), each.description ?? "", false);
    if (each.type === "boolean") ["true", "false"].forEach((word) => note(word, "", false));
  }
  const allowed = path.length === 0 ? membersOf(root, kind) : null;
  return [...found.values()].filter((each) => allowed === null || allowed.has(each.label));
}

/** Whether a value at this path may be a message field (PID-3.1). */
export function takesPlaces(root: Schema, path: readonly KeyStep[], kind: string): boolean {
  let here = [root];
  for (const step of path) here = here.flatMap((each) => below(root, each, step, kind));
  const all = here.flatMap((one) => every(root, one, kind));
  return all.some((each) => each === root.$defs?.["path"]);
}

function below(root: Schema, schema: Schema, step: KeyStep, kind: string): Schema[] {
  return every(root, schema, kind).flatMap((each) => {
    if (typeof step === "number") {
      const items = each.prefixItems?.[step] ?? each.items;
      return typeof items === "object" ? [items] : [];
    }
    const member = each.properties?.[step];
    if (member) return [member];
    return typeof each.additionalProperties === "object" ? [each.additionalProperties] : [];
  });
}

/** Gives a schema with all its alternatives, each once. */
function every(root: Schema, schema: Schema, kind: string, seen = new Set<Schema>()): Schema[] {
  if (seen.has(schema)) return [];
  seen.add(schema);
  const more: Schema[] = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  for (const each of schema.allOf ?? []) {
    if (!each.if) more.push(each);
    else if (each.then && each.if.properties?.["kind"]?.const === kind) more.push(each.then);
  }
  const target = schema.$ref ? root.$defs?.[schema.$ref.replace("#/$defs/", "")] : undefined;
  if (target) more.push(target);
  return [schema, ...more.flatMap((each) => every(root, each, kind, seen))];
}

/** Returns the keys permitted in a definition of a kind; null for an unknown kind. */
function membersOf(root: Schema, kind: string): Set<string> | null {
  const own = root.allOf?.find((each) => each.if?.properties?.["kind"]?.const === kind);
  const names = own?.then?.propertyNames?.enum;
  return names ? new Set(names.map(String)) : null;
}

function descriptionOf(root: Schema, schema: Schema): string {
  const target = schema.$ref ? root.$defs?.[schema.$ref.replace("#/$defs/", "")] : undefined;
  return schema.description ?? target?.description ?? "";
}
