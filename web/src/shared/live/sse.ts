// Parses server-sent events from a text stream (WHATWG HTML, 9.2.6). No side effects.

export interface ServerEvent {
  kind: string;
  data: string;
  /** The last id that was seen, "" before the first. */
  id: string;
}

/** Returns a parser: it takes pieces of text and returns complete events. */
export function createParser(): (piece: string) => ServerEvent[] {
  let rest = "";
  let [kind, id] = ["", ""];
  let data: string[] = [];

  function line(text: string): ServerEvent | null {
    if (text === "") {
      const event = data.length ? { kind: kind || "message", data: data.join("\n"), id } : null;
      [kind, data] = ["", []];
      return event;
    }
    const colon = text.indexOf(":");
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (name === "event") kind = value;
    else if (name === "data") data.push(value);
    else if (name === "id") id = value;
    return null;
  }

  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    return lines.map(line).filter((event) => event !== null);
  };
}
