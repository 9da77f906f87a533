// The items of a list that is searched by typing, and how well a text matches.

export interface ListItem {
  id: string;
  title: string;
  /** Beside the title, quieter. */
  detail?: string | undefined;
  /** Other words that find the item, such as "channel". */
  aliases?: readonly string[];
  keys?: string | undefined;
  disabled?: boolean;
}
export interface ListGroup<Item extends ListItem = ListItem> {
  id: string;
  title: string;
  items: readonly Item[];
}

/** How well an item fits: 0 not at all; more for the start of the title, of a word, of an alias. */
export function scoreOf(item: ListItem, query: string): number {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return 1;
  const title = item.title.toLowerCase();
  const others = [item.detail ?? "", ...(item.aliases ?? [])].map((text) => text.toLowerCase());
  let score = 0;
  for (const word of words) {
    const found =
      scoreWord(title, word) || 0.5 * Math.max(...others.map((o) => scoreWord(o, word)));
    if (found === 0) return 0;
    score += found;
  }
  return score / words.length;
}

function scoreWord(text: string, word: string): number {
  if (text === word) return 10;
  if (text.startsWith(word)) return 8;
  const at = text.indexOf(word);
  if (at > 0) return /[\s\-_.:/(]/.test(text[at - 1] ?? "") ? 6 : 4;
  return at === 0 ? 8 : isSubsequence(text, word) ? 1 : 0;
}

/** True if the letters of the word are in this order, beginning at the start of a word. */
function isSubsequence(text: string, word: string): boolean {
  if (word.length < 2) return false;
  let at = -1;
  for (const letter of word) {
    at = text.indexOf(letter, at + 1);
    if (at < 0) return false;
  }
  return text.startsWith(word[0] ?? "");
}

/** The groups with only the items that match, best first; empty groups are left out. */
export function matching<Item extends ListItem>(
  groups: readonly ListGroup<Item>[],
  query: string,
): ListGroup<Item>[] {
  if (!query.trim()) return groups.filter((group) => group.items.length > 0);
  return groups
    .map((group) => ({
      ...group,
      items: group.items
        .map((item) => [scoreOf(item, query), item] as const)
        .filter(([score]) => score > 0)
        .sort(([one], [other]) => other - one)
        .map(([, item]) => item),
    }))
    .filter((group) => group.items.length > 0);
}
