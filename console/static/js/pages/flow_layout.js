/** Where the nodes of the graph are: four columns, in which a node keeps its place. */

export const COLUMNS = ['producers', 'exchanges', 'queues', 'consumers'];
export const NODE = { height: 46, step: 60, top: 36 };
const MOST = 12;
const GAP = { least: 48, part: 0.09 };
const WIDEST = 250;
const EDGE = 2;

/** Order nodes: those seen before first, as they were; of too many, those that flow are left out. */
export function ordered(nodes, seen) {
  for (const node of nodes) if (!seen.has(node.id)) seen.set(node.id, seen.size);
  const found = {};
  for (const column of COLUMNS) {
    const all = nodes.filter((node) => node.column === column).sort((one, other) => seen.get(one.id) - seen.get(other.id));
    const lit = all.filter((node) => node.state !== 'flowing');
    const rest = all.filter((node) => node.state === 'flowing').slice(0, Math.max(MOST - lit.length, 0));
    const kept = new Set([...lit.slice(0, MOST), ...rest]);
    found[column] = { nodes: all.filter((node) => kept.has(node)), more: all.length - kept.size };
  }
  return found;
}

/** The place of each node in a picture of some width, and the height of the picture. */
export function placed(columns, full, hasArcs) {
  const width = full - 2 * EDGE;
  const gap = Math.max(GAP.least, width * GAP.part);
  const size = Math.min(WIDEST, (width - 3 * gap) / 4);
  const between = (width - 4 * size) / 3;
  const most = Math.max(1, ...COLUMNS.map((column) => columns[column].nodes.length));
  const places = new Map();
  COLUMNS.forEach((column, index) => {
    const spare = ((most - columns[column].nodes.length) * NODE.step) / 2;
    columns[column].nodes.forEach((node, row) => {
      const y = NODE.top + Math.min(spare, NODE.step) + row * NODE.step;
      places.set(node.id, { x: EDGE + index * (size + between), y, index, width: size });
    });
  });
  const below = hasArcs ? NODE.step : 0;
  return { places, xs: COLUMNS.map((_, index) => EDGE + index * (size + between)), height: NODE.top + most * NODE.step + below + 20 };
}

/** The line of an edge; one that leads back is an arc below the columns. */
export function curve(from, to, height) {
  const y1 = from.y + NODE.height / 2;
  const y2 = to.y + NODE.height / 2;
  if (to.index <= from.index) {
    const [x1, x2, low] = [from.x + from.width / 2, to.x + to.width / 2, height - 14];
    const [b1, b2] = [from.y + NODE.height, to.y + NODE.height];
    return { path: `M${x1},${b1} C${x1},${low} ${x1},${low} ${(x1 + x2) / 2},${low} S${x2},${low} ${x2},${b2}`, middle: [(x1 + x2) / 2, low - 5] };
  }
  const [x1, x2] = [from.x + from.width, to.x - 7];
  const bend = (x2 - x1) / 2;
  return { path: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, middle: [(x1 + x2) / 2, (y1 + y2) / 2 - 7] };
}

/** The nodes from which, or to which, edges lead from a node. */
export function connected(id, edges) {
  const found = new Set([id]);
  for (const [near, far] of [['from', 'to'], ['to', 'from']]) {
    const next = [id];
    const met = new Set(next);
    while (next.length) {
      const at = next.pop();
      for (const edge of edges) {
        if (edge[near] !== at || met.has(edge[far])) continue;
        met.add(edge[far]);
        found.add(edge[far]);
        next.push(edge[far]);
      }
    }
  }
  return found;
}
