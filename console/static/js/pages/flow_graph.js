/** The graph of flow, from producers to consumers. The lists below it say the same to those who do not see it. */
import { html, useEffect, useMemo, useRef, useState } from '../lib.js';
import { shown } from '../names.js';
import { shape } from '../parts/mark.js';
import { choose, go, route } from '../route.js';
import { COLUMNS, NODE, connected, curve, ordered, placed } from './flow_layout.js';

const TITLES = { producers: 'Producers', exchanges: 'Exchanges', queues: 'Queues', consumers: 'Consumers' };
const QUIET = new Set(['flowing', 'near', 'spills']);

export function Graph({ nodes, edges, find = '' }) {
  const frame = useRef();
  const seen = useRef(new Map());
  const width = useWidth(frame);
  const [pointed, setPointed] = useState(null);
  const columns = ordered(nodes, seen.current);
  const { places, xs, height } = placed(columns, width, edges.some((edge) => leadsBack(edge, nodes)));
  const lit = useMemo(() => litBy(nodes, edges, pointed, find), [nodes, edges, pointed, find]);
  const shownEdges = edges.filter((edge) => places.has(edge.from) && places.has(edge.to))
    .sort((one, other) => QUIET.has(other.state) - QUIET.has(one.state));
  return html`<div class="graph" ref=${frame}>
    ${width > 0 && html`<svg width=${width} height=${height} aria-hidden="true" class=${lit ? 'graph-svg has-lit' : 'graph-svg'}>
      <defs>${['flowing', 'near', 'held', 'by-hand', 'spills', 'cause'].map((state) => html`<${Arrow} state=${state} />`)}</defs>
      ${COLUMNS.map((column, index) => html`<${Title} column=${column} x=${xs[index]} more=${columns[column].more} y=${height - 8} />`)}
      ${shownEdges.map((edge) => html`<${Edge} key=${`${edge.from} ${edge.to}`} edge=${edge} places=${places} height=${height}
        lit=${lit?.has(edge.from) && lit.has(edge.to)} />`)}
      ${COLUMNS.flatMap((column) => columns[column].nodes).map((node) => html`<${Node} key=${node.id} node=${node} place=${places.get(node.id)}
        lit=${lit?.has(node.id)} point=${setPointed} />`)}
    </svg>`}
  </div>`;
}

/** What stands out: what is connected with the node under the pointer, or with those that are looked for. */
function litBy(nodes, edges, pointed, find) {
  if (pointed) return connected(pointed, edges);
  if (!find) return null;
  const part = find.toLowerCase();
  const found = nodes.filter((node) => `${node.label} ${node.detail}`.toLowerCase().includes(part));
  return new Set(found.flatMap((node) => [...connected(node.id, edges)]));
}

function useWidth(frame) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(Math.max(entry.contentRect.width, 680))));
    watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

function Arrow({ state }) {
  return html`<marker id=${`arrow-${state}`} viewBox="0 0 8 8" refX="2" refY="4" markerWidth="9" markerHeight="9" orient="auto"
    markerUnits="userSpaceOnUse"><path class="arrow is-${state}" d="M0,0.5 L7.5,4 L0,7.5 z" /></marker>`;
}

function leadsBack(edge, nodes) {
  const column = (id) => COLUMNS.indexOf(nodes.find((node) => node.id === id)?.column);
  return column(edge.to) <= column(edge.from);
}

function Title({ column, x, more, y }) {
  return html`<g><text class="graph-title" x=${x} y="18">${TITLES[column]}</text>
    ${more > 0 && html`<text class="graph-more" x=${x} y=${y}>+${more} more</text>`}</g>`;
}

function Edge({ edge, places, height, lit }) {
  const { path, middle } = curve(places.get(edge.from), places.get(edge.to), height);
  return html`<g class="edge is-${edge.state} ${QUIET.has(edge.state) ? '' : 'is-loud'} ${lit ? 'is-lit' : ''}">
    <path d=${path} marker-end=${`url(#arrow-${edge.state})`} />
    ${edge.label && html`<text x=${middle[0]} y=${middle[1]}>${shown(edge.label)}</text>`}
  </g>`;
}

function Node({ node, place, lit, point }) {
  const { x, y, width } = place;
  const clip = `clip-${place.index}-${Math.round(y)}`;
  const label = node.count > 1 && !String(node.label).includes('×') ? `${shown(node.label)} ×${node.count}` : shown(node.label);
  return html`<g class="node is-${node.state} ${QUIET.has(node.state) ? '' : 'is-loud'} ${lit ? 'is-lit' : ''}" transform=${`translate(${x},${y})`}
    onPointerEnter=${() => point(node.id)} onPointerLeave=${() => point(null)} onClick=${() => open(node)}>
    <title>${`${shown(node.label)}\n${shown(node.detail)}`}</title>
    <clipPath id=${clip}><rect x="30" y="0" width=${Math.max(width - 36, 10)} height=${NODE.height} /></clipPath>
    <rect class="node-box" width=${width} height=${NODE.height} rx="8" />
    <g transform="translate(8,15)">${shape(node.state)}</g>
    <g clip-path=${`url(#${clip})`}>
      <text class="node-label" x="32" y="19">${label}</text><text class="node-detail" x="32" y="36">${shown(node.detail)}</text>
    </g>
  </g>`;
}

/** A queue's page; for all others, the lists below show what has to do with them. */
function open(node) {
  if (node.column === 'queues' && node.vhost !== undefined) go(['queue', node.vhost, node.name ?? node.label]);
  else choose({ find: route.get().query.find === node.label ? '' : node.label });
}
