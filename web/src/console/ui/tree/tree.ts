// The rows of a tree that are in sight: a flat list, for virtual rows and for the keys.

export interface TreeNode {
  id: string;
  /** Typing jumps to it. */
  name: string;
  children: readonly TreeNode[];
}
export interface TreeRow<Node extends TreeNode> {
  node: Node;
  level: number;
  position: number;
  siblings: number;
  parent: string | null;
}

/** The nodes whose ancestors are all open, in their order. */
export function rowsOf<Node extends TreeNode>(
  roots: readonly Node[],
  open: ReadonlySet<string>,
): TreeRow<Node>[] {
  const rows: TreeRow<Node>[] = [];
  const walk = (nodes: readonly Node[], level: number, parent: string | null): void => {
    for (const [index, node] of nodes.entries()) {
      rows.push({ node, level, position: index + 1, siblings: nodes.length, parent });
      if (open.has(node.id)) walk(node.children as readonly Node[], level + 1, node.id);
    }
  };
  walk(roots, 1, null);
  return rows;
}

/** The ids of the ancestors of a node, so that it can be shown. */
export function pathTo(roots: readonly TreeNode[], id: string): string[] {
  for (const node of roots) {
    if (node.id === id) return [];
    const below = pathTo(node.children, id);
    if (below.length > 0 || node.children.some((child) => child.id === id))
      return [node.id, ...below];
  }
  return [];
}
