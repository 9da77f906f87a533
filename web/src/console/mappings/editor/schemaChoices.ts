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
  for (const step of path) here = here.flatMap((node) => below(root, node, step, kind));
  const found = new Map<string, Choice>();
  const note = (label: string, detail: string, key: boolean) => {
    if (!found.has(label)) found.set(label, { label, detail, key });
  };
  for (const node of here.flatMap((one) => every(root, one, kind))) {
    for (const [name, member] of Object.entries(node.properties ?? {})) {
      note(name, descriptionOf(root, member), true);
    }
    for (const word of node.enum ?? []) note(String(word), node.description ?? "", false);
    if (node.const !== undefined) note(String(node.const), node.description ?? "", false);
    if (node.type === "boolean") ["true", "false"].forEach((word) => note(word, "", false));
  }
  const allowed = path.length === 0 ? membersOf(root, kind) : null;
  return [...found.values()].filter((choice) => allowed === null || allowed.has(choice.label));
}

/** Whether a value at this path may be a message field (PID-3.1). */
export function takesPlaces(root: Schema, path: readonly KeyStep[], kind: string): boolean {
  let here = [root];
  for (const step of path) here = here.flatMap((node) => below(root, node, step, kind));
  const all = here.flatMap((one) => every(root, one, kind));
  return all.some((node) => node === root.$defs?.["path"]);
}

function below(root: Schema, schema: Schema, step: KeyStep, kind: string): Schema[] {
  return every(root, schema, kind).flatMap((node) => {
    if (typeof step === "number") {
      const items = node.prefixItems?.[step] ?? node.items;
      return typeof items === "object" ? [items] : [];
    }
    const member = node.properties?.[step];
    if (member) return [member];
    return typeof node.additionalProperties === "object" ? [node.additionalProperties] : [];
  });
}

/** Gives a schema with all its alternatives, each once. */
function every(root: Schema, schema: Schema, kind: string, seen = new Set<Schema>()): Schema[] {
  if (seen.has(schema)) return [];
  seen.add(schema);
  const more: Schema[] = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  for (const part of schema.allOf ?? []) {
    if (!part.if) more.push(part);
    else if (part.then && part.if.properties?.["kind"]?.const === kind) more.push(part.then);
  }
  const target = schema.$ref ? root.$defs?.[schema.$ref.replace("#/$defs/", "")] : undefined;
  if (target) more.push(target);
  return [schema, ...more.flatMap((part) => every(root, part, kind, seen))];
}

/** Returns the keys permitted in a definition of a kind; null for an unknown kind. */
function membersOf(root: Schema, kind: string): Set<string> | null {
  const own = root.allOf?.find((part) => part.if?.properties?.["kind"]?.const === kind);
  const names = own?.then?.propertyNames?.enum;
  return names ? new Set(names.map(String)) : null;
}

function descriptionOf(root: Schema, schema: Schema): string {
  const target = schema.$ref ? root.$defs?.[schema.$ref.replace("#/$defs/", "")] : undefined;
  return schema.description ?? target?.description ?? "";
}
