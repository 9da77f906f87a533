// @vitest-environment node
import { expect, it } from "vitest";
import { createParser } from "./sse";

it("reads events for any division of the text", () => {
  const text =
    'retry: 1000\n: hi\n\nid: 7\nevent: change\ndata: {"a":\ndata: 1}\n\nevent: x\n\ndata: last\n\n';
  const wanted = [
    { kind: "change", data: '{"a":\n1}', id: "7" },
    { kind: "message", data: "last", id: "7" },
  ];
  expect(createParser()(text)).toEqual(wanted);
  const slowly = createParser();
  expect([...text].flatMap((letter) => slowly(letter))).toEqual(wanted);
});
